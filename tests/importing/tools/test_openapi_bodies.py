"""Request bodies as fields: alternatives, combinations, what is required, and names that are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bench.data.tables import Tool
from bench.importing.reading import Document
from bench.importing.tools.catalogue import Catalogue, Source, catalogue_of

TEXT: Any = {"type": "string"}
NUMBER: Any = {"type": "integer"}
CARD = {"type": "object", "required": ["card", "owner"], "properties": {"card": TEXT, "owner": TEXT}}
IBAN = {"type": "object", "required": ["iban", "owner"], "properties": {"iban": TEXT, "owner": TEXT}}


def read(value: Any) -> Catalogue:
    return catalogue_of([(Document(value, "the file", "the file"), Source(Path()))])


def of_body(schema: Any, *, path: str = "/pay", schemas: Any = None, **operation: Any) -> Tool:
    post = {"summary": "Pay", "requestBody": {"content": {"application/json": {"schema": schema}}}, **operation}
    (tool,) = read(
        {"openapi": "3.1.0", "paths": {path: {"post": post}}, "components": {"schemas": schemas or {}}}
    ).tools
    Draft202012Validator.check_schema(tool.schema())
    return tool


def fields(tool: Tool) -> dict[str, bool]:
    """Each field, and whether it is required, from the schema and from the parameters, which must agree."""
    schema = tool.schema()
    required = schema.get("required", [])
    assert [(p.name, p.required) for p in tool.parameters] == [(n, n in required) for n in schema["properties"]]
    return {each.name: each.required for each in tool.parameters}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(CARD, {"card": True, "owner": True}, id="an object"),
        pytest.param({"oneOf": [CARD, IBAN]}, {"card": False, "owner": True, "iban": False}, id="oneOf"),
        pytest.param({"anyOf": [CARD, IBAN]}, {"card": False, "owner": True, "iban": False}, id="anyOf"),
        pytest.param({"allOf": [CARD, IBAN]}, {"card": True, "owner": True, "iban": True}, id="allOf"),
        pytest.param(
            {"allOf": [{"$ref": "#/components/schemas/Card"}, {"properties": {"tip": NUMBER}, "required": ["tip"]}]},
            {"card": True, "owner": True, "tip": True},
            id="allOf with a reference",
        ),
        pytest.param(
            {"$ref": "#/components/schemas/Card", "properties": {"tip": NUMBER}},
            {"tip": False, "card": True, "owner": True},
            id="fields beside a reference",
        ),
        pytest.param(
            {**CARD, "anyOf": [{"required": ["tip"]}, {"required": ["note"]}], "properties": {"tip": NUMBER}},
            {"tip": False},
            id="alternatives that only require",
        ),
        pytest.param({"oneOf": [CARD, {"type": "null"}]}, {"card": True, "owner": True}, id="null is no alternative"),
        pytest.param({"oneOf": [CARD, {}]}, {"card": False, "owner": False}, id="anything is one"),
        pytest.param(
            {"oneOf": [{"anyOf": [CARD, IBAN]}, CARD]}, {"card": False, "owner": True, "iban": False}, id="deep"
        ),
        pytest.param({"type": ["object", "null"], "properties": {"a": TEXT}}, {"a": False}, id="nullable"),
        pytest.param(
            {"type": "object", "required": ["id", "a"], "properties": {"id": {**TEXT, "readOnly": True}, "a": TEXT}},
            {"id": False, "a": True},
            id="what only the server sets",
        ),
        pytest.param(
            {"properties": {"a": TEXT}, "anyOf": [{"type": "array"}]}, {"a": False, "body": False}, id="or a list"
        ),
        # What has no fields stays the body.
        pytest.param({"type": "string", "properties": {"a": TEXT}}, {"body": False}, id="a text"),
        pytest.param({"type": "array", "items": CARD}, {"body": False}, id="a list"),
        pytest.param({"type": "object", "additionalProperties": TEXT}, {"body": False}, id="any names"),
        pytest.param({"oneOf": [TEXT, {"type": "array", "items": TEXT}]}, {"body": False}, id="no objects"),
        pytest.param({"type": "string", "format": "binary"}, {"body": False}, id="bytes"),
        pytest.param({}, {"body": False}, id="anything"),
    ],
)
def test_a_body_is_its_fields(schema: Any, expected: dict[str, bool]) -> None:
    assert fields(of_body(schema, schemas={"Card": CARD})) == expected


def test_alternatives_that_are_no_objects_stay_beside_the_fields_and_nothing_is_required() -> None:
    labels = {"type": "object", "required": ["labels"], "properties": {"labels": {"type": "array", "items": TEXT}}}
    tool = of_body({"oneOf": [labels, {"type": "array", "items": TEXT}, TEXT]})
    assert fields(tool) == {"labels": False, "body": False}
    assert tool.schema()["properties"]["body"] == {"anyOf": [{"type": "array", "items": TEXT}, TEXT]}


def test_a_field_that_alternatives_describe_differently_keeps_all_descriptions() -> None:
    one = {"properties": {"status": {"const": "open", "type": "string", "description": "The state."}}}
    two = {"properties": {"status": {"const": "closed", "type": "string"}}}
    tool = of_body({"type": "object", "oneOf": [one, two, one]})
    (status,) = tool.parameters
    assert (status.type, status.description) == ("string", "The state.")
    valid = Draft202012Validator(tool.schema())
    assert [valid.is_valid({"status": text}) for text in ("open", "closed", "else")] == [True, True, False]
    tool = of_body({"properties": {"status": TEXT}, "allOf": [{"properties": {"status": {"maxLength": 3}}}]})
    valid = Draft202012Validator(tool.schema())
    assert [valid.is_valid({"status": text}) for text in ("abc", "abcd", 3)] == [True, False, False]


def test_a_name_that_is_taken_gets_its_place() -> None:
    parameters: list[Any] = [
        {"name": "name", "in": "path", "required": True, "schema": TEXT},
        {"name": "name", "in": "query", "schema": NUMBER},
    ]
    body: Any = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {**TEXT, "description": "The new one."}},
    }
    tool = of_body(body, path="/things/{name}", parameters=parameters)
    assert fields(tool) == {"name": True, "query_name": False, "body_name": True}
    parameters.append({"name": "body", "in": "query", "schema": TEXT})
    assert list(fields(of_body(TEXT, parameters=parameters))) == ["name", "query_name", "body", "request_body"]


def test_a_body_that_is_needed_is_required_only_where_it_is_one_value() -> None:
    content: dict[str, Any] = {"application/json": {"schema": {"type": "array"}}}
    assert fields(of_body({}, requestBody={"required": True, "content": content})) == {"body": True}
    content = {"application/json": {"schema": {"type": "object", "properties": {"a": TEXT}}}}
    assert fields(of_body({}, requestBody={"required": True, "content": content})) == {"a": False}


def test_schemas_that_contain_themselves_give_their_fields_once() -> None:
    pet = {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": TEXT, "friend": {"$ref": "#/components/schemas/Pet"}},
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
    }
    subs = {
        name: {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {field: TEXT}, "required": [field]}]}
        for name, field in (("Cat", "lives"), ("Dog", "bark"))
    }
    schemas = {"Pet": pet, **subs}
    tool = of_body({"$ref": "#/components/schemas/Pet"}, schemas=schemas)
    assert fields(tool) == {"kind": True, "friend": False, "lives": False, "bark": False}
    alone = {"A": {"allOf": [{"$ref": "#/components/schemas/A"}]}, "B": {"oneOf": [{"$ref": "#/components/schemas/B"}]}}
    assert fields(of_body({"$ref": "#/components/schemas/A"}, schemas=alone)) == {"body": False}
    assert fields(of_body({"$ref": "#/components/schemas/B"}, schemas=alone)) == {"body": False}


@pytest.mark.parametrize("key", ["allOf", "oneOf"])
def test_very_many_or_very_deep_parts_end(key: str) -> None:
    wide = {key: [{"properties": {f"f{n}": TEXT}, "required": [f"f{n}"]} for n in range(3000)]}
    assert len(fields(of_body(wide))) > 900
    chain = {
        f"A{n}": {key: [{"$ref": f"#/components/schemas/A{n + 1}"}, {"properties": {f"f{n}": TEXT}}]}
        for n in range(3000)
    }
    assert len(fields(of_body({"$ref": "#/components/schemas/A0"}, schemas=chain))) > 50
    # Each is reached by two ways: no way is gone twice.
    double = {
        f"A{n}": {key: [{"$ref": f"#/components/schemas/A{n + 1}"}] * 2, "properties": {f"f{n}": TEXT}}
        for n in range(60)
    }
    assert len(fields(of_body({"$ref": "#/components/schemas/A0"}, schemas=double))) > 50


def test_bodies_of_swagger_2() -> None:
    post = {
        "summary": "Pay",
        "parameters": [
            {"$ref": "#/parameters/trace"},
            {"name": "order", "in": "body", "schema": {"allOf": [{"$ref": "#/definitions/Base"}, CARD]}},
        ],
    }
    put = {"summary": "Send", "parameters": [{"name": "text", "in": "body", "required": True, "type": "string"}]}
    form = {
        "summary": "Upload",
        "parameters": [{"name": "file", "in": "formData", "type": "file", "required": True}],
    }
    value = {
        "swagger": "2.0",
        "paths": {"/a": {"post": post, "put": put, "patch": form, "parameters": [{"$ref": "#/parameters/lang"}]}},
        "parameters": {
            "trace": {"name": "trace", "in": "header", "type": "string"},
            "lang": {"name": "lang", "in": "query", "type": "string", "required": True},
        },
        "definitions": {"Base": {"type": "object", "required": ["id"], "properties": {"id": TEXT}}},
    }
    by_name = {tool.name: fields(tool) for tool in read(value).tools}
    assert by_name["POST /a"] == {"lang": True, "trace": False, "id": True, "card": True, "owner": True}
    assert by_name["PUT /a"] == {"lang": True, "body": True}
    assert by_name["PATCH /a"] == {"lang": True, "file": True}


def test_a_media_type_without_a_schema_is_passed_over() -> None:
    content = {"application/json": {"example": 1}, "application/x-www-form-urlencoded": {"schema": CARD}}
    assert fields(of_body({}, requestBody={"content": content})) == {"card": True, "owner": True}


def test_operations_without_text_are_counted_in_one_sentence() -> None:
    silent = {"operationId": "a", "responses": {}}
    paths = {"/a": {"get": silent, "put": {**silent, "operationId": "b"}}, "/c": {"get": {"summary": "Gets c."}}}
    content = read({"openapi": "3.0.0", "paths": paths})
    assert [tool.name for tool in content.tools] == ["a", "b", "GET /c"]
    told = "2 operations have no text, neither a summary nor a description; the first is GET /a"
    assert content.remarks == (("the file, /paths", told),)
    # The text of the path is that of its operations.
    for key in ("summary", "description"):
        (tool,) = read({"openapi": "3.0.0", "paths": {"/a": {key: "About a.", "get": silent}}}).tools
        assert tool.description == "About a."
