"""The protocol's metrics, each with definition, edge cases and source. `catalogue` lists them."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.base.protocol import DEFAULT_DEPTH
from bench.metrics.goldranks import GoldRanks
from bench.metrics.measure import (
    AbstentionMeasure,
    ChanceMeasure,
    Confidence,
    ConfidenceMeasure,
    Counts,
    DestructiveMeasure,
    Draws,
    ForbiddenMeasure,
    Measure,
    RankingMeasure,
    SetMeasure,
    SetSizes,
    Values,
)


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
    """The same with n / 2 in the numerator, as eq. (2) is printed."""
    return gold.n / 2 / _mean_rank(gold, k)


def _least_mean_rank(k: int, n: int) -> float:
    """The mean rank of n gold tools at the top of a ranking, those beyond k at k + 1; at least one."""
    return sum(min(rank, k + 1) for rank in range(1, max(n, 1) + 1)) / max(n, 1)


@cache
def _persistences(p: float, deepest: int) -> Values:
    """p ** (rank - 1) for the ranks 0 (unused) to `deepest`, by products: powers differ between processors."""
    powers = [0.0, 1.0]
    while len(powers) <= deepest:
        powers.append(powers[-1] * p)
    return np.array(powers)


def rank_biased_precision(gold: GoldRanks, k: Counts, p: float) -> Values:
    """(1 - p) · the sum of p ** (rank - 1) over the gold tools within k."""
    within = np.where(gold.ranks <= k[:, None], gold.ranks, 0)
    return (1 - p) * _sum(_persistences(p, int(k.max(initial=0)))[within])


@cache
def _discounts(deepest: int) -> Values:
    """1 / log2(rank + 1) for the ranks 0 (unused) to `deepest`.

    Uses the C library through `math`: NumPy's own logarithm differs in the last bit between processors.
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
    grades = np.where(gold.ranks <= k[:, None], gold.grades, 0)
    best = -np.sort(-grades, axis=1)
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


def set_exact(sets: SetSizes) -> Values:
    """1 if R = G."""
    return np.where((sets.hits == sets.n) & (sets.size == sets.n), 1.0, 0.0)


def choice(sets: SetSizes) -> Values:
    """1 if R = G, also if both are empty; a failed query counts as one that returned a hundred tools."""
    return np.where((sets.hits == sets.n) & (sets.size == sets.n) & (sets.size < DEFAULT_DEPTH), 1.0, 0.0)


def set_hit(sets: SetSizes) -> Values:
    """1 if R contains a gold tool."""
    return np.where(sets.hits > 0, 1.0, 0.0)


def set_pass(sets: SetSizes) -> Values:
    """1 if R contains every gold tool."""
    return np.where(sets.hits == sets.n, 1.0, 0.0)


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


def returned(sets: SetSizes) -> Values:
    """|R|."""
    return sets.size.astype(np.float64)


def touched(sets: SetSizes) -> Values:
    """1 if R contains one of the tools that the sizes are about."""
    return np.where(sets.hits > 0, 1.0, 0.0)


def met(sets: SetSizes) -> Values:
    """Number of the tools in R that the sizes are about."""
    return sets.hits.astype(np.float64)


def separation(answers: Confidence, k: Counts) -> Values:
    """Area under the ROC curve of the first tool's score, plus each query's influence on it.

    The mean of the values is the area; their variance over the number of queries is that of DeLong et al. 1988, and
    over sums of units that of Obuchowski 1997.
    """
    # A failed query loses every comparison.
    score = np.where(answers.failed, np.where(answers.has_gold, -np.inf, np.inf), answers.score)
    with_gold, without = score[answers.has_gold], score[~answers.has_gold]
    # The share of the other kind's scores that a query beats; ties count a half.
    below, at_most = (np.searchsorted(np.sort(without), with_gold, side) for side in ("left", "right"))
    above, at_least = (np.searchsorted(np.sort(with_gold), without, side) for side in ("right", "left"))
    shares = np.empty(len(score))
    shares[answers.has_gold] = (below + at_most) / (2 * len(without))
    shares[~answers.has_gold] = 1 - (above + at_least) / (2 * len(with_gold))
    area = shares[answers.has_gold].mean()
    weight = len(shares) / np.where(answers.has_gold, len(with_gold), len(without))
    values: Values = area + weight * (shares - area)
    return values


