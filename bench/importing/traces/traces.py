"""From files of logs to the rows of a queries file."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.base.errors import DataError, UsageError
from bench.base.paths import expand_path, write_text
from bench.base.text import one_line, shorten
from bench.data.tool_names import NameRecord, ToolNames
from bench.importing.queries import MOST_QUERIES
from bench.importing.tools.catalogue import Source, read_catalogue
from bench.importing.tools.tool import name_fault
from bench.importing.traces.events import MOST_TEXT, LoggedExchange
from bench.importing.traces.forms import TRAFFIC_FORMS, Records, TrafficForm
from bench.importing.traces.joining import Joiner, Turn
from bench.importing.traces.masking import mask_text
from bench.importing.traces.reading import LogReader, Unread
from bench.importing.traces.roles import FAILED, SEARCH, Roles

#: Characters of an earlier message, and of a search, that a row keeps.
MOST_TURN_TEXT = 2_000
#: Tools of one row. A file of queries may name a thousand.
_MOST_TOOLS = 500
#: Remarks that are kept one by one, and unknown tools whose near names are looked for.
_MOST_REMARKS, _MOST_NEAR = 1_000, 20

NO_CALL = "no tool was called"
NO_TEXT = "the request has no text"
TOO_LONG = f"the request is longer than {MOST_TEXT} characters"
UNKNOWN = "no tool of the catalogue was called"
REPEATED = "another request has the same text and tools"


@dataclass(frozen=True)
class UnknownTool:
    """A name that was called and that the catalogue does not have.

    Attributes:
        name: as it was called.
        requests: how many requests called it.
        near: ids of tools that may be meant.
    """

    name: str
    requests: int
    near: tuple[str, ...]


@dataclass(frozen=True)
class SetAside:
    """A name that was called and is no gold.

    Attributes:
        name: as it was called.
        why: a built-in tool, a handoff, a search for tools, or every call of it failed.
        requests: how many requests called it.
    """

    name: str
    why: str
    requests: int


@dataclass(frozen=True)
class Traffic:
    """Queries out of logs. Called is not the same as right: read them before you use them as gold.

    Attributes:
        queries: rows as `bench data import --queries` and `bench.import_tools` read them.
        requests: requests of users that the logs have, those without a query included.
        dropped: why requests became no query -> how many.
        loose_calls: calls for which the logs have no request.
        from_searches: queries whose text is that of a tool search, because the log has no request.
        ambiguous: texts that several queries have, with different tools.
        masked: placeholder -> how often it stands in the queries.
        unknown_tools: names outside the catalogue, the most frequent first; without one, names that no tool can have.
        set_aside: names that were called and are no gold, the most frequent first.
        records: form -> records of the logs.
        mapped_names: a sentence about names of tools that are no ids of the catalogue; empty if all are.
        unread: lines that could not be read, and records in no known form.
        remarks: (place, why) of the first of these.
    """

    queries: tuple[Mapping[str, Any], ...]
    requests: int
    dropped: Mapping[str, int]
    loose_calls: int
    from_searches: int
    ambiguous: int
    masked: Mapping[str, int]
    unknown_tools: tuple[UnknownTool, ...]
    set_aside: tuple[SetAside, ...]
    records: Mapping[str, int]
    mapped_names: str
    unread: int
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
    """Queries with the tools that were called, out of logs, as `bench data from-traffic` writes them.

    A query is a turn of a user. Its tools are those called until the next turn, in order, each once, without those
    whose every call failed. Called is not the same as right: read the queries before you use them as gold.

    Args:
        files: logs, JSON Lines or JSON: OpenTelemetry, requests and answers of OpenAI and similar APIs, messages of
            agent frameworks, exports of Langfuse and LangSmith, logs of MCP gateways.
        form: `otel`, `openai`, `langfuse`, `langsmith`, `agents` or `mcp`; None to recognise the form of each record.
        search_tools: more tools that search for tools, beside those that hosts and gateways have. Their calls are no
            gold; what they searched for is kept.
        bridge_tools: more tools that call the tool that their arguments name, beside `call_tool` and the like. The
            tool inside is gold. A tool of the catalogue by such a name is one, unless it calls another of it.
        tools: sources of a catalogue, as paths or as `"SERVER=PATH"`; calls of other tools are left out.
        keep_personal_data: do not mask e-mail addresses, keys and long numbers.

    Raises:
        UsageError: a file cannot be read, or there is too much in the files.
        DataError: a file is neither JSON nor JSON Lines, or the files hold no query.

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
    files, tools = _several(files), _several(tools)
    if not files:
        raise UsageError("there is no file to read queries from.")
    if form is not None and form not in TRAFFIC_FORMS:
        raise UsageError(f"form is {form!r}; it must be {', '.join(TRAFFIC_FORMS[:-1])} or {TRAFFIC_FORMS[-1]}.")
    names = ToolNames(read_catalogue([Source.of(str(each)) for each in tools]).tools) if tools else None
    roles = Roles(search_tools, bridge_tools, names)
    reader, joiner, told = LogReader(), Joiner(roles), _Told()
    for number, file in enumerate(files):
        path = expand_path(file)
        _read(path, reader, joiner, Records(form, f"file {number}"), told)
    turns = joiner.turns()
    rows = _QueryRows(names, (lambda text: (text, Counter())) if keep_personal_data else mask_text, reader.digest)
    for turn in turns:
        rows.add(turn)
    if not rows.queries:
        raise DataError(f"{_list(files)} has no query: {_why(rows, joiner, told)}.")
    texts = Counter(row["query"] for row in rows.queries)
    return Traffic(
        queries=tuple(rows.queries),
        requests=sum(not turn.searched for turn in turns),
        dropped=dict(rows.dropped),
        loose_calls=joiner.loose_calls,
        from_searches=rows.from_searches,
        ambiguous=sum(count > 1 for count in texts.values()),
        masked=dict(sorted(rows.masked.items())),
        unknown_tools=rows.unknown(),
        set_aside=rows.set_aside(search_tools),
        records=dict(told.records),
        mapped_names=rows.record.mapped(),
        unread=told.unread,
        remarks=tuple(told.remarks),
    )


