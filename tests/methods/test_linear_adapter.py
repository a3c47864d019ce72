"""linear-adapter: the loss by hand and by finite differences, the map against another solver, and what it learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.interface import Method, Queries
from bench.methods.linear_adapter import learnt_map, listwise_loss
from bench.registry import build_method
from bench.search.scoring import EmbeddingMethod

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

NORTH, EAST = (0.0, 1.0), (1.0, 0.0)


def test_the_loss_by_hand() -> None:
    queries, tools = np.array([NORTH, EAST]), np.array([NORTH, EAST])
    # The first wants its like: -log(e² / (e² + 1)). The second wants both alike: -½ log p - ½ log(1 - p).
    wanted = np.array([[1.0, 0.0], [0.5, 0.5]])
    p = np.exp(2) / (np.exp(2) + 1)
    loss, gradient = listwise_loss(queries, tools, wanted, np.eye(2), 0.5)
    assert loss == pytest.approx((-np.log(p) - np.log(p) / 2 - np.log(1 - p) / 2) / 2)
    # Its gradient is the mean of q ((p - y) T)ᵀ / 0.5. North: (p - 1) north + (1 - p) east.
    # East: (p - ½) east + (½ - p) north.
    assert gradient == pytest.approx(np.array([[p - 0.5, 0.5 - p], [1 - p, p - 1]]))


def test_the_gradient_is_that_of_the_loss() -> None:
    random = np.random.default_rng(0)
    queries, tools, mapping = random.normal(size=(7, 4)), random.normal(size=(5, 4)), random.normal(size=(4, 4))
    wanted = random.dirichlet(np.ones(5), size=7)
    _, gradient = listwise_loss(queries, tools, wanted, mapping, 0.3)
    for row, column in np.ndindex(4, 4):
        step = np.zeros((4, 4))
        step[row, column] = 1e-6
        above, below = (listwise_loss(queries, tools, wanted, mapping + sign * step, 0.3)[0] for sign in (1, -1))
        assert gradient[row, column] == pytest.approx((above - below) / 2e-6, abs=1e-6)


def test_the_map_is_the_minimum_wherever_the_search_begins() -> None:
    random = np.random.default_rng(1)
    queries, tools = random.normal(size=(30, 3)), random.normal(size=(6, 3))
    gold = Gold.of([dict.fromkeys(random.choice(5, size=1 + row % 2, replace=False).tolist(), 1) for row in range(30)])
    result = learnt_map(queries, tools, gold, 0.05, 1.0, np.eye(3))
    assert learnt_map(queries, tools, gold, 0.05, 1.0, random.normal(size=(3, 3))) == pytest.approx(result, abs=1e-3)
    # Plain gradient descent arrives there, too. The sixth tool is gold for no query and plays no part.
    wanted = np.zeros((30, 5))
    for row in range(30):
        wanted[row, gold.row(row)] = 1 / len(gold.row(row))
    plain = np.eye(3)
    for _ in range(3000):
        plain -= 0.3 * (listwise_loss(queries, tools[:5], wanted, plain, 1.0)[1] + 0.05 * (plain - np.eye(3)))
    assert result == pytest.approx(plain, abs=2e-3)


#: Requests in a language whose words stand at a right angle to those of the tools.
TOOLS = {"a": "tool a", "b": "tool b", "c": "tool c"}
VECTORS = {
    "tool a": (1.0, 0.0, 0.0),
    "tool b": (0.0, 1.0, 0.0),
    "tool c": (0.0, 0.0, 1.0),
    **{f"ask a {number}": (0.1, 1.0, 0.1 * (number % 2)) for number in range(20)},
    **{f"ask b {number}": (0.0, 0.1, 1.0 - 0.1 * (number % 2)) for number in range(20)},
    **{f"ask c {number}": (1.0, 0.0, 0.1 * (number % 2)) for number in range(20)},
    "asked": (0.1, 1.0, 0.1),
}
PAST = [(f"ask {tool} {number}", [tool], "train") for tool in "abc" for number in range(20)]


def test_it_learns_what_past_queries_mean(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    data = make(TOOLS, PAST)
    queries = Queries(("asked",), np.arange(1))
    assert prepared("dense", data).rank(queries, 1).tools.tolist() == [[1]]
    method = prepared("linear-adapter", data)
    assert method.rank(queries, 1).tools.tolist() == [[0]]
    facts = method.facts()
    assert facts["past_queries_learnt_from"] == 60
    assert facts["held_out_ndcg_before"] < facts["held_out_ndcg"] == 1.0  # type: ignore[operator]


def test_its_vectors_are_those_that_it_compares(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    method = prepared("linear-adapter", make(TOOLS, PAST))
    requests = Queries(("asked", "ask b 1"), np.arange(2))
    assert isinstance(method, EmbeddingMethod)
    queries, tools = method.query_vectors(requests), method.tool_vectors()
    lengths = np.linalg.norm(queries, axis=1, keepdims=True) * np.linalg.norm(tools, axis=1)
    ranking = method.rank(requests, 3)
    assert ranking.scores is not None
    expected = np.take_along_axis(queries @ tools.T / lengths, ranking.tools, axis=1)
    assert ranking.scores == pytest.approx(expected, abs=1e-6)


def test_a_map_that_does_not_help_is_not_taken(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted({**VECTORS, "asked a": (1.0, 0.1, 0.0), "asked b": (0.1, 1.0, 0.0)})
    # The dev queries are answered without a map already.
    past = [*PAST, ("asked a", ["a"], "dev"), ("asked b", ["b"], "dev")]
    data = make(TOOLS, past)
    method = prepared("linear-adapter", data)
    assert method.facts() == {"past_queries_learnt_from": 0, "held_out_ndcg_before": 1.0, "held_out_ndcg": 1.0}
    queries = Queries(("asked",), np.arange(1))
    assert method.rank(queries, 3).tools.tolist() == prepared("dense", data).rank(queries, 3).tools.tolist()


def test_the_number_of_past_queries_is_bounded(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    assert prepared("linear-adapter(queries=25)", make(TOOLS, PAST)).facts()["past_queries_learnt_from"] == 25


@pytest.mark.parametrize("queries", [0, 1])
def test_too_few_past_queries_to_hold_out_leave_the_base(
    make: Make, prepared: Prepared, planted: Planted, queries: int
) -> None:
    planted(VECTORS)
    method = prepared("linear-adapter", make(TOOLS, PAST[:queries]))
    assert method.rank(Queries(("asked",), np.arange(1)), 1).tools.tolist() == [[1]]
    assert method.facts()["past_queries_learnt_from"] == 0


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ("bm25", "compared by cosine"),
        ("dense(similarity=dot)", "compared by cosine"),
        ("linear-adapter", "the same past queries"),
    ],
)
def test_bases_that_it_cannot_use(base: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        build_method(f"linear-adapter(base={base})")
