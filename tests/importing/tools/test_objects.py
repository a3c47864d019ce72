"""Tool objects of agent frameworks, by stand-ins with the attributes that their packages document."""

from __future__ import annotations

from types import SimpleNamespace as Object
from typing import Any

import pydantic
import pytest

import bench
from bench.base.errors import DataError, UsageError
from bench.importing.tools.objects import as_json

SCHEMA = {
    "properties": {
        "to": {"title": "To", "type": "string"},
        "copies": {"default": 1, "title": "Copies", "type": "integer"},
    },
    "required": ["to"],
    "title": "Send",
    "type": "object",
}


class Send(pydantic.BaseModel):
    to: str
    copies: int = 1


class Old:
    """A model of pydantic 1."""

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return SCHEMA


class Dumped(Object):
    """A model of the MCP SDK."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        assert (mode, by_alias, exclude_none) == ("json", True, True)
        return {"name": self.name, "description": self.description, "inputSchema": SCHEMA}


def metadata(**more: Any) -> Object:
    return Object(description="Sends.", get_parameters_dict=lambda: SCHEMA, **more)


NAMED = {"name": "send", "description": "Sends."}
TOOLS = {
    "langchain": Object(**NAMED, args_schema=Send),
    "langchain, injected arguments": Object(**NAMED, args_schema=None, tool_call_schema=Send),
    "langchain, JSON schema": Object(**NAMED, args_schema=SCHEMA),
    "langchain, pydantic 1": Object(**NAMED, args_schema=Old),
    "llama-index": Object(metadata=metadata(get_name=lambda: "send")),
    "llama-index, plain name": Object(metadata=metadata(name="send")),
    "pydantic-ai": Object(**NAMED, tool_def=Object(**NAMED, parameters_json_schema=SCHEMA)),
    "pydantic-ai, definition": Object(**NAMED, parameters_json_schema=SCHEMA),
    "mcp 1": Dumped(**NAMED, inputSchema=SCHEMA),
    "mcp 2": Dumped(**NAMED, input_schema=SCHEMA),
    "json": {**NAMED, "inputSchema": SCHEMA},
}


@pytest.mark.parametrize("kind", TOOLS)
def test_each_kind_of_object_is_the_same_tool(kind: str) -> None:
    assert as_json([TOOLS[kind]]) == [{**NAMED, "inputSchema": SCHEMA}]
    (tool,) = bench.import_tools("mine", [TOOLS[kind]]).tools
    assert (tool.tool_id, tool.description, tool.schema()) == ("send", "Sends.", SCHEMA)
    assert [(each.name, each.type, each.required, each.default) for each in tool.parameters] == [
        ("to", "string", True, None),
        ("copies", "integer", False, "1"),
    ]


@pytest.mark.parametrize(
    "metadata",
    [
        # As langchain-mcp-adapters and pydantic-ai keep them.
        {"title": None, "readOnlyHint": True, "destructiveHint": None, "_meta": {"a": 1}},
        {"meta": None, "annotations": {"title": "Send", "readOnlyHint": True}, "output_schema": None},
        {"annotations": {"read_only_hint": True}, "other": object()},
    ],
    ids=["langchain", "pydantic-ai", "snake"],
)
def test_annotations_of_an_mcp_server_survive_its_adapter(metadata: dict[str, Any]) -> None:
    for schema in ({"args_schema": Send}, {"parameters_json_schema": SCHEMA}):
        (tool,) = bench.import_tools("mine", [Object(**NAMED, **schema, metadata=metadata)], replace=True).tools
        assert tool.annotations == '{"readOnlyHint": true}'


def test_objects_of_several_servers_and_answers_of_servers_are_taken() -> None:
    listed = Object(tools=[TOOLS["mcp 1"]])
    assert [tool.tool_id for tool in bench.import_tools("one", listed).tools] == ["send"]
    several = {"post": [TOOLS["langchain"]], "archive": [TOOLS["pydantic-ai"]]}
    assert [tool.tool_id for tool in bench.import_tools("two", several).tools] == ["archive/send", "post/send"]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (Object(name="x"), "'x' is not a tool of LangChain, LlamaIndex, pydantic-ai or the MCP SDK; pass JSON data"),
        (len, "an object of the type builtin_function_or_method is not a tool"),
        (Object(name="x", args_schema=3), "the tool 'x' does not state its schema (AttributeError: "),
        (
            Object(**NAMED, args_schema=Object(model_json_schema=lambda: 1 / 0)),
            "(ZeroDivisionError: division by zero).",
        ),
    ],
)
def test_what_is_no_tool_is_refused_in_a_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        bench.import_tools("mine", [value])
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "value", [[], {}, 3, None, [{"name": object()}]], ids=["list", "object", "number", "none", "no JSON"]
)
def test_data_that_is_no_catalogue_is_refused(value: Any) -> None:
    with pytest.raises(DataError):
        bench.import_tools("mine", value)
