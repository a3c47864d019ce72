"""`bench bless` and `bench gate`, as people and CI use them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kit.processes import Command, forked
from kit.results import scored_by

from bench.base.errors import UsageError
from bench.cli.schemas import shipped_schema
from bench.gating.baseline import read_baseline, write_baseline
from bench.gating.bless import bless
from bench.lookup.finding import find_result
from bench.results.manifest import ScoringCode
from bench.results.store import StoredResult

Bench = Callable[..., Any]

POLICY = 'margin = 0.02\n[[rule]]\nmetric = "recall@5"\n[[rule]]\nmetric = "ndcg@10"\n'


@pytest.fixture
def blessed(bench: Bench, ready: Path, starter_baseline: Path) -> Path:
    """A baseline of bm25 on starter and a policy in the working folder, and results of bm25 and random among others."""
    Path("gate.toml").write_text(POLICY)
    return Path(shutil.copy(starter_baseline, "b.json"))


def gate(bench: Bench, candidate: str, *more: object, code: int) -> Any:
    return bench("gate", candidate, "--baseline", "b.json", "--policy", "gate.toml", *more, code=code)


def test_the_blessed_result_passes_and_the_gate_leaves_the_baseline_as_it_is(bench: Bench, blessed: Path) -> None:
    before = blessed.read_bytes()
    said = gate(bench, "bm25@starter", code=0)
    assert said.out.endswith("pass: every rule holds (exit code 0)\n")
    assert "blessed" in said.out
    assert "a person: first blessing" in said.out
    gate(bench, "random@starter", code=1)
    assert blessed.read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["b.json", "gate.toml"]


def test_a_regression_is_told_in_every_form(bench: Bench, blessed: Path) -> None:
    said = gate(bench, "random@starter", "--out", "x.md", "--out", "x.xml", "--github", code=1)
    lines = said.out.splitlines()
    assert lines[0].startswith("::stop-commands::")
    token = lines[0].removeprefix("::stop-commands::")
    resumed = lines.index(f"::{token}::")
    assert [line.partition(" ")[0] for line in lines[resumed + 1 :]] == ["::error", "::error"]
    assert "newly failing" in "\n".join(lines[:resumed])
    assert "## Gate: regression" in Path("x.md").read_text()
    root = ElementTree.parse("x.xml").getroot()
    assert root.attrib == {"tests": "2", "failures": "2", "errors": "0"}


def test_json_follows_its_schema_and_names_the_texts_of_moved_queries(bench: Bench, blessed: Path) -> None:
    said = gate(bench, "random@starter", "--json", "--github", code=1)
    jsonschema.validate(said.json, shipped_schema("gate-report"))
    assert said.json["outcome"] == "regression"
    assert said.json["moved"][0]["failing"][0]["text"]
    assert said.err.startswith("::error title=")


def test_a_run_file_is_a_candidate_like_every_other(bench: Bench, blessed: Path) -> None:
    Path("run.jsonl").write_text(bench("show", "bm25@starter", "--format", "jsonl").out)
    gate(bench, "run.jsonl", code=0)
    Path("gate.toml").write_text(POLICY + "[latency]\np95_seconds = 10\n")
    assert "has no latency measurement" in gate(bench, "run.jsonl", code=3).out


def test_a_slice_of_the_dataset_is_judged_alone(bench: Bench, blessed: Path) -> None:
    rule = '[[rule]]\nmetric = "recall@5"\nmargin = 0.02\nslice = {name = "gold", value = "%s"}\n'
    Path("gate.toml").write_text(rule % "2")
    assert "recall@5 where gold = 2" in gate(bench, "bm25@starter", code=0).out
    Path("gate.toml").write_text(rule % "99")
    assert "no query has this value" in gate(bench, "bm25@starter", code=3).out


def test_what_was_not_measured_on_the_same_ends_with_nine(bench: Bench, blessed: Path) -> None:
    bench("run", "-q", "-m", "bm25", "-d", "starter", "--limit", 20)
    bench("run", "-q", "-m", "bm25", "-d", "starter", "--split", "dev")
    results = {item["label"]: item for item in _results(bench)}
    assert len(results) == 3
    for what, label in (("the limit of queries", "limit 20"), ("the split", "split dev")):
        said = gate(bench, results[label]["id"], code=9)
        assert f"{what} differs" in said.out
        assert "not comparable" in said.out


def _results(bench: Bench) -> list[dict[str, str]]:
    """Results of bm25: their id, and what is particular about them."""
    collected = []
    for item in bench("list", "results", "--json").json["results"]:
        if item["method"] == "bm25":
            data = bench("show", item["id"], "--json").json["manifest"]["dataset"]
            label = f"limit {data['limit']}" if data["limit"] else f"split {data['split']}"
            collected.append({"label": label, "id": item["id"]})
    return collected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing@starter"], "there is no result"),
        (["bm25@starter", "--baseline", "none.json"], "there is no baseline none.json"),
        (["bm25@starter", "--policy", "none.toml"], "cannot read the policy none.toml"),
        (["bm25@starter", "--baseline", "gate.toml"], "gate.toml is not JSON"),
        (["bm25@starter", "--policy", "b.json"], "is not TOML"),
    ],
)
def test_what_is_missing_or_damaged_was_not_run_and_has_its_report(
    bench: Bench, blessed: Path, arguments: list[str], said: str
) -> None:
    report = gate(bench, *arguments, "--out", "x.xml", "--out", "x.md", code=3)
    assert said in report.out
    assert "not run: it could not be evaluated, which is not a pass" in report.out
    assert ElementTree.parse("x.xml").getroot().attrib["errors"] == "1"
    assert "## Gate: not run" in Path("x.md").read_text()


def test_a_damaged_result_was_not_run(bench: Bench, blessed: Path, tmp_path: Path) -> None:
    table = find_result(tmp_path / "results", "bm25@starter").folder / "per_query.parquet"
    table.write_bytes(table.read_bytes()[:100])
    assert "truncated or changed" in gate(bench, "bm25@starter", code=3).out


@pytest.mark.parametrize(
    "arguments",
    [["gate"], ["gate", "x"], ["gate", "x", "--baseline", "b"], ["gate", "x", "y", "--nonsense"], ["gate", "--policy"]],
)
def test_a_wrong_command_line_was_not_run_either(bench: Bench, arguments: list[str]) -> None:
    assert "Error: " in bench(*arguments, code=3).err


def test_help_has_the_codes(bench: Bench) -> None:
    said = bench("gate", "--help")
    for line in ("0  pass", "1  regression", "2  inconclusive", "3  could not run", "9  not comparable"):
        assert line in said.out


def test_a_report_that_cannot_be_written_is_no_pass(bench: Bench, blessed: Path) -> None:
    said = gate(bench, "bm25@starter", "--out", "b.json/x.xml", code=3)
    assert "cannot write" in said.err
    gate(bench, "random@starter", "--out", "b.json/x.xml", code=1)


def test_the_code_does_not_hang_on_whether_somebody_reads_the_report(bench: Bench, blessed: Path) -> None:
    """`bench gate ... | true`: a regression is one, and the files are there. On a full disk nothing is a pass."""
    judged = ["--baseline", "b.json", "--policy", "gate.toml"]
    commands: list[Command] = []
    codes: list[int] = []
    for candidate, code in (("random@starter", 1), ("nothing@starter", 3), ("bm25@starter", 0)):
        forms = [[], ["--json"], ["--github"], ["--json", "--github"]]
        for more in forms if code == 1 else (forms[0], forms[-1]):
            files = ["--out", f"{len(codes)}.xml", "--out", f"{len(codes)}.md"]
            commands.append(Command(["gate", candidate, *judged, *files, *more], "closed", "closed" if more else ""))
            codes.append(code)
    written = len(codes)
    if Path("/dev/full").exists():
        for candidate, code in (("bm25@starter", 3), ("random@starter", 1)):
            commands.append(Command(["gate", candidate, *judged], "/dev/full"))
            codes.append(code)
    ended = forked(commands, "bench.cli.gate", "bench.gating.judge", "pyarrow.compute", "scipy.stats", "rich.table")
    assert [done.code for done in ended] == codes
    assert not [done.err for done in ended[:written] if done.err]
    for number in range(written):
        assert Path(f"{number}.xml").is_file()
        assert Path(f"{number}.md").is_file()


def test_the_ending_of_a_file_decides_what_it_holds(bench: Bench, blessed: Path) -> None:
    said = gate(bench, "bm25@starter", "--out", "x.json", "--json", code=0).json
    assert json.loads(Path("x.json").read_text()) == said
    assert "'x.txt' ends with none of .md, .xml, .json" in gate(bench, "bm25@starter", "--out", "x.txt", code=3).err
    assert not Path("x.txt").exists()


def test_a_place_of_results_that_cannot_be_was_not_run(
    bench: Bench, blessed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_RESULTS", "~nobody-has-this-name/x")
    assert "no home folder" in gate(bench, "bm25@starter", "--out", "x.xml", code=3).out
    assert Path("x.xml").is_file()


def test_a_baseline_with_queries_taken_out_by_hand_is_not_read(bench: Bench, blessed: Path) -> None:
    raw = json.loads(blessed.read_text())
    raw["values"]["recall@5"]["codes"] = [-1] * 100 + raw["values"]["recall@5"]["codes"][100:]
    blessed.write_text(json.dumps(raw))
    assert "its sha256 does not match" in gate(bench, "bm25@starter", code=3).out


def test_values_of_another_scoring_code_are_not_compared(bench: Bench, blessed: Path) -> None:
    baseline = read_baseline(blessed)
    write_baseline(
        blessed, baseline.model_copy(update={"scoring": ScoringCode(**scored_by("0" * 64, baseline.values))}).sealed()
    )
    said = gate(bench, "bm25@starter", code=9).out
    assert "the version of the scoring code of recall differs" in said
    assert "`bench run` scores a stored ranking again" in said
    assert "bless it again" in said


def test_the_recipe_for_gitlab_lets_two_through_from_the_gate_alone(tmp_path: Path) -> None:
    """Every command of docs/gate.md's job fails with 2 in turn, as click's own errors of usage do."""
    guide = (Path(__file__).resolve().parents[2] / "docs" / "gate.md").read_text("utf-8")
    job = guide.partition("## GitLab")[2].partition("```yaml\n")[2].partition("```")[0]
    assert "exit_codes: [2]" in job
    script = [line.strip().removeprefix("- ") for line in job.splitlines() if line.strip().startswith("- ")]
    assert [line.split()[0] for line in script] == ["pip", "python", "bench"]
    for failing, code in (("pip", 3), ("python", 3), ("bench", 2), ("none", 0)):
        for name in ("pip", "python", "bench"):
            stub = tmp_path / name
            stub.write_text(f"#!/bin/sh\nexit {2 if name == failing else 0}\n")
            stub.chmod(0o755)
        environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        command = ["bash", "-e", "-o", "pipefail", "-c", "\n".join(script)]
        assert subprocess.run(command, env=environment, check=False).returncode == code, failing


def test_failed_queries_make_it_no_measurement(bench: Bench, blessed: Path) -> None:
    lines = bench("show", "bm25@starter", "--format", "jsonl").out.splitlines()
    judged = [i for i, line in enumerate(lines) if json.loads(line)["query_id"] in _judged(blessed)]
    Path("run.jsonl").write_text("\n".join(line for i, line in enumerate(lines) if i != judged[0]) + "\n")
    assert "1 of 126 judged queries failed" in gate(bench, "run.jsonl", code=3).out


def _judged(path: Path) -> set[str]:
    baseline = read_baseline(path)
    return {query for query, gold in zip(baseline.query_ids, baseline.n_gold, strict=True) if gold}


# bless --------------------------------------------------------------------------------------------------------------


def test_a_blessing_keeps_values_hashes_who_when_and_why_and_no_text(bench: Bench, blessed: Path) -> None:
    baseline = read_baseline(blessed)
    shown = bench("show", "bm25@starter", "--json").json
    assert baseline.result_id == shown["manifest"]["result_id"]
    assert baseline.method.hash == shown["manifest"]["method"]["hash"]
    assert baseline.dataset.content_hash == shown["manifest"]["dataset"]["content_hash"]
    assert baseline.mean("recall@5") == pytest.approx(shown["metrics"]["metrics"]["recall@5"]["mean"], abs=1e-8)
    assert (baseline.blessed.by, baseline.blessed.reason) == ("a person", "first blessing")
    assert "tracc" not in baseline.values
    assert blessed.stat().st_size < 16 * 1024


def test_a_baseline_is_replaced_for_a_reason_alone(bench: Bench, blessed: Path) -> None:
    before = blessed.read_bytes()
    said = bench("bless", "random@starter", "--out", "b.json", code=2)
    assert "--reason" in said.err
    assert blessed.read_bytes() == before
    said = bench("bless", "random@starter", "--out", "b.json", "--reason", "chance will do")
    assert "recall@5: 0.193 to" in said.out
    assert read_baseline(blessed).blessed.reason == "chance will do"


def test_blessing_the_same_again_changes_nothing(bench: Bench, blessed: Path) -> None:
    before = blessed.read_bytes()
    assert "already has the same evidence" in bench("bless", "bm25@starter", "--out", "b.json").out
    assert blessed.read_bytes() == before


def test_a_reason_is_kept_where_the_same_evidence_was_timed_anew(bench: Bench, blessed: Path) -> None:
    before = read_baseline(blessed)
    assert before.latency is not None
    slower = before.model_copy(update={"latency": before.latency.model_copy(update={"p95": 9.0})}).sealed()
    write_baseline(blessed, slower)
    # Seconds alone are no reason, and a reason for nothing new changes nothing.
    assert "is unchanged" in bench("bless", "bm25@starter", "--out", "b.json").out
    assert read_baseline(blessed) == slower
    bench("bless", "bm25@starter", "--out", "b.json", "--reason", "another machine")
    baseline = read_baseline(blessed)
    assert (baseline.latency, baseline.blessed.reason) == (before.latency, "another machine")
    assert "is unchanged" in bench("bless", "bm25@starter", "--out", "b.json", "--reason", "and again").out
    assert read_baseline(blessed).blessed.reason == "another machine"


def test_two_that_bless_at_once_do_not_replace_each_other_without_a_reason(
    bench: Bench, blessed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits until the first has written, and sees what it would replace."""
    bm25, random = (find_result(tmp_path / "results", f"{name}@starter") for name in ("bm25", "random"))
    met = threading.Barrier(2)

    def slow(*arguments: Any) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            met.wait(timeout=1)
        write_baseline(*arguments)

    monkeypatch.setattr("bench.gating.bless.write_baseline", slow)
    said: list[str] = []

    def blesses(result: StoredResult) -> None:
        try:
            said.append("written" if bless([result], Path("new.json"), by="x")[0].written else "left")
        except UsageError as error:
            said.append(str(error))

    threads = [threading.Thread(target=blesses, args=(result,)) for result in (bm25, random)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 2
    assert said.count("written") == 1
    assert "give a --reason to replace it" in next(words for words in said if words != "written")
    assert sorted(path.name for path in Path().iterdir()) == ["b.json", "gate.toml", "new.json"]


def test_several_results_go_into_a_folder_each_under_its_name(bench: Bench, blessed: Path) -> None:
    said = bench("bless", "bm25@starter", "random@starter", "--out", "baselines", "--json", "--metric", "recall@3")
    assert [item["file"] for item in said.json] == ["baselines/starter-bm25.json", "baselines/starter-random.json"]
    assert "recall@3" in read_baseline(Path("baselines/starter-bm25.json")).values
    assert (
        "2 results do not fit in one file, x.json; give a folder."
        in bench("bless", "bm25@starter", "random@starter", "--out", "x.json", code=2).err
    )
    twice = bench("bless", "bm25@starter", "bm25@starter", "--out", "again", code=2)
    assert "one by one" in twice.err
    assert not Path("again").exists()


def test_a_damaged_baseline_is_replaced_for_a_reason_and_another_file_never(bench: Bench, blessed: Path) -> None:
    blessed.write_bytes(blessed.read_bytes()[:400])
    bench("bless", "bm25@starter", "--out", "b.json", code=2)
    bench("bless", "bm25@starter", "--out", "b.json", "--reason", "the file was damaged")
    Path("package.json").write_text("{}")
    said = bench("bless", "bm25@starter", "--out", "package.json", "--reason", "x", code=6)
    assert "package.json is not a baseline" in said.err
    assert Path("package.json").read_text() == "{}"


def test_a_metric_that_the_result_lacks_is_told(bench: Bench, blessed: Path) -> None:
    said = bench("bless", "bm25@starter", "--out", "c.json", "--metric", "ndcg@7", code=2)
    assert "bench run --metric ndcg@7" in said.err
