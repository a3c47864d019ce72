"""Logs of chat models: requests with `messages` or `input`, and their answers, on one line or on two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.traces.events import Event, LoggedExchange
from bench.traces.fields import first_field, first_time, json_of, text_of
from bench.traces.messages import answer_events, events_of, exchange_of, is_messages

_REQUESTS = ("request", "request_body", "requestBody", "body", "kwargs", "params", "input", "inputs", "data", "values")
_RESPONSES = (
    *("response", "response_body", "responseBody", "completion", "output", "outputs", "answer", "result"),
    "new_items",  # the Agents SDK
)
#: Locations of ids beside request and answer; the last two are LangGraph's.
_ABOUT = ("metadata", "config", "configurable")
_BESIDE_TEXT = ("model", "output", "response", "new_items")
TRACES, _SINGLE = ("trace_id", "traceId"), ("custom_id", "request_id", "requestId")
CONVERSATIONS = ("conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "threadId", "chat_id")
_TIMES = ("timestamp", "created_at", "created", "startTime", "start_time", "time", "ts")
#: Wrappers around a request: a log record, an HTTP request, its body.
_MOST_WRAPPERS = 4


def is_chat(value: Mapping[str, Any]) -> bool:
    """Whether an object is a request, an answer, or both."""
    return _request(value) is not None or _answer(value) is not None


class ChatLogs:
    """Reads records in order, and follows `previous_response_id` from answer to answer."""

    def __init__(self) -> None:
        self._threads: dict[str, str] = {}

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchange of a record."""
        layers = list(_layers(value, (*_REQUESTS, *_RESPONSES, *_ABOUT)))
        trace = _first(layers, *TRACES)
        single = "" if trace else _first(layers, *_SINGLE)
        conversation = _first(layers, *CONVERSATIONS)
        if not conversation:  # of Responses
            given = next((layer["conversation"] for layer in layers if layer.get("conversation")), "")
            conversation = first_field(given if isinstance(given, dict) else {"id": given}, "id")
        time = next((time for layer in layers if (time := first_time(layer, *_TIMES)) is not None), None)
        events = exchange_of(events_of(_request(value)), _answer_events(value))
        thread = self._thread(layers, trace or single)
        yield LoggedExchange(events, thread, conversation, time, bool(single), not (trace or single))

    def _thread(self, layers: Sequence[Mapping[str, Any]], given: str) -> str:
        """What links this record to others: an id from the log, or the chain of answers of the Responses API."""
        record_id = _first([layer for layer in layers if _is_response(layer)], "id")
        before = _first(layers, "previous_response_id")
        trace = given or (self._threads.get(before, before) if before else record_id)
        if record_id and trace:
            self._threads[record_id] = trace
        return trace


def _layers(value: Mapping[str, Any], keys: Sequence[str], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """A record and the objects that it wraps under some keys: request and response, and their bodies."""
    yield value
    if depth < _MOST_WRAPPERS:
        for key in keys:
            inner = json_of(value.get(key))
            if isinstance(inner, dict):
                yield from _layers(inner, keys, depth + 1)


def _first(layers: Sequence[Mapping[str, Any]], *keys: str) -> str:
    return next((field for layer in layers if (field := first_field(layer, *keys))), "")


def _request(value: Mapping[str, Any]) -> Any:
    """The messages of a request, or its text; None if there is no request."""
    for layer in _layers(value, _REQUESTS):
        for key in ("messages", "contents"):
            if is_messages(layer.get(key)):
                return layer[key]
        if isinstance(layer.get("contents"), str) and text_of(layer["contents"]):  # Gemini's SDK
            return layer["contents"]
        for key in ("input", "prompt"):
            given = json_of(layer.get(key))
            if is_messages(given):
                return given
            # The text of a request to Responses or Completions; other records have an `input` too.
            if isinstance(given, str) and text_of(given) and any(each in layer for each in _BESIDE_TEXT):
                return given
    return None


def _answer(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The answer of a model; None if there is none."""
    for layer in _layers(value, (*_RESPONSES, "body")):
        listed = any(isinstance(layer.get(key), list) for key in ("choices", "candidates"))
        said = layer.get("role") == "assistant" and any(key in layer for key in ("content", "tool_calls", "blocks"))
        if listed or said or (isinstance(layer.get("output"), list) and _is_response(layer)):
            return layer
    return None


def _is_response(value: Mapping[str, Any]) -> bool:
    return value.get("object") == "response" or (isinstance(value.get("output"), list) and is_messages(value["output"]))


def _answer_events(value: Mapping[str, Any]) -> list[Event]:
    wrapped = (json_of(layer.get(key)) for layer in _layers(value, (*_RESPONSES, "body")) for key in _RESPONSES)
    answers = (each for given in ([_answer(value)], wrapped) for each in given)
    return next(filter(None, map(answer_events, answers)), [])
