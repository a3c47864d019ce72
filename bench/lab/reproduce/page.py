"""The page of a reproduction: published numbers and claims next to measured ones."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from markupsafe import Markup

from bench.base.errors import UsageError
from bench.base.reading import Reader
from bench.lab.reproduce import parts
from bench.lab.reproduce.outcomes import CLAIM_VERDICTS
from bench.lab.reproduce.report import Reproduction
from bench.leaderboard.boards.board import family_of
from bench.leaderboard.pages.registry import Page, SiteData
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer


def read_reproduction(path: Path) -> Reproduction:
    """Read the report of `bench reproduce`.

    Raises:
        UsageError: it cannot be read, or does not follow its schema.
    """
    report = Reader(f"the report of `bench reproduce` {path}", UsageError).read_record(Reproduction, path)
    if any(not 0 <= cell.block < len(report.blocks) for cell in report.cells):
        raise UsageError(f"{path} is not a report of `bench reproduce` (a cell has no block).")
    return report


def _report(content: SiteData) -> Reproduction | None:
    return content.files.get(PAGE.name)


def _write(content: SiteData, writer: Writer) -> None:
    context = {"report": _report(content), "parts": parts, "shown": content.shown}
    writer.put("reproduction.html", render("reproduction", "", "reproduction.html", **context))


def _claims(content: SiteData) -> Markup:
    """Number of claims of the papers with each verdict."""
    report = _report(content)
    verdicts = Counter(claim.verdict for claim in report.claims) if report else Counter[str]()
    claims = [(verdict, verdicts[verdict]) for verdict in CLAIM_VERDICTS if verdicts[verdict]]
    return Markup(render("claims", "", claims=claims)) if claims else Markup("")


def _published_numbers(report: Reproduction | None, family: str) -> Markup:
    """The published numbers that were measured by a method."""
    if report is None:
        return Markup("")
    cells = [(cell, report.blocks[cell.block]) for cell in report.cells]
    published = [
        (cell, parts.cell_row(cell, block))
        for cell, block in cells
        if block.measurement is not None and family_of(block.measurement.method) == family
    ]
    return Markup(render("published", "../", published=published)) if published else Markup("")


PAGE = Page(
    "reproduction",
    "reproduction.html",
    _write,
    when=lambda frame: "reproduction" in frame.files,
    entry="Reproduction",
    order=6,
    file="A reproduction.json to publish with the results.",
    read=read_reproduction,
    on_home=_claims,
    on_method=lambda content: partial(_published_numbers, _report(content)),
)
