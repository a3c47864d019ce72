"""Logs of MCP gateways and servers: JSON-RPC messages, bare or in records, and records of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bench.importing.traces.events import (
    Call,
    Event,
    LoggedExchange,
    LoggedRequest,
    Outcome,
    failed_of,
    first_field,
    json_of,
    seconds_of,
    text_of,
)

_SESSIONS = ("session_id", "sessionId", "mcp_session_id", "mcp-session-id", "Mcp-Session-Id", "conversation_id")
_SERVERS = ("server_name", "serverName", "server", "upstream", "backend")
_TOOLS = ("tool_name", "toolName", "tool")
_TIMES = ("timestamp", "time", "ts", "@timestamp", "created_at")
#: What logs call the words of the user. The reason that a model gives for a call is not the user's.
_TEXTS = ("user_query", "user_message", "user_prompt", "user_request", "user_input", "original_query", "prompt")
_MOST_DEPTH = 5


def is_gateway(value: Mapping[str, Any]) -> bool:
    """Whether an object is or holds a JSON-RPC message, or is the record of a call."""
    return _message(value) is not None or _is_record(value)


def _is_record(value: Mapping[str, Any]) -> bool:
    """A record that names a tool and says that it was called, as `{"type": "tool_call", "tool_name": ...}`."""
    told = str(value.get("type") or value.get("event") or value.get("event_type") or value.get("method") or "").lower()
    about = any(key in value for key in (*_SESSIONS, *_SERVERS, "arguments"))
    return (
        bool(first_field(value, *_TOOLS))
        and about
        and any(word in told for word in ("tool_call", "toolcall", "tools/call"))
    )


class Gateways:
    """Reads records one after the other."""

    def __init__(self, session: str) -> None:
        """`session`: what bare JSON-RPC messages belong to; they are one client's, who has the server for itself."""
        self._session = session
        self._calls: dict[tuple[str, str], str] = {}
        self._count = 0

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchange of a call or of its response; nothing for other messages."""
        message = _message(value)
        layers = [value] if message is None else list(_layers(value))
        session = next((identifier for layer in layers if (identifier := first_field(layer, *_SESSIONS))), "")
        if message is None:
            call = _read_recorded_call(value)
        elif message.get("method") == "tools/call":
            call = _read_call(message, value)
        else:
            yield from self._response(message, session or (self._session if message is value else ""))
            return
        if call is None:
            return
        if any(layer.get("error") or failed_of(layer) for layer in layers):
            call = replace(call, failed=True)
        text = next((text_of(first_field(layer, *_TEXTS)) for layer in layers if first_field(layer, *_TEXTS)), "")
        times = (seconds_of(layer.get(key)) for layer in layers for key in _TIMES)
        events: tuple[Event, ...] = (LoggedRequest(text), call) if text else (call,)
        if not session and message is value and not text:
            session = self._session
        if message is not None and session and (number := first_field(message, "id")):
            # Ids of JSON-RPC may start again within a session, so a response is that of the last call by its id.
            self._count += 1
            call = replace(call, call_id=f"{session} {self._count}")
            self._calls[session, number] = call.call_id
            events = (*events[:-1], call)
        yield LoggedExchange(events, session, session, next((time for time in times if time is not None), None))

    def _response(self, message: Mapping[str, Any], session: str) -> Iterator[LoggedExchange]:
        call_id = self._calls.pop((session, first_field(message, "id")), "")
        if call_id:
            failed = bool(message.get("error")) or failed_of(message)
            yield LoggedExchange((Outcome(call_id, failed),), session, session)

    def finish(self) -> Iterator[LoggedExchange]:
        """Nothing: each record is complete."""
        return iter(())


def _layers(value: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """A record and all objects in it but the arguments of calls, which are the tool's."""
    yield value
    if depth < _MOST_DEPTH:
        for key, given in value.items():
            inner = json_of(given)
            if isinstance(inner, dict) and key not in {"arguments", "result"}:
                yield from _layers(inner, depth + 1)


def _message(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The JSON-RPC message in a record, a call if there is one; None if there is none."""
    messages = [
        layer
        for layer in _layers(value)
        if "jsonrpc" in layer or (layer.get("method") == "tools/call" and isinstance(layer.get("params"), dict))
    ]
    return next((each for each in messages if each.get("method") == "tools/call"), messages[0] if messages else None)


def _read_call(message: Mapping[str, Any], record: Mapping[str, Any]) -> Call | None:
    params = json_of(message.get("params"))
    name = first_field(params, "name") if isinstance(params, dict) else ""
    if not name:
        return None
    server = next(
        (
            server_name
            for layer in _layers(record)
            if layer is not params and (server_name := first_field(layer, *_SERVERS))
        ),
        "",
    )
    return Call(f"{server}/{name}" if server else name, params.get("arguments"))


def _read_recorded_call(value: Mapping[str, Any]) -> Call | None:
    name, server = first_field(value, *_TOOLS), first_field(value, *_SERVERS)
    arguments = next((value[key] for key in ("arguments", "args", "input") if value.get(key) is not None), None)
    return Call(f"{server}/{name}" if server else name, arguments) if name else None
