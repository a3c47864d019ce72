"""Logs of chat models: requests with `messages` or `input`, and their answers, in one line or in two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.importing.traces.events import Event, LoggedExchange, first_field, json_of, seconds_of, text_of
from bench.importing.traces.messages import answer_events, events_of, exchange_of, is_messages

_REQUESTS = ("request", "request_body", "requestBody", "body", "kwargs", "params", "input", "inputs", "data", "values")
_RESPONSES = (
    *("response", "response_body", "responseBody", "completion", "output", "outputs", "answer", "result"),
    "new_items",  # the Agents SDK
)
#: Where ids stand beside request and answer; the last two are LangGraph's.
_ABOUT = ("metadata", "config", "configurable")
_ANSWERS = ("choices", "candidates")
_BESIDE_TEXT = ("model", "output", "response", "new_items")
TRACES, _SINGLE = ("trace_id", "traceId"), ("custom_id", "request_id", "requestId")
CONVERSATIONS = ("conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "threadId", "chat_id")
_TIMES = ("timestamp", "created_at", "created", "startTime", "start_time", "time", "ts")
#: Wrappers around a request: a log's record, an HTTP request, its body.
_MOST_WRAPPERS = 4


def is_chat(value: Mapping[str, Any]) -> bool:
    """Whether an object is a request, an answer, or both."""
    return _request(value) is not None or _has_answer(value)


class ChatLogs:
    """Reads records one after the other, and follows `previous_response_id` from answer to answer."""

    def __init__(self) -> None:
        self._threads: dict[str, str] = {}

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchange of a record."""
        request = _request(value)
        request_events = [] if request is None else events_of(request)
        answered = _answer_events(value)
        if not request_events and not answered:
            return
        trace = _id(value, TRACES)
        single = "" if trace else _id(value, _SINGLE)
        given = trace or single
        trace, conversation = self._thread(value, given), _id(value, CONVERSATIONS)
        events = exchange_of(request_events, answered)
        yield LoggedExchange(events, trace, conversation, _time(value), bool(single), not given)

    def _thread(self, value: Mapping[str, Any], given: str) -> str:
        """What ties this record to others: an id that the log gives, or the thread of answers of Responses."""
        layers = list(_layers(value))
        record_id = next((first_field(layer, "id") for layer in layers if _is_response(layer)), "")
        before = next((previous for layer in layers if (previous := first_field(layer, "previous_response_id"))), "")
        trace = given or (self._threads.get(before, before) if before else record_id)
        if record_id and trace:
            self._threads[record_id] = trace
        return trace

    def finish(self) -> Iterator[LoggedExchange]:
        """Nothing: each record is complete."""
        return iter(())


def _layers(value: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """A record and the objects that it wraps: request and response, and their bodies."""
    yield value
    if depth < _MOST_WRAPPERS:
        for key in (*_REQUESTS, *_RESPONSES, *_ABOUT):
            inner = json_of(value.get(key))
            if isinstance(inner, dict):
                yield from _layers(inner, depth + 1)


def _id(value: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    for layer in _layers(value):
        if identifier := first_field(layer, *keys):
            return identifier
        conversation = layer.get("conversation")  # of Responses
        if keys is CONVERSATIONS and isinstance(conversation, str | dict):
            return first_field({"id": conversation} if isinstance(conversation, str) else conversation, "id")
    return ""


def _time(value: Mapping[str, Any]) -> float | None:
    times = (seconds_of(layer.get(key)) for layer in _layers(value) for key in _TIMES)
    return next((time for time in times if time is not None), None)


def _request(value: Mapping[str, Any], depth: int = 0) -> Any:
    """The messages of a request, or its text; None if there is no request."""
    for key in ("messages", "contents"):
        if is_messages(value.get(key)):
            return value[key]
    if isinstance(value.get("contents"), str) and text_of(value["contents"]):  # Gemini's SDK
        return value["contents"]
    for key in ("input", "prompt"):
        given = json_of(value.get(key))
        if is_messages(given):
            return given
        # The text of a request to Responses or Completions; other records have an `input`, too.
        if isinstance(given, str) and text_of(given) and any(each in value for each in _BESIDE_TEXT):
            return given
    if depth < _MOST_WRAPPERS:
        for key in _REQUESTS:
            inner = json_of(value.get(key))
            if isinstance(inner, dict) and (request := _request(inner, depth + 1)) is not None:
                return request
    return None


def _answers(value: Mapping[str, Any]) -> bool:
    """Whether an object is itself the answer of a model."""
    if any(isinstance(value.get(key), list) for key in _ANSWERS):
        return True
    if isinstance(value.get("output"), list) and _is_response(value):
        return True
    return value.get("role") == "assistant" and any(key in value for key in ("content", "tool_calls", "blocks"))


def _is_response(value: Mapping[str, Any]) -> bool:
    return value.get("object") == "response" or (isinstance(value.get("output"), list) and is_messages(value["output"]))


def _has_answer(value: Mapping[str, Any], depth: int = 0) -> bool:
    if _answers(value):
        return True
    inner = (json_of(value.get(key)) for key in (*_RESPONSES, "body"))
    return depth < _MOST_WRAPPERS and any(isinstance(each, dict) and _has_answer(each, depth + 1) for each in inner)


def _answer_events(value: Mapping[str, Any], depth: int = 0) -> list[Event]:
    if _answers(value):
        return answer_events(value)
    for key in (*_RESPONSES, "body"):
        inner = json_of(value.get(key))
        if isinstance(inner, dict) and depth < _MOST_WRAPPERS:
            events = _answer_events(inner, depth + 1) or (answer_events(inner) if depth == 0 and key != "body" else [])
        elif isinstance(inner, list | str) and key != "body":
            events = answer_events(inner)
        else:
            continue
        if events:
            return events
    return []
