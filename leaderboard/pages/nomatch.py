"""The page of a board's queries that no tool answers: which methods detect that no tool fits."""

from __future__ import annotations

import pyarrow as pa

from bench.base.errors import ResultError
from bench.leaderboard.boards.board import Board, Rejected
from bench.leaderboard.boards.nomatch import METRIC, NoMatch, columns_of, no_match
from bench.leaderboard.pages.registry import Page
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer
from bench.metrics import parse_metric
from bench.stats.noninferiority import FEWEST_UNITS


def no_match_path(board: Board) -> str:
    """The path of a board's page."""
    return f"n/{board.slug}.html"


def write_no_match(board: Board, rejected: list[Rejected], writer: Writer) -> NoMatch | None:
    """Write the page and return its board, if there is one. An unreadable table is added to `rejected`."""
    try:
        unanswered = no_match(board)
    except (ResultError, pa.ArrowException) as error:
        reason = f"the board of queries that no tool answers is omitted: {str(error).splitlines()[0]}"
        rejected.append(Rejected(board.name, reason))
        return None
    if unanswered is None:
        return None
    columns, other = columns_of(unanswered.rows), columns_of([row for row, _ in unanswered.left])
    page = render(
        "nomatch",
        "../",
        board=board,
        metrics=board.first.metrics,
        found=unanswered,
        data=board.first.manifest.dataset,
        columns=columns,
        other_columns=other,
        measures={name: parse_metric(name).measure for name in {*columns, *other}},
        primary=METRIC,
        fewest=FEWEST_UNITS,
    )
    writer.put(no_match_path(board), page)
    return unanswered


PAGE = Page("no match", "n/*.html")
