"""The protocol's metrics, each with definition, edge cases and source."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.metrics.goldranks import GoldRanks
from bench.metrics.measure import Counts, CutoffForm, Measure, SetSizes, Values

_K: frozenset[CutoffForm] = frozenset({"k"})
_K_OR_GOLD: frozenset[CutoffForm] = frozenset({"k", "gold"})
_GOLD: frozenset[CutoffForm] = frozenset({"gold"})
_BARE: frozenset[CutoffForm] = frozenset({"none"})
_K_OR_BARE: frozenset[CutoffForm] = frozenset({"k", "none"})


def _sum(values: NDArray[Any]) -> Values:
    """Row sums, as float64."""
    total: Values = values.sum(axis=1, dtype=np.float64)
    return total


def _hits(gold: GoldRanks, k: Counts) -> Values:
    return _sum(gold.ranks <= k[:, None])


def recall(gold: GoldRanks, k: Counts) -> Values:
    """|G ∩ top k| / n."""
    return _hits(gold, k) / gold.n


def precision(gold: GoldRanks, k: Counts) -> Values:
    """|G ∩ top k| / k."""
    return _hits(gold, k) / k


def hit(gold: GoldRanks, k: Counts) -> Values:
    """1 if any gold tool is in the top k."""
    return np.where(gold.ranks[:, 0] <= k, 1.0, 0.0)


def passed(gold: GoldRanks, k: Counts) -> Values:
    """1 if every gold tool is in the top k."""
    return np.where(_hits(gold, k) == gold.n, 1.0, 0.0)


def reciprocal_rank(gold: GoldRanks, k: Counts) -> Values:
    """1 / rank of the first gold tool within k."""
    first = gold.ranks[:, 0]
    values: Values = np.where(first <= k, 1.0 / first, 0.0)
    return values


def average_precision(gold: GoldRanks, k: Counts) -> Values:
    """Mean over gold tools of the precision at their rank; 0 for those beyond k."""
    nth = np.arange(1, gold.ranks.shape[1] + 1)
    return _sum(np.where(gold.ranks <= k[:, None], nth / gold.ranks, 0.0)) / gold.n


def _mean_rank(gold: GoldRanks, k: Counts) -> Values:
    """Mean over gold tools of min(rank, k + 1)."""
    ranks = np.minimum(gold.ranks, (k + 1)[:, None])
    mine = np.arange(gold.ranks.shape[1]) < gold.n[:, None]
    return _sum(np.where(mine, ranks, 0)) / gold.n


def multiple_mean_reciprocal_rank(gold: GoldRanks, k: Counts) -> Values:
    """Mean rank of a perfect ranking over the mean rank found."""
    return (gold.n + 1) / 2 / _mean_rank(gold, k)


def multiple_mean_reciprocal_rank_printed(gold: GoldRanks, k: Counts) -> Values:
    """The same with n / 2 on top, as eq. (2) is printed."""
    return gold.n / 2 / _mean_rank(gold, k)


@cache
def _discounts(deepest: int) -> Values:
    """1 / log2(rank + 1) for the ranks 0 (unused) to `deepest`.

    From the C library by way of `math`: NumPy's own logarithm differs in the last bit between processors.
    """
    return np.array([0.0, *(1.0 / math.log2(rank + 1) for rank in range(1, deepest + 1))])


def _gain(gold: GoldRanks, k: Counts) -> Values:
    """DCG at k: the sum of relevance / log2(rank + 1)."""
    deepest = int(k.max(initial=0))
    within = np.where(gold.ranks <= k[:, None], gold.ranks, 0)
    return _sum(gold.grades * _discounts(deepest)[within])


def ndcg(gold: GoldRanks, k: Counts) -> Values:
    """DCG over the DCG of the best possible ranking of all gold tools."""
    places = np.arange(1, gold.ranks.shape[1] + 1)
    ideal = _sum(np.where(places <= k[:, None], gold.ideal * _discounts(len(places))[1:], 0.0))
    return _gain(gold, k) / ideal


def ndcg_ptr(gold: GoldRanks, k: Counts) -> Values:
    """DCG over the DCG of the retrieved tools re-sorted; 0 when none is relevant."""
    found = np.where(gold.ranks <= k[:, None], gold.grades, 0)
    best = -np.sort(-found, axis=1)
    ideal = _sum(best * _discounts(best.shape[1])[1:])
    values: Values = np.divide(_gain(gold, k), ideal, out=np.zeros(len(ideal)), where=ideal > 0)
    return values


def tracc(sets: SetSizes) -> Values:
    """(1 - | |R| - n | / |R ∪ G|) · |R ∩ G| / n."""
    union = sets.size + sets.n - sets.hits
    values: Values = (1 - np.abs(sets.size - sets.n) / union) * (sets.hits / sets.n)
    return values


def set_precision(sets: SetSizes) -> Values:
    """|R ∩ G| / |R|."""
    return sets.hits / np.maximum(sets.size, 1)


def set_recall(sets: SetSizes) -> Values:
    """|R ∩ G| / n."""
    return sets.hits / sets.n


def set_f1(sets: SetSizes) -> Values:
    """2 |R ∩ G| / (|R| + n)."""
    return 2 * sets.hits / (sets.size + sets.n)


def size_difference(sets: SetSizes) -> Values:
    """| |R| - n |."""
    values: Values = np.abs(sets.size - sets.n).astype(np.float64)
    return values


def empty(sets: SetSizes) -> Values:
    """1 if R is empty."""
    return np.where(sets.size == 0, 1.0, 0.0)


def nonempty(sets: SetSizes) -> Values:
    """1 if R is not empty."""
    return np.where(sets.size > 0, 1.0, 0.0)


_COLT = "Qu et al. 2024 (COLT), as COMP@k; Gao et al. 2025 (TGR), eq. 4, as Pass Rate"
_PTR = "Gao et al. 2024 (PTR), section 4"
_QUERY_GENERATION = "Kachuee et al. 2024 (query generation), eq. 2"

MEASURES: tuple[Measure, ...] = (
    Measure(
        "recall",
        "ranking",
        _K_OR_GOLD,
        "|G ∩ {h1..hk}| / n",
        "Fewer than k tools returned: those returned count. `@gold` sets k = n for each query.",
        "trec_eval `recall`; query-generation paper eq. 1; `@gold`: PTR section 5.1",
        ranked=recall,
    ),
    Measure(
        "precision",
        "ranking",
        _K,
        "|G ∩ {h1..hk}| / k",
        "Divides by k even when fewer tools were returned, as trec_eval `P` does.",
        "trec_eval `P`",
        ranked=precision,
    ),
    Measure(
        "hit",
        "ranking",
        _K,
        "1 if G ∩ {h1..hk} is not empty, else 0",
        "Graded gold counts from relevance 1.",
        "trec_eval `success`",
        ranked=hit,
    ),
    Measure(
        "ndcg",
        "ranking",
        _K_OR_GOLD,
        "DCG@k / IDCG@k; DCG@k = Σ_{i≤k} rel_i / log2(i+1); IDCG@k = the same over ALL gold tools, best first",
        "The ideal has min(k, n) terms. Gain is linear in relevance. `@gold` sets k = n for each query.",
        "Järvelin & Kekäläinen 2002; trec_eval `ndcg_cut`",
        ranked=ndcg,
    ),
    Measure(
        "map",
        "ranking",
        _K,
        "(1/n) Σ_{i≤k} precision@i · rel_i",
        "Divides by all n gold tools, also those beyond k. Bare `map` is map@100, the protocol's depth.",
        "trec_eval `map_cut`; query-generation paper eq. 3",
        ranked=average_precision,
    ),
    Measure(
        "mrr",
        "ranking",
        _K,
        "1 / rank of the first gold tool within k, else 0",
        "Bare `mrr` is mrr@100, the protocol's depth.",
        "trec_eval `recip_rank`, cut at k",
        ranked=reciprocal_rank,
    ),
    Measure(
        "mmrr",
        "ranking",
        _K,
        "((n+1)/2) / mean over gold tools of min(rank, k+1)",
        "A gold tool that is missing counts as rank k+1, so an answer without any gold tool still scores "
        "(n+1)/2/(k+1), which passes 1 when n > k+1; a query that was not answered scores 0. Bare `mmrr` is mmrr@100, "
        "the protocol's depth.",
        f"{_QUERY_GENERATION}, with the numerator that its text describes",
        ranked=multiple_mean_reciprocal_rank,
    ),
    Measure(
        "pass",
        "ranking",
        _K,
        "1 if G ⊆ {h1..hk}, else 0",
        "0 whenever n > k.",
        _COLT,
        ranked=passed,
    ),
    Measure(
        "tracc",
        "set",
        _K_OR_BARE,
        "(1 - abs(|R| - n) / |R ∪ G|) · |R ∩ G| / n",
        "R = ∅ gives 0. Bare `tracc` is taken on the set a method recommends (or on a learnt cut of its "
        "ranking, named in the row); `tracc@k` takes the first k of the ranking as R.",
        _PTR,
        chosen=tracc,
    ),
    Measure(
        "set_precision",
        "set",
        _BARE,
        "|R ∩ G| / |R|",
        "R = ∅ gives 0.",
        "precision of a set",
        chosen=set_precision,
    ),
    Measure("set_recall", "set", _BARE, "|R ∩ G| / n", "R = ∅ gives 0.", "recall of a set", chosen=set_recall),
    Measure(
        "set_f1",
        "set",
        _BARE,
        "2 |R ∩ G| / (|R| + n)",
        "R = ∅ gives 0.",
        "harmonic mean of set precision and set recall (van Rijsbergen 1979)",
        chosen=set_f1,
    ),
    Measure(
        "size_diff",
        "set",
        _BARE,
        "abs(|R| - n)",
        "Lower is better. A query that was not answered has R = ∅ and so n.",
        "PTR Fig. 4",
        chosen=size_difference,
        higher_is_better=False,
    ),
    Measure(
        "abstained",
        "abstention",
        _BARE,
        "over the queries WITHOUT gold: 1 if R = ∅, else 0",
        "Only for methods that recommend sets. Queries with gold are left out.",
        "this protocol, rule 3",
        chosen=empty,
    ),
    Measure(
        "answered",
        "abstention",
        _BARE,
        "over the queries with gold: 1 if R ≠ ∅, else 0",
        "Read beside `abstained`: a method that always abstains has abstained = 1 and answered = 0.",
        "this protocol, rule 3",
        chosen=nonempty,
    ),
    Measure(
        "ndcg_ptr",
        "ranking",
        _GOLD,
        "as ndcg@gold, but the ideal is the sort of the RETRIEVED list only",
        "0 when nothing relevant is retrieved. One hit at the top scores 1 however many gold tools are missing.",
        "PTR's released code; for reproduction, never for ranking",
        ranked=ndcg_ptr,
        reproduction_only=True,
        monotone=False,
    ),
    Measure(
        "mmrr_printed",
        "ranking",
        _K,
        "(n/2) / mean over gold tools of min(rank, k+1)",
        "0.5 for a perfect single-tool answer, which contradicts the paper's text.",
        f"{_QUERY_GENERATION} as printed; for reproduction, never for ranking",
        ranked=multiple_mean_reciprocal_rank_printed,
        reproduction_only=True,
    ),
)
