"""The list of datasets."""

from __future__ import annotations

from bench.leaderboard.boards.board import RANKED, Board
from bench.leaderboard.boards.libraries import drop_library_variants, list_series
from bench.leaderboard.boards.registered import card_of
from bench.leaderboard.pages.libraries import libraries_path
from bench.leaderboard.pages.registry import Page, SiteData
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.pages.slices import slices_path
from bench.leaderboard.writer import Writer


def _write(content: SiteData, writer: Writer) -> None:
    main = content.main
    # Of a dataset with several boards, other library sizes stand under the one that counts.
    first = {board.spec: main.get(board.spec, board) for board in reversed(content.boards)}
    boards = [
        (
            board,
            card_of(board.spec),
            _count_tied(board),
            list(list_series(board.spec, content.boards)) if board is first[board.spec] else [],
            [(words, path) for words, path in _more(board) if path in writer.keys],
        )
        for board in drop_library_variants(content.boards)
    ]
    missing = [(board, content.absent[board.slug]) for board in content.boards if board.slug in content.absent]
    about = {"metric": RANKED[0], "libraries": libraries_path, "main": main, "missing": missing}
    page = render("datasets", "", "datasets.html", boards=boards, **about)
    writer.put("datasets.html", page)


def _more(board: Board) -> list[tuple[str, str]]:
    """The other pages of a board."""
    return [("queries", f"e/{board.slug}.html"), ("by slice", slices_path(board))]


def _count_tied(board: Board) -> int:
    """How many methods do not differ significantly from the first row."""
    standing = board.standings.get(RANKED[0])
    first = None if standing is None else standing.position(board.rows[0].id)
    return 0 if standing is None or first is None else int(standing.ties(first).sum())


PAGE = Page("datasets", "datasets.html", _write, entry="Datasets", order=2)
