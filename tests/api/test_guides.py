"""What guides show and name is so: reports of commands, messages of the code, metrics and methods."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.pages import DOCS, assert_shown, blocks

from bench.__main__ import run
from bench.metrics import parse_metric
from bench.registry import method_names

ROOT = DOCS.parent


def first_cells(page: str) -> list[str]:
    """The first cells of the rows of a page's tables, without their heads."""
    text = (DOCS / page).read_text("utf-8")
    rows = re.findall(r"^\| (.*?) \|.*\n(?!\|---)", text, re.MULTILINE)
    return [row for row in rows if not row.startswith("---")]


def templates(node: ast.AST) -> Iterator[str]:
    """The strings of a module, with `…` for each value that is filled in."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from templates(child)


@pytest.fixture(scope="module")
def strings() -> str:
    """All strings of the code, one a line."""
    found = (
        text for path in sorted((ROOT / "bench").rglob("*.py")) for text in templates(ast.parse(path.read_bytes()))
    )
    return "\n".join(" ".join(text.split()) for text in found)


def test_the_code_has_every_message_of_troubleshooting(strings: str) -> None:
    messages = [cell.strip("`") for cell in first_cells("troubleshooting.md")]
    assert len(messages) > 20
    for message in messages:
        pattern = ".*".join(re.escape(part.strip()) for part in message.split("…"))
        assert re.search(pattern, strings), message


def test_metrics_of_the_guide_are_metrics() -> None:
    text = (DOCS / "choose-a-metric.md").read_text("utf-8")
    rows = re.findall(r"^\| .*? \| (`.*?) \|", text, re.MULTILINE)
    names = re.findall(r"`([^`]+)`", " ".join(rows))
    assert len(names) > 12
    for name in names:
        parse_metric(name.replace("@k", "@5"))


def test_methods_of_the_guide_are_methods() -> None:
    text = (DOCS / "choose-a-method.md").read_text("utf-8")
    names = re.findall(r"`([a-z0-9-]+)(?:\([^`]*\))?`", re.sub(r"extra `\w+`", "", text))
    assert len(names) > 25
    assert set(names) <= set(method_names())


def block_with(page: str, text: str) -> str:
    """The one block of a page that has a text."""
    (found,) = (block for block in blocks(page) if text in block)
    return found


@pytest.mark.usefixtures("isolated", "mirror")
def test_the_report_of_the_gate_is_that_of_the_board_s_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text("".join(f'[[rule]]\nmetric = "{name}"\nmargin = 0.02\n' for name in ("recall@5", "pass@10")))
    words = ["gate", "dense@apibank", "--baseline", str(ROOT / "baselines" / "apibank-tgr.json")]
    assert run([*words, "--policy", str(policy), "--results", str(ROOT / "board" / "results")]) == 2
    assert_shown(block_with("gate.md", "inconclusive  recall@5"), capsys.readouterr().out)


@pytest.mark.usefixtures("isolated", "mirror")
def test_the_report_per_tool_is_that_of_the_board_s_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tools", "bm25@apibank", "--results", str(ROOT / "board" / "results")]) == 0
    assert_shown(block_with("tools.md", "Confused most often"), capsys.readouterr().out)


@pytest.mark.usefixtures("isolated")
def test_the_reports_on_an_edited_tool_are_those_of_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(tmp_path / "example")]) == 0
    monkeypatch.chdir(tmp_path / "example")
    tools = Path("tools/tickets.json")
    Path("edits.json").write_text('{"tickets/create_ticket": "Handles input."}')
    measure = (
        ["data", "import", "desk", "tools", "--queries", "queries.csv", "--replace"],
        "run -m bm25 -d desk".split(),
    )
    for command in (*measure, ["bless", "bm25@desk", "--out", "baseline.json"]):
        assert run(command) == 0
    capsys.readouterr()
    assert run("tools bm25@desk --try edits.json".split()) == 0
    assert_shown(block_with("tools.md", "1 tool edited"), capsys.readouterr().out)
    tools.write_text(re.sub(r"Open a new support ticket.*new ticket\.", "Handles input.", tools.read_text("utf-8")))
    for command in measure:
        assert run(command) == 0
    capsys.readouterr()
    assert run("gate bm25@desk --baseline baseline.json --policy gate.toml".split()) == 1
    assert_shown(block_with("gate.md", "newly failing"), capsys.readouterr().out)
