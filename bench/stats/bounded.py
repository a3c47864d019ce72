"""Intervals of means of bounded values, for few units that differ from the most common value. `bootstrap` calls it.

A sample of zeros with two exceptions says little about how often other values occur, and resampling it says less: no
resample has a value that the sample lacks. But the range of a value is known: a share lies between 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.stats.exact import as_integers

#: With this many units that differ from the most common value, the usual intervals hold (`benchmarks/units.py`).
ENOUGH = 30


class Span(NamedTuple):
    """The range of a mean.

    Attributes:
        low, high: the smallest and the largest possible mean; infinite if there is none.
        each: whether every single value lies within the range too, so that the range limits what a sample may lack.
            False for a statistic of all queries together, whose values are not a sample of it.
    """

    low: float = -math.inf
    high: float = math.inf
    each: bool = True

    @property
    def bounds_values(self) -> bool:
        """Whether it is known how far from the others a missing value may be."""
        return self.each and math.isfinite(self.high - self.low)

    def of_differences(self) -> Span:
        """The range of the difference of two such means."""
        return Span(self.low - self.high, self.high - self.low, self.each)

    def negated(self) -> Span:
        """The range of the mean with its sign changed."""
        return Span(-self.high, -self.low, self.each)

    def clip(self, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers clipped to the range."""
        return np.clip(ends, self.low, self.high)

    def check(self, values: NDArray[np.float64]) -> None:
        """Raise `ValueError` if a value lies outside the range by more than rounding."""
        if self.each and values.size and not self.low - 1e-9 <= values.min() <= values.max() <= self.high + 1e-9:
            raise ValueError(f"values must lie between {self.low:g} and {self.high:g}")

    def binds(self, values: NDArray[np.float64], codes: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """(columns,) which get bounds from the range: those in which few units differ."""
        if not self.bounds_values:
            return np.zeros(values.shape[1], dtype=bool)
        return few_differ(values, codes)


#: The range of a share, and the range of a value that is unknown.
SHARE, ANY = Span(0.0, 1.0), Span()


def few_differ(values: NDArray[np.float64], codes: NDArray[np.int64] | None) -> NDArray[np.bool_]:
    """(columns,) whether fewer than `ENOUGH` units differ from the most common value.

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

    The lower end is the quantile at (1 - level) / 2 of the Bayesian bootstrap (Rubin 1981) of the values plus one value
    at the lower end of the span; the upper end is the mirror image. For zeros and ones it is the exact interval of
    Clopper and Pearson (1934), up to the error of finitely many resamples: n values of 0 have the upper end 1 - ((1 -
    level) / 2)^(1/n). Learned-Miller and Thomas conjecture that it contains the mean at least as often as its level
    says, for all distributions on the span.

    A unit counts as a value with its number of queries as weight. The added value has the weight n / `effective_units`,
    so units without any other value get the interval of the equivalent number of independent queries.

    Args:
        values: (queries, columns) within the span, at least one query.
        codes: (queries,) units from 0 without a gap; None for independent queries.
        span: the smallest and the largest possible value; finite.
        level: coverage, between 0 and 1.
        resamples: weightings of the values.
        seed: the same seed gives the same intervals.

    Returns:
        (columns, 2) lower and upper ends, within the span; the same bits in any order of the queries, and mirrored for
        values with changed signs.
    """
    # Metrics often agree on every query, as recall and hit do if each query has one gold tool.
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
        # Rounded, because logarithms may differ in the last bits between processors.
        intervals[column] = sorted(round(sign * end, 12) for end in ends)
    return span.clip(intervals[twins.reshape(-1)])


def bounded_p_values(
    values: NDArray[np.float64], codes: NDArray[np.int64] | None, span: Span, resamples: int, seed: int
) -> NDArray[np.float64]:
    """(columns,) two-sided p-values of a mean of zero: 1 minus the level at which `bounded_intervals` reach it.

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
    """The mean of each column, the sign that makes it positive, and its (resamples,) draws with one added value.

    The added value is at the lower end of the span, and at the upper end. Mean and draws have that sign.
    """
    queries = len(values)
    unit_codes = np.arange(queries) if codes is None else codes
    sizes = np.bincount(unit_codes).astype(np.float64)
    random = np.random.default_rng(seed)
    # Drawn on demand and shared by the columns.
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
            # The units with the most common value enter only by their sum, which is a gamma variable for units of one
            # size, and approximately one for others (Satterthwaite 1946).
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
    """(queries, columns) whether a value differs from the most common one of its column (the smallest of equals)."""
    whole, _ = as_integers(values)
    rare = np.empty(values.shape, dtype=bool)
    for column in range(values.shape[1]):
        numbers, counts = np.unique(whole[:, column], return_counts=True)
        rare[:, column] = whole[:, column] != numbers[counts.argmax()]
    return rare
