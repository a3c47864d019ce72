"""What all logs come down to: requests of users, replies, calls of tools and their outcomes, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from bench.base.text import one_line
from bench.traces.results import Ending


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
        ended: how it ended; None if this record does not say.
        hosted: the host of the model executes it: web search, code, tool search. No tool of a library.
        executed: the record is of the execution, not of the message that asks for it.
    """

    tool: str
    arguments: Any = None
    call_id: str = ""
    ended: Ending | None = None
    hosted: bool = False
    executed: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call: the result of a tool, as messages have it.

    Attributes:
        call_id: the id of the call; empty if the log has none.
        ended: how the call ended.
        tool: the name of the tool; empty if the result does not have it.
        lists_tools: the result refers to tools, so the call was a search for them.
    """

    call_id: str
    ended: Ending
    tool: str = ""
    lists_tools: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part of a record that bench does not know.

    Attributes:
        what: what it is, as `a message of role 'critic'`.
        more: what tells it from others of its kind.
    """

    what: str
    more: str = ""


#: Nothing can be said of it: which tool, or whether one at all.
NAMELESS = Unknown("a call without a name")


def unknown(what: str, name: Any) -> Unknown:
    """An unknown part by the name that the log gives it."""
    return Unknown(f"{what} {one_line(str(name), 80)!r}")


Event: TypeAlias = LoggedRequest | LoggedReply | Call | Outcome | Unknown


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
        span: the id of the span or run that the record is; empty if it is none.
        parent: the id of the span or run around that one.
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
