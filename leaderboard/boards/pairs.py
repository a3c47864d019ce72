"""Every pair of methods of a board: difference, interval, p-value, wins and losses, as `bench compare` has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.leaderboard.boards.board import RANKED, Board
from bench.metrics import parse_metric
from bench.results.intervals import difference_span
from bench.results.tries import number_families
from bench.stats.best_of_many import best_of_many
from bench.stats.paired import compare_pairs

#: The metric that pairs are compared by.
METRIC = RANKED[0]
#: Columns of `Pairs.numbers`.
DIFFERENCE, LOW, HIGH, P, BOARD_P, WINS, LOSSES, TRIED_P = range(8)
_TURNED = [DIFFERENCE, HIGH, LOW, P, BOARD_P, LOSSES, WINS, TRIED_P]


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of the ranked rows of a board, by `METRIC`.

    Attributes:
        ids: (systems,) ids of the results, best first.
        numbers: (pairs, 8), NaN where an interval is not known, and all NaN for pairs of two challengers where there
            are too many to be tested: difference of the first and the second, ends of its 95% interval, p of this pair
            alone (`bench.stats.differences.intervals_and_p_values`), p corrected on the board, the queries on which the
            first is better and worse, and p corrected for the variants on the board of both, NaN where neither has any,
            and of two variants of one method. Pairs are in the order of `np.triu_indices`.
    """

    ids: tuple[str, ...]
    numbers: NDArray[np.float64]

    def between(self, first: str, second: str) -> NDArray[np.float64] | None:
        """(8,) the numbers of two results, first less second; None where they are not both rows, or not tested."""
        if first == second or first not in self.ids or second not in self.ids:
            return None
        one, other = self.ids.index(first), self.ids.index(second)
        low, high = sorted((one, other))
        row: NDArray[np.float64] = self.numbers[low * len(self.ids) - low * (low + 1) // 2 + high - low - 1]
        if np.isnan(row[P]):
            return None
        if one > other:
            row = row[_TURNED]
            row[[DIFFERENCE, LOW, HIGH]] *= -1
        return row


def pairs_of(board: Board) -> Pairs | None:
    """The pairs of a board's ranked rows; None where there are fewer than two, or references too many for single tests.

    Args:
        board: its rows have their values.
    """
    standing = board.standings.get(METRIC)
    # Where tiers come from the limit of many units, the test itself would take minutes here, too.
    if standing is None or not standing.exact or len(standing.ids) < 2 or board.units is None:
        return None
    order = np.argsort(-standing.means, kind="stable")
    rows = {row.id: row for row in board.rows}
    ids = tuple(standing.ids[i] for i in order)
    columns = [values[:, RANKED.index(METRIC)] for name in ids if (values := rows[name].values) is not None]
    values = np.column_stack(columns)
    first, second = np.triu_indices(len(ids), 1)
    span = difference_span(parse_metric(METRIC))
    corrected = standing.pairs[order[first], order[second]]
    numbers = np.full((len(first), len(_TURNED)), np.nan)
    tested = np.flatnonzero(~np.isnan(corrected))
    comparisons = compare_pairs(values, first[tested], second[tested], units=board.units, span=span)
    tried = _tried(values, number_families([rows[name].result for name in ids]), board.units)
    numbers[tested] = [
        [
            pair.difference,
            np.nan if pair.low is None else pair.low,
            np.nan if pair.high is None else pair.high,
            pair.p,
            board_p,
            pair.wins,
            pair.losses,
            tried_p,
        ]
        for pair, board_p, tried_p in zip(
            comparisons,
            corrected[tested].tolist(),
            tried[first[tested], second[tested]].tolist(),
            strict=True,
        )
    ]
    return Pairs(ids, numbers)


def _tried(values: NDArray[np.float64], families: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.float64]:
    """(systems, systems) p of each pair corrected for the variants of both; NaN where there is nothing to correct.

    Args:
        values: (queries, systems).
        families: (systems,) by code from 0.
        units: (queries,) by code from 0.
    """
    p = np.full((len(families), len(families)), np.nan)
    several = np.flatnonzero(np.bincount(families)[families] > 1)
    if several.size:
        p[:, several] = best_of_many(values, families, several.tolist(), units=units)
        p[several] = p[:, several].T
        p[families[:, None] == families] = np.nan
    return p
