"""Scopes: the part of the library that a request may see, for gateways that show each user only some servers.

They apply to every method: its `rank` and `recommend` are called through this module (see
`bench.interface.construction`), at every stage, so a reranker gets only candidates that the request may see. Statistics
over the library, such as how rare a word is, cover the whole library, as in a search with a filter. A method may use
`Queries.scope` itself, but need not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bench.interface.ranking import PAD, Ranking, Scores, ToolSets, in_order


def in_scope(scope: NDArray[np.uint8], queries: NDArray[np.int64], tools: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether tools may be seen by queries; False for padding.

    Args:
        scope: (queries, ceil(library / 8)) bits, as `numpy.packbits` has them.
        queries: rows of the scope, broadcastable to the shape of `tools`.
        tools: codes.
    """
    known = np.where(tools == PAD, 0, tools)
    bits = scope[queries, known >> 3] >> (7 - (known & 7))
    seen: NDArray[np.bool_] = ((bits & 1) == 1) & (tools != PAD)
    return seen


def keep_in_scope(ranking: Ranking, scope: NDArray[np.uint8], depth: int) -> Ranking:
    """The first `depth` tools that each query may see, with those that tie with the last."""
    tools, scores = ranking.tools, ranking.scores
    if scores is not None:
        # Scores may be integers, which have no infinity.
        kind = scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)
        tools, scores = in_order(tools, np.where(tools == PAD, -np.inf, scores).astype(kind))
    inside = in_scope(scope, np.arange(len(ranking))[:, None], tools)
    order = np.argsort(~inside, axis=1, kind="stable")
    present = np.arange(inside.shape[1]) < inside.sum(axis=1)[:, None]
    tools = np.where(present, np.take_along_axis(tools, order, 1), np.int32(PAD))
    if scores is not None:
        scores = np.where(present, np.take_along_axis(scores, order, 1), -np.inf).astype(scores.dtype)
    if tools.shape[1] <= depth:
        tied = None if ranking.tied_beyond is None else ranking.tied_beyond & scope
        return replace(ranking, tools=tools, scores=scores, tied_beyond=tied)
    # An answer cut here covered all tools: nothing was left out before.
    tied = None if scores is None else _tied_after(tools, scores, depth, scope.shape[1])
    return replace(
        ranking, tools=tools[:, :depth], scores=None if scores is None else scores[:, :depth], tied_beyond=tied
    )


def _tied_after(tools: NDArray[np.int32], scores: Scores, depth: int, width: int) -> NDArray[np.uint8]:
    """Bits of the tools that are cut off although they score like the last one kept."""
    bits = np.zeros((len(tools), width), dtype=np.uint8)
    rows, places = np.nonzero((tools[:, depth:] != PAD) & (scores[:, depth:] == scores[:, depth - 1 : depth]))
    codes = tools[:, depth:][rows, places]
    np.bitwise_or.at(bits, (rows, codes >> 3), (1 << (7 - (codes & 7))).astype(np.uint8))
    return bits


def rank_in_scope(
    rank: Callable[[NDArray[np.int64] | None, int], Ranking], scope: NDArray[np.uint8], depth: int
) -> Ranking:
    """The best tools that each query may see.

    If a full answer contains too few tools that the query may see, the method is asked again for all tools.

    Args:
        rank: the method's ranking of the queries at some positions (None for all), to a depth.
        scope: (queries, ceil(library / 8)) bits.
        depth: the most tools of a query.
    """
    whole = 8 * scope.shape[1]
    ranking = rank(None, depth)
    if not _is_sound(ranking, len(scope), whole):
        return ranking
    seen = in_scope(scope, np.arange(len(scope))[:, None], ranking.tools).sum(axis=1)
    wanted = np.minimum(np.bitwise_count(scope).sum(axis=1, dtype=np.int64), depth)
    full = (ranking.tools != PAD).sum(axis=1) >= depth
    again = np.flatnonzero(full & (seen < wanted))
    kept = keep_in_scope(ranking, scope, depth)
    if not len(again):
        return kept
    deeper = rank(again, whole)
    if not _is_sound(deeper, len(again), whole):
        return deeper
    return _put(kept, again, keep_in_scope(deeper, scope[again], depth))


def _is_sound(ranking: Ranking, queries: int, codes: int) -> bool:
    """Whether a ranking has a valid shape and valid codes; `validate` reports what is wrong."""
    tools, scores = ranking.tools, ranking.scores
    if not isinstance(tools, np.ndarray) or tools.dtype.kind not in "iu" or tools.ndim != 2 or len(tools) != queries:
        return False
    if scores is not None and (
        not isinstance(scores, np.ndarray) or scores.dtype.kind not in "fiu" or scores.shape != tools.shape
    ):
        return False
    return bool((tools >= PAD).all() and (tools < codes).all())


def _put(ranking: Ranking, rows: NDArray[np.int64], better: Ranking) -> Ranking:
    """A ranking with some rows replaced."""
    rest = np.setdiff1d(np.arange(len(ranking)), rows)
    place = np.empty(len(ranking), dtype=np.int64)
    place[np.concatenate([rest, rows])] = np.arange(len(ranking))
    parts = [ranking.take(rest), better]
    known = [part.tied_beyond for part in parts if part.tied_beyond is not None]
    tied = replies = None
    if known:
        none = np.zeros((1, known[0].shape[1]), dtype=np.uint8)
        tied = np.concatenate(
            [np.repeat(none, len(part), axis=0) if part.tied_beyond is None else part.tied_beyond for part in parts]
        )
    if any(part.replies is not None for part in parts):
        replies = tuple(reply for part in parts for reply in part.replies or (None,) * len(part))
    return replace(Ranking.join(parts), tied_beyond=tied, replies=replies).take(place)


def keep_sets_in_scope(sets: ToolSets, scope: NDArray[np.uint8]) -> ToolSets:
    """Recommended tools that each query may see."""
    if len(sets) != len(scope):
        return sets  # `validate_sets` reports what is wrong
    rows = [sets.row(query) for query in range(len(sets))]
    return ToolSets.of([row[in_scope(scope, np.int64(query), row)] for query, row in enumerate(rows)])  # type: ignore[arg-type]
