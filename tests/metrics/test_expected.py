"""Expected values over ties: by hand, against trec_eval, exact fractions and 100,000 random orders; and where drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, permutations, product
from math import comb, log2

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.metrics import Metric, evaluate, get_measure, parse_metric, parse_metrics
from bench.metrics.goldranks import GoldRanks
from bench.metrics.measure import Counts, Values
from bench.metrics.ties import LEAST_DRAWS, TieBand, UnseenTies, tie_band
from bench.search.topk import top_k


def band_of(levels: Sequence[Sequence[int]], gold: Gold, metrics: Sequence[Metric], depth: int) -> TieBand:
    """The band of one query; tools of one level have one score, and those beyond the depth are told."""
    scores = np.full((1, 1 + max(tool for level in levels for tool in level)), -np.inf)
    for place, level in enumerate(levels):
        scores[0, list(level)] = -place
    ranking = top_k(scores, depth)
    assert ranking.scores is not None
    kept = set(ranking.tools[0].tolist())
    split = next((level for level in levels if kept & {*level} and {*level} - kept), ())
    outside = {*split} - kept
    meeting = gold.members()
    grades = dict(zip(meeting.tools.tolist(), meeting.grades.tolist(), strict=True))
    beyond = UnseenTies(np.array([len(outside)]), Gold.of([{tool: grades[tool] for tool in outside if tool in grades}]))
    return tie_band(ranking.tools, ranking.scores, gold, beyond, metrics)


def expected(levels: Sequence[Sequence[int]], gold: Mapping[int, int], *names: str, depth: int = 100) -> list[float]:
    band = band_of(levels, Gold.of([gold]), parse_metrics(names), depth)
    assert not band.draws.any()
    values: list[float] = band.expected.tolist()
    return values


# By hand --------------------------------------------------------------------------------------------------------------


def test_one_gold_tool_among_four() -> None:
    # It is at rank 2, 3, 4 or 5, behind a tool of a better score.
    names = ("recall@3", "precision@3", "hit@3", "pass@3", "mrr@3", "map@10", "ndcg@3", "mmrr@3")
    reciprocal = (1 / 2 + 1 / 3) / 4
    assert expected([[9], [0, 1, 2, 3]], {2: 1}, *names) == pytest.approx(
        [
            *(1 / 2, 1 / 6, 1 / 2, 1 / 2, reciprocal, (1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4),
            (1 / log2(3) + 1 / log2(4)) / 4,
            # Beyond the cut-off it counts as rank 4.
            (1 / 2 + 1 / 3 + 1 / 4 + 1 / 4) / 4,
        ],
        abs=1e-14,
    )


def test_two_gold_tools_among_three() -> None:
    # They are at the ranks 1 and 2, 1 and 3, or 2 and 3.
    names = ("recall@1", "hit@1", "pass@2", "mrr@3", "map@3", "map@2", "mmrr@3", "mmrr@1", "tracc@2", "tracc@1")
    assert expected([[0, 1, 2]], {0: 1, 2: 1}, *names) == pytest.approx(
        [
            *(1 / 3, 2 / 3, 1 / 3, (1 + 1 + 1 / 2) / 3),
            (1 + (1 + 2 / 3) / 2 + (1 / 2 + 2 / 3) / 2) / 3,
            (1 + 1 / 2 + 1 / 4) / 3,
            # (n + 1) / 2 over the mean ranks 3/2, 2, 5/2; and with ranks beyond 1 as 2: 3/2, 3/2, 2.
            (1 + 3 / 4 + 3 / 5) / 3,
            (1 + 1 + 3 / 4) / 3,
            # With both found 1, with one (1 - 0) / 2.
            (1 + 1 / 2 + 1 / 2) / 3,
            # One of two tools: (1 - 1 / 2) / 2; none: 0.
            (1 / 4 + 1 / 4 + 0) / 3,
        ],
        abs=1e-14,
    )


def test_graded_tools_share_the_discounts() -> None:
    # Relevance 3, 1 and 0 in any order: each rank has the mean relevance 4/3.
    ideal = 3 + 1 / log2(3)
    assert expected([[0, 1, 2]], {0: 3, 1: 1}, "ndcg@1", "ndcg@2") == pytest.approx(
        [4 / 3 / 3, 4 / 3 * (1 + 1 / log2(3)) / ideal], abs=1e-14
    )


def test_alternatives_come_first_with_the_foremost_of_them() -> None:
    # One requirement, met by two of four tools: the foremost is at rank 1, 2 or 3 with 3, 2 and 1 of 6.
    gold = Gold.of([{0: 1}])
    either = Gold(gold.starts, gold.tools, gold.grades, GoldGroups.of([[([0, 1], 1)]]))
    band = band_of([[0, 1, 2, 3]], either, parse_metrics(["recall@1", "mrr@10", "mmrr@2", "ndcg@10"]), 10)
    assert band.expected == pytest.approx(
        [
            *(1 / 2, (3 + 2 / 2 + 1 / 3) / 6, (3 + 2 / 2 + 1 / 3) / 6),
            (3 + 2 / log2(3) + 1 / 2) / 6,
        ],
        abs=1e-14,
    )
    assert not band.draws.any()


# Against trec_eval ----------------------------------------------------------------------------------------------------

TREC = {
    "recall@2": "recall_2",
    "recall@3": "recall_3",
    "precision@2": "P_2",
    "hit@1": "success_1",
    "ndcg@2": "ndcg_cut_2",
    "ndcg@100": "ndcg",
    "map@2": "map_cut_2",
    "map@100": "map",
    "mrr@100": "recip_rank",
}
THEIRS = {"recall.2,3", "P.2", "success.1", "ndcg_cut.2", "ndcg", "map_cut.2", "map", "recip_rank"}


@pytest.mark.parametrize(
    ("levels", "gold"),
    [
        ([[0, 1, 2, 3, 4]], {1: 1, 3: 1}),
        ([[5], [0, 1, 2], [3, 4]], {0: 1, 2: 1, 4: 1}),
        ([[0, 1], [2, 3, 4, 5]], {1: 3, 2: 1, 5: 2}),
        ([[0, 1, 2, 3, 4, 5]], {0: 1, 1: 2, 2: 1, 9: 1}),
    ],
)
def test_it_is_the_mean_of_trec_eval_s_values_over_all_orders(levels: list[list[int]], gold: dict[int, int]) -> None:
    orders = [[tool for part in parts for tool in part] for parts in product(*map(permutations, levels))]
    # trec_eval breaks ties by its own rule, so it gets each order as falling scores.
    run = {
        str(number): {str(tool): float(-rank) for rank, tool in enumerate(order)} for number, order in enumerate(orders)
    }
    judgements = {str(tool): grade for tool, grade in gold.items()}
    values = pytrec_eval.RelevanceEvaluator(dict.fromkeys(run, judgements), THEIRS).evaluate(run)
    theirs = [np.mean([value[name] for value in values.values()]) for name in TREC.values()]
    assert expected(levels, gold, *TREC) == pytest.approx(theirs, abs=1e-9)


# Against exact fractions ----------------------------------------------------------------------------------------------


def mean_reciprocal(blocks: Sequence[tuple[int, int, int]], missing: int) -> Fraction:
    """E[1 / S] by counting the sets of places of each sum; a block has its first rank, its size and its gold tools."""
    total = {0: Fraction(1)}
    for first, size, gold in blocks:
        sums: list[dict[int, int]] = [{0: 1}, *({} for _ in range(gold))]
        for place in range(size):
            rank = min(first + place, missing)
            for chosen in range(gold, 0, -1):
                for value, times in sums[chosen - 1].items():
                    sums[chosen][value + rank] = sums[chosen].get(value + rank, 0) + times
        after: dict[int, Fraction] = {}
        for value, chance in total.items():
            for more, times in sums[gold].items():
                after[value + more] = after.get(value + more, Fraction(0)) + chance * times / comb(size, gold)
        total = after
    return sum((chance / value for value, chance in total.items()), Fraction(0))


@pytest.mark.parametrize(
    ("blocks", "cut"),
    [
        # (tools, gold tools) of each block.
        ([(40, 3)], 5),
        ([(40, 3)], 100),
        ([(7, 2), (30, 3), (1, 1), (25, 2)], 50),
        ([(3, 0), (90, 5)], 10),
        ([(12, 12), (20, 19)], 20),
        ([(300, 2)], 1000),
    ],
)
def test_mmrr_is_exact_in_large_blocks(blocks: list[tuple[int, int]], cut: int) -> None:
    levels, gold, counted, tool = [], [], [], 0
    for size, relevant in blocks:
        levels.append(list(range(tool, tool + size)))
        # Not those that stand first by the rule of the protocol.
        gold += levels[-1][size - relevant :]
        counted.append((tool + 1, size, relevant))
        tool += size
    n = len(gold)
    (value,) = expected(levels, dict.fromkeys(gold, 1), f"mmrr@{cut}", depth=1000)
    assert value == pytest.approx(float(Fraction(n * (n + 1), 2) * mean_reciprocal(counted, cut + 1)), rel=1e-13)


# Against random orders ------------------------------------------------------------------------------------------------

ORDERS = 100_000
WIDE = parse_metrics(
    [
        *(
            f"{name}@{k}"
            for name in ("recall", "hit", "pass", "ndcg", "map", "mrr", "mmrr", "tracc", "rbp")
            for k in (5, 20)
        ),
        *("recall@gold", "ndcg@gold"),
    ]
)


def grouped(requirements: Sequence[tuple[list[int], int]]) -> Gold:
    plain = Gold.of([{tools[0]: grade for tools, grade in requirements}])
    return Gold(plain.starts, plain.tools, plain.grades, GoldGroups.of([requirements]))


@pytest.mark.parametrize(
    "gold",
    [
        Gold.of([{3: 1, 8: 1, 20: 1, 33: 1, 50: 1}]),
        Gold.of([{5: 3, 9: 1, 15: 2, 40: 1}]),
        grouped([([3, 8, 12], 1), ([20, 22], 2), ([35], 1), ([36, 48], 1)]),
    ],
    ids=["plain", "graded", "alternatives"],
)
def test_it_is_near_the_mean_of_100_000_random_orders(gold: Gold) -> None:
    levels = [list(range(2)), list(range(2, 16)), list(range(16, 18)), list(range(18, 60))]
    level = np.repeat(np.arange(4), [len(part) for part in levels])
    random = np.random.default_rng(0)
    tools = np.argsort(level + random.random((ORDERS, 60)), axis=1).astype(np.int32)[:, :30]
    values = evaluate(tools, gold.take(np.zeros(ORDERS, dtype=np.int64)), WIDE).values
    band = band_of(levels, gold, WIDE, 30)
    assert not band.draws.any()
    error = values.std(axis=0) / np.sqrt(ORDERS)
    assert (np.abs(band.expected - values.mean(axis=0)) <= 5 * error + 1e-9).all()


# Where there is no closed form ----------------------------------------------------------------------------------------


def _last(gold: GoldRanks, k: Counts) -> Values:
    """The reciprocal rank of the last gold tool within k."""
    within = np.where(gold.ranks <= k[:, None], gold.ranks, 0).max(axis=1)
    values: Values = np.where(within > 0, 1 / np.maximum(within, 1), 0.0)
    return values


LAST = [Metric(replace(get_measure("mrr"), name="last", function=_last), 20), parse_metric("recall@20")]


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_few_orders_are_all_taken(sizes: list[int], data: st.DataObject) -> None:
    ends = np.cumsum([0, *sizes])
    levels = [list(range(start, end)) for start, end in pairwise(ends.tolist())]
    gold = data.draw(st.lists(st.integers(0, int(ends[-1]) - 1), unique=True, min_size=1, max_size=3))
    orders = [[tool for part in parts for tool in part] for parts in product(*map(permutations, levels))]
    every = np.array(orders, dtype=np.int32)
    judged = Gold.of([dict.fromkeys(gold, 1)])
    values = evaluate(every, judged.take(np.zeros(len(every), dtype=np.int64)), LAST).values
    band = band_of(levels, judged, LAST, 20)
    np.testing.assert_allclose(band.expected, values.mean(axis=0), atol=1e-12)
    assert band.draws.tolist() == [0, 0]


def last_of_pairs(size: int) -> tuple[float, float]:
    """Mean and variance of the reciprocal rank of the last of two gold tools of a block, by counting pairs."""
    weights = np.arange(1, size) / comb(size, 2)
    values = 1 / np.arange(2, size + 1)
    mean = float((weights * values).sum())
    return mean, float((weights * (values - mean) ** 2).sum())


@pytest.mark.parametrize("queries", [1, 40])
def test_many_orders_are_drawn_until_the_shown_digits_stand(queries: int) -> None:
    scores = np.zeros((queries, 40))
    ranking = top_k(scores, 40)
    assert ranking.scores is not None
    gold = Gold.of([{3: 1, 30: 1}] * queries)
    metrics = [Metric(LAST[0].measure, 40), parse_metric("recall@20")]
    band = tie_band(ranking.tools, ranking.scores, gold, UnseenTies.none(queries), metrics)
    mean, variance = last_of_pairs(40)
    # So many that the standard error is at most 0.00025, to the error of the estimated variance.
    assert band.draws[0] % LEAST_DRAWS == 0
    assert band.draws[0] >= max(LEAST_DRAWS, 0.8 * variance / queries / 0.00025**2)
    assert abs(band.expected[0] - mean) <= 5 * 0.0003
    assert (band.expected[1], band.draws[1]) == (0.5, 0)
    again = tie_band(ranking.tools, ranking.scores, gold, UnseenTies.none(queries), metrics)
    assert again.expected.tobytes() == band.expected.tobytes()


def test_a_query_s_expected_value_does_not_depend_on_the_others() -> None:
    random = np.random.default_rng(2)
    scores = random.integers(0, 4, size=(30, 25)).astype(float)
    gold = Gold.of(dict.fromkeys(random.permutation(25)[: 1 + row % 6].tolist(), 1) for row in range(30))
    ranking = top_k(scores, 25)
    tied = ranking.scores
    assert tied is not None

    def values(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return tie_band(ranking.tools[rows], tied[rows], gold.take(rows), UnseenTies.none(len(rows)), WIDE).expected

    alone = np.mean([values(np.array([row])) for row in range(30)], axis=0)
    np.testing.assert_allclose(values(np.arange(30)), alone, rtol=0, atol=1e-13)
