"""The text of a tool by each template of the protocol's section 4, and the field names of its response."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.tables import Parameter, Tool
from bench.data.template import TEMPLATES, Template

TOOL = Tool(
    tool_id="weather/forecast",
    name="forecast",
    description="Tells tomorrow's weather in °C.",
    category="Weather",
    parent="Open Sky",
    parameters=(
        Parameter("city", "STRING", "Where: “Zürich”", required=True),
        Parameter("days", "NUMBER", "How many.", required=False, default="3"),
        Parameter("unit", "", "", required=True, default='"°C"'),
        Parameter("hourly", "BOOLEAN", required=False, default="null"),
    ),
    returns='{"days": [{"max": "float", "_list_length": 3}], "note": "str"}',
    source="Open Sky forecast: tomorrow's weather",
)

# Written out by hand, as json.dumps has it by default: ", " and ": " between, non-ASCII escaped.
TOOLBENCH = (
    "Weather, Open Sky, forecast, Tells tomorrow's weather in °C., "
    'required_params: [{"name": "city", "type": "STRING", "description": "Where: \\u201cZ\\u00fcrich\\u201d"}, '
    '{"name": "unit", "type": "", "description": "", "default": "\\u00b0C"}], '
    'optional_params: [{"name": "days", "type": "NUMBER", "description": "How many.", "default": 3}, '
    '{"name": "hourly", "type": "BOOLEAN", "description": "", "default": null}], '
    'return_schema: {"days": [{"max": "float", "_list_length": 3}], "note": "str"}'
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("description", "Tells tomorrow's weather in °C."),
        ("name_description", "forecast: Tells tomorrow's weather in °C."),
        ("toolbench", TOOLBENCH),
        ("source", "Open Sky forecast: tomorrow's weather"),
    ],
)
def test_the_text_is_what_the_template_says(template: Template, text: str) -> None:
    assert TOOL.text(template) == text


def test_every_template_of_the_protocol_is_there() -> None:
    assert TEMPLATES == ("description", "name_description", "name_parameters", "full", "toolbench", "source")


def test_a_bare_tool_has_a_text_by_every_template() -> None:
    bare = Tool("t", "name", "")
    assert [bare.text(template) for template in TEMPLATES] == [
        "",
        "name: ",
        "name: ",
        '{"type": "function", "function": {"name": "name", "description": "", "parameters": {"type": "object", '
        '"properties": {}}}}',
        ', , name, , required_params: [], optional_params: [], return_schema: ""',
        "name: ",
    ]


def test_an_empty_source_is_a_text_and_a_missing_one_is_not() -> None:
    assert Tool("t", "name", "does", source="").text("source") == ""
    assert Tool("t", "name", "does", source=None).text("source") == "name: does"


def toolbench_retriever(doc: dict[str, Any]) -> str:
    """The text that ToolBench's retriever encodes for a document (`process_retrieval_ducoment` in its utils)."""
    fields = [doc["category_name"], doc["tool_name"], doc["api_name"], doc["api_description"]]
    fields += [
        f"{title}: {json.dumps(doc.get(key, ''))}"
        for title, key in (
            ("required_params", "required_parameters"),
            ("optional_params", "optional_parameters"),
            ("return_schema", "template_response"),
        )
    ]
    return ", ".join(fields)


texts = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
# In the order in which ToolBench's documents have the keys.
plain_parameters = st.tuples(texts, texts, texts).map(
    lambda row: dict(zip(("name", "type", "description"), row, strict=True))
)
documented = plain_parameters | st.builds(lambda row, default: {**row, "default": default}, plain_parameters, values)


