"""OpenTelemetry: spans and log records of generative AI, as OTLP in JSON or as single spans.

The attributes are those of the semantic conventions (`gen_ai.*`, of 2024 to 2026, and `mcp.*`), of OpenInference
(`llm.*`), of OpenLLMetry (`gen_ai.prompt.N.*`, `traceloop.*`), of Vercel's AI SDK (`ai.*`) and of pydantic-ai. Phoenix
writes spans as rows of `attributes.*` and `context.*`, or with attributes that hold objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.importing.traces.events import (
    Call,
    Event,
    LoggedExchange,
    LoggedRequest,
    first_field,
    first_value,
    json_of,
    seconds_of,
)
from bench.importing.traces.messages import answer_events, events_of, exchange_of, is_messages

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
TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "mcp.tool.name", "traceloop.entity.name")
TOOL_CALL_IDS = ("gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id")
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "ai.toolCall.args",
    "mcp.tool.arguments",
    "input.value",
    "traceloop.entity.input",
    "tool.parameters",
)
#: Where a request and an answer stand: whole, as JSON; and flattened, as `llm.input_messages.0.message.role`.
_INPUTS = ("gen_ai.input.messages", "ai.prompt.messages", "gen_ai.prompt", "pydantic_ai.all_messages")
#: Lists of events in one attribute, of pydantic-ai until version 1 of its instrumentation.
_EVENTS = ("events", "all_messages_events")
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion")
_FLAT_INPUTS, _FLAT_OUTPUTS = ("gen_ai.prompt", "llm.input_messages"), ("gen_ai.completion", "llm.output_messages")
#: Events that are one message each, until version 1.36 of the conventions.
_MESSAGE = re.compile(r"gen_ai\.(user|assistant|system|tool)\.message")
#: The first words of OpenInference's attributes that Phoenix nests.
_NESTED = frozenset({"llm", "tool", "tool_call", "openinference", "input", "output", "session"})
#: Fields of a span: OTLP, Phoenix, and rows of Logfire.
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "startTime", "start_time", "start_timestamp")
_SPAN_NAMES, _STATUSES = ("name", "span_name"), ("status_code", "otel_status_code", "otel_status_level")
_PARENTS = ("parentSpanId", "parent_span_id", "parent_id")
#: What the request is called in the input of an agent.
_REQUESTS = ("messages", "input", "user_msg", "query", "question", "task", "message", "prompt", "text")
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
    if any(isinstance(value.get(key), list) for key in (*_GROUPS, *_SCOPES)) or "context.trace_id" in value:
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
        self._roots: dict[str, LoggedExchange] = {}
        self._asked: set[str] = set()

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchanges of OTLP or of one span."""
        value = _span_of_row(value) if "context.trace_id" in value else value
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
                for exchange in _exchanges(record):
                    if any(isinstance(event, LoggedRequest) for event in exchange.events):
                        self._asked.add(exchange.trace)
                    yield exchange
                if (root := _root(record)) is not None:
                    self._roots.setdefault(root.trace, root)

    def finish(self) -> Iterator[LoggedExchange]:
        """The exchanges that log records make together, each span one; and requests that only a trace's root has."""
        told = self._asked | {trace for trace, _ in self._spans}
        yield from (root for trace, root in self._roots.items() if trace not in told)
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
    time = _time(span, *_STARTS)
    conversation = first_field(attributes, *_CONVERSATIONS)
    if name := _tool(attributes, first_field(span, *_SPAN_NAMES)):
        arguments = first_value(attributes, *_ARGUMENTS)
        ids = (_ids(span)[1], first_field(span, *_PARENTS))
        call = Call(name, arguments, first_field(attributes, *TOOL_CALL_IDS), _failed(span, attributes), False, *ids)
        yield LoggedExchange((call,), trace, conversation, time)
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
        yield LoggedExchange(exchange_of(request_events, answered), trace, conversation, time)


