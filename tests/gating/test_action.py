"""The GitHub Action: its form, and the script of its gate. `test_ci.py` runs all of it on a clean machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "action.yml").read_text("utf-8")
STEPS = ("Prepare", "Install bench", "Import", "Run", "Gate")
Step = Callable[..., subprocess.CompletedProcess[str]]


def script(step: str) -> str:
    """The script of a step, by its text: YAML needs an extra."""
    _, _, rest = TEXT.partition(f"- name: {step}\n")
    _, _, block = rest.partition("      run: ")
    first, *lines = block.splitlines()
    if first != "|":
        return f"{first}\n"
    kept = [line[8:] for line in lines[: next((i for i, x in enumerate(lines) if x and x[:8].strip()), len(lines))]]
    assert kept
    return "\n".join(kept) + "\n"


def test_the_action_is_yaml_with_what_a_composite_action_needs() -> None:
    yaml = pytest.importorskip("yaml")
    action: dict[str, Any] = yaml.safe_load(TEXT)
    assert action["runs"]["using"] == "composite"
    scripts = [step for step in action["runs"]["steps"] if "uses" not in step]
    assert all(step["shell"] == "bash" for step in scripts)
    *scripts, _ = scripts
    assert [step["name"] for step in scripts] == list(STEPS)
    assert [step["run"].rstrip("\n") for step in scripts] == [script(step).rstrip("\n") for step in STEPS]
    # Those that use bench work in the folder of the caller's.
    assert {step.get("working-directory") for step in scripts[2:]} == {"${{ inputs.working-directory }}"}
    (cache,) = [step for step in action["runs"]["steps"] if "cache" in step.get("uses", "")]
    assert "steps.prepare.outputs.key" in cache["with"]["key"]
    used = set(re.findall(r"inputs\.([a-z-]+)", TEXT))
    assert used == set(action["inputs"])
    # Without a token there is no comment, and with one nothing else.
    assert action["inputs"]["token"]["default"] == ""
    assert [step["name"] for step in action["runs"]["steps"] if "inputs.token != ''" in step.get("if", "")] == [
        "Fetch the report",
        "Comment",
    ]
    assert all("inputs.token == ''" in step["if"] for step in scripts)


@pytest.mark.parametrize("step", STEPS)
def test_no_input_is_pasted_into_a_script(step: str) -> None:
    assert "${{" not in script(step)


def test_what_decides_what_is_cached_decides_the_key_of_the_cache(tmp_path: Path) -> None:
    inputs = {"ACTION": "/actions/bench/v1", "EXTRAS": "models,mcp", "METHOD": "bm25", "DATASET": ""}

    def prepare(**change: str) -> tuple[str, str]:
        files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_ENV")}
        for file in files.values():
            file.write_text("")
        variables = {**os.environ, **inputs, **change, "RUNNER_TEMP": "/temporary"} | {
            k: str(v) for k, v in files.items()
        }
        subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script("Prepare")], env=variables, check=True)
        return files["GITHUB_OUTPUT"].read_text(), files["GITHUB_ENV"].read_text()

    key, variables = prepare()
    # GitHub refuses a key with a comma.
    assert re.fullmatch(r"key=\d+-\d+\n", key)
    assert variables == ""
    assert prepare() == (key, "")
    keys = {prepare(**change)[0] for change in ({"EXTRAS": ""}, {"METHOD": "dense"}, {"ACTION": "/actions/bench/v2"})}
    assert len(keys - {key}) == 3
    # A dataset of its own, which no other job replaces.
    assert prepare(DATASET="desk") == (key, "BENCH_DATA=/temporary/bench-data\n")


@pytest.fixture
def gate_step(ready: Path, starter_baseline: Path, tmp_path: Path) -> Step:
    """Run the gate's step in a folder with a baseline of bm25 on starter, as the runner does."""
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(starter_baseline, work / "b.json")
    (work / "gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n')
    (work / "step.sh").write_text(script("Gate"))
    (work / "summary").write_text("what an earlier step said\n")

    def gate_step(candidate: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "CANDIDATE": candidate,
            "METHOD": "random",
            "DATASET": "starter",
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
    [("bm25@starter", 0, "::notice"), ("", 1, "::error"), ("nothing@starter", 3, "::error")],
)
def test_the_step_ends_as_the_gate_does_and_leaves_a_summary(
    gate_step: Step, tmp_path: Path, candidate: str, code: int, word: str
) -> None:
    # Without a candidate, it is what the method answers.
    done = gate_step(candidate)
    assert done.returncode == code, done.stderr
    assert word in done.stdout
    assert (tmp_path / "work" / "summary").read_text().startswith("what an earlier step said\n## Gate: ")
    assert (tmp_path / "work" / "output").read_text() == f"exit-code={code}\n"
    assert (tmp_path / "work" / "out" / "gate.xml").is_file()


def test_a_summary_that_cannot_be_written_is_a_warning(gate_step: Step) -> None:
    done = gate_step("bm25@starter", GITHUB_STEP_SUMMARY="/nowhere/summary", GITHUB_ACTIONS="true")
    assert done.returncode == 0
    assert done.stderr.startswith("::warning title=bench gate::the job's summary was not written")


def test_a_candidate_s_name_is_never_run_nor_taken_for_an_option(gate_step: Step, tmp_path: Path) -> None:
    for name in ("$(touch planted) `touch planted` ; touch planted", "--help"):
        assert gate_step(name).returncode == 3
    assert not (tmp_path / "work" / "planted").exists()
