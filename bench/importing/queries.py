"""Read queries with their tools, from a file or from Python, and check them against a catalogue.

`bench.registry.catalogues` and loaders of datasets call it.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.strict_json import RepeatedKey
from bench.base.text import one_line
from bench.data.origins import TRACES, is_synthetic, written_by
from bench.data.tables import SPLITS, Query, Tool
from bench.data.tool_names import NameRecord, ToolNames
from bench.importing.assertions import ToolPattern, UnreadablePatternError, call_of, without_arguments
from bench.importing.query_files import query_rows
from bench.importing.query_rows import MISSING, FieldNames, at_path, expand
from bench.importing.reading import parse_cell
from bench.show.numbers import several

#: promptfoo's reference to a text in a file.
_FILE = re.compile(r"file://\S+")
#: Words in place of a tool's name that say that no tool fits, in any case, with any sign between their parts. If the
#: library has a tool of this name, the tool is meant.
NO_TOOL = frozenset({"none", "null", "no_tool"})
#: Kept even if empty: they then say that no tool is needed.
_REQUIRED = frozenset({"query", "tools", "any"})
_JUDGED = frozenset({"tools", "any"})
_SHOWN = 5
#: Maximum tools, searches and earlier turns of one query.
_MOST_NAMED = 1_000
#: Maximum size of all scopes of a file together. A line that names a server names all its tools.
_MOST_SEEN = 20_000_000
#: Maximum tags of a file: each is a column of the table of queries.
_MOST_TAGS = 200
_LONGEST_MODEL = 200
_ROLES = frozenset({"role", "content"})
MOST_QUERIES = 1_000_000


def read_queries(
    path: Path,
    tools: Sequence[Tool],
    unknown: list[tuple[str, str]] | None = None,
    *,
    fields: FieldNames | None = None,
    notes: list[str] | None = None,
) -> list[Query]:
    """Read the queries of a file.

    `query` is the text. `tools` is a list, an object of tools and relevances, or in CSV a cell with tools separated by
    `;`. Each entry is a requirement; if any of several tools meets it, the entry is a list, or the tools are joined by
    `|`. An empty list, null or a word of `NO_TOOL` means that no tool fits: the query has no gold. A tool of relevance
    0 or below is judged, but not gold. `bench.importing.query_rows` knows the names of these fields in other projects.

    The other fields are optional. `id` defaults to a number in the order of the file, `split` to test. `forbidden` are
    tools that look right and do harm. `scope` and `servers` are the tools and servers that the request may see; all by
    default. `tags` are words, or an object of names and values, by which results are shown (slices). `searches` are
    texts that a model typed into a tool search (in CSV joined by `|`). `context` are earlier turns, as texts or as
    objects of role and content. Queries of one `group` are dependent. `origin` is `traces` or `model NAME`; by default,
    people wrote the query.

    Args:
        path: a file that ends in .csv, .tsv, .jsonl, .json, .yaml or .yml.
        tools: the catalogue.
        unknown: receives (query id, name) for each unknown name. Requirements without a known tool are then left out,
            and so are queries that lose all requirements. None: an unknown name is an error.
        fields: names of fields from the user.
        notes: receives sentences about what was interpreted, and about what was not read.

    Raises:
        UsageError: the file cannot be read, or is too large.
        DataError: the file is malformed, a field is missing or unknown, a name is unknown or ambiguous, or rows
            contradict each other; up to five faults are listed, each with its line and the candidates.
        UnavailableError: the file is YAML and PyYAML is not installed.
    """
    fields = FieldNames() if fields is None else fields
    return queries_of(query_rows(path, fields), tools, str(path), unknown, fields=fields, notes=notes)


def queries_of(
    rows: Sequence[tuple[str, Any]],
    tools: Sequence[Tool],
    where: str,
    unknown: list[tuple[str, str]] | None = None,
    *,
    fields: FieldNames | None = None,
    notes: list[str] | None = None,
    earlier: Callable[[], Sequence[Tool]] | None = None,
) -> list[Query]:
    """Read queries from (place, row) pairs; arguments and errors as in `read_queries`.

    `earlier` returns the previous catalogue, from which errors tell the new name of a renamed tool.
    """
    faults: list[str] = []
    rows = [(place, each) for place, row in rows for each in expand(row, place, faults)]
    if not rows and not faults:
        raise DataError(f"{where} has no queries.")
    if len(rows) > MOST_QUERIES:
        raise DataError(f"{where} has more than {MOST_QUERIES} queries.")
    fields = FieldNames() if fields is None else fields
    reader = _RowReader(ToolNames(tools, earlier), fields)
    width = len(str(len(rows)))
    queries: list[Query] = []
    places: dict[str, str] = {}
    seen = 0
    for number, (place, row) in enumerate(rows, start=1):
        reader.begin(place, None if unknown is None else [], near=len(faults) < _SHOWN)
        try:
            query = reader.query(row, f"q{number:0{width}}")
        except RepeatedKey as error:
            query = None
            reader.mistakes.append(f"in a text, {error}")
        if query is not None and (first := places.setdefault(query.query_id, place)) != place:
            reader.mistakes.append(f"the id {one_line(query.query_id, 80)!r} is that of {first}, too")
        faults += [f"{place}: {mistake}" for mistake in reader.mistakes]
        if query is None or reader.mistakes:
            continue
        if unknown is not None and reader.dropped:
            unknown += [(query.query_id, name) for name in reader.dropped]
            # A query that no tool answers stays if only a forbidden tool was left out.
            if not query.gold and reader.is_judged:
                continue
        queries.append(query)
        seen += len(query.scope)
        if seen > _MOST_SEEN:
            raise DataError(
                f"{where}, {place}: the requests up to here may see {_MOST_SEEN:,} tools together; split the file."
            )
    if len(tags := {name for query in queries for name in query.slices}) > _MOST_TAGS:
        raise DataError(f"{where} has {len(tags)} different tags; at most {_MOST_TAGS} are allowed.")
    for ours, path in fields.given.items():
        if rows and all(at_path(row, path) is MISSING for _, row in rows):
            row = rows[0][1] if isinstance(rows[0][1], dict) else {}
            keys = ", ".join(one_line(str(key), 40) for key in list(row)[:10]) or "none"
            raise DataError(f"{where} has no field {one_line(path, 80)!r} (--field {ours}={path}); it has {keys}.")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        count = "," if len(faults) == 1 else f" has {len(faults)} faults:"
        raise DataError(f"{where}{count} {'; '.join(faults[:_SHOWN])}{more}.")
    if notes is not None:
        notes += [*reader.notes(), *_disagreeing(queries, places)]
    return queries


def _disagreeing(queries: Sequence[Query], places: dict[str, str]) -> list[str]:
    """A sentence about queries with the same text and no tool in common, with the places of the first two."""
    by_text: dict[str, Query] = {}
    pairs = []
    for query in queries:
        first = by_text.setdefault(" ".join(query.text.split()).casefold(), query)
        if not first.meeting.keys() & query.meeting.keys() and (first.meeting or query.meeting):
            pairs.append(f"{places[first.query_id]} and {places[query.query_id]}")
    if not pairs:
        return []
    count = several(len(pairs), "query has", "queries have")
    return [f"{count} the text of an earlier one and no tool in common with it; the first: {pairs[0]}"]


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _turn(value: Any) -> str:
    """An earlier turn as a text; empty if the value is not a turn."""
    if isinstance(value, dict) and value.keys() == _ROLES and all(isinstance(part, str) for part in value.values()):
        return f"{value['role']}: {value['content']}"
    return value.strip() if isinstance(value, str) else ""


def _is_origin(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    model = value.removeprefix(written_by("")).strip()
    return value in {"", TRACES} or (is_synthetic(value) and 0 < len(model) < _LONGEST_MODEL)


def _count(things: Counter[str]) -> str:
    """The most frequent entries with their counts."""
    first = ", ".join(f"{name} ({count})" for name, count in things.most_common(_SHOWN))
    return first + (f" and {len(things) - _SHOWN} more" if len(things) > _SHOWN else "")


def _no_text(value: Any, label: str) -> str:
    """Why a value is not the text of a query."""
    if isinstance(value, str) and value.strip():
        return f"is {one_line(value.strip(), 80)!r}, and files are not followed; write the text in its place"
    if isinstance(value, list) and value:
        return "is a list, but not of messages with one of a user; expected one text: write a row for each"
    if isinstance(value, dict) and value:
        keys = [one_line(str(key), 40) for key in list(value)[:5]]
        return f"has no text under a known name among {', '.join(keys)}; say which with --field text={label}.{keys[0]}"
    return "is missing or not a text"


class _RowReader:
    """Reads the rows of one file in order.

    Attributes:
        mistakes: the faults of the row.
        dropped: unknown names in the row; None if they are mistakes.
        is_judged: whether the row has a requirement.
    """

    def __init__(self, names: ToolNames, fields: FieldNames) -> None:
        self._names = names
        self._fields = fields
        self._record = NameRecord()
        self._zeros = self._below = self._only_zeros = 0
        #: How rows say that no tool fits -> number of rows.
        self._without: Counter[str] = Counter()
        self._silent: Counter[str] = Counter()
        self._unclear: list[str] = []
        self.begin("", None, near=True)

    def begin(self, place: str, dropped: list[str] | None, *, near: bool) -> None:
        """Begin a row; `near`: whether to look for names similar to unknown ones."""
        self.mistakes: list[str] = []
        self.dropped = dropped
        self.is_judged = False
        self._place, self._near = place, near

    def query(self, row: Any, identifier: str) -> Query | None:
        """The query of a row; None if the value is not a row."""
        mistake = self.mistakes.append
        if not isinstance(row, dict):
            mistake("it is not an object with query and tools")
            return None
        read = self._fields.read(row, mistake)
        self._silent += read.silent
        self._unclear += [f"{self._place} ({kind})" for kind in read.unclear]
        values = {key: value for key, value in read.values.items() if key in _REQUIRED or value not in (None, "")}
        text, split = values.get("query"), values.get("split", "test")
        identifier = values.get("id", identifier)
        if not isinstance(text, str) or not text.strip() or _FILE.fullmatch(text.strip()):
            told = read.labels.get("query", "query")
            called = "" if told == "query" else f" ({told})"
            mistake(f"the query{called} {_no_text(text, told)}{self._hint('text', row, read.labels.get('query'))}")
        if not _is_name(identifier):
            mistake("the id is not a text")
        if split not in SPLITS:
            mistake(f"the split {one_line(str(split), 40)!r} is none of {', '.join(SPLITS)}")
        forbidden = self._forbidden(values.get("forbidden", []), read.labels.get("forbidden", "forbidden"))
        if not values.keys() & _JUDGED:
            hint = self._hint("tools", row, None)
            mistake(f"the tools are missing; write an empty list for a query that no tool answers{hint}")
        scope = self._scope(values, read.labels)
        self._empty = "only forbidden tools" if read.only_forbids else "empty"
        gold, any_of = self._requirements(values, read.labels, forbidden, scope)
        if both := {*gold, *(other for others in any_of.values() for other in others)}.intersection(forbidden):
            mistake(f"{one_line(min(both), 80)!r} is both right and forbidden")
        group, origin = values.get("group", ""), values.get("origin", "")
        if not _is_name(group):
            mistake("the group is not a text")
        if not _is_origin(origin):
            mistake("the origin is neither traces nor model NAME; leave it out for queries that people wrote")
        return Query(
            str(identifier),
            str(text),
            gold,
            split,
            self._tags(values.get("tags", [])),
            str(group),
            any_of,
            forbidden,
            tuple(self._texts(values.get("searches", []), "searches", "|")),
            self._turns(values.get("context", [])),
            str(origin),
            scope=scope,
        )

    def _hint(self, option: str, row: dict[str, Any], label: str | None) -> str:
        """How to name a missing field; empty if the row has the field."""
        if label is not None or self._fields.given:
            return ""
        fields = ", ".join(one_line(str(key), 40) for key in list(row)[:8]) or "no field"
        return f"; it has {fields}, and another name is given by --field {option}=NAME"

    def notes(self) -> list[str]:
        """What was interpreted, and what was not read, in all rows."""
        notes = [mapped] if (mapped := self._record.mapped()) else []
        if count := self._without.total():
            many = several(count, "query is answered by no tool", "queries are answered by no tool")
            notes.append(f"{many}, as their tools say: {_count(self._without)}")
        if self._zeros:
            judgements = several(self._zeros, "judgement")
            below = f" ({self._below} below 0, which is read as 0)" if self._below else ""
            only = f"; queries with no other, which no tool answers: {self._only_zeros}" if self._only_zeros else ""
            notes.append(f"{judgements} of relevance 0{below}, which is not gold{only}")
        if self._silent:
            notes.append(f"assertions that do not say which tools are right: {_count(self._silent)}")
        if self._unclear:
            more = f" and {len(self._unclear) - _SHOWN} more" if len(self._unclear) > _SHOWN else ""
            notes.append(
                f"assertions that may be about tools and are not read: {', '.join(self._unclear[:_SHOWN])}{more}"
            )
        if ignored := self._fields.ignored:
            notes.append(f"fields that are not read (rows): {_count(ignored)}")
        return notes

    def _requirements(
        self, values: dict[str, Any], labels: dict[str, str], forbidden: tuple[str, ...], scope: tuple[str, ...]
    ) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
        """Gold and its alternatives. The gold tool of a requirement is its first tool that no other one took."""
        entries = self._entries(values, labels)
        if len(entries) > _MOST_NAMED:
            self.mistakes.append(f"it names more than {_MOST_NAMED} tools")
            return {}, {}
        wanted: dict[tuple[str, ...], int] = {}
        for named, relevance, label in entries:
            grade = int(relevance) if isinstance(relevance, float) and relevance.is_integer() else relevance
            shown = one_line(str(named), 60)
            if not isinstance(grade, int) or isinstance(grade, bool):
                self.mistakes.append(f"{label}: the relevance of {shown!r} is not a whole number")
            elif group := self._group(named, label, forbidden):
                if scope and not (group := tuple(tool for tool in group if tool in scope)):
                    self.mistakes.append(f"{label}: {shown!r} is outside the scope of the request")
                elif (before := wanted.setdefault(group, max(grade, 0))) != max(grade, 0):
                    self.mistakes.append(f"{label}: {shown!r} is judged twice, with {before} and with {max(grade, 0)}")
                self._below += grade < 0
        self.is_judged = bool(entries)
        zeros = sum(not grade for grade in wanted.values())
        self._zeros += zeros
        self._only_zeros += 0 < zeros == len(wanted)
        gold: dict[str, int] = {}
        any_of: dict[str, tuple[str, ...]] = {}
        # Requirements with the fewest tools choose first, so that others never take their only tool.
        for group in sorted((group for group, grade in wanted.items() if grade), key=len):
            free = [tool for tool in group if tool not in gold]
            if not free:
                self.mistakes.append(f"{one_line(' | '.join(group), 80)!r} is required more than once")
                continue
            gold[free[0]] = wanted[group]
            if others := tuple(tool for tool in group if tool != free[0]):
                any_of[free[0]] = others
        return gold, any_of

    def _scope(self, values: dict[str, Any], labels: dict[str, str]) -> tuple[str, ...]:
        """Ids of the tools in the scope of the request; empty for the whole catalogue."""
        given = {name: parse_cell(values[name]) for name in ("scope", "servers") if name in values}
        # Where unknown names are left out, so are unknown tools of a scope; they are not reported as unknown names.
        dropped, self.dropped = self.dropped, None if self.dropped is None else []
        scope: list[str] = []
        for name, value in given.items():
            label = labels.get(name, name)
            entries = self._cells(value) if isinstance(value, str) else value
            if not isinstance(entries, list) or not entries or not all(isinstance(each, str) for each in entries):
                self.mistakes.append(f"{label} must be a list of names; leave it out where all tools may be seen")
                entries = []
            for entry in entries:
                if name == "scope":
                    scope += self._tools(entry, label)
                elif codes := self._names.of_server(entry):
                    scope += [self._names.tools[code].tool_id for code in codes]
                elif dropped is None:
                    self.mistakes.append(f"{label}: no tool belongs to the server {one_line(entry, 80)!r}")
        self.dropped = dropped
        if given and not scope and not self.mistakes:
            self.mistakes.append("no tool of its scope is in the catalogue")
        return tuple(dict.fromkeys(scope))

    def _entries(self, values: dict[str, Any], labels: dict[str, str]) -> list[tuple[Any, Any, str]]:
        """(entry that names one tool or several, relevance, name of the field) of each requirement."""
        given, any_of = (parse_cell(values.get(name)) for name in ("tools", "any"))
        label = labels.get("tools", "tools")
        entries: list[tuple[Any, Any, str]] = []
        if isinstance(given, dict) and all(isinstance(value, int | float) for value in given.values()):
            entries = [(named, relevance, label) for named, relevance in given.items()]
        elif isinstance(given, str | list):
            entries = [(each, 1, label) for each in (self._cells(given) if isinstance(given, str) else given)]
        elif isinstance(given, dict):
            entries = [(given, 1, label)]
        elif given is not None:
            self.mistakes.append("the tools are missing; write an empty list for a query that no tool answers")
        if any_of := self._cells(any_of) if isinstance(any_of, str) else any_of:
            entries.append((any_of, 1, labels.get("any", "requireAny")))
        none = [said for named, _, _ in entries if (said := self._no_tool(named))]
        if none and len(none) < len(entries):
            self.mistakes.append(f"{label}: it names tools, and {none[0]!r} beside them")
        elif values.keys() & _JUDGED and (none or not entries) and not self.mistakes:
            self._without[none[0] if none else "null" if given is None else self._empty] += 1
        return [] if none else entries

    def _no_tool(self, named: Any) -> str:
        """The word in place of a name that says that no tool fits; empty if it is a name."""
        if named is None:
            return "null"
        name = (
            call_of(named) if isinstance(named, str) or (isinstance(named, dict) and "toolPattern" not in named) else ""
        )
        word = re.sub(r"[\s_-]+", "_", name.lower()) if isinstance(name, str) else ""
        return word if word in NO_TOOL and not self._names.find(str(name)) else ""

    def _cells(self, text: str) -> list[str]:
        """The names in a cell, separated by `;`, line ends or commas."""
        parts = [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]
        if len(parts) == 1 and "," in parts[0] and not self._names.find(parts[0]):
            split = [part.strip() for part in parts[0].split(",") if part.strip()]
            # Arguments of a call contain commas, too.
            parts = split if all(self._names.find(part) for part in split) else parts
        return parts

    def _forbidden(self, given: Any, label: str) -> tuple[str, ...]:
        """Ids of the forbidden tools."""
        given = parse_cell(given)
        parts = self._cells(given) if isinstance(given, str) else [given] if isinstance(given, dict) else given
        if not isinstance(parts, list) or len(parts) > _MOST_NAMED:
            self.mistakes.append(f"{label} must be a list of texts, at most {_MOST_NAMED}")
            return ()
        named = [part for part in parts if not self._no_tool(part)]
        return tuple(dict.fromkeys(tool for each in named for tool in self._tools(each, label, may_be_none=True)))

    def _tags(self, given: Any) -> dict[str, str]:
        """Slices; a word without a value gets the value yes."""
        if not isinstance(given, dict):
            words = dict.fromkeys(self._texts(given, "tags", ";"), "yes")
        elif len(given) <= _MOST_NAMED and all(isinstance(value, str | int | float) for value in given.values()):
            words = {str(name).strip(): str(value).strip() for name, value in given.items()}
        else:
            self.mistakes.append("tags must be words, or an object of names and texts")
            return {}
        if not all(words) or not all(words.values()):
            self.mistakes.append("a tag has no name or no value")
        return words

    def _turns(self, given: Any) -> tuple[str, ...]:
        """Earlier turns: texts, or objects of role and content, which become `role: content`."""
        if isinstance(given, str):
            return (given.strip(),)
        turns = tuple(map(_turn, given)) if isinstance(given, list) and len(given) <= _MOST_NAMED else ("",)
        if not all(turns):
            self.mistakes.append("context must be a list of texts, or of objects with role and content")
        return turns

    def _texts(self, given: Any, field: str, separator: str) -> list[str]:
        """The texts of a list, or of a cell, each once."""
        parts = given.split(separator) if isinstance(given, str) else given
        if not isinstance(parts, list) or len(parts) > _MOST_NAMED or not all(map(_is_name, parts)):
            self.mistakes.append(f"{field} must be a list of texts, at most {_MOST_NAMED}")
            return []
        return list(dict.fromkeys(text for part in parts if (text := str(part).strip())))

    def _group(self, named: Any, label: str, forbidden: tuple[str, ...]) -> tuple[str, ...]:
        """Ids of the tools of which any meets a requirement; empty if a name is unknown."""
        members = named if isinstance(named, list) else [named]
        if isinstance(named, str) and "|" in named and len(self._names.find(named.strip())) != 1:
            members = named.split("|")
        if not 0 < len(members) <= _MOST_NAMED:
            members = [None]
        before = len(self.mistakes)
        tools = [tool for each in members for tool in self._tools(each, label, forbidden)]
        return tuple(dict.fromkeys(tools)) if len(self.mistakes) == before else ()

    def _tools(
        self, entry: Any, label: str, forbidden: tuple[str, ...] = (), *, may_be_none: bool = False
    ) -> list[str]:
        """Ids of the tools that an entry names: one, or all that match a pattern, except forbidden ones."""
        try:
            called = call_of(entry)
        except UnreadablePatternError as error:
            self.mistakes.append(f"{label}: {error}")
            return []
        if called is None:
            self.mistakes.append(f"{label}: a requirement names no tool: {one_line(str(entry), 60)!r}")
            return []
        if isinstance(called, ToolPattern):
            matching = [tool for tool in self._matching(called) if tool not in forbidden]
            if not matching and not may_be_none:
                self._miss(f"{called.server}/{called.pattern}".removeprefix("/"), label, "no tool matches")
            return matching
        codes = self._names.find(called)
        if not codes and (bare := without_arguments(called)) != called:
            called, codes = bare, self._names.find(bare)
        if len(codes) == 1:
            tool = self._names.tools[codes[0]].tool_id
            self._record.take(called, tool)
            return [tool]
        if codes and self.dropped is not None:
            self.mistakes.append(f"{label}: {self._names.fault(called)}")
        else:
            self._miss(called, label)
        return []

    def _matching(self, pattern: ToolPattern) -> list[str]:
        """Ids of the tools of a server with matching names, in the order of the catalogue; at most a thousand."""
        globs = [re.compile(fnmatch.translate(glob)) for glob in pattern.pattern.split("|")]
        codes = self._names.of_server(pattern.server) if pattern.server else range(len(self._names.tools))
        tools = (self._names.tools[code] for code in codes)
        matching = (tool.tool_id for tool in tools if any(glob.match(tool.name) for glob in globs))
        return list(islice(matching, _MOST_NAMED))

    def _miss(self, name: str, label: str, why: str = "") -> None:
        if self.dropped is not None:
            self.dropped.append(name)
        else:
            near = self._near and len(self.mistakes) < _SHOWN
            fault = f"{why} {one_line(name, 80)!r}" if why else self._names.fault(name, near=near)
            self.mistakes.append(f"{label}: {fault}")
