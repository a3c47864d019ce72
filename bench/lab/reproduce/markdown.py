"""A reproduction as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.lab.reproduce.cells import papers
from bench.lab.reproduce.outcomes import DIFFERENCES
from bench.lab.reproduce.report import CellReport, ClaimReport, Lacking, Reproduction, TableReport
from bench.lab.reproduce.verdicts import DIFFERENCE_MARGIN, MARGIN
from bench.lab.reproduce.wording import (
    PAPERS,
    TABLES,
    VALUES,
    block_name,
    block_notes,
    cell_row,
    claim_state,
    comparison_row,
    lacking_text,
    name_of_test,
    paper_row,
    preconditions_of,
    printed_state,
    table_counts,
)
from bench.show.numbers import duration
from bench.show.tables import Table, markdown_text
from bench.show.tables import markdown as markdown_table

_LEGEND = (
    f"**reproduced**: ours is shown to be within {MARGIN} of the published number "
    f"({DIFFERENCE_MARGIN} of a published difference) by two one-sided tests at 5%: its 90% interval "
    "lies inside of the margin. The published number counts as exact, since papers do not give "
    "its error. *Other data* says that it was measured on other data than the paper's. "
    "**not reproduced**: the interval lies outside of the margin; the known differences are "
    "below the table. **not decided**: neither. "
    "**direction only**: the number cannot be compared, but whether the row is above another "
    "one can; the published number is followed by its difference to that row. **not run**: "
    "what it needs and the command that would run it are below the table. Directions are "
    "tested by the paired randomisation test, p-values corrected by Holm within a table; "
    "claims by the same, within a claim. **as published**, **opposite**: how many of the cells of *direction only* a "
    "test shows to be so."
)


def markdown(report: Reproduction) -> str:
    """The whole report."""
    parts = [
        "# The papers' tables, held against what is measured here",
        f"`{report.environment.command}`, {report.environment.created}, {duration(report.seconds)}",
        _LEGEND,
        *_summary(report),
        "## What holds",
        _grid(PAPERS, [paper_row(paper) for paper in report.papers]),
    ]
    for table in report.tables:
        parts += _table(table, report)
    if report.claims:
        parts += ["## The papers' claims", *_claims(report.claims)]
    used = {name for block in report.blocks for name in (*block.follows, *block.differences)}
    used |= {name for claim in report.claims for test in claim.tests for name in test.differences}
    if used:
        parts += ["## What the differences mean"]
        parts.append("\n".join(f"- {name}: {text}" for name, text in DIFFERENCES.items() if name in used))
    return "\n\n".join(parts) + "\n"


def _summary(report: Reproduction) -> list[str]:
    tables = report.tables
    if not tables:
        return []
    counts = [table_counts(item, report.cells) for item in tables]
    rows = [[item.table, *map(str, numbers)] for item, numbers in zip(tables, counts, strict=True)]
    rows.append(["all", *(str(sum(column)) for column in zip(*counts, strict=True))])
    return [_grid(["table", *TABLES], rows)]


def _table(table: TableReport, report: Reproduction) -> list[str]:
    paper = papers()[table.paper]
    parts = [f"## {table.table}: {table.title}", f"{paper.citation}, {paper.title}, {paper.url}"]
    if table.data:
        sizes = [
            f"{name} {', '.join(f'{value} {what}' for what, value in data if value is not None)}"
            for name, data in table.data.items()
        ]
        parts.append(f"In the paper: {'; '.join(sizes)}.")
    rows, notes = [], []
    mine = [cell for cell in report.cells if cell.table == table.table]
    for number, (index, cells) in enumerate(_by_block(mine), 1):
        block = report.blocks[index]
        rows += [
            [f"{block_name(block)} [{number}]" if i == 0 else "", *cell_row(cell, block)]
            for i, cell in enumerate(cells)
        ]
        notes.append(f"{number}. {markdown_text(' '.join(block_notes(block, cells)) or 'No recipe measures it.')}")
        notes += [f"    - `{command}`" for command in dict.fromkeys(_commands(block.lacking))]
    parts += [_grid(["row", *VALUES], rows), "\n".join(notes)]
    parts += [f"Not transcribed: {item.row} ({item.cells} cells). {item.reason}" for item in table.unreadable]
    parts += [f"Note: {note}" for note in table.notes]
    return parts


def _by_block(cells: Sequence[CellReport]) -> list[tuple[int, list[CellReport]]]:
    blocks: dict[int, list[CellReport]] = {}
    for cell in cells:
        blocks.setdefault(cell.block, []).append(cell)
    return list(blocks.items())


def _commands(lacking: Iterable[Lacking]) -> list[str]:
    return [command for item in lacking for command in item.commands]


def _claims(claims: Sequence[ClaimReport]) -> list[str]:
    rows = [[item.claim, item.text, claim_state(item), printed_state(item)] for item in claims]
    parts = [_grid(["claim", "statement", "measured here", "the paper's own cells that agree"], rows)]
    for item in claims:
        parts.append(f"### {item.claim}: {claim_state(item)}")
        parts.append(f"{item.text} ({papers()[item.paper].citation}, {item.where})")
        parts += map(markdown_text, preconditions_of(item))
        for test in item.tests:
            differences = f" Otherwise than in the paper: {', '.join(test.differences)}." if test.differences else ""
            aside = "" if test.lacking is not None or test.decides else " Decides nothing: its precondition fails."
            parts.append(f"{markdown_text(name_of_test(test))}.{differences}{aside}")
            if test.lacking is not None:
                commands = "".join(f"\n    - `{command}`" for command in test.lacking.commands)
                parts.append(f"- {markdown_text(lacking_text(test.lacking))}{commands}")
                continue
            rows = [comparison_row(comparison) for comparison in test.comparisons]
            parts.append(_grid(["metric", "n", "difference", "95% interval", "p", "outcome"], rows))
        if item.needs:
            parts.append(f"It needs {'; '.join(item.needs)}.")
        if item.printed is not None:
            against = [f"- {markdown_text(text)}" for text in item.printed.against]
            ending = ", all but these:" if against else "."
            parts.append("\n".join([f"Of the paper's own cells {printed_state(item)} agree{ending}", *against]))
        if item.note:
            parts.append(f"Note: {item.note}")
    return parts


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = Table(columns)
    for row in rows:
        table.add(*row)
    return markdown_table(table)
