"""One conversation in every form of log gives the same queries."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import trafficlogs as logs
from kit.trafficlogs import ANSWER, HOURS, LETTER, SEARCH

from bench.base.errors import DataError
from bench.traces.traces import Traffic, read_traffic

Log = Callable[[], list[dict[str, Any]]]


def written(folder: Path, rows: list[Any], name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(folder: Path, rows: list[Any], **more: Any) -> Traffic:
    return read_traffic(written(folder, rows), **{"search_tools": ["find_tools"], **more})


def gold(traffic: Traffic) -> list[tuple[str, list[str]]]:
    return [(row["query"], row["tools"]) for row in traffic.queries]


WANTED = [(HOURS, ["places_find", "places_hours"]), (LETTER, ["post_letter"])]
FORMS: dict[str, tuple[str, Log]] = {
    "chat": ("openai", logs.chat_log),
    "fine-tuning": ("openai", logs.fine_tuning),
    "otel": ("otel", logs.otel_log),
    "otel-snake": ("otel", lambda: logs.otel_log(snake=True)),
    "otel-structured": ("otel", lambda: logs.otel_log(structured=True)),
    "traceloop": ("otel", logs.traceloop_log),
    "openinference": ("otel", logs.openinference_log),
    "span-events": ("otel", logs.span_events_log),
    "log-records": ("otel", logs.log_records),
    "langfuse": ("langfuse", logs.langfuse_log),
    "langsmith": ("langsmith", logs.langsmith_log),
    "gateway": ("mcp", logs.gateway_log),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_conversation_gives_the_same_queries_in_every_form(name: str, tmp_path: Path) -> None:
    form, log = FORMS[name]
    rows = log()
    traffic = read(tmp_path, rows)
    assert gold(traffic) == WANTED
    assert traffic.records == {form: len(rows)}
    assert traffic.unread == 0
    assert traffic.loose_calls == 0
    assert set(traffic.dropped) <= {"no tool was called"}
    assert {row["origin"] for row in traffic.queries} == {"traces"}
    assert len({row["group"] for row in traffic.queries}) == 1, "one conversation"
    by_text = {row["query"]: row for row in traffic.queries}
    assert by_text[HOURS]["searches"] == [SEARCH]
    assert "context" not in by_text[HOURS]
    said = [(turn["role"], turn["content"]) for turn in by_text[LETTER]["context"]]
    assert ("user", HOURS) in said
    if name not in {"gateway"}:
        assert said == [("user", HOURS), ("assistant", ANSWER)]
        assert traffic.requests == 3
        assert traffic.dropped == {"no tool was called": 1}


@pytest.mark.parametrize("name", FORMS)
def test_the_form_can_be_named_and_the_order_of_timed_records_says_nothing(name: str, tmp_path: Path) -> None:
    form, log = FORMS[name]
    rows = log()
    random.Random(3).shuffle(rows)
    assert gold(read(tmp_path, rows, form=form)) == WANTED


@pytest.mark.parametrize("name", FORMS)
def test_a_search_tool_that_is_not_named_is_a_tool(name: str, tmp_path: Path) -> None:
    _, log = FORMS[name]
    (first,) = (row for row in read(tmp_path, log(), search_tools=()).queries if row["query"] == HOURS)
    assert first["tools"] == ["find_tools", "places_find", "places_hours"]
    assert "searches" not in first


def test_responses_go_on_from_the_response_before(tmp_path: Path) -> None:
    traffic = read(tmp_path, logs.responses_log())
    assert gold(traffic) == [WANTED[0], (LETTER, ["mail/post_letter"])]
    assert traffic.queries[0]["searches"] == [SEARCH]
    assert traffic.queries[1]["context"] == [{"role": "user", "content": HOURS}]
    assert len({row["group"] for row in traffic.queries}) == 1


def test_a_trace_of_langfuse_is_read_with_its_observations(tmp_path: Path) -> None:
    for rows in ([logs.langfuse_trace()], [{"data": [logs.langfuse_trace()], "meta": {"page": 1}}]):
        assert gold(read(tmp_path, rows)) == WANTED[:1]
    # Without observations of its own that ask, the trace's input is the request.
    trace = logs.langfuse_trace()
    trace["observations"] = [each for each in trace["observations"] if each["type"] == "TOOL"]
    trace["timestamp"] = "2026-11-20T09:00:00Z"
    assert gold(read(tmp_path, [trace])) == WANTED[:1]


def test_runs_of_langsmith_are_read_from_a_tree(tmp_path: Path) -> None:
    runs = [{**run, "trace_id": "root"} for run in logs.langsmith_log()]
    root = {
        "id": "root",
        "run_type": "chain",
        "inputs": {"input": HOURS},
        "outputs": {},
        "start_time": "2026-11-20T09:59:59",
        "child_runs": runs,
    }
    assert gold(read(tmp_path, [root])) == WANTED


def test_a_record_of_a_call_in_a_gateway_s_own_words(tmp_path: Path) -> None:
    record = {
        "type": "tool_call",
        "server_name": "mail",
        "tool_name": "post_letter",
        "arguments": {},
        "session_id": "s",
        "timestamp": "2026-11-20T10:00:00Z",
        "user_message": LETTER,
        "intent": {"reason": "the model's words"},
    }
    assert gold(read(tmp_path, [record])) == [(LETTER, ["mail/post_letter"])]
    assert "the model's words" not in json.dumps(read(tmp_path, [record]).queries)


def test_where_a_gateway_has_no_requests_searches_are_the_queries(tmp_path: Path) -> None:
    rows = [
        logs.rpc("lost"),
        logs.rpc("find_tools", {"query": "shops"}),
        logs.rpc("find_tools", {"query": SEARCH}),
        logs.rpc("places_hours"),
        logs.rpc("places_hours"),
        logs.rpc("find_tools", {"queries": ["letters", "mail"]}),
        logs.rpc("post_letter"),
        logs.rpc("find_tools", {"query": "nothing comes of it"}),
    ]
    traffic = read(tmp_path, rows)
    assert gold(traffic) == [("shops", ["places_hours"]), ("letters", ["post_letter"])]
    assert [row["searches"] for row in traffic.queries] == [["shops", SEARCH], ["letters", "mail"]]
    assert (traffic.loose_calls, traffic.from_searches, traffic.requests) == (1, 2, 0)
    with pytest.raises(DataError, match=r"calls have no request of a user \(calls: 8\)"):
        read(tmp_path, rows, search_tools=())


def test_calls_without_any_request_are_counted(tmp_path: Path) -> None:
    rows = [{**logs.chat_log()[0], "response": None}, {"session_id": "other", "message": logs.rpc("post_letter")}]
    with pytest.raises(DataError, match=r"no tool was called \(requests: 1\); calls have no request"):
        read(tmp_path, rows)
    assert read(tmp_path, [*logs.chat_log(), rows[1]]).loose_calls == 1


def test_a_call_before_the_first_request_is_not_one_of_it(tmp_path: Path) -> None:
    early = {"timestamp": "2026-11-20T09:00:00Z", "session_id": "s", "message": logs.rpc("early")}
    traffic = read(tmp_path, [*logs.gateway_log(), early])
    assert gold(traffic) == WANTED
    assert traffic.loose_calls == 1


def test_several_forms_mix_in_one_file_and_in_several(tmp_path: Path) -> None:
    rows = [*logs.otel_log(), {"hello": 1}, *logs.gateway_log(), 5, [logs.langfuse_trace()]]
    traffic = read(tmp_path, rows)
    assert set(traffic.records) == {"otel", "mcp", "langfuse"}
    assert traffic.unread == 2
    assert traffic.remarks[0] == (
        f"log.jsonl, line {len(logs.otel_log()) + 1}",
        "it is in no known form (fields 'hello')",
    )
    assert traffic.skipped == {"it is in no known form (fields 'hello')": 1, "it is in no known form (5)": 1}
    # The same words with the same tools are one query, whatever log they come from.
    assert len(traffic.queries) == 2
    assert traffic.dropped["another request has the same text and tools"] >= 2
    files = [written(tmp_path, logs.chat_log(), "a.jsonl"), written(tmp_path, logs.langsmith_log(), "b.jsonl")]
    assert gold(read_traffic(files, search_tools=["find_tools"])) == WANTED


def test_json_is_read_like_json_lines(tmp_path: Path) -> None:
    for name, indent in (("a.json", None), ("b.json", 2), ("c.log", 1)):
        path = tmp_path / name
        path.write_text(json.dumps(logs.chat_log(), indent=indent))
        assert gold(read_traffic(path, search_tools=["find_tools"])) == WANTED
    path.write_text("﻿" + "\r\n".join(json.dumps(row) for row in logs.chat_log()))
    assert gold(read_traffic(path, search_tools=["find_tools"])) == WANTED
