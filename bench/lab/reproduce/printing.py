"""Reproduction reports as terminal tables."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cli.output import console, print_json
from bench.lab.reproduce.artefacts import artefacts, folder_of, is_there
from bench.lab.reproduce.cells import papers, table_cells, table_info, table_names
from bench.lab.reproduce.claims import claims
from bench.lab.reproduce.report import Block, CellReport, ClaimReport, Reproduction, TableReport
from bench.lab.reproduce.wording import (
    DIRECTIONS,
    PAPERS,
    TABLES,
    VALUES,
    block_name,
    block_notes,
    claim_state,
    comparison_row,
    direction_row,
    lacking_text,
    name_of_test,
    paper_row,
    preconditions_of,
    printed_state,
    side_row,
    table_counts,
    value_row,
)
from bench.show.numbers import duration
from bench.show.tables import Table


def print_list(as_json: bool) -> None:
    """Tables with their cells, claims, and artefacts with whether they are there."""
    if as_json:
        print_json(
            {
                "tables": {
                    name: {"cells": len(table_cells(name)), **table_info(name).model_dump()} for name in table_names()
                },
                "claims": [claim.model_dump(mode="json") for claim in claims()],
                "artefacts": {
                    name: {**item.model_dump(), "folder": str(folder_of(name)), "there": is_there(name)}
                    for name, item in artefacts().items()
                },
            }
        )
        return
    out = console()
    table = Table(["table", "cells", "description"], right=(1,))
    for name in table_names():
        table.add(name, str(len(table_cells(name))), table_info(name).title)
    out.print(table)
    table = Table(["claim", "paper", "statement"])
    for claim in claims():
        table.add(claim.id, claim.paper, claim.claim)
    out.print(table)
    table = Table(["model", "available", "description"])
    for name, item in artefacts().items():
        table.add(name, "yes" if is_there(name) else "no", item.summary)
    out.print(table)
    out.print("`bench reproduce train NAME` trains a model")


def print_summary(report: Reproduction) -> None:
    """Verdicts counted by table, and the claims."""
    out = console()
    table = Table(["table", *(name.replace(" ", "\n") for name in TABLES)], right=range(1, len(TABLES) + 1), tight=True)
    counts = [table_counts(item, report.cells) for item in report.tables]
    for item, numbers in zip(report.tables, counts, strict=True):
        table.add(item.table, *map(str, numbers))
    table.add("all", *(str(sum(column)) for column in zip(*counts, strict=True)), style="bold")
    out.print(table)
    other = sum(cell.verdict == "reproduced" and report.blocks[cell.block].other_data for cell in report.cells)
    if other:
        out.print(f"{other} of the reproduced cells were measured on data other than the paper's")
    _print_claims(report.claims)
    _print_papers(report)
    out.print(f"{duration(report.seconds)}; `bench reproduce TABLE` shows its cells, --out FOLDER writes all of them")


def print_claims(report: Reproduction) -> None:
    """The claims with their tests, and what holds of each paper."""
    if report.claims:
        _print_claims(report.claims)
        _print_tests(report.claims)
    _print_papers(report)


def _print_papers(report: Reproduction) -> None:
    table = Table(PAPERS[:2])
    table.whole = (0,)
    for paper in report.papers:
        table.add(*paper_row(paper)[:2])
    console().print(table)


def print_side_by_side(table: TableReport, cells: Sequence[CellReport], blocks: Sequence[Block]) -> None:
    """Every measured cell of a table in one line."""
    rows = Table(["row", "metric", "published", "ours", "difference", "verdict"], right=(2, 3, 4), tight=True)
    rows.title = f"{table.table}: {table.title}"
    shown = ""
    for cell in cells:
        if cell.table == table.table and cell.verdict != "not run":
            name = block_name(blocks[cell.block])
            rows.add("" if name == shown else name, *side_row(cell, blocks[cell.block]))
            shown = name
    out = console()
    if rows.rows:
        out.print(rows)
    out.print(f"{table.table}: {table.cells} cells: {_counts(table)}")


def _counts(table: TableReport) -> str:
    return ", ".join(f"{count} {name}" for name, count in table.verdicts.items() if count)


def print_table(table: TableReport, cells: Sequence[CellReport], all_blocks: Sequence[Block]) -> None:
    """Every cell of a table, with how it was measured or what it lacks."""
    from rich.text import Text

    out = console()
    paper = papers()[table.paper]
    out.print(Text(f"{table.table}: {table.title} ({paper.citation})", style="bold"))
    for name, data in table.data.items():
        sizes = ", ".join(f"{value} {what}" for what, value in data if value is not None)
        out.print(f"in the paper, {name}: {sizes}")
    blocks: dict[int, list[CellReport]] = {}
    for cell in cells:
        if cell.table == table.table:
            blocks.setdefault(cell.block, []).append(cell)
    for index, mine in blocks.items():
        _print_block(all_blocks[index], mine)
    out.print()
    for item in table.unreadable:
        out.print(f"not transcribed: {item.row} ({item.cells} cells). {item.reason}")
    for note in table.notes:
        out.print(f"note: {note}")
    out.print(Text(f"{table.cells} cells: {_counts(table)}", style="bold"))
    out.print()


def _print_block(block: Block, cells: Sequence[CellReport]) -> None:
    """The cells of one row and place, and below them how they were measured, or what they need."""
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    out.print()
    out.print(Text(block_name(block), style="bold"))
    if block.measurement is None:
        out.print(f"not run: {', '.join(f'{cell.metric} {cell.printed}' for cell in cells)}")
    elif block.rival is not None:
        table = Table([*DIRECTIONS], right=(1, 2, 3, 4, 6), tight=True)
        for cell in cells:
            table.add(*direction_row(cell))
        out.print(table)
    else:
        table = Table([*VALUES], right=(1, 2, 4))
        for cell in cells:
            table.add(*value_row(cell, block))
        out.print(table)
    for note in block_notes(block, cells) or ["No recipe measures it."]:
        out.print(Padding(note, (0, 0, 0, 2)))
    for command in dict.fromkeys(command for item in block.lacking for command in item.commands):
        out.print(Text(f"    {command}", style="dim"), soft_wrap=True)


def _print_claims(reports: Sequence[ClaimReport]) -> None:
    if not reports:
        return
    table = Table(["claim", "statement", "measured here", "own cells"])
    table.whole = (0,)
    for item in reports:
        table.add(item.claim, item.text, claim_state(item), printed_state(item))
    out = console()
    out.print(table)
    out.print("own cells: how many of the paper's own numbers agree with the claim")


def _print_tests(reports: Sequence[ClaimReport]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    for item in reports:
        out.print()
        out.print(Text(f"{item.claim}: {claim_state(item)}", style="bold"))
        for text in preconditions_of(item):
            out.print(text)
        for test in item.tests:
            aside = "" if test.lacking is not None or test.decides else " (decides nothing)"
            out.print(name_of_test(test) + aside)
            if test.differences:
                out.print(f"  differs from the paper: {', '.join(test.differences)}")
            if test.lacking is not None:
                out.print(Padding(Text(lacking_text(test.lacking), style="dim"), (0, 0, 0, 2)))
                for command in test.lacking.commands:
                    out.print(Text(f"    {command}", style="dim"), soft_wrap=True)
                continue
            table = Table(["metric", "n", "difference", "95% interval", "p", "outcome"], right=(1, 2, 4))
            for comparison in test.comparisons:
                table.add(*comparison_row(comparison))
            out.print(table)
        for text in item.needs:
            out.print(f"needs {text}")
        for text in item.printed.against if item.printed else []:
            out.print(Text(f"against it: {text}", style="dim"))
        if item.note:
            out.print(f"note: {item.note}")
