"""Repeated runs: how much of the error of a mean over queries is due to chance in the method. Scoring calls it.

A nondeterministic method is run K times on the same queries, and a query's value is the mean of its K values (Miller
2024, "Adding Error Bars to Evals"). The variance of the mean over n queries is then (between + within / K) / n:
`between` is the variance of the queries' expected values, `within` that of one query between repeats. All statistics
use the queries' means, so their errors contain both; more repeats only reduce the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.stats.units import robust_mean, unit_sums


@dataclass(frozen=True)
class Decomposition:
    """How the squared standard error of a mean splits; one entry per column.

    Attributes:
        within: (columns,) variance of a query between repeats, averaged over the queries.
        between: (columns,) variance of the queries that chance does not explain, at least 0; NaN for a single unit.
        error: (columns,) standard error of the mean over queries and repeats; NaN for a single unit.
        share: (columns,) part of the squared error that is due to chance, within / K / n / error², between 0 and 1;
            NaN for a single unit.
    """

    within: NDArray[np.float64]
    between: NDArray[np.float64]
    error: NDArray[np.float64]
    share: NDArray[np.float64]


def repeat_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(queries, columns) the mean of each value over its repeats; equal values keep their bits.

    Args:
        values: (repeats, queries, columns); NaN if a query has no value, then in every repeat.
    """
    means: NDArray[np.float64] = values[0].copy()
    differ = (values != values[0]).any(axis=0) & ~np.isnan(values[0])
    means[differ] = values[:, differ].sum(axis=0) / len(values)
    return means


def decompose(values: NDArray[np.float64], units: NDArray[np.int64]) -> Decomposition:
    """The variance within and between queries.

    The squared error V is that of `robust_mean` on the queries' means: s² / n for independent queries, CR2 for
    dependent ones. With T_gr the sum of repeat r over the queries of unit g and s_g² its sample variance over the
    repeats, the part due to chance is Σ s_g² / (K n²), which is within / K / n. For units of one query, within is the
    mean of the queries' sample variances. Sums over units make it valid also if the queries of a unit share their
    randomness, such as queries with one text. Randomness shared by all queries, such as that of a model trained in each
    repeat, is in neither part: the means of the repeats show it.
    Args:
        values: (repeats, queries, columns), finite; at least two repeats.
        units: (queries,) the unit of each query, numbered from 0 without a gap.

    Raises:
        ValueError: there is one repeat, there are no queries, or units are not as `dependence` takes them.
    """
    repeats, queries, columns = values.shape
    if repeats < 2:
        raise ValueError("a single repeat says nothing about chance")
    _, error, _ = robust_mean(repeat_means(values), units)
    sums = np.stack([unit_sums(part, units)[0] for part in values])
    scatter = ((sums - repeat_means(sums)) ** 2).sum(axis=0) / (repeats - 1)
    # Row by row: the bits of a column do not depend on the number of columns.
    within = np.array([scatter[:, column].copy().sum() for column in range(columns)]) / queries
    chance, squared = within / repeats / queries, error * error
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(squared > 0, np.minimum(1.0, chance / squared), (chance > 0).astype(np.float64))
    unknown = np.isnan(error)
    share = np.where(unknown, np.nan, share)
    between = np.where(unknown, np.nan, np.maximum(0.0, queries * squared - within / repeats))
    return Decomposition(within, between, error, share)


def narrowing(share: float, more: float = np.inf) -> float:
    """The relative reduction of the standard error with `more` times as many repeats: 1 - √(1 - share (1 - 1/more)).

    Args:
        share: as in `Decomposition`.
        more: a factor of 1 or more; infinite for the limit of many repeats.
    """
    return float(1 - np.sqrt(max(0.0, 1 - share * (1 - 1 / more))))
