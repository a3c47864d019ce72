"""What all logs come down to: requests of users, replies, calls of tools and their outcomes, in order."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

#: Characters of one text that are kept. A longer one is a document and no request.
MOST_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A turn of the user. The text is empty if the turn has none, as for an image."""

    text: str


@dataclass(frozen=True, slots=True)
class LoggedReply:
    """What the assistant said to the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool.

    Attributes:
        tool: its name, after `server/` if the log names the server.
        arguments: as logged.
        call_id: what its outcome, and the span that executes it, name it by; empty if the log has no ids.
        failed: whether it failed; None if this record does not say.
        hosted: the host of the model executes it: web search, code, tool search. No tool of a library.
        span: the id of the span or run that executes it; empty for a call in a message.
        parent: the id of the span or run around that one.
    """

    tool: str
    arguments: Any = None
    call_id: str = ""
    failed: bool | None = None
    hosted: bool = False
    span: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call: the result of a tool, as messages have it.

    Attributes:
        call_id: the id of the call; empty if the log has none.
        failed: whether the call failed.
        lists_tools: the result refers to tools, so the call was a search for them.
    """

    call_id: str
    failed: bool
    lists_tools: bool = False


Event: TypeAlias = LoggedRequest | LoggedReply | Call | Outcome
#: What frameworks write in place of a text that they were told to hide: Koog and OpenInference.
_HIDDEN = frozenset({"HIDDEN:non-empty", "HIDDEN:empty", "__REDACTED__"})
#: The fields that records of all forms call things by: the tool, its arguments, and what ties calls to results.
NAMES = ("name", "toolName", "tool_name")
ARGUMENTS = ("arguments", "args", "input", "parameters", "tool_kwargs", "raw_input")
CALL_IDS = ("tool_call_id", "toolCallId", "tool_use_id", "call_id", "tool_id", "id")


@dataclass(frozen=True, slots=True)
class LoggedExchange:
    """What one record of a log says.

    Attributes:
        events: in order. Without a request, they go on from what was last asked in the trace, or in the conversation.
        trace: what ties records of one piece of work together; empty if nothing does.
        conversation: the id of the conversation or session; empty if the log has none.
        time: seconds since 1970; None if the log does not say.
        answers: the trace is the id of an answer that the next request may go on from. Where none does, each request
            repeats the conversation, and its first request tells conversations apart.
        single: the trace is the id of one request. If the logs have several under it, calls without one of them belong
            to nobody knows which.
    """

    events: tuple[Event, ...]
    trace: str = ""
    conversation: str = ""
    time: float | None = None
    single: bool = False
    answers: bool = False


def text_of(value: Any) -> str:
    """A text as it can be stored: half of a surrogate pair, which a cut stream leaves, becomes U+FFFD."""
    if not isinstance(value, str):
        return ""
    text: str = value
    if text in _HIDDEN:
        return ""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "").strip()


def first_field(record: Mapping[str, Any], *keys: str) -> str:
    """The first of these fields that is a text or a whole number, as a text; empty if none is."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def json_of(value: Any) -> Any:
    """The value of a text that is the JSON of an object or a list; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def object_of(value: Any) -> Any:
    """What a text is the JSON of, or the `repr` of, which LangChain logs; anything else as it is."""
    given = json_of(value)
    if isinstance(given, str) and given.startswith("{'") and len(given) <= MOST_TEXT:
        try:
            return ast.literal_eval(given)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return given
    return given


def first_value(record: Mapping[str, Any], *keys: str) -> Any:
    """The first of these fields that is not null; None if none is."""
    for key in keys:
        if (value := record.get(key)) is not None:
            return value
    return None


#: How results say that their call failed. MCP, Anthropic and LlamaIndex have a flag, LangChain and Responses a status,
#: pydantic-ai an outcome; Gemini and many tools have an `error` in what they return. A `status` in there is the tool's.
_FLAGS = ("is_error", "isError")
_STATES = ("status", "outcome")
_FAILED = frozenset({"error", "failed", "failure", "retried", "denied"})
_RETURNED = ("response", "output", "tool_output", "content", "result")
#: Texts that frameworks return in place of a result: the Agents SDK, MCP's Python SDK, LangGraph.
_FAILURES = re.compile(
    r"An error occurred while running the tool|Error (executing|calling) tool |Error: \S+ is not a valid tool"
)


def failed_of(result: Any) -> bool:
    """Whether the result of a tool, with what the log has around it, says that its call failed."""
    if not isinstance(result, dict):
        return isinstance(result, str) and bool(_FAILURES.match(result))
    if any(result.get(flag) is True for flag in _FLAGS):
        return True
    if any(isinstance(result.get(state), str) and result[state].lower() in _FAILED for state in _STATES):
        return True
    for key in _RETURNED:
        if key not in result:
            continue
        returned = json_of(result[key])
        if isinstance(returned, list) and len(returned) == 1 and isinstance(returned[0], dict):
            returned = json_of(returned[0].get("text"))
        if isinstance(returned, str) and _FAILURES.match(returned):
            return True
        if isinstance(returned, dict) and (any(returned.get(flag) is True for flag in _FLAGS) or returned.get("error")):
            return True
    return False


#: Seconds per unit, by size: what is above the bound is in this unit. 1e11 seconds are the year 5138.
_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))


def seconds_of(value: Any) -> float | None:
    """A time as seconds since 1970: a number of seconds, milli-, micro- or nanoseconds, or a date of ISO 8601 (UTC)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return _date(value) if isinstance(value, str) else None
    scale = next((scale for bound, scale in _UNITS if number > bound), 1.0)
    return number * scale if 0 < number < 1e20 else None


def _date(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
