"""Tools of several servers in one source: gateways, flat lists, registries, folders; and what is a server, no tool."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import DataError
from bench.data.tables import Tool
from bench.importing.reading import Document
from bench.importing.tools.catalogue import Catalogue, Source, catalogue_of, read_catalogue
from bench.importing.tools.forms import NoCatalogueError, tools_of
from bench.importing.tools.tool import DocumentTool

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = {"name": "read", "description": "Reads a file.", "inputSchema": SCHEMA}
SEND = {"name": "send", "description": "Sends a letter.", "inputSchema": {"type": "object"}}
CARD = {
    "$schema": "https://static.example.org/schemas/2025-12-11/server.schema.json",
    "name": "org.example/files",
    "description": "Files of a disk.",
    "version": "1.0.2",
    "packages": [{"registryType": "npm", "identifier": "files", "transport": {"type": "stdio"}}],
}


def read(value: Any) -> Catalogue:
    return catalogue_of([(Document(value, "the file", "the file"), Source(Path()))])


def ids(value: Any) -> list[str]:
    return [tool.tool_id for tool in read(value).tools]


def one(value: Any) -> Tool:
    (tool,) = read([value]).tools
    return tool


# A tool names its server ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "server",
    [
        *({key: "fs"} for key in "server server_name serverName server_label serverLabel mcp_server serverId".split()),
        {"mcp_info": {"server_name": "fs", "logo_url": None}},
        {"serverInfo": {"name": "fs", "version": "1"}},
        {"server": {"name": "fs"}},
    ],
    ids=str,
)
def test_tools_of_one_name_on_two_servers_get_ids_with_their_server(server: dict[str, Any]) -> None:
    tools = [{**READ, **server}, {**READ, "server": "mail", "description": "Reads a letter."}]
    assert ids({"tools": tools}) == ids(tools) == ["fs/read", "mail/read"]
    content = read({"tools": tools}).tools
    assert [(tool.name, tool.parent) for tool in content] == [("read", "fs"), ("read", "mail")]


def test_a_server_of_a_wrapped_tool_is_its_server() -> None:
    function = {"name": "read", "description": "Reads.", "parameters": SCHEMA}
    assert ids([{"type": "function", "server": "fs", "function": function}]) == ["fs/read"]
    assert ids([{"server": "fs", "tool": READ}, {"serverName": "mail", "tool": READ}]) == ["fs/read", "mail/read"]


@pytest.mark.parametrize("name", ["name", "tool", "tool_name", "toolName"])
@pytest.mark.parametrize("text", ["description", "tool_description", "toolDescription", "desc"])
def test_flat_lists_call_the_parts_of_a_tool_otherwise(name: str, text: str) -> None:
    rows = [{"server": "fs", name: "read", text: "Reads a file."}, {"server_name": "mail", name: "read", text: "Mail."}]
    content = read(rows)
    assert [(tool.tool_id, tool.description) for tool in content.tools] == [
        ("fs/read", "Reads a file."),
        ("mail/read", "Mail."),
    ]
    assert content.remarks == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # OpenAI's item, alone and in an answer, in which the servers of the request are no tools.
        ({"type": "mcp_list_tools", "server_label": "fs", "tools": [READ]}, ["fs/read"]),
        (
            {
                "object": "response",
                "output": [
                    {"type": "mcp_list_tools", "server_label": "fs", "tools": [{**READ, "annotations": None}]},
                    {"type": "mcp_list_tools", "server_label": "mail", "tools": [SEND]},
                    {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]},
                ],
                "tools": [
                    {"type": "mcp", "server_label": "fs", "server_url": "https://example.org"},
                    {"type": "function", "name": "add", "parameters": {}},
                ],
            },
            ["fs/read", "mail/send", "add"],
        ),
        # Docker's catalogue and a snapshot of it, the MCP registry, Cline.
        ({"registry": {"fs": {"title": "F", "type": "server", "tools": [READ]}, "x": {"type": "remote"}}}, ["fs/read"]),
        ({"servers": [{"type": "server", "snapshot": {"server": {"name": "fs", "tools": [READ]}}}]}, ["fs/read"]),
        ({"servers": [{"server": {**CARD, "tools": [READ]}}, {"server": CARD}]}, ["org.example/files/read"]),
        ({"mcpServers": [{"name": "fs", "config": "{}", "tools": [READ]}]}, ["fs/read"]),
        ({"mcpServers": {"fs": {"command": "x", "tools": [READ]}, "mail": {"command": "x"}}}, ["fs/read"]),
        # Pages of other interfaces.
        ({"data": [READ, SEND]}, ["read", "send"]),
        ({"items": [{**READ, "server": "fs"}], "total": 1}, ["fs/read"]),
        ({"result": {"tools": [READ]}}, ["read"]),
        ({"data": {"server_name": "fs", "tools": [READ]}}, ["fs/read"]),
        (
            {
                "type": "response.output_item.done",
                "item": {"type": "mcp_list_tools", "server_label": "fs", "tools": [READ]},
            },
            ["fs/read"],
        ),
        # Items of a conversation: a call is no tool.
        (
            [
                {"type": "mcp_list_tools", "server_label": "fs", "tools": [READ]},
                {"type": "mcp_call", "name": "read", "arguments": "{}", "server_label": "fs"},
                {"type": "function_call", "name": "other", "arguments": "{}"},
            ],
            ["fs/read"],
        ),
        # Servers with and without tools, beside what is about the whole.
        ([{"name": "fs", "tools": [READ]}, {"name": "mail", "description": "A server that lists none."}], ["fs/read"]),
        ({"version": 2, "fs": {"tools": [READ]}, "about": {"a": 1}}, ["fs/read"]),
        ({"servers": {"fs": {"read": {"inputSchema": SCHEMA}}, "mail": {"title": "Mail"}}}, ["fs/read"]),
        # Servers whose names mean something elsewhere.
        ({"data": {"tools": [READ]}, "fs": {"tools": [READ]}}, ["data/read", "fs/read"]),
        ({"registry": [READ], "server": [READ]}, ["registry/read", "server/read"]),
        ({"data": [READ], "errors": [{"code": 1}]}, ["read"]),
        # By name.
        ({"tools": {"read": {"description": "Reads.", "inputSchema": SCHEMA}}}, ["read"]),
        ({"read": {"description": "Reads.", "parameters": SCHEMA}, "send": {"inputSchema": {}}}, ["read", "send"]),
    ],
)
def test_registries_and_answers_are_read(value: Any, expected: list[str]) -> None:
    assert ids(value) == expected


# A server is no tool -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        CARD,
        [CARD, CARD],
        {"servers": [{"server": CARD, "_meta": {}}], "metadata": {"count": 1}},
        {"servers": [{"name": "a", "description": "A server of an older registry.", "version": "1"}]},
        [{"name": "a", "description": "An older one.", "repository": {"url": "u"}, "version_detail": {"version": "1"}}],
        {"serverInfo": {"name": "a"}, "protocolVersion": "2025-06-18", "description": "A card.", "tools": ["dynamic"]},
        {"name": "fs", "image": "mcp/fs", "type": "server", "about": {"title": "F", "description": "Files."}},
        {"registry": {"fs": {"description": "Files.", "type": "server", "image": "mcp/fs", "tools": []}}},
        [{"name": "fs", "description": "Files.", "type": "streamable-http", "url": "https://example.org/mcp"}],
        [{"name": "org.example/files", "description": "Files.", "version": "1.0.0"}],
        {"prompts": [{"name": "ask", "description": "Asks."}]},
        [{"name": "id", "in": "path", "description": "A parameter of an API.", "schema": {"type": "string"}}],
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_what_describes_servers_or_else_brings_no_tool(value: Any) -> None:
    with pytest.raises(DataError) as caught:
        read(value)
    assert str(caught.value).startswith(("there is no tool in the file", "the file cannot be imported: "))
    assert len(str(caught.value)) < 300


def test_a_card_beside_tools_is_told_and_no_tool(tmp_path: Path) -> None:
    for name, value in (("server.json", CARD), ("tools.json", {"tools": [READ]})):
        (tmp_path / name).write_text(json.dumps(value))
    catalogue = read_catalogue([Source(tmp_path)])
    assert [tool.tool_id for tool in catalogue.tools] == ["read"]
    assert catalogue.remarks == ((f"{tmp_path.name}/server.json", "it describes a server and lists none of its tools"),)


# Docker's arguments --------------------------------------------------------------------------------------------------


def test_arguments_of_docker_are_required_unless_optional() -> None:
    tool = one(
        {
            "name": "query",
            "description": "Runs a query.",
            "arguments": [
                {"name": "sql", "type": "string", "desc": "The statement."},
                {"name": "values", "type": "array", "items": {"type": "string"}, "desc": "", "optional": False},
                {"name": "limit", "type": "integer", "desc": "Rows at most.", "optional": True},
            ],
            "annotations": {"title": "Query", "readOnlyHint": True},
        }
    )
    assert [(p.name, p.type, p.description, p.required) for p in tool.parameters] == [
        ("sql", "string", "The statement.", True),
        ("values", "array", "", True),
        ("limit", "integer", "Rows at most.", False),
    ]
    assert tool.schema()["properties"]["values"]["items"] == {"type": "string"}
    assert (tool.title, tool.annotations) == ("Query", '{"title": "Query", "readOnlyHint": true}')


@pytest.mark.parametrize(
    ("key", "about", "required"),
    [
        ("arguments", {}, True),
        ("arguments", {"optional": True}, False),
        ("arguments", {"required": False}, False),
        ("arguments", {"required": True}, True),
        ("parameters", {}, False),
        ("parameters", {"required": True}, True),
        ("parameters", {"required": False}, False),
        ("parameters", {"optional": False}, True),
        ("inputSchema", {"required": True}, True),
    ],
)
def test_what_a_list_of_parameters_requires(key: str, about: dict[str, Any], required: bool) -> None:
    tool = one({"name": "t", "description": "d", key: [{"name": "a", "type": "string", **about}]})
    assert [(p.name, p.required) for p in tool.parameters] == [("a", required)]


def test_an_empty_list_of_parameters_is_a_schema() -> None:
    for key in ("parameters", "inputSchema", "arguments"):
        content = read({"tools": [{"name": "t", "description": "d", key: []}]})
        assert content.remarks == ()
        assert content.tools[0].schema() == {"type": "object", "properties": {}}


def test_arguments_that_are_no_list_of_parameters_are_none() -> None:
    arguments: Any
    for arguments in (None, [], {}, "a", [1], [{"type": "string"}]):
        assert one({"name": "t", "description": "d", "arguments": arguments}).parameters == ()


@pytest.mark.parametrize("key", ["inputSchema", "schema", "args_schema", "input_parameters"])
def test_a_schema_may_have_another_name_or_be_written_into_a_text(key: str) -> None:
    assert one({"name": "t", "description": "d", key: SCHEMA}).schema() == SCHEMA
    if key == "inputSchema":
        assert one({"name": "t", "description": "d", key: json.dumps(SCHEMA)}).schema() == SCHEMA
        for text in ("a text", "", "[" * 5000, '["\\ud800"]'):
            assert one({"name": "t", "description": "d", key: text}).schema() == text


# Annotations ---------------------------------------------------------------------------------------------------------


HINTS = {"readOnlyHint": True, "openWorldHint": False}


@pytest.mark.parametrize(
    "about",
    [
        {"annotations": HINTS},
        {"annotations": {"read_only_hint": True, "open_world_hint": False}},
        {**HINTS, "destructiveHint": "yes"},
        {"metadata": HINTS},
        {"metadata": {"annotations": {**HINTS, "destructiveHint": None}, "other": 1}},
        {"_meta": {"annotations": HINTS}},
        {"annotations": {"readOnlyHint": True}, "readOnlyHint": False, "open_world_hint": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("schema", ["inputSchema", "input_schema", "parameters", "parametersJsonSchema"])
def test_annotations_are_read_from_every_form(about: dict[str, Any], schema: str) -> None:
    assert json.loads(one({"name": "t", schema: {}, **about}).annotations or "{}") == HINTS
    wrapped = {"type": "function", "function": {"name": "t", "parameters": {}}}
    assert json.loads(one({**wrapped, **about}).annotations or "{}") == HINTS


def test_without_annotations_there_are_none() -> None:
    assert one({**READ, "annotations": None, "metadata": {"a": 1}, "_meta": []}).annotations is None


# Folders -------------------------------------------------------------------------------------------------------------


def folder(path: Path, files: dict[str, list[Any]]) -> list[str]:
    for name, lines in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("\n".join(map(json.dumps, lines)))
    return sorted(tool.tool_id for tool in read_catalogue([Source(path)]).tools)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"fs.jsonl": [READ, SEND], "mail.jsonl": [READ]}, id="JSON Lines"),
        pytest.param({"fs/tools.jsonl": [READ, SEND], "mail/tools.jsonl": [READ]}, id="folders of JSON Lines"),
        pytest.param({"fs.json": [READ, SEND], "mail.json": [READ, READ]}, id="JSON Lines by another name"),
        pytest.param({"fs/schema.json": [[READ, SEND]], "mail/schema.json": [{"tools": [READ]}]}, id="schema.json"),
        pytest.param({"fs/schema.json": [[READ, SEND]], "mail/schema.json": [READ]}, id="schema.json of one tool"),
        pytest.param(
            {"fs/tools/read.json": [READ], "fs/tools/send.json": [SEND], "mail/tools/read.json": [READ]}, id="files"
        ),
        pytest.param({"servers/fs/tools.json": [[READ, SEND]], "servers/mail/tools.json": [[READ]]}, id="Docker"),
        pytest.param(
            {
                "all.jsonl": [
                    {"server": "fs", **READ},
                    {"server": "fs", "tool_name": "send", "description": "Sends."},
                    {"server": "mail", **READ},
                ]
            },
            id="one file",
        ),
    ],
)
def test_each_file_or_folder_is_a_server(tmp_path: Path, files: dict[str, list[Any]]) -> None:
    assert folder(tmp_path, files) == ["fs/read", "fs/send", "mail/read"]


def test_one_list_alone_needs_no_server(tmp_path: Path) -> None:
    assert folder(tmp_path, {"fs/schema.json": [[READ, SEND]]}) == ["read", "send"]
    assert folder(tmp_path / "b", {"fs.jsonl": [READ, SEND]}) == ["read", "send"]


# Anything ------------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    "name description inputSchema parameters arguments tools tool servers registry data output server mcpServers type "
    "function annotations metadata _meta in $ref paths openapi".split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "function", "server", "mcp_list_tools"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)


@given(VALUES)
def test_any_value_brings_tools_or_a_sentence(value: Any) -> None:
    with contextlib.suppress(NoCatalogueError):
        for item in tools_of(value):
            assert isinstance(item, DocumentTool) or item.reason
