"""Find the tools in documents of MCP, OpenAI, Anthropic and Gemini, recognised by their content. `catalogue` calls it.

The module `openapi` reads OpenAPI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, get_args

from bench.base.errors import DataError
from bench.base.strict_json import loads
from bench.base.text import one_line
from bench.importing.dialects import words
from bench.importing.reading import check_json
from bench.importing.tools.clients import configured_servers
from bench.importing.tools.openapi import is_openapi, operations
from bench.importing.tools.references import References
from bench.importing.tools.schemas import from_openapi
from bench.importing.tools.tool import HINTS, DocumentTool, Skipped, Steps, annotations_of, name_fault, read_tool

Form = Literal["mcp", "openai", "anthropic", "gemini", "openapi"]
FORMS: tuple[Form, ...] = get_args(Form)

_SCHEMAS: dict[str, tuple[str, ...]] = {form: words("tools", "schemas", form) for form in FORMS if form != "openapi"}
_ANY_SCHEMA = tuple({key: None for keys in _SCHEMAS.values() for key in keys})
_NAMES, _DESCRIPTIONS, _SERVERS, _SERVER_OBJECTS, _OF_SERVERS, _WRAPPERS = (
    words("tools", key) for key in ("name", "description", "servers", "server_objects", "of_servers", "wrappers")
)
_CALLS, _OTHER_LISTS, _CARD_KEYS, _CARD_TYPES = (
    frozenset(words("tools", key)) for key in ("calls", "other_lists", "card_keys", "card_types")
)
#: Fields of a tool that are read, or known to be irrelevant to retrievers.
_READ = frozenset({*_NAMES, *_DESCRIPTIONS, *_SERVERS, *_SERVER_OBJECTS, *_ANY_SCHEMA})
_READ |= {*words("tools", "other_schemas"), *words("tools", "ignored"), *HINTS}
_DECLARATIONS = ("functionDeclarations", "function_declarations")
#: The remark about a record that describes a server.
_CARD = "it describes a server and lists none of its tools"


class NoCatalogueError(Exception):
    """A document has no known form; the message says what it is, without a full stop."""


def tools_of(
    value: Any, form: Form | None = None, references: References | None = None, *, is_line: bool = False
) -> Iterator[DocumentTool | Skipped]:
    """The tools of a document, in its order, and the parts that are left out.

    Args:
        value: JSON data.
        form: its form; None to recognise the form of each tool.
        references: resolves the references of an OpenAPI document; None: only those within it.
        is_line: whether it is a line of JSON Lines, which is read like an item of a list.

    Raises:
        NoCatalogueError: it is not a catalogue, or not of this form.
    """
    if form == "openapi" or (form is None and is_openapi(value)):
        if not isinstance(value, dict) or not isinstance(value.get("paths"), dict):
            raise NoCatalogueError("it is not an OpenAPI document: it has no `paths`")
        yield from operations(references or References(value))
        return
    walker = _Walker(form)
    entries = walker.item(value, "", ()) if is_line else walker.walk(value, "", ())
    some = any(isinstance(entry, tuple) and isinstance(entry[0], dict) for entry in entries or [])
    if not some and configured_servers(value) is not None:
        raise NoCatalogueError(
            "it names MCP servers, which a SOURCE never starts; --mcp-config asks them for their tools"
        )
    if entries is None:
        raise NoCatalogueError(
            "it is not a list of tools of MCP, OpenAI, Anthropic or Gemini, and not an OpenAPI document"
            if form is None
            else f"it is not a list of tools in the form {form}"
        )
    for entry in entries:
        tool = entry if isinstance(entry, Skipped) else _tool(*entry)
        if isinstance(tool, DocumentTool) and not isinstance(entry, Skipped):
            function = entry[0].get("function")
            fields = (*entry[0], *(function if isinstance(function, dict) else ()))
            tool = replace(tool, unread=tuple(name for name in fields if name not in _READ))
        yield tool


def is_single(value: Any) -> bool:
    """Whether a document is one tool, as in a folder with one file per tool."""
    return isinstance(value, dict) and _is_tool(value, alone=True)


#: A value that should be a tool, its server, its place and its form.
_Raw = tuple[Any, str, Steps, Form | None]
_Entries = list[_Raw | Skipped]


@dataclass(frozen=True)
class _Walker:
    """Finds the tools anywhere in a value. The depth of the recursion is that of the document, which is bounded.

    Attributes:
        form: the form of the tools; None to recognise it.
    """

    form: Form | None

    def _raw(self, items: Sequence[Any], server: str, steps: Steps, form: Form | None = None) -> _Entries:
        return [(item, server, (*steps, number), self.form or form) for number, item in enumerate(items)]

    def item(self, item: Any, server: str, steps: Steps) -> _Entries | None:
        """An entry of a list as a tool, or the tools in it."""
        if isinstance(item, dict) and _is_tool(item, alone=False):
            return [(item, server, steps, self.form)]
        return self.walk(item, server, steps)

    def walk(self, value: Any, server: str, steps: Steps) -> _Entries | None:
        """The tools in a value; None if it is not a catalogue."""
        if isinstance(value, list):
            return self._list(value, server, steps)
        if not isinstance(value, dict):
            return None
        if "jsonrpc" in value and isinstance(value.get("error"), dict):
            raise NoCatalogueError(f"it is an error of the server: {one_line(str(value['error'].get('message')), 120)}")
        if "jsonrpc" in value and "result" in value:
            return self.walk(value["result"], server, (*steps, "result"))
        crawled = self._crawled_server(value, steps)
        if crawled is not None:
            return crawled
        if _is_tool(value, alone=True):
            return [(value, server, steps, self.form)]
        for key in (*_DECLARATIONS, "functions"):
            if isinstance(value.get(key), list):
                return self._raw(value[key], server, (*steps, key), "gemini" if key in _DECLARATIONS else "openai")
        named = _server(value) or server
        tool = value.get("tool")
        if isinstance(tool, dict) and _is_tool(tool, alone=False):
            return [(tool, _stated_server(tool) or named, (*steps, "tool"), self.form)]
        listed = self._response(value, steps)
        if listed is not None:
            return listed
        tools, place = value.get("tools"), (*steps, "tools")
        if isinstance(tools, list):
            inner = self._list(tools, named, place)
            return self._raw(tools, named, place) if inner is None else inner
        if isinstance(tools, dict):
            return self._servers(tools, place) or self._by_name(tools, named, place)
        # In an object of servers by name, one may be called `data`.
        if sum(map(_has_tools, value.values())) < 2:
            for key in (*_OF_SERVERS, *_WRAPPERS):
                if isinstance(value.get(key), list | dict) and key in _OF_SERVERS:
                    return self._records(value[key], (*steps, key))
                if isinstance(value.get(key), list | dict):
                    return self.walk(value[key], server, (*steps, key))
        if _is_card(value):
            return [Skipped(steps, _CARD)]
        return self._servers(value, steps) or self._by_name(value, server, steps)

    def _list(self, items: list[Any], server: str, steps: Steps) -> _Entries | None:
        """The tools of a list; None if it has entries, but none is or contains a tool."""
        # Beside servers with tools, an entry with only a name and a description is also a server.
        of_servers = any(isinstance(item, dict) and isinstance(item.get("tools"), list | dict) for item in items)
        entries: _Entries = []
        known = not items
        for number, item in enumerate(items):
            place = (*steps, number)
            if of_servers and isinstance(item, dict) and not item.keys() & {"tools", "type"} and not _has_schema(item):
                inner: _Entries | None = [Skipped(place, _CARD)]
            else:
                inner = self.item(item, server, place)
            known = known or inner is not None
            entries += [(item, server, place, self.form)] if inner is None else inner
        return entries if known else None

    def _servers(self, value: dict[str, Any], steps: Steps) -> _Entries | None:
        """The tools of servers by name, each a list of tools or an object with `tools`; None for another value.

        Other entries beside objects with `tools` are ignored.
        """
        lists = {name for name, each in value.items() if isinstance(each, list) and name not in _OTHER_LISTS}
        records = {
            name for name, each in value.items() if isinstance(each, dict) and isinstance(each.get("tools"), list)
        }
        if not records and len(lists) < len(value):
            return None
        entries: _Entries = []
        for name, each in value.items():
            if name in records:
                entries += self.walk(each["tools"], _server(each) or name, (*steps, name, "tools")) or []
            elif name in lists and all(isinstance(item, dict) for item in each):
                entries += self.walk(each, name, (*steps, name)) or []
        return entries or None

    def _by_name(self, value: dict[str, Any], server: str, steps: Steps) -> _Entries | None:
        """The tools of an object of tools by name, each with an input schema; None for another value."""
        if not all(isinstance(each, dict) and isinstance(_first(each, _ANY_SCHEMA), dict) for each in value.values()):
            return None
        return [({"name": name, **each}, server, (*steps, name), self.form) for name, each in value.items()] or None

    def _records(self, value: Any, steps: Steps) -> _Entries:
        """The tools of servers in a list, or in an object by name; servers without tools are reported."""
        entries: _Entries = []
        for key, record in value.items() if isinstance(value, dict) else enumerate(value):
            inner = self.walk(record, key if isinstance(key, str) else "", (*steps, key))
            entries += [Skipped((*steps, key), _CARD)] if inner is None else inner
        return entries

    def _response(self, value: dict[str, Any], steps: Steps) -> _Entries | None:
        """The tools of MCP servers that an answer of OpenAI's Responses API lists; None if it lists none.

        Such an answer also has the `tools` of the request: functions and servers.
        """
        listed: dict[str, list[Any]] = {}
        for key, kind in (("output", "mcp_list_tools"), ("tools", "function")):
            items = value[key] if isinstance(value.get(key), list) else []
            listed[key] = [(number, item) for number, item in enumerate(items) if _type(item) == kind]
        if not listed["output"]:
            return None
        inner = [self.item(item, "", (*steps, key, n)) or [] for key, items in listed.items() for n, item in items]
        return list(chain.from_iterable(inner))

    def _crawled_server(self, value: dict[str, Any], steps: Steps) -> _Entries | None:
        """The tools of a server of Toucan: from its answer if there is one, else from its page on Smithery."""
        about = value.get("metadata")
        if not isinstance(about, dict) or not isinstance(about.get("server_info_crawled"), dict):
            return None
        page, answer = about["server_info_crawled"], about.get("remote_server_response")
        server = next((name for name in (page.get("author"), page.get("name")) if isinstance(name, str) and name), "")
        for key, source in (("remote_server_response", answer), ("server_info_crawled", page)):
            tools = source.get("tools") if isinstance(source, dict) else None
            if isinstance(tools, list) and (tools or source is page):
                return self._raw(tools, server, (*steps, "metadata", key, "tools"), "mcp")
        return None


def _has_tools(record: Any) -> bool:
    """Whether a value is a list of tools, or an object with such a list."""
    tools = record.get("tools") if isinstance(record, dict) else record
    return isinstance(tools, list) and any(isinstance(item, dict) and _is_tool(item, alone=False) for item in tools)


def _type(item: Any) -> Any:
    return item.get("type") if isinstance(item, dict) else None


def _stated_server(record: Mapping[str, Any]) -> str:
    """The server that a tool or a list names; empty if it names none."""
    objects = [record[key] for key in _SERVER_OBJECTS if isinstance(record.get(key), dict)]
    names = [
        *(record.get(key) for key in _SERVERS),
        *(each.get(key) for each in objects for key in ("name", "server_name")),
    ]
    return next((name for name in names if isinstance(name, str) and name and not name_fault(name)), "")


def _server(record: Mapping[str, Any]) -> str:
    """The server of a record, by any of its names; empty if it has none."""
    name = record.get("name")
    return _stated_server(record) or (name if isinstance(name, str) and not name_fault(name) else "")


def _first(raw: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((raw[key] for key in keys if raw.get(key) is not None), None)


def _has_schema(value: Mapping[str, Any]) -> bool:
    return not value.keys().isdisjoint(_ANY_SCHEMA) or _is_list_of_parameters(value.get("arguments"))


def _is_list_of_parameters(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and isinstance(each.get("name"), str) and "type" in each for each in value)
    )


def _is_card(value: Mapping[str, Any]) -> bool:
    """Whether an object describes a server, not a tool."""
    if _has_schema(value) or "in" in value:
        return False
    about, name = value.get("$schema"), value.get("name")
    return (
        not value.keys().isdisjoint(_CARD_KEYS)
        or (isinstance(value.get("type"), str) and value["type"] in _CARD_TYPES)
        or (isinstance(about, str) and ("server.schema" in about or "server-card" in about))
        # The MCP registry uses names such as `org.example/files`.
        or (isinstance(name, str) and "/" in name and "version" in value)
    )


def _is_tool(value: Mapping[str, Any], *, alone: bool) -> bool:
    """Whether an object is a tool. `alone`, it must have a schema: many objects have a name and a description."""
    if isinstance(value.get("function"), dict) and (value.get("type") == "function" or "name" in value["function"]):
        return True
    if "tools" in value or not isinstance(_first(value, _NAMES), str):
        return False
    if _has_schema(value):
        return True
    # A parameter of OpenAPI has a name and a description, too, and the field `in`.
    kind = value.get("type")
    if isinstance(kind, str) and kind in _CALLS:
        return False
    named = _first(value, _DESCRIPTIONS) is not None or isinstance(kind, str)
    return not alone and named and "in" not in value and not _is_card(value)


def _tool(raw: Any, server: str, steps: Steps, form: Form | None) -> DocumentTool | Skipped:
    if not isinstance(raw, dict):
        return Skipped(steps, "it is not an object")
    if "tools" in raw:
        return Skipped(steps, "its `tools` are no list of tools")
    if _is_card(raw):
        return Skipped(steps, _CARD)
    if form is None and isinstance(_first(raw, _NAMES), str) and not _is_tool(raw, alone=False):
        return Skipped(steps, "it has neither a description nor an input schema")
    form = form or _form(raw)
    outside: Mapping[str, Any] = {}
    if form == "openai" and isinstance(raw.get("function"), dict):
        outside, raw, steps = raw, raw["function"], (*steps, "function")
    schema = _first(raw, _SCHEMAS[form])
    returns = _first(raw, ("outputSchema", "output_schema"))
    if form == "gemini":
        # `parameters` and `response` are Schema Objects of OpenAPI 3.0; the others are JSON Schema.
        if schema is raw.get("parameters"):
            schema = from_openapi(schema, lambda target: target)
        returns = next((raw[key] for key in ("responseJsonSchema", "response_json_schema") if raw.get(key)), None)
        returns = returns or from_openapi(raw.get("response"), lambda target: target)
    if schema is None and form == "mcp":
        lists = (raw[key] for key in ("arguments", "parameters") if isinstance(raw.get(key), list))
        others = (raw[key] for key in words("tools", "other_schemas") if isinstance(raw.get(key), dict))
        schema = next(chain(lists, others), None)
    if isinstance(schema, str):
        schema = _from_text(schema)
    if isinstance(schema, list):
        schema = _from_list(schema, optional=raw.get("arguments") is not schema)
    if schema is None and _first(raw, _ANY_SCHEMA) is not None:
        return Skipped(steps, f"it has no {_SCHEMAS[form][0]}, so it is not of the form {form}")
    return read_tool(
        _first(raw, _NAMES),
        _first(raw, _DESCRIPTIONS),
        title=raw.get("title"),
        schema=schema,
        returns=returns,
        annotations=annotations_of(raw, outside),
        deprecated=raw.get("deprecated") is True,
        place=steps,
        server=_stated_server(raw) or _stated_server(outside) or server,
    )


def _form(raw: Mapping[str, Any]) -> Form:
    if raw.get("type") == "function" or isinstance(raw.get("function"), dict):
        return "openai"
    if "parameters" in raw and "inputSchema" not in raw and not isinstance(raw["parameters"], list):
        return "openai"
    if "parametersJsonSchema" in raw or "parameters_json_schema" in raw:
        return "gemini"
    return "anthropic" if "input_schema" in raw else "mcp"


def _from_text(text: str) -> Any:
    """A schema as JSON in a text, as in some tables; the text if it is not JSON."""
    try:
        return check_json(loads(text), "")
    except (ValueError, RecursionError, DataError):
        return text


def _from_list(parameters: list[Any], *, optional: bool) -> dict[str, Any]:
    """Convert a list of parameters with name, type and description to an object schema; other entries are ignored.

    Smithery's parameters say whether they are required, Docker's `arguments` whether they are optional. `optional`
    applies to a parameter that says neither, if no parameter of the list has `required`.
    """
    named = [each for each in parameters if isinstance(each, dict) and isinstance(each.get("name"), str)]
    optional = optional or any("required" in each for each in named)
    keys = ("type", "enum", "default", "items")
    properties, required = {}, []
    for each in named:
        about = {"type": each.get("type"), "description": _first(each, _DESCRIPTIONS), **{k: each.get(k) for k in keys}}
        properties[each["name"]] = {key: value for key, value in about.items() if value is not None}
        if each["required"] is True if "required" in each else not each.get("optional", optional):
            required.append(each["name"])
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}
