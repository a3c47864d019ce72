"""Read OpenAPI 3.0 and 3.1 and Swagger 2: one tool per operation. `forms` calls it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.importing.tools.references import LostReferenceError, References
from bench.importing.tools.schemas import MOST_HOPS, Fields, fields_of, from_openapi
from bench.importing.tools.tool import MOST_SCHEMA, DocumentTool, Skipped, Steps, read_tool
from bench.show.numbers import several

_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
#: Maximum characters of a response schema: if all objects of an API refer to each other, it is the whole document.
_MOST_RESPONSE = 256 << 10
#: Maximum references of all operations together to schemas.
_MOST_REFERRED = 10_000_000


def is_openapi(value: Any) -> bool:
    """Whether a document declares itself OpenAPI or Swagger."""
    return isinstance(value, dict) and any(isinstance(value.get(key), str) for key in ("openapi", "swagger"))


def operations(references: References) -> Iterator[DocumentTool | Skipped]:
    """The operations of a document as tools, in its order, and the parts that are left out.

    A tool's name is its `operationId`, else the method and the path. Its parent is its first tag, else the first
    segment of the path. Parameters and fields of the request body are the properties of one schema; the schemas that it
    refers to are in its `$defs`, so that recursive schemas remain recursive.

    A body with alternatives has the fields of all; fields that every alternative requires are required, even if the
    body is not. A body that is not an object is the property `body`. If a name is taken, its place becomes a prefix:
    `body_name` beside the parameter `name`.

    Raises:
        UsageError: a referenced file is too large, or there are too many.
        DataError: a referenced file is malformed, or the operations refer to too many schemas.
        UnavailableError: a referenced file is YAML and PyYAML is not installed.
    """
    schemas = _Schemas(references)
    paths = schemas.follow(_member(references.root, "paths"))
    if not isinstance(paths, dict):
        yield Skipped(("paths",), "the document has no `paths`")
        return
    wordless: list[str] = []
    for path in paths:
        place: Steps = ("paths", path)
        item = schemas.chain(_member(paths, path))
        if item is None or not all(isinstance(part, dict) for part in item):
            fault = "the path is not an object" if item else "the path is a reference that leads nowhere"
            yield from (Skipped(place, text) for text in schemas.new_losses("the path has no operations") or [fault])
            continue
        for method in dict.fromkeys(key for part in item for key in part if key in _METHODS):
            for result in _operation(schemas, path, method, item, (*place, method)):
                if isinstance(result, DocumentTool) and not (result.tool.description or result.tool.title).strip():
                    wordless.append(f"{method.upper()} {path}")
                yield result
    if wordless:
        count = several(len(wordless), "operation has", "operations have")
        yield Skipped(
            ("paths",),
            f"{count} no text, neither a summary nor a description; the first is {one_line(wordless[0], 120)}",
        )


def _member(value: Any, key: str) -> Any:
    """A member of an object; None without one."""
    return value.get(key) if isinstance(value, dict) else None


def _get(chain: Sequence[Any], key: str) -> Any:
    """A member of an object that several parts describe: that of the first part that has it; None without one."""
    return next((part[key] for part in chain if part.get(key) is not None), None)


def _operation(
    schemas: _Schemas, path: str, method: str, item: Sequence[Any], place: Steps
) -> Iterator[DocumentTool | Skipped]:
    operation = schemas.chain(_get(item, method))
    if operation is None or not all(isinstance(part, dict) for part in operation):
        fault = "the operation is not an object" if operation else "the operation is a reference that leads nowhere"
        yield from (Skipped(place, text) for text in schemas.new_losses("there is no operation") or [fault])
        return
    name = _get(operation, "operationId")
    tags = _get(operation, "tags")
    parent = tags[0] if isinstance(tags, list) and tags and isinstance(tags[0], str) else ""
    if not parent.strip():
        parent = next((step for step in path.split("/") if step and not step.startswith("{")), "")
    summary = schemas.text(_get(operation, "summary")) or schemas.text(_get(item, "summary"))
    description = schemas.text(_get(operation, "description")) or summary or schemas.text(_get(item, "description"))
    schema, fault = schemas.close(_schema(operation, item, schemas), MOST_SCHEMA)
    returns, too_long = schemas.close(_response(operation, schemas), _MOST_RESPONSE)
    if fault:
        yield Skipped(place, f"the input schema is {fault}")
    else:
        yield read_tool(
            name if name else f"{method.upper()} {path}",
            description,
            title=summary,
            schema=schema,
            returns=returns,
            annotations={"method": method.upper(), "path": path},
            deprecated=_get(operation, "deprecated") is True,
            place=place,
            parent=parent,
        )
        if too_long:
            yield Skipped((*place, "responses"), f"the response schema is {too_long}; the tool has none")
    yield from (Skipped(place, reason) for reason in schemas.new_losses("any value is allowed there"))


class _Schemas:
    """The referenced schemas of a document, each converted once, by their names under `$defs`."""

    def __init__(self, references: References) -> None:
        self._references = references
        #: Canonical reference -> `#/$defs/NAME`.
        self._names: dict[str, str] = {}
        #: `#/$defs/NAME` -> the schema.
        self._targets: dict[str, Any] = {}
        #: `#/$defs/NAME` -> the converted schema, the references in it, and its size.
        self._converted: dict[str, tuple[Any, list[str], int]] = {}
        #: Unresolvable reference -> why; and those that are not yet reported.
        self._lost: dict[str, str] = {}
        self._untold: dict[str, None] = {}
        self._referred = 0

    def convert(self, schema: Any) -> Any:
        """Convert a Schema Object to JSON Schema; its references become names under `$defs`."""
        return from_openapi(schema, self._name)

    def _name(self, reference: str) -> str | None:
        """The new target of a reference; None if it cannot be resolved."""
        found = self._resolve(reference)
        if found is None:
            return None
        key, schema = found
        if key not in self._names:
            # A name without characters that pointers or URLs must escape.
            file, _, fragment = key.partition("#")
            text = fragment.rpartition("/")[2] if "/" in fragment else Path(file or self._references.name).stem
            base = re.sub(r"[^A-Za-z0-9._-]+", ".", text) or "root"
            number, name = 2, base
            while f"#/$defs/{name}" in self._targets:
                name, number = f"{base}-{number}", number + 1
            self._names[key] = f"#/$defs/{name}"
            self._targets[f"#/$defs/{name}"] = schema
        return self._names[key]

    def _resolve(self, reference: str) -> tuple[str, Any] | None:
        try:
            return self._references.resolve(reference)
        except LostReferenceError as error:
            self._lose(reference, str(error))
            return None

    def _lose(self, reference: str, reason: str) -> None:
        if reference not in self._lost:
            self._untold[reference] = None
        self._lost.setdefault(reference, reason)

    def chain(self, value: Any) -> list[Any] | None:
        """An object and, if it is a reference, the objects it leads to, in turn; None if one cannot be resolved."""
        chain = [value]
        while isinstance(reference := _member(chain[-1], "$ref"), str):
            after = self._resolve(reference)
            if after is not None and len(chain) > MOST_HOPS:
                self._lose(reference, "leads back to itself")
            if after is None or len(chain) > MOST_HOPS:
                return None
            chain.append(after[1])
        return chain

    def follow(self, value: Any) -> Any:
        """A Parameter, Request Body or Response Object, with references resolved; None if one cannot be."""
        chain = self.chain(value)
        return None if chain is None else chain[-1]

    def text(self, value: Any) -> str:
        """A text, possibly in a separate file; empty if there is none."""
        text = self.follow(value)
        return text if isinstance(text, str) else ""

    def defined(self, schema: Any) -> Any:
        """The converted schema that a `$ref` of a converted schema refers to; other values are unchanged."""
        for _ in range(MOST_HOPS):
            target = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(target, str) or target not in self._targets:
                break
            schema = self._definition(target)[0]
        return schema

    def _definition(self, target: str) -> tuple[Any, list[str], int]:
        if target not in self._converted:
            converted = self.convert(self._targets[target])
            size = len(json.dumps(converted, ensure_ascii=False)) + len(target) - len("#/$defs/")
            self._converted[target] = converted, _references(converted), size
        return self._converted[target]

    def new_losses(self, effect: str) -> list[str]:
        """A sentence for each unresolvable reference since the last call, with its effect."""
        losses = list(self._untold)
        self._untold.clear()
        return [f"the reference {one_line(name, 120)} {self._lost[name]}; {effect}" for name in losses]

    def close(self, schema: Any, most: int) -> tuple[Any, str]:
        """A converted schema with all schemas that it refers to, directly or not, under `$defs`; or its fault.

        None remains None; `most` is the maximum number of characters as JSON.
        """
        definitions: dict[str, Any] = {}
        size = len(json.dumps(schema, ensure_ascii=False))
        pending = _references(schema)
        while pending and size <= most:
            target = pending.pop()
            name = target.removeprefix("#/$defs/")
            if target not in self._targets or name in definitions:
                continue
            self._referred += 1
            if self._referred > _MOST_REFERRED:
                raise DataError("the operations of an API refer to too many schemas; import a part of the document.")
            definitions[name], inner, more = self._definition(target)
            size += more
            pending.extend(inner)
        if size > most:
            return None, f"longer than {most} characters with all schemas that it refers to"
        return ({**schema, "$defs": dict(sorted(definitions.items()))} if definitions else schema), ""


def _references(schema: Any) -> list[str]:
    """The references in a schema."""
    references: list[str] = []
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                references.append(node["$ref"])
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return references


def _schema(operation: Sequence[Any], item: Sequence[Any], schemas: _Schemas) -> dict[str, Any]:
    """Parameters and request body as one object schema."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    # An operation's parameter overrides that of the path with the same name and place.
    given: dict[tuple[str, str], dict[str, Any]] = {}
    for holder in (item, operation):
        listed = schemas.follow(_get(holder, "parameters"))
        for each in listed if isinstance(listed, list) else ():
            parameter = schemas.follow(each)
            if isinstance(name := _member(parameter, "name"), str):
                given[name, str(parameter.get("in"))] = parameter
    body: _Body | None = None
    for (name, where), parameter in given.items():
        needed = parameter.get("required") is True
        if where == "body":  # Swagger 2
            body = _Body(_schema_of(parameter, schemas), needed, parameter.get("description"))
            continue
        name = _free_name(name, where, properties)
        schema = schemas.convert(_schema_of(parameter, schemas))
        properties[name] = _described(schema, parameter.get("description"))
        if needed or where == "path":
            required.append(name)
    request = schemas.follow(_get(operation, "requestBody"))
    if isinstance(request, dict):
        body = _Body(_content(request, schemas), request.get("required") is True, request.get("description"))
    if body is not None and body.schema is not None:
        _add_body(body, properties, required, schemas)
    needs = {"required": list(dict.fromkeys(required))} if required else {}
    return {"type": "object", "properties": properties, **needs}