def risk_coverage(answers: Confidence, k: Counts) -> Values:
    """Area under the risk-coverage curve, plus each query's influence on it.

    Queries are answered from the most to the least confident, those with equal scores together. An answer is wrong if
    no gold tool is among its first k or, without gold, if there is an answer at all. With query weights w, the area is
    the mean of the risk at each query's own score. A value is the area plus its derivative by the query's weight at
    equal weights (the infinitesimal jackknife of Jaeckel 1972), so the mean of the values is the area.
    """
    # A failed query counts as a wrong answer with the highest confidence: failing is not abstaining.
    score = np.where(answers.failed, np.inf, answers.score)
    wrong = np.where(answers.has_gold, answers.first > k, score > -np.inf).astype(np.float64)
    levels, place, sizes = np.unique(-score, return_inverse=True, return_counts=True)
    answered = np.cumsum(sizes)
    risk = np.cumsum(np.bincount(place, wrong, minlength=len(levels))) / answered
    weights = sizes / answered
    later = np.cumsum(weights[::-1])[::-1]
    later_risk = np.cumsum((weights * risk)[::-1])[::-1]
    # The area enters once directly and once negated in the derivative.
    values: Values = risk[place] + wrong * later[place] - later_risk[place]
    return values


def chance_of_hit(fitting: Counts, k: Counts, library: Counts | int) -> Values:
    """(queries,) the probability that k tools drawn without replacement from a library contain one that fits.

    1 - C(N - R, k) / C(N, k), the complement of a hypergeometric draw without a hit.
    """
    none = np.ones(len(fitting))
    for place in range(int(fitting.max(initial=0))):
        left = np.maximum(library - k - place, 0) / np.maximum(library - place, 1)
        none *= np.where(place < fitting, left, 1.0)
    return 1.0 - none


def bits_over_random(draws: Draws, k: Counts) -> Values:
    """log2 of the share of queries with a hit over that of random draws, plus each query's influence on it.

    With hits h and their chances c, the statistic is log2(mean h / mean c); a value is the statistic plus its
    derivative by the query's weight, (h / mean h - c / mean c) / ln 2, so the mean of the values is the statistic. If
    all queries have a hit, or none has, the values equal the statistic: they carry no uncertainty.
    """
    hits = np.where(draws.first <= k, 1.0, 0.0)
    chances = chance_of_hit(draws.fitting, k, draws.library)
    found = max(math.fsum(hits), 0.5) / len(hits)
    chance = math.fsum(chances) / len(hits)
    statistic = math.log2(found / chance)
    if hits.min() == hits.max():
        return np.full(len(hits), statistic)
    values: Values = statistic + (hits / found - chances / chance) / math.log(2)
    return values


class _Persistence(ParameterSet):
    p: float = Field(0.8, gt=0, lt=1, description="probability that a reader goes on from one tool to the next")


#: Ranges of shares and of counts.
_SHARE, _COUNT = (0.0, 1.0), (0.0, math.inf)
_COLT = "Qu et al. 2024 (COLT), as COMP@k; Gao et al. 2025 (TGR), eq. 4, as Pass Rate"
_PTR = "Gao et al. 2024 (PTR), section 4"
_QUERY_GENERATION = "Kachuee et al. 2024 (query generation), eq. 2"


def _either(value: str, condition: str) -> str:
    """LaTeX of: this value under this condition, else 0."""
    return rf"\begin{{cases}} {value} & \text{{if }} {condition} \\ 0 & \text{{otherwise}} \end{{cases}}"


#: A share in a ranking with an integer cut-off, and a share in a recommended set; each may override this.
_RANKING = partial(RankingMeasure, span=_SHARE)
_SET = partial(SetMeasure, span=_SHARE)

