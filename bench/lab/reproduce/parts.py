"""The report of a reproduction, part by part: written once for the terminal, Markdown and the site."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from bench.cli.output import console
from bench.lab.reproduce.cells import papers
from bench.lab.reproduce.outcomes import CELL_VERDICTS, DIFFERENCES, DIRECTION_COUNTS, SAME
from bench.lab.reproduce.report import (
    Block,
    CellReport,
    ClaimReport,
    ClaimTestReport,
    Lacking,
    Measurement,
    PairedComparison,
    PreconditionReport,
    Reproduction,
    TableReport,
)
from bench.lab.reproduce.summary import count_cells
from bench.lab.reproduce.verdicts import DIFFERENCE_MARGIN, MARGIN
from bench.show.numbers import (
    count,
    duration,
    estimate,
    format_fixed,
    format_signed,
    interval,
    p_value,
    several,
    significant,
)
from bench.show.tables import Table, markdown_code, markdown_text
from bench.show.tables import markdown as markdown_table

#: The columns of a cell.
VALUES = ("metric", "published", "measured", "95% interval", "difference", "verdict")
#: The columns of counts.
COUNTS = ("cells", *CELL_VERDICTS, *(f"direction {outcome}" for outcome in DIRECTION_COUNTS))
_LEGEND = (
    f"reproduced: ours is shown to be within {MARGIN} of the published number ({DIFFERENCE_MARGIN} of a published "
    "difference) by two one-sided tests at 5%: its 90% interval lies inside the margin. The published number counts as "
    "exact, since papers do not give its error. Other data: it was measured on data other than the paper's.",
    "not reproduced: the interval lies outside the margin; the known differences are below the table.",
    "not decided: neither.",
    "direction only: the number cannot be compared, but whether the row is above another one can; differences from "
    "that row are in parentheses. Directions are tested by the paired randomisation test, p-values corrected by Holm "
    "within a table; claims by the same, within a claim. As published, opposite: how many of these cells a test shows "
    "to be so.",
    f"{SAME}: the two systems of the comparison answer every query alike, so it says nothing about the paper.",
    "not run: what it needs and the command that would run it are below the table.",
)


@dataclass(frozen=True)
class Part:
    """A part of a report; any of its fields may be empty.

    Attributes:
        notes: sentences below the table.
        commands: commands that provide what the notes name as missing.
    """

    title: str = ""
    table: Table | None = None
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()
    level: int = 2


def print_parts(parts: Iterable[Part]) -> None:
    """Print parts in the terminal; commands are not broken over lines."""
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    for part in parts:
        if part.title or part.table is None:
            out.print()
        if part.title:
            out.print(Text(part.title, style="bold"))
        if part.table is not None:
            out.print(part.table)
        for note in part.notes:
            out.print(Padding(note, (0, 0, 0, 2)))
        for command in part.commands:
            out.print(Text(f"    {command}", style="dim"), soft_wrap=True)


def markdown(report: Reproduction) -> str:
    """The whole report as Markdown."""
    made = f"{report.environment.created}, {duration(report.seconds)}"
    parts = [Part("The papers' tables and claims", None, [made, *_LEGEND], [report.environment.command], level=1)]
    if report.tables:
        parts.append(Part(table=verdict_table(report)))
    parts.append(Part("What holds", paper_table(report)))
    for table in report.tables:
        parts += table_parts(table, report.cells, report.blocks)
    if report.claims:
        parts += [Part("The papers' claims"), *claim_parts(report.claims)]
    used = {name for block in report.blocks for name in (*block.follows, *block.differences)}
    used |= {name for claim in report.claims for test in claim.tests for name in test.differences}
    parts.append(drawn_part(paper.paper for paper in report.papers))
    if used:
        meanings = [f"{name}: {text}" for name, text in DIFFERENCES.items() if name in used]
        parts.append(Part("What the differences mean", notes=meanings))
    return "\n\n".join(text for part in parts for text in _markdown_texts(part)) + "\n"


def _markdown_texts(part: Part) -> Iterable[str]:
    if part.title:
        yield f"{'#' * part.level} {markdown_text(part.title)}"
    if part.table is not None:
        yield markdown_table(part.table)
    yield from map(markdown_text, part.notes)
    if part.commands:
        yield "\n".join(f"- {markdown_code(command)}" for command in part.commands)


# Cells --------------------------------------------------------------------------------------------------------------


def side_by_side(table: TableReport, cells: Sequence[CellReport], blocks: Sequence[Block]) -> list[Part]:
    """The measured cells of a table, without intervals and notes."""
    rows = [(block_name(block), block, mine) for block, mine in _blocks(table, cells, blocks) if block.measurement]
    shown = _cell_table(rows, without="95% interval") if rows else None
    return [Part(f"{table.table}: {table.title}", shown, [_verdict_counts(table)])]


def block_parts(table: TableReport, cells: Sequence[CellReport], blocks: Sequence[Block]) -> list[Part]:
    """A table row by row: the cells of each, and how they were measured, or what they need."""
    parts = [_source_part(table)]
    for block, mine in _blocks(table, cells, blocks):
        shown, notes = None, block_notes(block, mine)
        if block.measurement is None:
            notes.insert(0, f"not run: {', '.join(f'{cell.metric} {cell.printed}' for cell in mine)}")
        else:
            shown = _cell_table([("", block, mine)], without="row")
        parts.append(Part(block_name(block), shown, notes, _commands(block)))
    return [*parts, _last_part(table)]


def table_parts(table: TableReport, cells: Sequence[CellReport], blocks: Sequence[Block]) -> list[Part]:
    """A table as a whole, and numbered notes on how its rows were measured, or what they need."""
    rows, notes = [], []
    for number, (block, mine) in enumerate(_blocks(table, cells, blocks), 1):
        rows.append((f"{block_name(block)} [{number}]", block, mine))
        notes.append(Part(notes=[f"[{number}] {' '.join(block_notes(block, mine))}"], commands=_commands(block)))
    return [_source_part(table), Part(table=_cell_table(rows)), *notes, _last_part(table)]


def _blocks(
    table: TableReport, cells: Sequence[CellReport], blocks: Sequence[Block]
) -> list[tuple[Block, list[CellReport]]]:
    """The blocks of a table, each with its cells."""
    mine = (cell for cell in cells if cell.table == table.table)
    return [(blocks[index], list(group)) for index, group in groupby(mine, key=lambda cell: cell.block)]


def _cell_table(rows: Iterable[tuple[str, Block, Sequence[CellReport]]], without: str = "") -> Table:
    """The cells of blocks, one per line; the first line of a block has its name."""
    columns = [name for name in ("row", *VALUES) if name != without]
    numbers = [i for i, name in enumerate(columns) if name in ("published", "measured", "difference")]
    table = Table(columns, right=numbers, tight=True)
    for name, block, cells in rows:
        for i, cell in enumerate(cells):
            texts = {"row": "" if i else name, **dict(zip(VALUES, cell_row(cell, block), strict=True))}
            table.add(*(texts[column] for column in columns))
    return table


def cell_row(cell: CellReport, block: Block) -> list[str]:
    """The texts of a cell, one for each of `VALUES`.

    If only the direction is comparable, the differences from the other row are in parentheses: the paper's, and ours.
    """
    measured = "" if cell.measured is None else _number(cell.measured.mean, cell)
    if cell.direction is not None:
        published = f"{cell.printed} ({_signed_number(cell.published_difference, cell)})"
        ours = f"{measured} ({_signed_number(cell.direction.difference, cell)})".lstrip()
        ends = interval(cell.direction.low, cell.direction.high)
        words = f"{cell.verdict}: {_outcome(cell.direction)}, p {p_value(cell.direction.corrected)}"
        return [cell.metric, published, ours, ends, "", words]
    if cell.measured is None:
        return [cell.metric, cell.printed, "", "", "", cell.verdict]
    words = cell.verdict + ("" if cell.margin is None else f" (±{cell.margin:g})")
    if cell.verdict == "reproduced" and block.other_data:
        words += ", other data"
    elif cell.verdict == "not reproduced" and not cell.reasons:
        words += ", reason unknown"
    ends = interval(cell.measured.low, cell.measured.high)
    return [cell.metric, cell.printed, measured, ends, _signed_number(cell.difference, cell), words]


def _number(value: float, cell: CellReport) -> str:
    return count(value) if cell.unit == "count" else format_fixed(value)


def _signed_number(value: float | None, cell: CellReport) -> str:
    if value is None:
        return ""
    return f"{value:+,.0f}" if cell.unit == "count" else format_signed(value)


def _outcome(comparison: PairedComparison) -> str:
    """The outcome of a test; identical answers in a sample do not show that all would be."""
    return "no query differs" if comparison.outcome == "no difference" else comparison.outcome


def block_name(block: Block) -> str:
    """The row and place of a block."""
    return f"{block.row}, {block.dataset} {block.split}".rstrip()


def block_notes(block: Block, cells: Sequence[CellReport]) -> list[str]:
    """Sentences on how a block was measured, with its differences, and what would be more faithful."""
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
        standard = (cell.standard for cell in cells if cell.standard is not None)
        numbers = ", ".join(f"{estimate.metric} {format_fixed(estimate.mean)}" for estimate in standard)
        notes.append(f"By the protocol, {block.standard.method}: {numbers}.")
    if block.note:
        notes.append(block.note)
    return [*notes, *map(lacking_text, block.lacking)] or ["No recipe measures it."]


def describe_measurement(measurement: Measurement) -> str:
    """`bm25-okapi on apibank: 269 queries, 101 tools as description.`"""
    method = measurement.method if measurement.minus is None else f"{measurement.method} minus {measurement.minus}"
    usual = measurement.pool in ("datasets", "queries")
    over = measurement.pool if usual else f"the values of {measurement.pool}"
    single = len(measurement.data) == 1 and (usual or measurement.pool in measurement.slices)
    mean = "" if single else f", mean over {over}"
    tools = ", ".join(dict.fromkeys(f"{several(item.tools, 'tool')} as {item.template}" for item in measurement.data))
    failed = f", {measurement.failed} failed" if measurement.failed else ""
    return f"{method} on {_data(measurement)}: {several(measurement.queries, 'query')}{mean}{failed}, {tools}."


def _data(measurement: Measurement) -> str:
    names = ", ".join(item.dataset for item in measurement.data)
    return names + "".join(f", {name} {value}" for name, value in measurement.slices.items())


def lacking_text(lacking: Lacking) -> str:
    """What could not be run, and what it needs."""
    what = f"{lacking.method} on {', '.join(lacking.data)}"
    if lacking.failed:
        return f"Failed: {what}: {lacking.reason}"
    if lacking.needs:
        return f"Not here: {what}. It needs {'; '.join(lacking.needs)}."
    return f"Not here: {what}. To run it:" if lacking.commands else f"Not here: {what}: {lacking.reason}"


def _commands(block: Block) -> list[str]:
    return list(dict.fromkeys(command for item in block.lacking for command in item.commands))


# Tables and papers --------------------------------------------------------------------------------------------------


def _source_part(table: TableReport) -> Part:
    """The source of a table, and its sizes in the paper."""
    paper = papers()[table.paper]
    notes = [f"{paper.citation}, {paper.title}, {paper.url}"]
    for name, data in table.data.items():
        sizes = ", ".join(f"{value} {what}" for what, value in data if value is not None)
        notes.append(f"In the paper, {name}: {sizes}.")
    return Part(f"{table.table}: {table.title}", notes=notes)


def _last_part(table: TableReport) -> Part:
    """The notes below all cells of a table."""
    notes = [f"Not transcribed: {item.row} ({several(item.cells, 'cell')}). {item.reason}" for item in table.unreadable]
    return Part(notes=[*notes, *(f"Note: {note}" for note in table.notes), _verdict_counts(table)])


def _verdict_counts(table: TableReport) -> str:
    counts = ", ".join(f"{number} {name}" for name, number in table.verdicts.items() if number)
    return f"{table.table}: {several(table.cells, 'cell')}: {counts}"


def summary_parts(report: Reproduction) -> list[Part]:
    """Verdicts counted by table, claims, and what holds of each paper."""
    other = sum(cell.verdict == "reproduced" and report.blocks[cell.block].other_data for cell in report.cells)
    notes = [f"{other} of the reproduced cells were measured on data other than the paper's"] if other else []
    parts = [Part(table=verdict_table(report), notes=notes)]
    if report.claims:
        parts.append(claim_table(report.claims))
    how = f"{duration(report.seconds)}; `bench reproduce TABLE` shows its cells, --out FOLDER writes all of them"
    return [*parts, Part(table=paper_table(report), notes=[how])]


def verdict_table(report: Reproduction) -> Table:
    """The cells of each table, counted as `COUNTS` says, and their sums."""
    heads = [name.partition(":")[0].replace(" ", "\n") for name in COUNTS]
    table = Table(["table", *heads], right=range(1, len(COUNTS) + 1), tight=True)
    for item in report.tables:
        table.add(item.table, *_counts([cell for cell in report.cells if cell.table == item.table]))
    table.add("all", *_counts(report.cells), style="bold")
    return table


def paper_table(report: Reproduction) -> Table:
    """A summary sentence per paper."""
    table = Table(["paper", "what holds"], whole=(0,))
    for paper in report.papers:
        table.add(paper.paper, paper.sentence)
    return table


def _counts(cells: Sequence[CellReport]) -> list[str]:
    """One number for each of `COUNTS`."""
    verdicts, directions = count_cells(cells)
    counts = [verdicts[name] for name in CELL_VERDICTS] + [directions[name] for name in DIRECTION_COUNTS]
    return [str(len(cells)), *map(str, counts)]


def drawn_part(names: Iterable[str]) -> Part:
    """What these papers show without numbers; empty if there is nothing."""
    table = Table(["paper", "figure", "what it shows", "here"], whole=(0, 1))
    # An untrusted report may be about papers that are not transcribed here.
    for name in filter(papers().__contains__, names):
        for figure, (shows, here) in papers()[name].drawn.items():
            table.add(name, figure, shows, here)
    return Part("Drawn without numbers", table) if table.rows else Part()


# Claims -------------------------------------------------------------------------------------------------------------


def claim_table(claims: Sequence[ClaimReport]) -> Part:
    """A row for each claim."""
    table = Table(["claim", "statement", "measured here", "own cells"], whole=(0,))
    for claim in claims:
        table.add(claim.claim, claim.text, claim_state(claim), printed_state(claim))
    return Part(table=table, notes=["own cells: how many of the paper's own numbers agree with the claim"])


def claim_parts(claims: Sequence[ClaimReport]) -> list[Part]:
    """The claims, and the tests of each."""
    parts = [claim_table(claims)] if claims else []
    for claim in claims:
        about = f"{claim.text} ({papers()[claim.paper].citation}, {claim.where})"
        notes = [about, *preconditions_of(claim)]
        if claim.needs:
            notes.append(f"It needs {'; '.join(claim.needs)}.")
        if claim.printed is not None:
            notes.append(f"Of the paper's own cells {printed_state(claim)} agree.")
            notes += [f"Against the claim: {text}." for text in claim.printed.against]
        if claim.note:
            notes.append(f"Note: {claim.note}")
        parts.append(Part(f"{claim.claim}: {claim_state(claim)}", notes=notes, level=3))
        parts += map(_test_part, claim.tests)
    return parts


def _test_part(test: ClaimTestReport) -> Part:
    title = f"{test.better} against {test.worse}"
    notes = [f"Otherwise than in the paper: {', '.join(test.differences)}."] if test.differences else []
    if test.lacking is not None:
        return Part(title, None, [*notes, lacking_text(test.lacking)], test.lacking.commands, level=4)
    if test.measurement is not None:
        title += f" on {_data(test.measurement)}"
    if not test.decides:
        notes.append("Decides nothing: its precondition fails.")
    table = Table(["metric", "n", "difference", "95% interval", "p", "outcome"], right=(1, 2, 4))
    for paired in test.comparisons:
        outcome = _outcome(paired)
        if paired.outcome == "undecided" and paired.detectable is not None:
            outcome += f" (a difference of {format_fixed(paired.detectable)} would show)"
        ends, p = interval(paired.low, paired.high), p_value(paired.corrected)
        table.add(paired.metric, str(paired.n), format_signed(paired.difference), ends, p, outcome)
    return Part(title, table, notes, level=4)


def claim_state(claim: ClaimReport) -> str:
    """The verdict, with the number of tests that ran or decide nothing, if these are not all."""
    if claim.verdict == "not tested":
        return "not tested: its precondition fails"
    ran = [test for test in claim.tests if test.lacking is None]
    words = [f"{len(ran)} of {len(claim.tests)} tests ran"] if 0 < len(ran) < len(claim.tests) else []
    if aside := sum(not test.decides for test in ran):
        words.append(f"the precondition of {aside} fails")
    if alike := sum(test.decides and test.comparisons[0].outcome == SAME for test in ran):
        words.append(f"the same in {alike} of {len(claim.tests)} tests")
    return f"{claim.verdict} ({'; '.join(words)})" if words else claim.verdict


def printed_state(claim: ClaimReport) -> str:
    """How many of the paper's own cells agree."""
    return "" if claim.printed is None else f"{claim.printed.agree} of {claim.printed.cells}"


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
