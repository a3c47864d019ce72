"""From the exchanges of logs to turns: each request once, with the tools that were called for it.

A log says the same thing many times: each request to a model repeats the conversation so far, a span is told by client
and server, and a trace repeats its steps. A turn is therefore known by its trace and the requests up to it, and
all records that know it add the calls that they know.
"""

from __future__ import annotations

import ast
import bisect
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.importing.traces.events import MOST_TEXT, Call, LoggedExchange, LoggedReply, LoggedRequest, json_of, text_of

#: Earlier messages of a conversation that a turn keeps.
MOST_CONTEXT = 10
#: Texts of searches that a turn keeps.
_MOST_SEARCHES = 20
#: Versions of one turn that are compared with each other.
_MOST_COMPARED = 64
#: Arguments of a tool search that hold what is searched; some logs wrap arguments in arguments.
_MOST_WRAPPED = 3
_SEARCHED = ("query", "queries", "q", "search", "search_query", "keywords", "pattern", "text", "input", "intent")

#: When something was said: seconds since 1970 (0 if unknown), and the position in the logs.
_When = tuple[float, int]
_Key = tuple[str, bytes]


@dataclass(frozen=True)
class Turn:
    """A request of a user.

    Attributes:
        text: the request; empty if it has no text.
        tools: the tools that were called until the next request, in order, each once.
        searches: what was typed into tool searches meanwhile.
        context: (role, text) of earlier messages, oldest first.
        conversation: what turns of one conversation share.
        searched: the log has no request; the text is that of a search.
    """

    text: str
    tools: tuple[str, ...]
    searches: tuple[str, ...]
    context: tuple[tuple[str, str], ...]
    conversation: str
    searched: bool = False


@dataclass
class _Turn:
    text: str
    trace: str
    opening: str
    prefix: bytes
    context: tuple[tuple[str, str], ...]
    when: _When
    tools: dict[str, _When] = field(default_factory=dict)
    searches: dict[str, _When] = field(default_factory=dict)
    searched: bool = False

    def add(self, tool: str, when: _When) -> None:
        self.tools[tool] = min(when, self.tools.get(tool, when))

    def search(self, texts: Iterable[str], when: _When) -> None:
        for text in texts:
            self.searches[text] = min(when, self.searches.get(text, when))

    def absorb(self, other: _Turn) -> None:
        for tool, when in other.tools.items():
            self.add(tool, when)
        for text, when in other.searches.items():
            self.search([text], when)
        self.context = self.context or other.context
        self.when = min(self.when, other.when)


