"""Exports of a site in formats for other programs. `site` calls it.

results.csv.gz    one line for each result and metric
results.json      everything, with the schema `export`
tables/BOARD.tex  a LaTeX table for each board of the current protocol
methods.bib       papers of the datasets and methods

The same results give the same bytes. Names are untrusted, and each format escapes them in its own way.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from operator import attrgetter

from bench.base.errors import UsageError
from bench.base.secrets import mask
from bench.comparison.variants import variants_of
from bench.interface import PROTOCOL_VERSION
from bench.leaderboard.boards.board import COLUMNS, RANKED, Board, slug_of
from bench.leaderboard.boards.names import title_of
from bench.leaderboard.boards.overall import Overall
from bench.leaderboard.boards.standings import RankedSystems
from bench.leaderboard.exports.bibtex import methods_bib
from bench.leaderboard.exports.latex import board_latex
from bench.leaderboard.exports.results_csv import results_csv
from bench.leaderboard.exports.schema import (
    Export,
    ExportedBoard,
    ExportedMetric,
    ExportedOverall,
    ExportedResult,
    ExportedRow,
    ExportedStanding,
)
from bench.metrics import parse_metric
from bench.results.costs import money_per_query
from bench.results.store import StoredResult
from bench.show.numbers import number_or_none


def table_path(result: StoredResult) -> str:
    """The path of the LaTeX table of a result's board, relative to the site."""
    return f"tables/{slug_of(result)}.tex"


def write_exports(
    put: Callable[[str, str | bytes], object], boards: Sequence[Board], overall: Sequence[Overall]
) -> None:
    """Pass every export to `put`, which writes a text to a path relative to the site's root.

    Args:
        put: called once for each file, in a fixed order, with text or bytes.
        boards: the site's boards, in order.
        overall: boards over datasets.
    """
    shown = {board.slug: _results(board) for board in boards}
    results = [result for board_results in shown.values() for result in board_results]
    latest = frozenset(row.id for board in boards for row in board.rows)
    marks, tried = _marks(boards), variants_of(results)
    # A tenth of the size. Without name and time, the same results give the same bytes; the writer masks texts alone.
    table = mask(results_csv(results, latest, marks)).encode("utf-8")
    put("results.csv.gz", gzip.compress(table, compresslevel=6, mtime=0))
    export = Export(
        protocol=PROTOCOL_VERSION,
        metrics=_describe_metrics(dict.fromkeys(name for result in results for name in result.metrics.metrics)),
        boards=[_export_board(board) for board in boards],
        overall=[_export_overall(board) for board in overall],
        results=[
            ExportedResult(
                result_id=(name := result.manifest.result_id),
                label=result.label,
                title=str(title_of(result.manifest.method)),
                board=slug,
                latest=name in latest,
                marks=marks[name],
                variants=len(tried[name]),
                cost_per_query=money_per_query(result.manifest),
                page=f"r/{name}.html",
                manifest=result.manifest,
                metrics=result.metrics,
            )
            for slug, board_results in shown.items()
            for result in board_results
        ],
    )
    # Escape `<`, so that browsers that guess types do not read a name as markup.
    put("results.json", export.model_dump_json().replace("<", "\\u003c") + "\n")
    for board in boards:
        if board.current:
            put(table_path(board.first), board_latex([row.result for row in board.rows], COLUMNS, marks))
    put("methods.bib", methods_bib(results))


def _describe_metrics(names: Iterable[str]) -> list[ExportedMetric]:
    """Descriptions of these metrics; unknown metrics are left out."""
    metrics = []
    for name in names:
        with suppress(UsageError):
            measure = parse_metric(name).measure
            about = {key: getattr(measure, key) for key in ("definition", "higher_is_better", "reproduction_only")}
            metrics.append(ExportedMetric(name=name, **about))
    return metrics


def _results(board: Board) -> list[StoredResult]:
    """All results of a board, superseded ones included, by method and date."""
    order = attrgetter("manifest.method.label", "manifest.environment.created", "manifest.result_id")
    return sorted([*(row.result for row in board.rows), *(item.result for item in board.superseded)], key=order)


def _marks(boards: Sequence[Board]) -> dict[str, list[str]]:
    """Result id -> the marks of its row, with the sign of a doubtful lead in words."""
    by_id = {item.id: [mark.text for mark in item.marks] for board in boards for item in board.superseded}
    for board in boards:
        for row in board.rows:
            doubtful = [name for name in COLUMNS if name in row.doubtful]
            tied = [f"lead within ties: {', '.join(doubtful)}"] if doubtful else []
            by_id[row.id] = [*(mark.text for mark in row.marks), *tied]
    return by_id


def _standing(metric: str, ranked: RankedSystems) -> ExportedStanding:
    count = len(ranked.ids)
    return ExportedStanding(
        metric=metric,
        systems=list(ranked.ids),
        references=[name for name, own in zip(ranked.ids, ranked.references.tolist(), strict=True) if own],
        tiers=ranked.ranks[:, 0].tolist(),
        ranks=[(int(best), int(worst)) for best, worst in ranked.ranks],
        p=[[number_or_none(p) for p in ranked.pairs[i, i + 1 :].tolist()] for i in range(count)],
        n=ranked.n,
        units=ranked.units,
        exact=ranked.exact,
    )


def _export_overall(board: Overall) -> ExportedOverall:
    return ExportedOverall(
        view=board.view.name,
        title=board.view.title,
        ranking_set=board.view.version,
        metric=board.metric,
        queries=board.kind,
        boards=[item.slug for item in board.boards],
        rows=[
            ExportedRow(
                system=row.key,
                mean=row.mean,
                low=number_or_none(row.low),
                high=number_or_none(row.high),
                tier=row.ranks and row.ranks[0],
                best_rank=row.ranks and row.ranks[0],
                worst_rank=row.ranks and row.ranks[1],
                results=[None if cell is None else cell[1].id for cell in row.cells],
                means=[None if cell is None else cell[0] for cell in row.cells],
            )
            for row in board.rows
        ],
        standing=None if board.standing is None else _standing(board.metric, board.standing),
    )


def _export_board(board: Board) -> ExportedBoard:
    data = board.first.manifest.dataset
    return ExportedBoard(
        id=board.slug,
        dataset=board.spec,
        title=board.title,
        content_hash=board.content_hash,
        split=board.split,
        limit=board.limit,
        protocol=board.protocol,
        current=board.current,
        judged=data.judged,
        tools=data.tools,
        metric=RANKED[0],
        results=[row.id for row in board.rows],
        standings=[_standing(metric, standing) for metric, standing in board.standings.items()],
    )
