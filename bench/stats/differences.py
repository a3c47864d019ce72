"""Intervals of mean differences that agree with their test. All comparisons use them.

The test is the paired randomisation test (`bench.stats.randomisation`). A shift δ of all differences is in the interval
if the test does not reject it: if, with the sums of units S_g - n_g δ, at least the share 1 - level of the sign vectors
is as extreme as the observed one. A sign vector is as extreme for every δ between the mean over the units whose sign it
keeps and the mean over those whose sign it changes. So the ends of the interval are quantiles of these means of random
halves, the typical values of Hartigan (1969): no search is needed, and the interval agrees with the test exactly.

Where the test alone is known to be inaccurate, the interval is extended to that of a second method:

- dependent queries: Student's t corrected for skewness (`bench.stats.robust_t`);
- few units that differ, and a known span: `bench.stats.bounded`, for values that the sample lacks.

The p-values of both count too (`second_looks`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import RESAMPLES
from bench.stats.bounded import ANY, Span, bounded_intervals, bounded_p_values
from bench.stats.exact import as_integers
from bench.stats.multiple import LEVEL
from bench.stats.randomisation import FLIPS, MOST_ENUMERATED, every_sign_vector, randomisation_test, sign_vectors
from bench.stats.robust_t import robust_t
from bench.stats.units import dependence, whole_sums

#: Columns whose halves are in memory at once, which bounds the memory of an interval.
_COLUMNS = 32
#: With fewer degrees of freedom, dependent queries have too few units that differ for Student's t alone.
_FEWEST_DEGREES = 10
#: Decimals of the ends of intervals.
_DECIMALS = 12


def intervals_and_p_values(
    differences: NDArray[np.float64],
    level: float = 0.95,
    units: NDArray[np.int64] | None = None,
    span: Span = ANY,
    flips: int = FLIPS,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Intervals of the mean of each column of paired differences, and two-sided p-values of a mean of zero.

    An interval contains zero exactly if p is at least 1 - level. p combines the randomisation test and `second_looks`.

    Args:
        differences: (queries, columns), finite.
        level: coverage, between 0 and 1.
        units: (queries,) as of `bench.stats.units.dependence`; None for independent queries.
        span: the range of the mean differences, such as `Span(-1, 1)` for shares.
        flips: random sign vectors, where they are not enumerated.

    Returns:
        (columns, 2) lower and upper ends, within the span; infinite if there are too few units for this level, and NaN
        if nothing is known about the spread. (columns,) p-values.

    Raises:
        ValueError: units are not as `dependence` takes them, or a value is outside the span.
    """
    values = np.asarray(differences, dtype=np.float64)
    span.check(values)
    codes = dependence(units, len(values))
    p = second_looks(randomisation_test(values, flips, units=units), values, codes, span)
    shifts = sign_flip_intervals(values, level, units, flips)
    return _complete(values, shifts, p, level, codes, span), p


def pair_intervals(
    values: NDArray[np.float64],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    p: NDArray[np.float64],
    level: float = 0.95,
    units: NDArray[np.int64] | None = None,
    span: Span = ANY,
) -> NDArray[np.float64]:
    """`intervals_and_p_values` of many pairs of systems, which share the sums of random halves of their units.

    Args:
        values: (queries, systems), finite.
        first, second: (pairs,) columns.
        p: (pairs,) as from `intervals_and_p_values`.
        level, units, span: as of `intervals_and_p_values`.

    Returns:
        (pairs, 2) lower and upper ends of first minus second.
    """
    differences = values[:, first] - values[:, second]
    span.check(differences)
    codes = dependence(units, len(differences))
    shifts = sign_flip_intervals(values, level, codes, pairs=(first, second))
    return _complete(differences, shifts, p, level, codes, span)


def second_looks(
    p: NDArray[np.float64],
    differences: NDArray[np.float64],
    units: NDArray[np.int64] | None = None,
    span: Span = ANY,
) -> NDArray[np.float64]:
    """p-values of the randomisation test, or larger ones where it alone is known to be inaccurate.

    For dependent queries none is below that of Student's t. If few units differ and bounds from the span contain zero,
    the p-value of these bounds replaces one below `LEVEL`: signs are only exchangeable if differences are symmetric, so
    a sample of many small gains that lacks the rare large loss looks certain to the test. The bounds allow for that
    loss.

    Args:
        p: (columns,) from the randomisation test of `differences`.
        differences, units, span: as of `intervals_and_p_values`.
    """
    codes = dependence(units, len(differences))
    statistics = None if codes is None else robust_t(differences, codes)
    p = p.copy() if statistics is None else np.maximum(p, statistics.p_values())
    found = np.flatnonzero(p < LEVEL)
    if len(found):
        values = differences[:, found]
        few = _bound_columns(values, None if statistics is None else statistics.freedom[found], codes, span)
        bounds = bounded_p_values(values[:, few], codes, span, RESAMPLES, seed=0)
        p[found[few]] = np.where(bounds >= LEVEL, bounds, p[found[few]])
    return p


def _bound_columns(
    values: NDArray[np.float64], freedom: NDArray[np.float64] | None, codes: NDArray[np.int64] | None, span: Span
) -> NDArray[np.bool_]:
    """(columns,) whether the span counts: few units differ, for dependent queries too few for Student's t alone."""
    few = span.binds(values, codes)
    return few if freedom is None else few & (freedom < _FEWEST_DEGREES)


