"""colt: the propagation and the losses by hand, and what it learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
import scipy.sparse as sp

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.interface import Method, Queries
from bench.methods.colt import (
    Colt,
    Learner,
    adjacency,
    best_epoch,
    cross_view_loss,
    list_loss,
    mean_of,
    propagated,
    scenes_of,
)
from bench.registry import build_method
from bench.search.scoring import EmbeddingMethod

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

#: Query 0 uses tools 0 and 1, queries 1 and 2 use tool 1; nobody uses tool 2.
USED = sp.csr_matrix([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
HALF = np.sqrt(0.5)


def test_scenes_are_the_distinct_sets_in_order() -> None:
    scenes, scene_of = scenes_of(USED)
    assert scenes.toarray().tolist() == [[1, 1, 0], [0, 1, 0]]
    assert scene_of.tolist() == [0, 1, 1]
    # A scene is the mean of its tools.
    assert mean_of(scenes).to_dense().numpy() == pytest.approx(np.array([[0.5, 0.5, 0], [0, 1, 0]]))


def test_edges_are_weighted_by_the_neighbours_of_both_ends() -> None:
    # Query 0 has two neighbours, the others one; tool 0 has one, tool 1 three.
    expected = [[1 / np.sqrt(2), 1 / np.sqrt(6), 0], [0, 1 / np.sqrt(3), 0], [0, 1 / np.sqrt(3), 0]]
    assert adjacency(USED).to_dense().numpy() == pytest.approx(np.array(expected))


def test_the_propagation_by_hand() -> None:
    import torch

    queries = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    tools = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]])
    left, right = (side.numpy() for side in propagated(adjacency(USED), queries, tools, 1))
    # Query 0 hears (0, 1) / sqrt 2 + (1, 0) / sqrt 6, along (1, sqrt 3): at length 1, (1/2, sqrt 3 / 2).
    assert left[0] == pytest.approx([1.5, np.sqrt(3) / 2])
    # Queries 1 and 2 hear tool 1 alone.
    assert left[1] == pytest.approx([1, 1])
    assert left[2] == pytest.approx([1, 1])
    # Tool 0 hears query 0. Tool 1 hears (1, 0) / sqrt 6 + 2 (0, 1) / sqrt 3, along (1, 2 sqrt 2): at length 1, / 3.
    assert right[0] == pytest.approx([1, 1])
    assert right[1] == pytest.approx([1 + 1 / 3, 2 * np.sqrt(2) / 3])
    # Nobody uses tool 2: it stays as it is.
    assert right[2] == pytest.approx([0.6, 0.8])
    # In a second layer, tool 0 hears what query 0 heard: (1, sqrt 3) at length 1.
    _, twice = propagated(adjacency(USED), queries, tools, 2)
    assert twice[0].numpy() == pytest.approx([1 + 0.5, 1 + np.sqrt(3) / 2])
    assert twice[2].numpy() == pytest.approx([0.6, 0.8])


def test_the_losses_by_hand() -> None:
    import torch

    # Probabilities 3/4 and 1/4; the first is wanted, then both are.
    scores = torch.log(torch.tensor([[3.0, 1.0], [3.0, 1.0]]))
    wanted = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    # First row: -log 3/4 twice. Second: -(log 3/4 + log 1/4) / 2 twice.
    expected = (-2 * np.log(0.75) - (np.log(0.75) + np.log(0.25))) / 4
    assert float(list_loss(scores, wanted)) == pytest.approx(expected)
    # Row 0 finds itself with cosine 1 among 1 and 0; row 1 has the cosine 0 with both.
    one, other = torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    e = np.exp(1 / 0.5)
    assert float(cross_view_loss(one, other, 0.5)) == pytest.approx((-np.log(e / (e + 1)) + np.log(2)) / 2)


def test_before_it_learns_a_tool_is_its_text_and_its_queries() -> None:
    queries = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    tools = np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]])
    values, added = Learner(queries, tools, USED, Colt.Parameters(layers=1)).tools()
    assert values == pytest.approx(tools)
    assert added == pytest.approx(np.array([[1, 0], [1 / 3, 2 * np.sqrt(2) / 3], [0, 0]]), abs=1e-6)


#: Requests whose words stand at a right angle to those of their tools, and tools that nobody asked for.
TOOLS = {"a": "tool a", "b": "tool b", "c": "tool c", "d": "tool d"}
VECTORS = {
    "tool a": (1.0, 0.0, 0.0, 0.0),
    "tool b": (0.0, 1.0, 0.0, 0.0),
    "tool c": (0.0, 0.0, 1.0, 0.0),
    "tool d": (0.0, 0.0, 0.0, 1.0),
    **{f"ask a {number}": (0.1, 1.0, 0.1 * (number % 2), 0.0) for number in range(20)},
    **{f"ask b {number}": (0.0, 0.1, 1.0 - 0.1 * (number % 2), 0.0) for number in range(20)},
    **{f"ask c {number}": (1.0, 0.0, 0.1 * (number % 2), 0.0) for number in range(20)},
    "asked": (0.1, 1.0, 0.1, 0.0),
    "asked for d": (0.0, 0.1, 0.0, 1.0),
}
PAST = [(f"ask {tool} {number}", [tool], "train") for tool in "abc" for number in range(20)]


def test_it_learns_what_past_queries_mean(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    data = make(TOOLS, PAST)
    queries = Queries(("asked", "asked for d"), np.arange(2))
    assert prepared("dense", data).rank(queries, 1).tools.tolist() == [[1], [3]]
    method = prepared("colt(layers=1, rate=0.05)", data)
    assert method.rank(queries, 1).tools.tolist() == [[0], [3]]
    again, ranking = prepared("colt(layers=1, rate=0.05)", data).rank(queries, 4), method.rank(queries, 4)
    assert again.scores is not None
    assert ranking.scores is not None
    assert again.scores.tolist() == ranking.scores.tolist()
    facts = method.facts()
    assert facts["past_queries_learnt_from"] == 60
    assert facts["held_out_ndcg_before"] < facts["held_out_ndcg"] == 1.0  # type: ignore[operator]
    assert isinstance(method, EmbeddingMethod)
    # Nobody has asked for the last tool: it keeps the vector of its text.
    assert method.tool_vectors()[3].tolist() == [0, 0, 0, 1]


def test_learning_lowers_the_loss_and_is_the_same_every_time() -> None:
    random = np.random.default_rng(0)
    used = sp.csr_matrix(np.eye(6)[random.integers(6, size=80)])
    # Each query lies near a corner of its own tool's, far from the tool.
    queries = np.eye(6)[(used.indices + 1) % 6] + random.normal(scale=0.1, size=(80, 6))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    parameters = Colt.Parameters(rate=0.01)
    one, two = (Learner(queries, np.eye(6), used, parameters) for _ in range(2))
    before, _ = one.tools()
    for _ in range(20):
        one.epoch()
        two.epoch()
    (values, added), (again, more) = one.tools(), two.tools()
    assert values.tolist() == again.tolist()
    assert added.tolist() == more.tolist()
    # The own vector of a tool turns towards the queries that use it.
    towards = np.roll(np.eye(6), 1, axis=1)
    assert (values * towards).sum() > (before * towards).sum() + 0.1


def test_the_other_tools_of_a_list_are_no_gold() -> None:
    used = sp.csr_matrix([[1.0] * 2 + [0.0] * 13, [0.0] * 2 + [1.0] * 13])
    learner = Learner(np.eye(2, 15), np.eye(15), used, Colt.Parameters())
    # The length: ten, or one more than the most gold of any query.
    lists, wanted = (item.numpy() for item in learner._lists(np.array([0, 1])))
    assert lists.shape == (2, 14)
    assert [len(set(row)) for row in lists.tolist()] == [14, 14]
    assert sorted(lists[0][wanted[0] > 0]) == [0, 1]
    assert wanted[0].max() == 0.5
    assert sorted(lists[1][wanted[1] > 0]) == list(range(2, 15))
    assert wanted.sum(axis=1) == pytest.approx([1, 1])


def test_the_epoch_is_the_best_before_five_that_are_no_better() -> None:
    assert best_epoch([0.3]) == (0, 0.3)
    # What begins low may rise for long; equals do not count as better.
    assert best_epoch([0.1, 0.2, 0.2, 0.3, 0.3 + 1e-12, 0.1]) == (3, 0.3)
    values = iter([0.5, *[0.4] * 4, 0.6, *[0.5] * 5, 0.9])
    assert best_epoch(values) == (5, 0.6)
    assert list(values) == [0.9]


def test_what_does_not_help_is_not_taken(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted({**VECTORS, "asked a": (1.0, 0.1, 0.0, 0.0), "asked b": (0.1, 1.0, 0.0, 0.0)})
    # The dev queries are answered by the base already.
    data = make(TOOLS, [*PAST, ("asked a", ["a"], "dev"), ("asked b", ["b"], "dev")])
    method = prepared("colt", data)
    assert method.facts() == {"past_queries_learnt_from": 0, "held_out_ndcg_before": 1.0, "held_out_ndcg": 1.0}
    queries = Queries(("asked",), np.arange(1))
    ranking, plain = method.rank(queries, 4), prepared("dense", data).rank(queries, 4)
    assert ranking.tools.tolist() == plain.tools.tolist()
    assert ranking.scores == pytest.approx(plain.scores)


@pytest.mark.parametrize("queries", [0, 1])
def test_too_few_past_queries_to_hold_out_leave_the_base(
    make: Make, prepared: Prepared, planted: Planted, queries: int
) -> None:
    planted(VECTORS)
    method = prepared("colt", make(TOOLS, PAST[:queries]))
    assert method.rank(Queries(("asked",), np.arange(1)), 1).tools.tolist() == [[1]]
    assert method.facts()["past_queries_learnt_from"] == 0


def test_the_number_of_past_queries_is_bounded(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    assert prepared("colt(queries=25)", make(TOOLS, PAST)).facts()["past_queries_learnt_from"] == 25


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
        build_method(f"colt(base={base})")
