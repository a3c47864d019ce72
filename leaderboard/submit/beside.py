"""A submission beside the results that a board has: what it would replace, contradict or copy."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.base.text import one_line
from bench.leaderboard.boards.board import is_reference_system
from bench.leaderboard.submit.numbers import TOLERANCE
from bench.results.finding import question_of
from bench.results.manifest import Manifest
from bench.results.store import PER_QUERY_SCHEMA, RUN, StoredResult


def board_faults(result: StoredResult, board: Sequence[StoredResult]) -> list[str]:
    """Why a board refuses a result, whatever else holds: it has the same id with other numbers, or another ranking.

    Args:
        result: the submission, with its tables.
        board: the results that the board has.

    Raises:
        ResultError: a result of the board is damaged.
    """
    same = [item for item in board if item.manifest.result_id == result.manifest.result_id]
    return [
        f"the board has {item.manifest.result_id} with other answers: {difference}; results of one id have the same."
        for item in same
        if (difference := _difference(result, item))
    ]


def _difference(one: StoredResult, other: StoredResult) -> str:
    """The first number or ranking that two results of one id do not share, in words; empty if they are the same."""
    for name in one.metrics.metrics.keys() & other.metrics.metrics.keys():
        mean, known = one.metrics.metrics[name].mean, other.metrics.metrics[name].mean
        if not np.isclose(mean, known, rtol=TOLERANCE, atol=TOLERANCE):
            return f"{name} is {mean:.6g} here and {known:.6g} there"
    tables = one.per_query, other.per_query
    for name in tables[0].column_names:
        if name in tables[1].column_names and name not in {"tied_beyond", "tied_beyond_gold"}:
            values, known_values = (table[name].to_pylist() for table in tables)
            if name not in PER_QUERY_SCHEMA.names:
                mine, theirs = np.array([values, known_values], dtype=np.float64)
                same = np.allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
            else:
                same = values == known_values
            if not same:
                return f"{name} is another for some queries"
    same = not other.has_run or "run" not in vars(one) or _digest(one.run) == _board_digest(other)
    return "" if same else "some queries have other tools, or another order of them"


def board_notes(result: StoredResult, board: Sequence[StoredResult], rerun: bool) -> list[str]:
    """What a reader must know of a result beside those of a board: whose ranking it has, and what it would be there."""
    manifest = result.manifest
    notes = []
    alike = [item for item in board if _asks_the_same(item, result) and _has_copied(result, item)]
    if alike:
        source = min(alike, key=lambda item: item.manifest.environment.created)
        notes.append(
            f"its ranking is that of {one_line(source.label, 120)} ({source.manifest.result_id}, made "
            f"{source.manifest.environment.created[:10]}), the oldest of the board that has it"
        )
    if not rerun and is_reference_system(result, None):
        notes.append(
            f"the board would test other systems against {manifest.method.spec}, and nothing shows that it made this "
            "ranking: check it with --rerun"
        )
    return notes


def _asks_the_same(item: StoredResult, result: StoredResult) -> bool:
    """Whether two results of different ids are on the same queries."""
    one, other = item.manifest, result.manifest
    data = ("content_hash", "split", "limit")
    return one.result_id != other.result_id and all(
        getattr(one.dataset, name) == getattr(other.dataset, name) for name in data
    )


def _has_copied(one: StoredResult, other: StoredResult) -> bool:
    """Whether a result has the ranking of one of the board: byte for byte, or the same tools in the same order."""
    if one.manifest.method.cut != other.manifest.method.cut:
        return False
    if one.manifest.files[RUN] == other.manifest.files[RUN]:
        return True
    return other.has_run and "run" in vars(one) and _digest(one.run) == _board_digest(other)


def _digest(run: pa.Table) -> bytes:
    """sha256 of the tools of all queries, in order; scores and the form of the file take no part."""
    digest = hashlib.sha256()
    for name in ("query_id", "tool_id"):
        digest.update("\0".join(run[name].to_pylist()).encode("utf-8", "surrogatepass"))
    return digest.digest()


_digests: dict[tuple[Path, str], bytes] = {}


def _board_digest(item: StoredResult) -> bytes:
    """That of a result of a board, which is read once however many submissions are held against it."""
    key = item.folder, item.manifest.files[RUN]
    if key not in _digests:
        _digests[key] = _digest(item.run)
    return _digests[key]


def replaced(manifest: Manifest, board: Sequence[StoredResult]) -> list[str]:
    """Ids of the results of a board whose place a result would take: other answers to the same question."""
    question = question_of(manifest)
    others = [item.manifest for item in board if question_of(item.manifest) == question]
    return sorted(other.result_id for other in others if other.result_id != manifest.result_id)
