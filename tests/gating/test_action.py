"""The GitHub Action: its script run as the workflow would run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "action.yml").read_text("utf-8")
STEPS = ("Install bench", "Gate", "Comment")
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
    assert [step["run"] for step in action["runs"]["steps"]] == [script(step) for step in STEPS]
    # Without a token there is no comment.
    assert action["inputs"]["token"]["default"] == ""
    assert "inputs.token != ''" in action["runs"]["steps"][2]["if"]


@pytest.mark.parametrize("step", STEPS)
def test_no_input_is_pasted_into_a_script(step: str) -> None:
    assert "${{" not in script(step)


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
    first, second = (tmp_path / "work" / "output").read_text().splitlines()
    assert first == f"exit-code={code}"
    report = Path(second.removeprefix("report="))
    assert summary.endswith(report.read_text())
    report.unlink()
    assert (tmp_path / "work" / "out" / "gate.xml").is_file()


def test_a_candidate_s_name_is_never_run_nor_taken_for_an_option(gate_step: Step, tmp_path: Path) -> None:
    for name in ("$(touch planted) `touch planted` ; touch planted", "--help"):
        assert gate_step(name).returncode == 3
    assert not (tmp_path / "work" / "planted").exists()


# The comment --------------------------------------------------------------------------------------------------------

MARKER = "<!-- bench gate 0123456789abcdef -->"


class Issues(BaseHTTPRequestHandler):
    """GitHub's comments of a pull request, as far as the step uses them."""

    comments: ClassVar[list[dict[str, Any]]]
    refused: ClassVar[int]
    asked: ClassVar[list[str]]

    def _answer(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> str:
        body: str = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        return body

    def do_GET(self) -> None:
        self.asked.append(f"GET {self.path}")
        assert self.headers["Authorization"] == "Bearer secret"
        place, _, query = self.path.partition("?")
        assert place == "/repos/owner/name/issues/7/comments"
        page = int(query.partition("page=")[2].rpartition("page=")[2])
        self._answer(200, self.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        self.asked.append(f"POST {self.path}")
        if self.refused:
            self._answer(self.refused, {"message": "Resource not accessible by integration"})
            return
        self.comments.append(comment(len(self.comments), self._body()))
        self._answer(201, self.comments[-1])

    def do_PATCH(self) -> None:
        self.asked.append(f"PATCH {self.path}")
        (result,) = [item for item in self.comments if self.path.endswith(f"/issues/comments/{item['id']}")]
        result["body"] = self._body()
        self._answer(200, result)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def comment(number: int, body: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "body": body, "user": {"type": "Bot"}, "author_association": "NONE", **more}


@pytest.fixture
def comment_step(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run the comment's step against a server on this machine."""
    Issues.comments, Issues.refused, Issues.asked = [], 0, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Issues)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    (tmp_path / "step.sh").write_text(script("Comment"))

    def comment_step(report: str, url: str = "") -> subprocess.CompletedProcess[str]:
        (tmp_path / "report.md").write_text(report)
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TOKEN": "secret",
            "PULL_REQUEST": "7",
            "REPORT": str(tmp_path / "report.md"),
            "GITHUB_REPOSITORY": "owner/name",
            "GITHUB_API_URL": url or f"http://127.0.0.1:{server.server_port}",
        }
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "step.sh"]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    yield comment_step
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_report_becomes_one_comment_that_later_runs_update(comment_step: Step) -> None:
    # A hundred others fill the first page; one of a stranger has the marker.
    Issues.comments = [comment(i, "hello") for i in range(120)]
    Issues.comments[3] |= {"body": f"pass\n{MARKER}", "user": {"type": "User"}, "author_association": "CONTRIBUTOR"}
    for report in (f"## Gate: pass\n\n{MARKER}\n", f"## Gate: regression\n\n{MARKER}\n"):
        done = comment_step(report)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert len(Issues.comments) == 121
        assert Issues.comments[120]["body"] == report.rstrip()
    assert [line.partition(" ")[0] for line in Issues.asked] == ["GET", "GET", "POST", "GET", "GET", "PATCH"]
    assert Issues.comments[3]["body"] == f"pass\n{MARKER}"
    # Another gate has a comment of its own.
    comment_step(f"## Gate: pass\n\n{MARKER.replace('0123', '4567')}\n")
    assert len(Issues.comments) == 122


def test_a_token_that_may_not_write_and_a_server_that_is_gone_leave_a_warning_alone(comment_step: Step) -> None:
    Issues.refused = 403
    done = comment_step(f"## Gate: pass\n\n{MARKER}\n")
    assert done.returncode == 0
    assert done.stdout.startswith("::warning title=bench gate::the comment was not written (HTTPError: HTTP Error 403")
    assert len(done.stdout.splitlines()) == 1
    gone = comment_step(f"## Gate: pass\n\n{MARKER}\n", url="http://127.0.0.1:9")
    assert (gone.returncode, gone.stdout.partition(":: ")[0][:9]) == (0, "::warning")
    assert "secret" not in done.stdout + done.stderr + gone.stdout + gone.stderr
