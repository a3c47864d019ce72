"""`bench data from-traffic`: from a log to queries, a dataset and a result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import trafficlogs as logs
from kit.trafficlogs import ANSWER, HOURS, LETTER, SEARCH

import bench as api
from bench.traces.forms import TRAFFIC_FORMS

Bench = Callable[..., Any]

MAPPED = (
    "3 names of tools were mapped to ids (4 times): post_letter to mail/post_letter (2), places_find to places/find "
    "(1), places_hours to places/hours (1)"
)
SCHEMA = {"type": "object", "properties": {}}
TOOLS = {
    "places": {
        "tools": [
            {"name": "find", "description": "Finds a bakery or another shop.", "inputSchema": SCHEMA},
            {"name": "hours", "description": "Tells when a shop opens.", "inputSchema": SCHEMA},
        ]
    },
    "mail": {"tools": [{"name": "post_letter", "description": "Writes to somebody.", "inputSchema": SCHEMA}]},
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Calls of a conversation, a call of a tool that nobody has, and a line that the disk's end cut."""
    rows = [*logs.chat_log()]
    for text, names in (("Write to bob@example.org, +49 30 1234567", ("post_letter", "think")), ("Think!", ("think",))):
        by_key = {"timestamp": "2026-11-21T10:00:00Z", "messages": [{"role": "user", "content": text}]}
        rows.append({**by_key, "response": logs.chat_answer(*names)})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"mess')
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    return tmp_path / "log.jsonl"


OPTIONS = ("--out", "queries.jsonl", "--search-tool", "find_tools", "--tools", "tools.json")


def test_a_log_becomes_queries_a_dataset_and_a_result(bench: Bench, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.parent)
    said = bench("data", "from-traffic", log, *OPTIONS)
    assert said.out.splitlines() == [
        "wrote queries.jsonl: 3 queries with 3 tools",
        "read: 5 requests in 8 records (8 openai)",
        "masked: 1 e-mail address, 1 long number",
        "called is not the same as right: read them before you use them as gold",
        "next: bench data import NAME SOURCE --queries queries.jsonl --unit gold+group",
    ]
    assert said.err.splitlines() == [
        MAPPED,
        "left out: 1 request: no tool of the catalogue was called",
        "left out: 1 request: no tool was called",
        "'think' is not a known tool (2 requests)",
        "log.jsonl, line 9: it is not JSON from character 2 on",
    ]
    rows = [json.loads(line) for line in Path("queries.jsonl").read_text().splitlines()]
    assert [(row["query"], row["tools"]) for row in rows] == [
        (HOURS, ["places/find", "places/hours"]),
        (LETTER, ["mail/post_letter"]),
        ("Write to [email], [number]", ["mail/post_letter"]),
    ]
    bench("data", "import", "logged", "tools.json", "--queries", "queries.jsonl", "--unit", "gold+group")
    data = api.load_dataset("logged")
    queries = {query.text: query for query in data.queries}
    assert queries[HOURS].searches == (SEARCH,)
    assert queries[LETTER].context == (f"user: {HOURS}", f"assistant: {ANSWER}")
    assert queries[LETTER].group == queries[HOURS].group != ""
    assert {query.origin for query in data.queries} == {"traces"}
    (result,) = bench("run", "-m", "bm25", "-d", "logged", "--json").json
    assert result["metrics"]["n"] == 3
    assert result["metrics"]["metrics"]["recall@5"]["mean"] == 1.0


def test_the_counts_are_there_as_json(bench: Bench, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.parent)
    told = bench("data", "from-traffic", log, *OPTIONS, "--json").json
    assert told == {
        "queries": 3,
        "requests": 5,
        "dropped": {"no tool was called": 1, "no tool of the catalogue was called": 1},
        "loose_calls": 0,
        "from_searches": 0,
        "ambiguous": 0,
        "masked": {"[email]": 1, "[number]": 1},
        "unknown_tools": [{"name": "think", "requests": 2, "near": [], "why": ""}],
        "ambiguous_tools": [],
        "set_aside": [],
        "failed_calls": 0,
        "retries": 0,
        "failed_by_text": 0,
        "records": {"openai": 8},
        "mapped_names": MAPPED,
        "unread": 1,
        "skipped": {"it is not JSON": 1},
        "remarks": [{"place": "log.jsonl, line 9", "remark": "it is not JSON from character 2 on"}],
        "output": "queries.jsonl",
    }
    kept = bench(
        "data", "from-traffic", log, *OPTIONS, "--replace", "--keep-personal-data", "--as", "openai", "--json"
    ).json
    assert (kept["masked"], kept["queries"]) == ({}, 3)
    assert "bob@example.org" in Path("queries.jsonl").read_text()


