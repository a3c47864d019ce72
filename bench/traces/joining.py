"""Join the exchanges of logs into turns: each request once, with the tools that were called for it.

A log repeats itself: each request to a model repeats the conversation so far, client and server both report a span, and
a trace repeats its steps. So a turn is identified by its trace and the requests up to it, and all records of the turn
add the calls that they report.

A call may be tried several times. In messages, a call that is repeated after its result is the next try. Spans are the
tries of the calls in messages, in order: the model sees the result of the last one.
"""

from __future__ import annotations

import bisect
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.base.text import one_line
from bench.traces.events import Call, LoggedExchange, LoggedReply, LoggedRequest, Outcome, Unknown
from bench.traces.fields import MOST_TEXT, object_of
from bench.traces.reading import Remarks
from bench.traces.results import Ending, has_failed, worst
from bench.traces.roles import FAILED, SEARCH, Role, Roles, are_alike, plain_names, search_texts

#: Maximum earlier messages of a conversation to keep per turn.
MOST_CONTEXT = 10
#: Maximum versions of one turn to compare, and maximum enclosing spans to check.
_MOST_COMPARED, _MOST_AROUND = 64, 20
#: Contradictions in a log.
TWO_RESULTS, TWO_NAMES = "one call has a result and an error", "one call has two names"

#: When something was logged: seconds since 1970 (0 if unknown), and the position in the logs.
_When = tuple[float, int]
_Endings = list[Ending | None]


@dataclass
class _Uses:
    """The calls of one tool in a turn.

    Attributes:
        when: time of the first call.
        told: call id (empty if there is none) and number of the try, as reported in messages.
        ran: the executions.
        arguments: digests of the arguments.
    """

    when: _When
    told: dict[tuple[str, int], None] = field(default_factory=dict)
    ran: list[_Step] = field(default_factory=list)
    arguments: set[bytes] = field(default_factory=set)

    def has(self, call_id: str) -> bool:
        """Whether there is a call with this id."""
        return any(call_id == key[0] for key in self.told)


def _tries(told: _Endings, executions: Sequence[_Step]) -> _Endings:
    """How each try of a tool ended, from messages and executions in order.

    If messages report fewer calls, simultaneous executions count as one, reported by client and server. Of the others,
    the last ones are those in messages.
    """
    ran: _Endings = []
    surplus, until = len(executions) - len(told) if told else 0, 0.0
    for step in executions:
        if surplus > 0 and ran and step.when[0] < until:
            ran[-1] = worst(ran[-1], *step.endings)
            surplus -= 1
        else:
            ran += step.endings
        until = max(until, step.exchange.end or 0.0)
    if len(ran) < len(told):
        # Which executions the log lacks is unknown.
        rest = iter(ran)
        return [next(rest, None) if ended is None else ended for ended in told]
    more = len(ran) - len(told)
    return [*ran[:more], *map(worst, sorted(told, key=has_failed), sorted(ran[more:], key=has_failed))]


