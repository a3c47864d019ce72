"""Bootstrap confidence intervals of means over queries: BCa (Efron 1987), all metrics at once."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
#: Numbers in a block of draws: few enough to stay in a processor's cache.
_BLOCK = 1 << 17


def bca_intervals(
    values: NDArray[np.float64], level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """Bias-corrected and accelerated intervals of each column's mean, resampling rows.

    Every column is resampled with the same draws, as paired comparison needs.

    Args:
        values: (queries, columns), finite.
        level: coverage, between 0 and 1.
        resamples: bootstrap samples.
        seed: the same seed gives the same intervals.

    Returns:
        (columns, 2) lower and upper ends. A constant column has the interval [c, c]; with a single query
        nothing is known about the spread, and the interval is [nan, nan].
    """
    queries, columns = values.shape
    if queries < 2:
        return np.full((columns, 2), np.nan)
    whole, unit = as_integers(values)
    means = whole.sum(axis=0) * unit / queries
    totals = whole.sum(axis=0)
    sums = np.ascontiguousarray(resampled_sums(whole, resamples, np.random.default_rng(seed)).T)
    centred = values - means
    squares = centred * centred
    spread = squares.sum(axis=0)
    # Acceleration by the jackknife, which has a closed form for means.
    with np.errstate(invalid="ignore", divide="ignore"):
        acceleration = (squares * centred).sum(axis=0) / (6 * spread**1.5)
    normal = NormalDist()
    tails = [normal.inv_cdf((1 - level) / 2), normal.inv_cdf((1 + level) / 2)]
    intervals = np.empty((columns, 2))
    for column in range(columns):
        if (whole[:, column] == whole[0, column]).all():
            intervals[column] = values[0, column]
            continue
        # Rounding to the unit moves a sum by half a unit for each query at most, so equal sums are this near.
        off = sums[column] - totals[column]
        below = (np.count_nonzero(off < -queries) + np.count_nonzero(off <= queries)) / (2 * resamples)
        bias = normal.inv_cdf(min(max(below, 0.5 / resamples), 1 - 0.5 / resamples))
        shifted = [bias + (bias + tail) / (1 - acceleration[column] * (bias + tail)) for tail in tails]
        # Rounded, since the jackknife's sums may differ in the last bits from one processor to the next.
        points = [round(normal.cdf(point), 12) for point in shifted]
        intervals[column] = np.quantile(sums[column] * unit[column] / queries, points)
    return intervals


def as_integers(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values as whole multiples of a small unit, so that any sum over all queries is exact in float64.

    Sums of whole numbers below 2^53 are exact in any order: the same inputs give the same intervals to the last bit,
    whichever BLAS adds them up, on however many threads, and however many columns there are.
    """
    largest = np.maximum(1.0, np.abs(values).max(axis=0, initial=0.0))
    _, exponents = np.frexp(largest)
    unit = np.ldexp(1.0, exponents + math.ceil(math.log2(len(values))) - 52)
    return np.rint(values / unit), unit


def resampled_sums(values: NDArray[np.float64], resamples: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Sums of rows drawn with replacement, as products with count matrices.

    Args:
        values: (queries, columns), whole numbers if the sums are to be exact.
        resamples: how many times all queries are drawn.
        random: where the draws come from; they do not depend on where blocks end.

    Returns:
        (resamples, columns).
    """
    queries = len(values)
    sums = np.empty((resamples, values.shape[1]))
    step = max(1, _BLOCK // queries)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = random.integers(queries, size=(size, queries))
        drawn += np.arange(size)[:, None] * queries
        counts = np.bincount(drawn.ravel(), minlength=size * queries).reshape(size, queries)
        sums[start : start + size] = counts.astype(np.float64) @ values
    return sums
