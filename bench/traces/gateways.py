"""Logs of MCP gateways and servers: JSON-RPC messages, bare or in records, and records of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.traces.events import NAMELESS, Call, LoggedExchange, LoggedRequest, Outcome
from bench.traces.fields import ARGUMENTS, first_field, first_time, first_value, json_of, qualified_name, text_of
from bench.traces.results import Ending, ending_of, worst

_SESSIONS = ("session_id", "sessionId", "mcp_session_id", "mcp-session-id", "Mcp-Session-Id", "conversation_id")
_SERVERS = ("server_name", "serverName", "server", "upstream", "backend")
_TOOLS = ("tool_name", "toolName", "tool")
_TIMES = ("timestamp", "time", "ts", "@timestamp", "created_at")
#: Fields with the user's words. A model's reason for a call is not the user's.
_TEXTS = ("user_query", "user_message", "user_prompt", "user_request", "user_input", "original_query", "prompt")
_MOST_DEPTH = 5


def is_gateway(value: Mapping[str, Any]) -> bool:
    """Whether an object is or contains a JSON-RPC message, or is the record of a call."""
    return _message(value) is not None or _is_record(value)


def _is_record(value: Mapping[str, Any]) -> bool:
    """A record that names a tool and says it was called, such as `{"type": "tool_call", "tool_name": ...}`."""
    told = str(value.get("type") or value.get("event") or value.get("event_type") or value.get("method") or "").lower()
    about = any(key in value for key in (*_SESSIONS, *_SERVERS, "arguments"))
    return (
        bool(first_field(value, *_TOOLS))
        and about
        and any(word in told for word in ("tool_call", "toolcall", "tools/call"))
    )


class Gateways:
    """Reads records in order."""

    def __init__(self, session: str) -> None:
        """`session`: the session of bare JSON-RPC messages, which come from the server's only client."""
        self._session = session
        self._calls: dict[tuple[str, str], str] = {}
        self._count = 0

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchange of a call or of its response; empty for other messages."""
        message = _message(value)
        layers = [value] if message is None else list(_layers(value))
        session = next((identifier for layer in layers if (identifier := first_field(layer, *_SESSIONS))), "")
        if message is not None and message.get("method") != "tools/call":
            session = session or (self._session if message is value else "")
            if call_id := self._calls.pop((session, first_field(message, "id")), ""):
                yield LoggedExchange((Outcome(call_id, _ending(message)),), session, session)
            return
        text = next((text_of(first_field(layer, *_TEXTS)) for layer in layers if first_field(layer, *_TEXTS)), "")
        if not session and message is value and not text:
            session = self._session
        call_id, name, arguments = "", first_field(value, *_TOOLS), first_value(value, *ARGUMENTS[:3])
        if message is not None:
            params = json_of(message.get("params"))
            params = params if isinstance(params, dict) else {}
            layers = [layer for layer in layers if layer is not params]
            name, arguments = first_field(params, "name"), params.get("arguments")
            if session and (number := first_field(message, "id")):
                # JSON-RPC ids may restart within a session, so a response belongs to the last call with its id.
                self._count += 1
                call_id = self._calls[session, number] = f"{session} {self._count}"
        tool = qualified_name(next((server for each in layers if (server := first_field(each, *_SERVERS))), ""), name)
        ended = worst(*map(_ending, layers))
        call = Call(tool, arguments, call_id, ended if ended != "ok" else None, executed=True) if name else NAMELESS
        time = next((time for layer in layers if (time := first_time(layer, *_TIMES)) is not None), None)
        yield LoggedExchange((LoggedRequest(text), call) if text else (call,), session, session, time)


def _ending(layer: Mapping[str, Any]) -> Ending:
    return "error" if layer.get("error") else ending_of(layer)


def _layers(value: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """A record and all objects in it, except the arguments of calls, which belong to the tool."""
    yield value
    if depth < _MOST_DEPTH:
        for key, given in value.items():
            inner = json_of(given)
            if isinstance(inner, dict) and key not in {"arguments", "result"}:
                yield from _layers(inner, depth + 1)


def _message(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The JSON-RPC message in a record, preferably a call; None if there is none."""
    messages = [
        layer
        for layer in _layers(value)
        if "jsonrpc" in layer or (layer.get("method") == "tools/call" and isinstance(layer.get("params"), dict))
    ]
    return next((each for each in messages if each.get("method") == "tools/call"), messages[0] if messages else None)
