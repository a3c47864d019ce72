"""A board's methods on the queries of one slice value: order, intervals and ranks. The page `slices` shows them.

Means and intervals are those of `bench show --by`. Ranks are computed as on the board, from these queries alone, and
corrected for the other pairs of the same value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.leaderboard.boards.board import RANKED, Board, Row, references_of
from bench.leaderboard.boards.registered import BoardData
from bench.leaderboard.boards.standings import RankedSystems, rank_systems
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.slices import slice_names, values_of
from bench.results.store import span_of
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals
from bench.stats.noninferiority import enough_units

METRIC = RANKED[0]


@dataclass(frozen=True, eq=False)
class Inside:
    """The methods of a board on the queries with one slice value.

    Attributes:
        value: `-` for queries without a value.
        n, groups: judged queries, and their units of independence.
        rows: best first.
        means: (rows,).
        spans: (rows, 2) 95% intervals of the means; NaN if there is none.
        standing: tests and ranks of the rows; None if there are too few groups for conclusions.
    """

    value: str
    n: int
    groups: int
    rows: tuple[Row, ...]
    means: NDArray[np.float64]
    spans: NDArray[np.float64]
    standing: RankedSystems | None

    @property
    def ties(self) -> int:
        """How many other methods do not differ significantly from the best."""
        return 0 if self.standing is None else int(self.standing.ties(self.standing.order()[0]).sum())


def slice_masks(data: BoardData, query_ids: Sequence[str]) -> dict[str, dict[str, NDArray[np.bool_]]]:
    """Slice -> value -> (judged queries,) mask; slices that do not divide the queries are left out."""
    if data.dataset is None:
        return {}
    by_slice = {name: values_of(data.dataset, name, query_ids) for name in slice_names(data.dataset)}
    return {name: values for name, values in by_slice.items() if len(values) > 1}


def inside_slices(board: Board, masks: Mapping[str, NDArray[np.bool_]]) -> list[Inside]:
    """Rank methods on the queries of each slice value, in the order of the values.

    Args:
        board: a board whose rows have values; rows without values, oracles and results of other code are left out.
        masks: value -> (judged queries,) mask.
    """
    rows, columns = [], []
    for row in board.rows:
        if row.values is not None and not row.oracle and METRIC not in row.older:
            rows.append(row)
            columns.append(row.values[:, RANKED.index(METRIC)])
    if not board.current or board.units is None or not rows:
        return []
    values = np.column_stack(columns)
    references = references_of(rows)
    span = span_of(METRIC)
    inside = []
    for value, mask in masks.items():
        units, part = number_units(board.units[mask]), values[mask]
        means = part.mean(axis=0)
        standing, order = None, np.argsort(-means, kind="stable").tolist()
        if enough_units(units):
            standing = rank_systems([row.id for row in rows], part, units, references, span.of_differences())
            order = standing.order()
        spans = bca_intervals(part[:, order], seed=BOOTSTRAP_SEED, units=units, span=span)
        names = tuple(rows[i] for i in order)
        inside.append(Inside(value, len(part), int(units.max()) + 1, names, means[order], spans, standing))
    return inside
