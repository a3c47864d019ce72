"""Randomised Tukey HSD test over all pairs of systems."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.stats.exact import as_integers

#: The Monte Carlo error of a p-value of 0.05 is then 0.0022, of 0.5 it is 0.005.
PERMUTATIONS = 10_000
#: Numbers in a block of permuted tables: the memory of a test does not grow with the number of permutations.
_BLOCK = 1 << 18


def randomised_tukey(
    values: NDArray[np.float64], permutations: int = PERMUTATIONS, seed: int = 0
) -> NDArray[np.float64]:
    """Two-sided p-values of all pairs, which control the family-wise error rate of them all (Carterette 2012).

    Under the hypothesis that all systems are alike, it does not matter which system a query's value came from. So each
    query's values are permuted among the systems, and the largest mean less the smallest is noted. A pair's p is
    (1 + hits) / (1 + permutations), with a hit wherever that range is at least the difference of the pair's means:
    what holds for the two that happened to come out farthest apart holds for any two, and p needs no other correction.

    p-values fall as the difference of the means grows, whatever the pair. Their standard error is
    √(p (1 - p) / permutations). Sums are whole numbers, so the same inputs give the same p-values to the last bit, and
    means that differ by rounding alone are equal.

    Args:
        values: (queries, systems), finite.
        permutations: random tables.
        seed: of the permutations.

    Returns:
        (systems, systems) p-values, symmetric, with a diagonal of 1; 1 for systems of the same mean.

    Raises:
        ValueError: there are no queries or no systems, or a value is not finite.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError("values must be a table of finite numbers, one row for each query, one column for each system")
    queries, systems = table.shape
    # One unit for all systems, since their values change places.
    whole = as_integers(table.reshape(-1, 1))[0].reshape(queries, systems)
    sums = whole.sum(axis=0)
    ranges = np.sort(_ranges(whole, permutations, seed))
    # Rounding moves each of two sums by half a unit for each query at most, in the range and in the difference.
    found = np.abs(sums[:, None] - sums[None, :]) - 2 * queries
    hits = permutations - np.searchsorted(ranges, found.ravel()).reshape(systems, systems)
    p: NDArray[np.float64] = (1 + hits) / (1 + permutations)
    return p


def _ranges(whole: NDArray[np.float64], permutations: int, seed: int) -> NDArray[np.float64]:
    """(permutations,) largest less smallest sum of a system, with every query's values permuted."""
    # Queries on which all systems agree are the same in any order. Sorted, so that the order in which systems are named
    # makes no difference: a range does not know whose the sums are.
    kept = np.sort(whole[(whole != whole[:, :1]).any(axis=1)], axis=1)
    if not len(kept):
        return np.zeros(permutations)
    random = np.random.default_rng(seed)
    ranges = np.empty(permutations)
    ones = np.ones(len(kept))
    step = max(1, _BLOCK // kept.size)
    for start in range(0, permutations, step):
        size = min(step, permutations - start)
        tables = np.tile(kept, (size, 1))
        random.permuted(tables, axis=1, out=tables)
        sums = ones @ tables.reshape(size, *kept.shape)
        ranges[start : start + size] = np.ptp(sums, axis=1)
    return ranges
