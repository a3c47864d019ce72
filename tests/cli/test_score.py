"""`bench score`: what `bench show` writes scores as it did; names, splits and metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]


@pytest.mark.parametrize("form", ["trec", "jsonl"])
@pytest.mark.parametrize("method", ["bm25", "random", "nearest-bundle(base=bm25)"])
def test_a_run_that_was_written_scores_as_it_did(bench: Bench, ready: Path, method: str, form: str) -> None:
    result = bench("show", f"{method}@starter", "--json").json
    Path(f"mine.{form}").write_text(bench("show", result["manifest"]["result_id"], "--format", form).out, "utf-8")
    again = bench("score", f"mine.{form}", "--dataset", "starter", "--json").json
    assert again["manifest"]["method"]["spec"] == "mine"
    # A run file does not say what its system learnt from.
    unknown = {"history", "repeated_gold"}
    said = {name: value for name, value in result["manifest"]["dataset"].items() if name not in unknown}
    assert again["manifest"]["dataset"] == {**said, "history": 0}
    ours, theirs = again["metrics"], result["metrics"]
    # TREC has no place for recommended sets.
    shared = set(ours["metrics"]) & set(theirs["metrics"])
    assert len(shared) > 40
    assert form == "trec" or shared == set(theirs["metrics"])
    assert {name: ours["metrics"][name]["mean"] for name in shared} == {
        name: theirs["metrics"][name]["mean"] for name in shared
    }
    assert ours["n_failed"] == theirs["n_failed"]


def test_a_table_is_printed_like_that_of_a_run(bench: Bench) -> None:
    Path("mine.jsonl").write_text('{"query_id": "0001", "tools": ["crateful.get_catalogue", "larderly.substitute"]}\n')
    said = bench("score", "mine.jsonl", "-d", "starter", "--name", "my system", "--metric", "ndcg@7")
    assert said.out.startswith(
        "my system @ starter\n126 judged queries, 93 groups (effective 72) (test), 125 failed, 8 without gold"
    )
    assert "\n ndcg@7 " in said.out
    assert "note: scored from a run file: how the system was run, and what data it saw, is unknown" in said.out
    assert bench("show", "my system@starter").out.splitlines()[0] == "my system @ starter"
    assert "my system" in bench("list", "results").out


def test_another_split_is_scored_when_it_is_named(bench: Bench) -> None:
    Path("mine.trec").write_text("0002 Q0 branchyard.search_code 1 2.5 x\n")
    refused = bench("score", "mine.trec", "-d", "starter", code=6)
    assert "query 0002 belongs to the train split, which is not scored; select it with --split." in refused.err
    result = bench("score", "mine.trec", "-d", "starter", "--split", "train", "--json").json
    assert result["metrics"]["metrics"]["hit@1"]["mean"] == pytest.approx(1 / result["metrics"]["n"])


def test_a_scored_file_stands_beside_runs_in_a_folder_of_its_own(bench: Bench, tmp_path: Path) -> None:
    Path("mine.trec").write_text("0001 Q0 larderly.substitute 1 2.5 x\n")
    result = bench("score", "mine.trec", "-d", "starter", "--name", "../up & away", "--json").json
    folder = Path(result["folder"])
    assert folder.parent == tmp_path / "results" / "starter"
    assert folder.name == f"up-away-{result['manifest']['result_id']}"