def _tool(attributes: Mapping[str, Any], span: str) -> str:
    """The tool that a span executes; empty if it executes none."""
    name = first_field(attributes, *TOOL_NAMES)
    if any(first_field(attributes, key).lower() == kind for key, kind in _TOOL_KINDS):
        return name or re.sub(r"^(execute_tool|tools/call) ", "", span)
    # pydantic-ai's `running tool` until version 2 of its instrumentation.
    return name if span.startswith("running tool") else ""


def _failed(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool | None:
    """Whether a span ended in an error; None where its status is not set, as most leave it."""
    status = span.get("status")
    code = first_field(status, "code", "status_code") if isinstance(status, dict) else first_field(span, *_STATUSES)
    if code.upper() in {"2", "ERROR", "STATUS_CODE_ERROR"} or first_field(attributes, "error.type"):
        return True
    return False if code.upper() in {"1", "OK", "STATUS_CODE_OK"} else None


def _root(span: Mapping[str, Any]) -> LoggedExchange | None:
    """What the first span of a trace was asked, by OpenInference and OpenLLMetry; None for other spans."""
    attributes = attributes_of(span.get("attributes"))
    kind = first_field(attributes, "openinference.span.kind", "traceloop.span.kind").lower()
    if first_field(span, *_PARENTS) or kind not in {"agent", "chain", "workflow", "llm"}:
        return None
    given = json_of(first_value(attributes, "input.value", "traceloop.entity.input"))
    given = given.get("inputs", given) if isinstance(given, dict) else given
    if isinstance(given, dict):
        given = next((given[key] for key in _REQUESTS if isinstance(given.get(key), str | list) and given[key]), None)
    events = tuple(events_of(given)) if isinstance(given, str) or is_messages(given) else ()
    time = _time(span, *_STARTS)
    return LoggedExchange(events, _ids(span)[0], first_field(attributes, *_CONVERSATIONS), time) if events else None


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
    listed = _objects(json_of(first_value(attributes, *_EVENTS)))
    return [event for each in listed for event in _event(first_field(each, "event.name"), each)]


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
    whole = json_of(body.get("body"))  # Koog: the SDK of Java has no bodies of events
    body = {**body, **whole} if isinstance(whole, dict) else body
    if match := _MESSAGE.fullmatch(name):
        return events_of({**body, "role": match[1], "tool_calls": json_of(body.get("tool_calls"))})
    if name == "gen_ai.choice" and str(body.get("index") or 0) == "0":
        message = json_of(body.get("message"))
        whole = message if isinstance(message, dict) else {**body, "message": None}
        return answer_events({**whole, "tool_calls": json_of(whole.get("tool_calls") or body.get("tool_calls"))})
    return []


def attributes_of(given: Any) -> dict[str, Any]:
    """Attributes as an object: OTLP lists pairs of key and value, others write an object.

    Phoenix stores those of OpenInference as objects in each other; they are given by their whole keys as well.
    """
    if isinstance(given, dict):
        nested = [(key, value) for key, value in given.items() if key.partition(".")[0] in _NESTED]
        return {**given, **{key: each for name, value in nested for key, each in _flat(name, value, 0)}}
    return {pair["key"]: _plain(pair.get("value")) for pair in _objects(given) if isinstance(pair.get("key"), str)}


def _flat(key: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """An attribute that holds objects and lists, and each value in it by its whole key."""
    yield key, value
    if isinstance(value, dict | list) and depth < _MOST_STEPS:
        pairs = value.items() if isinstance(value, dict) else ((str(number), each) for number, each in enumerate(value))
        for name, each in pairs:
            yield from _flat(f"{key}.{name}", each, depth + 1)


def _span_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of Phoenix's table of spans as the span that it is."""
    span = {key: value for key, value in row.items() if not key.startswith(("attributes.", "context."))}
    for group in ("attributes", "context"):
        span[group] = {key[len(group) + 1 :]: value for key, value in row.items() if key.startswith(f"{group}.")}
    return span


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
