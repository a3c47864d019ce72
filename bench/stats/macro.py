"""Macro means over datasets, with intervals for these datasets and for other datasets of their kind."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import RESAMPLES, bca_intervals, resampled_sums, scaled_sums
from bench.stats.bounded import ANY, Span
from bench.stats.differences import intervals_and_p_values
from bench.stats.exact import as_integers
from bench.stats.units import dependence

#: Fewer sources say too little about other datasets: 95% intervals from two contain the mean of all in 78% of simulated
#: cases, from three in 90%, from five in 95% (`benchmarks/calibration.py`).
FEWEST_SOURCES = 5


def macro_intervals(
    values: Sequence[NDArray[np.float64]],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    units: Sequence[NDArray[np.int64] | None] | None = None,
    sources: Sequence[str] | None = None,
    span: Span = ANY,
) -> NDArray[np.float64]:
    """Means of datasets' means, with intervals for other datasets of the kind.

    An interval is the hull of two. The first comes from a two-level bootstrap (Davison, Hinkley 1997, 3.8): each
    resample draws as many sources as there are, with replacement, and for each drawn source the queries of its
    datasets, with replacement; a source that is drawn twice has two draws of queries. G sources show only (G - 1) / G
    of the variance between them, and percentiles treat their number as infinite, so percentiles at Φ(±√(G / (G - 1)) t)
    are used instead, where t is the quantile of Student's distribution with G - 1 degrees of freedom (the expanded
    percentile interval of Hesterberg 2015). The second is that of `these_intervals`, so no interval is narrower for
    other datasets than for these: values that are all equal on every dataset do not vary in any resample.

    With fewer than `FEWEST_SOURCES` sources, the interval is still too narrow. A single source says nothing about
    others: it has the interval of `these_intervals`, which for a single dataset is its own.

    The systems share all draws. With units, those of a dataset are resampled instead of its queries. Sums are whole
    numbers, so the same inputs give the same intervals to the last bit.

    Args:
        values: for each dataset, (its queries, systems) finite; the same systems everywhere.
        level: between 0 and 1.
        resamples: bootstrap samples.
        units: for each dataset, (its queries,) as from `bench.stats.units.dependence`; None if all are independent.
        sources: for each dataset, the name of its source. Datasets of one source, such as splits of one benchmark,
            are drawn together, and the mean is that over sources of the mean over a source's datasets, so that a source
            does not count more for having many. None if each dataset is a source of its own.
        span: the range of the means.

    Returns:
        (systems, 3) mean, lower and upper end, within the span.

    Raises:
        ValueError: there are no datasets, one has no queries, systems differ, a value is not finite or outside the
            span, the level is out of range, or units or sources are invalid.
    """
    intervals = these_intervals(values, level, resamples, units, sources, span)
    parts = [np.asarray(part, dtype=np.float64) for part in values]
    members = _members(sources, len(parts))
    count = len(members)
    if count == 1:
        return intervals
    codes = [dependence(None if units is None else units[place], len(part)) for place, part in enumerate(parts)]
    random = np.random.default_rng(0)
    # How often each resample draws each source; the order of draws does not affect a mean.
    drawn = random.multinomial(resamples * [count], np.full(count, 1 / count))
    samples = np.zeros((resamples, len(intervals)))
    for places, times in zip(members, drawn.T, strict=True):
        # Keep means of the same resample together.
        rows = np.repeat(np.arange(resamples), times)
        for place in places:
            resampled = _resampled_means(parts[place], codes[place], len(rows), random)
            np.add.at(samples, rows, resampled / len(places))
    return hull(intervals, samples / count, count, level)


def macro_intervals_of_tables(
    values: Sequence[Sequence[NDArray[np.float64]]],
    units: Sequence[Sequence[NDArray[np.int64]]],
    sources: Sequence[str],
    spans: Sequence[Span],
) -> list[NDArray[np.float64]]:
    """`macro_intervals` of several tables over the same datasets, such as one per metric.

    Tables with the same span and units share their draws: their numbers are the same, to the last bit, one by one.

    Args:
        values, units, spans: for each table, as in `macro_intervals`.
        sources: as in `macro_intervals`.
    """
    found = [np.empty((0, 3))] * len(values)
    alike = defaultdict[tuple[Any, ...], list[int]](list)
    for i, (codes, span) in enumerate(zip(units, spans, strict=True)):
        alike[span, *(part.tobytes() for part in codes)].append(i)
    for members in alike.values():
        together = [np.hstack(parts) for parts in zip(*(values[i] for i in members), strict=True)]
        first = members[0]
        intervals = macro_intervals(together, units=units[first], sources=sources, span=spans[first])
        ends = np.cumsum([values[i][0].shape[1] for i in members])[:-1]
        for i, part in zip(members, np.split(intervals, ends), strict=True):
            found[i] = part
    return found


def these_intervals(
    values: Sequence[NDArray[np.float64]],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    units: Sequence[NDArray[np.int64] | None] | None = None,
    sources: Sequence[str] | None = None,
    span: Span = ANY,
) -> NDArray[np.float64]:
    """Means of datasets' means, with intervals for these datasets with other queries.

    Each dataset has its own interval, as from `bench.stats.bootstrap.bca_intervals`; `combined_intervals` merges them.

    Args, returns and errors as in `macro_intervals`.
    """
    parts = [np.asarray(part, dtype=np.float64) for part in values]
    if not parts or any(part.ndim != 2 or not len(part) or not np.isfinite(part).all() for part in parts):
        raise ValueError("each dataset must be a table of finite numbers, one row for each query")
    if len({part.shape[1] for part in parts}) > 1:
        raise ValueError("all datasets must have the same systems")
    if not 0 < level < 1:
        raise ValueError(f"a level is a number between 0 and 1: {level}")
    if any(given is not None and len(given) != len(parts) for given in (units, sources)):
        raise ValueError("units and sources must name those of each dataset")
    own = [
        bca_intervals(part, level, resamples, units=None if units is None else units[place], span=span)
        for place, part in enumerate(parts)
    ]
    return combined_intervals(np.stack([_means(part) for part in parts]), np.stack(own), sources, span)


def lead_intervals(
    values: Sequence[NDArray[np.float64]],
    units: Sequence[NDArray[np.int64]],
    sources: Sequence[str],
    span: Span,
) -> NDArray[np.float64]:
    """The first system's lead in macro mean over the others, with 95% intervals.

    The intervals are those of `macro_intervals` for differences on the same queries. Fewer than `FEWEST_SOURCES`
    sources say too little about other datasets: then the intervals are about these datasets alone, from
    `intervals_and_p_values` on `macro_values`, like tests on these datasets. Variance between datasets widens them, as
    it weakens that test.

    Args:
        values: for each dataset, (its queries, systems) finite.
        units, sources: as of `macro_values`.
        span: the range of the differences.

    Returns:
        (systems, 3) difference of the first minus each system, lower and upper end; the ends are NaN if nothing is
        known about the spread.
    """
    differences = [part[:, :1] - part for part in values]
    if len(set(sources)) >= FEWEST_SOURCES:
        return macro_intervals(differences, units=units, sources=sources, span=span)
    table, codes = macro_values(differences, units, sources)
    scale = float(_scales(differences, sources).max())
    ends = intervals_and_p_values(table, units=codes, span=Span(scale * span.low, scale * span.high, span.each))[0]
    ends[~np.isfinite(ends).all(axis=1)] = np.nan
    return np.column_stack([table.mean(axis=0), ends])


def combined_intervals(
    means: NDArray[np.float64],
    own: NDArray[np.float64],
    sources: Sequence[str] | None = None,
    span: Span = ANY,
) -> NDArray[np.float64]:
    """The mean over sources of datasets' means, with an interval made of the datasets' own (MOVER; Zou, Donner 2008).

    With weights w of the means m and own intervals from l to u, it reaches from M - √Σ w² (m - l)² to M + √Σ w² (u -
    m)² around M = Σ w m. So it is as asymmetric as they are, and a mean at the end of its span, where resamples do not
    vary, keeps the width from its dataset. The datasets' errors are treated as independent, even within one source, as
    in tests over several datasets.

    Args:
        means: (datasets, systems).
        own: (datasets, systems, 2) the ends of their intervals; NaN if a single unit leaves them open, which is
            replaced by the span.
        sources: (datasets,); None if each is a source of its own.
        span: the range of the means.

    Returns:
        (systems, 3) mean, lower and upper end, within the span. A single dataset has its own interval, to the last bit.
        The ends are NaN if a dataset's own are, and there is neither a span nor another source.
    """
    members = _members(sources, len(means))
    intervals = np.empty((means.shape[1], 3))
    if len(means) == 1:
        intervals[:, 0], intervals[:, 1:] = means[0], own[0]
        return intervals
    weights = np.empty((len(means), 1))
    for places in members:
        weights[places] = 1 / (len(members) * len(places))
    reach = np.abs(own - means[:, :, None])
    # The mean lies in its interval except for corrections of its bias.
    reach[:, :, 0][own[:, :, 0] > means] = 0.0
    reach[:, :, 1][own[:, :, 1] < means] = 0.0
    ends = np.abs(np.array([span.low, span.high]) - means[:, :, None])
    reach = np.where(np.isnan(reach) & np.isfinite(ends), ends, reach)
    if len(members) > 1:
        reach = np.nan_to_num(reach)
    squares = ((weights[:, :, None] * reach) ** 2).sum(axis=0)
    intervals[:, 0] = source_means(means, sources).mean(axis=0)
    intervals[:, 1:] = span.clip(intervals[:, :1] + np.sqrt(squares) * [-1, 1])
    return intervals


def hull(
    intervals: NDArray[np.float64], samples: NDArray[np.float64], sources: int, level: float = 0.95
) -> NDArray[np.float64]:
    """Intervals widened to contain the expanded percentiles of resampled macro means, as in `macro_intervals`.

    Args:
        intervals: (systems, 3) mean, lower and upper end.
        samples: (resamples, systems) macro means of resampled sources, within the span of the values.
        sources: number of sources, at least two.
        level: between 0 and 1.
    """
    from scipy.special import stdtrit

    quantile = float(stdtrit(sources - 1, (1 - level) / 2))
    # Rounded, because functions of the t distribution may differ in the last bits between processors.
    tail = round(NormalDist().cdf(quantile * math.sqrt(sources / (sources - 1))), 12)
    low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
    mean, first, last = intervals.T
    return np.column_stack([mean, np.fmin(first, low), np.fmax(last, high)])


def macro_values(
    values: Sequence[NDArray[np.float64]], units: Sequence[NDArray[np.int64]], sources: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """One table of all datasets whose plain mean is the macro mean, for tests on these datasets.

    The mean is linear in the queries, so a dataset's values are scaled to its share.

    Args:
        values: for each dataset, (its queries, systems).
        units: for each dataset, (its queries,) the unit of independence of each query, numbered from 0 without a gap.
        sources: for each dataset, the name of its source.

    Returns:
        (queries of all, systems) values; (queries of all,) units, those of different datasets apart.
    """
    scaled = [part * scale for part, scale in zip(values, _scales(values, sources), strict=True)]
    first = np.cumsum([0, *(int(codes.max()) + 1 for codes in units)])
    return np.concatenate(scaled), np.concatenate([codes + first[place] for place, codes in enumerate(units)])


def _scales(values: Sequence[NDArray[np.float64]], sources: Sequence[str]) -> NDArray[np.float64]:
    """(datasets,) the factor that gives a dataset its share in the mean over all queries."""
    sizes = np.array([len(part) for part in values])
    per_source = np.array([sources.count(name) for name in sources])
    scales: NDArray[np.float64] = sizes.sum() / (sizes * per_source * len(set(sources)))
    return scales


def source_means(means: NDArray[np.float64], sources: Sequence[str] | None) -> NDArray[np.float64]:
    """(sources, systems) means of the (datasets, systems) means of each source, in the order of its first dataset."""
    return np.array([means[places].mean(axis=0) for places in _members(sources, len(means))])


def _members(sources: Sequence[str] | None, datasets: int) -> list[list[int]]:
    """The datasets of each source, in the order of its first one."""
    members: dict[str | int, list[int]] = {}
    for place in range(datasets):
        members.setdefault(place if sources is None else sources[place], []).append(place)
    return list(members.values())


def _means(part: NDArray[np.float64]) -> NDArray[np.float64]:
    """(systems,) means of a dataset, exact up to the rounding of the result."""
    whole, unit = as_integers(part)
    means: NDArray[np.float64] = whole.sum(axis=0) * unit / len(part)
    return means


def _resampled_means(
    part: NDArray[np.float64], codes: NDArray[np.int64] | None, resamples: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """(resamples, systems) means of a dataset's resamples."""
    if codes is None:
        whole, unit = as_integers(part)
        return resampled_sums(whole, resamples, random) * unit / len(part)
    by_unit, sizes, unit = scaled_sums(part, codes)
    drawn = resampled_sums(np.column_stack([by_unit, sizes]), resamples, random)
    resampled: NDArray[np.float64] = drawn[:, :-1] * unit / drawn[:, -1:]
    return resampled
