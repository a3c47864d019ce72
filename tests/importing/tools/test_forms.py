"""Every form of a list of tools is recognised by its content, and gives the same tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import DataError, UsageError
from bench.cli.data_import import command
from bench.data.tables import Parameter, Tool
from bench.importing.reading import Document
from bench.importing.tools import catalogue
from bench.importing.tools.catalogue import Catalogue, Source, catalogue_of, read_catalogue
from bench.importing.tools.forms import FORMS, Form
from bench.importing.tools.tool import as_listed

SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "Who gets it."},
        "when": {"type": ["string", "null"], "enum": ["now", "later", None], "default": "now"},
        "body": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    "required": ["to", "body"],
}
PARAMETERS = (
    Parameter("to", "string", "Who gets it.", True),
    Parameter("when", "string or null", "", False, '"now"'),
    Parameter("body", "object", "", True),
)
MCP: dict[str, Any] = {
    "name": "send",
    "title": "Send mail",
    "description": "Sends a letter.",
    "inputSchema": SCHEMA,
    "outputSchema": {"type": "object", "properties": {"receipt": {"type": "string"}}},
    "annotations": {"readOnlyHint": False},
}
PLAIN: dict[str, Any] = {"name": "send", "description": "Sends a letter."}
GEMINI = json.loads(json.dumps(SCHEMA).replace('["string", "null"]', '"STRING"').replace('"object"', '"OBJECT"'))
GEMINI["properties"]["when"]["nullable"] = True
GEMINI["properties"]["when"]["enum"] = ["now", "later"]
GEMINI["properties"]["to"]["type"] = GEMINI["properties"]["body"]["properties"]["text"]["type"] = "STRING"
FIND = {"name": "find", "description": "Finds a letter.", "inputSchema": {"type": "object"}}


def read(value: Any, form: Form | None = None, server: str = "") -> Catalogue:
    """The catalogue of one document."""
    return catalogue_of([(Document(value, "the file", "the file"), Source(Path(), server))], form)


def ids(value: Any, form: Form | None = None) -> list[str]:
    return [tool.tool_id for tool in read(value, form).tools]


def test_the_choices_of_the_command_are_the_forms() -> None:
    (option,) = [each for each in command.params if each.name == "form"]
    assert tuple(option.type.choices) == FORMS == get_args(Form)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([MCP], id="mcp"),
        pytest.param([{**PLAIN, "input_schema": SCHEMA}], id="anthropic"),
        pytest.param([{"type": "function", "function": {**PLAIN, "parameters": SCHEMA}}], id="openai-chat"),
        pytest.param([{"type": "function", **PLAIN, "parameters": SCHEMA, "strict": True}], id="openai-responses"),
        pytest.param({"functions": [{**PLAIN, "parameters": SCHEMA}]}, id="openai-functions"),
        pytest.param([{"functionDeclarations": [{**PLAIN, "parameters": GEMINI}]}], id="gemini"),
        pytest.param({"tools": [{"function_declarations": [{**PLAIN, "parameters": GEMINI}]}]}, id="gemini-request"),
        pytest.param([{**PLAIN, "parametersJsonSchema": SCHEMA}], id="gemini-json-schema"),
    ],
)
def test_each_form_gives_the_same_tool(value: Any) -> None:
    (tool,) = read(value).tools
    assert (tool.tool_id, tool.name, tool.description, tool.parent) == ("send", "send", "Sends a letter.", "")
    assert tool.parameters == PARAMETERS
    assert tool.schema() == SCHEMA


def test_what_only_mcp_has_is_kept() -> None:
    (tool,) = read([MCP]).tools
    assert (tool.title, tool.annotations, tool.deprecated) == ("Send mail", '{"readOnlyHint": false}', False)
    assert tool.return_names() == ("receipt",)
    (tool,) = read([{**FIND, "annotations": {"title": "Find"}, "deprecated": True}]).tools
    assert (tool.title, tool.deprecated) == ("Find", True)


def test_the_schema_of_a_reply_is_read_in_each_form() -> None:
    reply = {"type": "OBJECT", "properties": {"id": {"type": "STRING", "nullable": True}}}
    (old,) = read([{"functionDeclarations": [{"name": "f", "response": reply}]}]).tools
    assert json.loads(old.returns or "") == {"type": "object", "properties": {"id": {"type": ["string", "null"]}}}
    (new,) = read([{"functionDeclarations": [{"name": "f", "responseJsonSchema": SCHEMA}]}]).tools
    assert json.loads(new.returns or "") == SCHEMA


def rpc(*tools: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": {"tools": list(tools), **more}}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([MCP, FIND], ["send", "find"]),
        ({"tools": [MCP, FIND]}, ["send", "find"]),
        (rpc(MCP, FIND), ["send", "find"]),
        # Pages.
        ([{"tools": [MCP], "nextCursor": "2"}, {"tools": [FIND]}], ["send", "find"]),
        ([rpc(MCP, nextCursor="2"), rpc(FIND)], ["send", "find"]),
        (MCP, ["send"]),
        # Servers.
        ({"post": {"tools": [MCP]}, "archive": {"tools": [FIND]}}, ["post/send", "archive/find"]),
        ({"post": [MCP], "archive": [FIND, MCP]}, ["post/send", "archive/find", "archive/send"]),
        ([{"server_name": "post", "tools": [MCP]}, {"server_name": "archive", "tools": []}], ["post/send"]),
        ({"serverInfo": {"name": "post"}, "tools": [MCP]}, ["post/send"]),
        ([{"name": "Post", "tools": {"post": {"server_name": "post", "tools": [MCP]}}}], ["post/send"]),
        ([{"functionDeclarations": [{"name": "bare"}]}], ["bare"]),
        # OpenAI's namespaces, and tools without a schema.
        ([{"type": "namespace", "name": "post", "tools": [{"type": "function", **PLAIN}]}], ["post/send"]),
        ([{"type": "web_search_20250305", "name": "web_search"}], ["web_search"]),
    ],
)
def test_lists_pages_and_servers_are_found(value: Any, found: list[str]) -> None:
    assert ids(value) == found


def test_forms_mix_in_one_list() -> None:
    value = [
        MCP,
        {"type": "function", "function": {"name": "find", "parameters": {}}},
        {"name": "x", "input_schema": {}},
    ]
    assert ids(value) == ["send", "find", "x"]


@pytest.mark.parametrize(
    "value",
    [None, 1, "text", {}, [1, 2], [[]], {"name": "bench", "version": "1", "description": "no tool"}, {"tools": "all"}],
    ids=repr,
)
def test_what_is_no_catalogue_is_refused_in_a_sentence(value: Any) -> None:
    with pytest.raises(DataError) as caught:
        read(value)
    text = str(caught.value)
    assert text.startswith(("the file cannot be imported: it is not a list of tools", "there is no tool in the file"))
    assert text.endswith(".")


def test_an_error_of_the_server_is_told() -> None:
    with pytest.raises(DataError, match="it is an error of the server: Unauthorized"):
        read({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Unauthorized"}})


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ({"inputSchema": {}}, "the tool has no name"),
        ({"name": None, "inputSchema": {}}, "the tool has no name"),
        ({"name": 7, "inputSchema": {}}, "the name is a number"),
        ({"name": "  ", "inputSchema": {}}, "the name is blank"),
        ({"name": "a\x07b", "inputSchema": {}}, "the name 'a\N{REPLACEMENT CHARACTER}b' contains control characters"),
        ({"name": "a" * 257, "inputSchema": {}}, "is longer than 256 characters"),
        ({"name": "a", "description": ["b"], "inputSchema": {}}, "the description of a is a list"),
        ("send", "it is not an object"),
        ({"name": "server", "description": "d", "tools": None}, "its `tools` are no list of tools"),
        ({"name": "server", "description": "d", "tools": {"s": {"tools": 3}}}, "its `tools` are no list of tools"),
        ({"name": "alone"}, "it has neither a description nor an input schema"),
        (None, "it is not an object"),
    ],
)
def test_what_is_no_tool_is_skipped_and_told(tool: Any, reason: str) -> None:
    content = read({"tools": [FIND, tool]})
    assert [each.name for each in content.tools] == ["find"]
    ((place, told),) = content.remarks
    assert place == "the file, /tools/1"
    assert reason in told


def test_a_schema_that_is_none_is_kept_for_the_audit() -> None:
    (tool,) = read([{"name": "a", "inputSchema": {"type": "strng", "properties": ["x"], "required": 3}}]).tools
    assert (tool.parameters, tool.input_schema) == ((), '{"type": "strng", "properties": ["x"], "required": 3}')


def test_parameters_behind_references_and_alternatives_are_found() -> None:
    schema: dict[str, Any] = {
        "$ref": "#/$defs/Args",
        "$defs": {
            "Args": {
                "allOf": [{"properties": {"a": {"$ref": "#/$defs/Id"}}, "required": ["a"]}, {"$ref": "#/$defs/Args"}]
            },
            "Id": {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "An id."},
        },
        "oneOf": [{"properties": {"b": True}, "required": ["b"]}, {"properties": {"c": True}, "required": ["c"]}],
    }
    # A `$ref` stands for all of the schema that has it, as in JSON Schema before 2019-09.
    (tool,) = read([{"name": "t", "inputSchema": schema}]).tools
    assert tool.parameters == (Parameter("a", "integer or string", "An id.", True),)
    del schema["$ref"]
    schema["allOf"] = [{"$ref": "#/$defs/Args"}]
    (tool,) = read([{"name": "t", "inputSchema": schema}]).tools
    assert [(each.name, each.required) for each in tool.parameters] == [("a", True), ("b", False), ("c", False)]
    schema["oneOf"][1]["required"] = ["b", "c"]
    (tool,) = read([{"name": "t", "inputSchema": schema}]).tools
    assert [(each.name, each.required) for each in tool.parameters] == [("a", True), ("b", True), ("c", False)]


@pytest.mark.parametrize(("form", "names"), [("mcp", ["send"]), ("anthropic", ["find"]), ("openai", ["go"])])
def test_a_forced_form_takes_its_own_tools_and_tells_the_others(form: Form, names: list[str]) -> None:
    value = [
        {"name": "send", "inputSchema": {}},
        {"name": "find", "input_schema": {}},
        {"name": "go", "parameters": {}},
    ]
    content = read(value, form)
    expected = ["send", "find"] if form == "mcp" else names
    assert [tool.name for tool in content.tools] == expected
    assert len(content.remarks) == 3 - len(expected)
    assert all(f"not of the form {form}" in reason for _, reason in content.remarks)


# Ids ----------------------------------------------------------------------------------------------------------------


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")
    return path


def files(*sources: Path | str, **options: Any) -> list[str]:
    return [tool.tool_id for tool in read_catalogue([Source.of(str(source)) for source in sources], **options).tools]


def test_one_list_needs_no_server_and_several_are_called_after_their_files(tmp_path: Path) -> None:
    post, archive = write(tmp_path / "post.json", [MCP]), write(tmp_path / "archive" / "tools.json", {"tools": [MCP]})
    assert files(post) == ["send"]
    assert files(post, archive) == ["post/send", "archive/send"]
    assert files(tmp_path) == ["post/send", "archive/send"]
    assert files(f"mail={post}") == ["mail/send"]
    assert files(f"mail={post}", f"old={archive}") == ["mail/send", "old/send"]


def test_a_folder_with_a_file_for_each_tool_is_one_list(tmp_path: Path) -> None:
    folder = tmp_path / "pkg" / "post" / "__toolsnaps__"
    write(folder / "send.snap", MCP), write(folder / "find.snap", FIND)
    assert files(folder) == ["find", "send"]
    assert files(folder, write(tmp_path / "other.json", [MCP])) == ["post/find", "post/send", "other/send"]


def test_a_file_whose_name_has_an_equals_sign_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a=b.json", [MCP])
    monkeypatch.chdir(tmp_path)
    assert files("a=b.json") == ["send"]
    assert files("c=a=b.json") == ["c/send"]


def test_two_tools_with_one_id_are_an_error_that_names_both(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.json", [FIND, MCP]), write(tmp_path / "b.json", [{**MCP, "description": "No."}])
    with pytest.raises(DataError) as caught:
        files(f"post={first}", f"post={second}")
    assert "two tools have the id 'post/send': a.json, /1 and b.json, /0; " in str(caught.value)
    result = read_catalogue([Source(first, "post"), Source(second, "post")], drop_duplicates=True)
    assert [tool.description for tool in result.tools] == ["Finds a letter.", "Sends a letter."]
    assert result.remarks == (("b.json, /0", "it has the id of a.json, /1, which is kept: post/send"),)


def test_an_equal_copy_is_dropped_and_told() -> None:
    content = read([MCP, FIND, MCP])
    assert [tool.name for tool in content.tools] == ["send", "find"]
    assert content.remarks == (("the file, /2", "it is equal to the file, /0, which is kept"),)
    # The order of keys says nothing.
    turned = json.loads(json.dumps({**MCP, "inputSchema": dict(reversed(SCHEMA.items()))}, sort_keys=True))
    assert read([MCP, FIND, turned]).remarks == content.remarks


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab{é\u2028", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a$é", max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(st.text("xyz"), JSON)})
LISTED: Any = st.fixed_dictionaries(
    {"name": st.text("abc/é", min_size=1, max_size=3)},
    optional={
        **dict.fromkeys(("title", "description"), st.none() | st.text("a \n", max_size=4)),
        **dict.fromkeys(("inputSchema", "outputSchema"), OBJECTS | JSON),
        "annotations": st.dictionaries(st.sampled_from(["title", "readOnlyHint", "read_only_hint", "x"]), JSON),
        "deprecated": st.booleans(),
        **dict.fromkeys(("server", "namespace"), st.just("other")),
    },
)


@given(st.lists(LISTED, max_size=5, unique_by=lambda tool: tool["name"]))
def test_a_tool_as_a_server_lists_it_is_read_again_as_the_same(tools: list[dict[str, Any]]) -> None:
    try:
        listed = read({"tools": tools}, server="a b").tools
    except DataError:
        return
    text = json.dumps({"server": "a b", "tools": list(map(as_listed, listed))}, ensure_ascii=False)
    assert read(json.loads(text)).tools == listed


def test_a_folder_may_hold_other_files(tmp_path: Path) -> None:
    write(tmp_path / "post.json", [MCP]), write(tmp_path / "package.json", {"name": "x", "version": "1"})
    write(tmp_path / "node_modules" / "other" / "tools.json", [MCP]), write(tmp_path / ".hidden.json", [MCP])
    (tmp_path / "README.md").write_text("# Tools")
    result = read_catalogue([Source(tmp_path)])
    assert [tool.tool_id for tool in result.tools] == ["send"]
    ((place, reason),) = result.remarks
    assert place == f"{tmp_path.name}/package.json"
    assert reason.startswith("it is not a list of tools")


def test_the_working_folder_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "post.json", [MCP]), write(tmp_path / "package.json", {"name": "x", "version": "1"})
    monkeypatch.chdir(tmp_path)
    assert files(".") == ["send"]


def test_what_is_skipped_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MOST_TOOLS", 10)
    with pytest.raises(UsageError, match="the sources have more than 10 tools"):
        read({"tools": [None] * 11})


def test_the_server_of_a_file_must_have_a_name_that_can_be_shown() -> None:
    with pytest.raises(DataError, match=r"the file, /po\S+st/0: the server's name .* contains control characters"):
        read({"po\x00st": [MCP]})


def test_a_tool_equals_itself_in_all_but_its_place() -> None:
    (tool,) = read([FIND], server="s").tools
    assert tool == Tool("s/find", "find", "Finds a letter.", parent="s", input_schema='{"type": "object"}')
