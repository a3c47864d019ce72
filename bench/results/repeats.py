"""Repeated runs: the variance within and between queries, as results store it and in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.metrics import Metric
from bench.metrics.evaluate import mean
from bench.results.manifest import Metrics, Variation
from bench.results.units import number_units
from bench.show.numbers import number_or_none, percent
from bench.stats.repeats import decompose, narrowing


def variations(
    values: NDArray[np.float64], metrics: Sequence[Metric], units: NDArray[np.int64]
) -> dict[str, Variation]:
    """How every metric that is taken on at least one query varies over the repeats.

    Args:
        values: (repeats, queries, metrics); nan if a metric is not taken on a query.
        metrics: (metrics,) the metrics of the columns.
        units: (queries,) the unit of independence of each query.
    """
    by_metric = {}
    taken = ~np.isnan(values[0])
    for column, metric in enumerate(metrics):
        rows = np.flatnonzero(taken[:, column])
        if not len(rows):
            continue
        metric_values = values[:, rows, column]
        split = decompose(metric_values[:, :, None], number_units(units[rows]))
        between, error, share = (number_or_none(part[0]) for part in (split.between, split.error, split.share))
        by_metric[str(metric)] = Variation(
            means=[mean(part) for part in metric_values],
            within=float(split.within[0]),
            between=between,
            error=error,
            share=share,
        )
    return by_metric


def repeats_line(metrics: Metrics) -> str:
    """`5 repeats; failed in each: 0, 0, 1, 0, 0`; empty for a result without repeats."""
    repeats = metrics.repeats
    if repeats is None:
        return ""
    failed = "none failed" if not any(repeats.n_failed) else f"failed in each: {', '.join(map(str, repeats.n_failed))}"
    return f"{len(repeats.n_failed)} repeats of every query ({failed}); values are means over them"


def chance_sentence(metrics: Metrics, name: str) -> str:
    """The share of chance in the interval of a metric, and the gain of more repeats; empty if unknown."""
    variation = None if metrics.repeats is None else metrics.repeats.metrics.get(name)
    if variation is None or variation.share is None or metrics.repeats is None:
        return ""
    count = len(metrics.repeats.n_failed)
    start = f"{name}: chance is {percent(variation.share)} of the squared standard error"
    if not variation.share:
        return f"{start}; the repeats do not differ"
    twice, most = (percent(narrowing(variation.share, more)) for more in (2.0, math.inf))
    return f"{start}; {2 * count} repeats narrow the interval by about {twice}, any number by at most {most}"
