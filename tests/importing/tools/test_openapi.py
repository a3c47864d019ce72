"""OpenAPI and Swagger: operations as tools, references within the document, dialects of schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bench.base.errors import DataError, UsageError
from bench.data.tables import Tool
from bench.importing.reading import Document
from bench.importing.tools import catalogue, openapi
from bench.importing.tools.catalogue import Catalogue, Source, catalogue_of, read_catalogue

YAML = """
openapi: 3.0.3
info: {title: Pets, version: "1"}
paths:
  /pets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: integer}, description: The pet.}
      - {name: lang, in: query, schema: {type: string}}
    get:
      operationId: getPet
      tags: [pets]
      summary: Get a pet
      description: Returns one pet.
      parameters:
        - {name: lang, in: query, required: true, schema: {type: string, enum: [no, en]}}
      responses:
        200: {description: ok, content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}
        default: {description: error}
    put:
      summary: Change a pet
      deprecated: true
      requestBody:
        required: true
        content:
          application/json: {schema: {$ref: "#/components/schemas/Pet"}}
      responses: {}
  /pets:
    post:
      operationId: addPets
      summary: Add pets
      requestBody: {$ref: "#/components/requestBodies/Pets"}
      responses: {"201": {$ref: "#/components/responses/Done"}}
components:
  requestBodies:
    Pets: {content: {application/json: {schema: {type: array, items: {$ref: "#/components/schemas/Pet"}}}}}
  responses:
    Done:
      description: done
      content: {application/json: {schema: {type: object, properties: {made: {type: integer}}}}}
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: {type: string, nullable: true}
        age: {type: integer, minimum: 0, exclusiveMinimum: true}
        parent: {$ref: "#/components/schemas/Pet"}
