"""Graph RAG-Tool Fusion: the order by hand, on cycles and long chains, and with rules where nothing is annotated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.datasets import loaded
from kit.rankings import make_queries, returned
from kit.validation import assert_conforms

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.tables import Tool
from bench.evaluation.method_errors import check_facts
from bench.interface import Library, Method, Queries
from bench.registry import build_method

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]

#: By bm25, `one two three` ranks a, b, c; the others share no word with it and are not returned.
TOOLS = {"a": "one two three", "b": "two three here", "c": "three here here", "d": "four", "e": "five", "f": "six"}
EDGES = [("a", "d"), ("a", "c"), ("d", "e"), ("e", "a"), ("c", "f"), ("b", "f")]


def order(method: Method, depth: int = 10) -> str:
    return "".join("abcdef"[code] for code in returned(method.rank(make_queries("one two three"), depth)))


def test_each_tool_is_followed_by_what_it_needs(make: Make, prepared: Prepared) -> None:
    data = make(TOOLS, edges=EDGES)
    assert order(prepared("bm25", data)) == "abc"
    # a needs c (which the base ranks) before d; c needs f; d needs e, which needs a: a cycle ends where it began.
    method = prepared("graph-rag-tool-fusion(base=bm25, initial=1)", data)
    assert order(method) == "acfdeb"
    assert check_facts(method)["graph"] == "manual"
    assert check_facts(method)["edges"] == 6
    assert order(prepared("graph-rag-tool-fusion(base=bm25, initial=3)", data)) == "acfdeb"
    # What is found as a dependency is expanded there, and not again.
    assert order(prepared("graph-rag-tool-fusion(base=bm25)", make(TOOLS, edges=[("b", "a"), ("a", "f")]))) == "afbc"


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_a_shallower_ranking_is_the_beginning(make: Make, prepared: Prepared, depth: int) -> None:
    method = prepared("graph-rag-tool-fusion(base=bm25)", make(TOOLS, edges=EDGES))
    assert order(method, depth) == order(method)[:depth]


def test_without_annotations_rules_are_taken_or_an_error(make: Make, prepared: Prepared) -> None:
    method = prepared("graph-rag-tool-fusion(base=bm25)", make(TOOLS))
    assert order(method) == "abc"
    assert check_facts(method)["graph"] == "rules"
    with pytest.raises(UsageError, match="annotated edges"):
        prepared("graph-rag-tool-fusion(base=bm25, graph=manual)", make(TOOLS))
    with pytest.raises(UsageError, match="discriminator"):
        build_method("graph-rag-tool-fusion(graph=discriminator)")


def test_rules_and_files_may_be_asked_for(make: Make, prepared: Prepared, tmp_path: Path) -> None:
    path = tmp_path / "edges.tsv"
    path.write_text("dependent\tprerequisite\nb\te\n")
    data = make(TOOLS, edges=EDGES)
    assert order(prepared(f'graph-rag-tool-fusion(base=bm25, graph="{path}")', data)) == "abec"
    assert order(prepared("graph-rag-tool-fusion(base=bm25, graph=rules)", data)) == "abc"


def test_a_chain_as_long_as_the_library(prepared: Prepared) -> None:
    count = 3000
    tools = tuple(Tool(f"{code:05}", f"t{code}", "word" if code == 0 else "other") for code in range(count))
    edges = np.array([(code, code + 1) for code in range(count - 1)], dtype=np.int32)
    method = build_method("graph-rag-tool-fusion(base=bm25, initial=1)")
    method.index(Library(tools, tuple(tool.description for tool in tools), "description", edges))
    assert method.rank(Queries(("word",), np.arange(1)), count).tools[0].tolist() == list(range(count))


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12), st.integers(1, 6))
def test_a_tool_stands_once_and_behind_what_needs_it(edges: set[tuple[int, int]], initial: int) -> None:
    tools = tuple(Tool(str(code), str(code), text) for code, text in enumerate(TOOLS.values()))
    pairs = np.array(sorted(edges), dtype=np.int32).reshape(-1, 2)
    method = build_method(f"graph-rag-tool-fusion(base=bm25, graph=manual, initial={initial})")
    if not len(pairs):
        return
    method.index(Library(tools, tuple(TOOLS.values()), "description", pairs))
    result = order(method)
    assert len(set(result)) == len(result)
    assert result[0] == "a"
    needed = {"abcdef"[b] for a, b in edges if "abcdef"[a] in result[:1]}
    assert needed <= set(result)


def test_it_keeps_the_protocol_with_edges() -> None:
    data = loaded("starter")
    assert_conforms("graph-rag-tool-fusion(base=bm25)", data)
