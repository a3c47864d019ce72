"""Comparing systems over datasets: Friedman test, mean ranks, Nemenyi's critical difference."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.stats.classical import tied_ranks
from bench.stats.noninferiority import LEVEL


def friedman(scores: NDArray[np.float64]) -> float:
    """p-value of the hypothesis that all systems are alike: every order of them is equally likely within a block.

    Friedman's chi-square with the correction for ties, as in `scipy.stats.friedmanchisquare`: an approximation that
    needs some ten blocks (Demšar 2006). Two systems are compared by the exact sign test, to which Friedman's test
    reduces.

    Args:
        scores: (blocks, systems), finite; a block is a dataset, or a query. Higher is better.

    Returns:
        Between 0 and 1, never NaN: 1 for a single system, for a single block, and if the systems share their rank
            in every block.

    Raises:
        ValueError: there are no blocks or no systems, or a score is not finite.
    """
    from scipy.special import bdtr, chdtrc

    ranks = _ranks(scores)
    blocks, systems = ranks.shape
    if systems < 2 or blocks < 2 or (ranks == ranks[:, :1]).all():
        return 1.0
    if systems == 2:
        wins, losses = (int((ranks[:, 0] < ranks[:, 1]).sum()), int((ranks[:, 0] > ranks[:, 1]).sum()))
        return float(min(1.0, 2 * bdtr(min(wins, losses), wins + losses, 0.5)))
    counts = [np.unique(row, return_counts=True)[1] for row in ranks]
    ties = sum(float((number**3 - number).sum()) for number in counts)
    sums = ranks.sum(axis=0)
    statistic = 12 / (systems * blocks * (systems + 1)) * (sums**2).sum() - 3 * blocks * (systems + 1)
    return float(chdtrc(systems - 1, statistic / (1 - ties / (systems * (systems**2 - 1) * blocks))))


def average_ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over blocks of each system's rank in a block: 1 is best, and systems with equal scores share their ranks.

    Args and errors as in `friedman`; scores that differ by less than 1e-12 of the largest are equal.

    Returns:
        (systems,) between 1 and the number of systems; their mean is (systems + 1) / 2.
    """
    means: NDArray[np.float64] = _ranks(scores).mean(axis=0)
    return means


@cache
def nemenyi_difference(systems: int, blocks: int, level: float = LEVEL) -> float:
    """The critical difference of average ranks: systems farther apart differ significantly (Nemenyi 1963).

    CD = q √(k (k + 1) / (6 N)) for k systems and N blocks, where q is the studentised range's quantile at 1 - level
    for k groups and infinitely many degrees of freedom, divided by √2 (Demšar 2006, table 5).

    Args:
        systems: at least 2.
        blocks: datasets, at least 1.
        level: family-wise error rate over all pairs, between 0 and 1.

    Raises:
        ValueError: there are fewer systems or blocks, or the level is out of range.
    """
    from scipy.stats import studentized_range

    if systems < 2 or blocks < 1 or not 0 < level < 1:
        raise ValueError(
            "a critical difference needs two systems, one block and a level between 0 and 1: "
            f"{systems}, {blocks}, {level}"
        )
    quantile = float(studentized_range.ppf(1 - level, systems, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(systems * (systems + 1) / (6 * blocks))


def _ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """(blocks, systems) ranks, 1 for the highest score."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ValueError("scores must be a table of finite numbers, one row for each block, one column for each system")
    largest = float(np.abs(values).max())
    return np.stack([tied_ranks(row) for row in -np.round(values / (largest or 1.0), 12)])
