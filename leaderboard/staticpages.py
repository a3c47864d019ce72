"""Pages that belong to no board: metrics, submission, rejected results, reproduction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pydantic import ValidationError

from bench.errors import UsageError
from bench.leaderboard.mathml import formula
from bench.leaderboard.model import Rejected
from bench.leaderboard.pages import render
from bench.leaderboard.writer import Writer
from bench.metrics import measures
from bench.reproduce.lines import cell_row, claim_state, printed_state
from bench.reproduce.report import CellReport, Reproduction
from bench.reproduce.verdicts import TOLERANCE
from bench.reproduce.vocabulary import CELL_VERDICTS

_FORMS = {"k": "@k", "gold": "@gold", "none": "bare"}


def read_reproduction(path: Path) -> Reproduction:
    """What `bench reproduce` wrote.

    Raises:
        UsageError: it cannot be read, or does not follow its schema.
    """
    try:
        report = Reproduction.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from None
    except ValidationError as error:
        item = error.errors()[0]
        where = ".".join(map(str, item["loc"])) or "the file"
        raise UsageError(f"{path} is not a report of `bench reproduce` ({where}: {item['msg']}).") from None
    if any(not 0 <= cell.block < len(report.blocks) for cell in report.cells):
        raise UsageError(f"{path} is not a report of `bench reproduce` (a cell has no block).")
    return report


def write_static(
    rejected: Sequence[Rejected], report: Reproduction | None, shown: Collection[str], writer: Writer
) -> None:
    """Write these pages.

    Args:
        rejected: what is not shown, and why.
        report: of a reproduction, if there is one.
        shown: ids of the results that have a page.
        writer: writes.
    """
    metrics = [
        {
            "measure": measure,
            "forms": ", ".join(text for form, text in _FORMS.items() if form in measure.cutoffs),
            "formula": Markup(formula(name)),
        }
        for name, measure in measures().items()
    ]
    writer.put("metrics.html", render("metrics", "", "metrics.html", metrics=metrics))
    writer.put("submit.html", render("submit", "", "submit.html"))
    writer.put("rejected.html", render("rejected", "", "rejected.html", rejected=rejected))
    writer.put("reproduction.html", _reproduction(report, shown))


def _reproduction(report: Reproduction | None, shown: Collection[str]) -> str:
    context: dict[str, Any] = {"report": report}
    if report is not None:
        cells: dict[str, list[tuple[CellReport, list[str], list[str]]]] = {table.table: [] for table in report.tables}
        for cell in report.cells:
            block = report.blocks[cell.block]
            data = block.measurement.data if block.measurement else []
            ids = [item.result for item in data if item.result in shown]
            cells.setdefault(cell.table, []).append((cell, cell_row(cell, block), ids))
        context |= {
            "cells": cells,
            "verdicts": CELL_VERDICTS,
            "tolerance": TOLERANCE,
            "states": [claim_state(claim) for claim in report.claims],
            "printed": [printed_state(claim) for claim in report.claims],
        }
    return render("reproduction", "", "reproduction.html", **context)
