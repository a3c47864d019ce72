"""The tie band compared with every order that the ties allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import permutations, product
from math import fsum

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.metrics import DEFAULT_METRICS, evaluate, parse_metric, parse_metrics
from bench.metrics.ties import TieBand, UnseenTies, tie_band
from bench.search.topk import top_k

METRICS = (
    *(
        f"{name}@{k}"
        for name in ("recall", "precision", "hit", "ndcg", "map", "mrr", "mmrr", "pass", "tracc", "rbp", "mmrr_printed")
        for k in (1, 2, 3, 10)
    ),
    *("recall@gold", "ndcg@gold", "rbp(p=0.4)@3"),
)
PARSED = parse_metrics(METRICS)


@dataclass(frozen=True)
class Case:
    """One query on a library that is small enough for every order of its ties.

    Attributes:
        scores: of every tool; -inf leaves one out.
        gold: tools with their relevance.
        depth: how many tools are returned.
    """

    scores: tuple[float, ...]
    gold: Mapping[int, int]
    depth: int

    @cached_property
    def groups(self) -> list[list[int]]:
        """Tools of equal score, best first."""
        levels = sorted({score for score in self.scores if score > -np.inf}, reverse=True)
        return [[tool for tool, score in enumerate(self.scores) if score == level] for level in levels]

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """(orders, metrics): the values in every order, first the protocol's."""
        orders = [[tool for part in parts for tool in part] for parts in product(*map(permutations, self.groups))]
        tools = np.array(orders, dtype=np.int32).reshape(len(orders), -1)[:, : self.depth]
        return evaluate(tools, Gold.of([self.gold] * len(orders)), PARSED).values

    @property
    def is_tied(self) -> bool:
        """Whether a tie within reach of the depth holds tools of different relevance."""
        starts = np.cumsum([0, *map(len, self.groups)])
        grades = [{self.gold.get(tool, 0) for tool in group} for group in self.groups]
        return any(len(item) > 1 for start, item in zip(starts, grades, strict=False) if start < self.depth)


def band_of(cases: list[Case]) -> TieBand:
    """The band of several queries on libraries of one size, at one depth."""
    scores = np.array([case.scores for case in cases])
    ranking = top_k(scores, cases[0].depth)
    assert ranking.scores is not None
    counts, gold = [], []
    for row, case in enumerate(cases):
        kept = [tool for tool in ranking.tools[row].tolist() if tool >= 0]
        last = min((case.scores[tool] for tool in kept), default=np.inf)
        outside = [tool for tool, score in enumerate(case.scores) if score == last and tool not in kept]
        counts.append(len(outside))
        gold.append({tool: case.gold[tool] for tool in outside if tool in case.gold})
    beyond = UnseenTies(np.array(counts, dtype=np.int64), Gold.of(gold))
    return tie_band(ranking.tools, ranking.scores, Gold.of(case.gold for case in cases), beyond, PARSED)


def random_cases() -> Iterator[Case]:
    """Cases with ties inside, at and beyond the depth, unranked tools, and graded gold."""
    random = np.random.default_rng(5)
    for number in range(150):
        library = int(random.integers(2, 7))
        scores = random.integers(0, int(random.integers(1, 4)) + 1, size=library).astype(float)
        if number % 4 == 0:
            scores[random.integers(library)] = -np.inf
        many = int(random.integers(1, library + 1))
        grades = random.integers(1, 4, size=many) if number % 2 else np.ones(many, dtype=np.int64)
        gold = dict(zip(random.permutation(library)[:many].tolist(), grades.tolist(), strict=True))
        yield Case(tuple(scores.tolist()), gold, int(random.integers(1, library + 1)))


@cache
def compared() -> list[tuple[Case, TieBand]]:
    return [(case, band_of([case])) for case in random_cases()]


def test_the_cases_hold_every_hard_case() -> None:
    cases = [case for case, _ in compared()]
    ends = [np.cumsum([len(group) for group in case.groups]).tolist() for case in cases]
    crossing = [
        case for case, ends in zip(cases, ends, strict=True) if case.depth not in ends and case.depth < ends[-1]
    ]
    assert len(crossing) > 40, "ties beyond the depth"
    assert sum(any(grade > 1 for grade in case.gold.values()) for case in crossing) > 15, "with graded gold"
    assert sum(case.is_tied for case in cases) > 70
    assert sum(not case.is_tied for case in cases) > 10


