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
from bench.stats.robust_t import RobustT, robust_t
from bench.stats.strata import centred_span, centred_values, weighted_values
from bench.stats.units import dependence, whole_sums

#: Columns whose halves are held at once: the memory of an interval does not grow with their number.
_COLUMNS = 32
#: Dependent queries: with fewer degrees of freedom, the units that differ are too few for Student's t alone.
_FEWEST_DEGREES = 10
#: To which the ends of intervals are rounded.
_DECIMALS = 12


def _robust(values: NDArray[np.float64], codes: NDArray[np.int64] | None) -> RobustT | None:
    return None if codes is None else robust_t(values, codes)


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

    An interval holds zero just where `intervals_and_p_values` is at least 1 - level.

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
    """`difference_intervals`, and (columns,) two-sided p-values of a mean difference of zero.

    These are those of the randomisation test for independent queries, and for dependent ones the larger of that and of
    Student's t with skewness taken out.
    """
    values = _check(differences, span)
    codes = dependence(units, len(values))
    groups = np.zeros(len(values), dtype=np.int64) if strata is None else strata
    centred = centred_values(values, groups)
    statistics = _robust(centred, codes)
    p = randomisation_test(weighted_values(values, groups), flips, seed, units)
    p = p if statistics is None else np.maximum(p, statistics.p_values())
    if not groups.any():
        shifts = sign_flip_intervals(values, level, seed, units, flips)
        return _complete(values, shifts, p, statistics, level, seed, codes, span), p
    if _is_single(values, codes):
        return np.full((values.shape[1], 2), np.nan), p
    intervals = _stratified_intervals(values, centred, level, groups, seed, codes, span)
    intervals = agree(intervals, p < round(1 - level, _DECIMALS), weighted_values(values, groups).mean(axis=0))
    return (intervals if span is None else np.clip(intervals, *span)), p


def pair_intervals(
    values: NDArray[np.float64],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    p: NDArray[np.float64],
    level: float = 0.95,
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
    span: tuple[float, float] | None = None,
    flips: int = FLIPS,
) -> NDArray[np.float64]:
    """`difference_intervals` of many pairs of systems, which share the sums of random halves of their units.

    Args:
        values: (queries, systems), finite.
        first, second: (pairs,) columns.
        p: (pairs,) as of `intervals_and_p_values`.
        level, seed, units, span, flips: as of `difference_intervals`.

    Returns:
        (pairs, 2) lower and upper ends of first less second.
    """
    differences = _check(values[:, first] - values[:, second], span)
    codes = dependence(units, len(differences))
    shifts = _flip_intervals(values, level, seed, codes, flips, (first, second))
    return _complete(differences, shifts, p, _robust(differences, codes), level, seed, codes, span)


def _check(differences: NDArray[np.float64], span: tuple[float, float] | None) -> NDArray[np.float64]:
    values = np.asarray(differences, dtype=np.float64)
    if span is not None and values.size and not (span[0] - 1e-9 <= values.min() <= values.max() <= span[1] + 1e-9):
        raise ValueError(f"differences must lie between {span[0]:g} and {span[1]:g}")
    return values


def _is_single(values: NDArray[np.float64], codes: NDArray[np.int64] | None) -> bool:
    """Whether there is a single unit, of whose spread nothing is known."""
    return len(values) < 2 or (codes is not None and not codes.any())


def _complete(
    values: NDArray[np.float64],
    shifts: NDArray[np.float64],
    p: NDArray[np.float64],
    statistics: RobustT | None,
    level: float,
    seed: int,
    codes: NDArray[np.int64] | None,
    span: tuple[float, float] | None,
) -> NDArray[np.float64]:
    """The shifts that the randomisation test leaves open, and what the second looks add to them."""
    if _is_single(values, codes):
        return np.full((values.shape[1], 2), np.nan)
    intervals = shifts
    few = np.zeros(values.shape[1], dtype=bool) if span is None else few_differ(values, codes)
    if statistics is not None:
        intervals = hold_both(intervals, statistics.intervals(level))
        few &= statistics.freedom < _FEWEST_DEGREES
    means = values.mean(axis=0)
    if span is not None:
        # The other way round, an interval is the same with its sign turned: its ends are drawn in one direction.
        for turned in (False, True):
            some = few & ((means < 0) == turned)
            if some.any():
                low, high = (-span[1], -span[0]) if turned else span
                sign = -1.0 if turned else 1.0
                bounds = sign * bounded_intervals(sign * values[:, some], codes, (low, high), level, RESAMPLES, seed)
                intervals[some] = hold_both(intervals[some], bounds[:, ::-1] if turned else bounds)
    intervals = agree(intervals, p < round(1 - level, _DECIMALS), means)
    return intervals if span is None else np.clip(intervals, *span)


