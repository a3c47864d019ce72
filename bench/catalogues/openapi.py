"""OpenAPI 3.0 and 3.1 and Swagger 2: one tool per operation. Nothing outside the document is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.catalogues.schemas import from_openapi, resolved
from bench.catalogues.tools import Found, Skipped, described
from bench.text import one_line

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
#: Schemas that one operation may refer to, directly or not.
_MOST_REFERRED = 2000
_MOST_PATHS = 100_000


def is_openapi(value: Any) -> bool:
    """Whether a document says that it is OpenAPI or Swagger."""
    return isinstance(value, dict) and any(isinstance(value.get(key), str) for key in ("openapi", "swagger"))


def operations(root: dict[str, Any]) -> Iterator[Found | Skipped]:
    """The operations of a document as tools, in its order, and what could not be taken over.

    The name of a tool is its `operationId`, else the method and the path. Its parent is its first tag, else the first
    segment of the path. Parameters and the properties of the request body are the properties of one schema; schemas
    that are referred to are among its `$defs`, so that schemas that contain themselves stay what they are.
    """
    paths = root.get("paths")
    if not isinstance(paths, dict):
        yield Skipped(("paths",), "the document has no `paths`")
        return
    for path, item in list(paths.items())[:_MOST_PATHS]:
        place: tuple[object, ...] = ("paths", path)
        if isinstance(item, dict) and isinstance(item.get("$ref"), str):
            target = resolved(root, item["$ref"])
            if target is None:
                yield Skipped(place, f"the path is described outside the document ({one_line(item['$ref'], 120)})")
                continue
            item = target
        if not isinstance(item, dict):
            yield Skipped(place, "the path is not an object")
            continue
        for method in _METHODS:
            if method in item:
                yield from _operation(root, path, method, item, (*place, method))


def _operation(
    root: dict[str, Any], path: str, method: str, item: dict[str, Any], place: tuple[object, ...]
) -> Iterator[Found | Skipped]:
    operation = item[method]
    if not isinstance(operation, dict):
        yield Skipped(place, "the operation is not an object")
        return
    references = _References(root)
    call = f"{method.upper()} {path}"
    name = operation.get("operationId")
    tags = operation.get("tags")
    parent = tags[0] if isinstance(tags, list) and tags and isinstance(tags[0], str) else ""
    if not parent.strip():
        parent = next((step for step in path.split("/") if step and not step.startswith("{")), "")
    summary = operation.get("summary") or item.get("summary")
    schema = _schema(root, operation, item, references)
    returns = _response(root, operation, references)
    found = described(
        name if name else call,
        operation.get("description") or summary,
        title=summary,
        schema=references.closed(schema),
        returns=None if returns is None else references.closed(returns),
        annotations={"method": method.upper(), "path": path},
        deprecated=operation.get("deprecated") is True,
        place=place,
        parent=parent,
    )
    yield found
    for target in references.lost:
        reason = (
            f"the reference {one_line(target, 120)} leads out of the document or nowhere; any value is allowed there"
        )
        yield Skipped(place, reason)


class _References:
    """The schemas that an operation refers to, by their names under `$defs`."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._names: dict[str, str] = {}
        self.lost: dict[str, None] = {}

    def __call__(self, target: str) -> str | None:
        if target not in self._names:
            if resolved(self._root, target) is None or len(self._names) >= _MOST_REFERRED:
                self.lost[target] = None
                return None
            base = target.rpartition("/")[2].replace("~1", ".").replace("~0", "~") or "root"
            taken = set(self._names.values())
            number, name = 2, base
            while name in taken:
                name, number = f"{base}-{number}", number + 1
            self._names[target] = name
        return f"#/$defs/{self._names[target].replace('~', '~0').replace('/', '~1')}"

    def closed(self, schema: Any) -> Any:
        """The schema with all schemas that it refers to, directly or not, under `$defs`."""
        definitions: dict[str, Any] = {}
        pending = _targets(schema)
        back = {f"#/$defs/{name.replace('~', '~0').replace('/', '~1')}": target for target, name in self._names.items()}
        while pending:
            target = pending.pop()
            original = back.get(target)
            if original is None or self._names[original] in definitions:
                continue
            known = len(self._names)
            definition = from_openapi(resolved(self._root, original), self)
            if len(self._names) > known:
                back = {f"#/$defs/{n.replace('~', '~0').replace('/', '~1')}": t for t, n in self._names.items()}
            definitions[self._names[original]] = definition
            pending.extend(_targets(definition))
        if not definitions or not isinstance(schema, dict):
            return schema
        return {**schema, "$defs": dict(sorted(definitions.items()))}


