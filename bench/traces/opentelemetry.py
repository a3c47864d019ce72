"""OpenTelemetry: spans and log records of generative AI, as OTLP in JSON or as single spans.

The attributes are those of the semantic conventions (`gen_ai.*`, of 2024 to 2026, and `mcp.*`), of OpenInference
(`llm.*`), of OpenLLMetry (`gen_ai.prompt.N.*`, `traceloop.*`), of Vercel's AI SDK (`ai.*`) and of pydantic-ai. Phoenix
writes spans as rows of `attributes.*` and `context.*`, or with attributes that hold objects.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bench.base.text import one_line
from bench.importing.dialects import words
from bench.traces.events import NAMELESS, Call, Event, LoggedExchange, LoggedRequest, Unknown, unknown
from bench.traces.fields import first_field, first_time, first_value, json_of
from bench.traces.messages import answer_events, events_of, exchange_of, request_events
from bench.traces.results import Ending, span_ending, worst

_GROUPS, _LOGS, _STARTS, _ENDS, _SPAN_NAMES, _STATUSES, _PARENTS = (
    words("spans", key) for key in ("groups", "logs", "starts", "ends", "names", "statuses", "parents")
)
_CONVERSATIONS, TOOL_NAMES, TOOL_CALL_IDS, _ARGUMENTS, _RESULTS = (
    words("spans", key) for key in ("conversations", "tools", "call_ids", "arguments", "results")
)
_INPUTS, _OUTPUTS, _FLAT_INPUTS, _FLAT_OUTPUTS, _EVENTS, _NESTED = (
    words("spans", key) for key in ("inputs", "outputs", "flat_inputs", "flat_outputs", "events", "nested")
)
#: Fields with the kind of a span: the kind of tool executions, and the other kinds.
_KINDS = {
    "gen_ai.operation.name": (
        "execute_tool",
        r"chat|(text_)?completions?|generate_content|embeddings|(create|invoke)_\w+|guardrail|handoff|retrieval|rerank",
    ),
    "mcp.method.name": ("tools/call", r"\w+(/\w+)*"),
    "openinference.span.kind": (
        "tool",
        r"agent|chain|embedding|evaluator|guardrail|llm|prompt|reranker|retriever|unknown",
    ),
    "traceloop.span.kind": ("tool", r"agent|task|unknown|workflow"),
    "ai.operationId": ("ai.toolcall", r"ai\.(generate|stream|embed)\w*(\.do\w+)?"),
}
#: The first words of attributes of spans of models, agents and tools.
_GENERATIVE = re.compile(
    r"(gen_ai|llm|ai|mcp|openinference|traceloop|koog|langfuse|pydantic_ai|langsmith)\b|agent_name$"
)
#: Events of one message each, until version 1.36 of the conventions.
_MESSAGE = re.compile(r"gen_ai\.(user|assistant|system|tool)\.message")
_OTHER_EVENTS = r"gen_ai\.(choice|evaluation\.\w+)|exception"
#: Parts of a flattened key.
_MOST_STEPS = 12


def is_opentelemetry(value: Mapping[str, Any]) -> bool:
    """Whether an object is OTLP, or one span or log record."""
    if any(isinstance(value.get(key), list) for key in _GROUPS) or "context.trace_id" in value:
        return True
    ids = any(key in value for key in ("traceId", "trace_id", "spanId", "span_id", "startTimeUnixNano"))
    context = value.get("context")
    return isinstance(value.get("attributes"), dict | list) and (
        ids or (isinstance(context, dict) and ("trace_id" in context or "traceId" in context))
    )


class OpenTelemetry:
    """Reads records in order; what log records say about a span is complete once all are read."""

    def __init__(self) -> None:
        self._logged: defaultdict[tuple[str, str], list[LoggedExchange]] = defaultdict(list)
        self._roots: dict[str, LoggedExchange] = {}
        self._asked: set[str] = set()

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchanges of OTLP or of one span."""
        for is_log, record in _records(_span_of_row(value) if "context.trace_id" in value else value):
            if is_log:
                yield self._log(record)
                continue
            exchange, root = _read_span(record)
            if any(isinstance(event, LoggedRequest) for event in exchange.events):
                self._asked.add(exchange.trace)
            if root:
                self._roots.setdefault(exchange.trace, replace(exchange, events=root))
            yield exchange

    def finish(self) -> Iterator[LoggedExchange]:
        """The exchanges formed by log records, one per span, and requests that only a trace's root has."""
        told = self._asked | {trace for trace, _ in self._logged}
        yield from (root for trace, root in self._roots.items() if trace not in told)
        for logged in self._logged.values():
            logged.sort(key=lambda exchange: exchange.time or 0.0)
            conversation = next((each.conversation for each in logged if each.conversation), "")
            events = tuple(event for exchange in logged for event in exchange.events)
            yield replace(logged[0], events=events, conversation=conversation)

    def _log(self, record: Mapping[str, Any]) -> LoggedExchange:
        attributes = attributes_of(record.get("attributes"))
        name = first_field(record, "eventName", "event_name") or first_field(attributes, "event.name")
        trace, span = _ids(record)
        time = first_time(record, "timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "timestamp")
        exchange = LoggedExchange((), trace, first_field(attributes, *_CONVERSATIONS), time)
        if name == "gen_ai.client.inference.operation.details":
            return replace(exchange, events=(*_request_events(attributes), *_answer_events(attributes)))
        events = _event(name, _plain(record.get("body")) or attributes)
        # Once all records are read, the line of an unknown part is lost.
        unknown_events = tuple(event for event in events if isinstance(event, Unknown))
        if said := tuple(event for event in events if not isinstance(event, Unknown)):
            self._logged[trace, span].append(replace(exchange, events=said, span=span))
        return replace(exchange, events=unknown_events)


def _records(value: Mapping[str, Any]) -> Iterator[tuple[bool, Mapping[str, Any]]]:
    """The log records (True) and spans (False) of OTLP, or the one that the value is."""
    inner = [(key, each) for key in (*_GROUPS, *_LOGS, "spans") for each in _objects(value.get(key))]
    for key, each in inner:
        if key in _GROUPS:
            yield from _records(each)
        else:
            yield key in _LOGS, each
    if not inner and "attributes" in value:
        yield "body" in value, value


def _read_span(span: Mapping[str, Any]) -> tuple[LoggedExchange, tuple[Event, ...]]:
    """The content of a span, and its request if it is the first of a trace."""
    attributes = attributes_of(span.get("attributes"))
    (trace, own), parent = _ids(span), first_field(span, *_PARENTS)
    conversation, time = first_field(attributes, *_CONVERSATIONS), first_time(span, *_STARTS)
    events = tuple(_span_events(span, attributes))
    exchange = LoggedExchange(events, trace, conversation, time, span=own, parent=parent, end=first_time(span, *_ENDS))
    # By OpenInference and OpenLLMetry.
    kind = first_field(attributes, "openinference.span.kind", "traceloop.span.kind").lower()
    if parent or kind not in {"agent", "chain", "workflow", "llm"}:
        return exchange, ()
    return exchange, tuple(request_events(first_value(attributes, "input.value", "traceloop.entity.input")))


def _span_events(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[Event]:
    name, tool = first_field(span, *_SPAN_NAMES), first_field(attributes, *TOOL_NAMES)
    kinds = [(key, kind.lower()) for key in _KINDS if (kind := first_field(attributes, key))]
    # pydantic-ai's `running tool` until version 2 of its instrumentation.
    if any(kind == _KINDS[key][0] for key, kind in kinds) or (tool and name.startswith("running tool")):
        tool = tool or re.sub(r"^(execute_tool|tools/call) ?", "", name)
        arguments, call_id = first_value(attributes, *_ARGUMENTS), first_field(attributes, *TOOL_CALL_IDS)
        return [Call(tool, arguments, call_id, _ending(span, attributes), executed=True) if tool else NAMELESS]
    asked, answered = _request_events(attributes), _answer_events(attributes)
    for event in _objects(span.get("events")):
        more = attributes_of(event.get("attributes"))
        name = first_field(event, "name")
        if name in {"gen_ai.content.prompt", "gen_ai.client.inference.operation.details"}:
            asked = asked or _request_events(more)
            answered = answered or _answer_events(more)
        elif name == "gen_ai.content.completion":
            answered = answered or _answer_events(more)
        elif name.startswith("gen_ai."):
            asked += _event(name, more)
    if asked or answered:
        return list(exchange_of(asked, answered))
    if not kinds and not any(map(_GENERATIVE.match, attributes)):
        return [Unknown("a span of no model, agent or tool", f": {one_line(first_field(span, *_SPAN_NAMES), 80)!r}")]
    return [unknown(f"a span whose {key} is", kind) for key, kind in kinds if not re.fullmatch(_KINDS[key][1], kind)]


def _ending(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> Ending | None:
    """How a tool's span ended; None if neither its status, which most leave unset, nor a result is there."""
    status = span.get("status")
    code = first_field(status, "code", "status_code") if isinstance(status, dict) else first_field(span, *_STATUSES)
    if code.upper() in {"2", "ERROR", "STATUS_CODE_ERROR"} or first_field(attributes, "error.type"):
        return "error"
    ok: Ending | None = "ok" if code.upper() in {"1", "OK", "STATUS_CODE_OK"} else None
    return worst(span_ending(first_value(attributes, *_RESULTS)), ok)


def _messages(attributes: Mapping[str, Any], keys: tuple[str, ...], prefixes: tuple[str, ...]) -> Any:
    """The messages that attributes have, whole or flattened; None if they have none."""
    flat = (messages for prefix in prefixes if (messages := unflatten(attributes, prefix)))
    return given if (given := first_value(attributes, *keys)) is not None else next(flat, None)


def _request_events(attributes: Mapping[str, Any]) -> list[Event]:
    prompt = json_of(attributes.get("ai.prompt"))
    given = prompt.get("messages") or prompt.get("prompt") if isinstance(prompt, dict) else None
    if (messages := _messages(attributes, _INPUTS, _FLAT_INPUTS)) is not None or given is not None:
        return events_of(given if messages is None else messages)
    listed = _objects(json_of(first_value(attributes, *_EVENTS)))
    return [event for each in listed for event in _event(first_field(each, "event.name"), each)]


def _answer_events(attributes: Mapping[str, Any]) -> list[Event]:
    if (messages := _messages(attributes, _OUTPUTS, _FLAT_OUTPUTS)) is not None:
        return answer_events(messages)
    calls = json_of(attributes.get("ai.response.toolCalls"))
    return answer_events(attributes.get("ai.response.text") if calls is None else {"tool_calls": calls})


def _event(name: str, body: Any) -> list[Event]:
    """The events of a `gen_ai.*.message` or `gen_ai.choice`; fields of span events are JSON."""
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
    return [] if re.fullmatch(_OTHER_EVENTS, name) else [unknown("an event", name)]


def attributes_of(given: Any) -> dict[str, Any]:
    """Attributes as an object: OTLP lists pairs of key and value, others write an object.

    Phoenix stores OpenInference attributes as nested objects; these are also returned under their full keys.
    """
    if isinstance(given, dict):
        nested = [(key, value) for key, value in given.items() if key.partition(".")[0] in _NESTED]
        return {**given, **{key: each for name, value in nested for key, each in _flat(name, value, 0)}}
    return {pair["key"]: _plain(pair.get("value")) for pair in _objects(given) if isinstance(pair.get("key"), str)}


def _flat(key: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """An attribute with objects and lists, and each value in it under its full key."""
    yield key, value
    if isinstance(value, dict | list) and depth < _MOST_STEPS:
        pairs = value.items() if isinstance(value, dict) else ((str(number), each) for number, each in enumerate(value))
        for name, each in pairs:
            yield from _flat(f"{key}.{name}", each, depth + 1)


def _span_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of Phoenix's span table as a span."""
    span = {key: value for key, value in row.items() if not key.startswith(("attributes.", "context."))}
    for group in ("attributes", "context"):
        span[group] = {key[len(group) + 1 :]: value for key, value in row.items() if key.startswith(f"{group}.")}
    return span


def _plain(value: Any) -> Any:
    """A value of OTLP (`{"stringValue": "..."}`) as the JSON data it stands for."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    kind = kind.replace("_value", "Value")
    values = inner.get("values") if isinstance(inner, dict) else None
    if kind == "arrayValue":
        return [_plain(each) for each in values] if isinstance(values, list) else []
    if kind == "kvlistValue":
        return attributes_of(values)
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


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