@given(texts, texts, texts, texts, st.lists(documented, max_size=3), st.lists(documented, max_size=3), st.data())
@settings(deadline=None, max_examples=50)
def test_the_toolbench_text_is_the_one_of_toolbenchs_retriever(
    category: str,
    parent: str,
    name: str,
    description: str,
    required: list[dict[str, Any]],
    optional: list[dict[str, Any]],
    data: st.DataObject,
) -> None:
    doc: dict[str, Any] = {
        "category_name": category,
        "tool_name": parent,
        "api_name": name,
        "api_description": description,
        "required_parameters": required,
        "optional_parameters": optional,
    }
    if data.draw(st.booleans()):
        doc["template_response"] = data.draw(values)
    inputs = [
        Parameter(
            one["name"],
            one["type"],
            one["description"],
            needed,
            json.dumps(one["default"]) if "default" in one else None,
        )
        for needed, group in ((False, optional), (True, required))  # their order among one another does not matter
        for one in group
    ]
    returns = json.dumps(doc["template_response"]) if "template_response" in doc else None
    assert Tool("t", name, description, category, parent, tuple(inputs), returns).text(
        "toolbench"
    ) == toolbench_retriever(doc)


# Field names of responses -------------------------------------------------------------------------------------------


def names(schema: object) -> tuple[str, ...]:
    return Tool("t", "n", "d", returns=json.dumps(schema)).return_names()


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({}, ()),
        ("a text that was cut off {", ()),
        (None, ()),
        (3, ()),
        ([], ()),
        ({"a": "str", "b": "int"}, ("a", "b")),
        ({"a": {"b": {"c": "str"}}}, ("a", "b", "c")),
        ([{"a": "str"}], ("a",)),
        ([[{"a": "str"}, {"b": "str"}]], ("a", "b")),
        ({"a": [{"b": "str", "_list_length": 4}], "_list_length": 1}, ("a", "b")),
        ({"id": "int", "items": [{"id": "int", "x": "str"}]}, ("id", "items", "x")),
        ({"": "str"}, ("",)),
        # A field that is described: its description is no response.
        ({"token": {"type": "str", "description": "The user's token."}}, ("token",)),
        ({"token": {"type": "str", "description": "The user's token.", "required": True}}, ("token",)),
        ({"a": [{"type": "str", "description": "One of many."}]}, ("a",)),
        # A response that itself has fields of these names gives type names for both.
        ({"event": {"type": "str", "description": "str"}}, ("event", "type", "description")),
        ({"event": {"type": "str", "description": "list of str with length 3"}}, ("event", "type", "description")),
        ({"event": {"type": "str", "description": "empty list"}}, ("event", "type", "description")),
        # And one that holds more than texts describes no field.
        ({"e": {"type": "str", "description": "Big.", "at": {"day": 1}}}, ("e", "type", "description", "at", "day")),
        ({"event": {"type": "str"}}, ("event", "type")),
    ],
)  # fmt: skip
def test_names_at_any_depth_are_found(schema: object, found: tuple[str, ...]) -> None:
    assert set(names(schema)) == set(found)
    assert len(names(schema)) == len(found)


def test_names_come_in_the_order_of_their_first_appearance() -> None:
    assert names({"a": {"b": "str", "d": {"e": "str"}}, "c": [{"b": "str", "f": "str"}]}) == (
        "a",
        "b",
        "d",
        "e",
        "c",
        "f",
    )


def test_a_tool_without_a_schema_has_no_names() -> None:
    assert Tool("t", "n", "d").return_names() == ()


def test_a_schema_may_be_nested_deeply() -> None:
    schema: object = "str"
    for level in range(300):
        schema = {f"level {level}": [schema]}
    assert len(names(schema)) == 300


plain = st.recursive(
    st.sampled_from(["str", "int", "empty list", "list of str with length 2"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdefgh"), inner, max_size=4),
    max_leaves=20,
)


def keys_of(schema: object) -> set[str]:
    if isinstance(schema, dict):
        return set(schema).union(*(keys_of(value) for value in schema.values()))
    if isinstance(schema, list):
        return set().union(*(keys_of(value) for value in schema))
    return set()


@given(plain)
@settings(deadline=None)
def test_every_key_of_a_plain_schema_is_found_once(schema: object) -> None:
    assert sorted(names(schema)) == sorted(keys_of(schema))
