"""Macro means over datasets, with two-level bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import RESAMPLES, as_integers, resampled_sums


def macro_interval(
    values: Sequence[NDArray[np.float64]], level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float, float]:
    """The mean of datasets' means and its interval, for one system: see `macro_intervals`.

    Args:
        values: for each dataset, (its queries,) finite.

    Returns:
        Mean, lower and upper end.
    """
    mean, low, high = macro_intervals([np.reshape(part, (-1, 1)) for part in values], level, resamples, seed)[0]
    return float(mean), float(low), float(high)


def macro_intervals(
    values: Sequence[NDArray[np.float64]], level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """Means of datasets' means and their percentile intervals, by a two-level bootstrap (Davison, Hinkley 1997, 3.8).

    Each resample draws as many datasets as there are, with replacement, and for each one drawn its queries, with
    replacement; a dataset that is drawn twice has two draws of queries. So the interval is about other datasets of the
    kind, where `bench.stats.strata` leaves the datasets as they are. With few datasets it is too narrow: a sample of G
    shows (G - 1) / G of the variance between datasets, which is half of it for two.

    The systems share all draws. A single dataset is always the one drawn: only its queries vary, and the interval says
    nothing about other datasets. Sums are whole numbers, so the same inputs give the same intervals to the last bit.

    Args:
        values: for each dataset, (its queries, systems) finite; the same systems everywhere.
        level: between 0 and 1.
        resamples: bootstrap samples.
        seed: the same seed gives the same intervals.

    Returns:
        (systems, 3) mean, lower and upper end. With a single dataset of a single query nothing is known about the
        spread, and the ends are nan.

    Raises:
        ValueError: there are no datasets, one has no queries, systems differ, a value is not finite, or the level is
            outside.
    """
    parts = [np.asarray(part, dtype=np.float64) for part in values]
    if not parts or any(part.ndim != 2 or not len(part) or not np.isfinite(part).all() for part in parts):
        raise ValueError("each dataset must be a table of finite numbers, one row for each query")
    if len({part.shape[1] for part in parts}) > 1:
        raise ValueError("all datasets must have the same systems")
    if not 0 < level < 1:
        raise ValueError(f"a level is a number between 0 and 1: {level}")
    random = np.random.default_rng(seed)
    # How often each resample draws each dataset; the order in which it does makes no difference to a mean.
    drawn = random.multinomial(resamples * [len(parts)], np.full(len(parts), 1 / len(parts)))
    means = np.zeros(parts[0].shape[1])
    samples = np.zeros((resamples, len(means)))
    for part, times in zip(parts, drawn.T, strict=True):
        whole, unit = as_integers(part)
        means += whole.sum(axis=0) * unit / len(part)
        sums = resampled_sums(whole, int(times.sum()), random)
        # Sums of the same resample are together.
        np.add.at(samples, np.repeat(np.arange(resamples), times), sums * unit / len(part))
    intervals = np.empty((len(means), 3))
    intervals[:, 0] = means / len(parts)
    if len(parts) == 1 and len(parts[0]) == 1:
        intervals[:, 1:] = np.nan
    else:
        ends = [(1 - level) / 2, (1 + level) / 2]
        intervals[:, 1:] = np.quantile(samples / len(parts), ends, axis=0).T
    return intervals
