"""Every claim and every recipe: two systems that answer alike decide nothing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from bench.base.progress import QUIET
from bench.evaluation.plan import Plan
from bench.lab.reproduce.cells import cells, table_names
from bench.lab.reproduce.claims import claims
from bench.lab.reproduce.claimtests import run_claim
from bench.lab.reproduce.outcomes import SAME
from bench.lab.reproduce.page import read_reproduction
from bench.lab.reproduce.recipes import RecipeQuestion, recipes_of
from bench.lab.reproduce.reproduction import metrics_of, reproduce
from bench.lab.reproduce.runs import MethodRuns, plans
from bench.registry import build_method, load_dataset
from bench.results.store import StoredResult

KEPT = Path(__file__).resolve().parents[3] / "board" / "reproduction.json"
#: Queries of each dataset: enough to tell two rankings apart.
FEW = 16


def few(method: str, question: RecipeQuestion) -> list[Plan]:
    return [replace(plan, limit=FEW) for plan in plans(method, question)]


def answers(result: StoredResult) -> list[object]:
    """The first ten tools of each query, and its recommended set."""
    ranked = defaultdict(list)
    for row in result.run.to_pylist():
        if row["rank"] <= 10:
            ranked[row["query_id"]].append(row["tool_id"])
    return [dict(ranked), result.per_query["recommended"].to_pylist()]


@pytest.mark.slow("real data")
def test_two_systems_that_answer_alike_decide_no_claim_and_no_cell(
    tmp_path: Path, mirror: Path, isolated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that can run without a model that is trained, downloaded or asked, on a few queries."""
    monkeypatch.setattr("bench.lab.reproduce.runs.plans", few)
    runs = MethodRuns(
        tmp_path, load=load_dataset, build=build_method, metrics=metrics_of(table_names(), claims()), progress=QUIET
    )

    def alike(first: str, second: str, question: RecipeQuestion) -> bool:
        return all(
            answers(runs.result(one)) == answers(runs.result(other))
            for one, other in zip(few(first, question), few(second, question), strict=True)
        )

    walked, same = 0, []
    for claim in claims():
        report = run_claim(claim, runs, lambda: None)
        for test, tested in zip(claim.tests, report.tests, strict=True):
            if tested.comparisons and not test.slices:
                walked += 1
                told = {comparison.outcome == SAME for comparison in tested.comparisons}
                assert told == {alike(tested.better, tested.worse, test)}, (tested.better, tested.worse)
                same += [claim.id] if told == {True} else []
        outcomes = {one.outcome for test in report.tests if test.decides for one in test.comparisons}
        if SAME in outcomes:
            assert report.verdict in (SAME, "does not hold")
            assert (report.verdict == SAME) is not bool(outcomes & {"opposite", "no difference"})
    report_of = reproduce(table_names(), (), runs, "bench reproduce all")
    for block in (block for block in report_of.blocks if block.measurement is not None):
        other = block.rival.method if block.rival is not None else block.measurement.minus
        if other is not None and not block.measurement.slices:
            walked += 1
            mine = [cell for cell in report_of.cells if report_of.blocks[cell.block] is block]
            question = next(
                recipe
                for cell in cells()
                for recipe in recipes_of(cell)
                if (cell.table, cell.row, cell.place) == (block.table, block.row, f"{block.dataset} {block.split}".strip())
                and recipe.method == block.measurement.method
            )
            assert {cell.verdict == SAME for cell in mine} == {alike(block.measurement.method, other, question)}
    print(walked, same)
    assert walked > 30


def test_the_kept_report_judges_no_claim_by_two_systems_that_answer_alike() -> None:
    """Its rankings are not kept. Where no query differs by any metric, they may be the same, and it must have asked."""
    for claim in read_reproduction(KEPT).claims:
        for test in claim.tests:
            if test.decides:
                assert {one.outcome for one in test.comparisons} != {"no difference"}, claim.claim
