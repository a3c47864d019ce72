"""Input schemas: the parameters that they describe, and JSON Schema out of OpenAPI's dialects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from bench.data.tables import SCHEMA_LISTS, SCHEMA_VALUES, SCHEMAS_BY_NAME, Parameter

#: References and `allOf` that are followed to find the properties of one schema.
_MOST_STEPS = 1000
#: References that lead to references.
_MOST_HOPS = 20


def parameters_of(schema: Any) -> tuple[Parameter, ...]:
    """The top-level properties of an object schema, those behind `allOf` and `$ref` to its own `$defs` included.

    A parameter of an alternative (`anyOf`, `oneOf`) is optional. Types of nested objects stay in the schema.
    """
    parameters: dict[str, Parameter] = {}
    required: set[str] = set()
    for part, certain in _parts(schema):
        properties = part.get("properties")
        if isinstance(properties, dict):
            for name, about in properties.items():
                parameters.setdefault(name, _parameter(name, about, schema))
        names = part.get("required")
        if certain and isinstance(names, list):
            required.update(name for name in names if isinstance(name, str))
    return tuple(
        Parameter(each.name, each.type, each.description, each.name in required, each.default)
        for each in parameters.values()
    )


def _parts(schema: Any) -> Iterator[tuple[dict[str, Any], bool]]:
    """The object schemas that together describe the arguments, and whether all arguments must follow each."""
    pending: list[tuple[Any, bool]] = [(schema, True)]
    seen: set[int] = set()
    for _ in range(_MOST_STEPS):
        if not pending:
            return
        part, certain = pending.pop()
        part = _follow_reference(part, schema)
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part, certain
        for key in ("oneOf", "anyOf", "allOf"):
            inner = part.get(key)
            if isinstance(inner, list):
                pending.extend((each, certain and key == "allOf") for each in reversed(inner))


def _follow_reference(part: Any, root: Any) -> Any:
    """What a `$ref` into the schema itself stands for; anything else as it is."""
    for _ in range(_MOST_HOPS):
        if not isinstance(part, dict) or not isinstance(part.get("$ref"), str):
            break
        target = resolve_reference(root, part["$ref"])
        if target is None:
            return part
        part = target
    return part


def resolve_reference(root: Any, reference: str) -> Any:
    """The value at a reference into the same document (`#/a/b`, RFC 6901); None if there is none."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    node = root
    for step in reference[2:].split("/"):
        # Percent-encoding is for URLs; `~1` and `~0` are the pointer's own.
        key = _unquote_step(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def _unquote_step(step: str) -> str:
    return unquote(step) if "%" in step else step


def _parameter(name: str, about: Any, root: Any) -> Parameter:
    about = _follow_reference(about, root)
    if not isinstance(about, dict):
        return Parameter(name, required=False)
    description = about.get("description")
    return Parameter(
        name,
        _type(about, root),
        description if isinstance(description, str) else "",
        False,
        json.dumps(about["default"], ensure_ascii=False) if "default" in about else None,
    )


def _type(about: Mapping[str, Any], root: Any) -> str:
    """A type in words: `string`, or `string or null` for several; empty if the schema names none."""
    stated = about.get("type")
    if isinstance(stated, str):
        return stated
    names = [each for each in stated if isinstance(each, str)] if isinstance(stated, list) else []
    for key in ("anyOf", "oneOf", "allOf"):
        inner = about.get(key)
        for each in inner if isinstance(inner, list) else []:
            part = _follow_reference(each, root)
            kind = part.get("type") if isinstance(part, dict) else None
            names += [kind] if isinstance(kind, str) else []
    return " or ".join(dict.fromkeys(names))


def from_openapi(schema: Any, reference: Callable[[str], str | None]) -> Any:
    """JSON Schema out of a Schema Object of Swagger 2, OpenAPI 3.0 or Gemini; one of OpenAPI 3.1 is JSON Schema.

    `nullable`, boolean `exclusiveMinimum`, upper-case types and the type `file` become what JSON Schema has for them.
    Depth is that of the document, which is bounded.

    Args:
        schema: the Schema Object.
        reference: the new target of a `$ref`; None for one that leads nowhere, which becomes the schema of any value.
    """
    if not isinstance(schema, dict):
        return schema
    target = schema.get("$ref")
    if isinstance(target, str):
        new = reference(target)
        kept = {"description": schema["description"]} if isinstance(schema.get("description"), str) else {}
        return {"$ref": new, **kept} if new is not None else kept
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key in SCHEMA_LISTS and isinstance(value, list):
            converted[key] = [from_openapi(each, reference) for each in value]
        elif key in SCHEMAS_BY_NAME and isinstance(value, dict):
            converted[key] = {name: from_openapi(each, reference) for name, each in value.items()}
        elif key in SCHEMA_VALUES:
            converted[key] = from_openapi(value, reference)
        elif key not in {"nullable", "xml", "discriminator", "externalDocs"}:
            converted[key] = value
    _modernise(converted, schema)
    return converted


def _modernise(converted: dict[str, Any], schema: Mapping[str, Any]) -> None:
    kind = converted.get("type")
    if isinstance(kind, str):
        # Gemini writes STRING.
        kind = kind.lower() if kind.isupper() else kind
        if kind == "file":
            kind = "string"
            converted.setdefault("format", "binary")
        converted["type"] = kind
        if schema.get("nullable") is True:
            converted["type"] = [kind, "null"]
            # A list of values that allows null must name it.
            if isinstance(converted.get("enum"), list) and None not in converted["enum"]:
                converted["enum"] = [*converted["enum"], None]
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(converted.get(exclusive), bool) and converted.pop(exclusive) and bound in converted:
            converted[exclusive] = converted.pop(bound)
