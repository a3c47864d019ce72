"""The list of datasets."""

from __future__ import annotations

from bench.leaderboard.boards.board import RANKED
from bench.leaderboard.boards.facts import card_of
from bench.leaderboard.pages.registry import Content, Page
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer


def _write(content: Content, writer: Writer) -> None:
    boards = [(board, card_of(board.spec)) for board in content.boards]
    writer.put("datasets.html", render("datasets", "", "datasets.html", boards=boards, metric=RANKED[0]))


PAGE = Page("datasets", "datasets.html", _write, entry="Datasets", place=2)
