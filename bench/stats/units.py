"""Dependent queries: units of independence, their sums, robust standard errors and effective numbers.

Queries that share a gold set or a dialogue are answered alike, so they carry less information than as many independent
ones. A unit contains queries that depend on each other; queries of different units are independent. Every statistic of
`bench.stats` takes units as codes from 0, one per query; without them, or if every query is its own unit, it treats the
queries as independent.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def dependence(units: NDArray[np.int64] | None, queries: int) -> NDArray[np.int64] | None:
    """The units of dependent queries, in order of their first queries; None if all queries are independent.

    This order makes results independent of the numbering of units, and makes the order of single-query units that of
    the queries.

    Args:
        units: (queries,) the unit of each query, numbered from 0 without a gap; None for independent queries.
        queries: number of queries.

    Raises:
        ValueError: units are not numbered from 0 without a gap, or not one for each query.
    """
    if units is None:
        return None
    codes = _check_units(units)
    if len(codes) != queries:
        raise ValueError(f"units must name the unit of each query: {len(codes)} for {queries} queries")
    if singletons(codes):
        return None
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    places = np.empty(len(first), dtype=np.int64)
    places[np.argsort(first)] = np.arange(len(first))
    ordered: NDArray[np.int64] = places[inverse]
    return ordered


def singletons(units: NDArray[np.int64]) -> bool:
    """Whether every query is a unit of its own.

    Args:
        units: (queries,) the unit of each query, numbered from 0 without a gap.

    Raises:
        ValueError: units are not numbered from 0 without a gap.
    """
    codes = _check_units(units)
    return len(codes) == 0 or int(codes.max()) + 1 == len(codes)


def unit_sums(values: NDArray[np.float64], units: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sums of values over the queries of each unit, and the numbers of queries.

    Args:
        values: (queries, columns), finite.
        units: (queries,) the unit of each query, numbered from 0 without a gap.

    Returns:
        (units, columns) sums, the same bits in any order of the queries; (units,) queries of each unit.

    Raises:
        ValueError: there are no queries, or units are not numbered from 0 without a gap, or not one for each query.
    """
    codes = _check_units(units)
    table = np.asarray(values, dtype=np.float64)
    if not len(table) or len(codes) != len(table):
        raise ValueError(f"units must name the unit of each query: {len(codes)} for {len(table)} queries")
    sizes = np.bincount(codes)
    ends = np.cumsum(sizes)
    ordered = table[np.argsort(codes, kind="stable")]
    # Without negative zeros, as from `fsum`.
    sums = np.add.reduceat(ordered, ends - sizes, axis=0) + 0.0
    # Exact up to the rounding of the result, so that differences that cancel leave almost nothing: a sum of two numbers
    # is so as it is.
    large = np.flatnonzero(sizes > 2)
    spans = list(zip((ends - sizes)[large].tolist(), ends[large].tolist(), strict=True))
    for column in range(table.shape[1]) if spans else ():
        column_values = ordered[:, column].tolist()
        sums[large, column] = [math.fsum(column_values[start:end]) for start, end in spans]
    return sums, sizes