def wrong(within: NDArray[np.bool_]) -> list[str]:
    """The metrics of which something does not hold."""
    return [METRICS[column] for column in np.flatnonzero(~within)]


def test_low_and_high_are_the_worst_and_best_of_all_orders() -> None:
    for case, band in compared():
        assert wrong(np.isclose(band.low, case.values.min(axis=0), rtol=0, atol=1e-12)) == [], case
        assert wrong(np.isclose(band.high, case.values.max(axis=0), rtol=0, atol=1e-12)) == [], case


def test_the_expected_value_lies_within_the_band() -> None:
    for case, band in compared():
        within = (band.low - 1e-12 <= band.expected) & (band.expected <= band.high + 1e-12)
        assert wrong(within) == [], case


def test_the_expected_value_is_the_mean_of_all_orders() -> None:
    for case, band in compared():
        assert wrong(np.isclose(band.expected, case.values.mean(axis=0), rtol=0, atol=1e-12)) == [], case
        assert not band.draws.any()


def test_queries_with_a_tie_that_matters_are_counted() -> None:
    for case, band in compared():
        assert band.tied_queries == case.is_tied, case


def test_many_queries_average_to_the_mean_of_their_own_bands() -> None:
    random = np.random.default_rng(1)
    cases = [
        Case(tuple(random.integers(0, 3, size=5).astype(float).tolist()), {int(random.integers(5)): 1, 4: 2}, 3)
        for _ in range(400)
    ]
    band = band_of(cases)
    low, high, mean = (
        np.mean([reduce(case.values, axis=0) for case in cases], axis=0) for reduce in (np.min, np.max, np.mean)
    )
    np.testing.assert_allclose(band.low, low, rtol=0, atol=1e-12)
    np.testing.assert_allclose(band.high, high, rtol=0, atol=1e-12)
    np.testing.assert_allclose(band.expected, mean, rtol=0, atol=1e-12)
    assert band.tied_queries == sum(case.is_tied for case in cases)


def test_ties_beyond_the_depth_by_hand() -> None:
    # Two of four equal tools are returned: the gold one (code 3) is outside, and might have been first or second.
    band = band_of([Case((1.0, 1.0, 1.0, 1.0), {3: 1}, 2)])
    recall, mrr = METRICS.index("recall@2"), METRICS.index("mrr@2")
    assert (band.low[recall], band.high[recall]) == (0.0, 1.0)
    assert band.expected[recall] == 0.5
    assert (band.low[mrr], band.high[mrr]) == (0.0, 1.0)
    assert band.expected[mrr] == (1 + 1 / 2) / 4


def test_a_graded_tie_between_two_gold_tools_by_hand() -> None:
    # Both are gold, of relevance 3 and 1: recall does not care, ndcg does.
    band = band_of([Case((1.0, 1.0), {0: 1, 1: 3}, 2)])
    recall, ndcg = METRICS.index("recall@1"), METRICS.index("ndcg@1")
    assert (band.low[recall], band.high[recall]) == (0.5, 0.5)
    assert (band.low[ndcg], band.high[ndcg]) == (1 / 3, 1.0)
    assert band.tied_queries == 1