@dataclass(eq=False)
class Turn:
    """A request of a user.

    Attributes:
        trace: id shared by its records.
        prefix: digest of the requests up to it.
        opening: digest of the first of these.
        text: the request; empty if it has no text.
        context: (role, text) of earlier messages, oldest first.
        when: time of the first record with it.
        place: file and line of that record.
        uses: calls until the next request.
        results: call id (empty if there is none) -> number of the try -> how it ended, by its result in messages.
        aside: (name, reason) of calls that are not gold.
        searches: texts of tool searches.
        searched: the log has no request; the text is that of a search.
        conversation: id shared by turns of one conversation.
        endings: tool -> how each try of it ended, in order of first calls.
    """

    trace: str
    prefix: bytes
    opening: str
    text: str
    context: tuple[tuple[str, str], ...]
    when: _When
    place: str
    uses: dict[str, _Uses] = field(default_factory=dict)
    results: defaultdict[str, dict[int, Ending]] = field(default_factory=lambda: defaultdict(dict))
    aside: dict[tuple[str, str], None] = field(default_factory=dict)
    searches: dict[str, _When] = field(default_factory=dict)
    searched: bool = False
    conversation: str = ""
    endings: dict[str, _Endings] = field(default_factory=dict)

    @property
    def tools(self) -> list[str]:
        """The tools with at least one try that did not fail, in order of first calls."""
        return [tool for tool, endings in self.endings.items() if not all(map(has_failed, endings))]

    def count_failures(self, retries: bool = False, by_text: bool = False) -> int:
        """Number of failed calls; only retries, or only those whose failure shows only in the result's text."""
        tools = self.tools if retries else self.endings
        endings = [ended for tool in tools for ended in self.endings[tool]]
        return endings.count("error text") if by_text else sum(map(has_failed, endings))

    def use(self, role: Role, when: _When) -> _Uses:
        """The uses of a call's tool; for a call that is not gold, uses that are ignored."""
        if role.aside:
            self.aside[role.call.tool, role.aside] = None
            for text in role.searches:
                self.searches[text] = min(when, self.searches.get(text, when))
            return _Uses(when)
        uses = self.uses.setdefault(role.call.tool, _Uses(when))
        uses.when = min(when, uses.when)
        # A call in a record without ids is not reported again.
        if not self.trace.startswith("record ") and (digest := _digest(role.call.arguments)) is not None:
            uses.arguments.add(digest)
        return uses

    def end(self, call_id: str, number: int, ended: Ending, remarks: Remarks) -> None:
        """Add the result of a try."""
        before = self.results[call_id].get(number, ended)
        if call_id and has_failed(before) != has_failed(ended):
            remarks.add(self.place, TWO_RESULTS, f": {one_line(call_id, 80)!r}, in two records")
        self.results[call_id][number] = worst(before, ended) or ended

    def absorb(self, other: Turn, remarks: Remarks) -> None:
        """Add what another record reports about the turn."""
        for tool, more in other.uses.items():
            uses = self.uses.setdefault(tool, _Uses(more.when))
            uses.when = min(more.when, uses.when)
            uses.arguments |= more.arguments
            uses.told |= more.told
            uses.ran += more.ran
        for call_id, results in other.results.items():
            for number, ended in results.items():
                self.end(call_id, number, ended, remarks)
        for text, when in other.searches.items():
            self.searches[text] = min(when, self.searches.get(text, when))
        self.aside |= other.aside
        self.context = self.context or other.context
        self.when = min(self.when, other.when)


#: When requests of a trace were made.
_Requests = list[tuple[_When, Turn]]


class _Matcher:
    """Matches results with the calls of a turn, in the order of one record or of consecutive records."""

    def __init__(self, turn: Turn, remarks: Remarks, goes_on: bool = False) -> None:
        """`goes_on`: the records continue calls that the turn already has."""
        self._turn = turn
        self._remarks = remarks
        # By call id: the number of its try, how this one ended, and the name.
        self._numbers: Counter[str] = Counter()
        self._ended: dict[str, Ending] = {}
        self._names: dict[str, str] = {}
        # Calls without an id that wait for a result -> the last record that reports them.
        self._waiting: dict[tuple[str, int], int] = {}
        if goes_on:
            told = [(tool, number) for tool, uses in turn.uses.items() for call_id, number in uses.told if not call_id]
            self._waiting = {key: 0 for key in told if key[1] not in turn.results[""]}
            self._numbers[""] = max((number + 1 for _, number in told), default=0)

    def call(self, step: _Step, call: Call) -> None:
        """Add a call. It is a new try if the last one with its id has ended."""
        call_id, record = call.call_id, step.when[1]
        waiting = (key for key, before in self._waiting.items() if key[0] == call.tool and before < record)
        if not call_id and (again := next(waiting, None)):
            # Frameworks report one call in several events.
            self._waiting[again] = record
            return
        if self._ended.pop(call_id, None):
            self._numbers[call_id] += 1
        elif call_id and not are_alike(name := self._names.get(call_id, call.tool), call.tool):
            self._remarks.add(step.place, TWO_NAMES, _names(call_id, name, call.tool))
        number = self._numbers[call_id]
        for role in step.roles:
            self._turn.use(role, step.when).told[call_id, number] = None
        if call_id:
            self._names[call_id] = call.tool
        else:
            self._numbers[""] += 1
            self._waiting[call.tool, number] = record
        if call.ended:
            self.end(step, Outcome(call_id, call.ended, call.tool))

    def end(self, step: _Step, outcome: Outcome) -> None:
        """Add a result: to the call with its id, else to the first waiting call, by name if it has one."""
        call_id, number, ended = outcome.call_id, self._numbers[outcome.call_id], outcome.ended
        known = call_id in self._names or any(uses.has(call_id) for uses in self._turn.uses.values())
        if not call_id or (self._waiting and not known):
            alike = (key for key in self._waiting if not outcome.tool or are_alike(key[0], outcome.tool))
            if key := next(alike, None):
                del self._waiting[key]
                self._turn.end("", key[1], ended, self._remarks)
            return
        if has_failed(self._ended.get(call_id, ended)) != has_failed(ended):
            # There is no second call between them.
            self._remarks.add(step.place, TWO_RESULTS, f": {one_line(call_id, 80)!r}, read as a retry")
            number = self._numbers[call_id] = number + 1
            for uses in self._turn.uses.values():
                if (call_id, number - 1) in uses.told:
                    uses.told[call_id, number] = None
        self._ended[call_id] = ended
        self._turn.end(call_id, number, ended, self._remarks)


