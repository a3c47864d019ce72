"""Streams of agents, one step per record: OpenAI's Agents SDK, LlamaIndex's workflows, transcripts of Claude Code.

The Agents SDK exports objects `trace` and `trace.span`, whose `span_data` has a type. LlamaIndex writes events with
their class beside their fields (`qualified_name` and `value`), or only their fields. A transcript has one of
Anthropic's messages per line, with the id of its session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bench.traces.events import Call, Event, LoggedExchange, Outcome, unknown
from bench.traces.fields import CALL_IDS, first_field, first_value, qualified_name, seconds_of
from bench.traces.messages import answer_events, calls_of, events_of
from bench.traces.results import ending_of

_SPANS = ("trace", "trace.span")
#: Spans of the Agents SDK that call neither a model nor a tool.
_OTHER_SPANS = frozenset({"agent", "guardrail", "custom", "mcp_tools", "transcription", "speech", "speech_group"})
#: Fields of a span of the Agents SDK with a model's input and output; processors add them to `response`.
_INPUTS, _ANSWERS = ("input", "_input"), ("output", "response", "_response")
#: Fields that only LlamaIndex's events have.
_EVENT_FIELDS = ("tool_kwargs", "current_agent_name")
_SESSIONS = ("session_id", "sessionId", "run_id", "workflow_id", "handler_id")


def is_agents(value: Mapping[str, Any]) -> bool:
    """Whether an object is a trace or span of the Agents SDK, an event of LlamaIndex, or a line of a transcript."""
    if value.get("object") in _SPANS:
        return value["object"] == "trace" or isinstance(value.get("span_data"), dict)
    event = _workflow_event(value)
    return _is_line(value) or any(key in event for key in _EVENT_FIELDS) or (event is not value and "user_msg" in event)


def _is_line(value: Mapping[str, Any]) -> bool:
    message = value.get("message")
    return (
        isinstance(message, dict)
        and first_field(value, "type") in {"user", "assistant"}
        and first_field(message, "role") == value["type"]
        and bool(first_field(value, "sessionId"))
    )


def _workflow_event(value: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = value.get("value")
    return inner if isinstance(inner, dict) and first_field(value, "qualified_name", "type") else value


class Agents:
    """Reads records in order."""

    def __init__(self, session: str) -> None:
        """`session`: the session of LlamaIndex events without an id, one stream per file."""
        self._session = session

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchange of a span or event."""
        if value.get("object") == "trace":
            # It only says which conversation it belongs to.
            yield LoggedExchange((), first_field(value, "id"), first_field(value, "group_id"))
        elif value.get("object") == "trace.span":
            times = seconds_of(value.get("started_at")), seconds_of(value.get("ended_at"))
            own, parent = first_field(value, "id"), first_field(value, "parent_id")
            trace, events = first_field(value, "trace_id"), tuple(_span_events(value))
            yield LoggedExchange(events, trace, "", times[0], span=own, parent=parent, end=times[1])
        elif _is_line(value):
            # Text that the program adds as the user, or that one model sends to another, is not the user's.
            said = () if value.get("isMeta") or value.get("isSidechain") else tuple(events_of(value["message"]))
            session = first_field(value, "sessionId")
            yield LoggedExchange(said, session, session, seconds_of(value.get("timestamp")))
        else:
            session = first_field(value, *_SESSIONS) or self._session
            yield LoggedExchange(tuple(_workflow_events(_workflow_event(value))), session, session)


def _span_events(span: Mapping[str, Any]) -> list[Event]:
    data = span.get("span_data")
    if not isinstance(data, dict):
        return []
    kind, name = first_field(data, "type"), first_field(data, "name")
    if kind == "function" and name:
        about = data.get("mcp_data")
        tool = qualified_name(first_field(about, "server") if isinstance(about, dict) else "", name)
        ended = "error" if span.get("error") else ending_of(data)
        return [Call(tool, data.get("input"), ended=ended, executed=True)]
    if kind == "handoff":
        return [Call("transfer_to_" + re.sub(r"\W", "_", first_field(data, "to_agent")).lower(), hosted=True)]
    if kind in {"generation", "response"}:
        given = first_value(data, *_INPUTS)
        return [*(events_of(given) if given is not None else []), *answer_events(first_value(data, *_ANSWERS))]
    return [] if kind in _OTHER_SPANS else [unknown("a span of type", kind)]


def _workflow_events(event: Mapping[str, Any]) -> list[Event]:
    if first_field(event, "tool_name"):  # ToolCall, ToolCallResult
        output, call_id = event.get("tool_output"), first_field(event, *CALL_IDS)
        ended = [Outcome(call_id, ending_of(output), event["tool_name"])] if output is not None else []
        return [*calls_of([event]), *ended]
    if event.get("tool_calls"):  # AgentOutput
        return list(calls_of(event["tool_calls"]))
    if isinstance(event.get("input"), list):  # AgentInput, AgentSetup: the conversation so far
        return events_of(event["input"])
    history = event.get("chat_history")
    if first_field(event, "user_msg"):  # AgentWorkflowStartEvent
        before = history if isinstance(history, list) else []
        return events_of([*before, {"role": "user", "content": event["user_msg"]}])
    response = event.get("response")
    return answer_events(response) if isinstance(response, dict) else []
