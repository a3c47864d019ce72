"""The compare page: two or more methods, dataset by dataset, with the numbers of `bench compare`.

The numbers of each board are in a separate script file, which works from disk as well as from a server. Readers without
JavaScript get the pairs at the top of the ranking.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.leaderboard.boards.board import Board, Row
from bench.leaderboard.boards.names import apart
from bench.leaderboard.boards.pairs import DIFFERENCE, HIGH, LOSSES, LOW, METRIC, WINS, P, Pairs
from bench.leaderboard.pages.explorer import Explorer, compared_rows, script_call
from bench.leaderboard.pages.registry import Page, SiteData
from bench.leaderboard.writer import Writer
from bench.stats.noninferiority import PairVerdict, pair_verdict

#: Number of pairs on the page itself: the best method and the next ones.
_PRESETS = 4
#: Decimals for the browser; p-values have more, because they are corrected and compared with levels.
_DIGITS, _P_DIGITS = 6, 8


@dataclass(frozen=True)
class Line:
    """A pair on one dataset: numbers of the second method minus the first."""

    board: Board
    first: Row
    second: Row
    difference: float
    low: float | None
    high: float | None
    p: float
    wins: int
    losses: int
    decided: bool
    verdict: PairVerdict
    shown: bool


def write_pairs(board: Board, pairs: Pairs | None, explorer: Explorer | None, writer: Writer) -> None:
    """Write what the compare page loads for a board: its ranked rows and the numbers of every pair.

    Args:
        board: the board.
        pairs: its pairs; without them nothing is written.
        explorer: the board's explorer: which rows can be inspected query by query.
        writer: the site's writer.
    """
    if pairs is None:
        return
    rows = {row.id: row for row in board.rows}
    looked = {row.id for row in explorer.rows} if explorer else set()
    listed = [[rows[name].full_name, name, int(name in looked)] for name in pairs.ids]
    standing = board.standings[METRIC]
    upper = pairs.numbers[np.triu_indices(len(pairs.ids), 1)]
    numbers = [None if np.isnan(pair[P]) else _listed(pair, standing.decided) for pair in upper]
    data = {"n": standing.n, "decided": standing.decided, "rows": listed, "pairs": numbers}
    writer.put(f"c/{board.slug}.js", script_call("benchPairs", board.slug, data))


def _listed(pair: NDArray[np.float64], decided: bool) -> list[float | str | None]:
    """A pair in the form that the script reads."""
    return [
        *(_round_or_none(value, _DIGITS) for value in pair[[DIFFERENCE, LOW, HIGH]].tolist()),
        _round_or_none(float(pair[P]), _P_DIGITS),
        *(int(value) for value in pair[[WINS, LOSSES]].tolist()),
        # Before rounding.
        pair_verdict(pair[DIFFERENCE], pair[P], decided),
    ]


def _round_or_none(value: float, digits: int) -> float | None:
    # Keep the sign of values that round to zero: an interval may end just short of zero.
    return None if math.isnan(value) else round(value, digits) or value


def _values(content: SiteData) -> dict[str, Any]:
    main = [board for board in content.views[0].boards if board.slug in content.pairs]
    others = [board for board in content.boards if board.slug in content.pairs and board not in main]
    listed = [(board, row) for board in (*main, *others) for row in board.rows]
    rows = {row.full_name: row for board, row in reversed(listed) if row.id in content.pairs[board.slug].ids}
    titles = apart(
        [row.called for row in rows.values()],
        [row.setting for row in rows.values()],
        [row.name for row in rows.values()],
        list(rows),
    )
    titled = dict(zip(rows, titles, strict=True))
    return {
        "metric": METRIC,
        "boards": [*((board, True) for board in main), *((board, False) for board in others)],
        "names": sorted(titled.items(), key=lambda item: (item[1].casefold(), item[0])),
        "titled": titled,
        "presets": _presets(content, main),
        "untested": [board.name for board in content.boards if board.current and board.slug not in content.pairs],
    }


def _presets(content: SiteData, boards: Sequence[Board]) -> list[list[Line]]:
    """The best references of the ranking against the best one, each on the datasets that both have."""
    if not content.overall:
        return []
    best = [row.key for row in content.overall[0].rows if row.reference][: _PRESETS + 1]
    presets = (
        [line for board in boards if (line := _line(board, content.pairs[board.slug], best[0], key))]
        for key in best[1:]
    )
    return [lines for lines in presets if lines]


def _line(board: Board, pairs: Pairs, first: str, second: str) -> Line | None:
    # Of rows that read the same, keep the better one.
    rows = {row.key: row for row in reversed(board.rows)}
    if first not in rows or second not in rows:
        return None
    numbers = pairs.between(rows[second].id, rows[first].id)
    if numbers is None:
        return None
    difference, low, high, p, wins, losses = numbers.tolist()
    looked = {row.id for row in compared_rows(board)}
    decided = board.standings[METRIC].decided
    return Line(
        board=board,
        first=rows[first],
        second=rows[second],
        difference=difference,
        low=None if np.isnan(low) else low,
        high=None if np.isnan(high) else high,
        p=p,
        wins=int(wins),
        losses=int(losses),
        decided=decided,
        verdict=pair_verdict(difference, p, decided),
        shown={rows[first].id, rows[second].id} <= looked,
    )


PAGE = Page("compare", "compare.html", values=_values, entry="Compare", order=4)
