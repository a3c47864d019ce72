"""The harness without the buildings beside it, and the board without the others: their folders are deleted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.once import Once

ROOT = Path(__file__).resolve().parent.parent
Alone = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def alone(once: Once, isolated: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Alone:
    """Runs Python with a checkout without them, but for those that are named beside it (`beside`)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, code: int = 0, beside: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        def make(folder: Path) -> None:
            for name in {"bench", "methods", "datasets", *(name for name in beside if "/" not in name)}:
                # Compiled files go along, so that no process compiles all of it.
                shutil.copytree(ROOT / name, folder / name)
            for plugin in [*folder.glob("bench/*/plugin.toml")]:
                if plugin.parent.relative_to(folder).as_posix() not in beside:
                    shutil.rmtree(plugin.parent)
            shutil.copy(ROOT / "pyproject.toml", folder)

        folder = once("-".join(("harness-alone", *beside)).replace("/", "-"), make)
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["BENCH_OFFLINE"] = "1"
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300
        )
        assert done.returncode == code, done.stderr
        return done

    return run


def test_it_runs_compares_and_gates(alone: Alone) -> None:
    def bench(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return alone("-m", "bench", *words, code=code)

    where, there = alone("-c", "import bench; print(bench.__file__); print(bench.__path__)").stdout.splitlines()
    assert str(ROOT) not in where + there
    bench("run", "-m", "bm25", "-m", "random", "-d", "starter", "-q")
    report = json.loads(bench("compare", "random@starter", "bm25@starter", "--json").stdout)
    assert report["datasets"][0]["n"] == 126
    bench("bless", "bm25@starter", "--out", "b.json", "--by", "a person")
    Path("gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n')
    bench("gate", "bm25@starter", "--baseline", "b.json", "--policy", "gate.toml")
    # What the buildings add is not there, and the messages say so.
    assert "leaderboard" not in bench("--help").stdout
    ray = bench("run", "-m", "random", "-d", "starter", "--ray", "local", code=4).stderr
    assert "--ray cannot be used: this installation of bench lacks" in ray
    assert "there is no command 'train'" in bench("train", code=2).stderr
    assert "there is no command 'init'" in bench("init", code=2).stderr
    assert "there is no command 'tune'" in bench("tune", "-m", "bm25", code=2).stderr
    assert "there is no command 'choose'" in bench("choose", "bm25@starter", code=2).stderr
    assert "there is no command 'stress'" in bench("stress", "bm25", code=2).stderr
    assert "there is no command 'explain'" in bench("explain", "bm25@starter", "0001", code=2).stderr
    assert "there is no command 'check'" in bench("check", "method", "bm25", code=2).stderr
    assert "No such command 'audit'" in bench("data", "audit", "starter", code=2).stderr
    assert "No such command 'from-traffic'" in bench("data", "from-traffic", "log.jsonl", code=2).stderr
    names = {"audit", "Audit", "stress", "tune", "choose", "Choices", "explain", "Explained", "read_traffic"}
    names.add("ToolsReport")
    public = f"import bench; print({names} & {{*bench.__all__}})"
    assert alone("-c", public).stdout == "set()\n"
    asked = alone("-c", "import bench; bench.load_result('bm25@starter').tools()", code=1).stderr
    assert "UnavailableError: there is no report of tools: this installation of bench lacks" in asked
    assert not {"reproduction", "tools-report"} & {*bench("list", "schemas").stdout.split()}


def test_the_board_says_that_pages_of_tools_and_ceilings_are_omitted(alone: Alone, tmp_path: Path) -> None:
    kept = next((ROOT / "board" / "results" / "starter").glob("bm25-????????????"))
    shutil.copytree(kept, tmp_path / "results" / "starter" / kept.name)
    alone("-m", "bench", "leaderboard", "build", "--results", "results", "--out", "site", beside=("leaderboard",))
    assert not Path("site/t").exists()
    said = Path("site/rejected.html").read_text()
    assert "pages of tools are omitted: this installation of bench lacks" in said
    assert "ceilings are omitted: this installation of bench lacks" in said


def test_validation_needs_no_other_building(alone: Alone) -> None:
    def bench(*words: str) -> str:
        return alone("-m", "bench", *words, beside=("bench/validation",)).stdout

    findings = json.loads(bench("data", "audit", "starter", "--json"))["findings"]
    assert any(finding["check"] == "duplicate-description" for finding in findings)
    assert "FAIL" not in bench("check", "method", "random")


def test_tuning_needs_no_other_building(alone: Alone) -> None:
    grid = ("tune", "-m", "bm25", "-d", "starter", "-g", "k1=0.5,1.5", "--json")
    assert len(json.loads(alone("-m", "bench", *grid, beside=("bench/tuning",)).stdout)["points"]) == 2


def test_diagnosis_needs_no_board_but_for_a_page(alone: Alone) -> None:
    def bench(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return alone("-m", "bench", *words, code=code, beside=("bench/diagnosis",))

    bench("run", "-m", "bm25", "-d", "starter", "-q")
    assert "query 0001" in bench("explain", "bm25@starter", "0001").stdout
    report = ("tools", "bm25@starter", "--json")
    assert json.loads(bench(*report).stdout)["schema_name"] == "tools-report"
    assert "no page can be written: this installation of bench lacks" in bench(*report, "--html", "t", code=4).stderr


def test_the_board_alone_says_that_it_shows_no_choices(alone: Alone, tmp_path: Path) -> None:
    kept = ROOT / "board" / "results" / "starter"
    choice, ranked = next(kept.glob("choose-*")), next(kept.glob("bm25-????????????"))
    for path in (choice, ranked):
        shutil.copytree(path, tmp_path / "results" / "starter" / path.name)
    build = ("-m", "bench", "leaderboard", "build", "--results", "results", "--out", "site")
    told = alone(*build, beside=("leaderboard",))
    assert "incomplete: choices of language models are not shown: this installation of bench lacks" in told.stderr
    assert [path.stem for path in Path("site/r").glob("*.html")] == [ranked.name[-12:]]
