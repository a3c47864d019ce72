"""Judgements that any tool of a group satisfies: by hand, against every matching, and against gold without groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.interface.ranking import Ranking
from bench.metrics import evaluate, parse_metrics
from bench.metrics.evaluate import evaluate_groups
from bench.metrics.goldranks import MISSING, GoldRanks, any_of

METRICS = parse_metrics(
    [
        *(
            f"{name}@{k}"
            for name in ("recall", "precision", "hit", "ndcg", "map", "mrr", "mmrr", "pass", "tracc")
            for k in (1, 2, 3, 5, 20)
        ),
        *("recall@gold", "ndcg@gold", "ndcg_ptr@gold", "mmrr_printed@20"),
    ]
)
Judgement = tuple[list[int], int]
checked = settings(deadline=None, derandomize=True, max_examples=80)


@dataclass(frozen=True)
class Case:
    """One query: a ranking, and judgements as (tools, relevance)."""

    ranking: list[int]
    judgements: list[Judgement]


def ranks(ranking: Sequence[int], *judgements: Judgement) -> list[int]:
    """The ranks that are found, ascending; 0 for those that are missing."""
    result = any_of(Ranking.of_lists([ranking]).tools, GoldGroups.of([judgements]))
    return [0 if rank == MISSING else int(rank) for rank in result.ranks[0]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    library = draw(st.integers(1, 7))
    order = draw(st.permutations(range(library)))
    groups = st.lists(st.integers(0, library - 1), min_size=1, max_size=3, unique=True)
    judgements = draw(st.lists(st.tuples(groups, st.integers(1, 3)), min_size=1, max_size=4))
    return Case(order[: draw(st.integers(0, library))], judgements)


# By hand ------------------------------------------------------------------------------------------------------------


def test_a_judgement_has_the_best_rank_of_its_group() -> None:
    assert ranks([7, 4, 9, 1], ([1, 4], 1)) == [2]
    assert ranks([7, 4, 9, 1], ([1], 1), ([9, 8], 1)) == [3, 4]
    assert ranks([7, 4], ([1, 8], 1), ([4], 1)) == [2, 0]


def test_a_tool_satisfies_one_judgement() -> None:
    # The tool 5 would do for both; the second one has to wait for the tool 2, or for ever.
    assert ranks([5, 9, 2], ([1, 5], 1), ([2, 5], 1)) == [1, 3]
    assert ranks([5, 9, 3], ([1, 5], 1), ([2, 5], 1)) == [1, 0]


def test_a_judgement_moves_on_to_another_tool_where_that_satisfies_one_more() -> None:
    # The tool 5 does for both, and the tool 1 for the first alone: whichever got 5, at rank 2 both are satisfied.
    assert ranks([5, 1], ([1, 5], 1), ([2, 5], 1)) == [1, 2]
    assert ranks([5, 1], ([2, 5], 1), ([1, 5], 1)) == [1, 2]
    # Over three: 6 goes from the first to the second, 7 from the second to the third.
    assert ranks([6, 7, 1], ([1, 6], 1), ([6, 7], 1), ([7, 8], 1)) == [1, 2, 3]


def test_the_more_relevant_of_two_judgements_gets_the_tool_that_both_could_have() -> None:
    result = any_of(Ranking.of_lists([[5, 9]]).tools, GoldGroups.of([[([1, 5], 1), ([2, 5], 3)]]))
    assert result.ranks.tolist() == [[1, MISSING]]
    assert result.grades.tolist() == [[3, 1]]
    assert result.ideal.tolist() == [[3, 1]]


def test_metrics_of_a_query_by_hand() -> None:
    # Ranked: 9, 5 (for the first judgement), 7, 5's twin 6 (for nothing: the first is satisfied), 2 (for the second).
    groups = GoldGroups.of([[([1, 5, 6], 1), ([2], 1)]])
    tools = Ranking.of_lists([[9, 5, 7, 6, 2]]).tools
    result = evaluate_groups(tools, groups, parse_metrics(["recall@4", "precision@4", "mrr@4", "map@5", "pass@5"]))
    np.testing.assert_allclose(result.values, [[1 / 2, 1 / 4, 1 / 2, (1 / 2 + 2 / 5) / 2, 1]])


def test_queries_without_judgements_have_no_value_and_failed_ones_0() -> None:
    groups = GoldGroups.of([[], [([1, 2], 1)], [([1, 2], 1)], [([3], 1)]])
    tools = Ranking.of_lists([[1], [2], [2], []]).tools
    failed = np.array([False, False, True, False])
    column = evaluate_groups(tools, groups, parse_metrics(["recall@1"]), failed).column("recall@1")
    np.testing.assert_array_equal(column, [np.nan, 1, 0, 0])


# Against every matching ---------------------------------------------------------------------------------------------


def most(case: Case, depth: int) -> int:
    """The largest total relevance that the first tools can satisfy, by trying every matching."""
    choices: list[Iterator[int | None]] = []
    for tools, _ in case.judgements:
        choices.append(iter([None, *(tool for tool in tools if tool in case.ranking[:depth])]))
    best = 0
    for taken in product(*choices):
        used = [tool for tool in taken if tool is not None]
        if len(set(used)) == len(used):
            gains = [grade for tool, (_, grade) in zip(taken, case.judgements, strict=True) if tool is not None]
            best = max(best, sum(gains))
    return best


@given(cases())
@checked
def test_at_every_depth_as_much_is_satisfied_as_by_any_matching(case: Case) -> None:
    result = any_of(Ranking.of_lists([case.ranking]).tools, GoldGroups.of([case.judgements]))
    plain = Case(case.ranking, [(tools, 1) for tools, _ in case.judgements])
    for depth in range(len(case.ranking) + 1):
        inside = result.ranks[0] <= depth
        assert result.grades[0][inside].sum() == most(case, depth)
        assert inside.sum() == most(plain, depth)
    assert sorted(result.grades[0].tolist(), reverse=True) == result.ideal[0].tolist()


@given(st.lists(cases(), min_size=1, max_size=5))
@checked
def test_a_query_s_ranks_do_not_depend_on_the_others(several: list[Case]) -> None:
    together = evaluate_groups(
        Ranking.of_lists([case.ranking for case in several]).tools,
        GoldGroups.of(case.judgements for case in several),
        METRICS,
    ).values
    alone = [
        evaluate_groups(Ranking.of_lists([case.ranking]).tools, GoldGroups.of([case.judgements]), METRICS).values[0]
        for case in several
    ]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)


@given(cases(), st.integers(0, 6), st.integers(0, 3))
@checked
def test_one_more_alternative_never_lowers(case: Case, tool: int, place: int) -> None:
    place %= len(case.judgements)
    more = [
        ([*tools, tool] if at == place and tool not in tools else tools, grade)
        for at, (tools, grade) in enumerate(case.judgements)
    ]
    metrics = [metric for metric in METRICS if metric.has_tie_band]
    ranking = Ranking.of_lists([case.ranking]).tools
    before = evaluate_groups(ranking, GoldGroups.of([case.judgements]), metrics).values
    assert (evaluate_groups(ranking, GoldGroups.of([more]), metrics).values >= before - 1e-12).all()


# Without alternatives -----------------------------------------------------------------------------------------------


@cache
def singles() -> tuple[NDArray[np.int32], Gold, GoldGroups]:
    """Random rankings of 40 tools, some short or empty; queries with up to nine graded gold tools, some with none."""
    random = np.random.default_rng(3)
    gold = [
        {int(tool): int(random.integers(1, 4)) for tool in random.permutation(40)[: random.integers(0, 10)]}
        for _ in range(400)
    ]
    lists = [random.permutation(40)[: random.integers(0, 30)].tolist() for _ in gold]
    groups = GoldGroups.of([([tool], row[tool]) for tool in sorted(row)] for row in gold)
    return Ranking.of_lists(lists).tools, Gold.of(gold), groups


def test_groups_of_one_give_the_numbers_of_gold_tools_to_the_last_bit() -> None:
    tools, gold, groups = singles()
    failed = np.arange(len(gold)) % 11 == 0
    one = evaluate(tools, gold, METRICS, unanswered=failed).values
    other = evaluate_groups(tools, groups, METRICS, failed).values
    assert one.tobytes() == other.tobytes()
    rows = np.flatnonzero(gold.counts)
    expected, result = GoldRanks.of(tools[rows], gold.take(rows)), any_of(tools[rows], groups.take(rows))
    for name in ("ranks", "grades", "ideal", "n", "returned"):
        left, right = getattr(expected, name), getattr(result, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("chosen", [[], [3], [5, 0, 5], list(range(399, -1, -1))])
def test_take_gives_the_judgements_of_the_chosen_queries(chosen: list[int]) -> None:
    random = np.random.default_rng(1)
    rows = [
        [(random.permutation(9)[: random.integers(1, 4)].tolist(), int(random.integers(1, 4))) for _ in range(count)]
        for count in random.integers(0, 4, size=400)
    ]
    taken = GoldGroups.of(rows).take(np.array(chosen, dtype=np.int64))
    expected = GoldGroups.of([rows[query] for query in chosen])
    for name in ("starts", "members", "tools", "grades"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(expected, name))
