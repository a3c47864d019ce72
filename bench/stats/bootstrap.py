"""Bootstrap confidence intervals of means over queries: BCa (Efron 1987), all metrics at once."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
_BLOCK = 1 << 22


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
    means = values.mean(axis=0)
    samples = _resampled_means(values, resamples, seed)
    centred = values - means
    spread = (centred**2).sum(axis=0)
    # Acceleration by the jackknife, which has a closed form for means.
    with np.errstate(invalid="ignore", divide="ignore"):
        acceleration = (centred**3).sum(axis=0) / (6 * spread**1.5)
    normal = NormalDist()
    tails = [normal.inv_cdf((1 - level) / 2), normal.inv_cdf((1 + level) / 2)]
    intervals = np.empty((columns, 2))
    for column in range(columns):
        found, mean = samples[:, column], means[column]
        # A spread that is nothing but rounding is none.
        if spread[column] <= queries * (1e-12 * max(1.0, abs(mean))) ** 2:
            intervals[column] = mean
            continue
        # Means that equal the sample's may differ from it by rounding, and by how many columns there are.
        slack = 1e-9 * max(1.0, abs(mean))
        below = (np.count_nonzero(found < mean - slack) + np.count_nonzero(found <= mean + slack)) / (2 * resamples)
        bias = normal.inv_cdf(min(max(below, 0.5 / resamples), 1 - 0.5 / resamples))
        shifted = [bias + (bias + tail) / (1 - acceleration[column] * (bias + tail)) for tail in tails]
        intervals[column] = np.quantile(found, [normal.cdf(point) for point in shifted])
    return intervals


def _resampled_means(values: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """(resamples, columns) means of rows drawn with replacement, as products with count matrices."""
    queries = len(values)
    random = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    step = max(1, _BLOCK // queries)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = random.integers(queries, size=(size, queries))
        drawn += np.arange(size)[:, None] * queries
        counts = np.bincount(drawn.ravel(), minlength=size * queries).reshape(size, queries)
        means[start : start + size] = counts.astype(np.float64) @ values
    return means / queries
