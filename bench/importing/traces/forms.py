"""The forms that logs come in, recognised record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, get_args

from bench.importing.traces.agents import Agents, is_agents
from bench.importing.traces.chatlogs import CONVERSATIONS, TRACES, ChatLogs, is_chat
from bench.importing.traces.events import LoggedExchange
from bench.importing.traces.gateways import Gateways, is_gateway
from bench.importing.traces.langfuse import Langfuse, is_langfuse
from bench.importing.traces.langsmith import LangSmith, is_langsmith
from bench.importing.traces.messages import is_messages
from bench.importing.traces.opentelemetry import OpenTelemetry, is_opentelemetry

TrafficForm = Literal["otel", "openai", "langfuse", "langsmith", "agents", "mcp"]
TRAFFIC_FORMS: tuple[TrafficForm, ...] = get_args(TrafficForm)
#: Objects that only hold a list of records, as the page of an API.
_LISTS = ("spans", "data", "runs", "traces", "observations", "logs", "records", "items", "results", "activities")
_MOST_DEPTH = 4


def _conversation(value: Any) -> Any:
    """A list of messages, as frameworks keep them, as the record that it is; anything else as it is.

    Rows of a table of messages, each with the id of its conversation, are no conversation.
    """
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, dict) and is_messages(value) and recognise(first) is None and not _is_row(first):
        return {"messages": value}
    return value


def _is_row(message: Mapping[str, Any]) -> bool:
    return "parts" not in message and any(key in message for key in (*CONVERSATIONS, *TRACES))


class Parser(Protocol):
    """Reads the records of one form in one file."""

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchanges of a record."""
        ...

    def finish(self) -> Iterator[LoggedExchange]:
        """The exchanges that records make together."""
        ...


def recognise(value: Mapping[str, Any]) -> TrafficForm | None:
    """The form of a record; None if it has none."""
    # The most telling first: a trace of Langfuse has `input` and `output`, as the log of a chat may have.
    if is_opentelemetry(value):
        return "otel"
    if is_langsmith(value):
        return "langsmith"
    if is_langfuse(value):
        return "langfuse"
    if is_agents(value):
        return "agents"
    if is_gateway(value):
        return "mcp"
    return "openai" if is_chat(value) else None


class Records:
    """Reads the records of one file, each in its form.

    Attributes:
        counts: form -> records.
        unknown: records in no form.
    """

    def __init__(self, form: TrafficForm | None, file: str) -> None:
        """`form`: read all records as this one; None to recognise each. `file`: an id of the file."""
        self._form = form
        self._parsers: dict[TrafficForm, Parser] = {
            "otel": OpenTelemetry(),
            "openai": ChatLogs(),
            "langfuse": Langfuse(),
            "langsmith": LangSmith(),
            "agents": Agents(file),
            "mcp": Gateways(file),
        }
        self.counts: Counter[TrafficForm] = Counter()
        self.unknown = 0

    def read(self, value: Any, depth: int = 0) -> Iterator[LoggedExchange]:
        """The exchanges of a value: a record, a list of records, or a list of messages, which is one record."""
        value = _conversation(value)
        if isinstance(value, list) and depth < _MOST_DEPTH:
            for each in value:
                yield from self.read(each, depth + 1)
            return
        form = recognise(value) if isinstance(value, dict) else None
        if isinstance(value, dict) and form is None and depth < _MOST_DEPTH:
            inner = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
            if inner is not None:
                yield from self.read(inner, depth + 1)
                return
        form = form if self._form is None else self._form
        if form is None or not isinstance(value, dict):
            self.unknown += 1
            return
        self.counts[form] += 1
        yield from self._parsers[form].read(value)

    def finish(self) -> Iterator[LoggedExchange]:
        """The exchanges that records make together."""
        for parser in self._parsers.values():
            yield from parser.finish()
