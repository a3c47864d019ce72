"""OpenAPI 3.0 and 3.1 and Swagger 2: one tool per operation. Nothing outside the document is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.importing.tools.schemas import from_openapi, resolve_reference
from bench.importing.tools.tool import MOST_SCHEMA, DocumentTool, Skipped, Steps, read_tool

_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
#: Characters of a response schema. That of an API whose objects all refer to each other would be the whole document.
_MOST_RESPONSE = 256 << 10
#: Schemas that all operations together may refer to, each time counted.
_MOST_REFERRED = 10_000_000
#: References that lead to references.
_MOST_HOPS = 20


def is_openapi(value: Any) -> bool:
    """Whether a document says that it is OpenAPI or Swagger."""
    return isinstance(value, dict) and any(isinstance(value.get(key), str) for key in ("openapi", "swagger"))


def operations(root: dict[str, Any]) -> Iterator[DocumentTool | Skipped]:
    """The operations of a document as tools, in its order, and what could not be taken over.

    The name of a tool is its `operationId`, else the method and the path. Its parent is its first tag, else the first
    segment of the path. Parameters and the properties of the request body are the properties of one schema; schemas
    that are referred to are among its `$defs`, so that schemas that contain themselves stay what they are.
    """
    paths = root.get("paths")
    if not isinstance(paths, dict):
        yield Skipped(("paths",), "the document has no `paths`")
        return
    schemas = _Schemas(root)
    for path, item in paths.items():
        place: Steps = ("paths", path)
        if isinstance(item, dict) and isinstance(item.get("$ref"), str):
            target = resolve_reference(root, item["$ref"])
            if target is None:
                yield Skipped(place, f"the path is described outside the document ({one_line(item['$ref'], 120)})")
                continue
            item = target
        if not isinstance(item, dict):
            yield Skipped(place, "the path is not an object")
            continue
        for method in item:
            if method in _METHODS:
                yield from _operation(schemas, path, method, item, (*place, method))


def _operation(
    schemas: _Schemas, path: str, method: str, item: dict[str, Any], place: Steps
) -> Iterator[DocumentTool | Skipped]:
    operation = item[method]
    if not isinstance(operation, dict):
        yield Skipped(place, "the operation is not an object")
        return
    call = f"{method.upper()} {path}"
    name = operation.get("operationId")
    tags = operation.get("tags")
    parent = tags[0] if isinstance(tags, list) and tags and isinstance(tags[0], str) else ""
    if not parent.strip():
        parent = next((step for step in path.split("/") if step and not step.startswith("{")), "")
    summary = operation.get("summary") or item.get("summary")
    schema, fault = schemas.close(_schema(operation, item, schemas), MOST_SCHEMA)
    returns, too_long = schemas.close(_response(operation, schemas), _MOST_RESPONSE)
    if fault:
        yield Skipped(place, f"the input schema is {fault}")
    else:
        yield read_tool(
            name if name else call,
            operation.get("description") or summary,
            title=summary,
            schema=schema,
            returns=returns,
            annotations={"method": method.upper(), "path": path},
            deprecated=operation.get("deprecated") is True,
            place=place,
            parent=parent,
        )
        if too_long:
            yield Skipped((*place, "responses"), f"the response schema is {too_long}; the tool has none")
    for target in schemas.new_losses():
        reason = (
            f"the reference {one_line(target, 120)} leads out of the document or nowhere; any value is allowed there"
        )
        yield Skipped(place, reason)


class _Schemas:
    """The schemas of a document that others refer to, each converted once, by their names under `$defs`."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self._names: dict[str, str] = {}
        #: `#/$defs/NAME` -> the reference that it stands for.
        self._targets: dict[str, str] = {}
        #: Converted schemas with the references in them and their size, by `#/$defs/NAME`.
        self._converted: dict[str, tuple[Any, list[str], int]] = {}
        self._lost: dict[str, None] = {}
        self._told = 0
        self._referred = 0

    def __call__(self, target: str) -> str | None:
        """The new target of a reference; None if there is nothing at the old one."""
        if target not in self._names:
            if resolve_reference(self.root, target) is None:
                self._lost[target] = None
                return None
            # A name that a pointer in a URL holds as it is.
            base = re.sub(r"[^A-Za-z0-9._-]+", ".", target.rpartition("/")[2]) or "root"
            number, name = 2, base
            while f"#/$defs/{name}" in self._targets:
                name, number = f"{base}-{number}", number + 1
            self._names[target] = name
            self._targets[f"#/$defs/{name}"] = target
        return f"#/$defs/{self._names[target]}"

    def follow(self, value: Any) -> Any:
        """A Parameter, Request Body or Response Object, which may be a reference to one; None if that leads nowhere."""
        for _ in range(_MOST_HOPS):
            if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
                return value
            target = value["$ref"]
            value = resolve_reference(self.root, target)
            if value is None:
                break
        self._lost[target] = None
        return None

    def new_losses(self) -> list[str]:
        """The references that led nowhere since this was last asked."""
        losses = list(self._lost)[self._told :]
        self._told += len(losses)
        return losses

    def close(self, schema: Any, most: int) -> tuple[Any, str]:
        """The schema with all schemas that it refers to, directly or not, under `$defs`; or what is wrong with it.

        Args:
            schema: a converted schema, or None, which stays None.
            most: characters of the result as JSON.
        """
        definitions: dict[str, Any] = {}
        size = len(json.dumps(schema, ensure_ascii=False))
        pending = _references(schema)
        while pending and size <= most:
            target = pending.pop()
            name = target.removeprefix("#/$defs/")
            if target not in self._targets or name in definitions:
                continue
            if target not in self._converted:
                converted = from_openapi(resolve_reference(self.root, self._targets[target]), self)
                text = json.dumps(converted, ensure_ascii=False)
                self._converted[target] = converted, _references(converted), len(text) + len(name)
            self._referred += 1
            if self._referred > _MOST_REFERRED:
                raise DataError("the operations of an API refer to too many schemas; import a part of the document.")
            definitions[name], inner, more = self._converted[target]
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


