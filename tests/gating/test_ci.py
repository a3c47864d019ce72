"""What `bench init` and the guide tell CI, run step by step on a machine on which nothing is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from kit.commands import write_example
from kit.comments import Comments, comments
from kit.jobs import GitHubJob, run_action, run_gitlab
from kit.once import Once
from kit.packages import ROOT, build, clean_environment, copied

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.slow("packages built and installed")

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
GUIDE = (ROOT / "docs" / "gate.md").read_text("utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)]
GITHUB = ".github/workflows/tool-search.yml"


@dataclass
class Machine:
    """A clean machine with a clone of a team's repository.

    Attributes:
        variables: of its environment.
        folder: the clone.
        wheel: of this checkout, which stands for the address of bench.
    """

    variables: dict[str, str]
    folder: Path
    wheel: Path

    def from_here(self, text: str) -> Any:
        """A file for CI, which installs this checkout's bench and not the one at an address."""
        changed, count = re.subn(r"(?<=BENCH: )\S+", str(self.wheel), text)
        assert count == 1, text
        return yaml.safe_load(changed)

    def worsen(self) -> None:
        """Edit a description, as a pull request does."""
        self.edit("tools/tickets.json", r"Open a new support ticket.*new ticket\.", "Handles input.")

    def edit(self, place: str, pattern: str, text: str) -> None:
        """Replace a part of a file of the clone."""
        path = self.folder / place
        changed, count = re.subn(pattern, text, path.read_text())
        assert count == 1
        path.write_text(changed)

    def wheel_of_another_commit(self) -> Path:
        """A wheel with the same version and one file more, `bench/another.txt`."""
        other = self.folder.parent / "other" / self.wheel.name
        other.parent.mkdir()
        shutil.copy(self.wheel, other)
        with ZipFile(other, "a") as wheel:
            wheel.writestr("bench/another.txt", "")
        return other


