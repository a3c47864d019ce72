"""Rankings and tool sets: what methods return, validated and in canonical order. Methods and scoring use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAD = -1

Scores = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Ranking:
    """Ranked tools of a batch of queries.

    Attributes:
        tools: (queries, width) int32 tool codes, best first, padded at the end with -1.
        scores: (queries, width) numbers, or None if the method returns only an order. They are compared unchanged.
            Values at padded positions are ignored.
        failed: (queries,) bool, True if the method could not answer (an error, a time-out, an unreadable reply).
            Such a query scores 0 and is counted.
        tied_beyond: (queries, ceil(library / 8)) uint8, `numpy.packbits` of the tools beyond the depth that score
            exactly as the last returned one; None if there are none or the method does not know. It lets the tie band
            see past the depth.
        replies: one text per query, as the search sent it and an agent would read it, or None; None altogether if
            no external search answers. Their tokens are counted, and they are not stored.
        notes: one text per query (usually JSON) about how its answer came about, or None; None altogether for most
            methods. They are stored with the result and do not affect numbers.

    Examples:
        >>> ranking = bench.Ranking.of_lists([[4, 1], [2]])
        >>> ranking.tools.tolist()
        [[4, 1], [2, -1]]
        >>> ranking.scores is None
        True
    """

    tools: NDArray[np.int32]
    scores: Scores | None = None
    failed: NDArray[np.bool_] | None = None
    tied_beyond: NDArray[np.uint8] | None = None
    replies: tuple[str | None, ...] | None = None
    notes: tuple[str | None, ...] | None = None

    def __len__(self) -> int:
        return len(self.tools)

    @staticmethod
    def empty(queries: int) -> Ranking:
        """No tools for any query."""
        return Ranking(np.empty((queries, 0), dtype=np.int32))

    @staticmethod
    def of_lists(rows: Sequence[Sequence[int]], failed: Sequence[bool] | None = None) -> Ranking:
        """From one list of tool codes per query, best first, without scores."""
        width = max((len(row) for row in rows), default=0)
        tools = np.full((len(rows), width), PAD, dtype=np.int32)
        for i, row in enumerate(rows):
            tools[i, : len(row)] = row
        return Ranking(tools, failed=None if failed is None else np.array(failed, dtype=np.bool_))

    @staticmethod
    def of_answers(rows: Sequence[tuple[Sequence[int], Sequence[float] | None] | None]) -> Ranking:
        """From the tool codes of each query, best first, with their scores or None; None for a failed query.

        The ranking has scores only if all answers have: those of one query say nothing about another's ties.
        """
        plain = Ranking.of_lists([row[0] if row else [] for row in rows], [row is None for row in rows])
        if any(row is not None and row[1] is None for row in rows):
            return plain
        scores = np.zeros(plain.tools.shape)
        for i, row in enumerate(rows):
            if row is not None and row[1] is not None:
                scores[i, : len(row[1])] = row[1]
        return Ranking(plain.tools, scores, plain.failed)

    def take(self, positions: NDArray[np.int64]) -> Ranking:
        """The rankings of the queries at these positions."""
        return Ranking(
            self.tools[positions],
            None if self.scores is None else self.scores[positions],
            None if self.failed is None else self.failed[positions],
            None if self.tied_beyond is None else self.tied_beyond[positions],
            None if self.replies is None else tuple(self.replies[int(position)] for position in positions),
            None if self.notes is None else tuple(self.notes[int(position)] for position in positions),
        )

    @staticmethod
    def join(parts: Sequence[Ranking]) -> Ranking:
        """Join consecutive batches, without replies and ties beyond the depth; scores and notes if all have them."""
        width = max((part.tools.shape[1] for part in parts), default=0)

        def padded(array: NDArray[Any], value: float) -> NDArray[Any]:
            return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=value)

        if not parts:
            return Ranking.empty(0)
        scores = [padded(part.scores, -np.inf) for part in parts if part.scores is not None]
        failed = [np.zeros(len(part), dtype=np.bool_) if part.failed is None else part.failed for part in parts]
        notes = [part.notes for part in parts if part.notes is not None]
        return Ranking(
            np.concatenate([padded(part.tools, PAD) for part in parts]),
            np.concatenate(scores) if len(scores) == len(parts) else None,
            np.concatenate(failed),
            notes=tuple(note for part in notes for note in part) if len(notes) == len(parts) else None,
        )


@dataclass(frozen=True)
class ToolSets:
    """Recommended tool sets R(q) of a batch: query i's is `tools[starts[i]:starts[i+1]]` (int32 codes)."""

    starts: NDArray[np.int64]
    tools: NDArray[np.int32]

    @staticmethod
    def of(rows: Sequence[Sequence[int]] | Sequence[NDArray[np.int32]]) -> ToolSets:
        """From one sequence of tool codes per query."""
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        flat = [np.asarray(row, dtype=np.int32) for row in rows if len(row)]
        return ToolSets(starts, np.concatenate(flat) if flat else np.empty(0, dtype=np.int32))

    @staticmethod
    def join(parts: Sequence[ToolSets]) -> ToolSets:
        """Join tool sets of consecutive batches."""
        return ToolSets.of([part.row(i) for part in parts for i in range(len(part))])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, query: int) -> NDArray[np.int32]:
        """The recommended tools of one query."""
        return self.tools[self.starts[query] : self.starts[query + 1]]


