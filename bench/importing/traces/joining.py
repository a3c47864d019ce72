"""From the exchanges of logs to turns: each request once, with the tools that were called for it.

A log says the same thing many times: each request to a model repeats the conversation so far, a span is told by client
and server, and a trace repeats its steps. A turn is therefore known by its trace and the requests up to it, and
all records that know it add the calls that they know.
"""

from __future__ import annotations

import bisect
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.importing.traces.events import (
    MOST_TEXT,
    Call,
    LoggedExchange,
    LoggedReply,
    LoggedRequest,
    Outcome,
    object_of,
)
from bench.importing.traces.roles import FAILED, SEARCH, Role, Roles, plain_names, search_texts

#: Earlier messages of a conversation that a turn keeps.
MOST_CONTEXT = 10
#: Texts of searches that a turn keeps.
_MOST_SEARCHES = 20
#: Versions of one turn that are compared with each other.
_MOST_COMPARED = 64

#: When something was said: seconds since 1970 (0 if unknown), and the position in the logs.
_When = tuple[float, int]
_Key = tuple[str, bytes]
#: A call whose record has no request.
_Step = tuple[_When, Role]


@dataclass(frozen=True)
class Turn:
    """A request of a user.

    Attributes:
        text: the request; empty if it has no text.
        tools: the tools that were called until the next request, in order, each once.
        aside: (name, why) of what was called meanwhile and is no gold.
        searches: what was typed into tool searches meanwhile.
        context: (role, text) of earlier messages, oldest first.
        conversation: what turns of one conversation share.
        searched: the log has no request; the text is that of a search.
    """

    text: str
    tools: tuple[str, ...]
    aside: tuple[tuple[str, str], ...]
    searches: tuple[str, ...]
    context: tuple[tuple[str, str], ...]
    conversation: str
    searched: bool = False


@dataclass
class _Uses:
    """The calls of one tool in a turn.

    Attributes:
        when: the first.
        outcomes: id of a call, empty if it has none -> whether it failed; None if nothing says.
        arguments: digests of what it was called with.
    """

    when: _When
    outcomes: dict[str, bool | None] = field(default_factory=dict)
    arguments: set[bytes] = field(default_factory=set)

    def add(self, call_id: str, failed: bool | None) -> None:
        """Take the outcome of a call."""
        self.outcomes[call_id] = _outcome(call_id, self.outcomes.get(call_id), failed)

    def have_failed(self, told: Mapping[str, bool]) -> bool:
        """Whether all calls failed, with the outcomes that the turn has by the ids of calls."""
        outcomes = {call_id: told.get(call_id, failed) for call_id, failed in self.outcomes.items()}
        if True not in outcomes.values() or False in outcomes.values():
            return False
        # A failure without an id may be that of any call; else a call that nothing is known of may have succeeded.
        return outcomes.get("") is True or not any(failed is None for call_id, failed in outcomes.items() if call_id)


@dataclass(eq=False)
class _Turn:
    text: str
    trace: str
    opening: str
    prefix: bytes
    context: tuple[tuple[str, str], ...]
    when: _When
    tools: dict[str, _Uses] = field(default_factory=dict)
    outcomes: dict[str, bool] = field(default_factory=dict)
    aside: dict[tuple[str, str], None] = field(default_factory=dict)
    searches: dict[str, _When] = field(default_factory=dict)
    searched: bool = False

    def add(self, role: Role, when: _When) -> None:
        call = role.call
        if role.aside:
            self.aside[call.tool, role.aside] = None
            for text in role.searches:
                self.searches[text] = min(when, self.searches.get(text, when))
            return
        uses = self.tools.setdefault(call.tool, _Uses(when))
        uses.when = min(when, uses.when)
        uses.add(call.call_id, call.failed)
        # Nothing tells a call of a record without ids again.
        if not self.trace.startswith("record ") and (digest := _digest(call.arguments)) is not None:
            uses.arguments.add(digest)

    def end(self, outcome: Outcome) -> None:
        if outcome.call_id:
            before = self.outcomes.get(outcome.call_id)
            self.outcomes[outcome.call_id] = bool(_outcome(outcome.call_id, before, outcome.failed))

    def absorb(self, other: _Turn) -> None:
        for tool, more in other.tools.items():
            uses = self.tools.setdefault(tool, _Uses(more.when))
            uses.when = min(more.when, uses.when)
            uses.arguments |= more.arguments
            for call_id, failed in more.outcomes.items():
                uses.add(call_id, failed)
        for call_id, failed in other.outcomes.items():
            self.end(Outcome(call_id, failed))
        for text, when in other.searches.items():
            self.searches[text] = min(when, self.searches.get(text, when))
        self.aside |= other.aside
        self.context = self.context or other.context
        self.when = min(self.when, other.when)

    def finished(self, context: tuple[tuple[str, str], ...], conversation: str) -> Turn:
        """The turn as it is told to others."""
        tools = sorted(self.tools, key=lambda tool: self.tools[tool].when)
        failed = {tool: None for tool in tools if self.tools[tool].have_failed(self.outcomes)}
        return Turn(
            self.text,
            tuple(tool for tool in tools if tool not in failed),
            (*self.aside, *((tool, FAILED) for tool in failed)),
            tuple(sorted(self.searches, key=self.searches.__getitem__))[:_MOST_SEARCHES],
            self.context or context,
            conversation,
            self.searched,
        )


