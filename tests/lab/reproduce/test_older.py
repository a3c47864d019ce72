"""Reports of schema 1 stay readable, and say what today's test says of their numbers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.lab.reproduce.page import read_reproduction
from bench.lab.reproduce.parts import cell_row, claim_state, preconditions_of

KEPT = Path(__file__).resolve().parents[3] / "board" / "reproduction.json"


def read(tmp_path: Path, unit: str, verdict: str, estimate: dict[str, Any], queries: int = 100) -> Any:
    """The cell of a report of schema 1 with one cell, whose published number is 0.5, and the table's counts."""
    report = json.loads(KEPT.read_text("utf-8"))
    index, cell = next(
        (i, item) for i, item in enumerate(report["cells"]) if item["verdict"] == "differs" and item["unit"] == "share"
    )
    block = report["blocks"][cell["block"]]
    block["measurement"]["queries"] = queries
    (table,) = [item for item in report["tables"] if item["table"] == cell["table"]]
    cell |= {"unit": unit, "verdict": verdict, "measured": estimate, "published": 0.5, "block": 0}
    counts = {"reproduced": 0, "differs": 0, "direction only": 0, "not run": 0} | {verdict: 1}
    report |= {"cells": [cell], "blocks": [block], "tables": [table | {"cells": 1, "verdicts": counts}], "claims": []}
    path = tmp_path / f"{index}.json"
    path.write_text(json.dumps(report), "utf-8")
    made = read_reproduction(path)
    return made.cells[0], made.tables[0].verdicts, cell_row(made.cells[0], made.blocks[0])[-1]


@pytest.mark.parametrize(
    ("unit", "before", "metric", "ends", "after"),
    [
        ("share", "reproduced", "recall@5", (0.485, 0.515), "reproduced"),
        ("share", "reproduced", "recall@5", (0.40, 0.60), "not decided"),
        ("share", "differs", "recall@5", (0.51, 0.53), "not decided"),
        ("share", "differs", "recall@5", (0.53, 0.55), "not reproduced"),
        ("difference", "reproduced", "recall@5", (0.485, 0.515), "not decided"),
        ("share", "reproduced", "fact:connected_share", (None, None), "reproduced"),
        ("count", "differs", "tools", (None, None), "not reproduced"),
        ("count", "reproduced", "tools", (None, None), "reproduced"),
    ],
)
def test_verdicts_are_made_anew(
    tmp_path: Path, unit: str, before: str, metric: str, ends: tuple[float | None, float | None], after: str
) -> None:
    mean = 0.51 if ends[0] is None else (ends[0] + (ends[1] or 0.0)) / 2
    estimate = {"metric": metric, "mean": mean, "low": ends[0], "high": ends[1]}
    cell, counts, words = read(tmp_path, unit, before, estimate)
    assert cell.verdict == after
    assert {name: number for name, number in counts.items() if number} == {after: 1}
    assert ("(±" in words) == (unit != "count")
    assert unit == "count" or after == "not reproduced" or not cell.reasons


def test_fewer_than_twenty_queries_decided_nothing(tmp_path: Path) -> None:
    estimate = {"metric": "recall@5", "mean": 0.5, "low": 0.49, "high": 0.51}
    assert read(tmp_path, "share", "reproduced", estimate, queries=19)[0].verdict == "not decided"
    assert read(tmp_path, "share", "reproduced", estimate, queries=20)[0].verdict == "reproduced"


def test_the_kept_report_has_no_verdict_by_a_wide_interval() -> None:
    report = read_reproduction(KEPT)
    for cell in report.cells:
        if cell.margin is None or cell.measured is None or cell.measured.low is None or cell.measured.high is None:
            continue
        ends = (cell.measured.low - cell.published, cell.measured.high - cell.published)
        inside = -cell.margin < ends[0] <= ends[1] < cell.margin
        assert inside == (cell.verdict == "reproduced")
    counted = Counter(cell.verdict for cell in report.cells)
    for verdict, number in counted.items():
        assert sum(table.verdicts[verdict] for table in report.tables) == number


def test_claims_of_the_kept_report_about_what_a_stand_in_replaced_are_not_tested() -> None:
    """By what it says itself: rules asked no model, the generators began as random numbers, the reranker lost."""
    report = read_reproduction(KEPT)
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


def test_what_holds_of_a_paper_is_counted_and_said_in_one_sentence() -> None:
    report = read_reproduction(KEPT)
    assert [paper.paper for paper in report.papers] == ["colt", "ptr", "query-generation", "tgr", "toolrerank"]
    for paper in report.papers:
        mine = [cell for cell in report.cells if cell.paper == paper.paper]
        assert paper.cells == len(mine) == sum(paper.verdicts.values())
        assert sum(paper.directions.values()) == paper.verdicts["direction only"]
        assert sum(paper.claims.values()) == sum(claim.paper == paper.paper for claim in report.claims)
        assert "\n" not in paper.sentence
    ptr = report.papers[1]
    assert ptr.sentence == (
        "3 of 18 numbers are reproduced, 9 of 9 directions are as published, 1 of 2 tested claims holds; 207 of 234 "
        "cells were not run, 3 of 6 claims were not tested, 1 of 6 claims was not run"
    )
