"""Unweighted means of group means. Comparisons by stratum use them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import Span


def _sizes(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    sizes = np.bincount(groups)
    if not sizes.all():
        raise ValueError("groups must be numbered from 0 without a gap")
    return sizes


def weighted_values(values: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scale values so that their plain mean is the mean of the groups' means.

    Args:
        values: (queries, columns).
        groups: (queries,) group of each query, numbered from 0.
    """
    sizes = _sizes(groups)
    weights = len(values) / (len(sizes) * sizes)
    weighted: NDArray[np.float64] = values * weights[groups][:, None]
    return weighted


def centred_values(values: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Transform values so that their plain mean is the mean of the groups' means, with the spread within groups only.

    y = w (x - mean of the group) + mean of the groups' means, with the weights w of `weighted_values`. Resampling rows
    of y gives the mean the variance Σ_g s_g² / (G² n_g), which is that of resampling the queries within each group: the
    groups are fixed.

    Args and returns as `weighted_values`.
    """
    sizes = _sizes(groups)
    if len(sizes) == 1:
        return values
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, groups, values)
    means = sums / sizes[:, None]
    centred: NDArray[np.float64] = weighted_values(values - means[groups], groups) + means.mean(axis=0)
    return centred


def centred_span(values: NDArray[np.float64], groups: NDArray[np.int64], span: Span) -> Span:
    """The smallest and the largest possible value of `centred_values` for values within a span.

    Args:
        values: (queries, 1).
        groups: as of `weighted_values`.
        span: of the values.
    """
    moved = (centred_values(values, groups) - weighted_values(values, groups))[:, 0]
    weights = weighted_values(np.ones_like(values), groups)[:, 0]
    return Span(float((moved + weights * span.low).min()), float((moved + weights * span.high).max()), span.each)


def stratified_intervals(
    values: NDArray[np.float64],
    groups: NDArray[np.int64],
    units: NDArray[np.int64] | None,
    spans: Sequence[Span],
    level: float = 0.95,
) -> NDArray[np.float64]:
    """(columns, 2) intervals of means of groups' means, as from `bca_intervals`, by resampling within the groups.

    Args:
        values, groups: as of `weighted_values`.
        units, level: as of `bca_intervals`.
        spans: (columns,) the range of each mean.
    """
    intervals = np.empty((values.shape[1], 2))
    for column, span in enumerate(spans):
        one = values[:, column : column + 1]
        stretched = centred_span(one, groups, span)
        intervals[column] = bca_intervals(centred_values(one, groups), level, units=units, span=stretched)[0]
    return intervals