def _targets(schema: Any) -> list[str]:
    """The references in a schema."""
    found: list[str] = []
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                found.append(node["$ref"])
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return found


def _followed(root: Any, value: Any, references: _References) -> Any:
    """A Parameter, Request Body or Response Object, which may be a reference to one."""
    seen: set[str] = set()
    while isinstance(value, dict) and isinstance(value.get("$ref"), str):
        target = value["$ref"]
        value = resolved(root, target)
        if value is None or target in seen:
            references.lost[target] = None
            return None
        seen.add(target)
    return value


def _schema(root: Any, operation: dict[str, Any], item: dict[str, Any], references: _References) -> dict[str, Any]:
    """Parameters and request body as one object schema."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    # An operation's parameter replaces that of the path with the same name and place.
    given: dict[tuple[str, str], dict[str, Any]] = {}
    for holder in (item, operation):
        listed = holder.get("parameters")
        for each in listed if isinstance(listed, list) else []:
            parameter = _followed(root, each, references)
            if isinstance(parameter, dict) and isinstance(parameter.get("name"), str):
                given[parameter["name"], str(parameter.get("in"))] = parameter
    body: Any = None
    for (name, where), parameter in given.items():
        if where == "body":  # Swagger 2
            body = (parameter.get("schema"), parameter.get("required") is True, parameter.get("description"))
            continue
        properties[name] = _of_parameter(parameter, references)
        if parameter.get("required") is True or where == "path":
            required.append(name)
    request = _followed(root, operation.get("requestBody"), references)
    if isinstance(request, dict):
        body = (_content(request), request.get("required") is True, request.get("description"))
    if body is not None and body[0] is not None:
        _add_body(root, body, properties, required, references)
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(dict.fromkeys(required))
    return found


def _of_parameter(parameter: dict[str, Any], references: _References) -> Any:
    source = parameter.get("schema")
    if source is None:
        source = _content(parameter)
    if source is None:
        # Swagger 2 has the keywords of the schema beside the name.
        source = {key: value for key, value in parameter.items() if key not in _NOT_SCHEMA}
    schema = from_openapi(source, references)
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


def _add_body(
    root: Any, body: tuple[Any, bool, Any], properties: dict[str, Any], required: list[str], references: _References
) -> None:
    """The properties of the body beside the parameters; a body that is no plain object is the property `body`."""
    source, needed, description = body
    flat = _followed(root, source, _References(root)) if isinstance(source, dict) else source
    own = flat.get("properties") if isinstance(flat, dict) else None
    alternatives = isinstance(flat, dict) and any(key in flat for key in ("allOf", "anyOf", "oneOf"))
    if isinstance(own, dict) and not alternatives and not own.keys() & properties:
        properties.update({name: from_openapi(each, references) for name, each in own.items()})
        names = flat.get("required")
        if needed and isinstance(names, list):
            required.extend(name for name in names if isinstance(name, str))
        return
    name = "body"
    while name in properties:
        name += "_"
    schema = from_openapi(source, references)
    if isinstance(schema, dict) and isinstance(description, str) and description:
        schema = {**schema, "description": description}
    properties[name] = schema
    if needed:
        required.append(name)


def _response(root: Any, operation: dict[str, Any], references: _References) -> Any:
    """The schema of the first successful response; None if there is none."""
    responses = operation.get("responses")
    if not isinstance(responses, dict):
        return None
    for code in sorted(responses):
        if code.startswith("2") or (code == "default" and len(responses) == 1):
            response = _followed(root, responses[code], references)
            if isinstance(response, dict):
                schema = response.get("schema", _content(response))
                return None if schema is None else from_openapi(schema, references)
    return None
