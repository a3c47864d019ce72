"""`bench init`, and what its README says, typed line by line."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.searchservice import Request, Service

import bench as api
from bench.example.source import find_source
from bench.example.write import FIRST_COMMAND, write_example
from bench.gating.policy import read_policy

Bench = Callable[..., Any]

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
FILES = {
    ".github/workflows/tool-search.yml",
    ".gitignore",
    ".gitlab-ci.yml",
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
    first, *lines = said.out.splitlines()
    assert first == "wrote 8 files to tool-search: start with README.md, or with"
    assert lines[:2] == ["  cd tool-search", f"  {FIRST_COMMAND}"]
    # Where CI installs bench from, if there is something to do about it.
    note = find_source().note
    assert lines[2:] == ([f"before CI runs: {note}"] if note else [])
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
    measure, worsen, gate, back, again, _ = commands(Path("README.md").read_text())
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
    assert re.search("already has the same evidence|baseline.json replaced", type_lines(again).out)


@pytest.mark.parametrize("number", [0, 1])
def test_a_search_as_the_readme_has_it_sees_an_edited_description(
    bench: Bench, service: Service, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    bench("init", "mine")
    monkeypatch.chdir("mine")
    measure, *_, searches = commands(Path("README.md").read_text().replace("\\\n", ""))
    program = f"{sys.executable} {EXAMPLES / 'search.py'}"
    run = searches[number].replace("http://localhost:8000", service.url.removesuffix("/search"))
    search = shlex.split(run.replace("node search.js", program))[1:]
    words: dict[str, set[str]] = {}

    def answer(request: Request) -> None:
        if request.path == "/tools":
            words.clear()
            words.update({tool["id"]: set(tool["text"].lower().split()) for tool in request.sent["tools"]})
        asked = set(request.sent.get("query", "").lower().split())
        request.reply(sorted(words, key=lambda tool: (-len(asked & words[tool]), tool)))

    service.answer = answer
    load = shlex.split(measure[0])[1:]
    bench(*load)
    bench(*search)
    bench("bless", "search@desk-example", "--out", "baseline.json", "--by", "a person")
    gate = ("gate", "search@desk-example", "--baseline", "baseline.json", "--policy", "gate.toml")
    bench(*gate)
    tools = Path("tools/tickets.json")
    tools.write_text(re.sub(r"Open a new support ticket.*new ticket\.", "Handles input.", tools.read_text()))
    bench(*load, "--replace")
    bench(*search)
    assert "edited tickets/create_ticket: description" in bench(*gate, code=1).out


def test_a_service_with_a_catalogue_of_its_own_has_a_verdict_only_if_the_policy_says_so(
    bench: Bench, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench("init", "mine")
    monkeypatch.chdir("mine")
    service.answer = lambda request: request.reply(["create_ticket", "find_free_room"])
    bench(*shlex.split(FIRST_COMMAND)[1:])
    bench("run", "-d", "desk-example", "--name", "search", "-m", f'http(url="{service.url}")')
    bench("bless", "search@desk-example", "--out", "baseline.json", "--by", "a person")
    gate = ("gate", "search@desk-example", "--baseline", "baseline.json", "--policy", "gate.toml")
    assert "require_tools_given" in bench(*gate, code=3).out
    policy = Path("gate.toml")
    policy.write_text(policy.read_text().replace("require_tools_given = true ", "require_tools_given = false"))
    bench(*gate)


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


def test_both_jobs_type_the_same_commands(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    write_example(tmp_path)
    github = yaml.safe_load((tmp_path / ".github/workflows/tool-search.yml").read_text())
    typed = [step["run"] for step in github["jobs"]["gate"]["steps"] if "run" in step]
    _, _, gate, *_ = commands((tmp_path / "README.md").read_text())
    # A runner may keep its home: what is there of an earlier job is replaced.
    install = 'pip uninstall --yes tool-retrieval-bench && pip install "$BENCH"'
    assert typed == [install, *gate[:2], f'{gate[-1]} --github --out "$RUNNER_TEMP/bench-gate.md"']
    variables, other, _ = yaml.safe_load((tmp_path / ".gitlab-ci.yml").read_text()).values()
    files = '--out "$CI_PROJECT_DIR/gate.xml" --out "$CI_PROJECT_DIR/bench-gate.md"'
    assert other["script"] == ['cd "$FOLDER"', *typed[:3], f"{gate[-1]} {files}"]
    assert github["env"] == {"BENCH": find_source().requirement, "BENCH_DATA": ".bench"}
    assert github["env"].items() <= {**variables, **other["variables"]}.items()
    assert ".bench/" in (tmp_path / ".gitignore").read_text().splitlines()