def _complete(
    values: NDArray[np.float64],
    shifts: NDArray[np.float64],
    p: NDArray[np.float64],
    level: float,
    codes: NDArray[np.int64] | None,
    span: Span,
) -> NDArray[np.float64]:
    """The shifts that the randomisation test does not reject, extended by the second methods."""
    if len(values) < 2 or (codes is not None and not codes.any()):
        # The spread of a single unit is unknown.
        return np.full((values.shape[1], 2), np.nan)
    intervals, freedom = shifts, None
    if codes is not None:
        statistics = robust_t(values, codes)
        intervals, freedom = hold_both(intervals, statistics.intervals(level)), statistics.freedom
    few = _bound_columns(values, freedom, codes, span)
    # Units that do not vary say nothing about how far the mean may move.
    intervals[intervals[:, 0] == intervals[:, 1]] = np.nan
    if few.any():
        bounds = bounded_intervals(values[:, few], codes, span, level, RESAMPLES, seed=0)
        intervals[few] = hold_both(intervals[few], bounds)
    return span.clip(agree(intervals, p < round(1 - level, _DECIMALS), values.mean(axis=0)))


def hold_both(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """(columns, 2) the smallest intervals that contain both; the other one if one is NaN."""
    return np.column_stack([np.fmin(one[:, 0], other[:, 0]), np.fmax(one[:, 1], other[:, 1])])


def agree(intervals: NDArray[np.float64], found: NDArray[np.bool_], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """(columns, 2) intervals that end just short of zero, by the step of rounding, exactly if a difference was found.

    They do so without help, except for bounds from the span, and if the test enumerates sign vectors that the interval
    samples and p is within their noise of the level.
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
    units: NDArray[np.int64] | None = None,
    flips: int = FLIPS,
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
) -> NDArray[np.float64]:
    """The shifts of each column, or of differences of pairs of columns, that the randomisation test does not reject.

    Arguments as in `intervals_and_p_values`; flips is the number of random sign vectors, unless all are enumerated.

    Returns:
        (columns, 2) lower and upper ends, rounded to 12 decimals; infinite if no shift is rejected, as with fewer than
        six units at level 0.95.
    """
    values = np.asarray(differences, dtype=np.float64)
    codes = dependence(units, len(values))
    whole, unit = as_integers(values)
    if pairs is not None:
        # One scale for all systems, because their sums are subtracted.
        unit = np.full(len(unit), unit.max())
        whole = np.rint(values / unit)
    sizes = np.ones(len(values))
    if codes is not None:
        whole, sizes = whole_sums(whole, codes), np.bincount(codes).astype(np.float64)
    first, second = (np.arange(values.shape[1]), None) if pairs is None else pairs
    enumerated = len(whole) <= MOST_ENUMERATED
    vectors = 1 << len(whole) if enumerated else flips
    # p < 1 - level if fewer sign vectors than this are as extreme; p counts the observed one besides random ones.
    most = (1 - level) * vectors if enumerated else (1 - level) * (1 + vectors) - 1
    place = math.ceil(round(most, 9))
    intervals = np.empty((len(first), 2))
    for start in range(0, len(first), _COLUMNS):
        part = slice(start, start + _COLUMNS)
        columns = first[part], None if second is None else second[part]
        intervals[part] = _typical_values(whole, sizes, vectors, enumerated, place, columns)
    return (intervals * unit[first][:, None]).round(_DECIMALS)


def _typical_values(
    sums: NDArray[np.float64],
    sizes: NDArray[np.float64],
    vectors: int,
    enumerated: bool,
    place: int,
    columns: tuple[NDArray[np.intp], NDArray[np.intp] | None],
) -> NDArray[np.float64]:
    """(columns, 2) the place-th smallest and largest mean of a random half of the units, from 1.

    Args:
        sums: (units, systems) whole numbers.
        sizes: (units,) queries.
        vectors: number of sign vectors.
        enumerated: whether these are all sign vectors.
        place: from 1; below, nothing is rejected.
        columns: columns of `sums`, and those to subtract from them, if any.
    """
    first, second = columns
    if place < 1:
        return np.tile([-np.inf, np.inf], (len(first), 1))
    # Only the systems that these columns need.
    needed, positions = np.unique(first if second is None else np.concatenate([first, second]), return_inverse=True)
    own, others = positions[: len(first)], positions[len(first) :]
    both = np.column_stack([sums[:, needed], sizes])
    totals = both.sum(axis=0)
    low, high = np.empty((len(first), vectors)), np.empty((len(first), vectors))
    start = 0
    for kept in [every_sign_vector(len(sums))] if enumerated else sign_vectors(len(sums), vectors):
        halves = (kept.astype(np.float64) @ both).T
        rest = totals[:, None] - halves
        one, other = halves[own], rest[own]
        if second is not None:
            one -= halves[others]
            other -= rest[others]
        with np.errstate(invalid="ignore", divide="ignore"):
            one /= halves[-1]
            other /= rest[-1]
        # All signs alike say nothing about any shift: the test counts them for all.
        whole = (~kept.any(axis=1)) | kept.all(axis=1)
        one[:, whole], other[:, whole] = -np.inf, np.inf
        end = start + len(kept)
        np.minimum(one, other, out=low[:, start:end])
        np.maximum(one, other, out=high[:, start:end])
        start = end
    return np.column_stack(
        [np.partition(low, place - 1, axis=1)[:, place - 1], np.partition(high, vectors - place, axis=1)[:, -place]]
    )
