"""Where output goes and what it may not break: full disks, closed streams, poor terminals, doubtful leads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.processes import Command, forked

Bench = Callable[..., Any]

FULL = Path("/dev/full")


def process(*arguments: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """`bench` in a process of its own; `shell` is what a shell does with its streams."""
    command = ["sh", "-c", f'exec "$0" -m bench "$@" {shell}', sys.executable, *arguments]
    variables = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=variables, encoding="utf-8", check=False)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_under_standard_output_is_told() -> None:
    requests = [("list", "metrics"), ("list", "metrics", "--json"), ("list", "schemas", "manifest")]
    for done in forked([Command(arguments, str(FULL)) for arguments in requests]):
        assert done.code == 7
        assert done.err == (
            "bench: cannot write what was asked for: No space left on device. Stored results are not touched by it.\n"
        )


def test_closed_streams_do_not_break_a_run(tmp_path: Path) -> None:
    done = process("run", "-m", "bm25", "--limit", "4", "--results", str(tmp_path / "r"), shell=">&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(list(tmp_path.glob("r/*/*/manifest.json"))) == 1


def test_a_terminal_without_the_signs_shows_others() -> None:
    done = process("data", "info", "apibank", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "API-Bank" in done.stdout


# Comparisons --------------------------------------------------------------------------------------------------------


def test_a_lead_that_ties_decide_is_marked(bench: Bench) -> None:
    # Ten equal scores for all: only the order of ids tells the two apart.
    Path("level.py").write_text(
        "import numpy as np\n"
        "from bench.interface import Method\n"
        "from bench.search.topk import top_k\n"
        "class Level(Method):\n"
        '    """All tools alike."""\n'
        "    def index(self, library):\n"
        "        self.size = len(library)\n"
        "    def rank(self, queries, depth):\n"
        "        return top_k(np.zeros((len(queries), self.size)), depth)\n"
    )
    sys.path.insert(0, str(Path.cwd()))
    try:
        said = bench("run", "-m", "level:Level", "-m", "random(seed=1)", "-m", "bm25", "--metric", "recall@100").out
    finally:
        sys.path.remove(str(Path.cwd()))
        sys.modules.pop("level", None)
    (row,) = [line for line in said.splitlines() if line.startswith(" bm25")]
    assert "~" not in row.split()[1]
    leads = [line for line in said.splitlines() if line.startswith((" level:Level", " random"))]
    assert "~" in leads[0].split()[1]
    assert "~ the lead over the next row depends only on tie-breaking" in said


def test_a_dataset_without_judged_queries_is_no_crash(bench: Bench, folder: Path) -> None:
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tcrm.find\t0\nq3\tmap.route\t0\n")
    bench("data", "add", "mine", "--from", folder)
    said = bench("run", "-m", "bm25", "-m", "random", "-d", "mine")
    assert "mine (test; 0 judged queries)" in said.out
    assert "0 judged queries (test)" in bench("show", "bm25@mine").out


def test_a_run_file_is_marked_in_a_comparison(bench: Bench, lexical: Path) -> None:
    Path("mine.trec").write_text(bench("show", "bm25@starter", "--format", "trec").out)
    said = bench("score", "mine.trec", "-d", "starter").out
    assert "; from a run file" in " ".join(said.split())
    assert "run file" in bench("list", "results").out


# Showing ------------------------------------------------------------------------------------------------------------


def test_a_metric_that_a_result_lacks_is_told(bench: Bench) -> None:
    bench("run", "-m", "bm25", "--limit", 4)
    said = bench("show", "bm25@starter", "--metric", "ndcg@7", code=2)
    assert "bm25 @ starter has no metric 'ndcg@7'" in said.err
    # A run with the metric scores the stored ranking once more; nothing is ranked again.
    again = bench("run", "-m", "bm25", "--limit", 4, "--metric", "ndcg@7")
    assert "ranking kept from" in again.err
    assert "ndcg@7" in bench("show", "bm25@starter", "--metric", "ndcg@7").out


def test_all_metrics_stand_under_what_was_asked(bench: Bench) -> None:
    bench("run", "-m", "bm25", "--limit", 8)
    said = " ".join(bench("show", "bm25@starter", "--all").out.split())
    assert said.startswith(
        "bm25 @ starter 6 judged queries (test, limit 8), 0 failed, 2 without gold; 179 tools as name_"
    )


# Exports ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["beir", "parquet", "hf"])
def test_nothing_is_exported_into_a_folder_that_holds_something(bench: Bench, folder: Path, form: str) -> None:
    bench("data", "add", "mine", "--from", folder)
    before = sorted(folder.rglob("*"))
    said = bench("data", "export", "mine", "--out", folder, "--format", form, code=2)
    assert said.err == f"bench: the folder {folder} is not empty; name a new one.\n"
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("form", ["parquet", "hf"])
def test_a_template_is_refused_where_tools_stay_fields(bench: Bench, form: str) -> None:
    said = bench("data", "export", "starter", "--out", "x", "--format", form, "--template", "source", code=2)
    assert "--template requires --format beir" in said.err
    assert not Path("x").exists()


def test_info_takes_a_dataset_with_options(bench: Bench) -> None:
    assert "option         test_share" in bench("data", "info", "rectools(split=bundle-disjoint)").out
    assert "rectools has no parameter 'splt'" in bench("data", "info", "rectools(splt=random)", code=2).err


# Experiment files ---------------------------------------------------------------------------------------------------


def test_an_experiment_file_may_begin_with_a_byte_order_mark(bench: Bench) -> None:
    Path("e.toml").write_text('methods = ["random"]\ndatasets = ["starter"]\nlimit = 4\n', "utf-8-sig")
    assert bench("run", "e.toml", "--json").json[0]["manifest"]["dataset"]["limit"] == 4


def test_an_experiment_file_nested_without_end_is_told(bench: Bench) -> None:
    Path("e.toml").write_text("methods = " + "[" * 100_000)
    assert bench("run", "e.toml", code=2).err.startswith("bench: cannot read the experiment file e.toml: ")


def test_a_terminal_does_not_obey_a_name(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"query_id": "0001", "tools": []}\n')
    said = bench(
        "score", tmp_path / "r.jsonl", "-d", "starter", "--name", "red\x1b[31m\u202e", "--results", tmp_path, code=2
    )
    assert "cannot be shown: it has the sign U+001B" in said.err
    assert "\x1b" not in said.err
