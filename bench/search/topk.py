"""Exact top-k of score matrices under the protocol's tie rule. Methods call it.

`top_k` rounds scores to float32 before it compares them. Scores are computed in float64, so sums that differ only in
the order of their terms round to the same float32 and tie, as they should: a ranking then does not depend on batch
sizes or on the installed BLAS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.interface.ranking import Ranking, Violation

#: Score matrices are computed and searched in blocks of about this many numbers.
BLOCK = 1 << 22


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices of `range(rows)` such that rows x columns stays near `BLOCK`."""
    step = max(1, BLOCK // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def threads() -> int:
    """Number of threads of a search: as many as matrix products use (OMP_NUM_THREADS), else all processors."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, int(given)) if given.isdecimal() else len(os.sched_getaffinity(0))


def join_blocks(parts: Sequence[Ranking], tools: int, depth: int) -> Ranking:
    """Join rankings of consecutive blocks of queries, ties beyond the depth included.

    Args:
        parts: as from `top_k`, of one library and depth.
        tools: number of tools in the library.
        depth: at least 1.
    """
    if not parts:
        return top_k(np.empty((0, tools)), depth)
    if len(parts) == 1:
        return parts[0]
    ranking = Ranking.join(parts)
    tied = None
    if any(part.tied_beyond is not None for part in parts):
        none = (tools + 7) // 8
        tied = np.concatenate(
            [np.zeros((len(part), none), np.uint8) if part.tied_beyond is None else part.tied_beyond for part in parts]
        )
    return Ranking(ranking.tools, ranking.scores, tied_beyond=tied)


def top_k(scores: NDArray[np.float64] | NDArray[np.float32], depth: int) -> Ranking:
    """The best `depth` tools of each row: score (as float32) descending, then code ascending.

    Args:
        scores: (queries, tools); -inf leaves a tool out.
        depth: at least 1.

    Returns:
        A ranking of width min(depth, tools) with scores and the tools tied beyond the depth.
    """
    queries, tools = scores.shape
    width = min(depth, tools)
    ranked = np.empty((queries, width), dtype=np.int32)
    values = np.empty((queries, width), dtype=np.float32)
    beyond = np.zeros((queries, (tools + 7) // 8), dtype=np.uint8)
    for block in blocks(queries, tools):
        with np.errstate(over="ignore"):
            single = scores[block].astype(np.float32)
        if np.isnan(single).any():
            row, tool = np.argwhere(np.isnan(single))[0]
            raise Violation("scored NaN", block.start + int(row), int(tool))
        kept, tied = _best(single, width)
        codes = np.nonzero(kept)[1].reshape(len(single), width)
        value = np.take_along_axis(single, codes, axis=1)
        # Codes ascend in each row, so a stable sort by score leaves ties in code order.
        order = np.argsort(-value, axis=1, kind="stable")
        codes, value = np.take_along_axis(codes, order, 1), np.take_along_axis(value, order, 1)
        ranked[block], values[block] = np.where(value == -np.inf, -1, codes), value
        if tied is not None:
            beyond[block] = np.packbits(tied, axis=1)
    return Ranking(ranked, values, tied_beyond=beyond if beyond.any() else None)


def _best(scores: NDArray[np.float32], width: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Which cells are the best `width` of their row, and which others tie with the last of those."""
    tools = scores.shape[1]
    if width == tools:
        return np.ones_like(scores, dtype=np.bool_), None
    last = np.partition(scores, tools - width, axis=1)[:, tools - width, None]
    level = scores == last
    kept = (scores > last) | level
    crowded = np.flatnonzero(np.count_nonzero(kept, axis=1) > width)
    if not len(crowded):
        return kept, None
    # More tools tie at the last place than there is room for: keep those with the lowest codes.
    level, above = level[crowded], scores[crowded] > last[crowded]
    room = width - np.count_nonzero(above, axis=1)
    fits = level & (np.cumsum(level, axis=1, dtype=np.int32) <= room[:, None])
    kept[crowded] = above | fits
    tied = np.zeros_like(kept)
    tied[crowded] = level & ~fits & (last[crowded] > -np.inf)
    return kept, tied
