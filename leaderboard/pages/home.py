"""The board over datasets: a page for each view, metric and kind of queries."""

from __future__ import annotations

from collections.abc import Sequence

from bench.leaderboard.boards.board import RANKED, Board
from bench.leaderboard.boards.overall import Overall, families, fragments
from bench.leaderboard.boards.traits import learns, needs_llm
from bench.leaderboard.pages.registry import Content, Page
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer
from bench.stats.noninferiority import FEWEST_UNITS


def _write(content: Content, writer: Writer) -> None:
    shown = {board.slug for view in content.views for board in view.boards}
    others = [board for board in content.boards if board.slug not in shown]
    paths = {board: _path(board, content) for board in content.overall}
    for board, path in paths.items():
        view = [(other, place) for other, place in paths.items() if other.view is board.view]
        page = render(
            "home",
            "",
            "index.html",
            board=board,
            views=[
                (other.view.title, place, other.view is board.view)
                for other, place in paths.items()
                if (other.metric, other.kind) == (board.metric, "all")
            ],
            metrics=[(other.metric, place) for other, place in view if other.kind == board.kind],
            kinds=[(other.kind, place) for other, place in view if other.metric == board.metric],
            ranked=sum(place.tier is not None for place in board.places),
            partial=sum(bool(place.lacks) for place in board.places),
            sources=len({item.source for item in board.boards}),
            fragments=fragments(board.view, content.absent),
            unranked=content.unranked,
            families=list(families(board.view.boards)),
            flags=_flags(board.view.boards),
            best=_best(board),
            others=others,
        )
        writer.put(path, page)


def _flags(boards: Sequence[Board]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for board in boards:
        for row in board.rows:
            own = found.setdefault(row.key, set())
            own |= {"l"} if needs_llm(row) else set()
            own |= {"t"} if learns(row) else set()
    return {key: "".join(sorted(own)) for key, own in found.items()}


def _best(board: Overall) -> list[set[str]]:
    """For each dataset, the ids of the results in its first tier; only known for all queries together.

    Nobody is best where there are too few units for a conclusion.
    """
    if board.kind != "all":
        return [set() for _ in board.boards]
    found: list[set[str]] = []
    for item in board.boards:
        own = item.standings.get(board.metric)
        if own is None or own.units < FEWEST_UNITS:
            found.append(set())
            continue
        found.append({name for name, tier in zip(own.ids, own.tier, strict=True) if tier == 1})
    return found


def _path(board: Overall, content: Content) -> str:
    first = board.view is content.views[0]
    if board.metric == RANKED[0] and board.kind == "all" and first:
        return "index.html"
    parts = ["overall", board.metric.replace("@", "-"), "" if first else board.view.name]
    parts += ["" if board.kind == "all" else board.kind]
    return f"{'-'.join(filter(None, parts))}.html"


PAGE = Page("home", "index.html", _write, entry="Overall", place=1)
