"""One log of each framework and host, in the fields that its own documentation gives, and the gold of each.

In each, somebody has a file read and another one written. On the way, calls fail (`stat` always, `read` once), tools
are searched for, the host searches the web, and agents hand over. The files are written by hand in `logs/`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from bench.traces.forms import TrafficForm
from bench.traces.roles import ANSWER, BUILT_IN, FAILED, HANDOFF, SEARCH, UNNAMED
from bench.traces.traces import read_traffic

LOGS = Path(__file__).parent / "logs"
OPEN, SAVE = "Open notes.txt and read it to me", "Save this as todo.txt"
BOTH = [["read"], ["write"]]

#: file -> form, tools of the two requests, searches, and names that are no gold.
FORMS: dict[str, tuple[TrafficForm, list[list[str]], list[str], dict[str, str]]] = {
    "openai-chat.json": ("openai", BOTH, [], {"stat": FAILED, "transfer_to_file_agent": HANDOFF}),
    "openai-responses.jsonl": (
        "openai",
        [["files/read"], ["files/write"]],
        ["write a file"],
        {"tool_search": SEARCH, "web_search": BUILT_IN, "code_interpreter": BUILT_IN, "drive/upload": FAILED},
    ),
    "openai-agents.jsonl": ("agents", BOTH, [], {"stat": FAILED, "transfer_to_file_agent": HANDOFF}),
    "anthropic.jsonl": (
        "openai",
        [["read"], ["files/write"]],
        ["read|file", "write a file"],
        {"tool_search_tool_regex": SEARCH, "find_capability": SEARCH, "web_search": BUILT_IN, "stat": FAILED},
    ),
    "claude-code.jsonl": (
        "agents",
        BOTH,
        ["read a file", "write a file"],
        {"ToolSearch": SEARCH, "find_capability": SEARCH, "stat": FAILED},
    ),
    "gemini.json": ("openai", BOTH, [], {"stat": FAILED}),
    "langgraph-history.json": ("openai", BOTH, [], {"stat": FAILED, "transfer_to_file_agent": HANDOFF}),
    "langchain-events.jsonl": ("langsmith", [["read"]], [], {"stat": FAILED}),
    "llamaindex-messages.json": ("openai", BOTH, [], {"handoff": HANDOFF}),
    "llamaindex-events.jsonl": ("agents", BOTH, [], {"stat": FAILED}),
    "pydantic-ai.json": (
        "openai",
        BOTH,
        ["read a file"],
        {"search_tools": SEARCH, "web_search": BUILT_IN, "final_result": ANSWER, "stat": FAILED},
    ),
    "pydantic-ai-spans.jsonl": ("otel", BOTH, [], {"web_search": BUILT_IN}),
    "koog.jsonl": ("otel", BOTH, [], {"stat": FAILED}),
    "otel-genai.jsonl": (
        "otel",
        [["mcp__files__read"], ["write"]],
        [],
        {"call_tool": UNNAMED, "mcp__files__stat": FAILED, "web_search": BUILT_IN},
    ),
    "langfuse.json": ("langfuse", BOTH, [], {"stat": FAILED}),
    "langsmith.jsonl": ("langsmith", BOTH, [], {"stat": FAILED}),
    "phoenix-spans.json": ("otel", BOTH, [], {"stat": FAILED}),
    "phoenix-rows.jsonl": ("otel", BOTH, [], {}),
}


def test_each_log_has_its_gold() -> None:
    assert {path.name for path in LOGS.iterdir()} == set(FORMS)


@pytest.mark.parametrize("name", FORMS)
def test_the_gold_of_a_log(name: str) -> None:
    form, tools, searches, aside = FORMS[name]
    traffic = read_traffic(LOGS / name)
    assert [(row["query"], row["tools"]) for row in traffic.queries] == list(zip((OPEN, SAVE), tools, strict=False))
    assert [text for row in traffic.queries for text in row.get("searches", ())] == searches
    assert {each.name: each.why for each in traffic.set_aside} == aside
    assert {each.requests for each in traffic.set_aside} <= {1, 2}
    assert set(traffic.records) == {form}
    # The first line of a transcript is its title.
    assert (traffic.unread, traffic.loose_calls) == (int(name == "claude-code.jsonl"), 0)
    # What Koog was told to hide is no text; nothing else is left out.
    assert traffic.dropped == ({"the request has no text": 1} if name == "koog.jsonl" else {})


@pytest.mark.parametrize("name", FORMS)
def test_a_catalogue_gives_the_tools_their_ids(name: str, tmp_path: Path) -> None:
    tool = {"description": "d", "inputSchema": {"type": "object"}}
    names = ("read", "write", "stat", "upload")
    (tmp_path / "tools.json").write_text(json.dumps({"files": {"tools": [{"name": each, **tool} for each in names]}}))
    traffic = read_traffic(LOGS / name, tools=tmp_path / "tools.json")
    assert [row["tools"] for row in traffic.queries] == [["files/read"], ["files/write"]][: len(traffic.queries)]
    assert traffic.queries
    assert traffic.unknown_tools == ()


@pytest.mark.parametrize("name", [name for name, (form, *_) in FORMS.items() if form == "otel"])
def test_spans_come_in_any_order(name: str, tmp_path: Path) -> None:
    generator = random.Random(7)
    text = (LOGS / name).read_text()
    rows: list[Any] = json.loads(text)["data"] if name.endswith(".json") else list(map(json.loads, text.splitlines()))
    for row in rows:
        for scope in [scope for group in row.get("resourceSpans", ()) for scope in group["scopeSpans"]]:
            generator.shuffle(scope["spans"])
    generator.shuffle(rows)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row["tools"] for row in read_traffic(tmp_path / "log.jsonl").queries] == FORMS[name][1]
