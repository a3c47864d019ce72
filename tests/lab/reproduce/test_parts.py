"""The terminal and Markdown show the same cells, claims and commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.lab.reproduce.page import read_reproduction
from bench.lab.reproduce.parts import (
    block_parts,
    cell_row,
    claim_parts,
    claim_state,
    markdown,
    paper_table,
    print_parts,
    side_by_side,
    verdict_table,
)
from bench.lab.reproduce.report import Reproduction
from bench.show.tables import Table
from bench.show.tables import markdown as markdown_table

KEPT = Path(__file__).resolve().parents[3] / "board" / "reproduction.json"


@pytest.fixture(scope="module")
def report() -> Reproduction:
    return read_reproduction(KEPT)


def test_every_cell_is_shown_with_its_numbers(report: Reproduction, capsys: pytest.CaptureFixture[str]) -> None:
    for table in report.tables:
        print_parts(block_parts(table, report.cells, report.blocks))
    rows = " ".join(capsys.readouterr().out.split())
    for table in report.tables:
        print_parts(side_by_side(table, report.cells, report.blocks))
    beside = " ".join(capsys.readouterr().out.split())
    document = markdown(report)
    for cell in report.cells:
        block = report.blocks[cell.block]
        texts = cell_row(cell, block)
        row = Table(texts)
        assert markdown_table(row).partition("\n")[0].removeprefix("| ") in document
        if cell.verdict == "not run":
            assert f"{cell.metric} {cell.printed}" in rows
            continue
        # The terminal breaks verdicts over lines, and `all` leaves the interval out.
        assert " ".join(filter(None, texts[:4])) in rows
        assert " ".join(filter(None, texts[:3])) in beside


def test_every_claim_test_and_command_is_shown(report: Reproduction, capsys: pytest.CaptureFixture[str]) -> None:
    for table in report.tables:
        print_parts(block_parts(table, report.cells, report.blocks))
    print_parts(claim_parts(report.claims))
    said, document = capsys.readouterr().out, markdown(report)
    for claim in report.claims:
        assert f"\n{claim.claim}: {claim_state(claim)}\n" in said
        assert f"\n### {claim.claim}: {claim_state(claim)}\n" in document
    lacking = [item for block in report.blocks for item in block.lacking]
    lacking += [test.lacking for claim in report.claims for test in claim.tests if test.lacking is not None]
    for command in {command for item in lacking for command in item.commands}:
        assert f"\n    {command}\n" in said
        assert f"\n- `{command}`\n" in document
    measured = [test for claim in report.claims for test in claim.tests if test.comparisons]
    assert document.count("\n| metric | n |") == len(measured)


def test_counts_of_tables_and_papers_are_those_of_the_report(report: Reproduction) -> None:
    shown = [[cell.text for cell in row.cells] for row in verdict_table(report).rows]
    for table, row in zip(report.tables, shown, strict=False):
        assert row[:7] == [table.table, str(table.cells), *map(str, table.verdicts.values())]
    assert shown[-1][:2] == ["all", str(len(report.cells))]
    for paper, found in zip(report.papers, paper_table(report).rows, strict=True):
        counts = [paper.cells, *paper.verdicts.values(), paper.directions["as published"], paper.directions["opposite"]]
        assert [cell.text for cell in found.cells[2:]] == [*map(str, counts), *map(str, paper.claims.values())]
