"""Fields of untrusted records: texts, times, JSON inside a text, the first of several names."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bench.base import strict_json

#: Maximum characters of a text. A longer one is a document and not a request.
MOST_TEXT = 20_000
#: Placeholders of frameworks for texts that they were configured to hide: Koog and OpenInference.
_HIDDEN = frozenset({"HIDDEN:non-empty", "HIDDEN:empty", "__REDACTED__"})
#: Field names in all formats: the tool, its arguments, and the ids that link calls and results.
NAMES = ("name", "toolName", "tool_name")
ARGUMENTS = ("arguments", "args", "input", "parameters", "tool_kwargs", "raw_input")
CALL_IDS = ("tool_call_id", "toolCallId", "tool_use_id", "call_id", "tool_id", "id")


def text_of(value: Any) -> str:
    """A text that can be stored: an unpaired surrogate, left by a cut stream, becomes U+FFFD."""
    if not isinstance(value, str):
        return ""
    text: str = value
    if text in _HIDDEN:
        return ""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "").strip()


def first_field(record: Mapping[str, Any], *keys: str) -> str:
    """The first of these fields that is a text or a whole number, as a text; empty if there is none."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def first_time(record: Mapping[str, Any], *keys: str) -> float | None:
    """The first of these fields that is a time, in seconds since 1970; None if there is none."""
    return next((time for key in keys if (time := seconds_of(record.get(key))) is not None), None)


def qualified_name(server: str, name: str) -> str:
    """The name of a tool, after that of its server if the log has one."""
    return f"{server}/{name}" if server and name else name


def json_of(value: Any) -> Any:
    """The value of a text that is a JSON object or list; anything else unchanged.

    Raises:
        RepeatedKey: an object in it repeats a key.
    """
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        try:
            return strict_json.loads(value)
        except strict_json.RepeatedKey:
            raise
        except (ValueError, RecursionError):
            return value
    return value


def object_of(value: Any) -> Any:
    """The input or output of a tool: JSON, or the `repr` that LangChain logs; anything else unchanged.

    None for an object that repeats a key: models may write such arguments, and their meaning is unknown.
    """
    try:
        given = json_of(value)
    except strict_json.RepeatedKey:
        return None
    if isinstance(given, str) and given.startswith("{'") and len(given) <= MOST_TEXT:
        try:
            return ast.literal_eval(given)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return given
    return given


def first_value(record: Mapping[str, Any], *keys: str) -> Any:
    """The first of these fields that is not null; None if there is none."""
    return next((value for key in keys if (value := record.get(key)) is not None), None)


#: Seconds per unit, by size: numbers above the bound are in this unit. 1e11 seconds are the year 5138.
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