@pytest.fixture
def wheel(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel, built once in a run."""
    source = tmp_path_factory.mktemp("source") / "checkout"
    (built,) = once("wheel", lambda folder: build(copied(source), folder, "--wheel")).glob("*.whl")
    return built


@pytest.fixture
def machine(wheel: Path, tmp_path: Path) -> Machine:
    """With the example of `bench init`, whose baseline another machine has blessed."""
    variables = clean_environment(tmp_path)
    folder = tmp_path / "work" / "repository"
    write_example(folder)
    elsewhere = {**os.environ, "BENCH_DATA": str(tmp_path / "d"), "BENCH_RESULTS": str(tmp_path / "r")}
    for line in (
        "data import desk-example tools --queries queries.csv",
        "run -q -m bm25 -d desk-example",
        "bless bm25@desk-example --out baseline.json --by somebody",
    ):
        command = [sys.executable, "-m", "bench", *line.split()]
        subprocess.run(command, cwd=folder, env=elsewhere, check=True, capture_output=True)
    return Machine(variables, folder, wheel)


def check_split(workflow: Any) -> None:
    """That no job has both a token that writes and code of the request."""
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        fetched = [
            step for step in job["steps"] if step.get("uses", "").startswith(("actions/checkout", "actions/cache"))
        ]
        assert not (fetched and (job.get("permissions") or "token" in str(job["steps"]).replace("token: ''", "")))
        assert all(step["with"] == {"persist-credentials": False} for step in fetched if "checkout" in step["uses"])


@pytest.fixture
def server() -> Iterator[Comments]:
    """A server of comments."""
    with comments() as server:
        yield server


def test_the_workflow_judges_this_commit_on_a_runner_that_keeps_its_home(machine: Machine, tmp_path: Path) -> None:
    workflow = machine.from_here((machine.folder / GITHUB).read_text())
    told = workflow["jobs"]["gate"]
    check_split(workflow)
    assert [step["uses"] for step in told["steps"] if "uses" in step] == [
        "actions/checkout@v4",
        "actions/setup-python@v5",
        "actions/cache@v4",
        "actions/upload-artifact@v4",
    ]
    said = ""

    def run(code: int, verdict: str, **change: str) -> str:
        """The report of the next job, which finds dataset, results and installation of the one before."""
        nonlocal said
        job = GitHubJob(machine.folder, {**machine.variables, **workflow["env"], **change})
        job.summary.unlink(missing_ok=True)
        job.run(told["steps"], told["defaults"]["run"]["working-directory"])
        assert [step.code for step in job.done] == [0, 0, 0, code], job.done[-1].said
        assert job.summary.read_text().startswith(f"## Gate: {verdict}")
        said += "".join(step.said for step in job.done)
        # The other job has nothing of the request but the report.
        body = (job.folder.parent / "artifacts" / "bench-gate" / "bench-gate.md").read_text()
        assert body.startswith(f"## Gate: {verdict}")
        return body

    run(0, "pass")
    # An edit that decides no query, and a query more, are told.
    machine.edit("tools/rooms.json", "that something in a meeting room", "when something in a meeting room")
    machine.edit("queries.csv", r"\Z", "new,Where can I sit with six people?,find_free_room,,rooms\n")
    body = run(0, "pass")
    assert "rooms/report_defect" in body
    assert "1 query is new" in body
    machine.worsen()
    assert "tickets/create_ticket" in run(1, "regression")
    assert "::error" in said
    machine.edit("gate.toml", "catalogue = .*", "")
    # pip takes two commits of one version for the same.
    body = run(9, "not comparable", BENCH=str(machine.wheel_of_another_commit()))
    assert "the tools differ" in body
    assert len(list((tmp_path / "python").glob("lib/*/site-packages/bench/another.txt"))) == 1
    # The home has what can be made again, and no dataset that another job could replace.
    assert not (tmp_path / "home" / ".local").exists()


def test_the_job_of_gitlab_passes_and_fails_on_a_worsened_description(
    machine: Machine, server: Comments, tmp_path: Path
) -> None:
    pipeline = machine.from_here((machine.folder / ".gitlab-ci.yml").read_text())
    job, commenting = pipeline["tool-search"], pipeline["tool-search-comment"]
    assert job["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "merge_request_event"'}]
    variables = {**machine.variables, **server.of_gitlab(), **pipeline["variables"]}
    (passed,) = run_gitlab(job, machine.folder, variables)
    assert passed.code == 0, passed.said
    # The job with the token gets nothing of the request but the report.
    assert commenting["variables"] == {"GIT_STRATEGY": "none"}
    assert (commenting["needs"], job["artifacts"]["paths"]) == (["tool-search"], ["bench-gate.md"])
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(machine.folder / "bench-gate.md", empty)
    (wrote,) = run_gitlab(commenting, empty, variables)
    assert wrote.code == 0, wrote.said
    assert [body.splitlines()[2] for body in server.bodies()] == ["## Gate: pass"]
    # What is kept for the next job is below the clone, as GitLab wants it.
    assert all((machine.folder / place).exists() for place in job["cache"]["paths"])
    report = machine.folder / job["artifacts"]["reports"]["junit"]
    assert 'failures="0"' in report.read_text()
    # The next job finds the dataset, the results and the installation of this one.
    assert not (tmp_path / "home" / ".local").exists()
    machine.worsen()
    # Without a token for comments, the gate is the same.
    del variables["COMMENT_TOKEN"]
    (failed,) = run_gitlab(job, machine.folder, variables)
    assert failed.code == 1, failed.said
    assert 'failures="1"' in report.read_text()
    (refused,) = run_gitlab(commenting, empty, variables)
    assert (refused.code != 0, commenting["allow_failure"]) == (True, True)
    assert "COMMENT_TOKEN: needs a project access token" in refused.said
    assert [body.splitlines()[2] for body in server.bodies()] == ["## Gate: pass"]
    machine.edit("gate.toml", "catalogue = .*", "")
    (forbidden,) = run_gitlab(job, machine.folder, variables)
    assert forbidden.code == 9, forbidden.said
    # Nothing but inconclusive may be let through, in any of the recipes.
    recipes = [*(block for block in BLOCKS if isinstance(block, dict)), pipeline]
    jobs = [one for block in recipes for one in block.values() if isinstance(one, dict) and "--policy" in str(one)]
    assert [one["allow_failure"] for one in jobs if "allow_failure" in one] == [{"exit_codes": [2]}]


def test_the_guides_step_on_github_runs_the_action_on_a_folder_of_a_repository(machine: Machine) -> None:
    (workflow,) = [block for block in BLOCKS if isinstance(block, dict) and "jobs" in block]
    check_split(workflow)
    step, commenting = (
        step for job in workflow["jobs"].values() for step in job["steps"] if "bench" in step.get("uses", "")
    )
    # The clone holds the example in the folder that the guide names.
    inputs = {name: str(value) for name, value in step["with"].items()}
    place = machine.folder.parent / "root" / inputs["working-directory"]
    shutil.move(machine.folder, place)
    machine.folder = place
    assert commenting["with"] == {"token": "${{ github.token }}"}
    contexts = {"github.action_path": str(machine.wheel)}

    def run(**change: str) -> GitHubJob:
        job = GitHubJob(place.parent, machine.variables, inputs | change, contexts)
        return run_action(ACTION, job)

    passed = run()
    assert [(done.name, done.code) for done in passed.done] == [
        ("Prepare", 0),
        ("Install bench", 0),
        ("Import", 0),
        ("Run", 0),
        ("Gate", 0),
    ], passed.done[-1].said
    assert passed.outputs["exit-code"] == "0"
    assert (place / "bench-gate.xml").is_file()
    machine.worsen()
    failed = run()
    assert failed.done[-1].code == 1
    assert failed.outputs["exit-code"] == "1"
    # Another policy, and a dataset whose tools are not there.
    (place / "fixed.toml").write_text((place / "gate.toml").read_text().replace("may change", "must agree"))
    assert run(policy="fixed.toml").outputs["exit-code"] == "9"
    (place / "strict.toml").write_text("nonsense = 3\n")
    assert run(policy="strict.toml").outputs["exit-code"] == "3"
    broken = run(tools="no-such-folder")
    assert [done.name for done in broken.done if done.code] == ["Import"]
    assert "no-such-folder" in broken.done[-1].said


def test_the_hooks_of_pre_commit_stop_a_worsened_description(machine: Machine, tmp_path: Path) -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    # The keys that pre-commit needs of a hook, and what of them a Python hook may have.
    for hook in hooks.values():
        assert (
            {"id", "name", "entry", "language"}
            <= hook.keys()
            <= {
                *("id", "name", "description", "entry", "language", "pass_filenames", "files"),
            }
        )
        assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    (written,) = [block for block in BLOCKS if isinstance(block, dict) and "repos" in block]
    (repository,) = written["repos"]
    # As pre-commit does: one environment for all hooks of a repository, and `entry` and `args` without a shell.
    installed = subprocess.run(
        ["pip", "install", str(machine.wheel)], env=machine.variables, capture_output=True, text=True
    )
    assert installed.returncode == 0, installed.stdout + installed.stderr
    where = ["python", "-c", "import bench, sys; print(bench.__file__.startswith(sys.prefix))"]
    said = subprocess.run(where, cwd=tmp_path, env=machine.variables, capture_output=True, text=True)
    assert said.stdout == "True\n"

    def commit() -> list[int]:
        codes = []
        for used in repository["hooks"]:
            command = [*hooks[used["id"]]["entry"].split(), *used["args"]]
            program = shutil.which(command[0], path=machine.variables["PATH"])
            assert program is not None
            done = subprocess.run(
                [program, *command[1:]], cwd=machine.folder, env=machine.variables, capture_output=True, text=True
            )
            codes.append(done.returncode)
        return codes

    assert commit() == [0, 0, 0]
    machine.worsen()
    assert commit() == [0, 0, 1]
