"""Macro means over datasets, with two-level bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import RESAMPLES, resampled_sums, scaled_sums
from bench.stats.exact import as_integers
from bench.stats.units import dependence


def macro_intervals(
    values: Sequence[NDArray[np.float64]],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    units: Sequence[NDArray[np.int64] | None] | None = None,
    sources: Sequence[str] | None = None,
) -> NDArray[np.float64]:
    """Means of datasets' means and their percentile intervals, by a two-level bootstrap (Davison, Hinkley 1997, 3.8).

    Each resample draws as many datasets as there are, with replacement, and for each one drawn its queries, with
    replacement; a dataset that is drawn twice has two draws of queries. So the interval is about other datasets of the
    kind, where `bench.stats.strata` leaves the datasets as they are. With few datasets it is too narrow: a sample of G
    shows (G - 1) / G of the variance between datasets, which is half of it for two.

    The systems share all draws. A single dataset is always the one drawn: only its queries vary, and the interval says
    nothing about other datasets. With units, those of a dataset are resampled instead of its queries.

    Datasets of one source, such as splits of one benchmark, are not independent. With sources, it is these that are
    drawn; all datasets of a source that is drawn come with it, each with its own draw of queries. The mean is then that
    over sources of the mean over a source's datasets, so that a source does not count more for having many.

    Sums are whole numbers, so the same inputs give the same intervals to the last bit.

    Args:
        values: for each dataset, (its queries, systems) finite; the same systems everywhere.
        level: between 0 and 1.
        resamples: bootstrap samples.
        seed: the same seed gives the same intervals.
        units: for each dataset, (its queries,) the unit of independence of each query, numbered from 0 without a gap,
            or None for independent queries. None if they are independent everywhere.
        sources: for each dataset, the name of its source. None if each is a source of its own.

    Returns:
        (systems, 3) mean, lower and upper end. With a single source whose datasets have a single unit each nothing is
        known about the spread, and the ends are nan.

    Raises:
        ValueError: there are no datasets, one has no queries, systems differ, a value is not finite, the level is
            outside, units or sources are not one for each dataset, or units are not numbered from 0 without a gap, or
            not one for each query.
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
    codes = [dependence(None if units is None else units[place], len(part)) for place, part in enumerate(parts)]
    members: dict[str | int, list[int]] = {}
    for place in range(len(parts)):
        members.setdefault(place if sources is None else sources[place], []).append(place)
    random = np.random.default_rng(seed)
    # How often each resample draws each source; the order in which it does makes no difference to a mean.
    drawn = random.multinomial(resamples * [len(members)], np.full(len(members), 1 / len(members)))
    means = np.zeros(parts[0].shape[1])
    samples = np.zeros((resamples, len(means)))
    for places, times in zip(members.values(), drawn.T, strict=True):
        # Means of the same resample are together.
        rows = np.repeat(np.arange(resamples), times)
        for place in places:
            mean, resampled = _resampled_means(parts[place], codes[place], len(rows), random)
            means += mean / len(places)
            np.add.at(samples, rows, resampled / len(places))
    intervals = np.empty((len(means), 3))
    intervals[:, 0] = means / len(members)
    if len(members) == 1 and all(_single(part, code) for part, code in zip(parts, codes, strict=True)):
        intervals[:, 1:] = np.nan
    else:
        ends = [(1 - level) / 2, (1 + level) / 2]
        intervals[:, 1:] = np.quantile(samples / len(members), ends, axis=0).T
    return intervals


def _resampled_means(
    part: NDArray[np.float64], codes: NDArray[np.int64] | None, resamples: int, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(systems,) means of a dataset, and (resamples, systems) those of its resamples."""
    if codes is None:
        whole, unit = as_integers(part)
        sums = resampled_sums(whole, resamples, random)
        return whole.sum(axis=0) * unit / len(part), sums * unit / len(part)
    by_unit, sizes, unit = scaled_sums(part, codes)
    drawn = resampled_sums(np.column_stack([by_unit, sizes]), resamples, random)
    return by_unit.sum(axis=0) * unit / len(part), drawn[:, :-1] * unit / drawn[:, -1:]


def _single(part: NDArray[np.float64], codes: NDArray[np.int64] | None) -> bool:
    """Whether a dataset is a single unit, so that its resamples do not vary."""
    return len(part) == 1 or (codes is not None and not codes.any())
