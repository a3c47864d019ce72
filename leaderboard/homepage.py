"""The overall board, one page per metric and kind of queries, and the lists of datasets and methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.leaderboard.facts import card_of, facts_of
from bench.leaderboard.model import RANKED, Board
from bench.leaderboard.overall import Overall, families, main_boards, overall
from bench.leaderboard.pages import render
from bench.leaderboard.traits import learns, needs_llm
from bench.leaderboard.writer import Writer

Masks = Mapping[str, Mapping[str, NDArray[np.bool_]]]
_KINDS = ("all", "seen", "unseen")


def write_home(boards: Sequence[Board], masks: Masks, writer: Writer) -> None:
    """Write `index.html` and its sisters."""
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


def write_lists(boards: Sequence[Board], writer: Writer) -> None:
    """Write the lists of datasets and methods."""
    with_cards = [(board, card_of(board.spec)) for board in boards]
    writer.put("datasets.html", render("datasets", "", "datasets.html", boards=with_cards, metric=RANKED[0]))
    found = []
    for family in families(boards):
        rows = [(board, row) for board in boards for row in board.rows if row.family == family]
        found.append(
            {
                "family": family,
                "facts": facts_of(family),
                "llm": any(needs_llm(row) for _, row in rows),
                "learns": any(learns(row) for _, row in rows),
                "settings": len({row.key for _, row in rows}),
                "datasets": len({board.spec for board, _ in rows}),
                "results": len(rows),
            }
        )
    writer.put("methods.html", render("methods", "", "methods.html", methods=found))


def _flags(boards: Sequence[Board]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for board in boards:
        for row in board.rows:
            own = found.setdefault(row.key, set())
            own |= {"l"} if needs_llm(row) else set()
            own |= {"t"} if learns(row) else set()
    return {key: "".join(sorted(own)) for key, own in found.items()}


def _best(board: Overall) -> list[set[str]]:
    """For each dataset, the ids of the results in its first tier; only known for all queries together."""
    if board.kind != "all":
        return [set() for _ in board.boards]
    found: list[set[str]] = []
    for item in board.boards:
        own = item.standings.get(board.metric)
        first = [] if own is None else [name for name, tier in zip(own.ids, own.tier, strict=True) if tier == 1]
        found.append(set(first))
    return found


def _path(metric: str, kind: str) -> str:
    if metric == RANKED[0] and kind == "all":
        return "index.html"
    return f"overall-{metric.replace('@', '-')}{'' if kind == 'all' else f'-{kind}'}.html"
