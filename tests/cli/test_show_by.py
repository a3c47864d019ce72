"""`bench show --by`: a result by slice, as a table and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.lookup.finding import find_result

Bench = Callable[..., Any]


@pytest.fixture
def result(lexical: Path) -> str:
    """The id of a run of bm25 on starter, whose 134 test queries are 126 judged ones and 8 without gold."""
    return find_result(lexical, "bm25@starter").manifest.result_id


def rows(table: str) -> dict[str, list[str]]:
    """Cells of each row of a printed table, by its first."""
    return {cells[0]: cells[1:] for line in table.splitlines() if re.match(r" [\w-]", line) and (cells := line.split())}


def test_a_table_by_slice_ends_with_all_queries(bench: Bench, result: str) -> None:
    said = bench("show", result, "--by", "parent")
    assert said.out.startswith("bm25 @ starter (test), by parent; below each mean: its 95% interval\n")
    outcome = rows(said.out)
    assert list(outcome) == ["parent", "seen", "dev", "mixed", "unseen", "-", "all"]
    assert outcome["parent"][:4] == ["n", "recall@5", "ndcg@5", "pass@5"]
    assert [outcome[value][0] for value in ("seen", "dev", "mixed", "unseen", "-", "all")] == "68 3 28 27 0 126".split()
    assert set(outcome["-"][1:-1]) == {"-"}
    shown = bench("show", result).out
    assert re.search(rf"^ recall@5 +{outcome['all'][1]} ", shown, re.M)
    assert all(len(line) <= 100 for line in said.out.splitlines())


def test_json_has_every_number_of_the_table_and_more(bench: Bench, result: str) -> None:
    said = bench("show", result, "--by", "gold", "--metric", "mrr@10", "--json").json
    assert (said["result_id"], said["label"], said["by"]) == (result, "bm25 @ starter", "gold")
    assert [item["value"] for item in said["slices"]] == ["0", "1", "2", "3", "4", "5", "6"]
    assert sum(item["n"] + item["n_no_gold"] for item in said["slices"]) == 134
    assert said["slices"][0]["metrics"] == {}
    one = said["slices"][1]
    assert {"mrr@10", "recall@5", "tracc@5"} <= one["metrics"].keys()
    assert one["metrics"]["recall@5"].keys() == {"mean", "low", "high", "n"}
    # With one gold tool each, to pass is to have it.
    assert one["metrics"]["recall@5"] == one["metrics"]["pass@5"]
    assert bench("show", result, "--by", "gold", "--metric", "mrr@10", "--format", "json").json == said


def test_a_metric_asked_for_comes_first(bench: Bench, result: str) -> None:
    outcome = rows(bench("show", result, "--by", "prerequisite", "--metric", "hit@1").out)
    assert outcome["prerequisite"][:3] == ["n", "hit@1", "recall@5"]
    assert list(outcome) == ["prerequisite", "none", "unnamed", "-", "all"]


def test_queries_that_a_run_file_does_not_mention_failed_in_their_slice(bench: Bench, folder: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    Path("run.jsonl").write_text(json.dumps({"query_id": "q1", "tools": ["crm.find"]}) + "\n")
    bench("score", "--dataset", "mine", "run.jsonl", "--name", "lazy")
    said = bench("show", "lazy@mine", "--by", "kind", "--json").json
    assert {item["value"]: (item["n"], item["n_no_gold"], item["n_failed"]) for item in said["slices"]} == {
        "way": (1, 0, 1),
        "-": (1, 1, 0),
    }
    # One query makes no interval.
    assert said["slices"][0]["metrics"]["recall@5"] == {"mean": 0.0, "low": None, "high": None, "n": 1}


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            ["--by", "size"],
            2,
            "starter has no slice 'size'; it has category, gold, length, ",
        ),
        (["--by", "gold", "--format", "trec"], 2, "--by prints a table or JSON; it does not go with --format trec."),
        (["--by", "gold", "--metric", "ndcg@77"], 2, "bm25 @ starter has no metric 'ndcg@77'"),
    ],
)
def test_what_cannot_be_shown_is_told(
    bench: Bench, result: str, arguments: list[str], code: int, sentence: str
) -> None:
    assert sentence in bench("show", result, *arguments, code=code).err


def test_a_result_of_other_data_is_not_cut_by_todays_slices(bench: Bench, folder: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    bench("run", "-m", "bm25", "-d", "mine")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tpost.send\t1\n")
    bench("data", "add", "mine", "--from", folder, "--replace")
    said = bench("show", "bm25@mine", "--by", "gold", code=2)
    results = re.search(r"name the earlier result by its id \((\w{12})\)", said.err)
    assert results is not None
    said = bench("show", results[1], "--by", "gold", code=6)
    assert re.search(r"was made on mine as it was then \(content hash .{12}, now .{12}\); run it again\.", said.err)
