"""The ranks of each query's gold tools: the input of every metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold

#: The rank of a gold tool that was not returned, and of padding.
MISSING = np.int32(1 << 30)

_BLOCK = 1 << 19  # cells compared at once: small enough to stay in the cache


@dataclass(frozen=True)
class GoldRanks:
    """Ranks of gold tools, for `queries` queries with at most `width` gold tools each.

    Attributes:
        ranks: (queries, width) int32, 1 = first, ascending; `MISSING` where not returned or padding.
        grades: (queries, width) int32 relevance of the tool at that rank; 0 for padding.
        ideal: (queries, width) int32 relevance of all gold tools, descending; 0 for padding.
        n: (queries,) int64 number of gold tools.
        returned: (queries,) int64 number of tools returned.
    """

    ranks: NDArray[np.int32]
    grades: NDArray[np.int32]
    ideal: NDArray[np.int32]
    n: NDArray[np.int64]
    returned: NDArray[np.int64]

    @staticmethod
    def of(tools: NDArray[np.int32], gold: Gold) -> GoldRanks:
        """Locate the gold tools in (queries, depth) ranked tool codes, padded with -1."""
        wanted, grades = gold.padded()
        ranks = locate(tools, wanted)
        return GoldRanks.sorted(ranks, grades, gold.counts, returned_counts(tools))

    @staticmethod
    def sorted(
        ranks: NDArray[np.int32],
        grades: NDArray[np.int32],
        n: NDArray[np.int64],
        returned: NDArray[np.int64],
    ) -> GoldRanks:
        """From ranks and grades in any order: sorts both by rank."""
        order = np.argsort(ranks, axis=1, kind="stable")
        return GoldRanks(
            np.take_along_axis(ranks, order, 1),
            np.take_along_axis(grades, order, 1),
            -np.sort(-grades, axis=1),
            n,
            returned.astype(np.int64),
        )


def returned_counts(tools: NDArray[np.int32]) -> NDArray[np.int64]:
    """(queries,) number of tools in each row; padding is at the end, so most rows need one look."""
    queries, depth = tools.shape
    counts = np.full(queries, depth, dtype=np.int64)
    short = np.flatnonzero(tools[:, -1] == -1) if depth else np.arange(0)
    counts[short] = np.count_nonzero(tools[short] != -1, axis=1)
    return counts


def locate(tools: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.int32]:
    """1-based rank of each wanted tool in its row of `tools`, or `MISSING`.

    Args:
        tools: (queries, depth) codes, -1 padded at the end.
        wanted: (queries, width) codes, -1 padded at the end.
    """
    queries, depth = tools.shape
    ranks = np.full(wanted.shape, MISSING, dtype=np.int32)
    if not depth:
        return ranks
    step = max(1, _BLOCK // depth)
    for start in range(0, queries, step):
        rows = slice(start, start + step)
        block, targets = tools[rows], wanted[rows]
        for slot in range(wanted.shape[1]):
            some = np.flatnonzero(targets[:, slot] >= 0)
            if not len(some):
                break
            # Most queries have few gold tools: compare only the rows that have this many.
            part = block if len(some) == len(block) else block[some]
            found = part == targets[some, slot, None]
            position = found.argmax(axis=1)
            hit = found[np.arange(len(some)), position]
            ranks[start + some, slot] = np.where(hit, position + 1, MISSING)
    return ranks
