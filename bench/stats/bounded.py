"""Intervals of means of bounded values, where few units differ from the most common value.

A sample that is all zeros but for two says little about how often other values come, and resampling it says less: no
resample holds a value that the sample does not. What is known is the span of a value: a share lies between 0 and 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.stats.exact import as_integers

#: With so many units that differ from the most common value, the usual intervals hold (`benchmarks/units.py`).
ENOUGH = 30


def common_values(
    values: NDArray[np.float64], codes: NDArray[np.int64] | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The most common value of each column, and how many units hold another one.

    Args:
        values: (queries, columns), at least one query.
        codes: (queries,) units from 0 without a gap; None for independent queries.

    Returns:
        (columns,) values, of equally common ones the smallest; (columns,) units.
    """
    whole, _ = as_integers(values)
    common = np.empty(values.shape[1])
    differing = np.empty(values.shape[1], dtype=np.int64)
    for column in range(values.shape[1]):
        _, first, counts = np.unique(whole[:, column], return_index=True, return_counts=True)
        place = first[counts.argmax()]
        common[column] = values[place, column]
        apart = whole[:, column] != whole[place, column]
        differing[column] = np.count_nonzero(apart) if codes is None else len(np.unique(codes[apart]))
    return common, differing


def bounded_interval(
    values: NDArray[np.float64],
    common: float,
    codes: NDArray[np.int64] | None,
    span: tuple[float, float],
    level: float,
    resamples: int,
    seed: int,
) -> tuple[float, float]:
    """The interval of the mean of values within a span (Learned-Miller and Thomas 2020).

    The lower end is the quantile at (1 - level) / 2 of the Bayesian bootstrap (Rubin 1981) of the values and one more
    at the lower end of the span; the upper end is the mirror image. For zeros and ones it is the exact interval of
    Clopper and Pearson (1934), and n values of 0 have the upper end 1 - ((1 - level) / 2)^(1/n). Learned-Miller and
    Thomas conjecture that it holds the mean at least as often as it says, for all distributions on the span.

    A unit counts as a value whose weight is its number of queries. The one at the end of the span has
    n / `effective_units` queries, so that units without any other value have the interval of as many independent
    queries as they are worth.

    Args:
        values: (queries,) within the span.
        common: their most common value, as of `common_values`.
        codes: (queries,) units from 0 without a gap; None for independent queries.
        span: the smallest and the largest value that is possible.
        level: coverage, between 0 and 1.
        resamples: weightings of the values.
        seed: the same seed gives the same interval.

    Returns:
        Lower and upper end, within the span.
    """
    own = np.arange(len(values)) if codes is None else codes
    sizes = np.bincount(own).astype(np.float64)
    apart = np.bincount(own, weights=values - common)
    # Values that are the most common one but for rounding do not differ.
    differs = np.bincount(own, weights=np.abs(values - common) > 1e-12 * max(1.0, abs(common))) > 0
    # Sorted, so that the order of the queries makes no difference.
    order = np.lexsort((sizes[differs], apart[differs]))
    apart, own_sizes = apart[differs][order], sizes[differs][order]
    rest = sizes[~differs]
    random = np.random.default_rng(seed)
    weighted, total = np.zeros(resamples), np.zeros(resamples)
    for distance, size in zip(apart, own_sizes, strict=True):
        weights = random.standard_exponential(resamples)
        weighted += distance * weights
        total += size * weights
    if len(rest):
        # The units of the most common value count by their sum alone, which is a gamma variable for units of one size,
        # and nearly so for others (Satterthwaite 1946).
        shape = rest.sum() ** 2 / (rest * rest).sum()
        total += random.standard_gamma(shape, resamples) * (rest.sum() / shape)
    extra = random.standard_exponential(resamples) * ((sizes * sizes).sum() / sizes.sum())
    total += extra
    mean = common + apart.sum() / len(values)
    tail = (1 - level) / 2
    low = np.quantile(common + (weighted + extra * (span[0] - common)) / total, tail)
    high = np.quantile(common + (weighted + extra * (span[1] - common)) / total, 1 - tail)
    # Rounded, since logarithms may differ in the last bits from one processor to the next.
    ends = round(min(float(low), mean), 12), round(max(float(high), mean), 12)
    return max(ends[0], span[0]), min(ends[1], span[1])
