"""The page of a result: command, numbers and manifest."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.errors import ResultError
from bench.leaderboard.boards.board import COLUMNS, RANKED, Board, Row, family_of
from bench.leaderboard.boards.names import title_of
from bench.leaderboard.boards.risk_coverage import risk_coverage
from bench.leaderboard.exports.downloads import download_path
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.registry import Page
from bench.leaderboard.pages.rendering import picture, render
from bench.leaderboard.pages.trend import trend_anchor
from bench.leaderboard.writer import Writer
from bench.metrics import parse_metric
from bench.results.commands import command
from bench.results.costs import break_even
from bench.results.failures import reasons
from bench.results.repeats import chance_sentence, repeats_line
from bench.results.store import StoredResult
from bench.results.units import number_units
from bench.show.numbers import significant
from bench.stats.noninferiority import FEWEST_UNITS, enough_units
from bench.stats.robust_t import robust_t

Slices = Mapping[str, Mapping[str, NDArray[np.bool_]]]
_MOST_VALUES = 40
#: Metrics that a page shows first; the others are folded.
_FIRST = ("recall@1", *COLUMNS)
_ANSWERED, _WRONG = "coverage: share of queries answered", "risk: share of wrong answers"


def write_results(
    board: Board,
    slices: Slices,
    tools: Collection[str],
    offered: Collection[str],
    archive: str,
    writer: Writer,
    choices: str = "",
) -> None:
    """Write the pages of all results of a board, superseded ones included.

    Args:
        board: the board.
        slices: slice -> value -> (judged queries,).
        tools: ids of results that have a page about their tools.
        offered: ids of results in the board's download.
        archive: the name of that download.
        writer: the site's writer.
        choices: the choices, if the results are choices of language models and the site shows them.
    """
    trends = {item.newer: trend_anchor(row) for row in board.rows for item in board.superseded if item.newer == row.id}
    for row in board.rows:
        about = {"name": row.title, "family": row.family, "marks": row.marks, "newer": "", "tools": row.id in tools}
        about |= {"slices": _tables(row, slices, board.units), "choices": choices}
        about |= {"offered": row.id in offered, "archive": download_path(archive)}
        _write(row.result, board, writer, trend=trends.get(row.id, ""), **about)
    for item in board.superseded:
        method = item.result.manifest.method
        family = method.spec if method.run_file else family_of(method.spec)
        about = {"name": str(title_of(method)), "family": family, "marks": item.marks, "newer": item.newer}
        about |= {"slices": [], "tools": False, "choices": choices}
        about |= {"offered": item.id in offered, "archive": download_path(archive)}
        _write(item.result, board, writer, trend=trends[item.newer], **about)


def _write(result: StoredResult, board: Board, writer: Writer, *, trend: str, **about: Any) -> None:
    """Write the page of a result; `about` holds further template variables."""
    manifest = result.manifest
    first = [name for name in _FIRST if name in result.metrics.metrics] or list(result.metrics.metrics)[: len(_FIRST)]
    page = render(
        "result",
        "../",
        m=manifest,
        command=command(manifest),
        metrics=result.metrics,
        # Choices have no history.
        trend="" if about["choices"] else trend,
        first=first,
        others=[name for name in result.metrics.metrics if name not in first],
        ties=any(value.tie_high is not None for value in result.metrics.metrics.values()),
        ranked=RANKED,
        fewest=FEWEST_UNITS,
        board_name=board.name,
        board_slug=board.slug,
        has_run=result.has_run,
        repeats_line=repeats_line(result.metrics),
        break_even=break_even(manifest, result.metrics),
        risk=_risk(result),
        failures=reasons(result),
        chance=[said for name in RANKED if (said := chance_sentence(result.metrics, name))],
        **about,
    )
    writer.put(f"r/{manifest.result_id}.html", page)


def _risk(result: StoredResult) -> dict[str, Any] | None:
    """The risk-coverage curve: its chart and a row for each tenth of the queries; None if there is none."""
    try:
        curve = risk_coverage(result)
    except (ResultError, pa.ArrowException, ValueError, TypeError):
        return None  # a damaged table or one of other types should not remove the page
    if curve is None:
        return None
    levels = sorted({curve.at(tenth / 10) for tenth in range(1, 11)})
    points = list(zip(curve.coverage.tolist(), curve.risk.tolist(), strict=True))
    return {
        "k": curve.k,
        "area": curve.area,
        "repeats": result.manifest.repeats,
        "picture": picture(charts.steps("Risk by coverage", points, _ANSWERED, _WRONG)),
        "rows": [
            (
                _threshold(float(curve.threshold[i])),
                float(curve.coverage[i]),
                int(curve.answered[i]),
                int(curve.missed[i]),
                int(curve.needless[i]),
                float(curve.risk[i]),
            )
            for i in levels
        ],
    }


def _threshold(score: float) -> str:
    """A score; for failures and empty answers, which have none, a word."""
    return significant(score) if math.isfinite(score) else "failed" if score > 0 else "nothing returned"


def _tables(row: Row, slices: Slices, units: NDArray[np.int64] | None) -> list[dict[str, Any]]:
    """Means and intervals on the values of each slice.

    The intervals are fast ones, from cluster-robust errors and within the metric's range: a bootstrap of each value of
    each result would take longer than the rest of the site. There are none if there are too few groups.
    """
    if row.values is None or units is None:
        return []
    ranges = np.array([parse_metric(name).measure.span for name in RANKED], dtype=np.float64)
    tables = []
    for name, masks in slices.items():
        rows = []
        for value, mask in list(masks.items())[:_MOST_VALUES]:
            slice_values = row.values[mask]
            groups = number_units(units[mask])
            count = int(groups.max()) + 1 if len(slice_values) else 0
            lows = highs = np.full(len(RANKED), np.nan)
            if len(slice_values) and enough_units(groups):
                statistics = robust_t(slice_values, groups)
                ends = statistics.intervals(0.95)
                lows, highs = np.maximum(ends[:, 0], ranges[:, 0]), np.minimum(ends[:, 1], ranges[:, 1])
            cells = list(zip(slice_values.mean(axis=0).tolist(), lows.tolist(), highs.tolist(), strict=True))
            rows.append((value, len(slice_values), count, cells))
        tables.append({"name": name, "rows": rows})
    return tables


PAGE = Page("result", "r/*.html")
