"""Checks what a result states against its per-query values. The store, baselines and the board check what they read."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.errors import ResultError, UsageError
from bench.metrics import parse_metric
from bench.results.manifest import Manifest, Metrics

#: Tolerance of a value outside its range.
_ROUNDING = 1e-9


def check_counts(manifest: Manifest, metrics: Metrics, table: pa.Table, where: str) -> None:
    """Check the numbers of queries that a result states against the columns `n_gold` and `failed` of its table.

    Arguments and errors are as in `check_means`.
    """
    judged = np.array(table["n_gold"].to_pylist(), dtype=np.int64) > 0
    count, failed = int(judged.sum()), int((judged & np.array(table["failed"].to_pylist(), dtype=np.bool_)).sum())
    for what, found, stated in (
        ("judged", count, metrics.n),
        ("judged", count, manifest.dataset.judged),
        ("failed", failed, metrics.n_failed),
        ("unjudged", len(table) - count, metrics.n_no_gold),
    ):
        if found != stated:
            raise ResultError(f"{where} has {found} {what} queries, and the result states {stated}: one was edited.")


def check_means(metrics: Metrics, table: pa.Table, names: Iterable[str], where: str) -> None:
    """Check the means that a result states against its per-query values.

    Args:
        metrics: the metrics of the result.
        table: its per-query values, numbers in the columns of metrics.
        names: the metrics to check.
        where: what holds the values, for the sentence.

    Raises:
        ResultError: a mean, or its number of queries, does not follow from the values.
    """
    import pyarrow.compute as pc

    for name in names:
        value = metrics.metrics[name]
        if name not in table.column_names:
            raise ResultError(f"{where} has no values of {name}, of which metrics.json has a mean; run it again.")
        # Neither `to_numpy` nor a Python number is used: both import pandas.
        taken, found = len(table) - table[name].null_count, pc.mean(table[name]).as_py()
        if taken != value.n or found is None or not math.isclose(found, value.mean, abs_tol=_ROUNDING):
            shown = "no value" if found is None else f"{found:.10g} over {taken} queries"
            raise ResultError(
                f"{where} and metrics.json give different means of {name}: the values give {shown}, and "
                f"metrics.json has {value.mean:.10g} over {value.n}; one of them was edited."
            )


def check_values(values: NDArray[np.float64], name: str, where: str) -> None:
    """Raise `ResultError` unless the values of a metric, NaN aside, are finite and within its range.

    Args:
        values: of any shape.
        name: the metric; unknown metrics may have any range.
        where: what holds the values, for the sentence.
    """
    try:
        measure = parse_metric(name).measure
        # The values of a statistic are its influences.
        span = measure.span if measure.averages else None
    except UsageError:
        span = None
    low, high = span or (-np.inf, np.inf)
    taken = values[~np.isnan(values)]
    if not np.isfinite(taken).all() or (taken < low - _ROUNDING).any() or (taken > high + _ROUNDING).any():
        raise ResultError(f"{where} has a value of {name} that the metric cannot have.")