class Violation(ValueError):
    """A ranking or tool set breaks the protocol; `query` and `tool` (or None) are positions and codes."""

    def __init__(self, what: str, query: int | None = None, tool: int | None = None) -> None:
        super().__init__(what)
        self.query = query
        self.tool = tool


def validate(ranking: Ranking, queries: int, library: int, depth: int) -> Ranking:
    """Check a method's ranking against rule 4 and sort it by the tie rule (rule 1).

    Args:
        ranking: as the method returned it.
        queries: number of queries.
        library: number of tools.
        depth: maximum tools per query.

    Returns:
        The ranking with int32 tools and float scores; with scores, each row sorted by score
        descending, then tool code ascending.

    Raises:
        Violation: wrong shape or type, a tool outside the library, a duplicate, a score that is not finite, padding
            before a tool, more tools than the depth.
    """
    tools = ranking.tools
    if not isinstance(tools, np.ndarray) or tools.ndim != 2 or not np.issubdtype(tools.dtype, np.integer):
        raise Violation("did not return tools as a two-dimensional array of integers")
    if len(tools) != queries:
        raise Violation(f"returned {len(tools)} rankings for {queries} queries")
    scores = ranking.scores
    if scores is not None and (
        not isinstance(scores, np.ndarray) or scores.shape != tools.shape or scores.dtype.kind not in "fiu"
    ):
        raise Violation("did not return scores as an array of numbers in the shape of its tools")
    allowed = min(depth, library)
    if tools.shape[1] > allowed:
        over = np.flatnonzero((tools[:, allowed:] != PAD).any(axis=1))
        if len(over):
            raise Violation(f"returned more than {allowed} tools", int(over[0]))
        tools, scores = tools[:, :allowed], None if scores is None else scores[:, :allowed]
    bad = (tools < PAD) | (tools >= library)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise Violation(f"returned the unknown tool code {tools[row, column]}", int(row))
    tools = np.ascontiguousarray(tools, dtype=np.int32)
    present = tools != PAD
    if (present[:, 1:] & ~present[:, :-1]).any():
        row = int(np.flatnonzero((present[:, 1:] & ~present[:, :-1]).any(axis=1))[0])
        raise Violation("put padding before a tool", row)
    _no_duplicates(tools)
    checked = None if scores is None else _check_scores(scores, tools, present)
    failed = _check_failed(ranking.failed, queries)
    tied = _check_tied(ranking.tied_beyond, queries, library)
    replies = _check_texts(ranking.replies, queries, "replies")
    notes = _check_texts(ranking.notes, queries, "notes")
    if checked is not None:
        tools, checked = in_order(tools, checked)
    if failed is not None and failed.any():
        # Tools returned with a failure do not count.
        tools = np.where(failed[:, None], np.int32(PAD), tools)
        checked = None if checked is None else np.where(failed[:, None], checked.dtype.type(-np.inf), checked)
        tied = None if tied is None else np.where(failed[:, None], np.uint8(0), tied)
    return Ranking(tools, checked, failed, tied, replies, notes)


