"""Tiers, rank intervals and macro intervals within the time budget of a site build.

Up to a size that most boards are far from, the numbers are those of `bench.stats`. Beyond it, resampling takes
minutes for one board, and what it converges to takes its place: the permuted means of systems that are alike are, for
many queries, independent normal ones, so that their range has the distribution of a studentised range; and means over
resampled queries are normal around the means found. The pages name it where it was done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.stats.macro import macro_intervals
from bench.stats.tiers import rank_intervals, tiers
from bench.stats.tukey import randomised_tukey

#: Values that are permuted for one metric of one board: about half a second's work.
PERMUTED = 30_000_000
_FEWEST, _MOST = 1_000, 10_000
_DRAWN = 400_000_000
_COMPARED = 80_000_000
MACRO_RESAMPLES = 2_000
#: Draws of the range of normal numbers.
_NORMAL_DRAWS = 20_000
_RANK_DRAWS = 2_000


@dataclass(frozen=True)
class RankedSystems:
    """Systems on one metric.

    Attributes:
        ids: (systems,) what the systems are called.
        means: (systems,).
        tier: (systems,) from 1.
        ranks: (systems, 2) best and worst rank, 95% of the resamples of queries lie between.
        pairs: (systems, systems) p-values of the randomised Tukey test.
        n: queries, or datasets.
        permutations: of the test; 0 where its limit was taken.
    """

    ids: tuple[str, ...]
    means: NDArray[np.float64]
    tier: NDArray[np.int64]
    ranks: NDArray[np.int64]
    pairs: NDArray[np.float64]
    n: int
    permutations: int

    def place(self, name: str) -> int | None:
        """The position of a system; None where it is not ranked."""
        return self.ids.index(name) if name in self.ids else None


def ranked_systems(ids: Sequence[str], values: NDArray[np.float64]) -> RankedSystems:
    """Tiers and ranks of systems on the same queries, or on the same datasets.

    Args:
        ids: (systems,).
        values: (queries, systems), finite; higher is better.
    """
    permutations = min(_MOST, PERMUTED // values.size)
    if permutations >= _FEWEST:
        pairs = randomised_tukey(values, permutations)
        # Each system is held against all others in every resample.
        resamples = min(_MOST, _DRAWN // values.size, _COMPARED // values.shape[1] ** 2)
        ranks = rank_intervals(values, resamples=max(_FEWEST, resamples))
    else:
        permutations, pairs, ranks = 0, tukey_limit(values), ranks_limit(values)
    means = values.mean(axis=0)
    return RankedSystems(
        ids=tuple(ids),
        means=means,
        tier=tiers(means, pairs),
        ranks=ranks,
        pairs=pairs,
        n=len(values),
        permutations=permutations,
    )


def ranks_limit(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The ranks of `rank_intervals` in the limit of many queries: means of resamples are normal, with their covariance.

    Args:
        values: (queries, systems), finite.

    Returns:
        (systems, 2) best and worst rank.
    """
    queries, systems = values.shape
    centred = values - values.mean(axis=0)
    sizes, directions = np.linalg.eigh(centred.T @ centred / queries**2)
    # The symmetric root, without what rounding alone has put there: it does not hang on which basis was found of a
    # space of equal sizes, so that neither the machine nor its number of threads shows in the ranks.
    sizes[sizes < 1e-12 * sizes.max(initial=0.0)] = 0.0
    steps = (directions * np.sqrt(sizes)) @ directions.T
    normal = np.random.default_rng(0).standard_normal((_RANK_DRAWS, systems))
    # Rounded, so that systems of the same values tie.
    drawn = np.round(values.mean(axis=0) + normal @ steps.T, 9)
    order = np.argsort(-drawn, axis=1)
    placed = np.take_along_axis(-drawn, order, axis=1)
    first = np.ones((_RANK_DRAWS, systems), dtype=np.bool_)
    first[:, 1:] = placed[:, 1:] != placed[:, :-1]
    last = np.ones_like(first)
    last[:, :-1] = first[:, 1:]
    # Ranks of a group of equals: the place of its first member, and that of its last.
    ranks = np.arange(1, systems + 1)
    best, worst = np.empty(drawn.shape, dtype=np.int64), np.empty(drawn.shape, dtype=np.int64)
    np.put_along_axis(best, order, np.maximum.accumulate(np.where(first, ranks, 0), axis=1), axis=1)
    ends = np.where(last, ranks, systems + 1)
    np.put_along_axis(worst, order, np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1], axis=1)
    low = np.quantile(best, 0.025, axis=0, method="lower")
    return np.column_stack([low, np.quantile(worst, 0.975, axis=0, method="higher")]).astype(np.int64)


def tukey_limit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The p-values of `randomised_tukey` in the limit of many queries.

    Permuting a query's values among k systems gives each the variance s² of that query (its values' own, divided by
    k), and every two the covariance -s² / (k - 1): for the range, the same as k independent variables of variance
    s² k / (k - 1). Sums over many queries are normal.

    Args:
        values: (queries, systems), finite.

    Returns:
        (systems, systems), symmetric, with a diagonal of 1.
    """
    queries, systems = values.shape
    if systems < 2:
        return np.ones((systems, systems))
    spread = float(np.sqrt(values.var(axis=1, ddof=1).sum()))
    means = np.round(values.mean(axis=0), 12)
    differences = np.abs(means[:, None] - means[None, :]) * queries
    if not spread:
        return np.ones((systems, systems))
    hits = _NORMAL_DRAWS - np.searchsorted(_normal_ranges(systems), (differences / spread).ravel())
    p: NDArray[np.float64] = (1 + hits.reshape(systems, systems)) / (1 + _NORMAL_DRAWS)
    p[differences == 0] = 1.0
    return p


@cache
def _normal_ranges(systems: int) -> NDArray[np.float64]:
    """Sorted ranges of so many independent standard normal numbers."""
    random = np.random.default_rng(0)
    found = [np.ptp(random.standard_normal((1000, systems)), axis=1) for _ in range(_NORMAL_DRAWS // 1000)]
    return np.sort(np.concatenate(found))


def over_datasets(values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """(columns, 3) mean of datasets' means with its interval, resampling datasets and queries.

    Args:
        values: for each dataset, (queries, columns) finite; a column is a system on a metric.
    """
    return macro_intervals(values, resamples=MACRO_RESAMPLES)


def over_datasets_limit(means: NDArray[np.float64], errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same where the mean of each dataset's resampled queries is taken to be normal.

    Args:
        means: (datasets, columns).
        errors: (datasets, columns) their standard errors.
    """
    datasets, columns = means.shape
    random = np.random.default_rng(0)
    drawn = random.multinomial(MACRO_RESAMPLES * [datasets], np.full(datasets, 1 / datasets)).astype(np.float64)
    noise = random.standard_normal((MACRO_RESAMPLES, datasets)) * np.sqrt(drawn)
    samples = (drawn @ means + noise @ errors) / datasets
    found = np.empty((columns, 3))
    found[:, 0] = means.mean(axis=0)
    found[:, 1:] = np.quantile(samples, [0.025, 0.975], axis=0).T
    return found