@dataclass(eq=False)
class _Step:
    """A call or a result of a record.

    Attributes:
        roles: what the call is; none for a result.
        endings: how the tries of an execution ended.
        inner: the calls of executions inside it, which may have the name used in messages.
    """

    when: _When
    event: Call | Outcome
    place: str
    exchange: LoggedExchange
    roles: Sequence[Role] = ()
    endings: _Endings = field(default_factory=list)
    inner: list[Call] = field(default_factory=list)


class Joiner:
    """Takes exchanges in any order, and returns the turns."""

    def __init__(self, roles: Roles, remarks: Remarks) -> None:
        """`roles`: classifies calls. `remarks`: receives unknown parts and contradictions."""
        self._roles = roles
        self._remarks = remarks
        self._turns: dict[tuple[str, bytes], Turn] = {}
        self._last: defaultdict[str, _Requests] = defaultdict(list)
        self._steps: defaultdict[str, list[_Step]] = defaultdict(list)
        self._parents: dict[tuple[str, str], str] = {}
        self._finders: set[str] = set()
        self._conversations: dict[str, str] = {}
        self._openings: dict[str, str] = {}
        self._single: set[str] = set()
        self._count = 0
        #: Number of calls without a request in the logs.
        self.loose_calls = 0

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, exchange: LoggedExchange, place: str) -> None:
        """Add the content of a record; `place`: the file and the line."""
        self._count += 1
        trace = f"trace {exchange.trace}" if exchange.trace else ""
        if not trace:
            # A record on its own; if it only continues, it does so in its conversation.
            has_request = any(isinstance(event, LoggedRequest) for event in exchange.events)
            alone = has_request or not exchange.conversation
            trace = f"record {self._count}" if alone else f"session {exchange.conversation}"
        if exchange.conversation:
            self._conversations.setdefault(trace, exchange.conversation)
        if exchange.span:
            place = f"{place}, span {one_line(exchange.span, 40)}"
            self._parents.setdefault((trace, exchange.span), exchange.parent)
        when = (exchange.time or 0.0, self._count)
        turn: Turn | None = None
        said: list[tuple[str, str]] = []
        finding = _finding(exchange.events)
        for event in exchange.events:
            if isinstance(event, Unknown):
                self._remarks.add(place, event.what, event.more)
            elif isinstance(event, LoggedRequest):
                before, text = (turn.prefix, turn.opening) if turn else (b"", event.text[: MOST_TEXT + 1])
                prefix = hashlib.sha256(before + event.text.encode("utf-8", "replace")).digest()
                turn = self._turn(Turn(trace, prefix, text, event.text, tuple(said[-MOST_CONTEXT:]), when, place))
                matcher = _Matcher(turn, self._remarks)
                said.append(("user", event.text[:MOST_TEXT]))
            elif isinstance(event, LoggedReply):
                said.append(("assistant", event.text[:MOST_TEXT]))
            else:
                step = _Step(when, event, place, exchange)
                if isinstance(event, Call):
                    step.roles = self._roles_of(event, finding)
                if turn is None or (isinstance(event, Call) and event.executed):
                    self._steps[trace].append(step)
                elif isinstance(event, Call):
                    matcher.call(step, event)
                else:
                    matcher.end(step, event)
        if turn is not None:
            self._last[trace].append((when, turn))
            if exchange.answers:
                self._openings.setdefault(trace, turn.opening)
        if exchange.single:
            self._single.add(trace)

    def _turn(self, turn: Turn) -> Turn:
        """The known turn, or this one."""
        turn.text = turn.text[: MOST_TEXT + 1]
        known = self._turns.setdefault((turn.trace, turn.prefix), turn)
        known.when = min(known.when, turn.when)
        return known

    def turns(self) -> list[Turn]:
        """All turns, by time or else in the order of the logs, including those without a text or a tool."""
        self._attach()
        for turn in self._turns.values():
            for tool in self._finders & turn.uses.keys():
                turn.use(Role(Call(tool), SEARCH), turn.uses.pop(tool).when)
        kept = self._merge_turns()
        before = self._earlier(kept)
        for turn in kept:
            turn.conversation, turn.context = self._conversation(turn), turn.context or before.get(id(turn), ())
            for tool, uses in sorted(turn.uses.items(), key=lambda pair: pair[1].when):
                told = [turn.results[call_id].get(number) for call_id, number in uses.told]
                turn.endings[tool] = _tries(told, sorted(uses.ran, key=lambda step: step.when))
            turn.aside |= dict.fromkeys((tool, FAILED) for tool in turn.endings if tool not in turn.tools)
        return kept

    def _conversation(self, turn: Turn) -> str:
        """The conversation's id in the log, else the trace; without these, the first request."""
        if turn.trace in self._conversations:
            return f"conversation {self._conversations[turn.trace]}"
        if turn.trace in self._openings:
            return f"opening {self._openings[turn.trace]}"
        return f"opening {turn.opening}" if turn.trace.startswith("record ") else turn.trace

    def _roles_of(self, call: Call, finding: set[str]) -> Sequence[Role]:
        """The role of a call. If its result lists tools, it is a search, and so are all calls of its tool."""
        if call.call_id not in finding:
            return self._roles.of(call)
        self._finders.add(call.tool)
        return [Role(call, SEARCH, tuple(search_texts(call.arguments)))]

    def _attach(self) -> None:
        """Assign calls without a turn to the request before them, in their trace or else in their conversation."""
        of_conversation: defaultdict[str, _Requests] = defaultdict(list)
        for trace, requests in self._last.items():
            if trace in self._conversations:
                of_conversation[self._conversations[trace]] += requests
        for trace, steps in self._steps.items():
            steps.sort(key=lambda step: step.when)
            finding = _finding(step.event for step in steps)
            for step in steps:
                if isinstance(step.event, Call) and step.event.call_id in finding:
                    step.roles = self._roles_of(step.event, finding)
            steps = self._without_inner(trace, steps)
            requests = self._last.get(trace) or of_conversation.get(self._conversations.get(trace, ""), [])
            requests = sorted(requests or self._search_turns(trace, steps), key=lambda pair: pair[0])
            unclear = trace in self._single and len({id(turn) for _, turn in requests}) > 1
            self._attach_messages(steps, requests, unclear)
            self._attach_executions([step for step in steps if step.endings], requests, unclear)
        self._steps.clear()

    def _search_turns(self, trace: str, steps: Sequence[_Step]) -> _Requests:
        """If a log has no request at all, a model's tool search serves as the request for what follows."""
        requests: _Requests = []
        has_called = True
        for step in steps:
            for role in step.roles:
                if role.searches and has_called:
                    prefix, text = repr(step.when).encode(), role.searches[0]
                    turn = Turn(trace, prefix, text, text, (), step.when, step.place, searched=True)
                    requests.append((step.when, self._turn(turn)))
                    has_called = False
                has_called = has_called or not role.aside
        return requests

    def _attach_messages(self, steps: Sequence[_Step], requests: _Requests, unclear: bool) -> None:
        """Assign calls and results of messages to their turns."""
        told = _LoggedCalls(requests)
        matchers: dict[int, _Matcher] = {}
        executed = {step.event.call_id: step.when for step in steps if step.endings}
        for step in steps:
            if step.endings:
                continue
            event, call_id = step.event, step.event.call_id
            near = _turn_at(requests, step.when if isinstance(event, Call) else executed.get(call_id, step.when))
            turn = told.nearest("id", call_id, near) if call_id else None
            if isinstance(event, Call) and not call_id:
                turn = told.find(event, near, self._roles)[0]
            turn = turn or (None if unclear else near)
            if turn is None:
                self.loose_calls += sum(not role.aside for role in step.roles)
                continue
            if id(turn) not in matchers:
                matchers[id(turn)] = _Matcher(turn, self._remarks, goes_on=True)
            matcher = matchers[id(turn)]
            if isinstance(event, Outcome):
                matcher.end(step, event)
            else:
                matcher.call(step, event)
                told.add("id", call_id, turn)

    def _attach_executions(self, steps: Sequence[_Step], requests: _Requests, unclear: bool) -> None:
        """Assign executions to the calls in messages, else to the turn before them.

        The execution of an answer's call must not go to another request: a trace may contain requests that the user did
        not make, such as one for a title.
        """
        told = _LoggedCalls(requests)
        for step in steps:
            near = _turn_at(requests, step.when)
            for role in step.roles:
                if role.aside == SEARCH and told.searches.issuperset(role.searches):
                    continue
                call = role.call
                names = () if role.aside else (call, *step.inner)
                found = (told.find(each, near, self._roles) for each in names)
                turn, call_id, tool = next((each for each in found if each[0]), (None, "", ""))
                if turn is None and near is not None and not unclear:
                    turn, call_id, tool = near, call.call_id, call.tool
                    told.add("id", call_id, turn)
                if turn is None:
                    self.loose_calls += not role.aside
                    continue
                alike = are_alike(tool, call.tool)
                if call_id and not alike:
                    self._remarks.add(step.place, TWO_NAMES, _names(call_id, tool, call.tool))
                if self._roles.meanings(call.tool) == 1 and not (alike and self._roles.meanings(tool) == 1):
                    tool = call.tool
                uses = (None if role.aside else turn.uses.get(tool)) or turn.use(role, step.when)
                uses.ran.append(step)
                if call_id and not uses.has(call_id):
                    uses.told |= dict.fromkeys((call_id, number) for number in turn.results[call_id] or (0,))

    def _without_inner(self, trace: str, steps: Sequence[_Step]) -> list[_Step]:
        """The steps without executions that are part of another execution: the same call under a second name.

        For example, the MCP client's span inside that of the agent, which may have a display name and may not know that
        the call failed. Several executions inside one are its tries; those of several other tools are not related to
        it.
        """
        spans: dict[str, _Step] = {}
        for step in steps:
            if isinstance(step.event, Call) and step.event.executed:
                step.endings = [step.event.ended]
                if step.exchange.span:
                    spans.setdefault(step.exchange.span, step)
        kept: list[_Step] = []
        inside: defaultdict[int, list[_Step]] = defaultdict(list)
        for step in steps:
            outermost = step
            for _ in range(_MOST_AROUND):
                if (around := self._find_outer(trace, outermost, spans)) is None:
                    break
                outermost = around
            if outermost is step:
                kept.append(step)
            else:
                inside[id(outermost)].append(step)
        for step in kept:
            inner = inside.get(id(step), [])
            if inner and all(are_alike(inner[0].event.tool, each.event.tool) for each in inner):
                step.inner = [each.event for each in inner[:1] if isinstance(each.event, Call)]
                step.endings = _tries(step.endings, inner)
        return kept

    def _find_outer(self, trace: str, step: _Step, spans: Mapping[str, _Step]) -> _Step | None:
        """The execution directly around another one, or farther out if it is the same call."""
        if not step.endings or not step.exchange.span:
            return None
        twice = spans[step.exchange.span]
        if twice is not step and (twice.event, twice.when[0]) == (step.event, step.when[0]):
            return twice
        parent, far = step.exchange.parent, 0
        while parent and far < _MOST_AROUND:
            around = spans.get(parent)
            if around is not None and around is not step and not all(role.aside for role in around.roles):
                named = self._roles.meanings(step.event.tool) == 1 != self._roles.meanings(around.event.tool)
                call_id = step.event.call_id
                same = are_alike(step.event.tool, around.event.tool) or "" != call_id == around.event.call_id
                if not named and (same or not far):
                    return around
            parent, far = self._parents.get((trace, parent), ""), far + 1
        return None

    def _merge_turns(self) -> list[Turn]:
        """The turns without those of which another record of the same conversation reports more.

        Records without ids, and traces of one session, repeat earlier turns: with all, some or none of their calls.
            Turns with the same requests up to them are the same if the calls of one are among those of the other.
        """
        same: defaultdict[tuple[str, bytes], list[Turn]] = defaultdict(list)
        for turn in self._turns.values():
            same[self._conversation(turn), turn.prefix].append(turn)
        gone: set[int] = set()
        for versions in same.values():
            versions.sort(key=lambda turn: (-len(turn.uses), turn.when))
            kept: list[Turn] = []
            for turn in versions:
                whole = next((each for each in kept[:_MOST_COMPARED] if turn.uses.keys() <= each.uses.keys()), None)
                if whole is None:
                    kept.append(turn)
                else:
                    whole.absorb(turn, self._remarks)
                    gone.add(id(turn))
        # Turns of one record have one time and keep their order.
        return sorted((turn for turn in self._turns.values() if id(turn) not in gone), key=lambda turn: turn.when)

    def _earlier(self, turns: Sequence[Turn]) -> dict[int, tuple[tuple[str, str], ...]]:
        """The requests before each turn, by the turn's `id`, in conversations whose records repeat nothing."""
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


