"""Read parameters from input schemas, and convert OpenAPI's dialects to JSON Schema.

The readers of tools and the loaders of datasets call it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import unquote

from bench.data.tables import SCHEMA_LISTS, SCHEMA_VALUES, SCHEMAS_BY_NAME, Parameter

#: Maximum schemas to read for the properties of one, and their maximum nesting.
_MOST_STEPS, _MOST_DEPTH = 1000, 60
#: Maximum length of a chain of references.
MOST_HOPS = 20


def parameters_of(schema: Any) -> tuple[Parameter, ...]:
    """The fields of an object schema, as `fields_of` finds them; fields of nested objects are left out."""
    fields = fields_of(schema, partial(_follow_reference, root=schema))
    return tuple(
        replace(_parameter(name, about, schema), required=name in fields.required)
        for name, about in fields.properties.items()
    )


@dataclass(frozen=True)
class Fields:
    """The fields of the objects that a schema allows.

    Attributes:
        properties: the schema of each possible field, in order of first appearance.
        required: the names of required fields.
        others: alternatives that are not objects.
        is_object: whether it allows objects at all.
    """

    properties: Mapping[str, Any]
    required: frozenset[str]
    others: tuple[Any, ...] = ()
    is_object: bool = True


def fields_of(schema: Any, follow: Callable[[Any], Any]) -> Fields:
    """The fields of an object schema (JSON Schema), with those behind references, `allOf`, `anyOf` and `oneOf`.

    A field of an alternative is required if all alternatives require it; `null` is not an alternative. A schema that
    contains itself is read once. `follow` resolves a `$ref`, and returns other values unchanged.
    """
    return _FieldsReader(follow).read(schema, 0) or Fields({}, frozenset(), is_object=False)


class _FieldsReader:
    """Collects the fields of a schema and of the schemas in it."""

    def __init__(self, follow: Callable[[Any], Any]) -> None:
        self._follow = follow
        #: By identity; None while a schema is being read, and for `null`.
        self._read: dict[int, Fields | None] = {}

    def read(self, schema: Any, depth: int) -> Fields | None:
        """The fields of a schema; None for `null`, and for a schema within itself."""
        part = self._follow(schema)
        if not isinstance(part, dict):
            return Fields({}, frozenset())
        if id(part) not in self._read:
            if depth > _MOST_DEPTH or len(self._read) > _MOST_STEPS:
                return Fields({}, frozenset())
            self._read[id(part)] = None
            self._read[id(part)] = self._combine(part, depth + 1)
        return self._read[id(part)]

    def _combine(self, part: dict[str, Any], depth: int) -> Fields | None:
        stated = part.get("type")
        types = {each for each in (stated if isinstance(stated, list) else [stated]) if isinstance(each, str)}
        if types == {"null"}:
            return None
        named = part.get("properties")
        properties = dict(named) if isinstance(named, dict) else {}
        names = part.get("required")
        required = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
        is_object = "object" in types if types else bool(properties) or not part.keys() & {"enum", "const", "items"}
        others: list[Any] = []
        for each in _schemas(part, "allOf"):
            if (inner := self.read(each, depth)) is not None:
                _add(properties, inner.properties)
                required |= inner.required
                others += inner.others
                is_object = is_object and inner.is_object
        for key in ("anyOf", "oneOf"):
            readings = [(each, inner) for each in _schemas(part, key) if (inner := self.read(each, depth)) is not None]
            objects = [inner for _, inner in readings if inner.is_object]
            for each, inner in readings:
                others += inner.others if inner.is_object else [each]
            _add(properties, _join([inner.properties for inner in objects]))
            if objects:
                required |= frozenset.intersection(*(inner.required for inner in objects))
            elif readings:
                is_object = is_object and bool(properties)
        if "object" in types:
            others = []
        return Fields(properties, frozenset(required), tuple(others), is_object)


def _schemas(part: Mapping[str, Any], key: str) -> list[Any]:
    inner = part.get(key)
    return inner if isinstance(inner, list) else []


def _add(properties: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add properties that apply as well; for one that exists already, both schemas apply."""
    for name, about in more.items():
        properties[name] = _combined("allOf", [properties[name], about]) if name in properties else about


