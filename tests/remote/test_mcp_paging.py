"""Lists of tools in pages: any cursor is one, every list ends, and what is odd about one is said."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.searchservice import Request, Service

from bench.registry import load_dataset
from bench.remote.answers import Unusable
from bench.remote.mcp import Listing, McpClient
from bench.remote.servers import Server

Bench = Callable[..., Any]

#: A server on its pipes whose pages are those of its argument: cursor -> page, the first under "start".
SERVER = """
import json, sys
pages = json.loads(sys.argv[1])
for line in sys.stdin:
    question = json.loads(line)
    if "id" not in question:
        continue
    about, answer = question.get("params") or {}, {"jsonrpc": "2.0", "id": question["id"]}
    if question["method"] == "initialize":
        answer["result"] = {"capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        answer["result"]["protocolVersion"] = about["protocolVersion"]
    elif question["method"] != "tools/list":
        answer["error"] = {"code": -32601, "message": "no"}
    else:
        cursor = about.get("cursor", "start")
        page = pages.get(cursor, pages.get("else"))
        if page is None:
            answer["error"] = {"code": -32602, "message": "Invalid cursor"}
        elif page == "die":
            sys.exit(3)
        else:
            answer["result"] = json.loads(json.dumps(page).replace("CURSOR", cursor))
    print(json.dumps(answer), flush=True)
"""


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}


def page(*names: str, **more: Any) -> dict[str, Any]:
    return {"tools": [tool(name) for name in names], **more}


@pytest.fixture
def listing(tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], Listing]]:
    """What the client makes of pages."""
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    clients = []

    def listing(pages: dict[str, Any]) -> Listing:
        clients.append(McpClient(Server((sys.executable, str(program), json.dumps(pages))), "a test"))
        return clients[-1].tools()

    yield listing
    for client in clients:
        client.close()


ENDLESS = {"start": page("t", nextCursor="1"), "else": page("tCURSOR", nextCursor="CURSOR1")}
SAME = {"start": page("a", nextCursor="1"), "else": page("a", nextCursor="CURSOR1")}


@pytest.mark.parametrize(
    ("pages", "names", "remark"),
    [
        ({"start": page("a")}, "a", ""),
        ({"start": page("a", nextCursor=None)}, "a", ""),
        ({"start": page("a", nextCursor="2"), "2": page("b")}, "a b", ""),
        # An empty cursor is one; for servers that mean none by it, the list is whole.
        ({"start": page("a", nextCursor=""), "": page("b")}, "a b", ""),
        ({"start": page("a", nextCursor=""), "": page("b", nextCursor="c"), "c": page("d")}, "a b d", ""),
        ({"start": page("a", nextCursor=""), "": page("a", nextCursor="")}, "a", ""),
        ({"start": page("a", nextCursor=""), "": page("a")}, "a", ""),
        (
            {"start": page("a", nextCursor="")},
            "a",
            "after an empty cursor there was the error -32602 ('Invalid cursor'); the list ends before it",
        ),
        (
            {"start": page("a", nextCursor=""), "": "die"},
            "a",
            "after an empty cursor there was no answer: the process ended with 3; the list ends before it",
        ),
        # A cursor that repeats, at once or in a circle.
        (
            {"start": page("a", "b", nextCursor="same"), "same": page("a", "b", nextCursor="same")},
            "a b",
            "its cursor 'same' repeats; the list ends there",
        ),
        (
            {"start": page("a", nextCursor=""), "": page("b", nextCursor="")},
            "a b",
            "its cursor '' repeats; the list ends there",
        ),
        (
            {"start": page("a", nextCursor="1"), "1": page("b", nextCursor="2"), "2": page("c", nextCursor="1")},
            "a b c",
            "its cursor '1' repeats; the list ends there",
        ),
        # New cursors, and nothing new behind them; pages without a tool between others.
        (SAME, "a", "20 pages in a row bring no further tool; the list ends there"),
        ({"start": page(nextCursor="1"), "else": page(nextCursor="CURSOR1")}, "", "20 pages in a row bring no further"),
        ({"start": page(nextCursor="1"), "1": page(nextCursor="2"), "2": page("a")}, "a", ""),
        # A list that changes between pages: what is listed twice is kept, for the catalogue to name.
        ({"start": page("a", "b", nextCursor="2"), "2": page("b", "c")}, "a b b c", ""),
    ],
)
def test_every_list_ends_and_what_is_odd_is_said(
    listing: Callable[[dict[str, Any]], Listing], pages: dict[str, Any], names: str, remark: str
) -> None:
    result = listing(pages)
    assert [each["name"] for each in result.tools] == names.split()
    assert result.remark.startswith(remark)
    assert bool(result.remark) == bool(remark)


def test_a_list_without_an_end_is_refused_with_how_many_tools_came(
    listing: Callable[[dict[str, Any]], Listing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.remote.mcp.MOST_PAGES", 30)
    with pytest.raises(Unusable, match="an endless list of tools: 30 tools on 30 pages, and a cursor to more"):
        listing(ENDLESS)


def test_an_error_in_the_middle_of_a_list_is_one(listing: Callable[[dict[str, Any]], Listing]) -> None:
    with pytest.raises(Unusable, match=r"the error -32602 \('Invalid cursor'\), after 1 tool on 1 page"):
        listing({"start": page("a", nextCursor="2")})


ODD = [
    {"description": "Nobody named it.", "inputSchema": {"type": "object"}},
    {"name": 3, "inputSchema": {"type": "object"}},
    "text",
    {"name": "untyped", "inputSchema": {}},
    {"name": "nothing", "description": "No schema.", "inputSchema": None},
    {"name": "hinted", "description": "d", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "maybe"}},
]


def test_one_odd_tool_does_not_lose_the_others(
    bench: Bench, tmp_path: Path, listing: Callable[[dict[str, Any]], Listing]
) -> None:
    assert listing({"start": {"tools": [tool("a"), *ODD], "_meta": {"x": 1}}}) == Listing([tool("a"), *ODD])
    pages = {"start": {"tools": [tool("a"), *ODD], "nextCursor": "x"}, "x": page("a")}
    config = {"command": sys.executable, "args": [str(tmp_path / "server.py"), json.dumps(pages)]}
    (tmp_path / "mcp.json").write_text(json.dumps({"servers": {"s": config}}))
    said = bench("data", "import", "mine", "--mcp-config", tmp_path / "mcp.json", "--json")
    assert [each.name for each in load_dataset("mine").tools] == ["a", "hinted", "nothing", "untyped"]
    assert [(each["place"], each["remark"]) for each in json.loads(said.out)["remarks"]] == [
        ("the MCP server s, /tools/1", "the tool has no name; its description is 'Nobody named it.'"),
        ("the MCP server s, /tools/2", "the name is a number"),
        ("the MCP server s, /tools/3", "it is not an object"),
    ]


def test_a_remark_about_a_list_is_shown_and_kept(
    bench: Bench, tmp_path: Path, listing: Callable[[dict[str, Any]], Listing]
) -> None:
    pages = {"start": page("a", nextCursor="same"), "same": page("b", nextCursor="same")}
    server = {"command": sys.executable, "args": [str(tmp_path / "server.py"), json.dumps(pages)]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    said = bench("data", "import", "mine", "--mcp-config", tmp_path / "mcp.json")
    sentence = "the MCP server s: its cursor 'same' repeats; the list ends there, with 2 tools"
    assert sentence in " ".join(said.err.split())
    assert load_dataset("mine").card.known_issues == [
        f"Left out or not resolved on import: 1 part of the sources; the first: {sentence}."
    ]


def test_pages_over_http_are_read_the_same_way(service: Service) -> None:
    def answer(request: Request) -> None:
        asked: dict[str, Any] = request.sent or {}
        if request.command != "POST":
            request.reply({}, 405)
        elif "id" not in asked:
            request.reply(b"", 202)
        else:
            reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
            if asked["method"] == "initialize":
                info = {"name": "w", "version": "1"}
                reply["result"] = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
            elif asked["method"] == "tools/list":
                cursor = (asked.get("params") or {}).get("cursor")
                first = {"tools": [tool("a"), *ODD], "nextCursor": ""}
                reply["result"] = first if cursor is None else page("b", nextCursor="")
            else:
                reply["error"] = {"code": -32601, "message": "no"}
            request.reply(reply, 200, {"Content-Type": "application/json"})

    service.answer = answer
    client = McpClient(Server(url=service.url), "a test")
    try:
        expected = Listing([tool("a"), *ODD, tool("b")], "its cursor '' repeats; the list ends there")
        assert client.tools() == expected
    finally:
        client.close()
