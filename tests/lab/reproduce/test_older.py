"""Reports of schema 1 stay readable, and say what today's test says of their numbers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.lab.reproduce.page import read_reproduction
from bench.lab.reproduce.wording import cell_row

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