def whole_sums(whole: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """(units, columns) sums of whole numbers, as of `as_integers`, over the queries of each unit: exact in any order.

    Args:
        whole: (queries, columns) whole numbers.
        codes: (queries,) units from 0 without a gap.
    """
    count = int(codes.max()) + 1
    sums = np.empty((count, whole.shape[1]))
    for column in range(whole.shape[1]):
        sums[:, column] = np.bincount(codes, weights=whole[:, column], minlength=count)
    return sums


def effective_units(units: NDArray[np.int64]) -> float:
    """The equivalent number of independent queries: (Σ n_g)² / Σ n_g² for units of n_g queries (Kish 1965).

    If the queries of a unit all have one value, the mean of the queries is a mean of units weighted by n_g, whose
    variance is σ² Σ n_g² / (Σ n_g)²: that of so many independent queries. Queries that agree less carry more
    information, so it is a lower limit; it depends only on the sizes and so is the same for every method and metric of
    a dataset. Up to terms that vanish with many units, it is also the Satterthwaite degrees of freedom of
    `robust_mean`, so it shows how far that error can be trusted.

    Args:
        units: (queries,) the unit of each query, numbered from 0 without a gap; at least one query.

    Returns:
        Between 1 and the number of units, which it equals for units of equal size: for single queries, their number.

    Raises:
        ValueError: there are no queries, or units are not numbered from 0 without a gap.
    """
    codes = _check_units(units)
    if not len(codes):
        raise ValueError("no queries have no units")
    sizes = np.bincount(codes)
    return len(codes) ** 2 / int((sizes * sizes).sum())


def robust_mean(
    values: NDArray[np.float64], units: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Means over queries, with standard errors that are valid if the queries of a unit depend on each other.

    The CR2 estimator of Bell and McCaffrey (2002) for a regression on a constant. With sums S_g over units of n_g
    queries, n in all, and m their mean, V = Σ (S_g - n_g m)² / (1 - n_g / n) / n², which is without bias if the queries
    are in fact independent, and s² / n for units of one query. Its degrees of freedom follow Satterthwaite (1946) under
    the same working model: 2 E(V)² / Var(V) = n⁻² / (Σ n_g² / n⁴ + ((Σ w_g)² - Σ w_g²) / n⁶) with
    w_g = n_g² / (1 - n_g / n), which is n - 1 for units of one query.

    Args and errors as of `unit_sums`.

    Returns:
        (columns,) means; (columns,) standard errors; (columns,) degrees of freedom. With a single unit the spread is
        unknown: errors are NaN, and degrees of freedom 0.
    """
    means, residuals, sizes = residual_sums(values, units)
    return means, *errors_of_residuals(residuals, sizes)


def errors_of_residuals(
    residuals: NDArray[np.float64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The standard errors and degrees of freedom of `robust_mean`.

    Args:
        residuals, sizes: as from `residual_sums`.
    """
    n = int(sizes.sum())
    if len(sizes) < 2:
        return np.full(len(residuals), np.nan), np.zeros(len(residuals))
    leverage = 1 - sizes / n
    errors = np.sqrt((residuals * residuals / leverage).sum(axis=1)) / n
    shares = sizes / n
    weights = shares * shares / leverage
    squares = float((shares * shares).sum()), float((weights * weights).sum())
    freedom = 1 / (squares[0] + float(weights.sum()) ** 2 - squares[1])
    return errors, np.full(len(residuals), freedom)


def residual_sums(
    values: NDArray[np.float64], units: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Means over queries, and the residual sum of each unit: its sum minus that of as many queries at the mean.

    Args and errors as of `unit_sums`.

    Returns:
        (columns,) means; (columns, units) S_g - n_g m, in contiguous rows, so that the bits of a row's sum do not
        depend on the number of rows; (units,) queries of each unit.
    """
    sums, sizes = unit_sums(values, units)
    means = np.array([math.fsum(column) for column in sums.T.tolist()]) / int(sizes.sum())
    residuals = np.ascontiguousarray((sums - sizes[:, None] * means).T)
    # Sums that differ only by rounding do not vary.
    residuals[np.abs(residuals) <= 1e-13 * np.abs(sums).max(axis=0)[:, None]] = 0.0
    return means, residuals, sizes


def intraclass_correlation(values: NDArray[np.float64], units: NDArray[np.int64]) -> NDArray[np.float64]:
    """The correlation of two queries in one unit, by the analysis of variance (Donner 1986).

    (MSB - MSW) / (MSB + (n₀ - 1) MSW) from the mean squares between and within units, where
    n₀ = (n - Σ n_g² / n) / (G - 1) for n queries in G units of n_g.

    Args and errors as of `unit_sums`.

    Returns:
        (columns,) at most 1; negative if the queries of a unit differ more than those of different units. NaN if it is
        undefined: a single unit, only units of one query, or a column that does not vary.
    """
    table = np.asarray(values, dtype=np.float64)
    sums, sizes = unit_sums(table, units)
    n, count = len(table), len(sizes)
    if count < 2 or count == n:
        return np.full(table.shape[1], np.nan)
    means = sums / sizes[:, None]
    between = (sizes[:, None] * (means - sums.sum(axis=0) / n) ** 2).sum(axis=0) / (count - 1)
    within = ((table - means[units]) ** 2).sum(axis=0) / (n - count)
    typical = (n - float((sizes * sizes).sum()) / n) / (count - 1)
    total = between + (typical - 1) * within
    constant = np.ptp(table, axis=0) <= 1e-12 * np.abs(table).max(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations: NDArray[np.float64] = np.where(constant, np.nan, (between - within) / total)
    return correlations


def design_effect(values: NDArray[np.float64], units: NDArray[np.int64]) -> NDArray[np.float64]:
    """The variance of a mean relative to that of as many independent queries (Kish 1965).

    The variance of `robust_mean` divided by s² / n. Intervals for independent queries are too narrow by its square
    root, and n queries carry as much information about this column as n / (design effect) independent ones.

    Args and errors as of `unit_sums`.

    Returns:
        (columns,) 1 for units of one query; below 1 if the queries of a unit differ more than those of different units.
        NaN for a single unit, and for a column that does not vary.
    """
    table = np.asarray(values, dtype=np.float64)
    _, errors, _ = robust_mean(table, units)
    constant = np.ptp(table, axis=0) <= 1e-12 * np.abs(table).max(axis=0)
    _, naive, _ = robust_mean(table, np.arange(len(table), dtype=np.int64))
    with np.errstate(invalid="ignore", divide="ignore"):
        effects: NDArray[np.float64] = np.where(constant, np.nan, (errors / naive) ** 2)
    return effects


def _check_units(units: NDArray[np.int64]) -> NDArray[np.int64]:
    codes = np.asarray(units)
    if codes.ndim != 1 or (len(codes) and (codes.dtype.kind not in "iu" or codes.min() < 0)):
        raise ValueError("units must be a list of whole numbers from 0, one for each query")
    codes = codes.astype(np.int64)
    if len(codes) and (codes.max() >= len(codes) or not np.bincount(codes).all()):
        raise ValueError("units must be numbered from 0 without a gap")
    return codes
