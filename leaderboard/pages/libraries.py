"""A page for each dataset with results on libraries of other sizes: how methods change as the library grows."""

from __future__ import annotations

from markupsafe import Markup

from bench.base.text import unique_slug
from bench.leaderboard.boards.libraries import METRIC, Curves, curves_of
from bench.leaderboard.boards.registered import card_of, data_of
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.registry import Page, SiteData
from bench.leaderboard.pages.rendering import picture, render
from bench.leaderboard.writer import Writer
from bench.show.figures import MOST_SERIES, Sized


def libraries_path(base: str) -> str:
    """The path of a dataset's curves."""
    return f"l/{unique_slug(base)}.html"


def _write(content: SiteData, writer: Writer) -> None:
    for base in sorted(content.drawn):
        series = curves_of(base, content.main)
        page = render(
            "libraries",
            "../",
            base=base,
            board=content.main.get(base),
            series=[(item, _picture(item), card_of(item.library.distractors), _note(item)) for item in series],
            metric=METRIC,
            most=MOST_SERIES,
        )
        writer.put(libraries_path(base), page)


def _note(curves: Curves) -> str:
    """How the largest library was drawn, from its card; empty if the dataset is unavailable."""
    board = list(curves.boards.values())[-1]
    data = data_of(board.spec, board.content_hash)
    issues = [] if data.dataset is None or data.card is None else data.card.known_issues
    return next((issue for issue in issues if issue.startswith("The library is drawn")), "")


def _picture(curves: Curves) -> Markup:
    lines = [
        Sized(curve.title, tuple((size, mean.mean, mean.low, mean.high) for size, mean in points))
        for curve in curves.curves
        if curve.competes
        and (points := [(size, row.result.metrics.metrics[METRIC]) for size, row in sorted(curve.points.items())])
    ]
    return picture(charts.sizes(f"{METRIC} by tools in the library", lines, METRIC))


PAGE = Page("libraries", "l/*.html", _write)
