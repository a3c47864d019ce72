"""Langfuse: exports of traces and observations, from the API, the tables and the storage integration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.traces.events import NAMELESS, Call, Event, LoggedExchange, LoggedRequest, Unknown, unknown
from bench.traces.fields import CALL_IDS, first_field, first_time, json_of
from bench.traces.messages import answer_events, exchange_of, request_events
from bench.traces.opentelemetry import TOOL_CALL_IDS, TOOL_NAMES
from bench.traces.results import message_of, span_ending

_TYPES = frozenset(
    {"GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
)
_TRACES, _SESSIONS = ("traceId", "trace_id"), ("sessionId", "session_id")
_PARENTS = ("parentObservationId", "parent_observation_id")
_TIMES, _ENDS = ("startTime", "start_time", "timestamp", "createdAt", "created_at"), ("endTime", "end_time")


def is_langfuse(value: Mapping[str, Any]) -> bool:
    """Whether an object is a trace or an observation."""
    if _is_observation(value) or isinstance(value.get("observations"), list):
        return True
    marked = any(key in value for key in ("htmlPath", "projectId", "project_id", "bookmarked"))
    return marked and "input" in value and "output" in value


def _is_observation(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind.upper() in _TYPES and bool(first_field(value, *_TRACES))


def read_langfuse(value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
    """The exchanges of a trace, with or without its observations, or of an observation."""
    if _is_observation(value):
        yield _exchange(value, "", first_field(value, *_SESSIONS))
        return
    inner = value.get("trace")
    about = inner if isinstance(inner, dict) else value
    trace, session = first_field(about, "id"), first_field(about, *_SESSIONS)
    observations = value.get("observations", about.get("observations"))
    listed = observations if isinstance(observations, list) else []
    exchanges = [_exchange(each, trace, session) for each in listed if isinstance(each, dict)]
    # The trace's own fields repeat its observations, if these have them.
    if not any(isinstance(event, LoggedRequest) for exchange in exchanges for event in exchange.events):
        yield LoggedExchange(tuple(_step(about)), trace, session, first_time(about, *_TIMES))
    yield from exchanges


def _exchange(value: Mapping[str, Any], trace: str, session: str) -> LoggedExchange:
    """The content of an observation."""
    kind, parent = str(value.get("type")).upper(), first_field(value, *_PARENTS)
    events: list[Event] = []
    if kind == "TOOL":
        events = [_call(value)]
    elif kind == "GENERATION" or (kind in {"AGENT", "CHAIN", "SPAN"} and not parent):
        events = _step(value)
    elif kind not in _TYPES:
        events = [unknown("an observation of type", value.get("type"))]
    trace, own = first_field(value, *_TRACES) or trace, first_field(value, "id")
    time, end = first_time(value, *_TIMES), first_time(value, *_ENDS)
    return LoggedExchange(tuple(events), trace, session, time, span=own, parent=parent, end=end)


def _call(value: Mapping[str, Any]) -> Call | Unknown:
    """The call in a tool's observation, whose own name may be a display name."""
    about = json_of(value.get("metadata"))
    attributes = json_of(about.get("attributes")) if isinstance(about, dict) else None
    attributes = attributes if isinstance(attributes, dict) else {}
    name = first_field(attributes, *TOOL_NAMES) or first_field(value, "name")
    if not name:
        return NAMELESS
    message = message_of(value.get("output"))
    call_id = first_field(attributes, *TOOL_CALL_IDS) or first_field(message, *CALL_IDS[:2])
    ended = "error" if str(value.get("level")).upper() == "ERROR" else span_ending(value.get("output"))
    return Call(name, value.get("input"), call_id, ended, executed=True)


def _step(value: Mapping[str, Any]) -> list[Event]:
    """Input and output of a model call, a trace or its first step."""
    answered = answer_events(json_of(value.get("output")))
    listed = json_of(value.get("toolCalls", value.get("tool_calls")))
    if isinstance(listed, list) and not any(isinstance(event, Call) for event in answered):
        answered += answer_events({"tool_calls": [json_of(each) for each in listed]})
    return list(exchange_of(request_events(value.get("input")), answered))
