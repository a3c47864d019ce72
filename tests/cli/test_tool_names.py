"""Names as a gateway writes them, at every door: queries, live answers, run files, search functions and the gate."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from bench.base.errors import MethodError, UnresolvedError
from bench.data.dataset import Dataset
from bench.gating.baseline import read_baseline
from bench.gating.search_function import ask_search
from bench.registry import load_dataset

Bench = Callable[..., Any]

SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}
TOOLS = {
    server: {"tools": [{"name": name, "description": text, "inputSchema": SCHEMA} for name, text in tools.items()]}
    for server, tools in {
        "fs": {"read": "Reads a file.", "write": "Writes a file."},
        "mail": {"read": "Reads a message.", "send": "Sends a message."},
    }.items()
}
QUERIES = "query,tools\nopen it,fs:read\nsave it,fs__write\ntell Ann,mcp__mail__send\nwhat did Bob write,mail.read\n"
ANSWERS = {
    "open it": ["mcp__fs__read", "fs__write"],
    "save it": ["fs.write", "fs.read"],
    "tell Ann": ["mail:send"],
    "what did Bob write": ["mail/read"],
}
PROGRAM = """
import json, os, sys
answers = json.load(open(sys.argv[1]))
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], "tools": answers[asked["query"]]}), flush=True)
"""


@pytest.fixture
def gateway(bench: Bench) -> str:
    """A dataset whose queries name tools as gateways do, and a program that answers with `answers.json`."""
    Path("tools.json").write_text(json.dumps(TOOLS))
    Path("queries.csv").write_text(QUERIES)
    Path("program.py").write_text(PROGRAM)
    Path("answers.json").write_text(json.dumps(ANSWERS))
    said = bench("data", "import", "gateway", "tools.json", "--queries", "queries.csv")
    assert said.err.startswith("queries.csv: 4 names of tools were mapped to ids (4 times): fs:read to fs/read (1), ")
    return f'command(run="{sys.executable} program.py answers.json")'


def test_queries_are_read_and_the_dataset_keeps_how(bench: Bench, gateway: str) -> None:
    dataset = load_dataset("gateway")
    assert [list(query.gold) for query in dataset.queries] == [["fs/read"], ["fs/write"], ["mail/send"], ["mail/read"]]
    (issue,) = dataset.card.known_issues
    assert issue.startswith("Of the queries: 4 names of tools were mapped to ids (4 times): fs:read to fs/read (1)")
    # With ids there is nothing to say.
    Path("queries.csv").write_text("query,tools\nopen it,fs/read\n")
    assert bench("data", "import", "exact", "tools.json", "--queries", "queries.csv").err == ""


def test_answers_of_a_program_find_their_tools(bench: Bench, gateway: str) -> None:
    said = bench("run", "-m", gateway, "-d", "gateway")
    assert "5 names of tools were mapped to ids (5 times): " in said.err
    assert said.err.count("mapped") == 1
    (result,) = bench("run", "-m", gateway, "-d", "gateway", "--json").json
    assert result["metrics"]["metrics"]["recall@5"]["mean"] == 1
    assert result["metrics"]["n_failed"] == 0
    assert str(result["manifest"]["facts"]["mapped_names"]).startswith(
        "5 names of tools were mapped to ids (5 times): "
    )


def test_exact_answers_say_nothing(bench: Bench, gateway: str) -> None:
    Path("answers.json").write_text(json.dumps({query: ["fs/read"] for query in ANSWERS}))
    said = bench("run", "-m", gateway, "-d", "gateway", "--json")
    assert "mapped" not in said.err
    assert not said.json[0]["manifest"]["facts"].keys() & {"mapped_names", "unknown_names"}


def test_a_name_that_means_nothing_fails_its_query_only(bench: Bench, gateway: str) -> None:
    Path("answers.json").write_text(json.dumps({**ANSWERS, "tell Ann": ["mail:sned"]}))
    (result,) = bench("run", "-m", gateway, "-d", "gateway", "--json").json
    assert result["metrics"]["n_failed"] == 1
    (reason,) = result["failures"]
    assert reason["text"].startswith("unknown names: there is no tool 'mail:sned' (near: mail/send")


def test_a_tool_twice_under_two_names_is_a_tool_twice(bench: Bench, gateway: str) -> None:
    Path("answers.json").write_text(json.dumps({**ANSWERS, "tell Ann": ["mail:send", "mcp__mail__send"]}))
    (result,) = bench("run", "-m", gateway, "-d", "gateway", "--json").json
    assert result["metrics"]["n_failed"] == 1
    (reason,) = result["failures"]
    assert (reason["text"], reason["count"]) == ("the tool 'mail:send' twice", 1)


def test_a_run_in_which_no_name_means_a_tool_is_not_stored(bench: Bench, gateway: str) -> None:
    strange = {query: ["drive:raed", "drive:wirte"] for query in ANSWERS}
    Path("answers.json").write_text(json.dumps(strange))
    for _ in range(2):  # nothing is left of the first
        refused = bench("run", "-m", gateway, "-d", "gateway", code=8)
        assert "is a known tool of gateway: there is no tool 'drive:raed'" in refused.err
        assert "'drive:wirte'" in refused.err
    assert not list(Path("results").glob("**/manifest.json"))
    assert not list(Path("results").glob("**/from-*.npz"))
    # The same command asks again when the program is mended.
    Path("answers.json").write_text(json.dumps(ANSWERS))
    (result,) = bench("run", "-m", gateway, "-d", "gateway", "--json").json
    assert result["metrics"]["metrics"]["recall@5"]["mean"] == 1


def test_a_long_run_ends_when_no_name_has_meant_a_tool(bench: Bench) -> None:
    Path("all.py").write_text(PROGRAM.replace('answers[asked["query"]]', '["drive:raed"]'))
    Path("answers.json").write_text("{}")
    program = f'command(run="{sys.executable} all.py answers.json")'
    refused = bench("run", "-m", program, "-d", "starter", code=8)
    assert "no name in the answers of " in refused.err
    assert not list(Path("results").glob("**/from-*.npz"))


def test_a_run_without_any_name_is_a_result(bench: Bench, gateway: str) -> None:
    Path("answers.json").write_text(json.dumps({query: [] for query in ANSWERS}))
    (result,) = bench("run", "-m", gateway, "-d", "gateway", "--json").json
    assert result["metrics"]["metrics"]["recall@5"]["mean"] == 0


@pytest.mark.parametrize("form", ["jsonl", "trec"])
def test_a_run_file_is_scored_by_the_names_of_a_gateway(bench: Bench, gateway: str, form: str) -> None:
    lines = [
        json.dumps({"query_id": f"q{n}", "tools": tools}) if form == "jsonl"
        else "\n".join(f"q{n} Q0 {tool} 1 {-rank} x" for rank, tool in enumerate(tools))
        for n, tools in enumerate(ANSWERS.values(), start=1)
    ]  # fmt: skip
    Path("run.txt").write_text("\n".join(lines))
    said = bench("score", "run.txt", "-d", "gateway", "--json")
    assert said.json["metrics"]["metrics"]["recall@5"]["mean"] == 1
    assert said.err.startswith("run @ gateway: 5 names of tools were mapped to ids (5 times): ")
    assert said.json["manifest"]["facts"]["mapped_names"] in said.err
    # One that means nothing: an error that names it, and the nearest.
    Path("run.txt").write_text("\n".join(lines).replace("mail:send", "mail:sned"))
    refused = bench("score", "run.txt", "-d", "gateway", code=6)
    assert "there is no tool 'mail:sned' (near: mail/send" in refused.err
    # A tool under two names is there twice.
    Path("run.txt").write_text("\n".join(lines).replace("fs__write", "fs-read"))
    assert "occurs twice" in bench("score", "run.txt", "-d", "gateway", code=6).err
    # None that means anything: an exit code of its own.
    for name in ("fs", "mail"):
        lines = [line.replace(name, "drive") for line in lines]
    Path("run.txt").write_text("\n".join(lines))
    refused = bench("score", "run.txt", "-d", "gateway", "--results", "other", code=8)
    assert "no name in run.txt is a known tool of gateway: there is no tool 'mcp__drive__read'" in refused.err
    assert refused.err.count("there is no tool") == 3
    assert not Path("other").exists()


def test_a_search_function_may_use_the_names_of_a_gateway(
    bench: Bench, gateway: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path.cwd()))
    text = "ANSWERS = {!r}\n\ndef search(query):\n    return ANSWERS[query]\n"
    Path("gatewaysearch.py").write_text(text.format(ANSWERS))
    (result,) = bench("run", "-m", "gatewaysearch:search", "-d", "gateway", "--json").json
    assert result["metrics"]["metrics"]["recall@5"]["mean"] == 1
    assert str(result["manifest"]["facts"]["mapped_names"]).startswith("5 names")
    strange = dedent(text).format({query: ["drive:read"] for query in ANSWERS})
    Path("strangesearch.py").write_text(strange)
    refused = bench("run", "-m", "strangesearch:search", "-d", "gateway", code=8)
    assert "before any name meant a tool: there is no tool 'drive:read'" in refused.err


def test_the_gate_reads_the_same_names(starter_baseline: Path) -> None:
    dataset: Dataset = load_dataset("starter")
    baseline = read_baseline(starter_baseline)
    names = [tool.tool_id.replace(".", "__") for tool in dataset.tools[:2]]
    candidate = ask_search(lambda query: [f"mcp__{name}" for name in names], dataset, baseline)
    assert candidate.names.startswith("2 names of tools were mapped to ids")
    assert candidate.run is not None
    assert set(candidate.run["tool_id"].to_pylist()) == {tool.tool_id for tool in dataset.tools[:2]}
    with pytest.raises(MethodError, match="twice"):
        ask_search(lambda query: [names[0], f"mcp__{names[0]}"], dataset, baseline)
    with pytest.raises(UnresolvedError, match="there is no tool 'nowhere'"):
        ask_search(lambda query: ["nowhere"], dataset, baseline)
    answers = iter([[names[0]], ["nowhere"]])
    with pytest.raises(MethodError) as caught:
        ask_search(lambda query: next(answers), dataset, baseline)
    assert not isinstance(caught.value, UnresolvedError)
