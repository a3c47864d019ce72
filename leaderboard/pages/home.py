"""The board over datasets: a page for each metric and kind of queries."""

from __future__ import annotations

from collections.abc import Sequence

from bench.leaderboard.boards.board import RANKED, Board
from bench.leaderboard.boards.overall import Overall, families, main_boards, overall
from bench.leaderboard.boards.traits import learns, needs_llm
from bench.leaderboard.pages.registry import Content, Page
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer
from bench.stats.noninferiority import FEWEST_UNITS

_KINDS = ("all", "seen", "unseen")


def _write(content: Content, writer: Writer) -> None:
    boards, masks = content.boards, content.masks
    main = main_boards(boards)
    others = [board for board in boards if board not in main]
    kinds = ["all", *(kind for kind in _KINDS[1:] if any(kind in masks.get(board.slug, {}) for board in main))]
    names = list(families(main))
    flags = _flags(main)
    for kind in kinds:
        for metric in RANKED:
            board = overall(main, metric, kind, masks)
            ranked = sum(place.tier is not None for place in board.places)
            page = render(
                "home",
                "",
                "index.html",
                board=board,
                metrics=[(name, _path(name, kind)) for name in RANKED],
                kinds=[(name, _path(metric, name)) for name in kinds],
                ranked=ranked,
                rest=any(place.tier is None and not place.row.oracle for place in board.places),
                common=[board.boards[i].name for i in board.common],
                families=names,
                flags=flags,
                best=_best(board),
                others=others,
            )
            writer.put(_path(metric, kind), page)


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


def _path(metric: str, kind: str) -> str:
    if metric == RANKED[0] and kind == "all":
        return "index.html"
    return f"overall-{metric.replace('@', '-')}{'' if kind == 'all' else f'-{kind}'}.html"


PAGE = Page("home", "index.html", _write, entry="Overall", place=1)
