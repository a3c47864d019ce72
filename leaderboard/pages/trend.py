"""The history of a board: for each method with several results on the same question, what changed between them.

The usual reason is a new version of the method's code, so a team sees the effect of its commits. Each result is
compared with the one before it by the paired test of `bench compare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.leaderboard.boards.board import RANKED, Board, Row
from bench.leaderboard.boards.tables import check_values
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.registry import Page
from bench.leaderboard.pages.rendering import anchor, picture, render
from bench.leaderboard.writer import Writer
from bench.lookup.finding import moment
from bench.results.comparability import metric_difference
from bench.results.manifest import MetricValue
from bench.results.store import StoredResult, span_of
from bench.stats.noninferiority import LEVEL, pair_verdict
from bench.stats.paired import Paired, compare

METRIC = RANKED[0]
#: Maximum results of a chart, the newest; the table has all of them.
_MOST_DRAWN = 40


@dataclass(frozen=True)
class Step:
    """A result and its change from the one before.

    Attributes:
        value: its mean.
        verdict: `better` or `worse` than the result before it, `not decided`, or why it is unknown; empty for the
            first.
        change: the comparison with the result before it, if the two are comparable.
    """

    result: StoredResult
    value: MetricValue
    verdict: str
    change: Paired | None


def trend_anchor(row: Row) -> str:
    """The anchor of a row's method on the page; unlike a row's key, it separates two cuts of one kind."""
    method = row.result.manifest.method
    return anchor("\n".join([row.key, method.cut or "", method.run_file or ""]))


def write_trend(board: Board, writer: Writer) -> None:
    """Write the history of a board, if one of its rows supersedes an older result.

    Raises:
        ResultError: a table cannot be read.
    """
    if not board.superseded:
        return
    older = {row.id: [item.result for item in board.superseded if item.newer == row.id] for row in board.rows}
    histories = [(row, _steps(board, [*older[row.id], row.result])) for row in board.rows if older[row.id]]
    parts = [(row, trend_anchor(row), steps[::-1], picture(_draw(row, steps))) for row, steps in histories]
    page = render("trend", "../", board=board, parts=parts, metric=METRIC, level=LEVEL)
    writer.put(f"h/{board.slug}.html", page)


def _steps(board: Board, results: Sequence[StoredResult]) -> list[Step]:
    """The results of a question, oldest first; those that lack the metric are left out."""
    steps: list[Step] = []
    before: tuple[StoredResult, NDArray[np.float64] | None] | None = None
    orders: list[pa.Table] = []
    for result in sorted(results, key=lambda item: (str(moment(item.manifest) or ""), item.manifest.result_id)):
        value = result.metrics.metrics.get(METRIC)
        if value is None:
            continue
        values, _ = check_values(result, (METRIC,), False, orders)
        verdict, change = ("", None) if before is None else _compare(board, (result, values), before)
        steps.append(Step(result, value, verdict, change))
        before = result, values
    return steps


def _compare(
    board: Board,
    new: tuple[StoredResult, NDArray[np.float64] | None],
    old: tuple[StoredResult, NDArray[np.float64] | None],
) -> tuple[str, Paired | None]:
    (result, values), (earlier, others) = new, old
    if values is None or others is None or board.units is None or not len(values):
        return "not comparable", None
    if metric_difference(result.manifest, earlier.manifest, METRIC) is not None:
        return "other scoring code", None
    (comparison,) = compare(values - others, units=board.units, span=span_of(METRIC).of_differences())
    return pair_verdict(comparison.difference, comparison.p, comparison.decided), comparison


def _draw(row: Row, steps: Sequence[Step]) -> str:
    points = [
        charts.DatedMean(
            name=step.result.manifest.environment.created[:10],
            value=step.value,
            verdict=step.verdict,
        )
        for step in steps[-_MOST_DRAWN:]
    ]
    return charts.trend(f"{METRIC} of {row.name} over time", points, METRIC)


PAGE = Page("trend", "h/*.html")
