"""Confidence intervals of means over queries: BCa (Efron 1987) for all metrics at once, robust errors for units."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from bench.stats.bounded import ANY, Span, bounded_intervals
from bench.stats.exact import as_integers
from bench.stats.robust_t import robust_t
from bench.stats.units import dependence, whole_sums

RESAMPLES = 10_000
#: Numbers in a block of draws, to fit a processor's cache.
_BLOCK = 1 << 17
#: Samples in a block of draws from many queries.
_SAMPLES = 64
#: Maximum numbers in such a block.
_LARGEST_BLOCK = 1 << 21


def bca_intervals(
    values: NDArray[np.float64],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
    span: Span = ANY,
) -> NDArray[np.float64]:
    """Bias-corrected and accelerated intervals of each column's mean, resampling rows.

    Every column uses the same draws, as paired comparison needs.

    Dependent queries get the interval of Student's t with cluster-robust errors, corrected for skewness
    (`bench.stats.robust_t`). In simulations on stored results (`benchmarks/units.py`) it contains the true mean more
    often than the BCa bootstrap of units, which is too narrow if few units are large.

    With a finite span, a column in which fewer than `bench.stats.bounded.ENOUGH` units differ from the most common
    value gets the interval of `bench.stats.bounded.bounded_intervals`: resampling such a column would exclude values
    that the sample merely lacks.

    Args:
        values: (queries, columns), finite.
        level: coverage, between 0 and 1.
        resamples: bootstrap samples.
        seed: the same seed gives the same intervals.
        units: (queries,) as from `bench.stats.units.dependence`; None for independent queries.
        span: the range of the means, such as `Span(0, 1)` for shares and `Span(-1, 1)` for their differences.

    Returns:
        (columns, 2) lower and upper ends, within the span. [nan, nan] if nothing is known about the spread: with a
        single unit, and without a finite span if units do not vary.

    Raises:
        ValueError: units are not as `dependence` takes them, or a value is outside the span.
    """
    queries, columns = values.shape
    span.check(values)
    codes = dependence(units, queries)
    if queries < 2 or (codes is not None and not codes.any()):
        return np.full((columns, 2), np.nan)
    few = span.binds(values, codes)
    intervals = np.empty((columns, 2))
    if not few.all():
        if codes is not None:
            intervals[~few] = robust_t(values[:, ~few], codes).intervals(level)
        else:
            # All columns, because the last bits of a sum may depend on the number of columns.
            intervals = _query_intervals(values, level, resamples, seed)
    if few.any():
        intervals[few] = bounded_intervals(values[:, few], codes, span, level, resamples, seed)
    return span.clip(intervals)


def _query_intervals(values: NDArray[np.float64], level: float, resamples: int, seed: int) -> NDArray[np.float64]:
    """BCa intervals of means of at least two independent queries; NaN if all values are equal."""
    queries, columns = values.shape
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
            intervals[column] = np.nan
            continue
        # Rounding to the unit moves a sum by at most half a unit per query, so equal sums are this close.
        off = sums[column] - totals[column]
        below = (np.count_nonzero(off < -queries) + np.count_nonzero(off <= queries)) / (2 * resamples)
        bias = normal.inv_cdf(min(max(below, 0.5 / resamples), 1 - 0.5 / resamples))
        shifted = [bias + (bias + tail) / (1 - acceleration[column] * (bias + tail)) for tail in tails]
        # Rounded, because the jackknife's sums may differ in the last bits between processors.
        points = [round(normal.cdf(point), 12) for point in shifted]
        intervals[column] = np.quantile(sums[column] * unit[column] / queries, points)
    return intervals


def scaled_sums(
    values: NDArray[np.float64], codes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Sums over units as whole numbers, small enough that the sum over any draw of units is exact in float64.

    Args:
        values: (queries, columns).
        codes: (queries,) units as codes from 0 without gaps.

    Returns:
        (units, columns) sums in whole steps; (units,) queries of each unit; (columns,) the step.
    """
    whole, step = as_integers(values)
    sums, sizes = whole_sums(whole, codes), np.bincount(codes).astype(np.float64)
    # A draw may contain the largest unit as often as there are units.
    largest = np.maximum(1.0, np.abs(sums).max(axis=0, initial=0.0) * len(sums))
    coarser = np.ldexp(1.0, np.maximum(0, np.frexp(largest)[1] - 52))
    return np.rint(sums / coarser), sizes, step * coarser


def resampled_sums(values: NDArray[np.float64], resamples: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Sums of rows drawn with replacement, as products with count matrices.

    Args:
        values: (queries, columns); whole numbers if the sums must be exact.
        resamples: number of draws of all queries.
        random: source of the draws; they do not depend on block boundaries.

    Returns:
        (resamples, columns).
    """
    queries = len(values)
    sums = np.empty((resamples, values.shape[1]))
    if queries * _SAMPLES > _BLOCK:
        for start, block in _count_blocks(queries, resamples, random):
            sums[start : start + len(block)] = block @ values
        return sums
    step = _BLOCK // queries
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = random.integers(queries, size=(size, queries))
        drawn += np.arange(size)[:, None] * queries
        counts = np.bincount(drawn.ravel(), minlength=size * queries).reshape(size, queries)
        sums[start : start + size] = counts.astype(np.float64) @ values
    return sums


def _count_blocks(
    queries: int, resamples: int, random: np.random.Generator
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Blocks of (samples, queries) counts of many queries, each with its first sample; valid until the next block.

    A block has enough samples that the product reads all values less often. While a block is counted and multiplied, a
    thread draws the next one: both release the interpreter lock.
    """
    step = max(1, min(_SAMPLES, _LARGEST_BLOCK // queries))
    block = np.empty((step, queries))
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(random.integers, queries, size=(min(step, resamples), queries))
        for start in range(0, resamples, step):
            drawn = ahead.result()
            if start + step < resamples:
                ahead = pool.submit(random.integers, queries, size=(min(step, resamples - start - step), queries))
            for row, sample in enumerate(drawn):
                block[row] = np.bincount(sample, minlength=queries)
            yield start, block[: len(drawn)]
