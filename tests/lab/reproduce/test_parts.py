"""The terminal and Markdown show the same cells, claims and commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.base.errors import UsageError
from bench.lab.reproduce.page import read_reproduction
from bench.lab.reproduce.parts import (
    block_parts,
    cell_row,
    claim_parts,
    claim_state,
    drawn_part,
    markdown,
    paper_table,
    preconditions_of,
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
    """The report that is kept."""
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
    assert "\n## Drawn without numbers\n" in document
    assert not drawn_part(["colt"]).title
    measured = [test for claim in report.claims for test in claim.tests if test.comparisons]
    assert document.count("\n| metric | n |") == len(measured)


def test_counts_of_tables_and_papers_are_those_of_the_report(report: Reproduction) -> None:
    shown = [[cell.text for cell in row.cells] for row in verdict_table(report).rows]
    for table, row in zip(report.tables, shown, strict=False):
        assert row[: 2 + len(table.verdicts)] == [table.table, str(table.cells), *map(str, table.verdicts.values())]
    assert shown[-1][:2] == ["all", str(len(report.cells))]
    sentences = [[cell.text for cell in row.cells] for row in paper_table(report).rows]
    assert sentences == [[paper.paper, paper.sentence] for paper in report.papers]


def test_claims_of_the_kept_report_about_what_a_stand_in_replaced_are_not_tested(report: Reproduction) -> None:
    """By what it says itself: rules asked no model, the generators began as random numbers, the reranker lost."""
    states = {claim.claim: claim_state(claim) for claim in report.claims}
    aside = {name for name, state in states.items() if state == "not tested: its precondition fails"}
    assert {"ptr-beats-its-bundle", "sft-best-in-domain", "toolrerank-beats-all"} <= aside
    for claim in report.claims:
        replaced = any("rules for a language model" in test.differences for test in claim.tests)
        assert claim.claim in aside or not (replaced or (claim.paper == "query-generation" and claim.tests))
    # The discriminator's F1 is not in it, so what it says of that claim stays.
    assert states["tgr-d-improves-every-base"] == "does not hold"
    assert states["dpr-beats-bm25"] == "holds"
    (sentence,) = preconditions_of(next(claim for claim in report.claims if claim.claim == "toolrerank-beats-all"))
    assert "recall@5 0.716 against 0.763, difference -0.047" in sentence
    assert "1877 test queries" in sentence


def test_what_holds_of_a_paper_is_counted_and_said_in_one_sentence(report: Reproduction) -> None:
    assert [paper.paper for paper in report.papers] == ["colt", "ptr", "query-generation", "tgr", "toolrerank"]
    for paper in report.papers:
        mine = [cell for cell in report.cells if cell.paper == paper.paper]
        assert paper.cells == len(mine) == sum(paper.verdicts.values())
        assert sum(paper.directions.values()) == paper.verdicts["direction only"]
        of_paper = [one.claim for one in report.claims if one.paper == paper.paper]
        assert sum(paper.claims.values()) == sum(not name.startswith("ours-") for name in of_paper)
        assert "\n" not in paper.sentence
    ptr = report.papers[1]
    assert ptr.sentence == (
        "3 of 18 numbers are reproduced, 9 of 9 directions are as published, 1 of 2 tested claims holds; 212 of 239 "
        "cells were not run, 4 of 7 claims were not tested, 1 of 7 claims was not run"
    )


def test_a_report_of_an_older_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "older.json"
    path.write_text(json.dumps(json.loads(KEPT.read_text("utf-8")) | {"schema_version": 1}), "utf-8")
    with pytest.raises(UsageError, match=r"older.json does not follow its schema .*schema_version"):
        read_reproduction(path)


def test_a_test_of_a_claim_without_a_result_is_refused(tmp_path: Path) -> None:
    report = json.loads(KEPT.read_text("utf-8"))
    test = next(test for claim in report["claims"] for test in claim["tests"] if test["comparisons"])
    test["comparisons"] = []
    path = tmp_path / "reproduction.json"
    path.write_text(json.dumps(report))
    with pytest.raises(UsageError, match="a test of a claim has neither comparisons nor what it lacks"):
        read_reproduction(path)
