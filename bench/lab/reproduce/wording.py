"""Rows and notes shared by the terminal and Markdown reports."""

from __future__ import annotations

from collections.abc import Sequence

from bench.lab.reproduce.outcomes import CELL_VERDICTS, CLAIM_VERDICTS, DIRECTION_COUNTS, Outcome
from bench.lab.reproduce.report import (
    Block,
    CellReport,
    ClaimReport,
    ClaimTestReport,
    Lacking,
    Measurement,
    PairedComparison,
    PaperReport,
    PreconditionReport,
    TableReport,
)
from bench.lab.reproduce.summary import count_directions
from bench.show.numbers import count, estimate, format_fixed, format_signed, interval, p_value, significant

#: The columns of measured cells, and of directions: a gap is the difference to the row that a cell is compared with.
VALUES = ("metric", "published", "measured", "95% interval", "difference", "verdict")
DIRECTIONS = (
    "metric",
    "published",
    "ours",
    "published\ngap",
    "our\ngap",
    "95% interval",
    "p",
    "direction\nonly",
)


def value_row(cell: CellReport, block: Block) -> list[str]:
    """The texts of a cell that was measured (or not run), one for each of `VALUES`."""
    if cell.measured is None:
        return [cell.metric, cell.printed, "", "", "", cell.verdict]
    numbers = [
        _number(cell.measured.mean, cell),
        interval(cell.measured.low, cell.measured.high),
        _format_signed(cell.difference, cell),
    ]
    return [cell.metric, cell.printed, *numbers, _verdict(cell, block)]


def _verdict(cell: CellReport, block: Block) -> str:
    words = cell.verdict + ("" if cell.margin is None else f" (±{cell.margin:g})")
    if cell.verdict == "reproduced" and block.other_data:
        return f"{words}, other data"
    return f"{words}, reason unknown" if cell.verdict == "not reproduced" and not cell.reasons else words


def direction_row(cell: CellReport) -> list[str]:
    """The texts of a cell whose direction was tested, one for each of `DIRECTIONS`."""
    direction = cell.direction
    assert direction is not None
    published = _format_signed(cell.published_difference, cell)
    ours = _format_signed(direction.difference, cell)
    return [
        cell.metric,
        cell.printed,
        "" if cell.measured is None else _number(cell.measured.mean, cell),
        published,
        ours,
        interval(direction.low, direction.high),
        p_value(direction.corrected),
        _outcome(direction.outcome),
    ]


def _outcome(outcome: Outcome) -> str:
    """The outcome of a test; that all answers of a sample agree does not say that all would."""
    return "no query differs" if outcome == "no difference" else outcome


def cell_row(cell: CellReport, block: Block) -> list[str]:
    """The texts of any cell, one for each of `VALUES`, with the reasons of one that differs.

    A direction's differences take the place where the numbers would.
    """
    if cell.direction is None:
        texts = value_row(cell, block)
        return [*texts[:-1], f"{texts[-1]}: {', '.join(cell.reasons)}"] if cell.reasons else texts
    metric, printed, measured, published, ours, ends, p, outcome = direction_row(cell)
    return [
        metric,
        f"{printed} ({published})",
        f"{measured} ({ours})".lstrip(),
        ends,
        "",
        f"{cell.verdict}: {outcome}, p {p}",
    ]


def block_name(block: Block) -> str:
    """The row and place of a block."""
    return f"{block.row}, {block.dataset} {block.split}".rstrip()


def block_notes(block: Block, cells: Sequence[CellReport]) -> list[str]:
    """Sentences on how a block was measured, in what that differs, and what would measure it better."""
    notes = []
    if block.measurement is not None:
        notes.append(describe_measurement(block.measurement))
        notes += [f"Warning: {warning}." for warning in block.measurement.warnings]
    if block.rival is not None:
        notes.append(f"Compared with the row {block.against}, as {describe_measurement(block.rival)}")
    if block.follows:
        notes.append(f"As in the paper: {', '.join(block.follows)}.")
    if block.differences:
        notes.append(f"Otherwise than in the paper: {', '.join(block.differences)}.")
    if block.standard is not None:
        numbers = [
            f"{cell.standard.metric} {format_fixed(cell.standard.mean)}" for cell in cells if cell.standard is not None
        ]
        notes.append(f"By the protocol, {block.standard.method}: {', '.join(numbers)}.")
    if block.note:
        notes.append(block.note)
    return [*notes, *map(lacking_text, block.lacking)]


def describe_measurement(measurement: Measurement) -> str:
    """`bm25-okapi on apibank: 269 queries, 101 tools as description.`"""
    method = measurement.method if measurement.minus is None else f"{measurement.method} minus {measurement.minus}"
    data = measurement.data
    names = ", ".join(item.dataset for item in data)
    slices = "".join(f", {name} {value}" for name, value in measurement.slices.items())
    usual = measurement.pool in ("datasets", "queries")
    over = measurement.pool if usual else f"the values of {measurement.pool}"
    single = len(data) == 1 and (usual or measurement.pool in measurement.slices)
    mean = "" if single else f", mean over {over}"
    tools = ", ".join(dict.fromkeys(f"{item.tools} tools as {item.template}" for item in data))
    failed = f", {measurement.failed} failed" if measurement.failed else ""
    return f"{method} on {names}{slices}: {measurement.queries} queries{mean}{failed}, {tools}."