def _join(alternatives: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The properties of alternatives; for one that several have, any of the schemas applies."""
    abouts: dict[str, list[Any]] = {}
    for properties in alternatives:
        for name, about in properties.items():
            abouts.setdefault(name, []).append(about)
    return {name: _combined("anyOf", each) for name, each in abouts.items()}


def _combined(key: str, schemas: Sequence[Any]) -> Any:
    """Combine schemas into one, without repetitions, with the first description and default."""
    distinct: list[Any] = []
    for schema in schemas:
        if schema not in distinct:
            distinct.append(schema)
    if len(distinct) == 1:
        return distinct[0]
    told = [schema for schema in distinct if isinstance(schema, dict)]
    kept = {word: schema[word] for word in ("default", "description") for schema in reversed(told) if word in schema}
    return {key: distinct, **kept}


def _follow_reference(part: Any, root: Any) -> Any:
    """Resolve a `$ref` into the schema itself; other values are unchanged."""
    for _ in range(MOST_HOPS):
        if not isinstance(part, dict) or not isinstance(part.get("$ref"), str):
            break
        target = resolve_reference(root, part["$ref"])
        if target is None:
            return part
        part = target
    return part


def resolve_reference(root: Any, reference: str) -> Any:
    """The value at a reference into the same document (`#/a/b`, RFC 6901); None if there is none.

    The package `referencing` is not used: in a hostile document it accepts `/list/-1` and `/text/0`, and raises
    `ValueError` for `/list/word`.
    """
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    node = root
    for step in reference[2:].split("/"):
        # Percent-encoding belongs to URLs, `~1` and `~0` to pointers.
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


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
    """The type in words: `string`, or `string or null` for several; empty if the schema has none."""
    stated = about.get("type")
    if isinstance(stated, str):
        return stated
    names = [each for each in stated if isinstance(each, str)] if isinstance(stated, list) else []
    for key in ("anyOf", "oneOf", "allOf"):
        for each in _schemas(about, key):
            part = _follow_reference(each, root)
            kind = part.get("type") if isinstance(part, dict) else None
            names += [kind] if isinstance(kind, str) else []
    return " or ".join(dict.fromkeys(names))


#: Keywords that may add fields beside a `$ref`, as OpenAPI 3.1 allows.
_BESIDE_REFERENCES = frozenset({"properties", "required", "allOf", "anyOf", "oneOf"})


def from_openapi(schema: Any, reference: Callable[[str], str | None]) -> Any:
    """Convert a Schema Object of Swagger 2, OpenAPI 3.0 or Gemini to JSON Schema; those of OpenAPI 3.1 are JSON Schema.

    `nullable`, boolean `exclusiveMinimum`, upper-case types and the type `file` are translated. The depth of the
    recursion is that of the document, which is bounded. `reference` returns the new target of a `$ref`, or None if it
    cannot be resolved; it then becomes the schema of any value.
    """
    if not isinstance(schema, dict):
        return schema
    target = schema.get("$ref")
    if isinstance(target, str):
        new = reference(target)
        kept = {"description": schema["description"]} if isinstance(schema.get("description"), str) else {}
        referred = {"$ref": new, **kept} if new is not None else kept
        beside = from_openapi({key: schema[key] for key in _BESIDE_REFERENCES & schema.keys()}, reference)
        return {**beside, "allOf": [referred, *_schemas(beside, "allOf")]} if beside else referred
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
            # An enumeration must list null to allow it.
            if isinstance(converted.get("enum"), list) and None not in converted["enum"]:
                converted["enum"] = [*converted["enum"], None]
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(converted.get(exclusive), bool) and converted.pop(exclusive) and bound in converted:
            converted[exclusive] = converted.pop(bound)
