"""Names of tools as gateways and clients write them: what each means, and where nothing is guessed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.data.tables import Parameter, Tool
from bench.data.tool_names import NameRecord, ToolNames

GATEWAY = [
    Tool("fs/read", "read", "", parent="fs"),
    Tool("fs/write", "write", "", parent="fs"),
    Tool("mail/read", "read", "", parent="mail"),
    Tool("mail/send", "send", "", parent="mail"),
]
BARE = [Tool(name, name, "") for name in ("read", "write", "send")]
PREFIXED = [
    Tool("mcp__fs__read", "mcp__fs__read", ""),
    Tool("my_fs__write", "my_fs__write", ""),
    Tool("mail.send", "mail.send", ""),
    Tool("web:open", "web:open", ""),
]


def meant(tools: list[Tool], name: str) -> list[str]:
    return [tools[code].tool_id for code in ToolNames(tools).find(name)]


@pytest.mark.parametrize(
    "name",
    [
        *("fs:read", "fs__read", "mcp__fs__read", "fs.read", "fs/read", "fs-read", "fs_read", "_fs_read", "FS:Read"),
        *("functions.fs__read", "functions.mcp__fs__read", "mcp_fs_read", "mcp.fs.read", "default_api.fs_read"),
        *("gateway__fs__read", "mcp__gateway__fs__read", "proxy/fs/read", "fs: read", "fs:read()"),
        *("@fs/read", "#fs.read", "fs___read", "mcp__plugin_files_fs__read", "mcp__plugin_fs_fs__read"),
    ],
)
def test_a_server_and_a_name_are_written_in_many_ways(name: str) -> None:
    assert meant(GATEWAY, name) == ["fs/read"]


@pytest.mark.parametrize("name", ["send", "_send", "SEND", "functions.send", "mcp__send", "mail:send"])
def test_a_name_alone_is_enough_where_one_tool_has_it(name: str) -> None:
    assert meant(GATEWAY, name) == ["mail/send"]


@pytest.mark.parametrize(
    "name",
    ["fs:read", "fs__read", "mcp__fs__read", "fs.read", "fs/read", "fs-read", "fs_read", "_read", "Read", "read"],
)
def test_a_library_that_tells_no_servers_is_asked_with_them(name: str) -> None:
    assert meant(BARE, name) == ["read"]


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        *(("read", "mcp__fs__read"), ("fs:read", "mcp__fs__read"), ("fs/read", "mcp__fs__read")),
        *(("write", "my_fs__write"), ("my_fs/write", "my_fs__write"), ("send", "mail.send"), ("OPEN", "web:open")),
    ],
)
def test_a_library_may_have_the_longer_names(name: str, tool: str) -> None:
    assert meant(PREFIXED, name) == [tool]


@pytest.mark.parametrize(
    ("tools", "name"),
    [
        # A server that the library knows by another name, or that has no such tool.
        (GATEWAY, "filesystem:read"),
        (GATEWAY, "fs:send"),
        (GATEWAY, "other:send"),
        (PREFIXED, "other:send"),
        ([Tool("read", "read", "", parent="fs"), Tool("send", "send", "", parent="mail")], "mail:read"),
        # `-` and `_` stand inside names of these libraries, so that nothing can be cut off there.
        ([Tool("issues", "issues", ""), Tool("list-users", "list-users", "")], "list-issues"),
        ([Tool("issues", "issues", ""), Tool("list_users", "list_users", "")], "list_issues"),
        *((BARE, name) for name in ("", "_", "__", "::", "mcp__", "functions.", "x" * 2_000, "rea", "reads")),
    ],
)
def test_nothing_is_guessed(tools: list[Tool], name: str) -> None:
    assert meant(tools, name) == []


@pytest.mark.parametrize(
    ("tools", "name", "ids"),
    [
        (GATEWAY, "read", ["fs/read", "mail/read"]),
        (GATEWAY, "_READ", ["fs/read", "mail/read"]),
        # One tool has the name, and a gateway would write the other so.
        ([Tool("x/fs_read", "fs_read", "", parent="x"), GATEWAY[0]], "fs_read", ["x/fs_read", "fs/read"]),
        ([Tool("a_b", "a_b", ""), Tool("a-b", "a-b", "")], "a.b", ["a_b", "a-b"]),
        ([Tool("_read", "_read", ""), Tool("read", "read", "")], "__read", ["_read", "read"]),
    ],
)
def test_between_two_nothing_is_chosen_and_both_are_named(tools: list[Tool], name: str, ids: list[str]) -> None:
    assert meant(tools, name) == ids
    said = ToolNames(tools).fault(name)
    assert all(each in said for each in ids)
    assert said.endswith("use the id")


def test_an_id_means_its_tool_whatever_else_is_called_so() -> None:
    tools = [Tool("_read", "_read", ""), Tool("read", "read", ""), Tool("fs_read", "x", ""), *GATEWAY]
    names = ToolNames(tools)
    assert all(names.find(tool.tool_id) == (code,) for code, tool in enumerate(tools))


def test_servers_are_recognised_by_category_too_and_in_any_script() -> None:
    api = Tool("shop/pets/getPet", "getPet", "", category="shop", parent="pets")
    other = Tool("Café Büro/列出", "列出", "", parent="Café Büro")
    for name in ("shop__getPet", "pets.getPet", "shop:pets:getpet", "getPet"):
        assert meant([api, other], name) == ["shop/pets/getPet"]
    for name in ("café büro:列出", "Caf__B_ro__列出", "列出", "CAFÉ-BÜRO__列出"):
        assert meant([api, other], name) == ["Café Büro/列出"]


def test_method_and_path_are_a_name() -> None:
    tool = Tool("api/getPet", "getPet", "", category="api", annotations='{"method": "GET", "path": "/pets/{id}"}')
    assert meant([tool, *GATEWAY], "GET /pets/{id}") == ["api/getPet"]


def test_near_names_are_found_in_a_small_and_a_large_library() -> None:
    assert ToolNames(GATEWAY).near("mcp__fs__wrote")[0] == "fs/write"
    assert ToolNames(GATEWAY).fault("mail:sned").startswith("there is no tool 'mail:sned' (near: mail/send")
    tools = [
        Tool(f"server{n % 500}/do_thing_{n}", f"do_thing_{n}", "", parent=f"server{n % 500}") for n in range(5_000)
    ]
    names = ToolNames([*tools, Tool("weather/forecast", "forecast", "", parent="weather")])
    assert names.near("wether:forcast") == ["weather/forecast"]
    assert names.fault("\x1b[31m" + "x" * 5_000).isprintable()
    assert len(names.fault("x" * 5_000)) < 200


def test_a_tool_that_was_renamed_is_found_by_what_it_is() -> None:
    text, shape = "Opens a ticket.", (Parameter("title"), Parameter("body"))
    tools = [Tool("open_issue", "open_issue", text), Tool("get", "get", "", parameters=shape), *BARE]
    names = ToolNames(tools)
    # A service says what its tool does.
    assert names.near("create_issue", "Opens  a ticket.\n")[0] == "open_issue"
    assert names.fault("create", description=text) == "there is no tool 'create'; 'open_issue' has its description"
    # The library before tells what the name meant.
    before = [Tool("create_issue", "create_issue", text), Tool("put", "put", "x", parameters=shape[::-1]), *BARE]
    names = ToolNames(tools, lambda: before)
    assert names.fault("create_issue") == "there is no tool 'create_issue'; 'open_issue' has its description"
    assert names.fault("put") == "there is no tool 'put'; 'get' has its parameters"
    # Where several have it, none is suggested.
    twice = [*tools, Tool("raise", "raise", text.upper()), Tool("set", "set", "", parameters=shape)]
    for name in ("create_issue", "put"):
        assert "has its" not in ToolNames(twice, lambda: before).fault(name)
        assert "has its" not in ToolNames(tools).fault(name)


def test_a_record_says_what_was_mapped_and_what_means_nothing() -> None:
    names, record = ToolNames(GATEWAY), NameRecord()
    assert (record.mapped(), record.unknown(names), record.resolves_nothing) == ("", "", False)
    record.miss("blub")
    assert record.resolves_nothing
    record.take("fs/read", "fs/read")
    assert not record.resolves_nothing
    assert record.mapped() == ""
    record.take("send", "mail/send")
    assert record.mapped() == "1 name of a tool was mapped to an id (1 time): send to mail/send (1)"
    for _ in range(2):
        record.take("fs:read", "fs/read")
    for number in range(3):
        record.take(f"w{number}", "fs/write")
        record.miss(f"wrote{number}")
    assert record.mapped().startswith("5 names of tools were mapped to ids (6 times): fs:read to fs/read (2), send to")
    assert record.mapped().endswith(" and 2 more")
    record.miss("blub")
    start = "there is no tool 'blub', in 2 answers; there is no tool 'wrote0' (near: fs/write"
    assert record.unknown(names).startswith(start)
    assert record.unknown(names).endswith("; and 1 more")


@given(st.text(max_size=40))
def test_any_text_has_a_meaning_or_none(name: str) -> None:
    for tools in (GATEWAY, BARE, PREFIXED):
        names = ToolNames(tools)
        assert all(0 <= code < len(tools) for code in names.find(name))
        assert names.fault(name)


def test_the_same_name_means_the_same_in_any_order_of_the_library() -> None:
    draw, forms = random.Random(0), ("{}:{}", "{}__{}", "mcp__{}__{}", "{}.{}", "{}-{}", "functions.{}_{}")
    tools = [
        Tool(f"{server}/{name}", name, "", parent=server)
        for server in ("git", "git_hub", "hub", "a")
        for name in ("hub_list", "list", "b_c", "c")
    ]
    written = [form.format(tool.parent, tool.name) for tool in tools for form in forms] + ["list", "c", "hub_list"]
    expected = {name: sorted(meant(tools, name)) for name in written}
    for form in forms[:4]:
        assert all(expected[form.format(tool.parent, tool.name)] == [tool.tool_id] for tool in tools)
    # Nothing tells `git` + `hub_list` from `git_hub` + `list` where all signs are alike: both are named.
    assert expected["functions.git_hub_list"] == ["git/hub_list", "git_hub/list"]
    for _ in range(5):
        draw.shuffle(tools)
        assert {name: sorted(meant(tools, name)) for name in written} == expected
