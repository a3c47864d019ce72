"""How a call ended, judged by its result in the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from bench.traces.fields import CALL_IDS, first_field, json_of, object_of

#: How a call ended: without an error, with an error that the log marks, or with one that only the result's text shows.
Ending: TypeAlias = Literal["ok", "error", "error text"]
_WORST: tuple[Ending | None, ...] = ("error", "error text", "ok", None)


def worst(*endings: Ending | None) -> Ending | None:
    """How a call ended according to several records: an error in any of them counts; None if none says."""
    return min(endings, key=_WORST.index)


def has_failed(ending: Ending | None) -> bool:
    """Whether an ending is an error."""
    return ending in ("error", "error text")


#: How results report a failed call. MCP, Anthropic and LlamaIndex have a flag, LangChain and Responses a status,
#: pydantic-ai an outcome, Vercel's SDK a type; Gemini and many tools return an `error`. A `status` inside the result
#: belongs to the tool.
_FLAGS = ("is_error", "isError")
_STATES = ("status", "outcome")
_FAILED = frozenset({"error", "failed", "failure", "retried", "denied"})
_FAILED_TYPES = frozenset({"error-text", "error-json", "execution-denied"})
_RETURNED = ("response", "output", "tool_output", "content", "blocks", "result")
#: The single field around a tool's output in Vercel's SDK, Gemini and FastMCP.
_WRAPPERS = ({"value"}, {"output"}, {"result"})
#: Results that are error messages, as docs/traffic.md lists them: one line after `Error:`, as tools and agents write
#: it, and what frameworks return in place of a result. A text with an error further down does not count.
_FAILURES = (
    re.compile(r"error:[^\n]*", re.IGNORECASE),
    re.compile(r"Error: .*\n ?Please fix your mistakes\.", re.DOTALL),  # LangGraph
    re.compile(r"Error (executing|calling|invoking) tool\b.*", re.DOTALL),  # MCP's Python SDK, FastMCP, LangGraph
    re.compile(r"An error occurred while running the tool\b.*", re.DOTALL),  # the Agents SDK
    re.compile(r"MCP error -\d+: .*", re.DOTALL),  # MCP's TypeScript SDK
    re.compile(r"<tool_use_error>.*", re.DOTALL),  # Claude Code
    re.compile(r"Encountered error: .*", re.DOTALL),  # LlamaIndex
)


def ending_of(result: Any) -> Ending:
    """How a call ended, by the tool's result and its surroundings in the log."""
    if not isinstance(result, dict):
        return returned_ending(result)
    if any(result.get(flag) is True for flag in _FLAGS):
        return "error"
    if any(isinstance(result.get(state), str) and result[state].lower() in _FAILED for state in _STATES):
        return "error"
    return worst(*(returned_ending(result[key]) for key in _RETURNED if key in result), "ok") or "ok"


def message_of(output: Any) -> Mapping[str, Any]:
    """The tool message in a span's output, which names the call; empty if the output is something else."""
    given = object_of(output)
    for key in ("output", "kwargs", "data"):
        given = given[key] if isinstance(given, dict) and isinstance(given.get(key), dict) else given
    return given if isinstance(given, dict) and any(key in given for key in CALL_IDS[:2]) else {}


def span_ending(output: Any) -> Ending | None:
    """How a call ended, by the output of its span; None without one."""
    given, message = object_of(output), message_of(output)
    if message or given is None:
        return ending_of(message) if message else None
    return returned_ending(given["output"] if isinstance(given, dict) and "output" in given else given)


def returned_ending(value: Any) -> Ending:
    """How a call ended, by the tool's output: a text, an object, or parts with one text, as in MCP."""
    value = object_of(value)
    if isinstance(value, str) and value.startswith('"'):  # Vercel's SDK writes a text as JSON
        value = json_of(f"[{value}]")
    if isinstance(value, list) and len(value) == 1:
        value = object_of(value[0].get("text") if isinstance(value[0], dict) else value[0])
    if isinstance(value, str):
        return "error text" if any(form.fullmatch(value.strip()) for form in _FAILURES) else "ok"
    if not isinstance(value, dict):
        return "ok"
    if any(value.get(flag) is True for flag in _FLAGS) or value.get("error"):
        return "error"
    if first_field(value, "type") in _FAILED_TYPES:
        return "error"
    if (alone := value.keys() - {"type"}) in _WRAPPERS:
        return returned_ending(value[alone.pop()])
    parts = value.get("content")
    return returned_ending(parts) if isinstance(parts, list) else "ok"