def _no_duplicates(tools: NDArray[np.int32]) -> None:
    ordered = np.sort(tools, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != PAD)
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise Violation("returned a tool twice", int(row), int(ordered[row, column + 1]))


def _check_scores(scores: NDArray[Any], tools: NDArray[np.int32], present: NDArray[np.bool_]) -> Scores:
    """Finite scores, -inf at padded positions; single precision is kept, other types become double."""
    with np.errstate(over="ignore"):  # a longer float that overflows is refused below as infinite
        kept = scores if scores.dtype == np.float32 else scores.astype(np.float64)
    bad = present & ~np.isfinite(kept)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise Violation(f"returned the score {kept[row, column]}", int(row), int(tools[row, column]))
    return np.where(present, kept, kept.dtype.type(-np.inf))


def _check_failed(failed: NDArray[np.bool_] | None, queries: int) -> NDArray[np.bool_] | None:
    if failed is not None and (
        not isinstance(failed, np.ndarray) or failed.shape != (queries,) or failed.dtype != bool
    ):
        raise Violation("did not return `failed` as one boolean per query")
    return failed


def _check_tied(tied: NDArray[np.uint8] | None, queries: int, library: int) -> NDArray[np.uint8] | None:
    shape = (queries, (library + 7) // 8)
    if tied is not None and (not isinstance(tied, np.ndarray) or tied.shape != shape or tied.dtype != np.uint8):
        raise Violation(f"did not return `tied_beyond` as packed bits of shape {shape}")
    return tied


def _check_texts(texts: tuple[str | None, ...] | None, queries: int, name: str) -> tuple[str | None, ...] | None:
    if texts is None:
        return None
    what = f"did not return `{name}` as a tuple with one text or None per query"
    if not isinstance(texts, tuple) or len(texts) != queries:
        raise Violation(what)
    for row, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            raise Violation(what, row)
    return texts


def in_order(tools: NDArray[np.int32], scores: Scores) -> tuple[NDArray[np.int32], Scores]:
    """Rows sorted by score descending, then code ascending; padding (score -inf, code -1) stays last."""
    falls = scores[:, 1:] < scores[:, :-1]
    level = (scores[:, 1:] == scores[:, :-1]) & ((tools[:, 1:] > tools[:, :-1]) | (tools[:, 1:] == PAD))
    if (falls | level).all():
        return tools, scores
    # A stable sort by code (padding last), then a stable sort by score.
    by_code = np.argsort(np.where(tools == PAD, np.iinfo(np.int32).max, tools), axis=1, kind="stable")
    tools, scores = np.take_along_axis(tools, by_code, 1), np.take_along_axis(scores, by_code, 1)
    by_score = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(tools, by_score, 1), np.take_along_axis(scores, by_score, 1)


def validate_sets(sets: ToolSets, queries: int, library: int) -> ToolSets:
    """Check a recommender's tool sets.

    Raises:
        Violation: wrong shape, a tool outside the library, a duplicate.
    """
    starts, tools = sets.starts, sets.tools
    for array in (starts, tools):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
            raise Violation("did not return tool sets as one-dimensional arrays of integers")
    if starts.shape != (queries + 1,) or starts[0] != 0 or starts[-1] != len(tools) or (np.diff(starts) < 0).any():
        raise Violation(f"returned tool sets whose shape does not fit {queries} queries")
    owner = np.repeat(np.arange(queries), np.diff(starts))
    bad = np.flatnonzero((tools < 0) | (tools >= library))
    if len(bad):
        raise Violation(f"recommended the unknown tool code {tools[bad[0]]}", int(owner[bad[0]]))
    keys = np.sort(owner * np.int64(library) + tools)
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        query, tool = divmod(int(keys[twice[0]]), library)
        raise Violation("recommended a tool twice", query, tool)
    return ToolSets(starts.astype(np.int64), tools.astype(np.int32))
