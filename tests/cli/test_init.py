"""`bench init`, and what its README says, typed line by line."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

import bench as api
from bench.gating.example import FIRST_COMMAND, write_example
from bench.gating.policy import read_policy

Bench = Callable[..., Any]

FILES = {
    ".github/workflows/tool-search.yml",
    ".gitignore",
    "README.md",
    "gate.toml",
    "queries.csv",
    "tools/rooms.json",
    "tools/tickets.json",
}


def commands(readme: str) -> list[list[str]]:
    """The lines of each fenced block."""
    return [block.strip().splitlines() for block in re.findall(r"^```\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)]


def test_it_asks_nothing_and_says_the_next_command(bench: Bench) -> None:
    said = bench("init")
    assert (
        said.out
        == f"wrote 7 files to tool-search: start with README.md, or with\n  cd tool-search\n  {FIRST_COMMAND}\n"
    )
    written = {str(path.relative_to("tool-search")) for path in Path("tool-search").rglob("*") if path.is_file()}
    assert written == FILES
    # In a folder that is there, too.
    Path("here").mkdir()
    os.chdir("here")
    assert "cd " not in bench("init", ".").out


@pytest.mark.parametrize("there", sorted(FILES))
def test_nothing_is_overwritten_and_nothing_is_half_written(bench: Bench, there: str) -> None:
    path = Path("mine") / there
    path.parent.mkdir(parents=True)
    # A link that leads nowhere is a file that is there.
    path.symlink_to("nowhere")
    assert f"mine/{there} already exists, and nothing was written" in bench("init", "mine", code=2).err
    assert [item for item in Path("mine").rglob("*") if not item.is_dir()] == [path]


def test_a_folder_that_cannot_be_written_keeps_nothing_of_it(bench: Bench) -> None:
    Path("mine").mkdir()
    # Where a folder is needed.
    Path("mine/.github").write_text("a file")
    assert "a part of the path is a file" in bench("init", "mine", code=7).err
    assert [path for path in Path("mine").rglob("*") if path.is_file()] == [Path("mine/.github")]


def test_the_readme_leads_to_a_gate_that_fails_and_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench("init", "mine")
    monkeypatch.chdir("mine")
    measure, worsen, gate, back, again = commands(Path("README.md").read_text())
    assert measure[0] == FIRST_COMMAND

    def type_lines(lines: list[str], code: int = 0) -> Any:
        """What the last line says; it alone may fail."""
        said = None
        for line in lines:
            if line.startswith("bench "):
                said = bench(*shlex.split(line)[1:], code=code if line is lines[-1] else 0)
            else:
                subprocess.run(["bash", "-c", line], check=True)
        return said

    type_lines(measure)
    type_lines(worsen)
    said = type_lines(gate, code=1).out
    assert "edited tickets/create_ticket: description" in said
    assert "open-2  Open a support ticket" in said
    assert "tickets/create_ticket: rank 1 to" in said
    assert "regression: a rule is violated (exit code 1)" in said
    assert "pass: every rule holds" in type_lines(back).out
    # Blessed again, the same evidence stays, but for how long it took.
    assert re.search("has the same evidence already|baseline.json replaced", type_lines(again).out)


def test_the_example_has_what_queries_can_have_and_answers_most_of_it(bench: Bench) -> None:
    bench("init", "mine")
    bench("data", "import", "example", "mine/tools", "--queries", "mine/queries.csv")
    data = api.load_dataset("example")
    assert 12 <= len(data.tools) <= 20
    assert len({tool.parent for tool in data.tools}) == 2
    assert len(data.queries) >= 20
    for part in ("any_of", "forbidden", "slices"):
        assert any(getattr(query, part) for query in data.queries), part
    assert sum(not query.gold for query in data.queries) >= 2
    # Each tool is needed by some query, so that a worsened description shows.
    assert {tool for query in data.queries for tool in query.meeting} == {tool.tool_id for tool in data.tools}
    findings = {row["check"]: row["count"] for row in bench("data", "audit", "example", "--json").json["findings"]}
    defects = (
        "empty-description",
        "duplicate-description",
        "shared-name",
        "never-gold",
        "unknown-gold",
        "duplicate-query",
    )
    assert {check: findings[check] for check in defects} == dict.fromkeys(defects, 0)
    for path in Path("mine/tools").iterdir():
        for tool in json.loads(path.read_text())["tools"]:
            assert len(tool["description"]) > 40
    assert read_policy(Path("mine/gate.toml")).catalogue == "may change"


def test_the_workflow_types_the_same_commands(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    write_example(tmp_path)
    (job,) = yaml.safe_load((tmp_path / ".github/workflows/tool-search.yml").read_text())["jobs"].values()
    typed = [step["run"] for step in job["steps"] if "run" in step]
    assert typed[0] == f"pip install tool-retrieval-bench=={api.__version__}"
    measure, _, gate, *_ = commands((tmp_path / "README.md").read_text())
    assert typed[1:3] == measure[:2]
    assert typed[3] == f"{gate[-1]} --markdown comment.md --github"


GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "gate.md").read_text("utf-8")


def test_the_one_line_jobs_of_the_guide_do_what_they_say(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = pytest.importorskip("yaml")
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)]
    (github,) = [block[0]["run"] for block in blocks if isinstance(block, list)]
    jobs = [block["gate"] for block in blocks if isinstance(block, dict) and "gate" in block]
    (gitlab,) = [job["script"] for job in jobs if isinstance(job["script"], str)]
    bench("init", "mine")
    monkeypatch.chdir("mine")
    bench("data", "import", "desk", "tools", "--queries", "queries.csv")
    bench("run", "-q", "-m", "bm25", "-d", "desk")
    bench("bless", "bm25@desk", "--out", "baseline.json", "--by", "a person")
    for number, line in enumerate((github, gitlab)):
        install, *commands = line.split(" && ")
        assert install == "pip install tool-retrieval-bench"
        # As on a fresh machine.
        monkeypatch.setenv("BENCH_DATA", f"data-{number}")
        monkeypatch.setenv("BENCH_RESULTS", f"results-{number}")
        for command in commands:
            said = bench(*shlex.split(command)[1:])
        assert "pass: every rule holds" in said.out
    assert Path("gate.md").read_text().startswith("## Gate: pass")


def test_the_note_on_gitlab_is_posted_with_the_report(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    safe_loads = [
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    ]
    (line,) = next(block["after_script"] for block in safe_loads if isinstance(block, dict) and "after_script" in block)
    received: list[tuple[str, str | None, str]] = []

    class Notes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            received.append((self.path, self.headers["PRIVATE-TOKEN"], parse_qs(body)["body"][0]))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    (tmp_path / "gate.md").write_text("## Gate: pass & more\n")
    with HTTPServer(("127.0.0.1", 0), Notes) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        variables = {"COMMENT_TOKEN": "t", "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "4"}
        url = f"http://127.0.0.1:{server.server_port}/api/v4"
        environment = {**os.environ, **variables, "CI_API_V4_URL": url, "no_proxy": "*"}
        subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, check=True, timeout=60)
        thread.join()
    assert received == [("/api/v4/projects/3/merge_requests/4/notes", "t", "## Gate: pass & more\n")]
