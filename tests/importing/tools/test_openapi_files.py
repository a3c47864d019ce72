"""APIs in several files: references are followed beside and below the document, and nowhere else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import DataError, UsageError
from bench.importing import reading
from bench.importing.tools import references
from bench.importing.tools.catalogue import Catalogue, Source, read_catalogue

ROOT = """
openapi: 3.1.0
info: {title: Shop, version: "1", description: {$ref: about.md}}
paths:
  /orders: {$ref: paths/orders.yaml}
  /orders/{id}:
    summary: One order
    delete: {$ref: "paths/order.yaml#/cancel", tags: [orders]}
    get:
      operationId: getOrder
      description: {$ref: about.md}
      responses: {"200": {$ref: "shared/answers.json#/Order"}}
components:
  parameters:
    lang: {name: lang, in: header, schema: {type: string}}
"""
FILES = {
    "root.yaml": ROOT,
    "about.md": "About orders.\n",
    "paths/orders.yaml": """
parameters: [{$ref: "../root.yaml#/components/parameters/lang"}]
post:
  operationId: createOrder
  summary: Place an order
  requestBody: {content: {application/json: {schema: {$ref: "../shared/order.yaml#/New"}}}}
""",
    "paths/order.yaml": """
cancel:
  operationId: cancelOrder
  summary: Cancel an order
  parameters: [{$ref: "../shared/parameters.yaml#/0"}]
""",
    "shared/parameters.yaml": """
- {name: id, in: path, required: true, description: Number of the order., schema: {type: string}}
- {name: page, in: query, description: The page., schema: {type: integer}}
""",
    "shared/order.yaml": """
Base: {type: object, required: [customer], properties: {customer: {type: string, description: Who orders.}}}
New:
  allOf:
    - {$ref: "#/Base"}
    - required: [items]
      properties:
        items: {type: array, items: {$ref: item.json}}
        after: {$ref: "#/New"}