@pytest.mark.parametrize(
    "case",
    [
        Case((4.0, 3.0, 2.0, 1.0), {1: 1, 3: 2}, 4),
        Case((4.0, 3.0, 2.0, 1.0), {1: 1, 3: 2}, 2),
        # Ties of tools that are not gold, above, below and beyond the depth.
        Case((5.0, 5.0, 3.0, 1.0, 1.0), {2: 1}, 4),
        # A tie of gold tools alone, all of one relevance.
        Case((5.0, 2.0, 2.0, 1.0), {1: 2, 2: 2}, 3),
        # Gold that is not returned and does not tie.
        Case((5.0, 4.0, 4.0, 1.0), {3: 1}, 3),
    ],
)
def test_where_no_tie_involves_gold_the_band_is_the_value(case: Case) -> None:
    band = band_of([case])
    assert band.tied_queries == 0
    for end in (band.low, band.expected, band.high):
        np.testing.assert_allclose(end, case.values[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("tied", [0, 1])
def test_means_are_exact_sums_whatever_the_order_of_the_queries(tied: int) -> None:
    random = np.random.default_rng(3)
    # Thirds, and discounts: added one after another, their sums depend on the order.
    gold = [dict.fromkeys(random.permutation(9)[:3].tolist(), 1) for _ in range(997)]
    cases = [Case(tuple(random.permutation(9).astype(float).tolist()), item, 6) for item in gold]
    cases += [Case((1.0,) * 9, {0: 1, 8: 1}, 6)] * tied
    band = band_of(cases)
    assert band.tied_queries == tied
    column = METRICS.index("ndcg@3")
    values = np.concatenate([case.values[:1, column] for case in cases[:997]])
    assert len({float(order.sum()) for order in (values, values[::-1], np.sort(values))}) > 1
    if not tied:
        assert band.low.tobytes() == band.expected.tobytes() == band.high.tobytes()
        assert band.low[column] == fsum(values) / 997
    # The one tie comes first or last.
    again = band_of(cases[::-1])
    for end, other in zip((band.low, band.expected, band.high), (again.low, again.expected, again.high), strict=True):
        assert end.tobytes() == other.tobytes()


def test_the_value_in_the_protocol_s_order_lies_within_the_band() -> None:
    for case, band in compared():
        assert (band.low - 1e-12 <= case.values[0]).all(), case
        assert (case.values[0] <= band.high + 1e-12).all(), case


def test_metrics_that_are_not_monotone_have_no_band() -> None:
    # Gold 0 is first, 1 and 2 tie with two others on ranks 2 to 5, k = 3. With both on ranks 2 and 3 ndcg_ptr is 1,
    # with both beyond the cut it is 1 as well (one hit, at the top), and with one at rank 3 it is less.
    case = Case((3.0, 1.0, 1.0, 1.0, 1.0), {0: 1, 1: 1, 2: 1}, 5)
    ranking = top_k(np.array([case.scores]), 5)
    assert ranking.scores is not None
    metrics = parse_metrics(["recall@1", "ndcg_ptr@gold", "tracc"])
    band = tie_band(ranking.tools, ranking.scores, Gold.of([case.gold]), UnseenTies.none(1), metrics)
    assert [str(metric) for metric in band.metrics] == ["recall@1"]


def test_unanswered_queries_score_0_and_queries_without_gold_are_left_out() -> None:
    ranking = top_k(np.array([[2.0, 1.0], [-np.inf, -np.inf], [1.0, 1.0]]), 2)
    assert ranking.scores is not None
    gold = Gold.of([{0: 1}, {0: 1}, {}])
    band = tie_band(ranking.tools, ranking.scores, gold, UnseenTies.none(3), parse_metrics(["recall@1", "mmrr@1"]))
    # One perfect answer, one that is missing; the tie has no gold.
    for end in (band.low, band.expected, band.high):
        assert end.tolist() == [0.5, 0.5]
    assert band.tied_queries == 0


def test_empty_rankings_have_a_band_of_0() -> None:
    tools, scores = np.empty((2, 0), dtype=np.int32), np.empty((2, 0), dtype=np.float32)
    band = tie_band(tools, scores, Gold.of([{0: 1}, {}]), UnseenTies.none(2), [parse_metric("mmrr@5")])
    assert (band.low.tolist(), band.expected.tolist(), band.high.tolist(), band.tied_queries) == ([0], [0], [0], 0)


def test_metrics_on_recommended_sets_have_no_band() -> None:
    ranking = top_k(np.array([[1.0, 1.0]]), 2)
    assert ranking.scores is not None
    band = tie_band(
        ranking.tools, ranking.scores, Gold.of([{0: 1}]), UnseenTies.none(1), parse_metrics(DEFAULT_METRICS)
    )
    bare = {"tracc", "set_precision", "set_recall", "set_f1", "size_diff", "abstained", "answered", "ndcg_ptr@gold"}
    assert [str(metric) for metric in band.metrics] == [metric for metric in DEFAULT_METRICS if metric not in bare]
    assert len(band.low) == len(band.expected) == len(band.high) == len(band.metrics)


def test_the_band_is_the_same_every_time() -> None:
    cases = [case for case, _ in compared() if len(case.scores) == 5 and case.depth == 3]
    first, second = band_of(cases), band_of(cases)
    assert first.expected.tobytes() == second.expected.tobytes()
