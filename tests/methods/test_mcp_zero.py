"""MCP-Zero: its formula by hand, replies good and bad, rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.chatserver import Body, ChatServer
from kit.rankings import make_library, make_queries, scores_by_code

from bench.data.dataset import Dataset
from bench.data.tables import Tool
from bench.evaluation.method_errors import check_facts
from bench.interface import Method, Queries
from bench.interface.parts import needs_llm, preflight
from bench.methods.mcp_zero import read_blocks
from bench.registry import build_method

Make = Callable[..., Dataset]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

#: (id, parent, description)
TOOLS = [("a1", "mail", "send"), ("a2", "mail", "read"), ("b1", "maps", "route"), ("c1", "", "pay")]
VECTORS = {
    "mail: a1: send\na2: read": (1, 0, 0),
    "maps: b1: route": (0.6, 0.8, 0),
    "c1: c1: pay": (0, 0, 1),
    "send": (0.8, 0.6, 0),
    "read": (0.6, 0, 0.8),
    "route": (0, 1, 0),
    "pay": (0, 0.6, 0.8),
    "a post office": (1, 0, 0),
    "sends letters": (0.8, 0.6, 0),
    "a bank": (0, 0, 1),
    "moves money": (0, 0, 1),
    "send letter. then pay bill": (0.6, 0.8, 0),
    "send letter": (0.8, 0.6, 0),
    "pay bill": (0, 0, 1),
    "silence": (0, 1, 0),
}


def indexed(spec: str) -> Method:
    tools = tuple(Tool(name, name, text, parent=parent) for name, parent, text in TOOLS)
    library = make_library(tools)
    method = build_method(spec)
    preflight(method, library, None)  # type: ignore[arg-type]
    method.index(library)
    return method


def scores(method: Method, text: str) -> dict[str, float]:
    by_code = scores_by_code(method.rank(make_queries(text), 10))
    return {TOOLS[code][0]: score for code, score in by_code.items()}


def test_the_formula_by_hand(planted: Planted, chat_server: ChatServer) -> None:
    planted(VECTORS)
    chat_server.answer = lambda body: "<tool_assistant>\nserver: a post office\ntool: sends letters\n</tool_assistant>"
    method = indexed("mcp-zero(llm=some-model)")
    # Servers: mail 1, maps 0.6, c1 0. Tools: a1 1, a2 0.8 * 0.6 = 0.48, b1 0.6, c1 0.36.
    expected = {"a1": 1.0, "a2": 0.48 * 1, "b1": 0.6 * 0.6 * 0.6, "c1": 0.0}
    assert scores(method, "asked") == pytest.approx(expected, abs=1e-6)
    assert needs_llm(method)
    assert method.marks() == {}
    assert "3 at most" in chat_server.prompts[0]


def test_tools_of_other_servers_follow(planted: Planted, chat_server: ChatServer) -> None:
    planted(VECTORS)
    chat_server.answer = lambda body: "server: a post office\ntool: sends letters"
    result = scores(indexed("mcp-zero(llm=some-model, servers=1)"), "asked")
    assert result == pytest.approx({"a1": 1.0, "a2": 0.48, "b1": 0.216 - 2, "c1": -2.0}, abs=1e-6)


def test_a_tool_has_the_best_of_its_scores(planted: Planted, chat_server: ChatServer) -> None:
    planted(VECTORS)
    chat_server.answer = lambda body: "server: a post office\ntool: sends letters\n\nServer: a bank\nTool: moves money"
    method = indexed("mcp-zero(llm=some-model)")
    # The bank: servers 0, 0, 1; tools 0, 0.8, 0, 0.8.
    assert scores(method, "asked") == pytest.approx({"a1": 1.0, "c1": 0.8, "a2": 0.48, "b1": 0.216}, abs=1e-6)
    assert check_facts(method)["descriptions"] == 2


def test_rules_take_the_request_for_the_server_and_its_clauses_for_tools(planted: Planted) -> None:
    planted(VECTORS)
    method = indexed("mcp-zero")
    assert method.marks() == {"rules": "uses rules instead of a language model (llm=rules)"}
    # Servers by the request: mail 0.6, maps 0.36 + 0.64 = 1, c1 0.
    # Tools by the clauses: a1 1 (send letter), a2 0.8 (pay bill), b1 0.6 (send letter), c1 0.8 (pay bill).
    expected = {"a1": 0.6 * 1 * 1, "b1": 0.6, "a2": 0.6 * 0.8 * 0.8, "c1": 0.0}
    assert scores(method, "send letter. then pay bill") == pytest.approx(expected, abs=1e-6)
    facts = check_facts(method)
    assert (facts["servers"], facts["descriptions"], facts["replies_unusable"]) == (3, 2, 0)


def test_bad_replies(planted: Planted, chat_server: ChatServer) -> None:
    planted(VECTORS)

    def answer(body: Body) -> str:
        return "" if "send letter" in body["messages"][-1]["content"] else "I would use a bank."

    chat_server.answer = answer
    method = indexed("mcp-zero(llm=some-model)")
    ranking = method.rank(Queries(("silence", "send letter"), np.arange(2)), 4)
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [False, True]
    # The request stands for both: maps is the nearest server, route the nearest tool.
    assert ranking.tools[0, 0] == 2
    assert check_facts(method)["replies_unusable"] == 1


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("", ()),
        ("server: a\nserver: b\ntool: c", (("b", "c"),)),
        ("tool: c\nserver: a", ()),
        ("- **Server:** a  b\n- **Tool:** c: d\ntool: e", (("a b", "c: d"),)),
        ("<tool_assistant> server: a\ntool: b </tool_assistant>\nserver: a\ntool: b", (("a", "b"),)),
        ("server:\ntool: b", ()),
    ],
)
def test_blocks_are_read(reply: str, found: tuple[tuple[str, str], ...]) -> None:
    assert read_blocks(reply) == found


@given(st.text("servertol: \n<>*-", max_size=200))
def test_whatever_the_reply_says_both_parts_have_a_text(reply: str) -> None:
    assert all(server.strip() and tool.strip() for server, tool in read_blocks(reply))
