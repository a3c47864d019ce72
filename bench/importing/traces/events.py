"""What all logs come down to: requests of users, replies and calls of tools, in order."""

from __future__ import annotations

import json
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
    """A call of a tool: its name, after `server/` if the log names the server, and its arguments as logged."""

    tool: str
    arguments: Any = None


Event: TypeAlias = LoggedRequest | LoggedReply | Call


@dataclass(frozen=True, slots=True)
class LoggedExchange:
    """What one record of a log says.

    Attributes:
        events: in order. Without a request, they go on from what was last asked in the trace, or in the conversation.
        trace: what ties records of one piece of work together; empty if nothing does.
        conversation: the id of the conversation or session; empty if the log has none.
        time: seconds since 1970; None if the log does not say.
        single: the trace is the id of one request. If the logs have several under it, calls without one of them belong
            to nobody knows which.
    """

    events: tuple[Event, ...]
    trace: str = ""
    conversation: str = ""
    time: float | None = None
    single: bool = False


def text_of(value: Any) -> str:
    """A text as it can be stored: half of a surrogate pair, which a cut stream leaves, becomes U+FFFD."""
    if not isinstance(value, str):
        return ""
    text: str = value
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
