"""Every pair of methods of a board: difference, interval, p-value, wins and losses, as in `bench compare`.

The compare page and the board pages show them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.leaderboard.boards.board import RANKED, Board
from bench.results.store import span_of
from bench.stats.paired import compare_pairs

#: The metric of the comparison.
METRIC = RANKED[0]
#: Columns of `Pairs.numbers`.
DIFFERENCE, LOW, HIGH, P, WINS, LOSSES = range(6)


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of the ranked rows of a board, by `METRIC`.

    Attributes:
        ids: (systems,) ids of the results, best first.
        numbers: (systems, systems, 6): difference of the first and the second, ends of its interval, p corrected on
            the board, and numbers of queries on which the first is better and worse
            (`bench.stats.paired.compare_pairs`). NaN where an interval is unknown, and all NaN on the diagonal and for
            untested pairs of two challengers.
    """

    ids: tuple[str, ...]
    numbers: NDArray[np.float64]

    def between(self, first: str, second: str) -> NDArray[np.float64] | None:
        """(6,) the numbers of two results, first minus second; None if one is not a row or the pair was not tested."""
        if first not in self.ids or second not in self.ids:
            return None
        row: NDArray[np.float64] = self.numbers[self.ids.index(first), self.ids.index(second)]
        return None if np.isnan(row[P]) else row


def pairs_of(board: Board) -> Pairs | None:
    """The pairs of a board's ranked rows; None with fewer than two, or with too many references for single tests.

    Args:
        board: a board whose rows have their values.
    """
    standing = board.standings.get(METRIC)
    # If p-values come from the large-sample limit, the exact test would take minutes here too.
    if standing is None or not standing.exact or len(standing.ids) < 2 or board.units is None:
        return None
    order = standing.order()
    rows = {row.id: row for row in board.rows}
    ids = tuple(standing.ids[i] for i in order)
    columns = [values[:, RANKED.index(METRIC)] for name in ids if (values := rows[name].values) is not None]
    values = np.column_stack(columns)
    first, second = np.triu_indices(len(ids), 1)
    whole = np.ix_(order, order)
    p, sizes = standing.pairs[whole][first, second], standing.sizes[whole][first, second]
    numbers = np.full((len(ids), len(ids), 6), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    span = span_of(METRIC).of_differences()
    alone = None if standing.alone is None else standing.alone[whole][first, second][tested]
    compared = compare_pairs(
        values, first[tested], second[tested], p[tested], sizes[tested], units=board.units, span=span, p=alone
    )
    for i, j, p_, pair in zip(first[tested], second[tested], p[tested], compared, strict=True):
        low, high = (np.nan if end is None else end for end in (pair.low, pair.high))
        numbers[i, j] = [pair.difference, low, high, p_, pair.wins, pair.losses]
        numbers[j, i] = [-pair.difference, -high, -low, p_, pair.losses, pair.wins]
    return Pairs(ids, numbers)
