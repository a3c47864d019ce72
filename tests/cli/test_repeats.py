"""Repeats on the command line, in Python and on the site: run, show, explain, compare, gate, build."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kit.once import Once
from kit.results import LOCKS, of_this_run

import bench as library
from bench.__main__ import run
from bench.base.config import config_context
from bench.base.errors import UsageError
from bench.gating.baseline import answers_digest
from bench.lookup.finding import find_result
from bench.results.store import StoredResult

Bench = Callable[..., Any]
Beside = Callable[[str], None]


@pytest.fixture(scope="session")
def repeated_results(once: Once, shared_cache: Path) -> Path:
    """Three random orders of starter, made once in a run."""

    def make(folder: Path) -> None:
        with of_this_run(shared_cache):
            command = ["run", "-m", "random", "-d", "starter", "-q", "--repeats", "3"]
            assert run([*command, "--results", str(folder)]) == 0

    return once("repeated-results", make)


@pytest.fixture
def repeated(repeated_results: Path, tmp_path: Path) -> StoredResult:
    """A copy of them, as this test's own results."""
    shutil.copytree(repeated_results, tmp_path / "results", ignore=LOCKS)
    return find_result(tmp_path / "results", "random@starter")


@pytest.fixture
def beside(repeated: StoredResult, lexical_results: Path, tmp_path: Path) -> Beside:
    """Put a result without repeats beside them."""

    def beside(method: str) -> None:
        folder = find_result(lexical_results, f"{method}@starter").folder
        shutil.copytree(folder, tmp_path / "results" / "starter" / folder.name)

    return beside


def test_run_and_show_tell_the_variance_and_what_more_repeats_bring(bench: Bench, repeated: StoredResult) -> None:
    said = bench("show", "random@starter").out
    assert "3 repeats of every query (none failed); values are means over them" in " ".join(said.split())
    assert repeated.metrics.repeats is not None
    recall = repeated.metrics.repeats.metrics["recall@5"]
    assert recall.share is not None
    (row,) = [line.split() for line in said.splitlines() if line.split()[:1] == ["recall@5"] and "%" in line]
    assert row[1:4] == [f"{recall.within:.4f}", f"{recall.between:.4f}", f"{100 * recall.share:.0f}%"]
    assert row[4:] == [f"{mean:.3f}" for mean in recall.means]
    assert "recall@5: chance is" in said
    assert "6 repeats narrow the interval by about" in " ".join(said.split())
    assert "3 repeats" in bench("list", "results").out
    listed = bench("list", "results", "--json").json["results"]
    assert [item["repeats"] for item in listed] == [3]
    shown = bench("show", "random@starter", "--json").json
    assert shown["manifest"]["repeats"] == 3
    assert len(shown["metrics"]["repeats"]["metrics"]["recall@5"]["means"]) == 3


def test_a_method_without_chance_is_told_of(bench: Bench) -> None:
    said = bench("run", "-m", "bm25", "-d", "starter", "--repeats", "4", "--limit", "5")
    assert "bm25: it is deterministic, so it runs once" in said.err
    assert "repeats" not in said.out


def test_the_number_of_repeats_is_checked(bench: Bench, tmp_path: Path) -> None:
    for wrong in ("0", "101", "many"):
        assert "--repeats" in bench("run", "-m", "random", "--repeats", wrong, code=2).err
    experiment = tmp_path / "experiment.toml"
    experiment.write_text('methods = ["random"]\ndatasets = ["starter"]\nlimit = 5\nrepeats = 2\n')
    result = bench("run", experiment, "--json", "-q").json
    assert result[0]["manifest"]["repeats"] == 2
    assert result[0]["manifest"]["environment"]["command"].endswith("--limit 5 --repeats 2")
    assert "defines the run" in bench("run", experiment, "--repeats", "3", code=2).err
    experiment.write_text('methods = ["random"]\ndatasets = ["starter"]\nrepeats = 101\n')
    assert "repeats" in bench("run", experiment, code=2).err


def test_a_run_is_written_repeat_by_repeat(bench: Bench, repeated: StoredResult) -> None:
    first = bench("show", "random@starter", "--format", "trec")
    assert "this is repeat 1 of 3; --repeat N chooses another" in first.err
    second = bench("show", "random@starter", "--format", "trec", "--repeat", "2")
    assert second.err == ""
    assert first.out != second.out
    assert len(first.out.splitlines()) == len(second.out.splitlines()) == len(repeated.of_repeat(2).run)
    lines = bench("show", "random@starter", "--format", "jsonl", "--repeat", "3").out.splitlines()
    run = repeated.of_repeat(3).run
    names = [name for name, query in zip(*(run[c].to_pylist() for c in ("tool_id", "query_id")), strict=True)]
    assert [name for line in lines for name in json.loads(line)["tools"]] == names
    assert (
        "the repeats 1 to 3; there is no repeat 4"
        in bench("show", "random@starter", "--format", "trec", "--repeat", "4", code=2).err
    )
    assert "--repeat goes with" in bench("show", "random@starter", "--repeat", "2", code=2).err


