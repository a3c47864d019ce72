"""Comparing and gating: the findings are those of the command line, and readable."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bench
from bench.base.errors import MethodError, ResultError, UsageError

POLICY = """
[[rule]]
metric = "recall@5"
margin = 0.02
"""


def test_a_comparison_is_that_of_the_command(
    command: Callable[..., Any], bm25: bench.Result, other: bench.Result
) -> None:
    comparison = bench.compare(bm25, other, metrics=["recall@5", "ndcg@5"], moved=2)
    requests = ["compare", bm25.id, other.id, "-m", "recall@5", "-m", "ndcg@5", "--moved", 2, "--json"]
    assert comparison.to_dict() == command(*requests).json
    by_name = bench.compare("bm25@starter", str(other.folder), metrics=["recall@5", "ndcg@5"], moved=2)
    assert by_name == comparison


def test_a_comparison_is_a_data_frame_and_text(bm25: bench.Result, other: bench.Result) -> None:
    comparison = bench.compare(bm25, other, metrics=["recall@5"])
    table: Any = comparison.table.set_index("system")  # the stubs of pandas know no type of a cell
    assert table.loc["bm25", "mean"] == bm25.mean("recall@5")
    assert table.loc["random", "mean"] == other.mean("recall@5")
    assert math.isclose(table.loc["random", "difference"], other.mean("recall@5") - bm25.mean("recall@5"))
    assert math.isnan(table.loc["bm25", "difference"])
    assert table["result_id"].tolist() == [bm25.id, other.id]
    assert repr(comparison) == "<Comparison random with bm25 on starter>"
    assert str(comparison).startswith("recall@5 on starter (test), 17 queries\n")
    assert "Holm" in str(comparison)
    assert f"{bm25.mean('recall@5'):.3f}" in comparison._repr_html_()
    assert comparison.to_markdown().startswith("# Compared with bm25")
    assert r"\begin{tabular}" in comparison.to_latex()


def test_what_cannot_be_compared_is_refused(bm25: bench.Result) -> None:
    with pytest.raises(UsageError, match="a comparison needs two results or more"):
        bench.compare(bm25)
    with pytest.raises(ResultError, match="cannot be compared: the limit of queries differs"):
        bench.compare(bm25, bench.run("random", "starter", limit=5))
    with pytest.raises(UsageError, match=r"a result is a bench\.Result, or the name or folder"):
        bench.compare(bm25, 3)  # type: ignore[arg-type]


@pytest.fixture
def gate_files(command: Callable[..., Any], bm25: bench.Result) -> tuple[Path, Path]:
    """A baseline of bm25, and a policy."""
    command("bless", bm25.id, "--out", "b.json")
    Path("gate.toml").write_text(POLICY)
    return Path("b.json").absolute(), Path("gate.toml").absolute()


def test_a_gate_is_that_of_the_command(
    command: Callable[..., Any], gate_files: tuple[Path, Path], bm25: bench.Result, other: bench.Result
) -> None:
    for candidate, passed in ((bm25, True), (other, False)):
        report = bench.gate(candidate, *gate_files)
        said = command(
            *("gate", candidate.id, "--baseline", "b.json", "--policy", "gate.toml", "--json"),
            code=report.report.exit_code,
        )
        assert report.to_dict() == said.json
        assert report.passed is passed
        assert report.outcome == report.report.outcome
        assert report.rules.loc[0, "candidate"] == pytest.approx(candidate.mean("recall@5"), abs=1e-8)
        assert "recall@5" in str(report)
        assert repr(report).startswith(f"<GateResult {report.outcome}: {candidate.method} @ starter (")
        assert "<td><code>recall@5</code></td>" in report._repr_html_()


def test_a_search_function_is_gated(gate_files: tuple[Path, Path]) -> None:
    starter = bench.load_dataset("starter")
    gold = {query.text: list(query.gold) for query in starter.queries}
    report = bench.gate(lambda text: gold[text], *gate_files, name="perfect")
    assert report.outcome in {"pass", "inconclusive"}, "twenty queries may show nothing, but no regression"
    assert report.rules["difference"].astype(float)[0] > 0.3
    assert "perfect" in repr(report)
    with pytest.raises(MethodError, match="mine answered the query"):
        bench.gate(lambda text: ["no such tool"], *gate_files, name="mine")


def test_what_is_missing_is_an_error_and_no_report(gate_files: tuple[Path, Path], bm25: bench.Result) -> None:
    baseline, policy = gate_files
    with pytest.raises(bench.BenchError, match=r"nowhere\.json"):
        bench.gate(bm25, "nowhere.json", policy)
    with pytest.raises(bench.BenchError, match=r"nowhere\.toml"):
        bench.gate(bm25, baseline, "nowhere.toml")
