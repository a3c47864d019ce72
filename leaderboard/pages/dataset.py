"""The page of a board: standings, charts and the dataset's card."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from bench.base.errors import UnavailableError
from bench.base.plugins import function
from bench.base.text import label
from bench.comparison.rows import competes
from bench.data.template import template_name
from bench.leaderboard.boards.board import COLUMNS, RANKED, Board, Rejected, Row, variants
from bench.leaderboard.boards.libraries import base_of
from bench.leaderboard.boards.registered import BoardData
from bench.leaderboard.boards.standings import RankedSystems
from bench.leaderboard.exports.write import table_path
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.explorer import Explorer
from bench.leaderboard.pages.libraries import libraries_path
from bench.leaderboard.pages.registry import Page
from bench.leaderboard.pages.rendering import per_thousand, picture, render
from bench.leaderboard.writer import Writer
from bench.show import numbers
from bench.show.figures import MOST_SERIES
from bench.stats.noninferiority import FEWEST_UNITS, LEVEL

#: Metrics that a board shows at first: quality and cost fit side by side on a laptop.
_SHOWN = ("recall@5", "ndcg@5", "recall@10", "pass@10")
#: Maximum methods in a chart and in a matrix.
MOST_SHOWN = 30


@dataclass(frozen=True)
class Cost:
    """A chart of quality against a cost, and its data."""

    title: str
    unit: str
    text: Callable[[float], str]
    points: tuple[charts.ChartPoint, ...]
    front: tuple[charts.ChartPoint, ...]
    picture: Markup


def write_dataset(
    board: Board,
    data: BoardData,
    explorer: Explorer | None,
    tools: Sequence[Row],
    query_ids: Sequence[str],
    sized: bool,
    no_match: str,
    sliced: str,
    choices: str,
    rejected: list[Rejected],
    writer: Writer,
) -> None:
    """Write a board's page, and its explorer page.

    Args:
        board: the board.
        data: its dataset, as far as available.
        explorer: from `write_explorer`.
        tools: rows that have a page about their tools.
        query_ids: ids of the judged queries, in the order of the rows' values.
        sized: whether its dataset has a page on library size.
        no_match: path of the page on queries that no tool answers; empty if there is none.
        sliced: path of the page on slices; empty if there is none.
        choices: path of the page on language models' choices; empty if there is none.
        rejected: receives what the page omits.
        writer: the site's writer.
    """
    standing = board.standings.get(RANKED[0])
    ranked = 0 if standing is None else len(standing.ids)
    costs = _costs(board)
    recall = _curves(board)
    sections = [("Board", "#board"), ("Ranks", "#ranks" if standing else ""), ("Cost", "#cost" if costs else "")]
    sections += [("Curves", "#curves" if recall["picture"] else ""), ("The dataset", "#card")]
    sections += [("Queries", f"../e/{board.slug}.html" if explorer else "")]
    sections += [("Slices", f"../{sliced}" if sliced else "")]
    columns = [name for name in COLUMNS if any(name in row.result.metrics.metrics for row in board.rows)]
    paid_calls = any(per_thousand(row.result.manifest) for row in board.rows)
    answers = any("answer" in row.result.metrics.tokens for row in board.rows)
    page = render(
        "dataset",
        "../",
        board=board,
        data=board.first.manifest.dataset,
        card=data.card,
        sections=[item for item in sections if item[1]],
        columns=columns,
        shown_columns=_SHOWN,
        paid_calls=paid_calls,
        chosen=[
            *((name, name, name in _SHOWN) for name in columns),
            ("latency", "latency", True),
            ("tokens", "tokens", True),
            *([("answer", "tokens of answer", True)] if answers else []),
            ("cost", "cost per 1,000 queries", paid_calls),
            ("failed", "failed queries", False),
        ],
        variants=variants(board.rows),
        primary=RANKED[0],
        standing=standing,
        fewest=FEWEST_UNITS,
        level=LEVEL,
        ranks_by=[_ranks(board, ranked_systems) for name in RANKED if (ranked_systems := board.standings.get(name))],
        shown=min(ranked, MOST_SHOWN),
        hidden=max(0, ranked - MOST_SHOWN),
        challengers=0 if standing is None else int((~standing.references).sum()),
        costs=costs,
        answers=answers,
        cached=any(_is_cached(row) for row in board.rows),
        uncounted=sum(_is_cached(row) for row in board.rows if competes(row.result))
        if len(_rows_with_latency(board)) < sum(row.result.manifest.latency is not None for row in board.rows)
        else 0,
        paid=_left_out_of_costs(board),
        tools=tools,
        curves=recall,
        why_not=data.why_not,
        repeated=next((known for row in board.rows if (known := row.result.manifest.dataset.repeated_gold)), 0),
        ceilings=_ceilings(board, data, query_ids, rejected),
        lenient=next((lenient for row in board.rows if (lenient := row.result.metrics.lenient)), None),
        strict_only=sum(row.result.metrics.lenient is None for row in board.rows),
        explorer=explorer,
        latex=table_path(board.first) if board.current else "",
        libraries=libraries_path(base_of(board.spec)) if sized else "",
        no_match=no_match,
        sliced=sliced,
        choices=choices,
        own_library=base_of(board.spec) == board.spec,
    )
    writer.put(f"d/{board.slug}.html", page)
    if explorer is not None:
        writer.put(f"e/{board.slug}.html", render("explorer", "../", board=board, explorer=explorer))


def _ceilings(board: Board, data: BoardData, query_ids: Sequence[str], rejected: list[Rejected]) -> Any:
    """The best means that any ranking reaches; None without the dataset, or without what computes them."""
    if data.dataset is None:
        return None
    try:
        ceilings = function("ceilings", "ceilings are omitted")
    except UnavailableError as error:
        rejected.append(Rejected(board.name, str(error)))
        return None
    codes = data.dataset.query_codes
    query_rows = np.array([codes[name] for name in query_ids if name in codes], dtype=np.int64)
    templates = [row.result.manifest.dataset.template for row in board.rows]
    return ceilings(data.dataset, next(name for name in templates if template_name(name) == board.template), query_rows)


def _ranks(board: Board, standing: RankedSystems) -> dict[str, Any]:
    metric = next(name for name in RANKED if board.standings.get(name) is standing)
    rows = {row.id: row for row in board.rows}
    order = standing.best(MOST_SHOWN)
    bars = []
    for i in order:
        row, (best, worst), own = rows[standing.ids[i]], standing.ranks[i].tolist(), bool(standing.references[i])
        value = row.result.metrics.metrics[metric]
        bars.append(charts.Bar(row.title, value.mean, value.low, value.high, (best, worst), own))
    return {
        "metric": metric,
        "names": [label(rows[standing.ids[i]].title, 60) for i in order],
        "pairs": standing.pairs[np.ix_(order, order)].tolist(),
        "picture": picture(charts.rank_picture(f"{metric} on {board.name}", bars)),
    }


def _is_cached(row: Row) -> bool:
    latency = row.result.manifest.latency
    return latency is not None and latency.cached


def _rows_with_latency(board: Board) -> list[tuple[Row, float]]:
    """Rows with their latency; rows that encoded nothing are left out if enough others did."""
    timed = [(row, latency.p50) for row in board.rows if (latency := row.result.manifest.latency) is not None]
    encoded = [(row, cost) for row, cost in timed if not _is_cached(row)]
    return encoded if len(encoded) > 2 else timed


def _costs(board: Board) -> list[Cost]:
    latency = _rows_with_latency(board)
    tokens = [(row, row.result.metrics.tokens["top_5"]) for row in board.rows if "top_5" in row.result.metrics.tokens]
    money = [(row, cost) for row in board.rows if (cost := per_thousand(row.result.manifest)) is not None]
    costs = []
    for title, unit, text, values in (
        (f"{RANKED[0]} against latency", "latency of one query, p50", numbers.duration, latency),
        (f"{RANKED[0]} against tokens", "tokens of the top five tools", numbers.count, tokens),
        (f"{RANKED[0]} against cost", "cost of 1,000 queries, at the configured prices", numbers.money, money),
    ):
        points = [
            charts.ChartPoint(row.title, float(cost), row.result.metrics.metrics[RANKED[0]].mean)
            for row, cost in values
            if competes(row.result) and (cost > 0 or values is money) and RANKED[0] in row.result.metrics.metrics
        ]
        # All methods may need nearly the same number of tokens; a chart of fewer than three says nothing.
        if len(points) > 2 and any(point.cost for point in points):
            drawn = charts.cost_picture(f"{title} on {board.name}", points, unit, RANKED[0], text)
            points.sort(key=lambda point: (point.cost, -point.quality, point.name))
            costs.append(Cost(title, unit, text, tuple(points), tuple(charts.front(points)), picture(drawn)))
    return costs


def _left_out_of_costs(board: Board) -> str:
    """What the cost charts leave out."""
    rows = [row for row in board.rows if competes(row.result)]
    costs = [per_thousand(row.result.manifest) for row in rows]
    unknown = sum(cost is None for cost in costs)
    words = "" if any(costs) else "No result here is known to have made paid calls."
    if unknown:
        words += f" Results with unknown cost (run files, models or embeddings without prices): {unknown}."
    if uncounted := sum(not row.result.metrics.tokens for row in rows):
        words += f" Results whose tokens were not counted (made without the tokenizer): {uncounted}."
    return words.strip()


def _curves(board: Board) -> dict[str, Any]:
    best = {row.family: row for row in reversed(board.rows) if not row.oracle}
    series = [charts.Series(row.title, _recall(row)) for row in board.rows if best.get(row.family) is row]
    series = [item for item in series if len(item.values) > 1][:MOST_SERIES]
    return {
        "series": series,
        "cutoffs": sorted({k for item in series for k, _ in item.values}),
        "picture": picture(charts.curves(f"recall@k on {board.name}", series, "recall@k")),
    }


def _recall(row: Row) -> tuple[tuple[int, float], ...]:
    means = row.result.metrics.metrics.items()
    found = ((re.fullmatch("recall@([0-9]{1,5})", name), value.mean) for name, value in means)
    return tuple(sorted((int(match[1]), mean) for match, mean in found if match))


PAGE = Page("board", "d/*.html")
