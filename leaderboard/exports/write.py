"""Exports of a site in formats for other programs.

results.csv       one line for each result and metric
results.json      everything, with the schema `export`
tables/BOARD.tex  a LaTeX table for each board of today's protocol
methods.bib       papers of the datasets and methods

The same results give the same bytes; names are untrusted, and escaped by each form in its own way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.evidence.export import (
    Export,
    ExportedBoard,
    ExportedOverall,
    ExportedResult,
    ExportedRow,
    ExportedStanding,
)
from bench.leaderboard.boards.board import COLUMNS, RANKED, Board, slug_of
from bench.leaderboard.boards.names import title_of
from bench.leaderboard.boards.overall import Overall
from bench.leaderboard.boards.standings import RankedSystems
from bench.leaderboard.exports.bibtex import methods_bib
from bench.leaderboard.exports.latex import board_latex
from bench.leaderboard.exports.results_csv import results_csv
from bench.leaderboard.exports.results_json import described, results_json
from bench.protocol import CURRENT_VERSIONS, PROTOCOL_VERSION
from bench.results.comparing import comparable, ordered, usual
from bench.results.comparing import marks as stated_marks
from bench.results.costs import money_per_query
from bench.results.store import Result, latest
from bench.text import one_line


@dataclass(frozen=True)
class _Group:
    """Results that compare: the ranked ones best first, and all of them."""

    id: str
    ranked: list[Result]
    everything: list[Result]


def table_path(result: Result) -> str:
    """Where the LaTeX table of a result's board is, relative to the site."""
    return f"tables/{slug_of(result)}.tex"


def write_exports(
    put: Callable[[str, str], object],
    results: Sequence[Result],
    boards: Sequence[Board] = (),
    overall: Sequence[Overall] = (),
    *,
    links: Mapping[str, str] | None = None,
    marks: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Give every export to `put`, which writes a text to a path relative to the site's root.

    Args:
        put: called once for each file, in a fixed order.
        results: every readable result, in any order; older versions and other protocols among them.
        boards: those of the site, for the tests of all pairs.
        overall: boards over datasets.
        links: result id -> the page that shows it, relative to the site's root.
        marks: result id -> what its row says of it on the pages, which know the dataset too; by default what results
            say of themselves.
    """
    links = links or {}
    # A result that lies in two folders is one.
    by_id = {result.manifest.result_id: result for result in sorted(results, key=lambda item: str(item.folder))}
    unique = sorted(by_id.values(), key=_place)
    newest = latest(unique)
    current = frozenset(result.manifest.result_id for result in newest)
    groups = _boards(unique, current)
    own_marks = {
        result.manifest.result_id: [one_line(text, 300) for text in marks[result.manifest.result_id]]
        if marks is not None
        else _marks(result, board, current)
        for board in groups
        for result in board.everything
    }
    put("results.csv", results_csv(unique, current, own_marks))
    put("results.json", results_json(_export(unique, groups, boards, overall, own_marks, current, links)))
    for board in groups:
        if board.ranked[0].manifest.protocol in CURRENT_VERSIONS:
            put(f"tables/{board.id}.tex", board_latex(board.ranked, COLUMNS, own_marks))
    put("methods.bib", methods_bib(unique))


def _method(result: Result) -> str:
    return result.label.rpartition(" @ ")[0]


def _place(result: Result) -> tuple[str, str, int, str, str, str, str, str]:
    data, manifest = result.manifest.dataset, result.manifest
    where = (data.spec, data.split, data.limit or 0, data.content_hash, manifest.protocol)
    return (*where, _method(result), manifest.environment.created, manifest.result_id)


def _boards(results: Sequence[Result], current: frozenset[str]) -> list[_Group]:
    return [
        _Group(
            slug_of(members[0]),
            ordered([item for item in members if item.manifest.result_id in current], RANKED[0]),
            members,
        )
        for members in comparable(results)
    ]


def _marks(result: Result, board: _Group, current: frozenset[str]) -> list[str]:
    found = [mark.text for mark in stated_marks(result, usual(board.everything))]
    if result.metrics.n_failed:
        found.append(f"{result.metrics.n_failed} failed")
    if result.manifest.protocol not in CURRENT_VERSIONS:
        found.append(f"protocol {result.manifest.protocol}")
    if result.manifest.result_id not in current:
        found.append("older version")
    return found


def _export(
    results: Sequence[Result],
    groups: Sequence[_Group],
    boards: Sequence[Board],
    overall: Sequence[Overall],
    own_marks: Mapping[str, list[str]],
    current: frozenset[str],
    links: Mapping[str, str],
) -> Export:
    names = list(dict.fromkeys(name for result in results for name in result.metrics.metrics))
    standings = {board.slug: board.standings for board in boards}
    return Export(
        protocol=PROTOCOL_VERSION,
        metrics=described(names),
        boards=[_exported_board(group, standings.get(group.id, {})) for group in groups],
        overall=[_exported_overall(board) for board in overall],
        results=[
            ExportedResult(
                result_id=result.manifest.result_id,
                label=result.label,
                title=str(title_of(result.manifest.method)),
                board=slug_of(result),
                latest=result.manifest.result_id in current,
                marks=own_marks[result.manifest.result_id],
                cost_per_query=money_per_query(result.manifest),
                page=links.get(result.manifest.result_id),
                manifest=result.manifest,
                metrics=result.metrics,
            )
            for result in results
        ],
    )


def _standing(metric: str, found: RankedSystems) -> ExportedStanding:
    count = len(found.ids)
    return ExportedStanding(
        metric=metric,
        systems=list(found.ids),
        tiers=found.tier.tolist(),
        ranks=[(int(best), int(worst)) for best, worst in found.ranks],
        p=[found.pairs[i, i + 1 :].tolist() for i in range(count)],
        n=found.n,
        units=found.units,
        exact=found.exact,
    )


def _known(end: float | None) -> float | None:
    """An interval's end; None where too few sources or units leave it open."""
    return None if end is None or math.isnan(end) else end


def _exported_overall(board: Overall) -> ExportedOverall:
    return ExportedOverall(
        view=board.view.name,
        title=board.view.title,
        ranking_set=board.view.version,
        metric=board.metric,
        queries=board.kind,
        boards=[item.slug for item in board.boards],
        rows=[
            ExportedRow(
                system=place.key,
                mean=place.mean,
                low=_known(place.low),
                high=_known(place.high),
                tier=place.tier,
                best_rank=place.best,
                worst_rank=place.worst,
                results=[None if cell is None else cell[1].id for cell in place.cells],
                means=[None if cell is None else cell[0] for cell in place.cells],
            )
            for place in board.places
        ],
        standing=None if board.standing is None else _standing(board.metric, board.standing),
    )


def _exported_board(board: _Group, standings: Mapping[str, RankedSystems]) -> ExportedBoard:
    first = board.ranked[0]
    data = first.manifest.dataset
    return ExportedBoard(
        id=board.id,
        dataset=data.spec,
        title=data.title,
        content_hash=data.content_hash,
        split=data.split,
        limit=data.limit,
        protocol=first.manifest.protocol,
        current=first.manifest.protocol in CURRENT_VERSIONS,
        judged=data.judged,
        tools=data.tools,
        metric=RANKED[0],
        results=[result.manifest.result_id for result in board.ranked],
        standings=[_standing(metric, found) for metric, found in standings.items()],
    )
