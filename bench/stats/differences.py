"""Intervals of mean differences that agree with their test.

The test is the paired randomisation test (`bench.stats.randomisation`). A shift δ of all differences is in the interval
if the test does not reject it: if, with the sums of units S_g - n_g δ, at least the share 1 - level of the sign vectors
is as extreme as the one found. A sign vector is so for every δ between the mean over the units whose sign
it keeps and the mean over those whose sign it changes. So the ends of the interval are quantiles of these means of
random halves, the typical values of Hartigan (1969): no search, and to the last flip what the test says.

Where the test alone is known to be off, the interval is that of a second look as well, whichever reaches farther:

- dependent queries: Student's t with skewness taken out (`bench.stats.robust_t`), whose p-value counts in
  `bench.stats.paired.compare`, too;
- few units that differ, and a known span: `bench.stats.bounded`, for what the sample does not hold. It has no p-value
  of its own, so that where the test finds a difference the interval ends short of zero.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import RESAMPLES, bca_intervals
from bench.stats.bounded import bounded_intervals, few_differ
from bench.stats.exact import as_integers
from bench.stats.randomisation import FLIPS, MOST_ENUMERATED, every_sign_vector, randomisation_test, sign_vectors
from bench.stats.robust_t import robust_t
from bench.stats.strata import centred_span, centred_values, weighted_values
from bench.stats.units import dependence, whole_sums

#: Columns whose halves are held at once: the memory of an interval does not grow with their number.
_COLUMNS = 32
#: Dependent queries: with fewer degrees of freedom, the units that differ are too few for Student's t alone.
_FEWEST_DEGREES = 10
#: To which the ends of intervals are rounded.
_DECIMALS = 12


def difference_p_values(
    differences: NDArray[np.float64],
    strata: NDArray[np.int64] | None = None,
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
    flips: int = FLIPS,
) -> NDArray[np.float64]:
    """(columns,) two-sided p-values of a mean difference of zero.

    That of the randomisation test for independent queries, and for dependent ones the larger of that and of Student's
    t with skewness taken out. Arguments and errors as `difference_intervals`.
    """
    values = np.asarray(differences, dtype=np.float64)
    groups = np.zeros(len(values), dtype=np.int64) if strata is None else strata
    p = randomisation_test(weighted_values(values, groups), flips, seed, units)
    codes = dependence(units, len(values))
    return p if codes is None else np.maximum(p, robust_t(centred_values(values, groups), codes).p_values())


def difference_intervals(
    differences: NDArray[np.float64],
    level: float = 0.95,
    strata: NDArray[np.int64] | None = None,
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
    span: tuple[float, float] | None = None,
    flips: int = FLIPS,
) -> NDArray[np.float64]:
    """Intervals of the mean of each column of paired differences.

    An interval holds zero just where `difference_p_values` is at least 1 - level.

    Args:
        differences: (queries, columns), finite.
        level: coverage, between 0 and 1.
        strata: (queries,) group of each query, from 0; the mean is then the mean of the groups' means.
        seed: of sign vectors and resamples.
        units: (queries,) the unit of independence of each query, numbered from 0 without a gap. None for independent
            queries.
        span: the smallest and the largest difference that is possible. None if it is not known.
        flips: random sign vectors, where they are not enumerated.

    Returns:
        (columns, 2) lower and upper ends, within the span; infinite where so few units say nothing at this level, and
        nan for a single unit.

    Raises:
        ValueError: units are not numbered from 0 without a gap, or not one for each query; or a value is outside the
            span.
    """
    return intervals_and_p_values(differences, level, strata, seed, units, span, flips)[0]


def intervals_and_p_values(
    differences: NDArray[np.float64],
    level: float = 0.95,
    strata: NDArray[np.int64] | None = None,
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
    span: tuple[float, float] | None = None,
    flips: int = FLIPS,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both of `difference_intervals` and `difference_p_values`."""
    values = np.asarray(differences, dtype=np.float64)
    queries, columns = values.shape
    if span is not None and values.size and not (span[0] - 1e-9 <= values.min() <= values.max() <= span[1] + 1e-9):
        raise ValueError(f"differences must lie between {span[0]:g} and {span[1]:g}")
    p = difference_p_values(values, strata, seed, units, flips)
    codes = dependence(units, queries)
    if queries < 2 or (codes is not None and not codes.any()):
        return np.full((columns, 2), np.nan), p
    if strata is not None and strata.any():
        means = weighted_values(values, strata).mean(axis=0)
        intervals = _stratified_intervals(values, level, strata, seed, codes, span)
    else:
        means = values.mean(axis=0)
        intervals = sign_flip_intervals(values, level, seed, units, flips)
        few = np.zeros(columns, dtype=bool) if span is None else few_differ(values, codes)
        if codes is not None:
            statistics = robust_t(values, codes)
            intervals = hold_both(intervals, statistics.intervals(level))
            few &= statistics.freedom < _FEWEST_DEGREES
        if span is not None and few.any():
            bounds = bounded_intervals(values[:, few], codes, span, level, RESAMPLES, seed)
            intervals[few] = hold_both(intervals[few], bounds)
    intervals = _agree(intervals, p < round(1 - level, _DECIMALS), means)
    return (intervals if span is None else np.clip(intervals, *span)), p


