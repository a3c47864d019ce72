"""Queries that no tool answers: how well the top score of each method separates them from queries with gold.

The page `nomatch` shows this board.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.errors import ResultError
from bench.leaderboard.boards.board import Board, Row, references_of
from bench.leaderboard.boards.standings import RankedSystems, rank_systems
from bench.leaderboard.boards.tables import read_columns
from bench.results.stated import check_means
from bench.results.store import PER_QUERY, StoredResult
from bench.results.units import number_units
from bench.stats.noninferiority import enough_units

#: The metric to sort by: it needs no threshold, and every method with scores has it.
METRIC = "auroc"
#: Metrics to show; the first sorts the rows.
SHOWN = (METRIC, "aurc@5", "abstained@5", "abstained", "answered", "false_returns", "forbidden@5")


@dataclass(frozen=True, eq=False)
class NoMatch:
    """The rows of a board by `METRIC`.

    Attributes:
        rows: rows that have `METRIC`, best first; oracles before them.
        standing: ranks and p-values of the rows except oracles, as in `bench compare`; None if too few groups of
            queries have no gold.
        left: the other rows, with reasons.
        groups: units of independence among the queries without gold.
    """

    rows: tuple[Row, ...]
    standing: RankedSystems | None
    left: tuple[tuple[Row, str], ...]
    groups: int


def no_match(board: Board) -> NoMatch | None:
    """The board of queries that no tool answers; None without such queries, or if no row has any of the metrics.

    Args:
        board: a board of the current protocol.

    Raises:
        ResultError: a table of a result cannot be read.
    """
    if not board.current or board.units is None or not board.first.metrics.n_no_gold or not columns_of(board.rows):
        return None
    values: dict[str, NDArray[np.float64]] = {}
    left = []
    queries: pa.Table | None = None
    for row in board.rows:
        if METRIC not in row.result.metrics.metrics:
            left.append((row, "no scores"))
        elif METRIC in row.older:
            left.append((row, "other scoring code"))
        else:
            values[row.id], row_queries = _values(row.result)
            queries = row_queries if queries is None else queries
            if not row_queries.equals(queries):
                del values[row.id]
                left.append((row, "other queries"))
    rows = [row for row in board.rows if row.id in values]
    rows.sort(key=lambda row: (not row.oracle, -row.result.metrics.metrics[METRIC].mean, row.id))
    groups = 0
    standing = None
    if queries is not None:
        units = np.unique(queries["unit"].to_pylist(), return_inverse=True)[1].astype(np.int64)
        without = units[queries["n_gold"].to_numpy() == 0]
        groups = len(set(without.tolist()))
        ranked = [row for row in rows if not row.oracle]
        if groups and ranked and enough_units(number_units(without)):
            standing = rank_systems(
                [row.id for row in ranked],
                np.column_stack([values[row.id] for row in ranked]),
                units,
                references_of(ranked),
            )
            order = [standing.ids[i] for i in standing.order()]
            rows.sort(key=lambda row: (not row.oracle, row.id in order and order.index(row.id)))
    return NoMatch(tuple(rows), standing, tuple(left), groups)


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Those of `SHOWN` that some rows have."""
    return [name for name in SHOWN if any(name in row.result.metrics.metrics for row in rows)]


def _values(result: StoredResult) -> tuple[NDArray[np.float64], pa.Table]:
    """(queries,) the values whose mean is the metric, and the queries.

    Raises:
        ResultError: they cannot be read, or their mean is not the one in the result.
    """
    path = result.folder / PER_QUERY
    table = read_columns(result, PER_QUERY, ["query_id", "unit", "n_gold", METRIC])
    if METRIC not in table.column_names or table.schema.field(METRIC).type != pa.float64():
        raise ResultError(f"{path} has no values of {METRIC}, but its metrics have a mean.")
    check_means(result.metrics, table, [METRIC], str(path))
    values: NDArray[np.float64] = table[METRIC].combine_chunks().to_numpy(zero_copy_only=False)
    return values, table.select(["query_id", "unit", "n_gold"])
