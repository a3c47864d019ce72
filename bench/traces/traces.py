"""From log files to the rows of a queries file. `command` and `bench.read_traffic` call it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.base import secrets
from bench.base.errors import DataError, UsageError
from bench.base.paths import expand_path, write_text
from bench.base.strict_json import RepeatedKey
from bench.base.text import one_line, shorten
from bench.data.tool_names import NameRecord, ToolNames
from bench.importing.queries import MOST_QUERIES
from bench.importing.tools.catalogue import Source, read_catalogue
from bench.importing.tools.tool import name_fault
from bench.traces.fields import MOST_TEXT
from bench.traces.forms import TRAFFIC_FORMS, Records, TrafficForm
from bench.traces.joining import Joiner, Turn
from bench.traces.masking import mask_text
from bench.traces.reading import CONTRADICTORY, TOO_DEEP, LogReader, Remarks
from bench.traces.roles import ASIDE, FAILED, SEARCH, Roles, is_named

#: Maximum characters of an earlier message, and of a search, in a row.
MOST_TURN_TEXT = 2_000
#: Maximum tools of one row. A queries file may name a thousand.
_MOST_TOOLS = 500
#: Maximum search texts of a row, and maximum unknown tools to search near names for.
_MOST_SEARCHES, _MOST_NEAR = 20, 20

NO_CALL = "no tool was called"
NO_TEXT = "the request has no text"
TOO_LONG = f"the request is longer than {MOST_TEXT} characters"
UNKNOWN = "no tool of the catalogue was called"
AMBIGUOUS = "the names that were called may mean several tools of the catalogue"
TOO_MANY = f"more than {_MOST_TOOLS} tools were called"
REPEATED = "another request has the same text and tools"


@dataclass(frozen=True)
class CalledName:
    """A called name that is not gold.

    Attributes:
        name: as logged.
        requests: number of requests that called it.
        near: ids of tools with similar names; for an ambiguous name, the ids it may stand for.
        why: for calls set aside: a built-in tool, a handoff, a search for tools, or only failed calls.
    """

    name: str
    requests: int
    near: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Traffic:
    """Queries from logs. A call is not always right: read them before you use them as gold.

    Attributes:
        queries: rows as `bench data import --queries` and `bench.import_tools` read them.
        requests: number of user requests in the logs, including those without a query.
        dropped: why requests became no query -> number.
        loose_calls: number of calls without a request in the logs.
        from_searches: number of queries whose text is that of a tool search, because the log has no request.
        ambiguous: number of texts that several queries have, with different tools.
        masked: placeholder -> number in the queries.
        unknown_tools: names outside the catalogue, most frequent first; without a catalogue, invalid names.
        ambiguous_tools: names that may stand for several tools of the catalogue, most frequent first.
        set_aside: called names that are not gold, most frequent first.
        failed_calls: number of failed calls.
        retries: number of them whose tool did not fail in another call for the request.
        failed_by_text: number of them whose failure shows only in the result's text.
        records: format -> number of records.
        mapped_names: a sentence about tool names that are not ids of the catalogue; empty if all are.
        unread: number of unreadable lines and of records in unknown formats.
        skipped: what was unread, unknown or contradictory -> number.
        remarks: (place, reason) of the first of these. A reason begins with a key of `skipped`.
    """

    queries: tuple[Mapping[str, Any], ...]
    requests: int
    dropped: Mapping[str, int]
    loose_calls: int
    from_searches: int
    ambiguous: int
    masked: Mapping[str, int]
    unknown_tools: tuple[CalledName, ...]
    ambiguous_tools: tuple[CalledName, ...]
    set_aside: tuple[CalledName, ...]
    failed_calls: int
    retries: int
    failed_by_text: int
    records: Mapping[str, int]
    mapped_names: str
    unread: int
    skipped: Mapping[str, int]
    remarks: tuple[tuple[str, str], ...]

    def write(self, path: str | Path) -> None:
        """Write the queries as JSON Lines.

        Raises:
            StorageError: the file cannot be written.
        """
        write_text(expand_path(path), "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.queries))


def read_traffic(
    files: str | Path | Sequence[str | Path],
    *,
    form: TrafficForm | None = None,
    search_tools: Sequence[str] = (),
    bridge_tools: Sequence[str] = (),
    tools: str | Path | Sequence[str | Path] = (),
    keep_personal_data: bool = False,
) -> Traffic:
    """Queries with the tools that were called, from logs, as `bench data from-traffic` writes them.

    A query is a user turn. Its tools are those called until the next turn, in order, each once, except tools whose
    every call failed. A call is not always right: read the queries before you use them as gold.

    Args:
        files: logs, JSON Lines or JSON: OpenTelemetry, requests and answers of OpenAI and similar APIs, messages of
            agent frameworks, exports of Langfuse and LangSmith, logs of MCP gateways.
        form: `otel`, `openai`, `langfuse`, `langsmith`, `agents` or `mcp`; None to recognise the format of each record.
        search_tools: further tools that search for tools, besides those of hosts and gateways. Their calls are not
            gold; their search texts are kept.
        bridge_tools: further tools that call the tool named in their arguments, besides `call_tool` and the like.
            The tool inside is gold. A catalogue tool with such a name counts itself, unless it calls another tool of
            the catalogue.
        tools: sources of a catalogue, as paths or as `"SERVER=PATH"`; calls of other tools are left out.
        keep_personal_data: do not mask e-mail addresses, keys and long numbers.

    Raises:
        UsageError: a file cannot be read, or there is too much in the files.
        DataError: a file is neither JSON nor JSON Lines, or the files contain no query.

    Examples:
        >>> import json, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> call = {"type": "function", "function": {"name": "forecast", "arguments": "{}"}}
        >>> log = [{"role": "user", "content": "Will it rain?"}, {"role": "assistant", "tool_calls": [call]}]
        >>> path = pathlib.Path(folder.name, "log.jsonl")
        >>> _ = path.write_text(json.dumps({"messages": log}))
        >>> traffic = bench.read_traffic(path)
        >>> traffic.queries[0]["query"], traffic.queries[0]["tools"]
        ('Will it rain?', ['forecast'])
        >>> traffic.write(path.with_name("queries.jsonl"))
        >>> folder.cleanup()
    """
    files, tools = ([given] if isinstance(given, str | Path) else given for given in (files, tools))
    if not files:
        raise UsageError("there is no file to read queries from.")
    if form is not None and form not in TRAFFIC_FORMS:
        raise UsageError(f"form is {form!r}; it must be {', '.join(TRAFFIC_FORMS[:-1])} or {TRAFFIC_FORMS[-1]}.")
    names = ToolNames(read_catalogue([Source.of(str(each)) for each in tools]).tools) if tools else None
    roles = Roles(search_tools, bridge_tools, names)
    reader, remarks, counts = LogReader(), Remarks(), Counter[str]()
    joiner = Joiner(roles, remarks)
    unread = 0
    for number, file in enumerate(files):
        records = Records(form, f"file {number}")
        unread += _read(expand_path(file), reader, joiner, records, remarks)
        counts.update(records.counts)
    turns = joiner.turns()
    mask = (lambda text: (secrets.mask(text), Counter())) if keep_personal_data else mask_text
    rows = _QueryRows(names, search_tools, mask, reader.digest)
    for turn in turns:
        rows.add(turn)
    if not rows.queries:
        named = ", ".join(str(file) for file in files[:3]) + (", ..." if len(files) > 3 else "")
        raise DataError(f"{named} has no query: {_why(rows, turns, joiner.loose_calls, remarks)}.")
    texts = Counter(row["query"] for row in rows.queries)
    return Traffic(
        queries=tuple(rows.queries),
        requests=sum(not turn.searched for turn in turns),
        dropped=dict(rows.dropped),
        loose_calls=joiner.loose_calls,
        from_searches=rows.from_searches,
        ambiguous=sum(count > 1 for count in texts.values()),
        masked=dict(sorted(rows.masked.items())),
        unknown_tools=rows.list_names(UNKNOWN),
        ambiguous_tools=rows.list_names(AMBIGUOUS),
        set_aside=rows.list_names(*ASIDE),
        failed_calls=sum(turn.count_failures() for turn in turns),
        retries=sum(turn.count_failures(retries=True) for turn in turns),
        failed_by_text=sum(turn.count_failures(by_text=True) for turn in turns),
        records=dict(counts),
        mapped_names=rows.record.mapped(),
        unread=unread,
        skipped=dict(remarks.counts),
        remarks=tuple(remarks.first),
    )


def _read(path: Path, reader: LogReader, joiner: Joiner, records: Records, remarks: Remarks) -> int:
    """Read a file, and count unreadable lines and records."""
    label, unread = one_line(path.name, 120), 0
    for line in reader.read(path):
        place = f"{label}, line {line.number}"
        try:
            # Either all of a record or nothing.
            exchanges, unknown = ([], []) if line.fault else records.read(line.value)
            faults = [(f"it is in no known form ({what})", "") for what in unknown]
            faults += [(line.fault, line.more)] if line.fault else []
        except RecursionError:
            faults = [(TOO_DEEP, "")]
        except RepeatedKey as error:
            faults = [(CONTRADICTORY, f": in a text of JSON, an object has the key {one_line(error.key, 80)!r} twice")]
        else:
            for exchange in exchanges:
                joiner.add(exchange, place)
        for fault, more in faults:
            remarks.add(place, fault, more)
        unread += len(faults)
        if len(joiner) > MOST_QUERIES:
            raise UsageError(f"the files have more than {MOST_QUERIES} requests; read them in parts.")
    for exchange in records.finish():
        joiner.add(exchange, label)
    return unread


@dataclass
class _QueryRows:
    """Turns as rows of a queries file, each text with its tools once."""

    names: ToolNames | None
    search_tools: Sequence[str]
    mask: Callable[[str], tuple[str, Counter[str]]]
    salt: bytes
    queries: list[dict[str, Any]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    masked: Counter[str] = field(default_factory=Counter)
    from_searches: int = 0
    record: NameRecord = field(default_factory=NameRecord)
    _ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _seen: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    _no_gold: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, turn: Turn) -> None:
        """Add a turn as a row, or count why it is not one."""
        text, counts = self.mask(turn.text) if len(turn.text) <= MOST_TEXT else (turn.text, Counter())
        tools = self._tools(turn)
        # What the user named needs no report.
        aside = (each for each in turn.aside if each[1] != SEARCH or not is_named(each[0], self.search_tools))
        self._no_gold.update(aside)
        reasons = {
            NO_TEXT: not text,
            TOO_LONG: len(turn.text) > MOST_TEXT,
            FAILED: not turn.tools and bool(turn.endings),
            NO_CALL: not turn.tools,
            TOO_MANY: len(turn.tools) > _MOST_TOOLS,
            AMBIGUOUS: not tools and any(len(self._ids[called]) > 1 for called in turn.tools),
            UNKNOWN: not tools,
            REPEATED: (text, frozenset(tools)) in self._seen,
        }
        reason = next((reason for reason, holds in reasons.items() if holds), "")
        if reason:
            self.dropped[reason] += 1
            return
        self._seen.add((text, frozenset(tools)))
        row: dict[str, Any] = {"id": _digest(text, *sorted(tools)), "query": text, "tools": tools}
        # The first search is the text of such a query.
        first = sorted(turn.searches, key=turn.searches.__getitem__)[:_MOST_SEARCHES]
        searches = [self._mask_turn(each, counts) for each in first]
        context = [{"role": role, "content": self._mask_turn(said, counts)} for role, said in turn.context if said]
        row |= {"searches": list(dict.fromkeys(searches))} if searches else {}
        row |= {"context": context} if context else {}
        # With the salt, nobody can test guesses of conversation ids, such as addresses, against a group.
        row |= {"group": _digest(self.salt.hex(), turn.conversation), "origin": "traces"}
        self.queries.append(row)
        self.masked += counts
        self.from_searches += turn.searched

    def list_names(self, *whys: str) -> tuple[CalledName, ...]:
        """The names that are not gold for some reasons, most frequent first."""
        counted = sorted((-count, name, why) for (name, why), count in self._no_gold.items() if why in whys)
        names = []
        for number, (count, name, why) in enumerate(counted):
            near = self._ids[name] if why == AMBIGUOUS else ()
            if why == UNKNOWN and self.names is not None and number < _MOST_NEAR:
                near = tuple(self.names.near(name))
            names.append(CalledName(one_line(name, 120), -count, near, why if why in ASIDE else ""))
        return tuple(names)

    def _mask_turn(self, text: str, counts: Counter[str]) -> str:
        # A truncated text may end inside a key: drop its last word.
        whole = text.rsplit(None, 1)[0] if len(text) >= MOST_TEXT else text
        text, more = self.mask(whole)
        counts += more
        return shorten(text, MOST_TURN_TEXT)

    def _tools(self, turn: Turn) -> list[str]:
        """The tools of a turn by their ids in the catalogue, or by their logged names."""
        tools: dict[str, None] = {}
        for called in turn.tools:
            if called not in self._ids:
                self._ids[called] = self._meanings(called)
            ids = self._ids[called]
            if len(ids) == 1:
                tools[ids[0]] = None
                self.record.take(called, ids[0])
            else:
                self._no_gold[called, AMBIGUOUS if ids else UNKNOWN] += 1
        return list(tools)

    def _meanings(self, called: str) -> tuple[str, ...]:
        """The ids of the tools that a name may stand for."""
        if name_fault(called) or "|" in called:  # which separates alternatives in a file of queries
            return ()
        if self.names is None:
            return (called,)
        return tuple(sorted(self.names.tools[code].tool_id for code in self.names.find(called)))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _why(rows: _QueryRows, turns: Sequence[Turn], loose_calls: int, remarks: Remarks) -> str:
    """Why there is no query, as the end of a sentence."""
    reasons = [f"{reason} (requests: {count})" for reason, count in rows.dropped.items()]
    reasons += [f"{each.name!r} may mean {', '.join(each.near[:5])}" for each in rows.list_names(AMBIGUOUS)[:3]]
    if by_text := sum(turn.count_failures(by_text=True) for turn in turns):
        reasons.append(f"only the text of the result tells that a call failed (calls: {by_text})")
    if loose_calls:
        reasons.append(f"calls have no request of a user (calls: {loose_calls})")
    reasons += [f"{place}: {remark}" for place, remark in remarks.first[:3]]
    return "; ".join(reasons) or "no record has a request or a call"