def _schema(operation: dict[str, Any], item: dict[str, Any], schemas: _Schemas) -> dict[str, Any]:
    """Parameters and request body as one object schema."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    # An operation's parameter replaces that of the path with the same name and place.
    given: dict[tuple[str, str], dict[str, Any]] = {}
    for holder in (item, operation):
        listed = holder.get("parameters")
        for each in listed if isinstance(listed, list) else []:
            parameter = schemas.follow(each)
            if isinstance(parameter, dict) and isinstance(parameter.get("name"), str):
                given[parameter["name"], str(parameter.get("in"))] = parameter
    body: Any = None
    for (name, where), parameter in given.items():
        if where == "body":  # Swagger 2
            body = (parameter.get("schema"), parameter.get("required") is True, parameter.get("description"))
            continue
        properties[name] = _of_parameter(parameter, schemas)
        if parameter.get("required") is True or where == "path":
            required.append(name)
    request = schemas.follow(operation.get("requestBody"))
    if isinstance(request, dict):
        body = (_content(request), request.get("required") is True, request.get("description"))
    if body is not None and body[0] is not None:
        _add_body(body, properties, required, schemas)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(dict.fromkeys(required))
    return schema


def _of_parameter(parameter: dict[str, Any], schemas: _Schemas) -> Any:
    source = parameter.get("schema")
    if source is None:
        source = _content(parameter)
    if source is None:
        # Swagger 2 has the keywords of the schema beside the name.
        source = {key: value for key, value in parameter.items() if key not in _NOT_SCHEMA}
    schema = from_openapi(source, schemas)
    description = parameter.get("description")
    if isinstance(schema, dict) and isinstance(description, str) and description:
        schema = {**schema, "description": description}
    return schema


_NOT_SCHEMA = frozenset({"name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "style"})


def _content(holder: dict[str, Any]) -> Any:
    """The schema of a media type: that of JSON if there is one, else the first."""
    content = holder.get("content")
    if not isinstance(content, dict) or not content:
        return None
    media = next((value for key, value in content.items() if "json" in key.lower()), next(iter(content.values())))
    return media.get("schema") if isinstance(media, dict) else None


def _add_body(body: tuple[Any, bool, Any], properties: dict[str, Any], required: list[str], schemas: _Schemas) -> None:
    """The properties of the body beside the parameters; a body that is no plain object is the property `body`."""
    source, needed, description = body
    flat = schemas.follow(source)
    body_properties = flat.get("properties") if isinstance(flat, dict) else None
    alternatives = isinstance(flat, dict) and any(key in flat for key in ("allOf", "anyOf", "oneOf"))
    if isinstance(body_properties, dict) and not alternatives and not body_properties.keys() & properties:
        properties.update({name: from_openapi(each, schemas) for name, each in body_properties.items()})
        names = flat.get("required")
        if needed and isinstance(names, list):
            required.extend(name for name in names if isinstance(name, str))
        return
    name = "body"
    while name in properties:
        name += "_"
    schema = from_openapi(source, schemas)
    if isinstance(schema, dict) and isinstance(description, str) and description:
        schema = {**schema, "description": description}
    properties[name] = schema
    if needed:
        required.append(name)


def _response(operation: dict[str, Any], schemas: _Schemas) -> Any:
    """The schema of the first successful response; None if there is none."""
    responses = operation.get("responses")
    if not isinstance(responses, dict):
        return None
    for code in sorted(responses):
        if code.startswith("2") or (code == "default" and len(responses) == 1):
            response = schemas.follow(responses[code])
            if isinstance(response, dict):
                schema = response.get("schema", _content(response))
                return None if schema is None else from_openapi(schema, schemas)
    return None