def _several(given: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    return [given] if isinstance(given, str | Path) else given


class _Told:
    """What was read, and what could not be."""

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self.unread = 0
        self.remarks: list[tuple[str, str]] = []

    def skip(self, place: str, reason: str) -> None:
        self.unread += 1
        if len(self.remarks) < _MOST_REMARKS:
            self.remarks.append((place, reason))


def _read(path: Path, reader: LogReader, joiner: Joiner, records: Records, told: _Told) -> None:
    label = one_line(path.name, 120)
    for each in reader.read(path):
        place = f"{label}, line {each.line}"
        if isinstance(each, Unread):
            told.skip(place, each.reason)
            continue
        unknown = records.unknown
        try:
            # All of a record or nothing of it.
            exchanges: list[LoggedExchange] = list(records.read(each.value))
        except RecursionError:
            told.skip(place, "it is nested too deeply")
            continue
        for _ in range(records.unknown - unknown):
            told.skip(place, "it is in no known form")
        for exchange in exchanges:
            joiner.add(exchange)
        if len(joiner) > MOST_QUERIES:
            raise UsageError(f"the files have more than {MOST_QUERIES} requests; read them in parts.")
    for exchange in records.finish():
        joiner.add(exchange)
    told.records.update(records.counts)


class _QueryRows:
    """Turns as rows of a queries file, each text with its tools once."""

    def __init__(self, names: ToolNames | None, mask: Callable[[str], tuple[str, Counter[str]]], salt: bytes) -> None:
        self._names = names
        self._mask = mask
        self._salt = salt
        self._known: dict[str, str | None] = {}
        self._seen: set[tuple[str, frozenset[str]]] = set()
        self._unknown: Counter[str] = Counter()
        self._aside: Counter[tuple[str, str]] = Counter()
        self.queries: list[dict[str, Any]] = []
        self.dropped: Counter[str] = Counter()
        self.masked: Counter[str] = Counter()
        self.from_searches = 0
        self.record = NameRecord()

    def add(self, turn: Turn) -> None:
        """Take a turn as a row, or count why it is none."""
        text, counts = self._mask(turn.text) if len(turn.text) <= MOST_TEXT else (turn.text, Counter())
        tools = self._tools(turn)
        self._aside.update((one_line(name, 120), why) for name, why in turn.aside)
        reason = (
            NO_TEXT
            if not text
            else TOO_LONG
            if len(turn.text) > MOST_TEXT
            else FAILED
            if not turn.tools and any(why == FAILED for _, why in turn.aside)
            else NO_CALL
            if not turn.tools
            else UNKNOWN
            if not tools
            else REPEATED
            if (text, frozenset(tools)) in self._seen
            else ""
        )
        if reason:
            self.dropped[reason] += 1
            return
        self._seen.add((text, frozenset(tools)))
        row: dict[str, Any] = {"id": _digest(text, *sorted(tools)), "query": text, "tools": tools}
        # What was searched first is the text of such a query.
        searches = [self._mask_turn(each, counts) for each in turn.searches]
        if searches:
            row["searches"] = list(dict.fromkeys(searches))
        context = [{"role": role, "content": self._mask_turn(said, counts)} for role, said in turn.context if said]
        if context:
            row["context"] = context
        # With the salt, nobody can try names of conversations, such as addresses, to see whose group it is.
        row |= {"group": _digest(self._salt.hex(), turn.conversation), "origin": "traces"}
        self.queries.append(row)
        self.masked += counts
        self.from_searches += turn.searched

    def unknown(self) -> tuple[UnknownTool, ...]:
        """The names that the catalogue does not have."""
        unknown_tools = []
        for number, (name, count) in enumerate(sorted(self._unknown.items(), key=lambda pair: (-pair[1], pair[0]))):
            near = self._names.near(name) if self._names is not None and number < _MOST_NEAR else []
            unknown_tools.append(UnknownTool(name, count, tuple(near)))
        return tuple(unknown_tools)

    def set_aside(self, search_tools: Sequence[str]) -> tuple[SetAside, ...]:
        """The names that are no gold, without the search tools that the user named."""
        counted = sorted(self._aside.items(), key=lambda pair: (-pair[1], pair[0]))
        return tuple(
            SetAside(name, why, count)
            for (name, why), count in counted
            if not (why == SEARCH and {name, name.rpartition("/")[2]} & set(search_tools))
        )

    def _mask_turn(self, text: str, counts: Counter[str]) -> str:
        # A text that was cut may end in half a key: its last word goes.
        whole = text.rsplit(None, 1)[0] if len(text) >= MOST_TEXT else text
        text, more = self._mask(whole)
        counts += more
        return shorten(text, MOST_TURN_TEXT)

    def _tools(self, turn: Turn) -> list[str]:
        """The tools of a turn by their ids in the catalogue, or as they were called."""
        tools: dict[str, None] = {}
        for called in turn.tools[:_MOST_TOOLS]:
            if called not in self._known:
                self._known[called] = self._id(called)
            tool = self._known[called]
            if tool is None:
                self._unknown[one_line(called, 120)] += 1
            else:
                tools[tool] = None
                self.record.take(called, tool)
        return list(tools)

    def _id(self, called: str) -> str | None:
        # `|` separates alternatives in a file of queries.
        if name_fault(called) or "|" in called:
            return None
        if self._names is None:
            return called
        codes = self._names.find(called)
        return self._names.tools[codes[0]].tool_id if len(codes) == 1 else None


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _list(files: Sequence[str | Path]) -> str:
    return ", ".join(str(file) for file in files[:3]) + (", ..." if len(files) > 3 else "")


def _why(rows: _QueryRows, joiner: Joiner, told: _Told) -> str:
    """Why there is no query, as the end of a sentence."""
    reasons = [f"{reason} (requests: {count})" for reason, count in rows.dropped.items()]
    if joiner.loose_calls:
        reasons.append(f"calls have no request of a user (calls: {joiner.loose_calls})")
    if told.unread:
        place, why = told.remarks[0]
        reasons.append(f"records could not be read ({told.unread}; the first: {place}: {why})")
    return "; ".join(reasons) or "no record has a request or a call"
