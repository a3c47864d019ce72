"""Two systems on the same queries: the paired randomisation test, and what belongs beside its p-value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import as_integers, bca_intervals
from bench.stats.power import minimum_detectable_effect
from bench.stats.strata import centred_values, weighted_values

#: Sign flips of the Monte Carlo test.
FLIPS = 100_000
#: With so many non-zero differences or fewer, all sign vectors are enumerated.
MOST_ENUMERATED = 16
#: Numbers in a block of sign vectors: the memory of a test does not grow with the number of flips.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Paired:
    """One comparison: differences d = first - second over the same queries.

    Attributes:
        n: queries.
        difference: mean of d.
        low, high: its 95% BCa interval; None for a single query.
        p: two-sided paired randomisation test of a zero mean.
        dz: difference / standard deviation of d; None where d does not vary.
        wins, ties, losses: queries on which the first is better, equal and worse.
        detectable: the smallest mean difference that this many queries show with 80% power at the 5% level.
    """

    n: int
    difference: float
    low: float | None
    high: float | None
    p: float
    dz: float | None
    wins: int
    ties: int
    losses: int
    detectable: float

    @property
    def identical(self) -> bool:
        """Whether the two agree on every query, so that neither can be better."""
        return self.wins == self.losses == 0


def compare(differences: NDArray[np.float64], strata: NDArray[np.int64] | None = None, seed: int = 0) -> list[Paired]:
    """Compare per-query values; one comparison for each column.

    Args:
        differences: (queries, columns) first - second, finite.
        strata: (queries,) group of each query, from 0; the mean is then the mean of the groups' means.
        seed: of sign flips and bootstrap; the same seed gives the same numbers.

    Raises:
        ValueError: there are no queries, or a value is not finite.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError("differences must be a table of finite numbers, one row for each query")
    groups = np.zeros(len(values), dtype=np.int64) if strata is None else strata
    centred = centred_values(values, groups)
    means = weighted_values(values, groups).mean(axis=0)
    intervals = bca_intervals(centred, seed=seed)
    p = randomisation_test(weighted_values(values, groups), seed=seed)
    whole, _ = as_integers(values)
    # Within groups: how far the groups lie apart does not make the mean of their means uncertain.
    spread = centred.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    found = []
    for column in range(values.shape[1]):
        low, high = (None if math.isnan(end) else float(end) for end in intervals[column])
        sd = float(spread[column])
        signs = np.sign(whole[:, column])
        found.append(
            Paired(
                n=len(values),
                difference=float(means[column]),
                low=low,
                high=high,
                p=float(p[column]),
                dz=float(means[column]) / sd if sd > 0 else None,
                wins=int((signs > 0).sum()),
                ties=int((signs == 0).sum()),
                losses=int((signs < 0).sum()),
                detectable=minimum_detectable_effect(sd, len(values)),
            )
        )
    return found


def randomisation_test(differences: NDArray[np.float64], flips: int = FLIPS, seed: int = 0) -> NDArray[np.float64]:
    """Two-sided p-values of the paired randomisation test on the mean (protocol, section 5).

    Under the hypothesis that it does not matter which system an answer came from, every sign of a difference is as
    likely as the other. p is the share of sign vectors whose mean is at least as far from zero as the one found:
    counted over all 2^m of them where at most 16 differences are not zero, else estimated from random ones as
    (1 + hits) / (1 + flips). The columns share their flips.

    Sums are whole numbers, so the same inputs give the same p-values to the last bit; means that differ by rounding
    alone are equal. Differences that are zero but for rounding (far below 1e-12) are zero.

    Args:
        differences: (queries, columns), finite.
        flips: random sign vectors, where they are not enumerated.
        seed: of the random sign vectors.

    Returns:
        (columns,) p-values; 1 for identical systems.
    """
    whole, _ = as_integers(np.asarray(differences, dtype=np.float64))
    counts = np.count_nonzero(whole, axis=0)
    p = np.ones(whole.shape[1])
    few = counts <= MOST_ENUMERATED
    for column in np.flatnonzero(few):
        values = whole[:, column]
        p[column] = _enumerated(values[values != 0], len(values))
    if not few.all():
        p[~few] = _sampled(whole[:, ~few], flips, seed)
    return p


def _enumerated(values: NDArray[np.float64], queries: int) -> float:
    """The share of all sign vectors that are as extreme as the given one."""
    vectors = np.arange(1 << len(values), dtype=np.uint32)[:, None]
    kept = (vectors >> np.arange(len(values), dtype=np.uint32)) & 1
    return float(_extreme(2 * (kept.astype(np.float64) @ values) - values.sum(), values.sum(), queries).mean())


def _sampled(whole: NDArray[np.float64], flips: int, seed: int) -> NDArray[np.float64]:
    """(columns,) p-values from random sign vectors, block by block."""
    queries = len(whole)
    values = whole[(whole != 0).any(axis=1)]
    totals = values.sum(axis=0)
    random = np.random.default_rng(seed)
    # Whole words are drawn, so that the stream does not depend on where blocks end.
    words = math.ceil(len(values) / 64)
    hits = np.zeros(whole.shape[1], dtype=np.int64)
    step = max(1, _BLOCK // len(values))
    for start in range(0, flips, step):
        size = min(step, flips - start)
        drawn = random.integers(0, 1 << 64, size=(size, words), dtype=np.uint64).astype("<u8")
        kept = np.unpackbits(drawn.view(np.uint8), axis=1, count=len(values))
        hits += _extreme(2 * (kept.astype(np.float64) @ values) - totals, totals, queries).sum(axis=0)
    p: NDArray[np.float64] = (1 + hits) / (1 + flips)
    return p


def _extreme(sums: NDArray[np.float64], found: NDArray[np.float64] | float, queries: int) -> NDArray[np.bool_]:
    """Which sums are as far from zero as the one found.

    Rounding to whole numbers moves a sum by half a unit for each query at most, so equal sums are this near.
    """
    extreme: NDArray[np.bool_] = np.abs(sums) >= np.abs(found) - queries
    return extreme
