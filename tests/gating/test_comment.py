"""The jobs of `bench init` and of the action that write a gate's report as a comment, run against a server here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.commands import write_example
from kit.comments import COMMIT, TOKEN, Comments, comments
from kit.jobs import GitHubJob, run_gitlab

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
MARKER = "<!-- bench gate 0123456789abcdef -->"
OTHER = "<!-- bench gate fedcba9876543210 -->"

Write = Callable[..., int]


def github_step(tmp_path: Path) -> dict[str, Any]:
    """The step of the workflow."""
    write_example(tmp_path / "example")
    workflow = yaml.safe_load((tmp_path / "example/.github/workflows/tool-search.yml").read_text())
    step: dict[str, Any] = workflow["jobs"]["comment"]["steps"][-1]
    return step


@pytest.fixture(params=["github", "gitlab"])
def host(request: pytest.FixtureRequest) -> str:
    """A host whose program is on this machine."""
    if shutil.which({"github": "gh", "gitlab": "curl"}[request.param]) is None:
        pytest.skip(f"the program that comments on {request.param} is not here")
    return str(request.param)


@pytest.fixture
def server(host: str, tmp_path: Path) -> Iterator[Comments]:
    """A server of comments, as each host has it."""
    with comments(tmp_path / "socket" if host == "github" else None) as server:
        yield server


@pytest.fixture
def write(host: str, server: Comments, tmp_path: Path) -> Write:
    """Run the job with a report; returns its exit code."""
    folder = tmp_path / "job" / "workspace"
    folder.mkdir(parents=True)
    (tmp_path / "gh").mkdir()
    (tmp_path / "gh" / "config.yml").write_text(f"http_unix_socket: {tmp_path / 'socket'}\n")
    step = github_step(tmp_path)
    gitlab = yaml.safe_load((tmp_path / "example/.gitlab-ci.yml").read_text())["tool-search-comment"]
    contexts = {
        "github.token": TOKEN,
        "github.repository": "owner/name",
        "github.event.pull_request.number": "7",
        "github.event.pull_request.head.sha": COMMIT,
    }

    def write(report: str, **change: str) -> int:
        (folder / "bench-gate.md").write_text(report)
        if host == "github":
            job = GitHubJob(folder, {**os.environ, "GH_CONFIG_DIR": str(tmp_path / "gh")}, contexts=contexts)
            job.run([step])
            done = job.done
        else:
            done = run_gitlab(gitlab, folder, {**os.environ, **server.of_gitlab(), **change})
        assert TOKEN not in done[-1].said
        return done[-1].code

    return write


def test_a_report_becomes_one_comment_that_later_runs_update(server: Comments, write: Write) -> None:
    # A hundred others fill the first page; others wrote the marker, and a comment has no text.
    for _ in range(120):
        server.add("hello")
    for place in (3, 5):
        server.comments[place] |= {"body": f"pass\n{MARKER}", "user": {"login": "other"}, "author": {"id": place}}
    server.comments[4]["body"] = None
    for verdict in ("pass", "regression"):
        assert write(f"## Gate: {verdict}\n\n{MARKER}\n") == 0
        assert len(server.comments) == 121
        # The commit is named: a job that fails before its gate leaves the comment of an earlier one.
        assert server.bodies()[120].rstrip() == f"Commit {COMMIT}\n\n## Gate: {verdict}\n\n{MARKER}"
    assert [server.bodies()[place] for place in (3, 5)] == [f"pass\n{MARKER}"] * 2
    # Another gate has a comment of its own.
    assert write(f"## Gate: pass\n\n{OTHER}\n") == 0
    assert len(server.comments) == 122


@pytest.mark.parametrize("end", ["", "hello", MARKER.upper(), f"{MARKER} -->", f"x {MARKER}"])
def test_a_report_that_is_none_is_not_written(server: Comments, write: Write, end: str) -> None:
    server.add("hello")
    assert write(f"## Gate: pass\n\n{end}\n") != 0
    assert server.bodies() == ["hello"]


def test_what_cannot_be_written_fails_the_job(server: Comments, write: Write) -> None:
    server.refused = 403
    assert write(f"## Gate: pass\n\n{MARKER}\n") != 0
    assert server.comments == []


@pytest.mark.parametrize("host", ["gitlab"])
def test_the_commit_is_that_of_the_branch_and_a_missing_token_is_named(server: Comments, write: Write) -> None:
    # The commit of a pipeline for merged results is on no branch.
    assert write(f"## Gate: pass\n\n{MARKER}\n", CI_MERGE_REQUEST_SOURCE_BRANCH_SHA="5eed") == 0
    assert server.bodies()[0].startswith("Commit 5eed\n")
    assert write(f"## Gate: pass\n\n{MARKER}\n", COMMENT_TOKEN="") != 0


def test_the_workflow_and_the_action_comment_alike(tmp_path: Path) -> None:
    step = github_step(tmp_path)
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"][-1]
    assert action.pop("if") == "inputs.token != ''"
    assert action["env"].pop("GH_TOKEN") == "${{ inputs.token }}"
    assert action["env"].pop("REPORT") == "${{ runner.temp }}/bench-gate.md"
    assert step["env"].pop("GH_TOKEN") == "${{ github.token }}"
    assert step["env"].pop("REPORT") == "bench-gate.md"
    assert action == step
    assert "${{" not in step["run"]
    assert subprocess.run(["bash", "-n", "-c", step["run"]], check=False).returncode == 0
