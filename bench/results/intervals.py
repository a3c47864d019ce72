"""Means of metrics over the queries they are taken on, with their intervals. Scoring and slices use them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.metrics import Scores
from bench.metrics.evaluate import mean
from bench.results.manifest import MetricValue
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals

BOOTSTRAP_SEED = 0


def means_and_intervals(scores: Scores, units: NDArray[np.int64], gold: ArrayLike) -> dict[str, MetricValue]:
    """Mean and interval of every metric that is taken on at least one query.

    Args:
        scores: the values.
        units: (queries,) the unit of independence of each query; intervals resample units.
        gold: (queries,) the number of gold tools of each.
    """
    taken = ~np.isnan(scores.values)
    by_name: dict[str, MetricValue] = {}
    # Metrics over the judged queries share their resamples; those over queries without gold have their own.
    for mask in np.unique(taken, axis=1).T:
        rows = np.flatnonzero(mask)
        if not len(rows):
            continue
        columns = np.flatnonzero((taken == mask[:, None]).all(axis=0))
        values = scores.values[np.ix_(rows, columns)]
        row_units = number_units(units[rows])
        intervals = np.empty((len(columns), 2))
        spans = [scores.metrics[column].span(gold) for column in columns]
        for span in set(spans):
            same = [i for i, other in enumerate(spans) if other == span]
            intervals[same] = bca_intervals(values[:, same], seed=BOOTSTRAP_SEED, units=row_units, span=span)
        for i, column in enumerate(columns):
            low, high = (None if np.isnan(end) else float(end) for end in intervals[i])
            name = str(scores.metrics[column])
            by_name[name] = MetricValue(mean=mean(values[:, i]), low=low, high=high, n=len(rows))
    return {str(metric): by_name[str(metric)] for metric in scores.metrics if str(metric) in by_name}
