"""The page of a reproduction: published numbers and claims next to measured ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pydantic import ValidationError

from bench.base.errors import UsageError
from bench.base.paths import read_regular
from bench.base.records import first_fault
from bench.lab.reproduce.older import by_equivalence
from bench.lab.reproduce.outcomes import CLAIM_VERDICTS
from bench.lab.reproduce.report import Block, CellReport, Reproduction
from bench.lab.reproduce.verdicts import DIFFERENCE_MARGIN, MARGIN
from bench.lab.reproduce.wording import (
    PAPERS,
    TABLES,
    cell_row,
    claim_state,
    paper_row,
    preconditions_of,
    printed_state,
    table_counts,
)
from bench.leaderboard.boards.board import family_of
from bench.leaderboard.pages.registry import Content, Page
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer


def read_reproduction(path: Path) -> Reproduction:
    """What `bench reproduce` wrote.

    Raises:
        UsageError: it cannot be read, or does not follow its schema.
    """
    try:
        report = Reproduction.model_validate_json(read_regular(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from None
    except ValidationError as error:
        raise UsageError(f"{path} is not a report of `bench reproduce` ({first_fault(error)}).") from None
    if any(not 0 <= cell.block < len(report.blocks) for cell in report.cells):
        raise UsageError(f"{path} is not a report of `bench reproduce` (a cell has no block).")
    return by_equivalence(report) if report.schema_version == 1 else report


def _report(content: Content) -> Reproduction | None:
    return content.files.get(PAGE.name)


def _write(content: Content, writer: Writer) -> None:
    report = _report(content)
    context: dict[str, Any] = {"report": report}
    if report is not None:
        cells: dict[str, list[tuple[CellReport, list[str], Block, list[str]]]] = {
            table.table: [] for table in report.tables
        }
        for cell in report.cells:
            block = report.blocks[cell.block]
            data = block.measurement.data if block.measurement else []
            ids = [item.result for item in data if item.result in content.shown]
            cells.setdefault(cell.table, []).append((cell, cell_row(cell, block), block, ids))
        context |= {
            "cells": cells,
            "columns": TABLES,
            "counts": [table_counts(table, report.cells) for table in report.tables],
            "papers": PAPERS,
            "paper_rows": [paper_row(paper) for paper in report.papers],
            "preconditions": [preconditions_of(claim) for claim in report.claims],
            "margin": MARGIN,
            "difference_margin": DIFFERENCE_MARGIN,
            "older": report.schema_version == 1,
            "independent": report.protocol.startswith("1."),
            "states": [claim_state(claim) for claim in report.claims],
            "printed": [printed_state(claim) for claim in report.claims],
        }
    writer.put("reproduction.html", render("reproduction", "", "reproduction.html", **context))


def _claims(content: Content) -> Markup:
    """How many claims of the papers have each verdict."""
    report = _report(content)
    verdicts = Counter(claim.verdict for claim in report.claims) if report else Counter[str]()
    claims = [(verdict, verdicts[verdict]) for verdict in CLAIM_VERDICTS if verdicts[verdict]]
    return Markup(render("claims", "", claims=claims)) if claims else Markup("")


def _published_numbers(content: Content, family: str) -> Markup:
    """The published numbers that were measured by a method."""
    report = _report(content)
    published: list[tuple[CellReport, list[str]]] = []
    for cell in report.cells if report else ():
        block = report.blocks[cell.block] if report and 0 <= cell.block < len(report.blocks) else None
        if block is not None and block.measurement is not None and family_of(block.measurement.method) == family:
            published.append((cell, cell_row(cell, block)))
    return Markup(render("published", "../", published=published)) if published else Markup("")


PAGE = Page(
    "reproduction",
    "reproduction.html",
    _write,
    entry="Reproduction",
    place=6,
    file="A reproduction.json to publish with the results.",
    read=read_reproduction,
    on_home=_claims,
    on_method=_published_numbers,
)
