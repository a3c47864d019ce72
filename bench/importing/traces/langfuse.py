"""Langfuse: exports of traces and observations, as the API, the tables and the storage integration write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.importing.traces.events import (
    CALL_IDS,
    Call,
    LoggedExchange,
    LoggedRequest,
    failed_of,
    first_field,
    json_of,
    seconds_of,
)
from bench.importing.traces.messages import answer_events, events_of, exchange_of, is_messages
from bench.importing.traces.opentelemetry import TOOL_CALL_IDS, TOOL_NAMES

_TYPES = frozenset(
    {"GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
)
_SESSIONS, _TIMES = ("sessionId", "session_id"), ("startTime", "start_time", "timestamp", "createdAt", "created_at")
#: The field of a trace's input that is the request, where it is an object.
_TEXTS = ("input", "question", "query", "user_input", "message", "prompt", "text")


def is_langfuse(value: Mapping[str, Any]) -> bool:
    """Whether an object is a trace or an observation."""
    if _is_observation(value) or isinstance(value.get("observations"), list):
        return True
    marked = any(key in value for key in ("htmlPath", "projectId", "project_id", "bookmarked"))
    return marked and "input" in value and "output" in value


def _is_observation(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind.upper() in _TYPES and bool(first_field(value, "traceId", "trace_id"))


class Langfuse:
    """Reads traces, with their observations or without, and observations."""

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchanges of a trace or an observation."""
        if _is_observation(value):
            yield from _observation(value, first_field(value, "traceId", "trace_id"), first_field(value, *_SESSIONS))
            return
        inner = value.get("trace")
        about = inner if isinstance(inner, dict) else value
        trace, session = first_field(about, "id"), first_field(about, *_SESSIONS)
        observations = value.get("observations", about.get("observations"))
        exchanges = [
            exchange
            for each in (observations if isinstance(observations, list) else [])
            if isinstance(each, dict)
            for exchange in _observation(each, trace, session)
        ]
        # What the trace says of itself repeats its observations, where these have it.
        if not any(isinstance(event, LoggedRequest) for exchange in exchanges for event in exchange.events):
            yield from _step(about, trace, session)
        yield from exchanges

    def finish(self) -> Iterator[LoggedExchange]:
        """Nothing: each record is complete."""
        return iter(())


def _observation(value: Mapping[str, Any], trace: str, session: str) -> Iterator[LoggedExchange]:
    kind = str(value.get("type")).upper()
    trace = first_field(value, "traceId", "trace_id") or trace
    if kind == "TOOL":
        if call := _call(value):
            yield LoggedExchange((call,), trace, session, _time(value))
    elif kind == "GENERATION" or (kind in {"AGENT", "CHAIN", "SPAN"} and _is_root(value)):
        yield from _step(value, trace, session)


def _call(value: Mapping[str, Any]) -> Call | None:
    """The call of an observation of a tool, whose own name may be one for display."""
    about = json_of(value.get("metadata"))
    attributes = json_of(about.get("attributes")) if isinstance(about, dict) else None
    attributes = attributes if isinstance(attributes, dict) else {}
    name = first_field(attributes, *TOOL_NAMES) or first_field(value, "name")
    output = json_of(value.get("output"))
    result: Mapping[str, Any] = output if isinstance(output, dict) else {}
    failed = str(value.get("level")).upper() == "ERROR" or failed_of(result)
    call_id = first_field(attributes, *TOOL_CALL_IDS) or first_field(result, *CALL_IDS[:2])
    parent = first_field(value, "parentObservationId", "parent_observation_id")
    return Call(name, value.get("input"), call_id, failed, False, first_field(value, "id"), parent) if name else None


def _is_root(value: Mapping[str, Any]) -> bool:
    return not first_field(value, "parentObservationId", "parent_observation_id")


def _step(value: Mapping[str, Any], trace: str, session: str) -> Iterator[LoggedExchange]:
    """A call of a model, or what a trace or its first step was asked."""
    given = json_of(value.get("input"))
    if isinstance(given, dict):
        inner = next((given[key] for key in ("messages", "input", "contents") if is_messages(given.get(key))), None)
        texts = (given[key] for key in _TEXTS if isinstance(given.get(key), str))
        given = inner if inner is not None else given if is_messages([given]) else next(texts, None)
    request_events = events_of(given) if isinstance(given, str) or is_messages(given) or is_messages([given]) else []
    answered = answer_events(json_of(value.get("output")))
    listed = json_of(value.get("toolCalls", value.get("tool_calls")))
    if isinstance(listed, list) and not any(isinstance(event, Call) for event in answered):
        answered += answer_events({"tool_calls": [json_of(each) for each in listed]})
    if request_events or answered:
        yield LoggedExchange(exchange_of(request_events, answered), trace, session, _time(value))


def _time(value: Mapping[str, Any]) -> float | None:
    return next((time for key in _TIMES if (time := seconds_of(value.get(key))) is not None), None)