""",
    "shared/item.json": json.dumps(
        {"type": "object", "properties": {"name": {"type": "string"}, "order": {"$ref": "order.yaml#/New"}}}
    ),
    "shared/answers.json": json.dumps(
        {"Order": {"content": {"application/json": {"schema": {"$ref": "order.yaml#/Base"}}}}}
    ),
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def api(body: Any) -> str:
    """A document with one operation whose body has the field `x` of the given schema."""
    schema = {"type": "object", "properties": {"x": body}}
    post = {"operationId": "a", "summary": "A", "requestBody": {"content": {"application/json": {"schema": schema}}}}
    return json.dumps({"openapi": "3.1.0", "paths": {"/a": {"post": post}}})


def read(path: Path) -> Catalogue:
    return read_catalogue([Source(path)])


@pytest.mark.parametrize("source", ["root.yaml", "."])
def test_paths_operations_parameters_and_schemas_are_in_other_files(tmp_path: Path, source: str) -> None:
    folder = write(tmp_path / "shop", FILES)
    catalogue = read(folder / source if source != "." else folder)
    # The parts are no catalogues of their own, though one of them is a list of names with descriptions.
    assert catalogue.remarks == ()
    tools = {tool.tool_id: tool for tool in catalogue.tools}
    assert list(tools) == ["createOrder", "cancelOrder", "getOrder"]
    new = tools["createOrder"]
    assert [(p.name, p.type, p.required) for p in new.parameters] == [
        ("lang", "string", False),
        ("customer", "string", True),
        ("items", "array", True),
        ("after", "object", False),
    ]
    schema = new.schema()
    assert schema["properties"]["items"]["items"] == {"$ref": "#/$defs/item"}
    assert schema["$defs"]["item"]["properties"]["order"] == {"$ref": "#/$defs/New"}
    cancel = tools["cancelOrder"]
    assert [(p.name, p.description, p.required) for p in cancel.parameters] == [("id", "Number of the order.", True)]
    assert (cancel.parent, cancel.description, cancel.title) == ("orders", "Cancel an order", "Cancel an order")
    assert (tools["getOrder"].description, tools["getOrder"].title) == ("About orders.", "One order")
    assert tools["getOrder"].return_names() == ("customer",)


def test_a_part_of_an_api_that_is_forced_has_its_files(tmp_path: Path) -> None:
    value = json.loads(api({"$ref": "good.json"}))
    del value["openapi"]
    folder = write(tmp_path, {"api.json": json.dumps(value), "good.json": '{"type": "string"}'})
    (tool,) = read_catalogue([Source(folder / "api.json")], "openapi").tools
    assert tool.parameters[0].type == "string"


def test_two_schemas_of_one_name_in_two_files_stay_two(tmp_path: Path) -> None:
    body = {"anyOf": [{"$ref": "a.json#/S"}, {"$ref": "b.json#/S"}, {"$ref": "./a.json#/S"}]}
    files = {"api.json": api(body), "a.json": '{"S": {"type": "string"}}', "b.json": '{"S": {"type": "integer"}}'}
    (tool,) = read(write(tmp_path, files) / "api.json").tools
    assert sorted(each["type"] for each in tool.schema()["$defs"].values()) == ["integer", "string"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("gone.yaml#/A", "leads to no file"),
        ("folder.json", "leads to no file"),
        ("pipe.json", "leads to no file"),
        ("a%00b.json", "leads to no file"),
        ("x" * 300 + ".json", "leads to no file"),
        ("secret.env", "leads to a file that is neither JSON nor YAML"),
        ("good.json#/Gone", "leads nowhere"),
        ("../secret.json", "leads out of the folder of the document"),
        ("sub/../../secret.json", "leads out of the folder of the document"),
        ("%2e%2e/secret.json", "leads out of the folder of the document"),
        ("link.json", "leads out of the folder of the document"),
        ("linked/secret.json", "leads out of the folder of the document"),
        ("circle.json", "leads to no file"),
        ("/etc/hosts", "leads out of the folder of the document"),
        ("https://example.org/a.json#/A", "is an address, and nothing is fetched"),
        ("//example.org/a.json", "is an address, and nothing is fetched"),
        ("file:///etc/hosts", "is an address, and nothing is fetched"),
    ],
)
def test_a_reference_that_leads_out_or_to_nothing_is_told(tmp_path: Path, target: str, reason: str) -> None:
    folder = write(tmp_path / "shop", {"api.json": api({"$ref": target}), "good.json": "{}", "secret.env": "{}"})
    write(tmp_path, {"secret.json": '{"type": "string", "description": "secret"}'})
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "circle.json").symlink_to(folder / "circle.json")
    (folder / "absolute.json").write_text("{}")
    catalogue = read(folder / "api.json")
    assert catalogue.tools[0].schema()["properties"] == {"x": {}}
    ((_, told),) = catalogue.remarks
    assert told.endswith(f" {reason}; any value is allowed there")
    assert len(told) < 250


def test_an_absolute_path_is_none_even_inside_the_folder(tmp_path: Path) -> None:
    folder = write(tmp_path, {"api.json": "", "good.json": '{"type": "string"}'})
    (folder / "api.json").write_text(api({"$ref": str(folder / "good.json")}))
    ((_, told),) = read(folder / "api.json").remarks
    assert "leads out of the folder" in told


def test_what_the_user_names_may_be_a_link(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", {"real.json": api({"$ref": "good.json"}), "good.json": '{"type": "string"}'})
    (folder / "api.json").symlink_to(folder / "real.json")
    (tmp_path / "here").symlink_to(folder)
    for path in (folder / "api.json", tmp_path / "here" / "api.json"):
        catalogue = read(path)
        assert (catalogue.remarks, catalogue.tools[0].parameters[0].type) == ((), "string")


def test_a_folder_that_is_named_holds_all_its_documents(tmp_path: Path) -> None:
    files = {
        "api/api.json": api({"$ref": "../shared/s.json"}),
        "shared/s.json": '{"openapi": "3.1.0", "type": "string"}',
    }
    folder = write(tmp_path / "all", files)
    ((_, told),) = read(folder / "api" / "api.json").remarks
    assert "leads out of the folder of the document" in told
    catalogue = read(folder)
    assert (catalogue.remarks, catalogue.tools[0].parameters[0].type) == ((), "string")


def test_files_that_refer_to_each_other_in_a_circle_end(tmp_path: Path) -> None:
    paths = {"/a": {"$ref": "a.json#/x"}, "/b": {"get": {"$ref": "b.json"}}, "/c": {"get": {"summary": "Gets c."}}}
    files = {
        "api.json": json.dumps({"openapi": "3.0.0", "paths": paths}),
        "a.json": '{"x": {"$ref": "b.json"}}',
        "b.json": '{"$ref": "a.json#/x"}',
    }
    catalogue = read(write(tmp_path, files) / "api.json")
    assert [tool.name for tool in catalogue.tools] == ["GET /c"]
    assert [place for place, _ in catalogue.remarks] == ["api.json, /paths/~1a", "api.json, /paths/~1b/get"]
    assert "leads back to itself; the path has no operations" in catalogue.remarks[0][1]


def test_each_path_and_operation_that_is_lost_is_told(tmp_path: Path) -> None:
    paths = {name: {"$ref": "gone.json"} for name in ("/a", "/b")} | {"/c": {"get": {"$ref": "gone.json"}, "put": {}}}
    folder = write(tmp_path, {"api.json": json.dumps({"openapi": "3.0.0", "paths": paths})})
    reasons = [reason for _, reason in read(folder / "api.json").remarks]
    assert reasons == [
        "the reference gone.json leads to no file; the path has no operations",
        "the path is a reference that leads nowhere",
        "the operation is a reference that leads nowhere",
        "1 operation has no text, neither a summary nor a description; the first is PUT /c",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("{", "part.json is not JSON"), ("", "part.json is empty"), ('{"a": 1}\n{"b": 2}', "part.json holds several")],
)
def test_a_part_that_is_malformed_is_an_error_with_both_files(tmp_path: Path, text: str, sentence: str) -> None:
    folder = write(tmp_path, {"api.json": api({"$ref": "part.json"}), "part.json": text})
    with pytest.raises(DataError) as caught:
        read(folder / "api.json")
    assert f"{folder / 'api.json'}: " in str(caught.value)
    assert sentence in str(caught.value)


def test_files_and_their_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {f"p{n}.json": json.dumps({"type": "string", "description": "x" * 1000}) for n in range(5)}
    folder = write(tmp_path, {"api.json": api({"anyOf": [{"$ref": name} for name in parts]}), **parts})
    monkeypatch.setattr(references, "MOST_FILES", 4)
    with pytest.raises(UsageError, match="the references of an API lead to more than 4 files"):
        read(folder / "api.json")
    monkeypatch.undo()
    monkeypatch.setattr(reading, "MOST_BYTES_IN_ALL", 3000)
    with pytest.raises(UsageError, match=r"p\d\.json is larger than a catalogue may be"):
        read(folder / "api.json")
