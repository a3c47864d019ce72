"""The expected value of a metric over all orders of tied tools, in closed form. `ties` calls it.

Tools of equal score form a block, and all orders within a block are equally likely (McSherry and Najork 2008,
"Computing information retrieval performance measures efficiently in the presence of tied scores"). Three quantities
give the metrics of the protocol: the number of requirements met within a cut-off (recall, precision, hit, pass, and all
measures of the first k as a set), the requirements met at each rank (ndcg, map, mrr, rbp), and the generating function
of the sum of ranks (mmrr). If several tools of a block meet a requirement, the foremost counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import FunctionType

import numpy as np
from numpy.typing import NDArray

from bench.metrics.evaluate import score_ranks
from bench.metrics.goldranks import MISSING, GoldRanks
from bench.metrics.measure import Counts, Cutoff, Metric, SetMeasure, Values
from bench.metrics.measures import (
    average_precision,
    hit,
    multiple_mean_reciprocal_rank,
    multiple_mean_reciprocal_rank_printed,
    ndcg,
    passed,
    precision,
    rank_biased_precision,
    recall,
    reciprocal_rank,
)

_CELLS_AT_ONCE = 1 << 20
#: Limits of the closed form of mmrr: larger sums of ranks, or more requirements if one of them has alternatives, would
#: take too long.
_LARGEST_SUM = 1 << 14
_MOST_WITH_ALTERNATIVES = 6


@dataclass(frozen=True)
class TiedRanks:
    """The ranks at which ties allow the requirements of each query to be met.

    Attributes:
        first: (queries, width) int64, the first rank of the block of equal scores that contains the foremost tools
            of the requirement; `MISSING` for padding and if none was returned.
        size: (queries, width) int64, the number of tools in the block.
        tools: (queries, width) int64, the number of these that meet the requirement; no tool meets two.
        grades: (queries, width) int32, the relevance of the requirement; 0 for padding.
        n: (queries,) int64, the number of requirements.
        returned: (queries,) int64, the number of tools returned.
        depth: the last rank; tools of a block beyond it are not returned.
    """

    first: NDArray[np.int64]
    size: NDArray[np.int64]
    tools: NDArray[np.int64]
    grades: NDArray[np.int32]
    n: NDArray[np.int64]
    returned: NDArray[np.int64]
    depth: int

    def take(self, rows: NDArray[np.int64]) -> TiedRanks:
        """The chosen queries."""
        return TiedRanks(
            self.first[rows],
            self.size[rows],
            self.tools[rows],
            self.grades[rows],
            self.n[rows],
            self.returned[rows],
            self.depth,
        )

    def distinct(self) -> tuple[TiedRanks, NDArray[np.int64]]:
        """Each distinct arrangement of ties, in order of the blocks, and (queries,) the arrangement of each query."""
        order = np.argsort(self.first, axis=1, kind="stable")
        first, size, tools = (np.take_along_axis(part, order, 1) for part in (self.first, self.size, self.tools))
        grades = np.take_along_axis(self.grades, order, 1)
        rows = np.column_stack([first, size, tools, grades, self.n, self.returned])
        _, chosen, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        tied = TiedRanks(first, size, tools, grades, self.n, self.returned, self.depth)
        return tied.take(chosen), which.reshape(-1)


def expected_values(tied: TiedRanks, metrics: Sequence[Metric]) -> NDArray[np.float64]:
    """(queries, metrics) means over all orders that the ties allow; NaN if there is no closed form."""
    several, which = tied.distinct()
    values = np.full((len(several.n), len(metrics)), np.nan)
    # No metric looks deeper.
    deepest = min(several.depth, max((int(metric.depths(several.n).max()) for metric in metrics), default=1))
    several = replace(several, depth=deepest)
    step = max(1, _CELLS_AT_ONCE // deepest)
    for start in range(0, len(values), step):
        rows = np.arange(start, min(start + step, len(values)))
        _fill(values[start : start + step], several.take(rows), metrics)
    return values[which]


def _fill(values: NDArray[np.float64], tied: TiedRanks, metrics: Sequence[Metric]) -> None:
    counted: defaultdict[Cutoff, list[int]] = defaultdict(list)
    by_rank = _ByRank(tied)
    for column, metric in enumerate(metrics):
        function, parameters = _function(metric)
        if isinstance(metric.measure, SetMeasure) or function in _OF_THE_COUNT:
            counted[metric.cutoff].append(column)
        elif function in _CLOSED_FORMS:
            values[:, column] = _CLOSED_FORMS[function](by_rank, metric.depths(tied.n), **parameters)
    for columns in counted.values():
        values[:, columns] = _of_the_count(tied, [metrics[column] for column in columns])


def _function(metric: Metric) -> tuple[Callable[..., Values] | None, dict[str, float]]:
    """The function of a measure and its parameters; None for any other callable."""
    called = metric.measure.function
    function, parameters = (called.func, called.keywords) if isinstance(called, partial) else (called, {})
    return (function, parameters) if isinstance(function, FunctionType) else (None, {})


# Metrics that depend on the number of requirements met within the cut-off --------------------------------------------


def _of_the_count(tied: TiedRanks, metrics: Sequence[Metric]) -> NDArray[np.float64]:
    """(queries, metrics) expected values of metrics with one cut-off that depend only on this number."""
    chances = _counts(tied, np.minimum(metrics[0].depths(tied.n), tied.depth))
    width = tied.first.shape[1]
    ideal = -np.sort(-tied.grades, axis=1)
    rows, counts = np.nonzero(chances)
    # Ranks within the cut-off do not matter.
    ranks = np.where(np.arange(width) < counts[:, None], np.int32(1), MISSING)
    hits = GoldRanks(ranks, ideal[rows], ideal[rows], tied.n[rows], tied.returned[rows])
    weighted = chances[rows, counts, None] * score_ranks(hits, metrics)
    values: NDArray[np.float64] = np.add.reduceat(weighted, np.searchsorted(rows, np.arange(len(tied.n))))
    return values


def _counts(tied: TiedRanks, cut: Counts) -> NDArray[np.float64]:
    """(queries, width + 1) probability that 0, 1, ... requirements are met within the first `cut` ranks."""
    last = tied.first + tied.size - 1
    sure = (last <= cut[:, None]).sum(axis=1)
    chances = np.zeros((len(cut), tied.first.shape[1] + 1))
    everyone = np.arange(len(cut))
    split = _counts_of_split(tied, cut)
    for count in range(split.shape[1]):
        # The width limits the total; beyond it the probability is 0.
        chances[everyone, np.minimum(sure + count, tied.first.shape[1])] += split[:, count]
    return chances


def _counts_of_split(tied: TiedRanks, cut: Counts) -> NDArray[np.float64]:
    """(queries, most + 1) the same for the requirements in the block that the cut-off splits.

    The tools of the block that meet them are dealt one after another: the next one is within the cut-off with a
    probability equal to the share of places left there (for single tools, the hypergeometric distribution).
    """
    splits = (tied.first <= cut[:, None]) & (tied.first + tied.size - 1 > cut[:, None])
    most = int(splits.sum(axis=1).max(initial=0))
    chances = np.zeros((len(cut), most + 1))
    chances[:, 0] = 1.0
    rows = np.flatnonzero(splits.any(axis=1))
    if not len(rows):
        return chances
    foremost = np.argsort(~splits[rows], axis=1, kind="stable")[:, :most]
    there = np.take_along_axis(splits[rows], foremost, 1)
    tools = np.where(there, np.take_along_axis(tied.tools[rows], foremost, 1), 0)
    first, left = (np.take_along_axis(part[rows], foremost, 1)[:, 0] for part in (tied.first, tied.size))
    places = cut[rows] - first + 1
    used = np.arange(int(tools.sum(axis=1).max()) + 1)
    # (rows, places used within the cut-off, requirements met)
    state = np.zeros((len(rows), len(used), most + 1))
    state[:, 0, 0] = 1.0
    for slot in range(most):
        unmet, dealt = state, state
        for tool in range(int(tools[:, slot].max())):
            on = tool < tools[:, slot]
            share = np.clip((places[:, None] - used) / np.maximum(left, 1)[:, None], 0.0, 1.0)
            share = np.where(on[:, None], share, 0.0)[:, :, None]
            unmet = unmet * (1 - share)
            inside = dealt * share
            dealt = dealt * (1 - share)
            dealt[:, 1:] += inside[:, :-1]
            left = left - on
        met = dealt - unmet
        state = unmet.copy()
        state[:, :, 1:] += met[:, :, :-1]
    chances[rows] = state.sum(axis=1)
    return chances


#: Measures on rankings that depend only on this number.
_OF_THE_COUNT = frozenset({recall, precision, hit, passed})


# Metrics that are sums over ranks -------------------------------------------------------------------------------------


class _ByRank:
    """Expectations at each rank; arrays are (queries, ranks up to the depth)."""

    def __init__(self, tied: TiedRanks) -> None:
        self.tied = tied
        self.ranks = np.arange(1, tied.depth + 1)
        self._made: dict[object, NDArray[np.float64]] = {}

    def once(self, name: object, make: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
        """The cached value of this name, computed on first use."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def up_to(self, k: Counts, name: object, weighted: Callable[[], NDArray[np.float64]]) -> Values:
        """(queries,) the sum over ranks within k of the array that `weighted` computes, cached under this name."""
        sums = self.once(name, lambda: np.cumsum(weighted(), axis=1))
        cut = np.minimum(k, self.tied.depth)
        values: Values = sums[np.arange(len(cut)), cut - 1]
        return values

    def slot(self, slot: int, tools: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """The probability that the foremost of a requirement's tools in a block has the rank; usually its own rank."""
        first, size = self.tied.first[:, slot], self.tied.size[:, slot]
        return self.foremost(first, size, self.tied.tools[:, slot] if tools is None else tools)

    def foremost(
        self, first: NDArray[np.int64], size: NDArray[np.int64], tools: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """C(size - place, tools - 1) / C(size, tools) at the places 1, 2, ... of a block; 0 elsewhere."""
        before = self.ranks - first[:, None]
        chance = np.where((before >= 0) & (before < size[:, None]), (tools / np.maximum(size, 1))[:, None], 0.0)
        for other in range(1, int(tools.max(initial=0))):
            behind = np.maximum(size[:, None] - before - other, 0) / np.maximum(size - other, 1)[:, None]
            chance = np.where((other < tools)[:, None], chance * behind, chance)
        return chance

    def met(self) -> NDArray[np.float64]:
        """Expected number of requirements met at each rank."""
        return self._sum_of_slots(np.ones_like(self.tied.grades))

    def gain(self) -> NDArray[np.float64]:
        """Their relevance."""
        return self._sum_of_slots(self.tied.grades)

    def _sum_of_slots(self, weights: NDArray[np.int32]) -> NDArray[np.float64]:
        total = np.zeros((len(weights), self.tied.depth))
        for slot in range(weights.shape[1]):
            total += weights[:, slot, None] * self.slot(slot)
        return total

    def earliest(self) -> NDArray[np.float64]:
        """The probability that the first requirement of all is met at each rank."""
        first = self.tied.first.min(axis=1)
        in_block = (self.tied.first == first[:, None]) & (first < MISSING)[:, None]
        size = np.where(in_block, self.tied.size, 0).max(axis=1)
        return self.foremost(first, size, np.where(in_block, self.tied.tools, 0).sum(axis=1))

    def counted(self) -> NDArray[np.float64]:
        """Expected number met up to each rank, given one is met there: the sum over requirements."""
        tied = self.tied
        total = np.zeros((len(tied.n), tied.depth))
        for slot in range(tied.first.shape[1]):
            here = self.slot(slot)
            total += (1 + (tied.first < tied.first[:, slot, None]).sum(axis=1))[:, None] * here
            mates = (tied.first == tied.first[:, slot, None]) & (tied.first < MISSING)
            mates[:, slot] = False
            # Another requirement of the block is met earlier, unless one tool is the foremost of both.
            for tools in np.unique(tied.tools[mates]):
                others = (mates & (tied.tools == tools)).sum(axis=1)
                own = tied.tools[:, slot]
                behind = (own / (own + tools))[:, None] * self.slot(slot, own + tools)
                total += others[:, None] * (here - behind)
        return total


def _ndcg(expected: _ByRank, k: Counts) -> Values:
    tied = expected.tied
    width = tied.grades.shape[1]
    # A single gold tool has its own discount.
    discounts = _of_one_tool(ndcg, max(tied.depth, width))
    gain = expected.up_to(k, "ndcg", lambda: expected.gain() * discounts[: tied.depth])
    best = -np.sort(-tied.grades, axis=1) * discounts[:width]
    ideal: Values = np.where(np.arange(1, width + 1) <= k[:, None], best, 0.0).sum(axis=1)
    return gain / ideal


def _of_one_tool(function: Callable[..., Values], depth: int, **parameters: float) -> Values:
    """(depth,) the values of a measure with the single gold tool at rank 1, 2, ..."""
    ranks, one = np.arange(1, depth + 1, dtype=np.int32)[:, None], np.ones((depth, 1), dtype=np.int32)
    n = np.ones(depth, dtype=np.int64)
    return function(GoldRanks(ranks, one, one, n, n * depth), n * depth, **parameters)


def _average_precision(expected: _ByRank, k: Counts) -> Values:
    return expected.up_to(k, "map", lambda: expected.counted() / expected.ranks) / expected.tied.n


def _reciprocal_rank(expected: _ByRank, k: Counts) -> Values:
    return expected.up_to(k, "mrr", lambda: expected.earliest() / expected.ranks)


def _rank_biased_precision(expected: _ByRank, k: Counts, p: float) -> Values:
    weights = _of_one_tool(rank_biased_precision, expected.tied.depth, p=p)
    return expected.up_to(k, ("rbp", p), lambda: expected.met() * weights)


# Metrics of the mean rank ---------------------------------------------------------------------------------------------


def _mean_reciprocal(expected: _ByRank, k: Counts) -> Values:
    """E[1 / S] for S the sum over requirements of min(rank, k + 1); NaN if that takes too long.

    1 / S is the integral of x ** (S - 1) from 0 to 1, and E[x ** S] is the product over blocks of their generating
    functions. That of the sum of h distinct places of t, all sets of them equally likely, is a Gaussian binomial
    coefficient (the distribution of Wilcoxon's rank sum). The integrand is a polynomial, for which Gauss-Legendre
    quadrature is exact up to rounding.
    """
    # The variants of mmrr differ only in the numerator.
    return expected.once(("mmrr", k.tobytes()), lambda: _mean_reciprocal_of(expected.tied, k))


def _mean_reciprocal_of(tied: TiedRanks, k: Counts) -> Values:
    values = np.full(len(k), np.nan)
    cut = np.minimum(k, tied.depth)
    within = tied.first <= cut[:, None]
    largest = tied.n * (k + 1)
    too_many = (within & (tied.tools > 1)).any(axis=1) & (within.sum(axis=1) > _MOST_WITH_ALTERNATIVES)
    rows = np.flatnonzero(~too_many & (largest < _LARGEST_SUM))
    if not len(rows):
        return values
    points = _Quadrature.of_degree(int(largest[rows].max()))
    step = max(1, _CELLS_AT_ONCE // len(points.x))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        function = _generating_function(tied.take(part), k[part], cut[part], points)
        values[part] = (function * (points.weights / points.x)).sum(axis=1)
    return values


def _generating_function(tied: TiedRanks, k: Counts, cut: Counts, points: _Quadrature) -> NDArray[np.float64]:
    """(queries, points) E[x ** S], S as above."""
    within = tied.first <= cut[:, None]
    alone = within & (tied.size == 1)
    product = points.power(np.where(alone, tied.first, 0).sum(axis=1) + (tied.n - within.sum(axis=1)) * (k + 1))
    split = _counts_of_split(tied, cut)
    for slot in range(tied.first.shape[1]):
        same = (tied.first == tied.first[:, slot, None]) & within
        # Each block at its first requirement.
        here = (within & ~alone)[:, slot] & ~same[:, :slot].any(axis=1)
        several = (same & (tied.tools > 1)).any(axis=1)
        for rows, of_block in ((here & ~several, _of_single_tools), (here & several, _of_alternatives)):
            at = np.flatnonzero(rows)
            if len(at):
                block = _Block(
                    tied.first[at, slot],
                    tied.size[at, slot],
                    np.minimum(tied.size[at, slot], cut[at] - tied.first[at, slot] + 1),
                    np.where(same, tied.tools, 0)[at],
                    split[at],
                    k[at] + 1,
                )
                product[at] *= of_block(block, points)
    return product


@dataclass(frozen=True)
class _Block:
    """One block of tied tools for each of some queries.

    Attributes:
        first, size: (queries,) its first rank and its number of tools.
        places: (queries,) number of its ranks within the cut-off.
        tools: (queries, width) number of its tools that meet each requirement; 0 for those of other blocks.
        split: (queries, most + 1) `_counts_of_split`, valid for this block if the cut-off splits it.
        missing: (queries,) the rank assigned to a requirement beyond the cut-off.
    """

    first: NDArray[np.int64]
    size: NDArray[np.int64]
    places: NDArray[np.int64]
    tools: NDArray[np.int64]
    split: NDArray[np.float64]
    missing: NDArray[np.int64]


def _of_single_tools(block: _Block, points: _Quadrature) -> NDArray[np.float64]:
    """(queries, points) the generating function of a block with one tool per requirement."""
    n = (block.tools > 0).sum(axis=1)
    function, sums = np.zeros((len(n), len(points.x))), np.ones((len(n), len(points.x)))
    for met in range(int(n.max()) + 1):
        of_split = block.split[:, met] if met < block.split.shape[1] else 0.0
        chance = np.where(block.size > block.places, of_split, met == n)
        exponents = met * (block.first - 1) + np.maximum(n - met, 0) * block.missing
        function += chance[:, None] * points.power(exponents) * sums
        # From the sum for `met` places to that for one more; its probability is 0 if none are left.
        left = np.maximum(block.places - met, 1)
        next_place = np.array([met + 1])
        one_more = points.geometric(left) / points.geometric(next_place) * points.power(next_place)
        sums = sums * one_more * ((met + 1) / left)[:, None]
    return function


def _of_alternatives(block: _Block, points: _Quadrature) -> NDArray[np.float64]:
    """(queries, points) the same if several tools meet a requirement, place by place.

    The next place has a tool of an unmet requirement with a probability equal to the share of its tools among those
    left, whatever came before: a Markov chain on the set of unmet requirements.
    """
    tools = -np.sort(-block.tools, axis=1)[:, :_MOST_WITH_ALTERNATIVES]
    width = int((tools > 0).any(axis=0).sum())
    bits = 1 << np.arange(width)
    sets = [np.flatnonzero(number & bits) for number in range(1 << width)]
    state = np.zeros((len(sets), len(tools), len(points.x)))
    state[((tools[:, :width] > 0) * bits).sum(axis=1), np.arange(len(tools))] = 1.0
    for place in range(1, int(block.places.max()) + 1):
        on = np.flatnonzero(place <= block.places)
        shares = tools[on] / (block.size[on] - place + 1)[:, None]
        found = points.power(block.first[on] - 1 + place)
        # From small sets to large, so that the target of each step is still unchanged.
        for number, unmet in enumerate(sets):
            after = state[number, on] * np.maximum(1 - shares[:, unmet].sum(axis=1), 0.0)[:, None]
            for slot in range(width):
                if slot not in unmet:
                    after += state[number | 1 << slot, on] * shares[:, slot, None] * found
            state[number, on] = after
    ends = [of_set * points.power(len(unmet) * block.missing) for unmet, of_set in zip(sets, state, strict=True)]
    function: NDArray[np.float64] = np.sum(ends, axis=0)
    return function


@dataclass(frozen=True)
class _Quadrature:
    """Gauss-Legendre points x in [0, 1] and weights for integrals of polynomials.

    Attributes:
        x, weights: (points,).
        low, high: (256, points) powers x ** 0, x ** 1, ... and x ** 0, x ** 256, ..., by products, because NumPy's
            powers differ in the last bit between processors.
        low_sums, high_sums: (256, points) the sums of the powers below these.
    """

    x: Values
    weights: Values
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    low_sums: NDArray[np.float64]
    high_sums: NDArray[np.float64]

    @staticmethod
    def of_degree(degree: int) -> _Quadrature:
        """For polynomials below this degree.

        With N points the error is 0 if 2 N >= degree, and at most of the order of exp(-4 N ** 2 / degree) otherwise.
        """
        points = min(degree // 2 + 1, 8 + 7 * math.isqrt(degree) // 2)
        # In powers of two, so that only few are ever computed.
        return _quadrature(1 << max(1, (points - 1).bit_length()))

    def power(self, exponents: NDArray[np.int64]) -> NDArray[np.float64]:
        """(exponents, points) powers of the points."""
        powers: NDArray[np.float64] = self.low[exponents % 256] * self.high[exponents // 256]
        return powers

    def geometric(self, terms: NDArray[np.int64]) -> NDArray[np.float64]:
        """(terms, points) 1 + x + x ** 2 + ..., as many terms: (1 - x ** terms) / (1 - x) without cancellation."""
        many, few = terms // 256, terms % 256
        sums: NDArray[np.float64] = self.high_sums[many] + self.high[many] * self.low_sums[few]
        return sums


@cache
def _quadrature(points: int) -> _Quadrature:
    # Newton's method on the angle of each root of the Legendre polynomial of an even degree, which keeps the digits
    # that the roots next to 1 would lose; `steepness` is the derivative by the angle.
    angle = np.pi * (np.arange(1, points // 2 + 1) - 0.25) / (points + 0.5)
    for _ in range(6):
        root, sine = (np.array([function(one) for one in angle]) for function in (math.cos, math.sin))
        before, value = np.ones_like(root), root
        for degree in range(2, points + 1):
            before, value = value, ((2 * degree - 1) * root * value - (degree - 1) * before) / degree
        steepness = points * (before - root * value) / sine
        angle += value / steepness
    near_1 = np.array([math.cos(one / 2) for one in angle])
    near_0 = np.array([math.sin(one / 2) for one in angle])
    x, weights = np.concatenate([near_1, near_0]) ** 2, np.tile(1 / steepness**2, 2)
    low = np.cumprod(np.vstack([np.ones(points), np.tile(x, (255, 1))]), axis=0, dtype=np.float64)
    high = np.cumprod(np.vstack([np.ones(points), np.tile(low[-1] * x, (255, 1))]), axis=0, dtype=np.float64)
    whole = low.sum(axis=0)
    low_sums, high_sums = np.cumsum(low, axis=0) - low, np.cumsum(high * whole, axis=0) - high * whole
    return _Quadrature(x, weights, low, high, low_sums, high_sums)


def _multiple_mean_reciprocal_rank(expected: _ByRank, k: Counts) -> Values:
    n = expected.tied.n
    return (n + 1) / 2 * n * _mean_reciprocal(expected, k)


def _multiple_mean_reciprocal_rank_printed(expected: _ByRank, k: Counts) -> Values:
    n = expected.tied.n
    return n / 2 * n * _mean_reciprocal(expected, k)


_CLOSED_FORMS: dict[Callable[..., Values] | None, Callable[..., Values]] = {
    ndcg: _ndcg,
    average_precision: _average_precision,
    reciprocal_rank: _reciprocal_rank,
    rank_biased_precision: _rank_biased_precision,
    multiple_mean_reciprocal_rank: _multiple_mean_reciprocal_rank,
    multiple_mean_reciprocal_rank_printed: _multiple_mean_reciprocal_rank_printed,
}
