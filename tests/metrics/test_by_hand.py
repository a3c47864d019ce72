"""Metrics that no reference implementation has, worked by hand; and the rules on who is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2, nan

import numpy as np
import pytest

from bench.data.gold import Gold
from bench.interface.ranking import Ranking, ToolSets
from bench.metrics import DEFAULT_METRICS, evaluate, parse_metric, parse_metrics
from bench.metrics.goldranks import returned_counts


def value(
    metric: str, ranking: Sequence[int], gold: Sequence[int] | Mapping[int, int], chosen: Sequence[int] | None = None
) -> float:
    """The value on one query; gold is a list of tools, or tools with their relevance."""
    judged = Gold.of([dict(gold) if isinstance(gold, Mapping) else dict.fromkeys(gold, 1)])
    sets = None if chosen is None else ToolSets.of([list(chosen)])
    return float(evaluate(Ranking.of_lists([ranking]).tools, judged, [parse_metric(metric)], sets).values[0, 0])


@pytest.mark.parametrize(
    ("metric", "ranking", "gold", "expected"),
    [
        # ranks 1, 2, 3: mean 2; ((3+1)/2) / 2 = 1
        ("mmrr@5", [1, 2, 3], [1, 2, 3], 1.0),
        # ranks 1, 3 and missing -> 5+1: mean 10/3; 2 / (10/3) = 0.6
        ("mmrr@5", [1, 9, 2, 8, 7], [1, 2, 3], 0.6),
        # the same cut at 2: ranks 1, 3, 3: mean 7/3; 2 / (7/3) = 6/7
        ("mmrr@2", [1, 9, 2, 8, 7], [1, 2, 3], 6 / 7),
        # one gold tool at rank 4: the reciprocal rank
        ("mmrr@5", [9, 8, 7, 1], [1], 1 / 4),
        # nothing found: 6, 6, 6; 2 / 6
        ("mmrr@5", [9, 8], [1, 2, 3], 1 / 3),
        # a tool at rank 7 counts as k+1 = 6 when k is 5
        ("mmrr@5", [9, 8, 7, 6, 5, 4, 1], [1], 1 / 6),
        ("mmrr@100", [9, 8, 7, 6, 5, 4, 1], [1], 1 / 7),
        # five gold tools, k = 1: ranks 1, 2, 2, 2, 2: mean 9/5; 3 / (9/5) = 5/3. The formula passes 1 when n > k+1.
        ("mmrr@1", [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 5 / 3),
        # as printed: n/2 on top. One perfect answer: (1/2) / 1
        ("mmrr_printed@100", [1], [1], 0.5),
        # ranks 1, 3, 6: (3/2) / (10/3) = 0.45
        ("mmrr_printed@5", [1, 9, 2, 8, 7], [1, 2, 3], 0.45),
        # nothing found: (2/2) / 11
        ("mmrr_printed@10", [9], [1, 2], 1 / 11),
    ],
)
def test_mmrr(metric: str, ranking: list[int], gold: list[int], expected: float) -> None:
    assert value(metric, ranking, gold) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("metric", "ranking", "gold", "expected"),
    [
        # p = 0.8: 0.2 * (0.8 ** 0 + 0.8 ** 2)
        ("rbp@5", [1, 9, 2], [1, 2], 0.2 * (1 + 0.64)),
        ("rbp(p=0.8)@5", [1, 9, 2], [1, 2], 0.2 * (1 + 0.64)),
        # p = 0.5: 0.5 * (1 + 0.25)
        ("rbp(p=0.5)@5", [1, 9, 2], [1, 2], 0.625),
        # the second is cut off
        ("rbp(p=0.5)@2", [1, 9, 2], [1, 2], 0.5),
        # a gold tool that is missing adds nothing, and relevance above 1 counts as 1
        ("rbp(p=0.5)@5", [9, 1], {1: 3, 2: 1}, 0.25),
        ("rbp(p=0.5)@5", [9, 8], [1], 0.0),
        # the whole of the first 3: 1 - 0.9 ** 3
        ("rbp(p=0.9)@3", [1, 2, 3, 4], [1, 2, 3, 4], 1 - 0.9**3),
    ],
)
def test_rbp(metric: str, ranking: list[int], gold: list[int] | dict[int, int], expected: float) -> None:
    assert value(metric, ranking, gold) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("chosen", "gold", "expected"),
    [
        ([1, 2], [1, 2], 1.0),
        ([2, 1], [1, 2], 1.0),
        # | |R| - n | = 1, |R u G| = 5, two of three found: (1 - 1/5) * 2/3 = 8/15
        ([1, 2, 3, 4], [1, 2, 5], 8 / 15),
        # two superfluous: (1 - 2/3) * 1
        ([1, 2, 3], [1], 1 / 3),
        # one missing: (1 - 1/2) * 1/2
        ([1], [1, 2], 1 / 4),
        # right size, half wrong: (1 - 0/3) * 1/2
        ([1, 9], [1, 2], 1 / 2),
        ([8, 9], [1, 2], 0.0),
        # the empty set: (1 - 2/2) * 0
        ([], [1, 2], 0.0),
    ],
)
def test_tracc_of_a_recommended_set(chosen: list[int], gold: list[int], expected: float) -> None:
    assert value("tracc", [7, 6], gold, chosen) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (1, 1 / 4),  # R = {1}: (1 - 1/2) * 1/2
        (2, 1 / 2),  # R = {1, 9}: (1 - 0/3) * 1/2
        (3, 2 / 3),  # R = {1, 9, 2}: (1 - 1/3) * 2/2
        (5, 2 / 3),  # only three tools were returned: the same R
    ],
)
def test_tracc_at_k_takes_the_first_k_of_the_ranking_as_the_set(k: int, expected: float) -> None:
    # A recommended set does not matter.
    assert value(f"tracc@{k}", [1, 9, 2], [1, 2]) == pytest.approx(expected, rel=1e-12)
    assert value(f"tracc@{k}", [1, 9, 2], [1, 2], chosen=[4]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("k", "gold", "expected"),
    [(1, [1], 1.0), (1, [1, 2], 0.0), (2, [1, 2], 0.0), (3, [1, 2], 1.0), (9, [1, 2], 1.0), (9, [1, 5], 0.0)],
)
def test_pass_needs_every_gold_tool_within_k(k: int, gold: list[int], expected: float) -> None:
    assert value(f"pass@{k}", [1, 9, 2], gold) == expected


@pytest.mark.parametrize(
    ("metric", "ranking", "gold", "expected"),
    [
        # n = 3: of the first three only rank 2 is gold. DCG = 1/log2(3); retrieved, sorted: one hit at the top = 1.
        ("ndcg_ptr@gold", [9, 1, 8, 2], [1, 2, 3], 1 / log2(3)),
        # The standard ideal has all three: 1 + 1/log2(3) + 1/2.
        ("ndcg@gold", [9, 1, 8, 2], [1, 2, 3], (1 / log2(3)) / (1 + 1 / log2(3) + 1 / 2)),
        ("ndcg_ptr@gold", [1, 9, 8], [1, 2, 3], 1.0),
        ("ndcg_ptr@gold", [9, 8, 7], [1, 2, 3], 0.0),
        # ranks 2 and 3 of three: (1/log2(3) + 1/2) / (1 + 1/log2(3))
        ("ndcg_ptr@gold", [9, 1, 2], [1, 2, 3], (1 / log2(3) + 1 / 2) / (1 + 1 / log2(3))),
        # Graded 3 and 1, the wrong way round: (1 + 3/log2(3)) / (3 + 1/log2(3)), the same for both.
        ("ndcg_ptr@gold", [2, 1], {1: 3, 2: 1}, (1 + 3 / log2(3)) / (3 + 1 / log2(3))),
        ("ndcg@gold", [2, 1], {1: 3, 2: 1}, (1 + 3 / log2(3)) / (3 + 1 / log2(3))),
        # The lesser gold tool first and the better one missing: 1 / 1 for PTR, 1 / (3 + 1/log2(3)) for the standard.
        ("ndcg_ptr@gold", [2, 9], {1: 3, 2: 1}, 1.0),
        ("ndcg@gold", [2, 9], {1: 3, 2: 1}, 1 / (3 + 1 / log2(3))),
        # k = n = 2: the hit at rank 3 does not count.
        ("recall@gold", [1, 9, 2], [1, 2], 1 / 2),
        ("recall@gold", [9, 1], [1], 0.0),
        ("recall@gold", [2, 1], [1, 2], 1.0),
    ],
)
def test_metrics_cut_at_the_number_of_gold_tools(
    metric: str, ranking: list[int], gold: list[int] | dict[int, int], expected: float
) -> None:
    assert value(metric, ranking, gold) == pytest.approx(expected, rel=1e-12)


def test_discounts_are_those_of_the_c_library_to_the_last_bit() -> None:
    # One gold tool alone: the ideal is 1, so its value is its discount. NumPy's own logarithm may differ in the last
    # bit from one processor to the next.
    ranks = range(1, 3000)
    tools = np.tile(np.arange(3000, dtype=np.int32), (len(ranks), 1))
    gold = Gold.of({rank - 1: 1} for rank in ranks)
    values = evaluate(tools, gold, parse_metrics(["ndcg@3000"])).values[:, 0]
    assert values.tolist() == [1 / log2(rank + 1) for rank in ranks]


def test_a_deeper_cut_off_than_the_ranking_changes_nothing() -> None:
    wanted = parse_metrics(["ndcg@3", "ndcg@4", "ndcg@1000"])
    tools = Ranking.of_lists([[9, 1, 2], [1], []]).tools
    gold = Gold.of([{1: 2, 2: 1, 3: 1}, {1: 1, 4: 5}, {1: 1}])
    values = evaluate(tools, gold, wanted).values
    # Three gold tools: the ideal is whole at 3.
    assert values[:, 0].tolist() == values[:, 1].tolist() == values[:, 2].tolist()
    assert values[1, 0] == 1 / (5 + 1 / log2(3))


def test_the_cut_off_at_gold_is_each_query_s_own() -> None:
    ranking = Ranking.of_lists([[9, 1, 2]] * 3).tools
    gold = Gold.of([{1: 1}, {1: 1, 2: 1}, {1: 1, 2: 1, 3: 1}])
    # k = 1: none; k = 2: tool 1; k = 3: tools 1 and 2 of three.
    assert evaluate(ranking, gold, parse_metrics(["recall@gold"])).values[:, 0].tolist() == [0, 1 / 2, 2 / 3]


def test_precision_divides_by_k_even_when_fewer_tools_were_returned() -> None:
    assert value("precision@10", [1, 2], [1, 2]) == 2 / 10
    assert value("precision@2", [1, 2], [1, 2]) == 1.0


@pytest.mark.parametrize(
    ("metric", "expected"),
    # R = {1, 2, 8, 9}, G = {1, 2, 3}: two in common.
    [("set_precision", 2 / 4), ("set_recall", 2 / 3), ("set_f1", 4 / 7), ("size_diff", 1.0), ("answered", 1.0)],
)
def test_set_metrics(metric: str, expected: float) -> None:
    assert value(metric, [5], [1, 2, 3], [1, 2, 8, 9]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("set_precision", 0.0),
        ("set_recall", 0.0),
        ("set_f1", 0.0),
        ("size_diff", 3.0),
        ("answered", 0.0),
        ("tracc", 0.0),
    ],
)
def test_set_metrics_of_the_empty_set(metric: str, expected: float) -> None:
    assert value(metric, [1, 2, 3], [1, 2, 3], []) == expected


def test_size_diff_counts_missing_and_superfluous_tools_alike() -> None:
    assert value("size_diff", [], [1, 2, 3], [1]) == 2.0
    assert value("size_diff", [], [1], [1, 2, 3]) == 2.0


def test_without_recommended_sets_the_set_metrics_are_not_taken() -> None:
    wanted = parse_metrics(["tracc", "set_recall", "size_diff", "abstained", "answered", "recall@1"])
    scores = evaluate(Ranking.of_lists([[1]]).tools, Gold.of([{1: 1}]), wanted)
    assert scores.means() == {"recall@1": 1.0}


def test_abstained_is_taken_on_queries_without_gold_and_answered_on_the_others() -> None:
    gold = Gold.of([{}, {}, {}, {1: 1}, {1: 1}, {1: 1}])
    sets = ToolSets.of([[], [2], [], [1], [], [2]])
    ranking = Ranking.of_lists([[3]] * 6).tools
    # The third query failed, which is no decision to abstain.
    failed = np.array([False, False, True, False, False, False])
    scores = evaluate(ranking, gold, parse_metrics(["abstained", "answered"]), sets, failed)
    np.testing.assert_array_equal(scores.column("abstained"), [1, 0, 0, nan, nan, nan])
    np.testing.assert_array_equal(scores.column("answered"), [nan, nan, nan, 1, 0, 1])
    assert scores.means() == {"abstained": 1 / 3, "answered": 2 / 3}


@pytest.mark.parametrize("metric", [metric for metric in DEFAULT_METRICS if metric not in {"size_diff", "abstained"}])
def test_a_query_that_was_not_answered_scores_0_and_is_counted(metric: str) -> None:
    gold = Gold.of([{1: 1}, {1: 1}, {1: 1}])
    sets = ToolSets.of([[1], [], [1]])
    # The first is answered perfectly; the second has no tools at all; the third failed, whatever it holds.
    ranking = Ranking.of_lists([[1], [], [1]], failed=[False, False, True])
    taken = [parse_metric(metric)]
    column = evaluate(ranking.tools, gold, taken, sets, ranking.failed).values[:, 0]
    assert column[0] > 0
    assert column[1:].tolist() == [0, 0]


def test_an_empty_ranking_scores_0_by_mmrr_too() -> None:
    # Counted as k+1, the missing tool would earn 1/6.
    assert value("mmrr@5", [], [1]) == 0.0
    assert value("mmrr@5", [9], [1]) == 1 / 6


@pytest.mark.parametrize("chosen", [[], [1, 2], [1, 2, 3, 4, 5, 6]])
def test_a_failed_query_has_no_set_so_its_size_is_wrong_by_all_gold_tools(chosen: list[int]) -> None:
    ranking = Ranking.of_lists([[1, 2]], failed=[True])
    scores = evaluate(
        ranking.tools, Gold.of([{1: 1, 2: 1}]), parse_metrics(["size_diff"]), ToolSets.of([chosen]), ranking.failed
    )
    assert scores.values.tolist() == [[2.0]]


def test_an_empty_ranking_with_a_recommended_set_is_an_answer() -> None:
    assert value("set_recall", [], [1], [1]) == 1.0
    assert value("answered", [], [1], [1]) == 1.0
    assert value("recall@5", [], [1], [1]) == 0.0


def test_queries_without_gold_are_left_out_of_every_mean() -> None:
    gold = Gold.of([{}, {1: 1}, {}, {2: 1}])
    ranking = Ranking.of_lists([[1], [1], [], [1]]).tools
    metrics = [metric for metric in parse_metrics(DEFAULT_METRICS) if str(metric) != "abstained"]
    scores = evaluate(ranking, gold, metrics, ToolSets.of([[1], [1], [], [1]]))
    assert np.isnan(scores.values[[0, 2]]).all()
    assert not np.isnan(scores.values[[1, 3]]).any()
    assert scores.means()["recall@1"] == 1 / 2
    assert scores.means()["set_recall"] == 1 / 2


def test_where_no_query_has_gold_nothing_is_taken_but_abstention() -> None:
    scores = evaluate(
        Ranking.of_lists([[1], []]).tools, Gold.of([{}, {}]), parse_metrics(DEFAULT_METRICS), ToolSets.of([[1], []])
    )
    assert scores.means() == {"abstained": 1 / 2}


def test_rankings_without_any_column_are_unanswered() -> None:
    scores = evaluate(Ranking.empty(2).tools, Gold.of([{1: 1}, {2: 1}]), parse_metrics(["recall@5", "mmrr@5"]))
    assert scores.values.tolist() == [[0, 0], [0, 0]]


def test_returned_tools_are_counted_up_to_the_padding() -> None:
    tools = np.array([[3, 4, -1], [5, -1, -1], [1, 2, 0], [-1, -1, -1]], dtype=np.int32)
    assert returned_counts(tools).tolist() == [2, 1, 3, 0]
    assert returned_counts(np.empty((2, 0), dtype=np.int32)).tolist() == [0, 0]