def lacking_text(lacking: Lacking) -> str:
    """What was not possible, and what it needs."""
    what = f"{lacking.method} on {', '.join(lacking.data)}"
    if lacking.failed:
        return f"Failed: {what}: {lacking.reason}"
    if lacking.needs:
        return f"Not here: {what}. It needs {'; '.join(lacking.needs)}."
    return f"Not here: {what}. To run it:" if lacking.commands else f"Not here: {what}: {lacking.reason}"


#: The columns of tables.
TABLES = ("cells", *CELL_VERDICTS, *(f"direction {outcome}" for outcome in DIRECTION_COUNTS))


def table_counts(table: TableReport, cells: Sequence[CellReport]) -> list[int]:
    """The cells of a table: all, by verdict, and those of `direction only` by outcome; one number for each of `TABLES`.

    Args:
        table: the table.
        cells: of all tables.
    """
    directions = count_directions(cell for cell in cells if cell.table == table.table)
    return [
        table.cells,
        *(table.verdicts.get(name, 0) for name in CELL_VERDICTS),
        *(directions[name] for name in DIRECTION_COUNTS),
    ]


#: The columns of papers.
PAPERS = (
    "paper",
    "what holds",
    "cells",
    *CELL_VERDICTS,
    *(f"direction {outcome}" for outcome in DIRECTION_COUNTS),
    *(f"claims: {verdict}" for verdict in CLAIM_VERDICTS),
)


def paper_row(paper: PaperReport) -> list[str]:
    """The texts of a paper, one for each of `PAPERS`."""
    counts = [
        paper.cells,
        *(paper.verdicts.get(name, 0) for name in CELL_VERDICTS),
        *(paper.directions.get(name, 0) for name in DIRECTION_COUNTS),
        *(paper.claims.get(name, 0) for name in CLAIM_VERDICTS),
    ]
    return [paper.paper, paper.sentence, *map(str, counts)]


def side_row(cell: CellReport, block: Block) -> list[str]:
    """Metric, the published number, ours, the difference and the verdict: one short text each.

    Where only directions compare, the differences are those to another row, the published one first.
    """
    ours = "" if cell.measured is None else _number(cell.measured.mean, cell)
    if cell.direction is None:
        return [cell.metric, cell.printed, ours, _format_signed(cell.difference, cell), _verdict(cell, block)]
    differences = (
        f"{_format_signed(cell.published_difference, cell)}, {_format_signed(cell.direction.difference, cell)}"
    )
    return [cell.metric, cell.printed, ours, differences, f"direction {_outcome(cell.direction.outcome)}"]


def claim_state(claim: ClaimReport) -> str:
    """The verdict; and how many of its tests ran, and decide nothing, where not all did."""
    if claim.verdict == "not tested":
        return "not tested: its precondition fails"
    ran = [test for test in claim.tests if test.lacking is None]
    words = [f"{len(ran)} of {len(claim.tests)} tests ran"] if 0 < len(ran) < len(claim.tests) else []
    if aside := sum(not test.decides for test in ran):
        words.append(f"the precondition of {aside} fails")
    return f"{claim.verdict} ({'; '.join(words)})" if words else claim.verdict


def preconditions_of(claim: ClaimReport) -> list[str]:
    """What was measured of the preconditions of a claim's tests, each once."""
    reports = [test.precondition for test in claim.tests if test.precondition is not None]
    return list(dict.fromkeys(map(precondition_text, reports)))


def precondition_text(report: PreconditionReport) -> str:
    """`Precondition fails: the reranker beats its own retriever; recall@5 0.743 against 0.868, …`"""
    if report.holds is None:
        return f"Precondition not measured: {report.needs}; {report.reason}"
    state = f"Precondition {'holds' if report.holds else 'fails'}: {report.needs}; "
    if report.comparison is None:
        words = (report.fact or "").replace("_", " ")
        return f"{state}{words} {significant(report.value, 3)}, at least {significant(report.at_least)} is needed."
    paired = report.comparison
    ends = estimate(paired.difference, paired.low, paired.high, sign=True)
    means = ""
    if report.better is not None and report.worse is not None:
        means = f" {format_fixed(report.better)} against {format_fixed(report.worse)},"
    return f"{state}{report.metric}{means} difference {ends}, p {p_value(paired.p)}, {paired.n} {report.split} queries."


def printed_state(claim: ClaimReport) -> str:
    """How many of the paper's own cells agree."""
    return "" if claim.printed is None else f"{claim.printed.agree} of {claim.printed.cells}"


def name_of_test(test: ClaimTestReport) -> str:
    """What a test compares, and on what."""
    if test.measurement is None:
        return f"{test.better} against {test.worse}"
    data = ", ".join(item.dataset for item in test.measurement.data)
    slices = "".join(f", {name} {value}" for name, value in test.measurement.slices.items())
    return f"{test.better} against {test.worse} on {data}{slices}"


def comparison_row(comparison: PairedComparison) -> list[str]:
    """Metric, n, difference, interval, p, outcome."""
    outcome = _outcome(comparison.outcome)
    if comparison.outcome == "undecided" and comparison.detectable is not None:
        outcome += f" (a difference of {format_fixed(comparison.detectable)} would show)"
    difference = format_signed(comparison.difference)
    return [
        comparison.metric,
        str(comparison.n),
        difference,
        interval(comparison.low, comparison.high),
        p_value(comparison.corrected),
        outcome,
    ]


def _number(value: float, cell: CellReport) -> str:
    return count(value) if cell.unit == "count" else format_fixed(value)


def _format_signed(value: float | None, cell: CellReport) -> str:
    if value is None:
        return ""
    return f"{value:+,.0f}" if cell.unit == "count" else format_signed(value)
