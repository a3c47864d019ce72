"""Reports of schema 1, whose verdicts were not those of an equivalence test: they are judged anew by their numbers."""

from __future__ import annotations

from bench.lab.reproduce.artefacts import names_in
from bench.lab.reproduce.claims import Precondition, claims
from bench.lab.reproduce.claimtests import verdict_of
from bench.lab.reproduce.measuring import decide
from bench.lab.reproduce.outcomes import CELL_VERDICTS
from bench.lab.reproduce.preconditions import is_pretrained, judged_by_fact
from bench.lab.reproduce.recipes import is_fact
from bench.lab.reproduce.report import (
    CellReport,
    ClaimReport,
    ClaimTestReport,
    PreconditionReport,
    Reproduction,
)
from bench.lab.reproduce.summary import summarise
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
    tested = [_tested(claim, report) for claim in report.claims]
    return report.model_copy(
        update={"cells": cells, "tables": tables, "claims": tested, "papers": summarise(cells, tested)}
    )


def _tested(claim: ClaimReport, report: Reproduction) -> ClaimReport:
    """A claim with the preconditions of its tests, as far as the report says how they stand."""
    # By the systems alone: claims may be tested on other data by now.
    wanted = {(test.better, test.worse): test.precondition for item in claims() for test in item.tests}
    tests = []
    for test in claim.tests:
        precondition = wanted.get((test.better, test.worse))
        found = None if precondition is None else _recorded(precondition, test, report)
        tests.append(test.model_copy(update={"precondition": found}))
    verdict = claim.verdict if all(test.precondition is None for test in tests) else verdict_of(tests)
    return claim.model_copy(update={"tests": tests, "verdict": verdict})


def _recorded(wanted: Precondition, test: ClaimTestReport, report: Reproduction) -> PreconditionReport | None:
    """A precondition by what a report says of it; None where it says nothing.

    Rules ask no model, and what a generator began as is in its recipe. Two systems were compared where a cell compares
    them on all queries of the data: on its test split, as a dev split was not asked.
    """
    if wanted.fact == "llm_replies_per_query" and "rules for a language model" in test.differences:
        return judged_by_fact(wanted, 0.0)
    if wanted.fact == "pretrained":
        return judged_by_fact(wanted, float(all(map(is_pretrained, names_in(test.better + test.worse)))))
    for cell in report.cells:
        block, paired = report.blocks[cell.block], cell.direction
        ours, rival = block.measurement, block.rival
        if paired is None or ours is None or rival is None or paired.metric != wanted.metric or ours.slices:
            continue
        if (ours.method, rival.method) != (wanted.better, wanted.worse):
            continue
        if tuple(item.dataset for item in ours.data) == wanted.on:
            comparison = decide(paired, 1.0, paired.p)
            return PreconditionReport(
                name=wanted.name,
                needs=wanted.needs,
                holds=comparison.outcome == "as published",
                metric=wanted.metric,
                split=ours.data[0].split,
                better=None if cell.measured is None else cell.measured.mean,
                worse=None if cell.measured is None else cell.measured.mean - paired.difference,
                comparison=comparison,
            )
    return None


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
