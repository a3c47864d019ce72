"""LangSmith: runs as JSON Lines or nested in `child_runs`, and LangChain's event streams, which end runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.traces.events import NAMELESS, Call, Event, LoggedExchange, Unknown, unknown
from bench.traces.fields import CALL_IDS, first_field, json_of, seconds_of
from bench.traces.messages import answer_events, events_of, exchange_of, is_messages, request_events
from bench.traces.results import message_of, span_ending

#: Names of thread ids in the metadata; `session_id` of a run itself is the project.
_THREADS = ("session_id", "thread_id", "conversation_id")
_MOST_DEPTH = 40
#: Runs that call neither a model nor a tool, and events of LangChain's `astream_events` that begin or end something.
_OTHER_RUNS = frozenset({"retriever", "embedding", "prompt", "parser", "custom"})
_EVENT = re.compile(r"on_(?:(llm|tool|chain|retriever|prompt|parser)|chat_model|custom)_(start|stream|end|error|event)")


def is_langsmith(value: Mapping[str, Any]) -> bool:
    """Whether an object is a run, or an event of one."""
    if isinstance(value.get("event"), str) and value["event"].startswith("on_"):
        return isinstance(value.get("data"), dict) and "run_id" in value
    return isinstance(value.get("run_type"), str) and ("inputs" in value or "outputs" in value or "trace_id" in value)


def read_langsmith(value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
    """The exchanges of a run and of its `child_runs`, or of the run that an event ends."""
    pending: list[tuple[Mapping[str, Any], str, int]] = [(_run_of(value) if "event" in value else value, "", 0)]
    while pending:
        run, above, depth = pending.pop()
        own, parent = first_field(run, "id"), first_field(run, "parent_run_id")
        trace = first_field(run, "trace_id") or above or ("" if parent else own)
        times = seconds_of(run.get("start_time")), seconds_of(run.get("end_time"))
        yield LoggedExchange(tuple(_events(run)), trace, _thread(run), times[0], span=own, parent=parent, end=times[1])
        below = run.get("child_runs")
        if isinstance(below, list) and depth < _MOST_DEPTH:
            pending += [(each, trace, depth + 1) for each in reversed(below) if isinstance(each, dict)]


def _run_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The run that an event ends; an empty one if it ends none."""
    given = event.get("data")
    data: Mapping[str, Any] = given if isinstance(given, dict) else {}
    above = event.get("parent_ids")
    ids = [each for each in above if isinstance(each, str)] if isinstance(above, list) else []
    match = _EVENT.fullmatch(str(event.get("event")))
    ends = match is not None and match[2] in {"end", "error"}
    return {
        "run_type": event.get("event") if match is None else (match[1] or "llm") if ends else "custom",
        "id": event.get("run_id"),
        "trace_id": ids[0] if ids else event.get("run_id"),
        "parent_run_id": ids[-1] if ids else None,
        "name": event.get("name"),
        "inputs": data.get("input"),
        "outputs": {"output": data.get("output")},
        "tool_call_id": data.get("tool_call_id"),
        "error": data.get("error"),
        "metadata": event.get("metadata"),
    }


def _events(run: Mapping[str, Any]) -> Sequence[Event]:
    kind = run.get("run_type")
    if kind == "tool":
        return [_call(run)]
    if kind not in {"llm", "chain"}:
        return [] if kind in _OTHER_RUNS else [unknown("a run of type", kind)]
    if kind == "chain" and first_field(run, "parent_run_id"):
        return []
    inputs, outputs = json_of(run.get("inputs")), json_of(run.get("outputs"))
    if kind == "llm":
        return exchange_of(request_events(inputs), answer_events(outputs))
    # The state of a graph after its run contains everything; for other chains, their child runs report it step by step.
    state = outputs.get("output", outputs) if isinstance(outputs, dict) else None
    whole = events_of(state["messages"]) if isinstance(state, dict) and is_messages(state.get("messages")) else []
    return exchange_of(request_events(inputs), whole)


def _call(run: Mapping[str, Any]) -> Call | Unknown:
    """The call in a tool's run, whose own name may be a display name."""
    message, serialized = message_of(run.get("outputs")), run.get("serialized")
    named = [message, serialized if isinstance(serialized, dict) else {}, run]
    name = next((name for each in named if (name := first_field(each, "name"))), "")
    failed = run.get("error") or run.get("status") == "error"
    ended = "error" if failed else span_ending(run.get("outputs"))
    call_id = first_field(message or run, *CALL_IDS[:2])
    return Call(name, run.get("inputs"), call_id, ended, executed=True) if name else NAMELESS


def _thread(run: Mapping[str, Any]) -> str:
    extra = run.get("extra")
    about = extra.get("metadata") if isinstance(extra, dict) else run.get("metadata")
    return first_field(about, *_THREADS) if isinstance(about, dict) else first_field(run, "thread_id")
