"""Servers first, then their tools: by hand."""

from __future__ import annotations

import pytest
from kit.rankings import make_library, make_queries, returned

from bench.base.errors import UsageError
from bench.data.tables import Tool
from bench.registry import build_method

#: (id, parent, description)
TOOLS = [
    ("a1", "mail", "send a letter"),
    ("a2", "mail", "read a letter letter"),
    ("a3", "mail", "delete a letter"),
    ("b1", "maps", "letter box on a map"),
    ("b2", "maps", "route on a map"),
    ("c1", "", "letter map map"),
]


def order(spec: str, query: str, depth: int = 100) -> list[str]:
    tools = tuple(Tool(name, name, text, parent=parent) for name, parent, text in TOOLS)
    method = build_method(spec)
    method.index(make_library(tools))
    ranking = method.rank(make_queries(query), depth)
    assert (ranking.scores is None) == spec.startswith("server-first")
    return [tools[code].tool_id for code in returned(ranking)]


def test_a_server_stands_where_its_best_tool_stands() -> None:
    assert order("bm25", "letter map") == ["c1", "b1", "b2", "a2", "a1", "a3"]
    assert order("server-first(base=bm25, servers=best)", "letter map") == ["c1", "b1", "b2", "a2", "a1", "a3"]
    # By `letter` alone: a2 (twice), then a1, a3 and c1 (three words), then b1, of which c1's server comes after a's.
    assert order("bm25", "letter") == ["a2", "a1", "a3", "c1", "b1"]
    assert order("server-first(base=bm25, servers=best, tools=1)", "letter") == ["a2", "c1", "b1", "a1", "a3"]


def test_a_server_is_ranked_by_its_text() -> None:
    # `mail` is in the name of a server alone: no tool's description has it, so the base's order of tools counts.
    result = order("server-first(base=bm25)", "mail mail mail map letter")
    assert result[:3] == ["a2", "a1", "a3"]
    assert order("bm25", "mail mail mail map letter")[0] == "c1"


def test_further_tools_follow_in_the_order_of_the_base() -> None:
    result = order("server-first(base=bm25, tools=1)", "mail mail mail map letter")
    assert result == ["a2", "c1", "b1", "b2", "a1", "a3"]


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_shallower_ranking_is_the_beginning_of_the_deeper_one(depth: int) -> None:
    spec = "server-first(base=bm25)"
    assert order(spec, "letter map", depth) == order(spec, "letter map")[:depth]


def test_only_what_the_base_returns_is_returned() -> None:
    assert order("server-first", "nothing") == []
    assert order("server-first(base=bm25)", "route") == ["b2"]


def test_a_base_that_knows_past_queries_alone_ranks_no_text_of_a_server() -> None:
    with pytest.raises(UsageError, match="servers=best"):
        build_method("server-first(base=nearest-query)")
    build_method("server-first(base=nearest-query, servers=best)")