def test_explain_shows_the_first_repeat_and_any_other(bench: Bench, repeated: StoredResult, beside: Beside) -> None:
    query = repeated.per_query["query_id"][0].as_py()
    first = bench("explain", "random@starter", query)
    assert "repeat 1 of 3 (--repeat N shows another)" in first.out
    for number in (1, 3):
        result = bench("explain", "random@starter", query, "--repeat", number, "--json").json
        assert result["repeat"] == number
        part = repeated.of_repeat(number)
        assert result["metrics"]["ndcg@10"] == part.values("ndcg@10")[0]
        top = [row["tool_id"] for row in part.run.to_pylist() if row["query_id"] == query][:10]
        assert [item["tool_id"] for item in result["shown"] if item["rank"] and item["rank"] <= 10] == top
    # The method that is made again draws as in that repeat: its ranks agree.
    assert result["why"] is not None or "gives no" in (result["missing"] or "")
    assert "there is no repeat 4" in bench("explain", "random@starter", query, "--repeat", "4", code=2).err
    beside("bm25")
    assert (
        "has no repeats; there is no repeat 2" in bench("explain", "bm25@starter", query, "--repeat", "2", code=2).err
    )
    both = bench("explain", "bm25@starter", query, "--against", "random@starter", "--repeat", "2").out
    assert "repeat 2 of 3" in both


def test_a_result_with_repeats_compares_with_one_without_and_says_so(
    bench: Bench, repeated: StoredResult, beside: Beside
) -> None:
    beside("bm25")
    said = bench("compare", "bm25@starter", "random@starter", "--metric", "recall@5")
    assert "random: 3 repeats" in said.out
    report = bench("compare", "bm25@starter", "random@starter", "--metric", "recall@5", "--format", "json").json
    (system,) = [item for item in report["datasets"][0]["systems"] if item["name"] == "random"]
    assert system["marks"] == ["synthetic queries", "3 repeats"]
    means = {item["system"]: item["mean"] for item in report["datasets"][0]["metrics"][0]["standings"]}
    assert means["random"] == pytest.approx(repeated.metrics.metrics["recall@5"].mean)
    # Of one method with and without, each is named by its id.
    beside("random")
    assert "3 repeats" in bench("show", "random@starter", code=2).err


def test_a_baseline_with_repeats_passes_its_own_result_and_sees_other_sets(
    bench: Bench, repeated: StoredResult, tmp_path: Path
) -> None:
    baseline, policy = tmp_path / "b.json", tmp_path / "gate.toml"
    policy.write_text('margin = 0.001\n[[rule]]\nmetric = "recall@5"\n')
    bench("bless", "random@starter", "--out", baseline)
    report = bench("gate", "random@starter", "--baseline", baseline, "--policy", policy, "--json").json
    assert report["outcome"] == "pass"
    assert repeated.repeats is not None
    sets = [["t"]] * len(repeated.repeats)
    digest = answers_digest(repeated.run, repeated.repeats)
    column = repeated.repeats.column_names.index("recommended")
    for place in (0, len(sets) - 1):
        parts = [*sets[:place], ["other"], *sets[place + 1 :]]
        assert (
            answers_digest(repeated.run, repeated.repeats.set_column(column, "recommended", pa.array(parts))) != digest
        )
    assert json.loads(baseline.read_text("utf-8"))["rankings"] == digest


def test_slices_take_the_means(bench: Bench, repeated: StoredResult) -> None:
    slices = bench("show", "random@starter", "--by", "gold", "--json").json["slices"]
    total = sum(item["n"] * item["metrics"]["recall@5"]["mean"] for item in slices if item["n"])
    assert total / repeated.metrics.n == pytest.approx(repeated.metrics.metrics["recall@5"].mean)


def test_rescore_leaves_what_is_up_to_date(bench: Bench, repeated: StoredResult) -> None:
    assert bench("rescore", "--json").json[0]["outcome"] == "up to date"


def test_python_takes_and_shows_repeats(tmp_path: Path) -> None:
    with config_context(offline=True):
        result = library.run("random", "starter", limit=20, repeats=3)
        (again,) = library.run(["random"], "starter", limit=20, repeats=3)
        once = library.run("bm25", "starter", limit=20, repeats=3)
    assert again.id == result.id
    assert (result.repeats, once.repeats) == (3, 1)
    assert "3 repeats of every query" in str(result)
    assert "recall@5: chance is" in result._repr_html_()
    assert "repeats" not in str(once)
    assert sorted(set(result.ranking["repeat"])) == [1, 2, 3]
    table = result.variation
    assert list(table.columns) == ["within", "between", "error", "share", "repeat 1", "repeat 2", "repeat 3"]
    means = table.loc["recall@5", ["repeat 1", "repeat 2", "repeat 3"]]
    assert means.mean() == pytest.approx(result.mean("recall@5"))
    assert list(once.variation.columns) == ["within", "between", "error", "share"]
    assert len(once.variation) == 0
    for wrong in (0, 101, 1.5):
        with pytest.raises(UsageError, match="repeats"):
            library.run("random", "starter", repeats=wrong)  # type: ignore[arg-type]


def test_the_site_shows_repeats(bench: Bench, repeated: StoredResult, beside: Beside, tmp_path: Path) -> None:
    beside("random")
    beside("bm25")
    bench("leaderboard", "build", "--out", tmp_path / "site", "--downloads")
    site = tmp_path / "site"
    result_id = repeated.manifest.result_id
    page = (site / "r" / f"{result_id}.html").read_text("utf-8")
    assert '<h2 id="repeats">Repeats</h2>' in page
    assert "3 repeats of every query" in page
    (other,) = [path for path in (site / "r").glob("*.html") if "bench run --method bm25" in path.read_text("utf-8")]
    assert "Repeats" not in other.read_text("utf-8")
    exported = json.loads((site / "results.json").read_text("utf-8"))["results"]
    (values,) = [item for item in exported if item["result_id"] == result_id]
    assert values["marks"] == ["synthetic queries", "3 repeats"]
    assert values["manifest"]["repeats"] == 3
    # Both rows are on the board: with and without repeats are two questions.
    board = json.loads((site / "results.json").read_text("utf-8"))["boards"][0]
    assert len(board["results"]) == 3
    (explorer,) = (site / "e").glob("*.html")
    assert "those of the first" in explorer.read_text("utf-8")
