"""Reports of schema 1, whose verdicts were not those of an equivalence test: they are judged anew by their numbers."""

from __future__ import annotations

from bench.lab.reproduce.outcomes import CELL_VERDICTS
from bench.lab.reproduce.recipes import is_fact
from bench.lab.reproduce.report import CellReport, Reproduction
from bench.lab.reproduce.verdicts import judge_fact, judge_value, margin_of
from bench.stats.noninferiority import FEWEST_UNITS


def by_equivalence(report: Reproduction) -> Reproduction:
    """The report with the verdicts of today.

    It has no 90% intervals. The 95% interval contains that one, so what it shows holds; it may leave undecided what the
    other would decide.
    """
    cells = [_judged(cell, report) for cell in report.cells]
    tables = []
    for table in report.tables:
        verdicts = [cell.verdict for cell in cells if cell.table == table.table]
        tables.append(table.model_copy(update={"verdicts": {name: verdicts.count(name) for name in CELL_VERDICTS}}))
    return report.model_copy(update={"cells": cells, "tables": tables})


def _judged(cell: CellReport, report: Reproduction) -> CellReport:
    measurement = report.blocks[cell.block].measurement
    margin = margin_of(cell.unit)
    if cell.verdict not in {"reproduced", "not reproduced"} or margin is None:
        return cell
    if cell.measured is None or measurement is None:
        return cell
    if is_fact(cell.measured.metric):
        verdict = judge_fact(cell.published, cell.measured.mean, margin)
    else:
        # How many units there were is not kept; there were no more than queries.
        decided = measurement.queries >= FEWEST_UNITS
        verdict = judge_value(cell.published, cell.measured.low, cell.measured.high, margin, decided)
    reasons = cell.reasons if verdict == "not reproduced" else []
    return cell.model_copy(update={"verdict": verdict, "margin": margin, "reasons": reasons})
