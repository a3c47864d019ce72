"""Gold with alternatives in everything that reads gold: rankings, recommended sets, tie bands, forbidden tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.interface.ranking import Ranking, ToolSets
from bench.metrics import DEFAULT_METRICS, evaluate, parse_metric, parse_metrics
from bench.metrics.evaluate import set_sizes
from bench.metrics.ties import UnseenTies, tie_band
from bench.search.topk import top_k

METRICS = parse_metrics(
    [f"{name}@{k}" for name in ("recall", "ndcg", "pass", "hit", "map", "mrr", "mmrr", "tracc") for k in (1, 2, 3, 5)]
)
Requirement = tuple[list[int], int]
checked = settings(deadline=None, derandomize=True, max_examples=60)


def judged(*queries: Sequence[Requirement], forbidden: Sequence[Sequence[int]] = ()) -> Gold:
    """Gold of some queries; a requirement is its tools, the gold tool first, and its relevance."""
    ordered = [sorted(query) for query in queries]
    plain = Gold.of({tools[0]: grade for tools, grade in query} for query in ordered)
    harm = Gold.of(dict.fromkeys(tools, 1) for tools in forbidden) if forbidden else None
    return Gold(plain.starts, plain.tools, plain.grades, GoldGroups.of(ordered), harm)


def values(gold: Gold, rankings: Sequence[Sequence[int]], *names: str) -> list[list[float]]:
    result: list[list[float]] = evaluate(Ranking.of_lists(rankings).tools, gold, parse_metrics(names)).values.tolist()
    return result


# By hand ------------------------------------------------------------------------------------------------------------


def test_a_requirement_is_met_by_the_first_of_its_tools() -> None:
    # Two servers' searches (1 and 4), and one tool to write (2): 4 meets the first at rank 2, 2 the second at rank 3.
    gold = judged([([1, 4], 1), ([2], 1)])
    assert values(gold, [[9, 4, 2, 1]], "recall@2", "recall@3", "pass@3", "mrr@3") == [[0.5, 1.0, 1.0, 0.5]]
    # Further tools of a requirement that is met gain nothing: (1 / log2 3 + 1 / log2 4) / (1 + 1 / log2 3).
    (ndcg,) = values(gold, [[9, 4, 2, 1]], "ndcg@5")[0]
    assert ndcg == pytest.approx((1 / np.log2(3) + 0.5) / (1 + 1 / np.log2(3)), abs=1e-12)


def test_precision_counts_requirements_and_not_tools() -> None:
    gold = judged([([1, 4], 1)])
    assert values(gold, [[1, 4]], "precision@1", "precision@2") == [[1.0, 0.5]]


def test_a_set_with_two_tools_of_one_requirement_has_one_too_many() -> None:
    gold = judged([([1, 4], 1), ([2], 1)], [([1, 4], 1), ([2], 1)])
    sizes = set_sizes(ToolSets.of([[1, 4], [2, 4]]), gold, 2)
    assert (sizes.size.tolist(), sizes.hits.tolist(), sizes.n.tolist()) == ([2, 2], [1, 2], [2, 2])
    sets = evaluate(
        Ranking.empty(2).tools, gold, parse_metrics(["tracc", "set_precision"]), ToolSets.of([[1, 4], [2, 4]])
    )
    # |R| = n, so that tracc is the recall: a half, and one.
    assert sets.values.tolist() == [[0.5, 0.5], [1.0, 1.0]]


def test_forbidden_tools_count_whether_or_not_there_is_gold() -> None:
    gold = judged([([1], 1)], [], [([2], 1)], forbidden=[[7], [8, 9], []])
    result = evaluate(
        Ranking.of_lists([[1, 7], [9, 3], [9, 2]]).tools,
        gold,
        parse_metrics(["forbidden@1", "forbidden@2", "forbidden", "recall@1"]),
        ToolSets.of([[1], [3, 8], [9]]),
    ).values
    np.testing.assert_array_equal(
        result, [[0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, np.nan], [np.nan, np.nan, np.nan, 0.0]]
    )


def test_to_fail_shows_no_care() -> None:
    gold = judged([([1], 1)], [], forbidden=[[7], [8]])
    metrics = parse_metrics(["forbidden@5", "forbidden", "recall@5"])
    nothing = Ranking.empty(2).tools
    scores = evaluate(nothing, gold, metrics, ToolSets.of([[], []]), np.array([True, True]))
    np.testing.assert_array_equal(scores.values, [[1.0, 1.0, 0.0], [1.0, 1.0, np.nan]])
    # No answer to a query with gold is a failure (rule 2), whether or not the method says so: what is stored is scored
    # again to the same values. Without gold it is the right answer.
    scores = evaluate(nothing, gold, metrics, ToolSets.of([[], []]))
    np.testing.assert_array_equal(scores.values, [[1.0, 1.0, 0.0], [0.0, 0.0, np.nan]])


# Against gold without alternatives ----------------------------------------------------------------------------------


@st.composite
def plain_cases(draw: st.DrawFn) -> tuple[list[list[int]], list[dict[int, int]], list[list[int]]]:
    library = draw(st.integers(2, 9))
    tools = st.integers(0, library - 1)
    count = draw(st.integers(1, 5))
    rankings = [draw(st.lists(tools, unique=True)) for _ in range(count)]
    gold = [draw(st.dictionaries(tools, st.integers(1, 3), max_size=4)) for _ in range(count)]
    sets = [draw(st.lists(tools, unique=True)) for _ in range(count)]
    return rankings, gold, sets


@checked
@given(plain_cases())
def test_single_alternatives_give_every_number_to_the_last_bit(
    case: tuple[list[list[int]], list[dict[int, int]], list[list[int]]],
) -> None:
    rankings, rows, sets = case
    plain = Gold.of(rows)
    grouped = judged(*([([tool], grade) for tool, grade in row.items()] for row in rows))
    metrics = parse_metrics([*DEFAULT_METRICS, "false_returns", "abstained@5", "answered@3"])
    ranked, chosen = Ranking.of_lists(rankings), ToolSets.of([sorted(row) for row in sets])
    failed = np.arange(len(rows)) % 3 == 2
    scores = [evaluate(ranked.tools, gold, metrics, chosen, failed).values for gold in (plain, grouped)]
    assert scores[0].tobytes() == scores[1].tobytes()


@checked
@given(plain_cases())
def test_an_alternative_never_lowers_a_value(
    case: tuple[list[list[int]], list[dict[int, int]], list[list[int]]],
) -> None:
    rankings, rows, _ = case
    plain = Gold.of(rows)
    more = judged(*([([tool, 100 + tool], grade) for tool, grade in row.items()] for row in rows))
    ranked = Ranking.of_lists([[100 + tool if tool % 2 else tool for tool in ranking] for ranking in rankings]).tools
    before, after = (evaluate(ranked, gold, METRICS).values for gold in (plain, more))
    assert ((after >= before) | np.isnan(before)).all()


# Ties -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tied:
    """One query on a small library: the score of every tool, and requirements that share no tool."""

    scores: list[float]
    requirements: list[Requirement]

    def orders(self) -> list[list[int]]:
        """Every ranking that the ties allow."""
        levels = sorted(set(self.scores), reverse=True)
        groups = [[tool for tool, score in enumerate(self.scores) if score == level] for level in levels]
        return [[tool for part in parts for tool in part] for parts in product(*map(permutations, groups))]


@st.composite
def tied_cases(draw: st.DrawFn) -> Tied:
    library = draw(st.integers(2, 6))
    scores = draw(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=library, max_size=library))
    order = draw(st.permutations(range(library)))
    cuts = sorted(draw(st.sets(st.integers(1, library), min_size=1, max_size=3)))
    parts = [list(order[start:end]) for start, end in zip([0, *cuts], cuts, strict=False)]
    return Tied(scores, [(part, 1) for part in parts])


@checked
@given(tied_cases())
def test_the_band_is_that_of_every_order_of_the_ties(case: Tied) -> None:
    gold = judged(case.requirements)
    every = case.orders()
    result = evaluate(np.array(every, dtype=np.int32), gold.take(np.zeros(len(every), dtype=np.int64)), METRICS).values
    ranking = top_k(np.array([case.scores]), len(case.scores))
    assert ranking.scores is not None
    band = tie_band(ranking.tools, ranking.scores, gold, UnseenTies.none(1), METRICS)
    np.testing.assert_allclose(band.low, result.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(band.high, result.max(axis=0), atol=1e-12)
    np.testing.assert_allclose(band.expected, result.mean(axis=0), atol=1e-12)
    if band.tied_queries == 0:
        assert (result == result[0]).all()


@st.composite
def graded_cases(draw: st.DrawFn) -> Tied:
    library = draw(st.integers(2, 6))
    tools = st.integers(0, library - 1)
    # A tool may meet two requirements, and their relevance may differ.
    gold = draw(
        st.lists(
            st.tuples(st.lists(tools, unique=True, min_size=1, max_size=3), st.integers(1, 3)), min_size=1, max_size=3
        )
    )
    distinct = {min(group): (sorted(group), grade) for group, grade in gold}
    return Tied(draw(st.lists(st.sampled_from([1.0, 2.0]), min_size=library, max_size=library)), [*distinct.values()])


@checked
@given(graded_cases(), st.integers(1, 6))
def test_the_expected_value_is_that_of_all_orders_where_requirements_share_tools(case: Tied, depth: int) -> None:
    gold = judged(case.requirements)
    every = np.array(case.orders(), dtype=np.int32)[:, :depth]
    result = evaluate(every, gold.take(np.zeros(len(every), dtype=np.int64)), METRICS).values
    ranking = top_k(np.array([case.scores]), depth)
    assert ranking.scores is not None
    last = ranking.scores[0, -1]
    outside = [tool for tool, score in enumerate(case.scores) if score == last and tool not in ranking.tools[0]]
    meeting = gold.members()
    grades = dict(zip(meeting.tools.tolist(), meeting.grades.tolist(), strict=True))
    beyond = UnseenTies(np.array([len(outside)]), Gold.of([{tool: grades[tool] for tool in outside if tool in grades}]))
    band = tie_band(ranking.tools, ranking.scores, gold, beyond, METRICS)
    np.testing.assert_allclose(band.expected, result.mean(axis=0), atol=1e-12)
    assert not band.draws.any()


def test_what_should_not_be_returned_has_no_band() -> None:
    gold = judged([([1, 2], 1)], [], forbidden=[[3], [3]])
    ranking = top_k(np.zeros((2, 5)), 5)
    assert ranking.scores is not None
    metrics = parse_metrics(["recall@1", "forbidden@1", "abstained@5", "false_returns@5", "auroc", "aurc@1"])
    band = tie_band(ranking.tools, ranking.scores, gold, UnseenTies.none(2), metrics)
    assert band.metrics == (parse_metric("recall@1"),)
