"""`bench run` and `bench show`: the one command that must work, options, tables, JSON."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shlex
import struct
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.processes import Command, forked

ROOT = Path(__file__).resolve().parent.parent.parent
Bench = Callable[..., Any]


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods from the working folder are forgotten after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def values(table: str) -> dict[str, float]:
    """First number of each row of a printed table, by its first word."""
    return {row[1]: float(row[2]) for row in re.finditer(r"^ (\S+)(?: \(n=\d+\))? +(-?\d\.\d{3})\b", table, re.M)}


# What is asked for and cannot be had --------------------------------------------------------------------------------


def test_a_metric_that_a_result_cannot_have_is_told(bench: Bench) -> None:
    why = "note: no abstained: it scores recommended sets, and there are none; abstained@5 uses the first"
    assert why in " ".join(bench("run", "--limit", 8, "-m", "bm25", "--metric", "abstained").out.split())
    both = bench("run", "--limit", 8, "-m", "bm25", "-m", "tfidf", "--metric", "abstained", "--metric", "ndcg@7").out
    assert why in " ".join(both.split())
    assert "no ndcg@7" not in both


def test_a_graph_without_edges_is_told(bench: Bench) -> None:
    Path("none.tsv").write_text("dependent\tprerequisite\n", "utf-8")
    said = bench("run", "--limit", 8, "-m", "tgr(base=bm25, graph=none.tsv)").out
    assert "found no edge here, so it answers as it would without a graph" in " ".join(said.split())
    assert "no edge" not in bench("run", "--limit", 8, "-m", "tgr(base=bm25)").out


def test_what_is_said_to_type_for_more_works_from_any_folder_of_results(bench: Bench) -> None:
    for folder in (("--results", "else where"), ()):
        said = bench("run", "--limit", 8, "-m", "random", *folder).out
        command = re.search(r"more metrics and all costs: `bench (.*)`", said)
        assert command is not None
        assert len(values(bench(*shlex.split(command[1])).out)) > len(values(said))


# The main job -------------------------------------------------------------------------------------------------------


def test_bench_run_alone_runs_tgr_on_starter(bench: Bench) -> None:
    said = bench("run", "--limit", 8, "--all")
    assert said.out.startswith("tgr @ starter\n6 judged queries (test, limit 8), 0 failed, 2 without gold; 179 tools")
    result = values(said.out)
    # The eight queries and their gold are fixed, and so is the encoder.
    assert result["recall@5"] == pytest.approx(0.472, abs=0.03)
    assert result["pass@10"] == pytest.approx(0.333, abs=0.01)
    assert {"ndcg@5", "ndcg@10", "mmrr@100", "map@100", "tracc@5"} <= set(result)
    assert "note: only 8 queries were evaluated (--limit): not comparable with full results" in said.out
    assert "about: graph rules, edges 63" in said.out
    folder = Path(said.out.rstrip().rpartition("stored in ")[2])
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        "metrics.json",
        "per_query.parquet",
        "run.parquet",
    ]
    # The second time the result exists; with `always`, nothing needs to be encoded.
    assert bench("run", "--limit", 8, "--all").out == said.out
    again = bench("run", "--limit", 8, "--overwrite", "always", "--json").json[0]
    assert again["manifest"]["facts"]["texts_encoded"] == 0
    assert again["folder"] == str(folder)


# Options ------------------------------------------------------------------------------------------------------------


def one(bench: Bench, *arguments: object) -> dict[str, Any]:
    """The single result of a run, as JSON."""
    (result,) = bench("run", "--json", *arguments).json
    return dict(result)


def test_json_is_the_manifest_and_the_metrics_that_are_stored(bench: Bench) -> None:
    result = one(bench, "-m", "bm25", "--limit", 8)
    folder = Path(result["folder"])
    for name in ("manifest", "metrics"):
        assert json.loads((folder / f"{name}.json").read_text("utf-8")) == result[name]


def test_json_of_several_runs_is_a_list_in_the_order_asked(bench: Bench) -> None:
    said = bench("run", "--json", "-m", "tfidf", "-m", "bm25", "-m", "random", "--limit", 8)
    assert [result["manifest"]["method"]["spec"] for result in said.json] == ["tfidf", "bm25", "random"]
    assert "1/3 tfidf @ starter: " in said.err
    assert bench("run", "--json", "-q", "-m", "tfidf", "-m", "bm25", "--limit", 8).err == ""


@pytest.mark.parametrize(
    ("arguments", "spec"),
    [
        (["-m", "bm25", "--set", "k1=2"], "bm25(k1=2.0)"),
        (["-m", "bm25(b=0.5)", "--set", "k1=2", "-s", "tokens=whitespace"], "bm25(b=0.5, k1=2.0, tokens=whitespace)"),
        (["-m", "bm25(k1=3)", "--set", "k1=1.2"], "bm25"),
        (["--set", "base=bm25", "-s", "graph=manual"], "tgr(base=bm25(), graph=manual)"),
        (["-m", "rrf", "--set", "methods=[bm25(k1=2), tfidf]"], "rrf(methods=[bm25(k1=2), tfidf()])"),
    ],
)
def test_set_is_laid_over_the_spec(bench: Bench, arguments: list[str], spec: str) -> None:
    assert one(bench, "--limit", 4, *arguments)["manifest"]["method"]["spec"] == spec


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--split", "dev"], {"split": "dev", "queries": 75, "history": 166}),
        (["--split", "all"], {"split": "all", "queries": 375, "history": 0}),
        (["--limit", "5"], {"limit": 5, "queries": 5, "history": 241}),
        (["--template", "toolbench"], {"template": "toolbench"}),
    ],
)
def test_options_reach_the_run(bench: Bench, arguments: list[str], expected: dict[str, object]) -> None:
    dataset = one(bench, "-m", "bm25", *arguments)["manifest"]["dataset"]
    assert {name: dataset[name] for name in expected} == expected


def test_depth_cut_and_metric_reach_the_run(bench: Bench) -> None:
    arguments = ["-m", "bm25", "--limit", 9, "--depth", 7, "--cut", "size", "--metric", "ndcg@4", "--metric", "tracc@2"]
    result = one(bench, *arguments)
    assert result["manifest"]["depth"] == 7
    assert re.fullmatch(r"cut=size\(\d+\)", result["manifest"]["method"]["cut"])
    assert {"ndcg@4", "tracc@2", "tracc", "answered"} <= set(result["metrics"]["metrics"])
    shown = bench("run", *arguments).out
    assert "ndcg@4" in shown
    assert f"bm25 + {result['manifest']['method']['cut']} @ starter\n" in shown


def test_the_command_in_the_manifest_makes_the_same_result(bench: Bench) -> None:
    result = one(bench, "-m", "bm25(k1=2)", "--limit", 6, "--depth", 9, "--split", "dev", "--template", "source")
    command = result["manifest"]["environment"]["command"]
    words = shlex.split(command)
    assert words[:2] == ["bench", "run"]
    (again,) = bench(*words[1:], "--json", "--results", "elsewhere").json
    assert again["manifest"]["result_id"] == result["manifest"]["result_id"]
    assert again["metrics"] == result["metrics"]


def test_results_go_where_they_are_asked_to(bench: Bench, tmp_path: Path) -> None:
    result = one(bench, "-m", "bm25", "--limit", 4, "--results", tmp_path / "mine")
    assert Path(result["folder"]).is_relative_to(tmp_path / "mine")
    assert not (tmp_path / "results").exists()


def test_the_same_plan_twice_is_run_once(bench: Bench) -> None:
    said = bench("run", "--json", "-m", "bm25", "-m", "bm25(k1=1.2)", "--limit", 4)
    assert len(said.json) == 1


def test_an_experiment_file_says_what_to_run(bench: Bench) -> None:
    Path("e.toml").write_text('methods = ["bm25", "tfidf"]\ndatasets = ["starter"]\nlimit = 5\nmetrics = ["ndcg@7"]\n')
    outcome = bench("run", "e.toml", "--json").json
    assert [result["manifest"]["method"]["spec"] for result in outcome] == ["bm25", "tfidf"]
    assert all(result["manifest"]["dataset"]["limit"] == 5 for result in outcome)
    assert all("ndcg@7" in result["metrics"]["metrics"] for result in outcome)
    refused = bench("run", "e.toml", "--limit", 3, code=2)
    assert "e.toml defines the run; remove the options that repeat it." in refused.err


# Tables -------------------------------------------------------------------------------------------------------------


def test_several_methods_are_one_table_best_first_and_an_oracle_last(bench: Bench) -> None:
    # Of 8 queries the oracle finds everything; it is still shown last.
    said = bench("run", "-m", "oracle", "-m", "random", "-m", "bm25", "--limit", 40, "--metric", "ndcg@7")
    assert said.out.startswith("starter (test, ")
    rows = [line.split() for line in said.out.splitlines() if line.startswith((" oracle", " random", " bm25"))]
    assert [row[0] for row in rows] == ["bm25", "random", "oracle"]
    assert rows[2][1] == "(oracle)"
    header = next(line for line in said.out.splitlines() if line.startswith(" method")).split()
    # The metric asked for comes first; the last column counts failures.
    assert header[:3] == ["method", "ndcg@7", "recall@5"]
    assert header[-1] == "failed"
    assert float(rows[0][1]) > float(rows[1][1])
    assert "note: an oracle: it reads the gold" in said.out


def test_each_dataset_has_a_table_of_its_own(bench: Bench, folder: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    said = bench("run", "-m", "bm25", "-m", "random", "-d", "starter", "-d", "mine", "--limit", 5)
    assert re.findall(r"^(\w+) \(test(?:, limit 5)?; \d+ judged queries.*\)$", said.out, re.M) == ["starter", "mine"]


METHODS = ["-m", "bm25", "-m", "oracle", "-m", "tgr(base=bm25, graph=manual, layers=2, direction=prerequisite)"]


def longest(text: str) -> int:
    """Length of the longest line, but for the path of the result, which is not broken."""
    return max(len(line.rstrip()) for line in text.splitlines() if not line.startswith("stored in "))


def test_nothing_is_wider_than_a_hundred_columns_where_there_is_no_terminal(bench: Bench) -> None:
    assert 80 < longest(bench("run", *METHODS, "--limit", 9).out) <= 100
    assert longest(bench("run", "-m", "oracle", "--limit", 9).out) <= 100


def on_terminals(*requests: tuple[int, list[str]]) -> list[str]:
    """What commands print on terminals of so many columns, without colours."""
    shown: list[bytearray] = [bytearray() for _ in requests]
    opened, threads, commands = [], [], []

    def read(screen: int, into: bytearray) -> None:
        # Linux ends the stream of a terminal that nobody holds with an error.
        with contextlib.suppress(OSError):
            while part := os.read(screen, 1 << 16):
                into += part
        os.close(screen)

    for (columns, arguments), into in zip(requests, shown, strict=True):
        screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        opened.append(terminal)
        commands.append(Command(arguments, os.ttyname(terminal)))
        threads.append(threading.Thread(target=read, args=(screen, into)))
        threads[-1].start()
    ended = forked(
        commands, "bench.cli.run", "bench.cli.show", "bench.evaluation.runner", "pyarrow.compute", "scipy.stats"
    )
    for terminal, thread in zip(opened, threads, strict=True):
        os.close(terminal)
        thread.join()
    assert [done.code for done in ended] == [0] * len(ended), ended
    return [re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).replace("\r\n", "\n") for text in shown]


def test_tables_fit_the_terminal(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    bench("run", *METHODS, "--limit", 9, "-q")
    run, show = ["run", *METHODS, "--limit", "9", "-q"], ["show", "oracle@starter", "--all"]
    for columns in (80, 100):
        compared, shown = on_terminals((columns, run), (columns, show))
        assert longest(compared) <= columns
        # Every row has its numbers on one line: no column was squeezed until it wrapped.
        assert re.search(r"^ bm25 +0\.\d{3} +0\.\d{3} .* 0 *$", compared, re.M)
        assert re.search(r"^ oracle \(oracle\) +\d\.\d{3} ", compared, re.M)
        assert longest(shown) <= columns
        assert re.search(r"^ set_precision +1\.000 ", shown, re.M)


# Showing ------------------------------------------------------------------------------------------------------------


def test_a_run_ends_with_five_metrics_those_that_were_asked_for_and_the_latency(bench: Bench) -> None:
    said = bench("run", "-m", "bm25", "--limit", 8, "--metric", "ndcg@7", "--metric", "map@100")
    metrics = re.findall(r"^ ([a-z]\w*@\d+) ", said.out, re.M)
    assert metrics == ["recall@5", "ndcg@5", "pass@5", "mmrr@100", "tracc@5", "ndcg@7", "map@100"]
    assert "one query: p50" in said.out
    assert len(said.out.splitlines()) < 24
    whole = bench("run", "-m", "bm25", "--limit", 8, "--all").out
    assert len(re.findall(r"^ [a-z]\w*(?:@\w+)? .*0\.\d{3}", whole, re.M)) > 40
    several = bench(
        "run", "-m", "bm25", "-m", "random", "--limit", 8, *(f"--metric=ndcg@{k}" for k in range(11, 20))
    ).out
    assert all(f"ndcg@{k}" in several for k in range(11, 20))
    assert max(map(len, several.splitlines())) <= 100


def test_show_prints_what_run_printed(bench: Bench) -> None:
    said = bench("run", "-m", "bm25", "--limit", 8)
    result = one(bench, "-m", "bm25", "--limit", 8)
    identifier = result["manifest"]["result_id"]
    for name in (result["folder"], identifier, identifier[:6], "bm25@starter"):
        assert bench("show", name).out == said.out


def test_show_writes_every_form(bench: Bench) -> None:
    result = one(bench, "-m", "bm25", "--limit", 8)
    name = result["manifest"]["result_id"]
    assert bench("show", name, "--format", "json").json == result
    everything = bench("show", name, "--all").out
    assert all(re.search(rf"^ {re.escape(metric)} ", everything, re.M) for metric in result["metrics"]["metrics"])
    trec = bench("show", name, "--format", "trec").out.splitlines()
    assert all(len(line.split()) == 6 for line in trec)
    lines = [json.loads(line) for line in bench("show", name, "--format", "jsonl").out.splitlines()]
    assert len(lines) == 8
    assert sum(len(line["tools"]) for line in lines) == len(trec)


# The README's example -----------------------------------------------------------------------------------------------


def test_the_method_of_the_readme_works_as_it_says(bench: Bench) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "class Shout" in block]
    Path("shout.py").write_text(program)
    checked = bench("check", "method", "shout:Shout", "--json").json
    assert not any(check["problem"] for check in checked)
    said = bench("run", "--method", "shout:Shout", "--method", "bm25", "--limit", 8)
    assert "shout:Shout" in said.out
    result = one(bench, "--method", "shout:Shout", "--set", "weight=0.5", "--limit", 8)
    assert result["manifest"]["method"]["spec"] == "shout:Shout(weight=0.5)"
    sys.modules.pop("shout", None)