def _free_name(name: str, where: str, properties: Mapping[str, Any]) -> str:
    """A free name: the place becomes a prefix if the name is taken."""
    if name in properties:
        name = f"{where}_{name}"
    while name in properties:
        name += "_"
    return name


def _schema_of(parameter: Mapping[str, Any], schemas: _Schemas) -> Any:
    """The schema of a parameter: its own, that of its media type, or Swagger 2's keywords beside the name."""
    schema = parameter.get("schema")
    schema = _content(parameter, schemas) if schema is None else schema
    return {key: value for key, value in parameter.items() if key not in _NOT_SCHEMA} if schema is None else schema


_NOT_SCHEMA = frozenset({"name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "style"})


def _described(schema: Any, description: Any) -> Any:
    """The schema with the description from beside it."""
    if isinstance(schema, dict) and isinstance(description, str) and description:
        return {**schema, "description": description}
    return schema


def _content(holder: Any, schemas: _Schemas) -> Any:
    """The schema of a media type: that of JSON if there is one, else the first; None without one."""
    content = schemas.follow(_member(holder, "content"))
    kinds = sorted(content, key=lambda kind: "json" not in kind.lower()) if isinstance(content, dict) else ()
    found = (_member(schemas.follow(content[kind]), "schema") for kind in kinds)
    return next((schema for schema in found if schema is not None), None)


@dataclass(frozen=True)
class _Body:
    """A request body: its schema, whether it is required, and its description, of any type."""

    schema: Any
    needed: bool
    description: Any


def _add_body(body: _Body, properties: dict[str, Any], required: list[str], schemas: _Schemas) -> None:
    """Add the fields of the body to the parameters; alternatives that are not objects become the property `body`."""
    whole = schemas.convert(body.schema)
    fields = fields_of(whole, schemas.defined)
    if not fields.is_object or not fields.properties:
        fields = Fields({}, frozenset(), (whole,))
    others = fields.others
    rest = {"anyOf": list(others)} if len(others) > 1 else next(iter(others), None)
    names = {name: _free_name(name, "body", properties) for name in fields.properties}
    for name, about in fields.properties.items():
        properties[names[name]] = about
        # Fields that only the server sets are required in responses alone.
        read_only = isinstance(about, dict) and about.get("readOnly") is True
        if name in fields.required and rest is None and not read_only:
            required.append(names[name])
    if rest is not None:
        name = _free_name("body", "request", properties)
        properties[name] = _described(rest, body.description)
        if body.needed and not fields.properties:
            required.append(name)


def _response(operation: Sequence[Any], schemas: _Schemas) -> Any:
    """The schema of the first successful response; None if there is none."""
    responses = schemas.follow(_get(operation, "responses"))
    for code in sorted(responses) if isinstance(responses, dict) else ():
        if code.startswith("2") or (code == "default" and len(responses) == 1):
            response = schemas.follow(responses[code])
            if isinstance(response, dict):
                schema = response.get("schema")
                schema = _content(response, schemas) if schema is None else schema
                return None if schema is None else schemas.convert(schema)
    return None