def _stratified_intervals(
    values: NDArray[np.float64],
    centred: NDArray[np.float64],
    level: float,
    strata: NDArray[np.int64],
    seed: int,
    codes: NDArray[np.int64] | None,
    span: tuple[float, float] | None,
) -> NDArray[np.float64]:
    """Intervals of means of groups' means, by resampling within them: sign flips do not leave groups as they are."""
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


def agree(intervals: NDArray[np.float64], found: NDArray[np.bool_], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """(columns, 2) intervals that end short of zero, by the step of rounding, just where a difference was found.

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
    return _flip_intervals(values, level, seed, dependence(units, len(values)), flips)


def _flip_intervals(
    values: NDArray[np.float64],
    level: float,
    seed: int,
    codes: NDArray[np.int64] | None,
    flips: int,
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
) -> NDArray[np.float64]:
    """`sign_flip_intervals` of columns, or of the differences of pairs of them."""
    whole, unit = as_integers(values)
    if pairs is not None:
        # One unit for all systems, since their sums are subtracted.
        unit = np.full(len(unit), unit.max())
        whole = np.rint(values / unit)
    sizes = np.ones(len(values))
    if codes is not None:
        whole, sizes = whole_sums(whole, codes), np.bincount(codes).astype(np.float64)
    first, second = (np.arange(values.shape[1]), None) if pairs is None else pairs
    enumerated = len(whole) <= MOST_ENUMERATED
    vectors = 1 << len(whole) if enumerated else flips
    # p < 1 - level where fewer sign vectors than this are as extreme; p counts the one found besides random ones.
    most = (1 - level) * vectors if enumerated else (1 - level) * (1 + vectors) - 1
    place = math.ceil(round(most, 9))
    intervals = np.empty((len(first), 2))
    for start in range(0, len(first), _COLUMNS):
        part = slice(start, start + _COLUMNS)
        columns = first[part], None if second is None else second[part]
        intervals[part] = _typical_values(whole, sizes, vectors, seed, enumerated, place, columns)
    return (intervals * unit[first][:, None]).round(_DECIMALS)


def _typical_values(
    sums: NDArray[np.float64],
    sizes: NDArray[np.float64],
    vectors: int,
    seed: int,
    enumerated: bool,
    place: int,
    columns: tuple[NDArray[np.intp], NDArray[np.intp] | None],
) -> NDArray[np.float64]:
    """(columns, 2) the place-th smallest and largest mean of a random half of the units, from 1.

    Args:
        sums: (units, systems) whole numbers.
        sizes: (units,) queries.
        vectors: how many sign vectors.
        seed, enumerated: of the sign vectors.
        place: from 1; none is rejected below.
        columns: of `sums`; those that are subtracted from them, if any.
    """
    first, second = columns
    if place < 1:
        return np.tile([-np.inf, np.inf], (len(first), 1))
    # Of the systems that these columns need.
    needed, positions = np.unique(first if second is None else np.concatenate([first, second]), return_inverse=True)
    own, others = positions[: len(first)], positions[len(first) :]
    both = np.column_stack([sums[:, needed], sizes])
    totals = both.sum(axis=0)
    low, high = np.empty((len(first), vectors)), np.empty((len(first), vectors))
    start = 0
    for kept in [every_sign_vector(len(sums))] if enumerated else sign_vectors(len(sums), vectors, seed):
        halves = (kept.astype(np.float64) @ both).T
        rest = totals[:, None] - halves
        one, other = halves[own], rest[own]
        if second is not None:
            one -= halves[others]
            other -= rest[others]
        with np.errstate(invalid="ignore", divide="ignore"):
            one /= halves[-1]
            other /= rest[-1]
        # All signs alike say nothing of any shift: the test counts them for all.
        whole = (~kept.any(axis=1)) | kept.all(axis=1)
        one[:, whole], other[:, whole] = -np.inf, np.inf
        end = start + len(kept)
        np.minimum(one, other, out=low[:, start:end])
        np.maximum(one, other, out=high[:, start:end])
        start = end
    return np.column_stack(
        [np.partition(low, place - 1, axis=1)[:, place - 1], np.partition(high, vectors - place, axis=1)[:, -place]]
    )
