"""The common form of all logs: requests of users, replies, calls of tools and their outcomes, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from bench.base.text import one_line
from bench.traces.results import Ending


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A user turn. The text is empty if the turn has none, as for an image."""

    text: str


@dataclass(frozen=True, slots=True)
class LoggedReply:
    """What the assistant said to the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool.

    Attributes:
        tool: its name, with `server/` in front if the log names the server.
        arguments: as logged.
        call_id: the id that its outcome, and the span that executes it, refer to; empty if the log has none.
        ended: how it ended; None if this record does not say.
        hosted: the model's host executes it (web search, code, tool search), so it is not a tool of a library.
        executed: the record is about the execution, not the message that requests it.
    """

    tool: str
    arguments: Any = None
    call_id: str = ""
    ended: Ending | None = None
    hosted: bool = False
    executed: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call: the result of a tool, as in messages.

    Attributes:
        call_id: the id of the call; empty if the log has none.
        ended: how the call ended.
        tool: the name of the tool; empty if the result lacks it.
        lists_tools: the result refers to tools, so the call was a search for them.
    """

    call_id: str
    ended: Ending
    tool: str = ""
    lists_tools: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown part of a record.

    Attributes:
        what: its description, such as `a message of role 'critic'`.
        more: what distinguishes it from others of its kind.
    """

    what: str
    more: str = ""


#: Nothing is known about it: neither the tool, nor whether there is one.
NAMELESS = Unknown("a call without a name")


def unknown(what: str, name: Any) -> Unknown:
    """An unknown part by its name in the log."""
    return Unknown(f"{what} {one_line(str(name), 80)!r}")


Event: TypeAlias = LoggedRequest | LoggedReply | Call | Outcome | Unknown


@dataclass(frozen=True, slots=True)
class LoggedExchange:
    """The content of one log record.

    Attributes:
        events: in order. Without a request, they continue the last request in the trace or conversation.
        trace: links the records of one piece of work; empty if nothing does.
        conversation: the id of the conversation or session; empty if the log has none.
        time: seconds since 1970; None if unknown.
        answers: the trace is the id of an answer that the next request may continue. Otherwise each request repeats
            the conversation, and its first request identifies the conversation.
        single: the trace is the id of one request. If the logs have several under it, calls that match none of them
            cannot be assigned.
        span: the id of the span or run of the record; empty if it has none.
        parent: the id of the enclosing span or run.
        end: when the span ended, like `time`.
    """

    events: tuple[Event, ...]
    trace: str = ""
    conversation: str = ""
    time: float | None = None
    single: bool = False
    answers: bool = False
    span: str = ""
    parent: str = ""
    end: float | None = None
