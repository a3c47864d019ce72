"""protip: the subtraction by hand, against distances worked out plainly, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.interface import Method, Queries
from bench.interface.explanation import Case
from bench.interface.views import History, Library
from bench.methods import protip
from bench.registry import build_method
from bench.search import progressive
from bench.search.dense import normalize
from bench.search.scoring import EmbeddingMethod

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

ASKED = Queries(("asked",), np.arange(1))
TOOLS = {"a": "tool a", "b": "tool b", "c": "tool c"}
#: The query has two parts: a great one that a and b both answer, and a small one that only c does.
VECTORS = {"asked": (4.0, 3.0), "tool a": (1.0, 0.0), "tool b": (12.0, 5.0), "tool c": (0.0, 2.0)}


def order(method: Method, depth: int = 3) -> list[int]:
    return [int(tool) for tool in method.rank(ASKED, depth).tools[0] if tool >= 0]


def test_by_hand(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    data = make(TOOLS)
    # q = (4, 3) / 5, a = (1, 0), b = (12, 5) / 13, c = (0, 1): cosines 0.8, 63/65 = 0.97, 0.6.
    assert order(prepared("dense", data)) == [1, 0, 2]
    # q - b = (0.8 - 12/13, 0.6 - 5/13) = (-0.123, 0.215): a has -0.123, c 0.215.
    assert order(prepared("protip", data)) == [1, 2, 0]
    # q - b/8 = (0.685, 0.552): a has 0.685, c 0.552.
    assert order(prepared("protip(weight=0.125)", data)) == [1, 0, 2]


def test_after_the_steps_the_others_follow_as_the_base_ranks_them(
    make: Make, prepared: Prepared, planted: Planted
) -> None:
    planted(VECTORS)
    data = make(TOOLS)
    assert order(prepared("protip(steps=1)", data)) == [1, 0, 2]
    assert order(prepared("protip(steps=2)", data)) == [1, 2, 0]
    assert order(prepared("protip(steps=2)", data), depth=1) == [1]
    assert prepared("protip", data).rank(ASKED, 3).scores is None


def test_of_equal_tools_the_first_in_the_library(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted({"asked": (1.0, 0.0), **dict.fromkeys(("tool a", "tool b", "tool c"), (0.6, 0.8))})
    assert order(prepared("protip", make(TOOLS))) == [0, 1, 2]


def test_a_case_says_which_step_takes_a_tool(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    data = make(TOOLS)
    library = Library.of(data, data.card.template)
    history = History.of(data, library, data.rows("test"))
    case = Case(library, history, ASKED, frozenset({0, 2}), (1, 2, 0), {0: 1, 2: 1})
    explanation = prepared("protip(steps=2)", data).explain(case)
    assert explanation is not None
    assert explanation.order == (1, 2, 0)
    assert explanation.reasons[1].cells == (1, pytest.approx(63 / 65), 1)
    assert explanation.reasons[2].cells == (2, pytest.approx(0.6 - 5 / 13), 3)
    assert explanation.reasons[0].cells == (None, None, 2)
    assert explanation.reasons[2].because == "step 2 takes it"
    assert "none of the 2 steps" in explanation.reasons[0].because


class _Vectors(EmbeddingMethod):
    """Vectors that are given, in place of an encoder's."""

    def __init__(self, tools: NDArray[np.float64], queries: NDArray[np.float64]) -> None:
        self.tools, self.queries = tools, queries

    def index(self, library: Library) -> None:
        """The vectors are there."""

    def tool_vectors(self) -> NDArray[Any]:
        return self.tools

    def query_vectors(self, queries: Queries) -> NDArray[Any]:
        return self.queries


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000), queries=st.integers(1, 5), tools=st.integers(1, 7), weight=st.sampled_from([0.3, 1])
)
def test_every_step_takes_the_tool_at_the_least_distance(seed: int, queries: int, tools: int, weight: float) -> None:
    random = np.random.default_rng(seed)
    norm, known = random.normal(size=(queries, 3)), random.normal(size=(tools, 3))
    norm /= np.linalg.norm(norm, axis=1, keepdims=True)
    known /= np.linalg.norm(known, axis=1, keepdims=True)
    method = build_method(f"protip(steps=4, weight={weight})")
    assert isinstance(method, protip.ProTip)
    method._base, method._tools, method._size = _Vectors(known, norm), known, tools
    taken, products = method._steps(Queries(("",) * queries, np.arange(queries)))
    for row in range(queries):
        left, free = norm[row].copy(), list(range(tools))
        for step in range(min(4, tools)):
            nearest = min(free, key=lambda tool: float(np.linalg.norm(left - known[tool])))
            assert taken[row, step] == nearest
            assert products[row, step] == pytest.approx(left @ known[nearest], abs=1e-6)
            free.remove(nearest)
            left = left - weight * known[nearest]


def test_queries_in_blocks_are_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    requests, known = random.normal(size=(7, 4)), random.normal(size=(5, 4))
    method = build_method("protip")
    assert isinstance(method, protip.ProTip)
    vectors = _Vectors(known, requests)
    method._base, method._tools, method._size = vectors, normalize(known), 5
    queries = Queries(("",) * 7, np.arange(7))
    whole = method._steps(queries)
    monkeypatch.setattr(progressive, "_QUERIES_AT_ONCE", 3)
    for one, other in zip(whole, method._steps(queries), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("base", ["bm25", "dense(similarity=l2)"])
def test_bases_that_it_cannot_use(base: str) -> None:
    with pytest.raises(UsageError, match="compared by cosine"):
        build_method(f"protip(base={base})")
