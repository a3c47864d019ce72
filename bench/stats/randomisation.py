"""The paired randomisation test: are the signs of differences due to chance? All comparisons use it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.stats.exact import as_integers
from bench.stats.units import dependence, whole_sums

#: Number of sign flips of the Monte Carlo test.
FLIPS = 100_000
#: Up to this many non-zero differences, all sign vectors are enumerated.
MOST_ENUMERATED = 16
#: Numbers in a block of sign vectors, which bounds the memory of a test.
_BLOCK = 1 << 20


def randomisation_test(
    differences: NDArray[np.float64], flips: int = FLIPS, seed: int = 0, units: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Two-sided p-values of the paired randomisation test on the mean (protocol, tests).

    Under the hypothesis that the system behind an answer does not matter, each sign of a difference is equally likely.
    p is the share of sign vectors whose mean is at least as far from zero as the observed one: counted over all 2^m of
    them if at most 16 differences are not zero, else estimated from random ones as (1 + hits) / (1 + flips). The
    columns share their flips.

    Dependent differences keep or change their signs together: with units, the test is on the sums over units.

    Sums are whole numbers, so the same inputs give the same p-values to the last bit, and means that differ only by
    rounding are equal. Differences that are zero up to rounding (far below 1e-12) are zero.

    Args:
        differences: (queries, columns), finite.
        flips: number of random sign vectors, unless all are enumerated.
        seed: seed of the random sign vectors.
        units: (queries,) as of `bench.stats.units.dependence`; None for independent queries.

    Returns:
        (columns,) p-values; 1 for identical systems.

    Raises:
        ValueError: units are not numbered from 0 without a gap, or not one for each query.
    """
    whole, _ = as_integers(np.asarray(differences, dtype=np.float64))
    queries = len(whole)
    whole = flipped_wholes(whole, dependence(units, queries))
    counts = np.count_nonzero(whole, axis=0)
    p = np.ones(whole.shape[1])
    few = counts <= MOST_ENUMERATED
    for column in np.flatnonzero(few):
        values = whole[:, column]
        p[column] = enumerated_p(values[values != 0], queries)
    if not few.all():
        p[~few] = _sample_p(whole[:, ~few], queries, flips, seed)
    return p


def flipped_wholes(whole: NDArray[np.float64], codes: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """The whole numbers whose signs are flipped: the differences, or their sums over units.

    Args:
        whole: (queries, columns) whole numbers, as of `as_integers`.
        codes: (queries,) units from 0 without a gap; None for independent queries.

    Returns:
        (queries or units, columns) whole numbers.
    """
    if codes is None:
        return whole
    sums = whole_sums(whole, codes)
    # Rounding moves a sum by at most half a unit per query: smaller sums are zero.
    sums[np.abs(sums) <= np.bincount(codes)[:, None] / 2] = 0.0
    return sums


def enumerated_p(values: NDArray[np.float64], queries: int) -> float:
    """The share of all sign vectors that are as extreme as the observed one."""
    sums = np.array([-values.sum()])
    for value in values:
        sums = np.concatenate([sums, sums + 2 * value])
    return float(extreme_sums(sums, values.sum(), queries).mean())


def sign_vectors(signs: int, flips: int, seed: int = 0, columns: int = 1) -> Iterator[NDArray[np.uint8]]:
    """Random sign vectors in blocks of (flips, signs): 1 keeps a sign, 0 changes it.

    Whole words are drawn, so the stream does not depend on block boundaries. Neither a block nor its product with a
    number of columns has more than a million numbers.
    """
    random = np.random.default_rng(seed)
    words = math.ceil(signs / 64)
    block = max(1, _BLOCK // max(signs, columns))
    for start in range(0, flips, block):
        size = min(block, flips - start)
        drawn = random.integers(0, 1 << 64, size=(size, words), dtype=np.uint64).astype("<u8")
        yield np.unpackbits(drawn.view(np.uint8), axis=1, count=signs)


def every_sign_vector(signs: int) -> NDArray[np.uint8]:
    """(2^signs, signs) all sign vectors: 1 keeps a sign, 0 changes it."""
    vectors: NDArray[np.uint8] = ((np.arange(1 << signs)[:, None] >> np.arange(signs)) & 1).astype(np.uint8)
    return vectors


def _sample_p(values: NDArray[np.float64], queries: int, flips: int, seed: int) -> NDArray[np.float64]:
    """(columns,) p-values of whole numbers from random sign vectors, block by block: sums in float64 are exact."""
    # Zeros are included: a p-value must not depend on what else is tested.
    totals = values.sum(axis=0)
    hits = np.zeros(values.shape[1], dtype=np.int64)
    for kept in sign_vectors(len(values), flips, seed):
        sums = 2 * (kept.astype(np.float64) @ values) - totals
        hits += np.count_nonzero(extreme_sums(sums, totals, queries), axis=0)
    p: NDArray[np.float64] = (1 + hits) / (1 + flips)
    return p


def extreme_sums(sums: NDArray[np.float64], observed: NDArray[np.float64] | float, queries: int) -> NDArray[np.bool_]:
    """Which sums are at least as far from zero as the observed one.

    Rounding to whole numbers moves a sum by at most half a unit per query, so equal sums are this close.
    """
    extreme: NDArray[np.bool_] = np.abs(sums) >= np.abs(observed) - queries
    return extreme
