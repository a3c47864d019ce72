"""The forms that tools come in, recognised by content: lists of MCP, OpenAI, Anthropic and Gemini.

OpenAPI has a module of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from bench.base.text import one_line
from bench.importing.tools.openapi import is_openapi, operations
from bench.importing.tools.references import References
from bench.importing.tools.schemas import from_openapi
from bench.importing.tools.tool import DocumentTool, Skipped, Steps, name_fault, read_tool

Form = Literal["mcp", "openai", "anthropic", "gemini", "openapi"]
FORMS: tuple[Form, ...] = get_args(Form)

#: Where each form has the input schema.
_SCHEMAS: dict[Form, tuple[str, ...]] = {
    "mcp": ("inputSchema", "input_schema"),
    "anthropic": ("input_schema",),
    "openai": ("parameters",),
    "gemini": ("parametersJsonSchema", "parameters_json_schema", "parameters"),
}
_DECLARATIONS = ("functionDeclarations", "function_declarations")


class NoCatalogueError(Exception):
    """A document is in no known form; the message says what it is, without a full stop."""


def tools_of(
    value: Any, form: Form | None = None, references: References | None = None
) -> Iterator[DocumentTool | Skipped]:
    """The tools of a document, in its order, and what is not taken over.

    Args:
        value: JSON data.
        form: the form to read it as; None to recognise the form of each tool.
        references: what the references of an OpenAPI document stand for; None for those inside it alone.

    Raises:
        NoCatalogueError: it is no catalogue, or none of this form.
    """
    if form == "openapi" or (form is None and is_openapi(value)):
        if not isinstance(value, dict) or not isinstance(value.get("paths"), dict):
            raise NoCatalogueError("it is no OpenAPI document: it has no `paths`")
        yield from operations(references or References(value))
        return
    entries = _list_tools(value, "", (), form)
    if entries is None and isinstance(value, dict) and isinstance(value.get("mcpServers"), dict):
        raise NoCatalogueError(
            "it names MCP servers, which a SOURCE never starts; --mcp-config asks them for their tools"
        )
    if entries is None:
        raise NoCatalogueError(
            "it is no list of tools of MCP, OpenAI, Anthropic or Gemini, and no OpenAPI document"
            if form is None
            else f"it is no list of tools in the form {form}"
        )
    for raw, server, steps, tool_form in entries:
        yield _tool(raw, server, steps, tool_form)


def is_single(value: Any) -> bool:
    """Whether a document is one tool, as in a folder with a file for each."""
    return isinstance(value, dict) and _is_tool(value, alone=True)


#: A value that should be a tool, its server, its place, and the form to read it as.
_Raw = tuple[Any, str, Steps, Form | None]


def _list_tools(value: Any, server: str, steps: Steps, form: Form | None) -> list[_Raw] | None:
    """The tools somewhere in a value; None if it is no catalogue. Depth is that of the document, which is bounded."""
    if isinstance(value, list):
        entries: list[_Raw] = []
        known = not value
        for number, item in enumerate(value):
            inner = _item(item, server, (*steps, number), form)
            known = known or inner is not None
            entries += [(item, server, (*steps, number), form)] if inner is None else inner
        return entries if known else None
    if not isinstance(value, dict):
        return None
    if "jsonrpc" in value and isinstance(value.get("error"), dict):
        raise NoCatalogueError(f"it is an error of the server: {one_line(str(value['error'].get('message')), 120)}")
    if "jsonrpc" in value and "result" in value:
        return _list_tools(value["result"], server, (*steps, "result"), form)
    crawled = _read_crawled_server(value, steps, form)
    if crawled is not None:
        return crawled
    if _is_tool(value, alone=True):
        return [(value, server, steps, form)]
    for key in (*_DECLARATIONS, "functions"):
        if isinstance(value.get(key), list):
            list_form: Form = form or ("gemini" if key in _DECLARATIONS else "openai")
            return [(item, server, (*steps, key, n), list_form) for n, item in enumerate(value[key])]
    named = _server(value) or server
    tools = value.get("tools")
    if isinstance(tools, list):
        entries = []
        for number, item in enumerate(tools):
            place = (*steps, "tools", number)
            inner = _item(item, named, place, form)
            entries += [(item, named, place, form)] if inner is None else inner
        return entries
    if isinstance(tools, dict):
        return _servers(tools, (*steps, "tools"), form)
    return _servers(value, steps, form)


def _item(item: Any, server: str, steps: Steps, form: Form | None) -> list[_Raw] | None:
    if isinstance(item, dict) and _is_tool(item, alone=False):
        return [(item, server, steps, form)]
    return _list_tools(item, server, steps, form) if isinstance(item, dict | list) else None


def _servers(value: dict[str, Any], steps: Steps, form: Form | None) -> list[_Raw] | None:
    """An object of servers by name, each a list of tools or an object with `tools`; None if it is none."""
    entries: list[_Raw] = []
    for name, record in value.items():
        tools = record.get("tools") if isinstance(record, dict) else record
        if not isinstance(tools, list) or not all(isinstance(item, dict) for item in tools):
            return None
        server = (_server(record) if isinstance(record, dict) else "") or name
        inner = _list_tools(
            tools, server, (*steps, name, "tools") if isinstance(record, dict) else (*steps, name), form
        )
        if inner is None:
            return None
        entries += inner
    return entries if value else None


def _read_crawled_server(value: dict[str, Any], steps: Steps, form: Form | None) -> list[_Raw] | None:
    """A server of Toucan: the answer of the server if there is one, else what its page on Smithery says."""
    about = value.get("metadata")
    if not isinstance(about, dict) or not isinstance(about.get("server_info_crawled"), dict):
        return None
    page, answer = about["server_info_crawled"], about.get("remote_server_response")
    server = next((name for name in (page.get("author"), page.get("name")) if isinstance(name, str) and name), "")
    place = (*steps, "metadata", "server_info_crawled", "tools")
    tools = page.get("tools")
    if isinstance(answer, dict) and isinstance(answer.get("tools"), list) and answer["tools"]:
        place, tools = (*steps, "metadata", "remote_server_response", "tools"), answer["tools"]
    if not isinstance(tools, list):
        return None
    return [(item, server, (*place, number), form or "mcp") for number, item in enumerate(tools)]


def _server(record: Mapping[str, Any]) -> str:
    """The server that a record names; empty if it names none."""
    info = record.get("serverInfo")
    names = (
        *(record.get(key) for key in ("server_name", "serverName", "server")),
        info.get("name") if isinstance(info, dict) else None,
        record.get("name"),
    )
    return next((name for name in names if isinstance(name, str) and name and not name_fault(name)), "")


def _is_tool(value: Mapping[str, Any], *, alone: bool) -> bool:
    """Whether an object is a tool. One that is alone must have a schema: much else has a name and a description."""
    if value.get("type") == "function" and isinstance(value.get("function"), dict):
        return True
    if "tools" in value or not isinstance(value.get("name"), str):
        return False
    schemas = any(key in value for keys in _SCHEMAS.values() for key in keys)
    return schemas or (not alone and ("description" in value or isinstance(value.get("type"), str)))


def _tool(raw: Any, server: str, steps: Steps, form: Form | None) -> DocumentTool | Skipped:
    if not isinstance(raw, dict):
        return Skipped(steps, "it is no object")
    if "tools" in raw:
        return Skipped(steps, "its `tools` are no list of tools")
    if form is None and isinstance(raw.get("name"), str) and not _is_tool(raw, alone=False):
        return Skipped(steps, "it has neither a description nor an input schema")
    form = form or _form(raw)
    if form == "openai" and isinstance(raw.get("function"), dict):
        raw, steps = raw["function"], (*steps, "function")
    schema = next((raw[key] for key in _SCHEMAS[form] if raw.get(key) is not None), None)
    returns = next((raw[key] for key in ("outputSchema", "output_schema") if raw.get(key) is not None), None)
    if form == "gemini":
        # `parameters` and `response` are Schema Objects, as of OpenAPI 3.0; the others are JSON Schema.
        if schema is raw.get("parameters"):
            schema = from_openapi(schema, lambda target: target)
        returns = next((raw[key] for key in ("responseJsonSchema", "response_json_schema") if raw.get(key)), None)
        returns = returns or from_openapi(raw.get("response"), lambda target: target)
    if schema is None and form == "mcp" and isinstance(raw.get("parameters"), list):
        schema = _from_list(raw["parameters"])
    if schema is None and any(raw.get(key) is not None for keys in _SCHEMAS.values() for key in keys):
        return Skipped(steps, f"it has no {_SCHEMAS[form][0]}, so it is not of the form {form}")
    return read_tool(
        raw.get("name"),
        raw.get("description"),
        title=raw.get("title"),
        schema=schema,
        returns=returns,
        annotations=raw.get("annotations"),
        deprecated=raw.get("deprecated") is True,
        place=steps,
        server=server,
    )


def _form(raw: Mapping[str, Any]) -> Form:
    if raw.get("type") == "function" or ("parameters" in raw and "inputSchema" not in raw):
        return "openai"
    if "parametersJsonSchema" in raw or "parameters_json_schema" in raw:
        return "gemini"
    return "anthropic" if "input_schema" in raw else "mcp"


def _from_list(parameters: list[Any]) -> dict[str, Any]:
    """An object schema out of a list of parameters with name, type, required and description, as Smithery has them."""
    named = [each for each in parameters if isinstance(each, dict) and isinstance(each.get("name"), str)]
    keys = ("type", "description", "enum", "default")
    properties = {each["name"]: {key: each[key] for key in keys if each.get(key) is not None} for each in named}
    required = [each["name"] for each in named if each.get("required") is True]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}