MEASURES: tuple[Measure, ...] = (
    _RANKING(
        "recall",
        cutoffs=("k", "gold"),
        definition="the share of the gold tools that are among the first k",
        edge_cases="Fewer than k tools returned: those returned count. `@gold` sets k = n for each query.",
        source="trec_eval `recall`; query-generation paper eq. 1; `@gold`: PTR section 5.1",
        function=recall,
        formula=r"\frac{|G \cap \{h_1, \dots, h_k\}|}{n}",
    ),
    _RANKING(
        "precision",
        definition="the share of the first k tools that are gold",
        edge_cases="Divides by k even when fewer tools were returned, as trec_eval `P` does.",
        source="trec_eval `P`",
        function=precision,
        largest=lambda k, n: min(k, n) / k,
        formula=r"\frac{|G \cap \{h_1, \dots, h_k\}|}{k}",
    ),
    _RANKING(
        "hit",
        definition="1 if a gold tool is among the first k, else 0",
        edge_cases="Graded gold counts from relevance 1.",
        source="trec_eval `success`",
        function=hit,
        formula=_either("1", r"G \cap \{h_1, \dots, h_k\} \neq \emptyset"),
    ),
    _RANKING(
        "ndcg",
        cutoffs=("k", "gold"),
        definition="discounted cumulative gain at k, divided by that of the best possible ranking of ALL gold tools",
        edge_cases="The ideal has min(k, n) terms. Gain is linear in relevance. `@gold` sets k = n for each query.",
        source="Järvelin & Kekäläinen 2002; trec_eval `ndcg_cut`",
        function=ndcg,
        formula=r"\frac{\sum_{i=1}^{k} rel_i / \log_2(i + 1)}{\sum_{i=1}^{\min(k, n)} rel^*_i / \log_2(i + 1)}",
    ),
    _RANKING(
        "map",
        definition="the mean over the gold tools of the precision at their rank; a gold tool beyond k counts 0",
        edge_cases="Divides by all n gold tools, also those beyond k. Bare `map` is map@100, the protocol's depth.",
        source="trec_eval `map_cut`; query-generation paper eq. 3",
        function=average_precision,
        formula=r"\frac{1}{n} \sum_{i=1}^{k} [h_i \in G] \cdot \frac{|G \cap \{h_1, \dots, h_i\}|}{i}",
    ),
    _RANKING(
        "mrr",
        definition="1 / rank of the first gold tool within k, else 0",
        edge_cases="Bare `mrr` is mrr@100, the protocol's depth.",
        source="trec_eval `recip_rank`, cut at k",
        function=reciprocal_rank,
        formula=_either(r"\frac{1}{\min_{g \in G} r_g}", r"\min_{g \in G} r_g \leq k"),
    ),
    _RANKING(
        "rbp",
        definition="rank-biased precision: the rate at which a reader meets gold tools who goes on from each tool with "
        "probability p",
        edge_cases="Binary relevance. At most 1 - p ** k, and so below 1 for a perfect ranking. What lies beyond k "
        "counts 0: the residual is not added. Bare `rbp` is rbp@100, the protocol's depth.",
        source="Moffat & Zobel 2008",
        function=rank_biased_precision,
        largest=lambda k, n, p: round(1 - p ** min(k, n), 12),
        formula=r"(1 - p) \sum_{i=1}^{k} [h_i \in G] \cdot p^{i - 1}",
        parameters=_Persistence,
    ),
    _RANKING(
        "mmrr",
        definition="the mean rank of the gold tools in a perfect ranking, divided by their mean rank in this one",
        edge_cases="A gold tool that is missing counts as rank k+1, so an answer without any gold tool still scores "
        "(n+1)/2/(k+1), which passes 1 when n > k+1; a query that was not answered scores 0. Bare `mmrr` is mmrr@100, "
        "the protocol's depth.",
        source=f"{_QUERY_GENERATION}, with the numerator that its text describes",
        function=multiple_mean_reciprocal_rank,
        formula=r"\frac{(n + 1) / 2}{\frac{1}{n} \sum_{g \in G} \min(r_g, k + 1)}",
        span=_COUNT,
        largest=lambda k, n: (n + 1) / 2 / _least_mean_rank(k, n),
    ),
    _RANKING(
        "pass",
        definition="1 if every gold tool is among the first k, else 0",
        edge_cases="0 whenever n > k.",
        source=_COLT,
        function=passed,
        formula=_either("1", r"G \subseteq \{h_1, \dots, h_k\}"),
    ),
    _SET(
        "tracc",
        cutoffs=("k", "none"),
        definition="the recall of the set, reduced by how far its size is from that of the gold set",
        edge_cases="R = ∅ gives 0. Bare `tracc` is taken on the set a method recommends (or on a learnt cut of its "
        "ranking, named in the row); `tracc@k` takes the first k of the ranking as R.",
        source=_PTR,
        function=tracc,
        formula=r"\left(1 - \frac{\left| |R| - n \right|}{|R \cup G|}\right) \cdot \frac{|R \cap G|}{n}",
    ),
    _SET(
        "set_precision",
        definition="the share of the recommended tools that are gold",
        edge_cases="R = ∅ gives 0.",
        source="precision of a set",
        function=set_precision,
        formula=r"\frac{|R \cap G|}{|R|}",
    ),
    _SET(
        "set_recall",
        definition="the share of the gold tools that are recommended",
        edge_cases="R = ∅ gives 0.",
        source="recall of a set",
        function=set_recall,
        formula=r"\frac{|R \cap G|}{n}",
    ),
    _SET(
        "set_f1",
        definition="the harmonic mean of set_precision and set_recall",
        edge_cases="R = ∅ gives 0.",
        source="harmonic mean of set precision and set recall (van Rijsbergen 1979)",
        function=set_f1,
        formula=r"\frac{2 |R \cap G|}{|R| + n}",
    ),
    _SET(
        "set_exact",
        definition="1 if the recommended set is the gold set, else 0",
        edge_cases="R = ∅ gives 0.",
        source="exact match (subset accuracy) of a set",
        function=set_exact,
        formula=_either("1", "R = G"),
    ),
    _SET(
        "choice",
        definition="over ALL queries: 1 if the recommended set is the gold set, and for a query without gold if no "
        "tool is recommended, else 0",
        edge_cases="`set_exact` and `abstained` together: the share of right choices. Of alternatives one is right, "
        "two are one too many. So a query of which a forbidden tool is called scores 0, with gold or without. A query "
        "that failed scores 0, and so does a set of 100 tools or more.",
        source="this protocol, rules 2 and 3",
        function=choice,
        queries="all",
        formula=_either("1", "R = G"),
    ),
    _SET(
        "set_hit",
        definition="1 if a gold tool is recommended, else 0",
        edge_cases="As `hit`, on the recommended set.",
        source="this protocol",
        function=set_hit,
        formula=_either("1", r"R \cap G \neq \emptyset"),
    ),
    _SET(
        "set_pass",
        definition="1 if every gold tool is recommended, else 0",
        edge_cases="As `pass`, on the recommended set, however large.",
        source="this protocol",
        function=set_pass,
        formula=_either("1", r"G \subseteq R"),
    ),
    _SET(
        "size_diff",
        definition="the difference between the size of the recommended set and that of the gold set",
        edge_cases="Lower is better. A query that was not answered has R = ∅ and so n.",
        source="PTR Fig. 4",
        function=size_difference,
        formula=r"\left| |R| - n \right|",
        higher_is_better=False,
        span=_COUNT,
    ),
    AbstentionMeasure(
        "abstained",
        definition="over the queries WITHOUT gold: 1 if no tool is recommended, else 0",
        edge_cases="Bare `abstained` is taken on recommended sets; `abstained@k` is 1 if the ranking is empty. "
        "Queries with gold are left out. A query that failed scores 0.",
        source="this protocol, rule 3",
        function=empty,
        queries="no gold",
        formula=_either("1", r"R = \emptyset"),
        span=_SHARE,
    ),
    AbstentionMeasure(
        "answered",
        definition="over the queries with gold: 1 if a tool is recommended, else 0",
        edge_cases="Read beside `abstained`: a method that always abstains has abstained = 1 and answered = 0.",
        source="this protocol, rule 3",
        function=nonempty,
        formula=_either("1", r"R \neq \emptyset"),
        span=_SHARE,
    ),
    AbstentionMeasure(
        "false_returns",
        definition="over the queries WITHOUT gold: the number of tools that are recommended",
        edge_cases="Lower is better. Bare `false_returns` is taken on recommended sets, `false_returns@k` on the "
        "first k of a ranking. A query that failed counts as k tools (bare: 100).",
        source="this protocol, rule 3",
        function=returned,
        formula="|R|",
        higher_is_better=False,
        queries="no gold",
        span=_COUNT,
        largest=lambda k, n: k,
    ),
    ConfidenceMeasure(
        "auroc",
        cutoffs=("none",),
        definition="the share of pairs of a query with gold and one without in which the one with gold has the higher "
        "score of its first tool; ties count a half",
        edge_cases="In the formula q has gold and p has none: not defined where all queries have gold, or none has. "
        "Only for methods that give scores. 0.5 is chance. An empty ranking has the lowest score; a query that failed "
        "is on the wrong side of all. The value of a query is the area plus the query's influence on it.",
        source="Hanley & McNeil 1982; variance: DeLong et al. 1988, for dependent queries Obuchowski 1997",
        function=separation,
        formula=r"P(s_q > s_p) + \frac{1}{2} P(s_q = s_p)",
        span=_SHARE,
    ),
    ConfidenceMeasure(
        "aurc",
        definition="the mean, over all thresholds, of the share of wrong answers among the queries answered at a "
        "threshold on the score of the first tool",
        edge_cases="Lower is better. Not defined where all queries have gold, or none has. An answer is wrong if no "
        "gold tool is among its first k, and for a query without gold if there is one. Thresholds are the scores of "
        "the queries. The value of a query is the area plus its influence.",
        source="Geifman & El-Yaniv 2017, area under the risk-coverage curve",
        function=risk_coverage,
        formula=r"\frac{1}{|Q|} \sum_{q \in Q} \frac{|\{p : s_p \geq s_q, p \text{ wrong}\}|}{|\{p : s_p \geq s_q\}|}",
        higher_is_better=False,
        span=_SHARE,
    ),
    ChanceMeasure(
        "bits_over_random",
        definition="Bits-over-Random: how many times, in powers of 2, more queries have a gold tool among the first k "
        "than if k tools were drawn at random",
        edge_cases="N is the number of tools in the library, R of those that count as a hit for the query, "
        "alternatives included. 0 is chance, and all that is possible where k is N. A statistic of all queries with "
        "gold together, not a mean over queries: the value of a query is the statistic plus the query's influence on "
        "it. If no query has a hit, half a hit is counted; then, and if all have one, there is no interval.",
        source="arXiv 2605.18857 and 2605.24660, as defined there; not their mean of the bits of single queries",
        function=bits_over_random,
        formula=r"\log_2 \frac{\frac{1}{|Q|} \sum_q [\min_{g \in G_q} r_g \leq k]}"
        r"{\frac{1}{|Q|} \sum_q 1 - \binom{N - R_q}{k} / \binom{N}{k}}",
    ),
    ForbiddenMeasure(
        "forbidden",
        definition="over the queries that name forbidden tools: 1 if one of them is among the first k, else 0",
        edge_cases="Lower is better. Bare `forbidden` is taken on recommended sets. A query that failed, or has gold "
        "and got no answer, scores 1; one without gold that is answered with nothing scores 0.",
        source="this protocol, rule 9",
        function=touched,
        formula=_either("1", r"F \cap \{h_1, \dots, h_k\} \neq \emptyset"),
        higher_is_better=False,
        span=_SHARE,
    ),
    DestructiveMeasure(
        "excess_destructive",
        definition="the number of tools among the first k that may destroy something and meet no requirement of the "
        "query",
        edge_cases="Lower is better. By the defaults of MCP's annotations D has all tools but those with "
        "`readOnlyHint` true or `destructiveHint` false, and so those without annotations. Not defined if less than "
        "half of the library has such hints. Taken over all queries, those without gold too. G has the alternatives "
        "of gold tools. A query that failed, or has gold and got no answer, counts as many tools of D as can be among "
        "the first k (bare: 100). Bare `excess_destructive` is taken on recommended sets.",
        source="this protocol, rule 11: what is handed over beyond the least privilege (Saltzer & Schroeder 1975)",
        function=met,
        formula=r"|(D \cap \{h_1, \dots, h_k\}) \setminus G|",
        higher_is_better=False,
        span=_COUNT,
        largest=lambda k, n: k,
    ),
    _RANKING(
        "ndcg_ptr",
        cutoffs=("gold",),
        definition="as ndcg@gold, but the ideal is the best order of the RETRIEVED tools only",
        edge_cases="0 when nothing relevant is retrieved. One hit at the top scores 1 however many gold tools are "
        "missing.",
        source="PTR's released code; for reproduction, never for ranking",
        function=ndcg_ptr,
        formula=r"\frac{\sum_{i=1}^{n} rel_i / \log_2(i + 1)}{\sum_{i=1}^{n} rel^{\downarrow}_i / \log_2(i + 1)}",
        reproduction_only=True,
        monotone=False,
    ),
    _RANKING(
        "mmrr_printed",
        definition="as mmrr, with n / 2 in the numerator",
        edge_cases="0.5 for a perfect single-tool answer, which contradicts the paper's text.",
        source=f"{_QUERY_GENERATION} as printed; for reproduction, never for ranking",
        function=multiple_mean_reciprocal_rank_printed,
        formula=r"\frac{n / 2}{\frac{1}{n} \sum_{g \in G} \min(r_g, k + 1)}",
        span=_COUNT,
        largest=lambda k, n: n / 2 / _least_mean_rank(k, n),
        reproduction_only=True,
    ),
)
