"""The GitHub Action: its script run as the workflow would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.gating.bless import bless
from bench.registry import build_method, load_dataset
from bench.results.store import Result
from bench.specs.spec import parse

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "action.yml").read_text("utf-8")
Step = Callable[..., subprocess.CompletedProcess[str]]


def script(step: str) -> str:
    """The `run: |` block of a step, without its indentation."""
    _, _, rest = TEXT.partition(f"- name: {step}\n")
    _, _, block = rest.partition("      run: |\n")
    lines = []
    for line in block.splitlines():
        if line and not line.startswith("        "):
            break
        lines.append(line[8:])
    assert lines
    return "\n".join(lines) + "\n"


def test_the_action_is_yaml_with_what_a_composite_action_needs() -> None:
    yaml = pytest.importorskip("yaml")
    action: dict[str, Any] = yaml.safe_load(TEXT)
    assert action["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"])
    assert {name for name, given in action["inputs"].items() if given.get("required")} == {"candidate", "baseline"}
    used = set(re.findall(r"inputs\.([a-z]+)", TEXT))
    assert used == set(action["inputs"])
    assert [step["run"] for step in action["runs"]["steps"]] == [script("Install bench"), script("Gate")]


@pytest.mark.parametrize("step", ["Install bench", "Gate"])
def test_no_input_is_pasted_into_a_script(step: str) -> None:
    assert "${{" not in script(step)


@pytest.fixture
def gate_step(tmp_path: Path) -> Step:
    """Run the gate's step in a folder with a baseline of bm25 on starter, as the runner does."""
    runner = Runner(tmp_path / "results", load=load_dataset, build=build_method)
    bm25, _ = list(runner.run([Plan(parse("starter"), parse(method)) for method in ("bm25", "random")]))
    assert isinstance(bm25, Result)
    work = tmp_path / "work"
    work.mkdir()
    bless([bm25], work / "b.json", by="a person")
    (work / "gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n')
    (work / "step.sh").write_text(script("Gate"))
    (work / "summary").write_text("what an earlier step said\n")

    def gate_step(candidate: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "CANDIDATE": candidate,
            "BASELINE": "b.json",
            "POLICY": "gate.toml",
            "JUNIT": "out/gate.xml",
            "GITHUB_STEP_SUMMARY": str(work / "summary"),
            "GITHUB_OUTPUT": str(work / "output"),
            **inputs,
        }
        # As GitHub starts the steps of a composite action that name bash.
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "step.sh"]
        return subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)

    return gate_step


@pytest.mark.parametrize(
    ("candidate", "code", "word"),
    [("bm25@starter", 0, "::notice"), ("random@starter", 1, "::error"), ("nothing@starter", 3, "::error")],
)
def test_the_step_ends_as_the_gate_does_and_leaves_a_summary(
    gate_step: Step, tmp_path: Path, candidate: str, code: int, word: str
) -> None:
    done = gate_step(candidate)
    assert done.returncode == code, done.stderr
    assert word in done.stdout
    summary = (tmp_path / "work" / "summary").read_text()
    assert summary.startswith("what an earlier step said\n## Gate: ")
    assert (tmp_path / "work" / "output").read_text() == f"exit-code={code}\n"
    assert (tmp_path / "work" / "out" / "gate.xml").is_file()


def test_a_candidate_s_name_is_never_run_nor_taken_for_an_option(gate_step: Step, tmp_path: Path) -> None:
    for name in ("$(touch planted)", "; touch planted", "--help", "`touch planted`"):
        assert gate_step(name).returncode == 3
    assert not (tmp_path / "work" / "planted").exists()
