"""The board over datasets: a page for each view, metric and kind of queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from bench.comparison.best import best_sentence
from bench.comparison.rows import competes
from bench.interface import PROTOCOL_VERSION
from bench.leaderboard.boards.answers import LIMITS, TRAINING, cases, latency_of, tokens_of
from bench.leaderboard.boards.board import RANKED, Board, titles, variants
from bench.leaderboard.boards.decisions import VERIFIED
from bench.leaderboard.boards.libraries import drop_library_variants
from bench.leaderboard.boards.overall import Overall, families, find_unavailable
from bench.leaderboard.boards.traits import learns
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.changes import has_changes
from bench.leaderboard.pages.gates import latest_verdicts
from bench.leaderboard.pages.libraries import libraries_path
from bench.leaderboard.pages.nomatch import no_match_path
from bench.leaderboard.pages.registry import Page, SiteData, pages
from bench.leaderboard.pages.rendering import picture, render
from bench.leaderboard.writer import Writer
from bench.show import numbers
from bench.stats.macro import FEWEST_SOURCES

#: Maximum rows of the first chart.
_MOST_SHOWN = 30


def _write(content: SiteData, writer: Writer) -> None:
    shown = {board.slug for view in content.views for board in view.boards}
    others = [board for board in drop_library_variants(content.boards) if board.slug not in shown]
    counting = sorted(content.main.values(), key=lambda board: board.slug)
    no_match = [(board, no_match_path(board)) for board in drop_library_variants(counting)]
    no_match = [(board, path) for board, path in no_match if path in writer.keys]
    paths = {board: _path(board, content) for board in content.overall}
    rows = {board: {row.key: row.row for row in board.rows} for board in content.overall}
    names = {board: dict(zip(mine, titles(list(mine.values())), strict=True)) for board, mine in rows.items()}
    asked = cases(content.overall)
    plugged = [page.on_home(content) for page in pages() if page.on_home is not None]
    for board, path in paths.items():
        view = [(other, path) for other, path in paths.items() if other.view is board.view]
        page = render(
            "home",
            "",
            "index.html",
            board=board,
            titles=names[board],
            variants=variants([row.row for row in board.rows]),
            best_of=_best_of(board),
            views=[
                (other.view.title, path, other.view is board.view)
                for other, path in paths.items()
                if (other.metric, other.kind) == (board.metric, "all")
            ],
            metrics=[(other.metric, path) for other, path in view if other.kind == board.kind],
            kinds=[(other.kind, path) for other, path in view if other.metric == board.metric],
            ranked=sum(row.ranks is not None for row in board.rows),
            partial=sum(bool(row.lacks) for row in board.rows),
            challengers=sum(row.ranks is not None and not row.reference for row in board.rows),
            unplaced=sum(row.ranks is None and not row.lacks and not row.row.oracle for row in board.rows),
            sources=len({item.source for item in board.boards}),
            unavailable=find_unavailable(board.view, content.absent),
            unranked=content.unranked,
            families=list(families(board.view.boards)),
            flags=_flags(board.view.boards),
            best=_best(board),
            statement="" if board.best is None else best_sentence(board.best, names[board]),
            fewest=FEWEST_SOURCES,
            others=others,
            latency=latency_of,
            tokens=tokens_of,
            first=path == "index.html",
            cases=asked if path == "index.html" else None,
            trainings=TRAINING,
            limits=LIMITS,
            paths=paths,
            names=names,
            no_match=no_match,
            libraries=[(content.main.get(base), base, libraries_path(base)) for base in sorted(content.drawn)],
            pictures=_pictures(board, names[board]) if path == "index.html" else [],
            plugged=plugged,
            gates=latest_verdicts(content.gates),
            changes=has_changes(content),
            choices=content.choices[0].path.partition("#")[0] if content.choices else "",
            date=max((item.latest for item in board.boards), default="")[:10],
            cite=_cite(content) if path == "index.html" else "",
        )
        writer.put(path, page)


def _best_of(board: Overall) -> dict[str, int]:
    """Key of the best of several ranked variants of a method -> number of variants."""
    ranked = [row for row in board.rows if row.ranks is not None and not row.row.oracle]
    counts = Counter(row.row.family for row in ranked)
    best = {row.row.family: row.key for row in reversed(ranked)}
    return {key: counts[family] for family, key in best.items() if counts[family] > 1}


def _pictures(board: Overall, names: Mapping[str, str]) -> list[tuple[str, Markup]]:
    """Captions and charts of the ranking: means with intervals, and quality against time and tokens."""
    rows = [row for row in board.rows if row.ranks is not None and row.mean is not None]
    standing = board.standing
    best = set() if standing is None else {standing.ids[i] for i in standing.best(_MOST_SHOWN)}
    bars = [
        charts.Bar(names[row.key], row.mean or 0.0, row.low, row.high, row.ranks, row.reference)
        for row in rows
        if row.key in best
    ]
    metric, quality = board.metric, f"mean {board.metric}"
    ranked = charts.rank_picture(f"{metric} of all methods", bars)
    pictures = [(f"{metric}: means over sources, 95% intervals, ranks", ranked)]
    for what, unit, text, cost_of in (
        ("latency", "latency of one query", numbers.duration, latency_of),
        ("tokens", "tokens of the top five tools", numbers.count, tokens_of),
    ):
        costs = [(row, cost_of(row)) for row in rows if competes(row.row.result)]
        points = [charts.ChartPoint(names[row.key], cost, row.mean or 0.0) for row, cost in costs if cost]
        if len(points) > 2:
            caption = f"{metric} against {what}; dashed: the Pareto front"
            unknown = [names[row.key] for row, cost in costs if not cost]
            caption += f". Not measured: {', '.join(unknown)}" if unknown else ""
            pictures.append((caption, charts.cost_picture(f"{metric} against {what}", points, unit, quality, text)))
    return [(caption, picture(drawn)) for caption, drawn in pictures if drawn]


def _cite(content: SiteData) -> str:
    """How to cite the board: its content and its date."""
    if not content.boards or not content.views[0].boards:
        return ""
    newest = max(board.latest for board in content.views[0].boards)
    declared = f", ranking set {content.views[0].version}" if content.views[0].declared else ""
    return (
        f"@misc{{bench{newest[:4]},\n"
        "  title = {bench: tool retrieval, under one protocol},\n"
        f"  year = {{{newest[:4]}}},\n"
        f"  note = {{Protocol {PROTOCOL_VERSION}{declared}, results of {newest[:10]}}},\n}}"
    )


def _flags(boards: Sequence[Board]) -> dict[str, str]:
    flags: dict[str, set[str]] = {}
    for board in boards:
        for row in board.rows:
            row_flags = flags.setdefault(row.key, set())
            row_flags |= {"l"} if row.result.manifest.method.needs_llm else set()
            row_flags |= {"t"} if learns(row) else set()
            row_flags |= set() if row.evidence in VERIFIED else {"c"}
    return {key: "".join(sorted(letters)) for key, letters in flags.items()}


def _best(board: Overall) -> list[set[str]]:
    """For each dataset, the ids of the results that may be best; only known for all queries together.

    No result is best if there are too few units for a conclusion.
    """
    if board.kind != "all":
        return [set() for _ in board.boards]
    standings = [item.standings.get(board.metric) for item in board.boards]
    return [
        {name for name, best in zip(found.ids, found.ranks[:, 0], strict=True) if best == 1 and found.decided}
        if found is not None
        else set()
        for found in standings
    ]


def _path(board: Overall, content: SiteData) -> str:
    first = board.view is content.views[0]
    if board.metric == RANKED[0] and board.kind == "all" and first:
        return "index.html"
    parts = ["overall", board.metric.replace("@", "-"), "" if first else board.view.name]
    parts += ["" if board.kind == "all" else board.kind]
    return f"{'-'.join(filter(None, parts))}.html"


PAGE = Page("home", "index.html", _write, entry="Overall", order=1)