class Joiner:
    """Takes exchanges in any order, and gives the turns."""

    def __init__(self, search_tools: Collection[str] = ()) -> None:
        """`search_tools`: names of tools that search for tools, with their server or without."""
        self._search_tools = frozenset(search_tools)
        self._turns: dict[_Key, _Turn] = {}
        self._last: defaultdict[str, list[tuple[_When, _Key]]] = defaultdict(list)
        self._steps: defaultdict[str, list[tuple[_When, str, tuple[str, ...]]]] = defaultdict(list)
        self._conversations: dict[str, str] = {}
        self._single: set[str] = set()
        self._count = 0
        #: Calls for which the logs have no request.
        self.loose_calls = 0

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, exchange: LoggedExchange) -> None:
        """Take what one record says."""
        self._count += 1
        trace = f"trace {exchange.trace}" if exchange.trace else ""
        if not trace:
            # A record alone; if it only goes on, it does so in its conversation.
            has_request = any(isinstance(event, LoggedRequest) for event in exchange.events)
            trace = (
                f"record {self._count}"
                if has_request or not exchange.conversation
                else f"session {exchange.conversation}"
            )
        if exchange.conversation:
            self._conversations.setdefault(trace, exchange.conversation)
        when = (exchange.time or 0.0, self._count)
        turn: _Turn | None = None
        opening, prefix = "", b""
        said: list[tuple[str, str]] = []
        for event in exchange.events:
            if isinstance(event, LoggedRequest):
                prefix = hashlib.sha256(prefix + event.text.encode("utf-8", "replace")).digest()
                key = (trace, prefix)
                text = event.text[: MOST_TEXT + 1]
                opening = opening or text
                if key not in self._turns:
                    self._turns[key] = _Turn(text, trace, opening, prefix, tuple(said[-MOST_CONTEXT:]), when)
                turn = self._turns[key]
                turn.when = min(turn.when, when)
                said.append(("user", event.text[:MOST_TEXT]))
            elif isinstance(event, LoggedReply):
                said.append(("assistant", event.text[:MOST_TEXT]))
            elif turn is None:
                self._steps[trace].append((when, event.tool, self._search_texts(event)))
            elif texts := self._search_texts(event):
                turn.search(texts, when)
            elif not self._is_search(event.tool):
                turn.add(event.tool, when)
        if turn is not None:
            self._last[trace].append((when, (trace, turn.prefix)))
        if exchange.single:
            self._single.add(trace)

    def turns(self) -> list[Turn]:
        """All turns, in the order of their times, else of the logs, with those that have no text or no tool."""
        self._attach()
        kept = self._merge_turns()
        before = self._earlier(kept)
        return [
            Turn(
                turn.text,
                tuple(sorted(turn.tools, key=turn.tools.__getitem__)),
                tuple(sorted(turn.searches, key=turn.searches.__getitem__))[:_MOST_SEARCHES],
                turn.context or before.get(id(turn), ()),
                self._conversation(turn),
                turn.searched,
            )
            for turn in kept
        ]

    def _is_search(self, tool: str) -> bool:
        return tool in self._search_tools or tool.rpartition("/")[2] in self._search_tools

    def _search_texts(self, call: Call) -> tuple[str, ...]:
        return tuple(search_texts(call.arguments)) if self._is_search(call.tool) else ()

    def _conversation(self, turn: _Turn) -> str:
        """The conversation as the log names it, else the trace; of a record without any id, its first request."""
        if turn.trace in self._conversations:
            return f"conversation {self._conversations[turn.trace]}"
        if not turn.trace.startswith("record "):
            return turn.trace
        return f"opening {turn.opening}"

    def _attach(self) -> None:
        """Give calls that stand alone to the request before them, in their trace or else in their conversation."""
        of_conversation: defaultdict[str, list[tuple[_When, _Key]]] = defaultdict(list)
        for trace, requests in self._last.items():
            requests.sort()
            if trace in self._conversations:
                of_conversation[self._conversations[trace]] += requests
        for requests in of_conversation.values():
            requests.sort()
        for trace, steps in self._steps.items():
            steps.sort(key=lambda step: step[0])
            requests = self._last.get(trace) or of_conversation.get(self._conversations.get(trace, ""), [])
            if not requests:
                self._attach_searches(trace, steps)
                continue
            keys = {key for _, key in requests}
            unclear = trace in self._single and len(keys) > 1
            # The span of a call that an answer has tells nothing new, and must not go to another request: a trace may
            # hold some that the user did not make, such as one for a title.
            told = {tool for key in keys for tool in self._turns[key].tools}
            looked_up = {text for key in keys for text in self._turns[key].searches}
            for when, tool, texts in steps:
                place = bisect.bisect_right(requests, when, key=lambda pair: pair[0]) - 1
                if tool in told or (self._is_search(tool) and looked_up.issuperset(texts)):
                    continue
                if place < 0 or unclear:
                    self.loose_calls += not self._is_search(tool)
                elif texts:
                    self._turns[requests[place][1]].search(texts, when)
                else:
                    self._turns[requests[place][1]].add(tool, when)
        self._steps.clear()

    def _attach_searches(self, trace: str, steps: Sequence[tuple[_When, str, tuple[str, ...]]]) -> None:
        """Where a log has no request at all, what a model typed into a tool search is the request for what follows."""
        turn: _Turn | None = None
        for when, tool, texts in steps:
            if texts and (turn is None or turn.tools):
                prefix = hashlib.sha256(f"{trace} {when}".encode("utf-8", "replace")).digest()
                text = texts[0][: MOST_TEXT + 1]
                turn = self._turns[trace, prefix] = _Turn(text, trace, text, prefix, (), when, searched=True)
            if turn is not None and texts:
                turn.search(texts, when)
            elif turn is not None and not self._is_search(tool):
                turn.add(tool, when)
            elif not self._is_search(tool):
                self.loose_calls += 1

    def _merge_turns(self) -> list[_Turn]:
        """The turns without those that another record of the same conversation tells more of.

        Records without ids, and traces of one session, repeat earlier turns: with all their calls, with some, or
        with none. Turns with the same requests up to them are one if the calls of one are among those of the other.
        """
        same: defaultdict[tuple[str, bytes], list[_Turn]] = defaultdict(list)
        for turn in self._turns.values():
            same[self._conversation(turn), turn.prefix].append(turn)
        gone: set[int] = set()
        for versions in same.values():
            versions.sort(key=lambda turn: (-len(turn.tools), turn.when))
            kept: list[_Turn] = []
            for turn in versions:
                whole = next((each for each in kept[:_MOST_COMPARED] if turn.tools.keys() <= each.tools.keys()), None)
                if whole is None:
                    kept.append(turn)
                else:
                    whole.absorb(turn)
                    gone.add(id(turn))
        # Turns of one record have one time; they stay in their order.
        return sorted((turn for turn in self._turns.values() if id(turn) not in gone), key=lambda turn: turn.when)

    def _earlier(self, turns: Sequence[_Turn]) -> dict[int, tuple[tuple[str, str], ...]]:
        """The requests before turns of a conversation whose records repeat nothing, by the `id` of the turn."""
        earlier: dict[int, tuple[tuple[str, str], ...]] = {}
        said: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for turn in turns:
            if turn.trace.startswith("record ") and turn.trace not in self._conversations:
                continue
            before = said[self._conversation(turn)]
            if turn.text and not turn.searched:
                earlier[id(turn)] = tuple(before[-MOST_CONTEXT:])
                before.append(("user", turn.text[:MOST_TEXT]))
        return earlier


def search_texts(arguments: Any) -> list[str]:
    """What is searched for, in the arguments of a tool search: texts and lists of texts."""
    given = arguments
    for _ in range(_MOST_WRAPPED):
        given = _object(given)
        if not isinstance(given, dict):
            break
        texts = [given[key] for key in _SEARCHED if isinstance(given.get(key), str | list | dict)]
        others = [value for value in given.values() if isinstance(value, str)]
        given = texts[0] if texts else others if len(others) == 1 else []
    given_texts = [text_of(each) for each in (given if isinstance(given, list) else [given])]
    return [text[:MOST_TEXT] for text in dict.fromkeys(given_texts) if text]


def _object(value: Any) -> Any:
    """What a text is the JSON of, or the `repr` of, which LangChain logs; anything else as it is."""
    given = json_of(value)
    if isinstance(given, str) and given.startswith("{'") and len(given) <= MOST_TEXT:
        try:
            return ast.literal_eval(given)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return given
    return given
