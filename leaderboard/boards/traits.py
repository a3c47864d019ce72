"""Marks that say what a method needs, as its results declare it. `board` adds them to rows."""

from __future__ import annotations

from dataclasses import replace

from bench.leaderboard.boards.board import Board, Row
from bench.results.manifest import Mark
from bench.show.numbers import count


def learns(row: Row) -> bool:
    """Whether the method learnt from past queries or uses a model trained on a dataset's queries."""
    manifest = row.result.manifest
    if any(mark.kind in {"tools seen", "trained on test", "near test"} for mark in manifest.marks):
        return True
    return bool(manifest.method.learns)


def with_repeated_gold(board: Board) -> Board:
    """Mark methods that learnt if past queries have the gold sets of test queries.

    Each result declares this for its own run; nothing is derived from data on this machine.
    """
    return replace(board, rows=tuple(_with_mark(row) for row in board.rows))


def _with_mark(row: Row) -> Row:
    data = row.result.manifest.dataset
    if row.oracle or not data.history or not learns(row):
        return row
    if data.repeated_gold is None:
        why = "it does not say whether gold sets also occur in the training queries; bench rescore adds it"
        mark = Mark(kind="bundles unknown", text="bundles unknown", why=why)
    elif data.repeated_gold:
        share = f"{count(data.repeated_gold)} of the {count(data.judged)} judged queries"
        why = f"{share} have a gold set that also occurs in the training queries"
        mark = Mark(kind="bundles seen", text="bundles seen", why=why)
    else:
        return row
    return replace(row, marks=(*row.marks, mark))
