"""OpenTelemetry: spans and log records of generative AI, as OTLP in JSON or as single spans.

The attributes are those of the semantic conventions (`gen_ai.*`, of 2024 to 2026, and `mcp.*`), of OpenInference
(`llm.*`), of OpenLLMetry (`gen_ai.prompt.N.*`, `traceloop.*`) and of Vercel's AI SDK (`ai.*`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.importing.traces.events import Call, Event, LoggedExchange, first_field, json_of, seconds_of
from bench.importing.traces.messages import answer_events, events_of

_GROUPS = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs", "batches")
_SCOPES = ("scopeSpans", "scope_spans", "scopeLogs", "scope_logs", "instrumentationLibrarySpans")
_SPANS, _LOGS = ("spans",), ("logRecords", "log_records")
_CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "langfuse.session.id", "mcp.session.id")
#: What says that a span executes a tool.
_TOOL_KINDS = (
    ("gen_ai.operation.name", "execute_tool"),
    ("mcp.method.name", "tools/call"),
    ("openinference.span.kind", "tool"),
    ("traceloop.span.kind", "tool"),
    ("ai.operationId", "ai.toolcall"),
)
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "mcp.tool.name", "traceloop.entity.name")
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "ai.toolCall.args",
    "mcp.tool.arguments",
    "input.value",
    "traceloop.entity.input",
    "tool.parameters",
)
#: Where a request and an answer stand: whole, as JSON; and flattened, as `llm.input_messages.0.message.role`.
_INPUTS = ("gen_ai.input.messages", "ai.prompt.messages", "gen_ai.prompt")
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion")
_FLAT_INPUTS, _FLAT_OUTPUTS = ("gen_ai.prompt", "llm.input_messages"), ("gen_ai.completion", "llm.output_messages")
#: Events that are one message each, until version 1.36 of the conventions.
_MESSAGE = re.compile(r"gen_ai\.(user|assistant|system|tool)\.message")
#: Values inside an attribute value, and parts of a flattened key.
_MOST_DEPTH = 40
_MOST_STEPS = 12


@dataclass
class _Span:
    """Events of one span that stand in log records."""

    conversation: str = ""
    messages: list[tuple[float, list[Event]]] = field(default_factory=list)


def is_opentelemetry(value: Mapping[str, Any]) -> bool:
    """Whether an object is OTLP, or one span or log record."""
    if any(isinstance(value.get(key), list) for key in (*_GROUPS, *_SCOPES)):
        return True
    ids = any(key in value for key in ("traceId", "trace_id", "spanId", "span_id", "startTimeUnixNano"))
    context = value.get("context")
    return isinstance(value.get("attributes"), dict | list) and (
        ids or (isinstance(context, dict) and ("trace_id" in context or "traceId" in context))
    )


class OpenTelemetry:
    """Reads records one after the other; what log records say of a span is complete when all are read."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], _Span] = {}

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchanges of OTLP or of one span."""
        groups: list[Mapping[str, Any]] = [group for key in _GROUPS for group in _objects(value.get(key))]
        groups = groups or [value]
        scopes: list[Mapping[str, Any]] = [
            scope for group in groups for key in _SCOPES for scope in _objects(group.get(key))
        ]
        for scope in scopes or groups:
            logs: list[Mapping[str, Any]] = [record for key in _LOGS for record in _objects(scope.get(key))]
            spans: list[Mapping[str, Any]] = [record for key in _SPANS for record in _objects(scope.get(key))]
            if not logs and not spans and "attributes" in scope:
                (logs if "body" in scope else spans).append(scope)
            for record in logs:
                yield from self._log(record)
            for record in spans:
                yield from _exchanges(record)

    def finish(self) -> Iterator[LoggedExchange]:
        """The exchanges that log records make together, each span one."""
        for (trace, _), span in self._spans.items():
            span.messages.sort(key=lambda pair: pair[0])
            events = tuple(event for _, batch in span.messages for event in batch)
            if events:
                yield LoggedExchange(events, trace, span.conversation, span.messages[0][0] or None)
        self._spans.clear()

    def _log(self, record: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        attributes = attributes_of(record.get("attributes"))
        name = first_field(record, "eventName", "event_name") or first_field(attributes, "event.name")
        trace, span = _ids(record)
        time = _time(record, "timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "timestamp")
        conversation = first_field(attributes, *_CONVERSATIONS)
        if name == "gen_ai.client.inference.operation.details":
            events = [*_request_events(attributes), *_answer_events(attributes)]
            if events:
                yield LoggedExchange(tuple(events), trace, conversation, time)
            return
        logged = _event(name, _plain(record.get("body")) or attributes)
        if logged:
            kept = self._spans.setdefault((trace, span), _Span())
            kept.conversation = kept.conversation or conversation
            kept.messages.append((time or 0.0, logged))


def _exchanges(span: Mapping[str, Any]) -> Iterator[LoggedExchange]:
    attributes = attributes_of(span.get("attributes"))
    trace, _ = _ids(span)
    time = _time(span, "startTimeUnixNano", "start_time_unix_nano", "startTime", "start_time")
    conversation = first_field(attributes, *_CONVERSATIONS)
    tool = _tool(attributes, first_field(span, "name"))
    if tool:
        arguments = next((attributes[key] for key in _ARGUMENTS if attributes.get(key) is not None), None)
        yield LoggedExchange((Call(tool, arguments),), trace, conversation, time)
        return
    request_events, answered = _request_events(attributes), _answer_events(attributes)
    for event in _objects(span.get("events")):
        more = attributes_of(event.get("attributes"))
        name = first_field(event, "name")
        if name in {"gen_ai.content.prompt", "gen_ai.client.inference.operation.details"}:
            request_events = request_events or _request_events(more)
            answered = answered or _answer_events(more)
        elif name == "gen_ai.content.completion":
            answered = answered or _answer_events(more)
        else:
            request_events += _event(name, more)
    if request_events or answered or conversation:
        # Without events, it still says which conversation the trace belongs to.
        yield LoggedExchange((*request_events, *answered), trace, conversation, time)


def _tool(attributes: Mapping[str, Any], span: str) -> str:
    """The tool that a span executes; empty if it executes none."""
    if all(first_field(attributes, key).lower() != kind for key, kind in _TOOL_KINDS):
        return ""
    return first_field(attributes, *_TOOL_NAMES) or re.sub(r"^(execute_tool|tools/call) ", "", span)


def _request_events(attributes: Mapping[str, Any]) -> list[Event]:
    for key in _INPUTS:
        if attributes.get(key) is not None:
            return events_of(attributes[key])
    prompt = json_of(attributes.get("ai.prompt"))
    if isinstance(prompt, dict):
        return events_of(prompt.get("messages") or prompt.get("prompt"))
    for prefix in _FLAT_INPUTS:
        if messages := unflatten(attributes, prefix):
            return events_of(messages)
    return []


def _answer_events(attributes: Mapping[str, Any]) -> list[Event]:
    for key in _OUTPUTS:
        if attributes.get(key) is not None:
            return answer_events(attributes[key])
    for prefix in _FLAT_OUTPUTS:
        if messages := unflatten(attributes, prefix):
            return answer_events(messages)
    if attributes.get("ai.response.toolCalls") is not None:
        return answer_events({"tool_calls": json_of(attributes["ai.response.toolCalls"])})
    return answer_events(attributes.get("ai.response.text"))


def _event(name: str, body: Any) -> list[Event]:
    """The events of one `gen_ai.*.message` or `gen_ai.choice`; the fields of span events are JSON."""
    if not isinstance(body, Mapping):
        body = {"content": body}
    if match := _MESSAGE.fullmatch(name):
        return events_of({**body, "role": match[1], "tool_calls": json_of(body.get("tool_calls"))})
    if name == "gen_ai.choice" and str(body.get("index") or 0) == "0":
        message = json_of(body.get("message"))
        whole = message if isinstance(message, dict) else {**body, "message": None}
        return answer_events({**whole, "tool_calls": json_of(whole.get("tool_calls") or body.get("tool_calls"))})
    return []


def attributes_of(given: Any) -> dict[str, Any]:
    """Attributes as an object: OTLP lists pairs of key and value, others write an object."""
    if isinstance(given, dict):
        return given
    return {pair["key"]: _plain(pair.get("value")) for pair in _objects(given) if isinstance(pair.get("key"), str)}


def _plain(value: Any, depth: int = 0) -> Any:
    """A value of OTLP (`{"stringValue": "..."}`) as the JSON data it stands for."""
    if not isinstance(value, dict) or len(value) != 1 or depth > _MOST_DEPTH:
        return value
    ((kind, inner),) = value.items()
    kind = kind.replace("_value", "Value")
    values = inner.get("values") if isinstance(inner, dict) else None
    if kind == "arrayValue":
        return [_plain(each, depth + 1) for each in values] if isinstance(values, list) else []
    if kind == "kvlistValue":
        pairs = _objects(values)
        return {pair["key"]: _plain(pair.get("value"), depth + 1) for pair in pairs if isinstance(pair.get("key"), str)}
    return inner if kind in {"stringValue", "intValue", "boolValue", "doubleValue"} else value


def unflatten(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """The list that keys such as `PREFIX.0.message.role` stand for."""
    top: dict[str, Any] = {}
    for key, value in attributes.items():
        steps = key[len(prefix) + 1 :].split(".") if key.startswith(f"{prefix}.") else []
        if not 2 <= len(steps) <= _MOST_STEPS or not steps[0].isdecimal():
            continue
        place = top
        for step in steps[:-1]:
            inner = place.get(step)
            if not isinstance(inner, dict):
                inner = place[step] = {}
            place = inner
        place[steps[-1]] = value
    listed = _lists_of_numbered(top)
    return listed if isinstance(listed, list) else []


def _lists_of_numbered(value: Any) -> Any:
    """Objects whose keys are all numbers, as lists."""
    if not isinstance(value, dict):
        return value
    if value and all(key.isdecimal() and len(key) < 10 for key in value):
        return [_lists_of_numbered(value[key]) for key in sorted(value, key=int)]
    return {key: _lists_of_numbered(inner) for key, inner in value.items()}


def _ids(record: Mapping[str, Any]) -> tuple[str, str]:
    context = record.get("context")
    both = {**context, **record} if isinstance(context, dict) else record
    return first_field(both, "traceId", "trace_id"), first_field(both, "spanId", "span_id")


def _time(record: Mapping[str, Any], *keys: str) -> float | None:
    return next((time for key in keys if (time := seconds_of(record.get(key))) is not None), None)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
