"""What must hold of every metric on any ranking: bounds, monotony, invariance, the perfect ranking."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.interface.ranking import Ranking
from bench.metrics import evaluate, parse_metric

CUTS = (1, 2, 3, 5, 8, 20)
WITH_A_CUT = ("recall", "precision", "hit", "ndcg", "map", "mrr", "mmrr", "pass", "tracc", "mmrr_printed")
AT_GOLD = ("recall@gold", "ndcg@gold", "ndcg_ptr@gold")
METRICS = (*(f"{name}@{k}" for name in WITH_A_CUT for k in CUTS), *AT_GOLD)
checked = settings(deadline=None, derandomize=True, max_examples=60)


@dataclass(frozen=True)
class Case:
    """One query: a ranking of some tools of a small library, and its gold tools with their relevance."""

    ranking: list[int]
    gold: dict[int, int]

    def values(self, *metrics: str) -> NDArray[np.float64]:
        row: NDArray[np.float64] = values([self], *metrics)[0]
        return row


def values(cases: list[Case], *metrics: str) -> NDArray[np.float64]:
    """(cases, metrics)."""
    ranking = Ranking.of_lists([case.ranking for case in cases])
    return evaluate(ranking.tools, Gold.of(case.gold for case in cases), [parse_metric(m) for m in metrics]).values


@st.composite
def cases(draw: st.DrawFn) -> Case:
    library = draw(st.integers(1, 12))
    order = draw(st.permutations(range(library)))
    gold = draw(st.dictionaries(st.integers(0, library - 1), st.integers(1, 3), min_size=1))
    return Case(order[: draw(st.integers(0, library))], gold)


@given(cases())
@checked
def test_every_metric_lies_between_0_and_1(case: Case) -> None:
    for metric, value in zip(METRICS, case.values(*METRICS), strict=True):
        name, _, cut = metric.partition("@")
        # mmrr divides by ranks that are capped at k+1, so it passes 1 where there are more than k+1 gold tools.
        if name in {"mmrr", "mmrr_printed"} and len(case.gold) > int(cut) + 1:
            continue
        assert 0 <= value <= 1 + 1e-12, metric


@pytest.mark.parametrize("name", ["recall", "hit", "map", "mrr", "pass"])
@given(case=cases())
@checked
def test_a_deeper_cut_never_lowers(name: str, case: Case) -> None:
    result = case.values(*(f"{name}@{k}" for k in CUTS))
    assert (np.diff(result) >= -1e-12).all()


@given(cases())
@checked
def test_a_deeper_cut_never_raises_mmrr_as_missing_tools_weigh_more(case: Case) -> None:
    result = case.values(*(f"mmrr@{k}" for k in CUTS))
    assert (np.diff(result) <= 1e-12).all()


@given(cases(), st.integers(1, 15))
@checked
def test_metrics_on_the_same_hits_agree(case: Case, k: int) -> None:
    names = ("recall", "precision", "hit", "map", "mrr", "pass", "ndcg")
    recall, precision, hit, average, mrr, passed, ndcg = case.values(*(f"{name}@{k}" for name in names))
    assert precision * k == pytest.approx(recall * len(case.gold))
    assert passed <= recall <= hit
    assert average <= recall + 1e-12
    assert mrr <= hit
    assert (ndcg > 0) == (hit > 0) == (mrr > 0) == (average > 0)


@given(cases(), st.integers(1, 15))
@checked
def test_with_one_gold_tool_the_three_rank_metrics_are_the_reciprocal_rank(case: Case, k: int) -> None:
    tool = next(iter(case.gold))
    one = Case(case.ranking, {tool: 1})
    rank = case.ranking.index(tool) + 1 if tool in case.ranking[:k] else None
    average, mrr, mmrr = one.values(f"map@{k}", f"mrr@{k}", f"mmrr@{k}")
    assert average == mrr == (0 if rank is None else 1 / rank)
    assume(case.ranking)
    assert mmrr == (1 / (k + 1) if rank is None else 1 / rank)


@given(st.lists(cases(), min_size=1, max_size=6), st.randoms(use_true_random=False))
@checked
def test_the_order_of_the_queries_does_not_matter(several: list[Case], random: Random) -> None:
    order = list(range(len(several)))
    random.shuffle(order)
    np.testing.assert_array_equal(values([several[i] for i in order], *METRICS), values(several, *METRICS)[order])


@given(st.lists(cases(), min_size=1, max_size=6))
@checked
def test_a_query_s_value_does_not_depend_on_the_others(several: list[Case]) -> None:
    alone = np.array([case.values(*METRICS) for case in several])
    np.testing.assert_allclose(values(several, *METRICS), alone, rtol=0, atol=1e-12)


@given(cases(), st.permutations(range(12)))
@checked
def test_the_names_of_the_tools_do_not_matter(case: Case, names: list[int]) -> None:
    renamed = Case([names[tool] for tool in case.ranking], {names[tool]: grade for tool, grade in case.gold.items()})
    np.testing.assert_allclose(renamed.values(*METRICS), case.values(*METRICS), rtol=0, atol=1e-12)


@given(cases(), st.integers(1, 20))
@checked
def test_padding_does_not_matter(case: Case, width: int) -> None:
    narrow = Ranking.of_lists([case.ranking]).tools
    wide = np.pad(narrow, ((0, 0), (0, width)), constant_values=-1)
    metrics = [parse_metric(metric) for metric in METRICS]
    gold = Gold.of([case.gold])
    np.testing.assert_array_equal(evaluate(wide, gold, metrics).values, evaluate(narrow, gold, metrics).values)


@given(cases())
@checked
def test_a_perfect_ranking_scores_1(case: Case) -> None:
    gold = case.gold
    best = sorted(gold, key=lambda tool: -gold[tool])
    perfect = Case(best + [tool for tool in range(12) if tool not in gold], gold)
    n = len(gold)
    for metric, value in zip(METRICS, perfect.values(*METRICS), strict=True):
        name, _, cut = metric.partition("@")
        k = n if cut == "gold" else int(cut)
        expected = {
            "precision": min(k, n) / k,
            # No ranking passes where there are more gold tools than places.
            "recall": min(k, n) / n,
            "map": min(k, n) / n,
            "pass": float(k >= n),
            # R is the first k: perfect when k = n; (1 - |k-n| / max(k, n)) * min(k, n) / n, with the library's 12 tools
            "tracc": (1 - abs(min(k, 12) - n) / max(min(k, 12), n)) * min(k, n) / n,
        }.get(name, 1.0)
        if name in {"mmrr", "mmrr_printed"}:
            # ranks 1..k, then k+1 for the n-k that no ranking could place
            mean = sum(min(rank, k + 1) for rank in range(1, n + 1)) / n
            expected = (n + 1) / 2 / mean if name == "mmrr" else n / 2 / mean
            assert n > k + 1 or name == "mmrr_printed" or expected == 1
        assert value == pytest.approx(expected, abs=1e-12), metric


@pytest.mark.parametrize("name", ["recall", "precision", "hit", "ndcg", "map", "mrr", "mmrr", "pass", "tracc"])
@given(case=cases(), data=st.data())
@checked
def test_moving_a_gold_tool_up_never_lowers(name: str, case: Case, data: st.DataObject) -> None:
    ranking = case.ranking
    # Positions where a tool is directly above a more relevant one.
    below = [i for i in range(1, len(ranking)) if case.gold.get(ranking[i], 0) > case.gold.get(ranking[i - 1], 0)]
    assume(below)
    place = data.draw(st.sampled_from(below))
    moved = [*ranking[: place - 1], ranking[place], ranking[place - 1], *ranking[place + 1 :]]
    metrics = [f"{name}@{k}" for k in CUTS] + [m for m in ("recall@gold", "ndcg@gold") if m.startswith(name)]
    assert (Case(moved, case.gold).values(*metrics) >= case.values(*metrics) - 1e-12).all()


@pytest.mark.parametrize("name", ["recall", "precision", "hit", "ndcg", "map", "mrr", "mmrr", "pass", "tracc"])
def test_moving_the_gold_tool_into_the_cut_raises(name: str) -> None:
    below, inside = Case([8, 9, 1], {1: 1}), Case([8, 1, 9], {1: 1})
    assert inside.values(f"{name}@2") > below.values(f"{name}@2")


@given(cases(), st.data())
@checked
def test_a_gold_tool_more_at_the_end_never_lowers(case: Case, data: st.DataObject) -> None:
    missing = [tool for tool in case.gold if tool not in case.ranking]
    assume(missing)
    longer = Case([*case.ranking, data.draw(st.sampled_from(missing))], case.gold)
    names = [
        f"{name}@{k}" for name in ("recall", "precision", "hit", "ndcg", "map", "mrr", "mmrr", "pass") for k in CUTS
    ]
    assert (longer.values(*names) >= case.values(*names) - 1e-12).all()