def test_python_reads_the_same_queries(bench: Bench, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.parent)
    bench("data", "from-traffic", log, *OPTIONS)
    traffic = api.read_traffic(log, search_tools=["find_tools"], tools="tools.json")
    assert isinstance(traffic, api.Traffic)
    assert [json.loads(line) for line in Path("queries.jsonl").read_text().splitlines()] == list(traffic.queries)
    data = api.import_tools("passed", "tools.json", traffic.queries)
    assert len(data.queries) == 3


def test_nothing_is_written_over_or_half(bench: Bench, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.parent)
    Path("queries.jsonl").write_text("mine")
    refused = bench("data", "from-traffic", log, "--out", "queries.jsonl", code=2)
    assert "queries.jsonl exists; name another file, or replace it with --replace." in refused.err
    Path("empty.jsonl").write_text("{}\n")
    for source, code in (("empty.jsonl", 3), ("none.jsonl", 2), (".", 2)):
        bench("data", "from-traffic", source, "--out", "new.jsonl", code=code)
        bench("data", "from-traffic", source, "--out", "queries.jsonl", "--replace", code=code)
    assert Path("queries.jsonl").read_text() == "mine"
    assert "is a folder; name a file" in bench("data", "from-traffic", log, "--out", ".", code=2).err
    assert set(os.listdir()) - {"work"} == {"empty.jsonl", "log.jsonl", "queries.jsonl", "tools.json"}


def test_searches_that_stand_for_requests_are_told(bench: Bench, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.parent)
    calls = [logs.rpc("hello"), logs.rpc("find_tools", {"query": SEARCH}), logs.rpc("hours")]
    log.write_text("".join(json.dumps(call) + "\n" for call in calls))
    said = bench("data", "from-traffic", log, *OPTIONS)
    assert "1 are texts of tool searches, because the log has no request" in said.out
    assert "left out: 1 call for which the logs have no request" in said.err


def test_failures_ambiguous_names_and_what_is_unknown_are_told(
    bench: Bench, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(log.parent)
    Path("tools.json").write_text(json.dumps({**TOOLS, "files": {"tools": [{"name": "find", "inputSchema": SCHEMA}]}}))
    messages: list[Any] = [{"role": "user", "content": HOURS}]
    for number, (name, content) in enumerate([("hours", "Error: no"), ("hours", "7"), ("find", "x"), ("think", "y")]):
        messages.append({"role": "assistant", "tool_calls": [logs.chat_call(name, {}, str(number))]})
        messages.append({"role": "tool", "tool_call_id": str(number), "content": content})
    critic = {"messages": [messages[0], {"role": "critic", "content": "no"}]}
    log.write_text("".join(json.dumps(row) + "\n" for row in [{"messages": messages}, *[critic] * 4]))
    said = bench("data", "from-traffic", log, *OPTIONS)
    assert said.err.splitlines()[1:] == [
        "1 failed call: 1 retry (another call of the tool did not fail), 1 known only by the text of the result",
        "'find' is ambiguous (1 request): files/find, places/find",
        "'think' is not a known tool (1 request)",
        "log.jsonl, line 2: a message of role 'critic'",
        "log.jsonl, line 3: a message of role 'critic'",
        "and 2 more: a message of role 'critic'",
    ]


def test_the_forms_of_the_help_are_all(bench: Bench) -> None:
    assert f"[{'|'.join(TRAFFIC_FORMS)}]" in bench("data", "from-traffic", "--help").out
