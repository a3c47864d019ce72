"""Tiers of systems that are not significantly different, and rank intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import RESAMPLES, as_integers, resampled_sums


def rank_intervals(
    values: NDArray[np.float64], level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> NDArray[np.int64]:
    """The ranks that a system's mean takes when the queries are resampled (Goldstein and Spiegelhalter 1996).

    All systems are ranked on the same resamples of queries. The best rank is the lower quantile at (1 - level) / 2 of
    the number of better systems plus one, the worst rank the upper quantile at (1 + level) / 2 of the number of systems
    that are as good: systems of the same mean take all of the ranks that they share, so identical systems have the same
    interval, and it holds them all. Each interval has its level for itself, not all of them together.

    Args:
        values: (queries, systems), finite; higher is better.
        level: between 0 and 1.
        resamples: bootstrap samples.
        seed: the same seed gives the same ranks.

    Returns:
        (systems, 2) best and worst rank, 1 being the best of all. With a single query nothing is known about the
        spread, and every rank is possible.

    Raises:
        ValueError: there are no queries or no systems, a value is not finite, or the level is outside.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError("values must be a table of finite numbers, one row for each query, one column for each system")
    if not 0 < level < 1:
        raise ValueError(f"a level is a number between 0 and 1: {level}")
    queries, systems = table.shape
    if queries < 2:
        return np.tile(np.array([1, systems], dtype=np.int64), (systems, 1))
    # One unit for all systems, since their sums are compared.
    whole = as_integers(table.reshape(-1, 1))[0].reshape(queries, systems)
    sums = resampled_sums(whole, resamples, np.random.default_rng(seed))
    intervals = np.empty((systems, 2), dtype=np.int64)
    for system in range(systems):
        # Rounding moves each of two sums by half a unit for each query at most, so equal sums are this near.
        ahead = sums - sums[:, [system]]
        best = 1 + np.count_nonzero(ahead > queries, axis=1)
        worst = np.count_nonzero(ahead >= -queries, axis=1)
        intervals[system] = (
            np.quantile(best, (1 - level) / 2, method="lower"),
            np.quantile(worst, (1 + level) / 2, method="higher"),
        )
    return intervals


def tiers(means: NDArray[np.float64], p: NDArray[np.float64], level: float = 0.05) -> NDArray[np.int64]:
    """Tiers of systems: in order of their means, a system that can be told from one of its tier opens the next.

    Not to be told apart is not transitive: A may pass for B and B for C, though A is known to be better than C. Any
    division into groups must then part some pair that cannot be told apart. This one is made from the top, depends on
    means and p-values alone, and promises that no two systems of a tier can be told apart: none is in the tier of
    one that it is known to be worse than. Systems of neighbouring tiers may well be alike.

    By the p-values of `randomised_tukey`, which fall as the means move apart, it is enough to look at the first of a
    tier: who cannot be told from it cannot be told from those between either. By tests of single pairs that is not so,
    since two systems that err on the same queries are told apart by a smaller difference; so all of the tier are asked.

    Args:
        means: (systems,) finite; higher is better. Systems of the same mean are taken in the order given.
        p: (systems, systems) symmetric p-values of the pairs.
        level: significance level below which a pair differs.

    Returns:
        (systems,) from 1, the tier of the best.

    Raises:
        ValueError: a mean is not finite, or p is no symmetric table of numbers between 0 and 1 of that size.
    """
    scores, pairs = np.asarray(means, dtype=np.float64), np.asarray(p, dtype=np.float64)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise ValueError("means must be a list of finite numbers, one for each system")
    if pairs.shape != (len(scores), len(scores)) or not ((pairs >= 0) & (pairs <= 1)).all() or (pairs != pairs.T).any():
        raise ValueError("p-values must be a symmetric table of numbers between 0 and 1, one row for each system")
    found = np.zeros(len(scores), dtype=np.int64)
    members: list[int] = []
    tier = 1
    for system in np.argsort(-scores, kind="stable").tolist():
        if members and (pairs[system, members] < level).any():
            members = []
            tier += 1
        members.append(system)
        found[system] = tier
    return found