def _outcome(call_id: str, *told: bool | None) -> bool | None:
    """Whether a call failed, by several records. Of one with an id of its own, an error that any tells is one."""
    order = (False, True) if call_id.startswith("=") or not call_id else (True, False)
    return next((each for each in order if each in told), None)


class Joiner:
    """Takes exchanges in any order, and gives the turns."""

    def __init__(self, roles: Roles) -> None:
        """`roles`: tells what calls are."""
        self._roles = roles
        self._turns: dict[_Key, _Turn] = {}
        self._last: defaultdict[str, list[tuple[_When, _Key]]] = defaultdict(list)
        self._steps: defaultdict[str, list[_Step]] = defaultdict(list)
        self._outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
        self._finders: set[str] = set()
        self._conversations: dict[str, str] = {}
        self._openings: dict[str, str] = {}
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
        finding = {event.call_id for event in exchange.events if isinstance(event, Outcome) and event.lists_tools}
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
            elif isinstance(event, Outcome):
                if turn is None:
                    self._outcomes[trace].append(event)
                else:
                    turn.end(event)
            else:
                roles = self._roles.of(event)
                if event.call_id and event.call_id in finding:
                    roles = [self._as_search(event)]
                for role in roles:
                    if turn is None:
                        self._steps[trace].append((when, role))
                    else:
                        turn.add(role, when)
        if turn is not None:
            self._last[trace].append((when, (trace, turn.prefix)))
            if exchange.answers:
                self._openings.setdefault(trace, opening)
        if exchange.single:
            self._single.add(trace)

    def turns(self) -> list[Turn]:
        """All turns, in the order of their times, else of the logs, with those that have no text or no tool."""
        self._attach()
        for turn in self._turns.values():
            for tool in self._finders & turn.tools.keys():
                turn.add(Role(Call(tool), SEARCH), turn.tools.pop(tool).when)
        kept = self._merge_turns()
        before = self._earlier(kept)
        return [turn.finished(before.get(id(turn), ()), self._conversation(turn)) for turn in kept]

    def _conversation(self, turn: _Turn) -> str:
        """The conversation as the log names it, else the trace; without such an id, the first request."""
        if turn.trace in self._conversations:
            return f"conversation {self._conversations[turn.trace]}"
        if turn.trace in self._openings:
            return f"opening {self._openings[turn.trace]}"
        return f"opening {turn.opening}" if turn.trace.startswith("record ") else turn.trace

    def _as_search(self, call: Call) -> Role:
        """A call whose result lists tools; all calls of its tool are searches."""
        self._finders.add(call.tool)
        return Role(call, SEARCH, tuple(search_texts(call.arguments)))

    def _attach(self) -> None:
        """Give calls that stand alone to the request before them, in their trace or else in their conversation."""
        of_conversation: defaultdict[str, list[tuple[_When, _Key]]] = defaultdict(list)
        for trace, requests in self._last.items():
            requests.sort()
            if trace in self._conversations:
                of_conversation[self._conversations[trace]] += requests
        for requests in of_conversation.values():
            requests.sort()
        for trace, given in self._steps.items():
            finding = {outcome.call_id for outcome in self._outcomes.get(trace, ()) if outcome.lists_tools} - {""}
            steps = [
                (when, self._as_search(role.call) if role.call.call_id in finding else role) for when, role in given
            ]
            steps.sort(key=lambda step: step[0])
            requests = self._last.get(trace) or of_conversation.get(self._conversations.get(trace, ""), [])
            if not requests:
                self._attach_searches(trace, steps)
                continue
            turns = [self._turns[key] for key in dict.fromkeys(key for _, key in requests)]
            unclear = trace in self._single and len(turns) > 1
            # The span of a call that an answer has tells only its outcome, and must not go to another request: a trace
            # may hold some that the user did not make, such as one for a title.
            told = _Told(turns)
            for when, role in self._without_inner(steps):
                place = bisect.bisect_right(requests, when, key=lambda pair: pair[0]) - 1
                turn = self._turns[requests[place][1]] if place >= 0 else None
                if told.repeats(role, turn, self._roles):
                    continue
                if turn is None or unclear:
                    self.loose_calls += not role.aside
                else:
                    turn.add(role, when)
            self._end(turns, trace)
        for trace in set(self._outcomes) - set(self._steps):
            self._end([self._turns[key] for _, key in self._last.get(trace, ())], trace)
        self._steps.clear()

    def _attach_searches(self, trace: str, steps: Sequence[_Step]) -> None:
        """Where a log has no request at all, what a model typed into a tool search is the request for what follows."""
        turns: list[_Turn] = []
        for when, role in self._without_inner(steps):
            if role.searches and (not turns or turns[-1].tools):
                prefix = hashlib.sha256(f"{trace} {when}".encode("utf-8", "replace")).digest()
                text = role.searches[0][: MOST_TEXT + 1]
                turns.append(_Turn(text, trace, text, prefix, (), when, searched=True))
                self._turns[trace, prefix] = turns[-1]
            if turns:
                turns[-1].add(role, when)
            else:
                self.loose_calls += not role.aside
        self._end(turns, trace)

    def _end(self, turns: Sequence[_Turn], trace: str) -> None:
        """Give results that stand alone to the calls that they are of."""
        if trace in self._outcomes:
            of_calls = {each: turn for turn in turns for uses in turn.tools.values() for each in uses.outcomes}
            for outcome in self._outcomes[trace]:
                if outcome.call_id in of_calls:
                    of_calls[outcome.call_id].end(outcome)

    def _without_inner(self, steps: Sequence[_Step]) -> list[_Step]:
        """The steps without those that run right inside another one: the same call by a second name.

        So a span of the client of MCP stands in that of the agent, which may have a name for display, and may not know
        that the call failed.
        """
        outer = {role.call.span: role.call.tool for _, role in steps if role.call.span and not role.aside}
        failed = {role.call.parent for _, role in steps if role.call.failed and role.call.parent in outer}
        kept: list[_Step] = []
        for when, role in steps:
            around = outer.get(role.call.parent)
            if around is None or (self._roles.knows(role.call.tool) and not self._roles.knows(around)):
                broken = role.call.failed or role.call.span in failed
                kept.append((when, replace(role, call=replace(role.call, failed=True)) if broken else role))
        return kept

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
            before = said[turn.trace if turn.trace in self._openings else self._conversation(turn)]
            if turn.text and not turn.searched:
                earlier[id(turn)] = tuple(before[-MOST_CONTEXT:])
                before.append(("user", turn.text[:MOST_TEXT]))
        return earlier