def _stratified_intervals(
    values: NDArray[np.float64],
    level: float,
    strata: NDArray[np.int64],
    seed: int,
    codes: NDArray[np.int64] | None,
    span: tuple[float, float] | None,
) -> NDArray[np.float64]:
    """Intervals of means of groups' means, by resampling within them: sign flips do not leave groups as they are."""
    centred = centred_values(values, strata)
    if span is None:
        return bca_intervals(centred, level, seed=seed, units=codes)
    intervals = np.empty((values.shape[1], 2))
    for column in range(values.shape[1]):
        one = slice(column, column + 1)
        stretched = centred_span(values[:, one], strata, span)
        intervals[column] = bca_intervals(centred[:, one], level, seed=seed, units=codes, span=stretched)[0]
    return intervals


def hold_both(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """(columns, 2) the smallest intervals that hold both of two."""
    return np.column_stack([np.minimum(one[:, 0], other[:, 0]), np.maximum(one[:, 1], other[:, 1])])


def _agree(intervals: NDArray[np.float64], found: NDArray[np.bool_], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intervals that end short of zero, by the step to which they are rounded, just where a difference was found.

    They do so on their own but for bounds by the span, and for sign vectors that are enumerated by the test and random
    for the interval, where p is within their noise of the level.
    """
    low, high = intervals.T
    step = 10.0**-_DECIMALS
    nearest_low = np.where(found & (means > 0), np.maximum(low, step), low)
    nearest_high = np.where(found & (means < 0), np.minimum(high, -step), high)
    return np.column_stack(
        [
            np.where(found, nearest_low, np.minimum(low, 0.0)),
            np.where(found, nearest_high, np.maximum(high, 0.0)),
        ]
    )


def sign_flip_intervals(
    differences: NDArray[np.float64],
    level: float = 0.95,
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
    flips: int = FLIPS,
) -> NDArray[np.float64]:
    """The shifts of each column that the paired randomisation test does not reject.

    Arguments as `difference_intervals`; flips are the random sign vectors where they are not enumerated.

    Returns:
        (columns, 2) lower and upper ends, rounded to 12 decimals; infinite where no shift is rejected, as with fewer
        than six units at level 0.95.
    """
    values = np.asarray(differences, dtype=np.float64)
    queries = len(values)
    codes = dependence(units, queries)
    whole, unit = as_integers(values)
    sizes = np.ones(queries)
    if codes is not None:
        whole, sizes = whole_sums(whole, codes), np.bincount(codes).astype(np.float64)
    enumerated = len(whole) <= MOST_ENUMERATED
    vectors = 1 << len(whole) if enumerated else flips
    # p < 1 - level where fewer sign vectors than this are as extreme; p counts the one found besides random ones.
    most = (1 - level) * vectors if enumerated else (1 - level) * (1 + vectors) - 1
    place = math.ceil(round(most, 9))
    intervals = np.empty((values.shape[1], 2))
    for first in range(0, values.shape[1], _COLUMNS):
        part = slice(first, first + _COLUMNS)
        intervals[part] = _typical_values(whole[:, part], sizes, vectors, seed, enumerated, place) * unit[part, None]
    return intervals.round(_DECIMALS)


def _typical_values(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], vectors: int, seed: int, enumerated: bool, place: int
) -> NDArray[np.float64]:
    """(columns, 2) the place-th smallest and largest mean of a random half of the units, from 1."""
    columns = sums.shape[1]
    if place < 1:
        return np.tile([-np.inf, np.inf], (columns, 1))
    both = np.column_stack([sums, sizes])
    totals = both.sum(axis=0)
    low, high = np.empty((columns, vectors)), np.empty((columns, vectors))
    start = 0
    for kept in [every_sign_vector(len(sums))] if enumerated else sign_vectors(len(sums), vectors, seed):
        halves = kept.astype(np.float64) @ both
        rest = totals - halves
        with np.errstate(invalid="ignore", divide="ignore"):
            one, other = halves[:, :-1] / halves[:, -1:], rest[:, :-1] / rest[:, -1:]
        # All signs alike say nothing of any shift: the test counts them for all.
        whole = (~kept.any(axis=1)) | kept.all(axis=1)
        one[whole], other[whole] = -np.inf, np.inf
        end = start + len(kept)
        np.minimum(one, other, out=low[:, start:end].T)
        np.maximum(one, other, out=high[:, start:end].T)
        start = end
    return np.column_stack(
        [np.partition(low, place - 1, axis=1)[:, place - 1], np.partition(high, vectors - place, axis=1)[:, -place]]
    )
