"""The formats of logs, recognised record by record."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from bench.base.text import one_line
from bench.traces.agents import Agents, is_agents
from bench.traces.chatlogs import CONVERSATIONS, TRACES, ChatLogs, is_chat
from bench.traces.events import LoggedExchange
from bench.traces.fields import first_field
from bench.traces.gateways import Gateways, is_gateway
from bench.traces.langfuse import is_langfuse, read_langfuse
from bench.traces.langsmith import is_langsmith, read_langsmith
from bench.traces.messages import is_messages
from bench.traces.opentelemetry import OpenTelemetry, is_opentelemetry

TrafficForm = Literal["otel", "openai", "langfuse", "langsmith", "agents", "mcp"]
TRAFFIC_FORMS: tuple[TrafficForm, ...] = get_args(TrafficForm)
#: The most specific first: a trace of Langfuse has `input` and `output`, as the log of a chat may have.
_RECOGNISED: dict[TrafficForm, Callable[[Mapping[str, Any]], bool]] = {
    "otel": is_opentelemetry,
    "langsmith": is_langsmith,
    "langfuse": is_langfuse,
    "agents": is_agents,
    "mcp": is_gateway,
    "openai": is_chat,
}
#: Objects that only contain a list of records, such as an API page.
_LISTS = ("spans", "data", "runs", "traces", "observations", "logs", "records", "items", "results", "activities")
_MOST_DEPTH = 4


def _conversation(value: Any) -> Any:
    """A list of messages, as frameworks store them, as one record; anything else unchanged.

    Rows of a table of messages, each with the id of its conversation, are not a conversation.
    """
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, dict) and is_messages(value) and recognise(first) is None:
        is_row = "parts" not in first and any(key in first for key in (*CONVERSATIONS, *TRACES))
        return value if is_row else {"messages": value}
    return value


def recognise(value: Mapping[str, Any]) -> TrafficForm | None:
    """The format of a record; None if it is unknown."""
    return next((form for form, is_form in _RECOGNISED.items() if is_form(value)), None)


class Records:
    """Reads the records of one file, each in its format.

    Attributes:
        counts: format -> number of records.
    """

    def __init__(self, form: TrafficForm | None, file: str) -> None:
        """`form`: the format of all records; None to recognise each. `file`: an id of the file."""
        self._form = form
        self._spans = OpenTelemetry()
        self._readers: dict[TrafficForm, Callable[[Mapping[str, Any]], Iterable[LoggedExchange]]] = {
            "otel": self._spans.read,
            "openai": ChatLogs().read,
            "langfuse": read_langfuse,
            "langsmith": read_langsmith,
            "agents": Agents(file).read,
            "mcp": Gateways(file).read,
        }
        self.counts: Counter[TrafficForm] = Counter()

    def read(self, value: Any) -> tuple[list[LoggedExchange], list[str]]:
        """The exchanges of a value: a record, a list of records, or a list of messages, which is one record.

        Also returns descriptions of the records in unknown formats.
        """
        unknown: list[str] = []
        return list(self._read(value, unknown, 0)), unknown

    def _read(self, value: Any, unknown: list[str], depth: int) -> Iterator[LoggedExchange]:
        value = _conversation(value)
        if isinstance(value, list) and depth < _MOST_DEPTH:
            for each in value:
                yield from self._read(each, unknown, depth + 1)
            return
        form = recognise(value) if isinstance(value, dict) else None
        if isinstance(value, dict) and form is None and depth < _MOST_DEPTH:
            inner = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
            if inner is not None:
                yield from self._read(inner, unknown, depth + 1)
                return
        known = form is not None and self._form in (None, form)
        form = form if self._form is None else self._form
        exchanges = [] if form is None or not isinstance(value, dict) else list(self._readers[form](value))
        # A record may be read in the user's chosen format although it does not look like it.
        if form is None or not (known or any(exchange.events for exchange in exchanges)):
            unknown.append(_describe(value))
            return
        self.counts[form] += 1
        yield from exchanges

    def finish(self) -> Iterator[LoggedExchange]:
        """The exchanges that several records form together."""
        return self._spans.finish()


def _describe(value: Any) -> str:
    """A description of a record in an unknown format: its type, or its fields."""
    if not isinstance(value, dict):
        return one_line(json.dumps(value), 40)
    kind = first_field(value, "type", "event", "object")
    fields = ", ".join(map(repr, list(value)[:4])) + (", ..." if len(value) > 4 else "")
    return one_line(f"type {kind!r}" if kind else f"fields {fields}", 80)