#: Keys of a call: its id, its name, the normalised name, the name without server, or its arguments.
_Mark = tuple[str, str | bytes]


class _LoggedCalls:
    """The calls in the turns of some requests, which other records report again."""

    def __init__(self, requests: _Requests) -> None:
        self.searches: set[str] = set()
        self._turns: defaultdict[_Mark, dict[int, Turn]] = defaultdict(dict)
        self._tools: dict[_Mark, str] = {}
        for turn in {id(turn): turn for _, turn in requests}.values():
            self.searches.update(turn.searches)
            for call_id in turn.results:
                self.add("id", call_id, turn)
            for tool, uses in turn.uses.items():
                for call_id, _ in uses.told:
                    self.add("id", call_id, turn)
                whole, tail = plain_names(tool)
                marks: list[_Mark] = [("name", tool), ("whole", whole), ("tail", tail)]
                for what, name in (*marks, *(("like", each) for each in uses.arguments)):
                    self.add(what, name, turn)
                    self._tools[what, name] = tool

    def add(self, what: str, name: str | bytes, turn: Turn) -> None:
        """Add a call under one of its keys."""
        self._turns[what, name][id(turn)] = turn

    def nearest(self, what: str, name: str | bytes, near: Turn | None) -> Turn | None:
        """The turn of a call by one of its keys; this one if it has the call."""
        turns = self._turns.get((what, name), {})
        return turns.get(id(near)) or next(reversed(turns.values()), None)

    def find(self, call: Call, near: Turn | None, roles: Roles) -> tuple[Turn | None, str, str]:
        """The turn of a call, its id if known, and its name there; no turn if nothing identifies it."""
        if call.call_id and (turn := self.nearest("id", call.call_id, near)):
            tools = [tool for tool, uses in turn.uses.items() if uses.has(call.call_id)]
            alike = next((tool for tool in tools if are_alike(tool, call.tool)), (tools or [call.tool])[0])
            return turn, call.call_id, call.tool if call.tool in tools else alike
        whole, tail = plain_names(call.tool)
        marks: list[_Mark] = [("name", call.tool), ("whole", whole), ("whole", tail), ("tail", whole)]
        marks += [("like", digest)] if (digest := _digest(call.arguments)) else []
        mark = next((mark for mark in marks if mark in self._tools), None)
        if mark is None or (roles.meanings(call.tool) == 1 != roles.meanings(self._tools[mark])):
            # Nothing identifies it, or the catalogue has a tool with this name and none with the other.
            return None, "", ""
        return self.nearest(*mark, near), "", self._tools[mark]


def _turn_at(requests: _Requests, when: _When) -> Turn | None:
    """The turn of the last request before a time."""
    place = bisect.bisect_right(requests, when, key=lambda pair: pair[0]) - 1
    return requests[place][1] if place >= 0 else None


def _finding(events: Iterable[Any]) -> set[str]:
    """The ids of calls whose result lists tools."""
    return {event.call_id for event in events if isinstance(event, Outcome) and event.lists_tools} - {""}


def _names(call_id: str, *names: str) -> str:
    return f": {' and '.join(repr(one_line(name, 80)) for name in names)}, by the id {one_line(call_id, 80)!r}"


def _digest(arguments: Any) -> bytes | None:
    """A digest of a call's arguments; None if it has none, or if they are very long."""
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
