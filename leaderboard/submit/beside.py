"""Compare a submission with a board's results: what it would replace, contradict or copy. `check` calls it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.base.errors import ResultError
from bench.base.text import one_line
from bench.leaderboard.boards.decisions import Decisions, read_decisions
from bench.leaderboard.submit.numbers import value_faults
from bench.lookup.finding import question_of
from bench.results.manifest import Manifest
from bench.results.store import PER_QUERY, RUN, StoredResult, find_results

#: sha256 of a ranking's file -> that of its tools.
_digests: dict[str, bytes] = {}


@dataclass(frozen=True)
class BoardResults:
    """The results of a board, and its maintainers' decisions."""

    results: Sequence[StoredResult] = ()
    decisions: Decisions = field(default_factory=Decisions)


def read_board(folder: Path) -> BoardResults:
    """The results and decisions in a folder of results.

    Raises:
        ResultError: one cannot be read: a submission could then replace a result, or use a withdrawn id.
    """
    known = []
    for item in find_results(folder):
        if isinstance(item, ResultError):
            raise item
        known.append(item)
    return BoardResults(known, read_whole_decisions(folder))


def read_whole_decisions(folder: Path) -> Decisions:
    """The decisions in a folder of results.

    Raises:
        ResultError: one cannot be read, so that it is unknown which ids were withdrawn.
    """
    decisions = read_decisions(folder)
    for _, reason in decisions.unreadable:
        raise ResultError(f"{reason.rstrip('.')}. Restore it from version control.")
    return decisions


def board_faults(result: StoredResult, board: BoardResults) -> list[str]:
    """Why a board refuses a result in any case: its id was withdrawn, or one with the same id has other answers.

    Args:
        result: the submission, with its tables.
        board: the board.

    Raises:
        ResultError: a result of the board is damaged.
    """
    withdrawal = board.decisions.withdrawal(result.manifest.result_id)
    same = [item for item in board.results if item.manifest.result_id == result.manifest.result_id]
    return [withdrawal] * bool(withdrawal) + [
        f"the board has {item.manifest.result_id} with other answers: {difference} Results with one id must agree."
        for item in same
        if (difference := _difference(result, item))
    ]


def _difference(one: StoredResult, other: StoredResult) -> str:
    """The first difference between two results with one id, in words; empty if there is none."""
    tables = one.per_query, other.per_query
    # Last digits of scores may differ, and so may ties.
    names = [name for name in tables[0].column_names if name in tables[1].column_names and "tied" not in name]
    mine, theirs = (table.select(names) for table in tables)
    if faults := value_faults(mine, theirs, PER_QUERY, "there"):
        return faults[0]
    return (
        "" if _has_ranking_of(one, other) is not False else "some queries have other tools, or another order of them."
    )


def board_notes(result: StoredResult, board: BoardResults) -> list[str]:
    """A note about a result beside those of a board: whose ranking it has."""
    manifest, notes = result.manifest, []
    if alike := [
        item for item in board.results if _asks_the_same(item.manifest, manifest) and _has_ranking_of(result, item)
    ]:
        source = min(alike, key=lambda item: item.manifest.environment.created)
        notes.append(
            f"its ranking is that of {one_line(source.label, 120)} ({source.manifest.result_id}, made "
            f"{source.manifest.environment.created[:10]}), the oldest of the board that has it"
        )
    return notes


def _asks_the_same(one: Manifest, other: Manifest) -> bool:
    """Whether two results with different ids answer the same queries with the same cut."""
    asked, others = (
        (item.dataset.content_hash, item.dataset.split, item.dataset.limit, item.method.cut) for item in (one, other)
    )
    return one.result_id != other.result_id and asked == others


def _has_ranking_of(one: StoredResult, other: StoredResult) -> bool | None:
    """Whether two results have the same tools in the same order; None if one has no ranking."""
    if one.manifest.files[RUN] == other.manifest.files[RUN]:
        return True
    return _digest(one) == _digest(other) if "run" in vars(one) and other.has_run else None


def _digest(item: StoredResult) -> bytes:
    """sha256 of the tools of all queries, in order; scores and file format do not count."""
    file = item.manifest.files[RUN]
    if file not in _digests:
        texts = ("\0".join(item.run[name].to_pylist()) for name in ("query_id", "tool_id"))
        _digests[file] = hashlib.sha256("\0\0".join(texts).encode("utf-8", "surrogatepass")).digest()
    return _digests[file]


def replaced(manifest: Manifest, board: BoardResults) -> list[str]:
    """Ids of the board's results that a result would replace: other answers to the same question."""
    question = question_of(manifest)
    others = [item.manifest for item in board.results if question_of(item.manifest) == question]
    return sorted(other.result_id for other in others if other.result_id != manifest.result_id)