"""


def read(value: Any) -> Catalogue:
    return catalogue_of([(Document(value, "the file", "the file"), Source(Path()))])


@pytest.fixture
def pets(tmp_path: Path) -> dict[str, Tool]:
    """The tools of the document above, by name."""
    (tmp_path / "pets.yaml").write_text(YAML)
    result = read_catalogue([Source(tmp_path / "pets.yaml")])
    assert result.remarks == ()
    for tool in result.tools:
        Draft202012Validator.check_schema(tool.schema())
    return {tool.name: tool for tool in result.tools}


def test_operations_are_tools(pets: dict[str, Tool]) -> None:
    assert list(pets) == ["getPet", "PUT /pets/{id}", "addPets"]
    get = pets["getPet"]
    assert (get.parent, get.title, get.description, get.deprecated) == ("pets", "Get a pet", "Returns one pet.", False)
    assert get.annotations == '{"method": "GET", "path": "/pets/{id}"}'
    put = pets["PUT /pets/{id}"]
    assert (put.parent, put.description, put.deprecated) == ("pets", "Change a pet", True)


def test_parameters_and_body_are_one_schema(pets: dict[str, Tool]) -> None:
    # `no` is a text in YAML 1.2, and the operation's parameter replaces that of the path.
    assert pets["getPet"].schema() == {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "description": "The pet."},
            "lang": {"type": "string", "enum": ["no", "en"]},
        },
        "required": ["id", "lang"],
    }
    put = pets["PUT /pets/{id}"]
    assert [(p.name, p.type, p.required) for p in put.parameters] == [
        ("id", "integer", True),
        ("lang", "string", False),
        ("name", "string or null", True),
        ("age", "integer", False),
        ("parent", "object", False),
    ]


def test_a_schema_that_contains_itself_stays_what_it_is(pets: dict[str, Tool]) -> None:
    schema = pets["addPets"].schema()
    assert schema["properties"] == {"body": {"type": "array", "items": {"$ref": "#/$defs/Pet"}}}
    assert schema["$defs"]["Pet"]["properties"]["parent"] == {"$ref": "#/$defs/Pet"}
    assert schema["$defs"]["Pet"]["properties"]["age"] == {"type": "integer", "exclusiveMinimum": 0}
    valid = Draft202012Validator(schema)
    assert valid.is_valid({"body": [{"name": None, "parent": {"name": "Ann"}}]})
    assert not valid.is_valid({"body": [{"name": "Ann", "parent": {"name": 3}}]})
    assert pets["addPets"].return_names() == ("made",)
    assert pets["getPet"].return_names() == ("name", "age", "parent")


def test_swagger_2_has_its_schemas_elsewhere() -> None:
    value = {
        "swagger": "2.0",
        "paths": {
            "/files": {
                "post": {
                    "parameters": [
                        {
                            "name": "file",
                            "in": "formData",
                            "type": "file",
                            "required": True,
                            "description": "The file.",
                        },
                        {"name": "X-Tag", "in": "header", "type": "array", "items": {"type": "string"}},
                    ],
                    "responses": {"200": {"schema": {"$ref": "#/definitions/File"}}},
                },
                "put": {
                    "operationId": "putFile",
                    "parameters": [
                        {"name": "it", "in": "body", "required": True, "schema": {"$ref": "#/definitions/File"}}
                    ],
                },
            }
        },
        "definitions": {"File": {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}},
    }
    post, put = read(value).tools
    assert (post.name, post.parent) == ("POST /files", "files")
    assert post.schema() == {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary", "description": "The file."},
            "X-Tag": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["file"],
    }
    assert put.schema() == {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


def document(schema: Any, **more: Any) -> dict[str, Any]:
    post = {"operationId": "a", "summary": "A", "requestBody": {"content": {"application/json": {"schema": schema}}}}
    return {"openapi": "3.1.0", "paths": {"/a": {"post": post}}, **more}


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["application/xml", "application/vnd.api+JSON", "text/csv"], "application/vnd.api+JSON"),
        (["application/xml", "text/csv"], "application/xml"),
    ],
)
def test_a_body_is_that_of_json_or_else_the_first(kinds: list[str], expected: str) -> None:
    content = {kind: {"schema": {"type": "object", "properties": {kind: {"type": "string"}}}} for kind in kinds}
    post = {"operationId": "a", "requestBody": {"content": content}}
    (tool,) = read({"openapi": "3.1.0", "paths": {"/a": {"post": post}}}).tools
    assert list(tool.schema()["properties"]) == [expected]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("other.yaml#/A", "leads out of the document, which is in no file"),
        ("https://example.org/a.json", "is an address, and nothing is fetched"),
        ("#/components/schemas/Gone", "leads nowhere"),
        ("#/paths/~1a/get", "leads nowhere"),
        ("#nowhere", "leads nowhere"),
        ("http://[/", "leads nowhere"),
    ],
)
def test_a_reference_that_leads_out_or_nowhere_is_told_and_nothing_is_fetched(target: str, reason: str) -> None:
    content = read(document({"type": "object", "properties": {"x": {"$ref": target}, "y": {"type": "string"}}}))
    (tool,) = content.tools
    assert tool.schema()["properties"] == {"x": {}, "y": {"type": "string"}}
    ((place, told),) = content.remarks
    assert place == "the file, /paths/~1a/post"
    assert told == f"the reference {target} {reason}; any value is allowed there"


def test_operations_that_share_an_id_are_called_by_method_and_path() -> None:
    shown = {"operationId": "show", "summary": "Shows it."}
    paths = {
        "/cats/{id}": {"$ref": "#/components/pathItems/one"},
        "/dogs/{id}": {"$ref": "#/components/pathItems/one", "parameters": [{"name": "kind", "in": "query"}]},
        "/cats": {"get": shown, "post": {"operationId": "add", "summary": "Adds one."}},
    }
    value = {"openapi": "3.1.0", "paths": paths, "components": {"pathItems": {"one": {"get": shown, "delete": {}}}}}
    content = read(value)
    names = ["GET /cats/{id}", "DELETE /cats/{id}", "GET /dogs/{id}", "DELETE /dogs/{id}", "GET /cats", "add"]
    assert [tool.tool_id for tool in content.tools] == names
    told = (
        "the file, /paths/~1cats~1{id}/get and the file, /paths/~1dogs~1{id}/get",
        "the operationId 'show' is that of 3 operations; they are called GET /cats/{id}, GET /dogs/{id}, GET /cats",
    )
    assert told in content.remarks
    # Of two documents of one server; another server's are apart, and the same document twice is a copy.
    first, second = ({"openapi": "3.1.0", "paths": {path: {"get": shown}}} for path in ("/cats", "/dogs"))
    sources = [(first, "zoo"), (second, "zoo"), (second, "farm"), (second, "farm")]
    content = catalogue_of([(Document(value, "f", "f"), Source(Path(), server)) for value, server in sources])
    assert [tool.tool_id for tool in content.tools] == ["zoo/GET /cats", "zoo/GET /dogs", "farm/show"]
    assert len(content.remarks) == 2


def test_references_in_a_circle_end() -> None:
    parameters = {"p": {"$ref": "#/components/parameters/q"}, "q": {"$ref": "#/components/parameters/p"}}
    value = document({"$ref": "#/components/schemas/A"}, components={"parameters": parameters, "schemas": {}})
    value["components"]["schemas"] = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    value["paths"]["/a"]["post"]["parameters"] = [{"$ref": "#/components/parameters/p"}]
    content = read(value)
    assert [tool.name for tool in content.tools] == ["a"]
    assert content.remarks


def test_two_schemas_of_one_name_stay_two() -> None:
    value = document(
        {"type": "object", "properties": {"x": {"$ref": "#/components/schemas/A"}, "y": {"$ref": "#/other/A"}}},
        components={"schemas": {"A": {"type": "string"}}},
        other={"A": {"type": "integer"}},
    )
    (tool,) = read(value).tools
    assert sorted(each["type"] for each in tool.schema()["$defs"].values()) == ["integer", "string"]
    assert [(p.name, p.type) for p in tool.parameters] == [("x", "string"), ("y", "integer")]


def test_schemas_that_double_each_other_are_not_written_out() -> None:
    names = [f"A{number}" for number in range(60)]
    schemas = {
        name: {"type": "object", "properties": {side: {"$ref": f"#/components/schemas/{below}"} for side in "lr"}}
        for name, below in zip(names, [*names[1:], "A59"], strict=True)
    }
    (tool,) = read(document({"$ref": "#/components/schemas/A0"}, components={"schemas": schemas})).tools
    assert len(tool.input_schema or "") < 10_000


def test_a_response_schema_that_is_the_whole_document_is_left_out_and_told() -> None:
    schemas = {f"A{n}": {"type": "string", "description": "x" * 9000} for n in range(40)}
    value = document({"type": "string"}, components={"schemas": schemas})
    every = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in schemas]}
    value["paths"]["/a"]["post"]["responses"] = {"200": {"content": {"application/json": {"schema": every}}}}
    content = read(value)
    assert content.tools[0].returns is None
    ((place, reason),) = content.remarks
    assert place == "the file, /paths/~1a/post/responses"
    assert "the response schema is longer than 262144 characters" in reason


def test_all_schemas_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MOST_SCHEMAS", 1 << 20)
    schemas = {"A": {"type": "string", "description": "x" * 100_000}}
    value = document({"$ref": "#/components/schemas/A"}, components={"schemas": schemas})
    value["paths"] = {f"/{n}": {"post": {**value["paths"]["/a"]["post"], "operationId": f"o{n}"}} for n in range(50)}
    with pytest.raises(UsageError, match="the sources have more than 1 MiB of schemas"):
        read(value)


def test_the_work_of_references_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openapi, "_MOST_REFERRED", 100)
    value = document({"$ref": "#/components/schemas/A"}, components={"schemas": {"A": {"type": "string"}}})
    value["paths"] = {f"/{n}": {"post": {**value["paths"]["/a"]["post"], "operationId": f"o{n}"}} for n in range(101)}
    with pytest.raises(DataError) as caught:
        read(value)
    sentence = "the operations of an API refer to too many schemas; import a part of the document."
    assert str(caught.value) == f"the file: {sentence}"


@pytest.mark.parametrize("paths", [None, [], "no", {}], ids=repr)
def test_a_document_without_operations_is_refused(paths: Any) -> None:
    with pytest.raises(DataError, match=r"no `paths`|there is no tool"):
        read({"openapi": "3.0.0", "paths": paths})


@pytest.mark.parametrize("version", [None, "3.0.0"])
def test_a_part_of_a_document_can_be_forced(version: str | None) -> None:
    value = {"paths": {"/a": {"get": {"responses": {}}}}, **({"openapi": version} if version else {})}
    result = catalogue_of([(Document(value, "f", "f"), Source(Path()))], "openapi")
    assert [tool.name for tool in result.tools] == ["GET /a"]