class _Told:
    """The calls that the messages of some turns have, which spans tell again."""

    def __init__(self, turns: Sequence[_Turn]) -> None:
        self._searches = {text for turn in turns for text in turn.searches}
        self._names: defaultdict[str, list[_Turn]] = defaultdict(list)
        self._plain: dict[str, str] = {}
        self._tails: dict[str, str] = {}
        self._others: dict[str | bytes, tuple[str, _Turn]] = {}
        for turn in turns:
            for tool, uses in turn.tools.items():
                self._names[tool].append(turn)
                whole, tail = plain_names(tool)
                self._plain[whole], self._tails[tail] = tool, tool
                self._others |= {key: (tool, turn) for key in uses.outcomes if key}
                self._others |= dict.fromkeys(uses.arguments, (tool, turn))

    def repeats(self, role: Role, near: _Turn | None, roles: Roles) -> bool:
        """Whether a step is a call that is told already, by the same name or by another one; take its outcome."""
        if role.aside:
            return role.aside == SEARCH and self._searches.issuperset(role.searches)
        same = self._same(role.call, near)
        if same is None or (roles.knows(role.call.tool) and not roles.knows(same[0])):
            return False
        tool, turn = same
        turn.tools[tool].add(role.call.call_id, role.call.failed)
        return True

    def _same(self, call: Call, near: _Turn | None) -> tuple[str, _Turn] | None:
        if call.call_id and (same := self._others.get(call.call_id)):
            return same
        if turns := self._names.get(call.tool):
            return call.tool, near if near is not None and near in turns else turns[-1]
        whole, tail = plain_names(call.tool)
        if close := self._plain.get(whole) or self._plain.get(tail) or self._tails.get(whole):
            return close, self._names[close][-1]
        return self._others.get(digest) if (digest := _digest(call.arguments)) else None


def _digest(arguments: Any) -> bytes | None:
    """A digest of the arguments of a call; None if it has none, or if they are very long."""
    if isinstance(arguments, str) and len(arguments) > MOST_TEXT:
        return None
    given = object_of(arguments)
    if isinstance(given, dict) and len(given) == 1:  # LangChain logs `{"input": "{'path': ...}"}`
        inner = object_of(next(iter(given.values())))
        given = inner if isinstance(inner, dict) else given
    try:
        text = json.dumps(given, sort_keys=True) if isinstance(given, dict) and given else ""
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(text.encode()).digest() if text else None
