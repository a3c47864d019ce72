"""Intervals of means of bounded values, where few units differ from the most common value.

A sample that is all zeros but for two says little about how often other values come, and resampling it says less: no
resample holds a value that the sample does not. What is known is the span of a value: a share lies between 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.stats.exact import as_integers

#: With so many units that differ from the most common value, the usual intervals hold (`benchmarks/units.py`).
ENOUGH = 30


class Span(NamedTuple):
    """The range of a mean.

    Attributes:
        low, high: the smallest and the largest mean that is possible; infinite where there is none.
        each: whether every value lies within, too, so that the range says what a sample may lack. False for a statistic
            of all queries together, whose values are not a sample of it.
    """

    low: float = -math.inf
    high: float = math.inf
    each: bool = True

    @property
    def bounds_values(self) -> bool:
        """Whether it is known how far from the others a value may be that a sample lacks."""
        return self.each and math.isfinite(self.high - self.low)

    def of_differences(self) -> Span:
        """The range of the difference of two such means."""
        return Span(self.low - self.high, self.high - self.low, self.each)

    def turned(self) -> Span:
        """The range of the mean with its sign changed."""
        return Span(-self.high, -self.low, self.each)

    def clip(self, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers, moved into the range."""
        return np.clip(ends, self.low, self.high)

    def check(self, values: NDArray[np.float64]) -> None:
        """Raise `ValueError` if a value lies outside, but for rounding."""
        if self.each and values.size and not self.low - 1e-9 <= values.min() <= values.max() <= self.high + 1e-9:
            raise ValueError(f"values must lie between {self.low:g} and {self.high:g}")

    def binds(self, values: NDArray[np.float64], codes: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """(columns,) which have bounds by the range: those in which few units differ."""
        if not self.bounds_values:
            return np.zeros(values.shape[1], dtype=bool)
        return few_differ(values, codes)


#: Of a share, and where nothing is known of a value.
SHARE, ANY = Span(0.0, 1.0), Span()


def few_differ(values: NDArray[np.float64], codes: NDArray[np.int64] | None) -> NDArray[np.bool_]:
    """(columns,) where fewer than `ENOUGH` units differ from the most common value.

    Args:
        values: (queries, columns), at least one query.
        codes: (queries,) units from 0 without a gap; None for independent queries.
    """
    rare = _rare(values)
    if codes is None:
        few: NDArray[np.bool_] = np.count_nonzero(rare, axis=0) < ENOUGH
        return few
    return np.array([len(np.unique(codes[column])) < ENOUGH for column in rare.T], dtype=bool)


def bounded_intervals(
    values: NDArray[np.float64],
    codes: NDArray[np.int64] | None,
    span: Span,
    level: float,
    resamples: int,
    seed: int,
) -> NDArray[np.float64]:
    """Intervals of the means of values within a span (Learned-Miller and Thomas 2020).

    The lower end is the quantile at (1 - level) / 2 of the Bayesian bootstrap (Rubin 1981) of the values and one more
    at the lower end of the span; the upper end is the mirror image. For zeros and ones it is the exact interval of
    Clopper and Pearson (1934), up to the error of finitely many resamples: n values of 0 have the upper end
    1 - ((1 - level) / 2)^(1/n). Learned-Miller and Thomas conjecture that it holds the mean at least as often as it
    says, for all distributions on the span.

    A unit counts as a value whose weight is its number of queries. The one at the end of the span has
    n / `effective_units` queries, so that units without any other value have the interval of as many independent
    queries as they are worth.

    Args:
        values: (queries, columns) within the span, at least one query.
        codes: (queries,) units from 0 without a gap; None for independent queries.
        span: the smallest and the largest value that is possible; finite.
        level: coverage, between 0 and 1.
        resamples: weightings of the values.
        seed: the same seed gives the same intervals.

    Returns:
        (columns, 2) lower and upper ends, within the span; the same bits in any order of the queries, and the same with
        their signs changed for values with their signs changed.
    """
    # Metrics often agree on every query, as recall and hit do where each query has one gold tool.
    distinct, twins = np.unique(values, axis=1, return_inverse=True)
    intervals = np.empty((distinct.shape[1], 2))
    tail = (1 - level) / 2
    # Values that are their own mirror image have no sign, and resamples favour one side by chance.
    ordered = np.sort(distinct, axis=0)
    symmetric = (ordered == -ordered[::-1]).all(axis=0) & (span.low == -span.high)
    for column, (mean, sign, low, high) in enumerate(_draws(distinct, codes, span, resamples, seed)):
        ends = min(_quantile(low, tail), mean), max(_quantile(high, 1 - tail), mean)
        if symmetric[column]:
            ends = (ends[0] - ends[1]) / 2, (ends[1] - ends[0]) / 2
        # Rounded, since logarithms may differ in the last bits from one processor to the next.
        intervals[column] = sorted(round(sign * end, 12) for end in ends)
    return span.clip(intervals[twins.reshape(-1)])


def bounded_p_values(
    values: NDArray[np.float64], codes: NDArray[np.int64] | None, span: Span, resamples: int, seed: int
) -> NDArray[np.float64]:
    """(columns,) two-sided p-values of a mean of zero: 1 less the level at which `bounded_intervals` reach it.

    Args:
        values, codes, span, resamples, seed: as of `bounded_intervals`.
    """
    p = np.ones(values.shape[1])
    for column, (mean, _, low, _) in enumerate(_draws(values, codes, span, resamples, seed)):
        if mean > 0:
            p[column] = min(1.0, 2 * float(np.count_nonzero(low <= 0) + 1) / (resamples + 1))
    return p


def _draws(
    values: NDArray[np.float64], codes: NDArray[np.int64] | None, span: Span, resamples: int, seed: int
) -> Iterator[tuple[float, float, NDArray[np.float64], NDArray[np.float64]]]:
    """The mean of each column, the sign that makes it positive, and its (resamples,) draws with one value more.

    The one more is at the lower end of the span, and at the upper end. Mean and draws are those with that sign.
    """
    queries = len(values)
    unit_codes = np.arange(queries) if codes is None else codes
    sizes = np.bincount(unit_codes).astype(np.float64)
    random = np.random.default_rng(seed)
    # Drawn as they are needed, and shared by the columns.
    weights = [random.standard_exponential(resamples)]
    extra = weights[0] * float((sizes * sizes).sum() / queries)
    gammas: dict[float, NDArray[np.float64]] = {}
    signs = _signs(values)
    values = values * signs
    for column, rare in enumerate(_rare(values).T):
        sign = float(signs[column])
        common = float(values[rare.argmin(), column])
        apart = np.bincount(unit_codes, weights=np.where(rare, values[:, column] - common, 0.0))
        rare_units = np.unique(unit_codes[rare])
        # Sorted, so that the order of the queries makes no difference.
        rare_units = rare_units[np.lexsort((sizes[rare_units], apart[rare_units]))]
        weighted, total = np.zeros(resamples), extra.copy()
        for place, unit in enumerate(rare_units.tolist(), 1):
            if place == len(weights):
                weights.append(random.standard_exponential(resamples))
            weighted += apart[unit] * weights[place]
            total += sizes[unit] * weights[place]
        rest = np.delete(sizes, rare_units)
        if len(rest):
            # The units of the most common value count by their sum alone, which is a gamma variable for units of one
            # size, and nearly so for others (Satterthwaite 1946).
            shape = float(rest.sum()) ** 2 / float((rest * rest).sum())
            if shape not in gammas:
                gammas[shape] = np.random.default_rng((seed, 1)).standard_gamma(shape, resamples)
            total += gammas[shape] * (float(rest.sum()) / shape)
        least, most = (span.low, span.high) if sign > 0 else (-span.high, -span.low)
        mean = common + float(apart[rare_units].sum()) / queries
        low, high = (common + (weighted + extra * (end - common)) / total for end in (least, most))
        yield mean, sign, low, high


def _signs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(columns,) the signs that make means positive; of a mean of zero, those that put the larger values first."""
    whole, _ = as_integers(values)
    totals = whole.sum(axis=0)
    signs = np.where(totals < 0, -1.0, 1.0)
    for column in np.flatnonzero(totals == 0).tolist():
        ordered = np.sort(whole[:, column])
        signs[column] = -1.0 if ordered.tolist() < (-ordered[::-1]).tolist() else 1.0
    return signs


def _quantile(values: NDArray[np.float64], share: float) -> float:
    """`np.quantile` of finite values, to the last bit, in a third of the time."""
    place = share * (len(values) - 1)
    below = int(place)
    ordered = np.partition(values, [below, min(below + 1, len(values) - 1)])
    low, high = float(ordered[below]), float(ordered[min(below + 1, len(values) - 1)])
    weight = place - below
    return high - (high - low) * (1 - weight) if weight >= 0.5 else low + (high - low) * weight


def _rare(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(queries, columns) where a value is not the most common one of its column (the smallest of equals)."""
    whole, _ = as_integers(values)
    rare = np.empty(values.shape, dtype=bool)
    for column in range(values.shape[1]):
        numbers, counts = np.unique(whole[:, column], return_counts=True)
        rare[:, column] = whole[:, column] != numbers[counts.argmax()]
    return rare
