"""Queries with their tools: rows of a file, or of a program, with `query` and `tools`, checked against a catalogue."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.data.origins import TRACES, is_synthetic, written_by
from bench.data.tables import SPLITS, Query, Tool
from bench.data.tool_names import NameRecord, ToolNames
from bench.importing.query_files import query_rows
from bench.importing.query_rows import (
    FieldNames,
    ToolPattern,
    call_of,
    expand,
    parsed,
    without_arguments,
)

#: Kept though they are empty: they say that no tool is needed.
_REQUIRED = frozenset({"query", "tools", "any"})
_JUDGED = frozenset({"tools", "any"})
_SHOWN = 5
#: Of one query: tools that are named, searches, earlier turns.
_MOST_NAMED = 1_000
#: Of one file: tools that its requests may see, over all requests. A line that names a server names all of its tools.
_MOST_SEEN = 20_000_000
#: Of one file: each tag is a column of the table of queries.
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
    """The queries of a file.

    Each has `query`, the text, and `tools`: a list, an object of tool and relevance, or in CSV a cell with tools
    separated by `;`. Each entry is a requirement; where any of several tools meets it, they stand in a list or are
    joined by `|`. No entry, or null, is a query without gold: no tool fits. A relevance of 0 is a judgement and no
    gold. `bench.importing.query_rows` has the names that other projects give these fields.

    The rest is optional. `id`: numbers in the order of the file without. `split`: test without. `forbidden`: tools that
    look right and do harm. `scope`, `servers`: the tools, and the servers, that the request may see; all without.
    `tags`: words, or an object of names and values, by which results are shown (slices). `searches`: texts that a model
    typed into a tool search (in CSV joined by `|`). `context`: earlier turns, as texts or as objects of role and
    content. `group`: queries of a group are dependent. `origin`: `traces` or `model NAME`; without, people wrote the
    query.

    Args:
        path: a file that ends in .csv, .tsv, .jsonl, .json, .yaml or .yml.
        tools: the catalogue.
        unknown: takes (query id, name) of each name that means no tool. A requirement without a tool is then left out,
            and so is a query without a requirement that it had. None: such a name is an error.
        fields: names of fields that the user gives.
        notes: takes sentences about what was read otherwise than it is written: names that were mapped to ids,
            judgements of 0, fields that nobody reads.

    Raises:
        UsageError: the file cannot be read, or is too large.
        DataError: the file is malformed, a field is missing or unknown, or a name means no tool or several; up to five
            faults are listed, each with its line and the candidates.
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
) -> list[Query]:
    """The queries of (place, row) pairs; arguments and errors as of `read_queries`."""
    rows = [(place, each) for place, row in rows for each in expand(row)]
    if not rows:
        raise DataError(f"{where} has no queries.")
    if len(rows) > MOST_QUERIES:
        raise DataError(f"{where} has more than {MOST_QUERIES} queries.")
    fields = FieldNames() if fields is None else fields
    reader = _RowReader(ToolNames(tools), fields)
    width = len(str(len(rows)))
    queries: list[Query] = []
    faults: list[str] = []
    seen = 0
    for number, (place, row) in enumerate(rows, start=1):
        reader.begin(None if unknown is None else [], near=len(faults) < _SHOWN)
        query = reader.query(row, f"q{number:0{width}}")
        faults += [f"{place}: {mistake}" for mistake in reader.mistakes]
        if query is None or reader.mistakes:
            continue
        if unknown is not None and reader.dropped:
            unknown += [(query.query_id, name) for name in reader.dropped]
            # Of a query that no tool answers, a forbidden one may have been left out.
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
    first = rows[0][1]
    for ours, path in fields.given.items():
        if ours not in fields.present:
            keys = ", ".join(one_line(str(key), 40) for key in list(first)[:10]) if isinstance(first, dict) else "none"
            raise DataError(f"{where} has no field {one_line(path, 80)!r} (--field {ours}={path}); it has {keys}.")
    if len(faults) == 1:
        raise DataError(f"{where}, {faults[0]}.")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise DataError(f"{where} has {len(faults)} faults: {'; '.join(faults[:_SHOWN])}{more}.")
    if notes is not None:
        notes += reader.notes()
    return queries


def _is_origin(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    model = value.removeprefix(written_by("")).strip()
    return value in {"", TRACES} or (is_synthetic(value) and 0 < len(model) < _LONGEST_MODEL)


class _RowReader:
    """Reads the rows of one file, one after the other.

    Attributes:
        mistakes: what is wrong with the row.
        dropped: names of the row that mean no tool; None if they are mistakes.
        is_judged: whether the row requires anything.
    """

    def __init__(self, names: ToolNames, fields: FieldNames) -> None:
        self._names = names
        self._fields = fields
        self._record = NameRecord()
        self._negatives = 0
        self._only_negative = 0
        self.begin(None, near=True)

    def begin(self, dropped: list[str] | None, *, near: bool) -> None:
        """Begin a row; `near` says whether anybody reads which names are near to unknown ones."""
        self.mistakes: list[str] = []
        self.dropped = dropped
        self.is_judged = False
        self._near = near

    def query(self, row: Any, identifier: str) -> Query | None:
        """The query of a row; None if it is no row at all."""
        mistake = self.mistakes.append
        if not isinstance(row, dict):
            mistake("it is not an object with query and tools")
            return None
        read = self._fields.read(row, mistake)
        values = {key: value for key, value in read.values.items() if key in _REQUIRED or value not in (None, "")}
        text, split = values.get("query"), values.get("split", "test")
        identifier = values.get("id", identifier)
        if not isinstance(text, str) or not text.strip():
            told = read.labels.get("query", "query")
            called = "" if told == "query" else f" ({told})"
            mistake(f"the query{called} is missing or no text{self._hint('text', row, read.labels.get('query'))}")
        if not isinstance(identifier, str | int) or isinstance(identifier, bool):
            mistake("the id is no text")
        if split not in SPLITS:
            mistake(f"the split {one_line(str(split), 40)!r} is none of {', '.join(SPLITS)}")
        forbidden = self.forbidden(values.get("forbidden", []), read.labels.get("forbidden", "forbidden"))
        if not values.keys() & _JUDGED:
            hint = self._hint("tools", row, None)
            mistake(f"the tools are missing; write an empty list for a query that no tool answers{hint}")
        scope = self.scope(values, read.labels)
        gold, any_of = self.requirements(values, read.labels, forbidden, scope)
        if both := {*gold, *(other for others in any_of.values() for other in others)}.intersection(forbidden):
            mistake(f"{one_line(min(both), 80)!r} is both right and forbidden")
        group, origin = values.get("group", ""), values.get("origin", "")
        if not isinstance(group, str | int) or isinstance(group, bool):
            mistake("the group is no text")
        if not _is_origin(origin):
            mistake("the origin is neither traces nor model NAME; leave it out for queries that people wrote")
        return Query(
            str(identifier),
            str(text),
            gold,
            split,
            self.tags(values.get("tags", [])),
            str(group),
            any_of,
            forbidden,
            self.texts(values.get("searches", []), "searches", separator="|"),
            self.turns(values.get("context", [])),
            str(origin),
            scope=scope,
        )

    def _hint(self, option: str, row: dict[str, Any], label: str | None) -> str:
        """How to name a field that the row does not have; empty where it has one."""
        if label is not None or self._fields.given:
            return ""
        fields = ", ".join(one_line(str(key), 40) for key in list(row)[:8]) or "no field"
        return f"; it has {fields}, and another name is given by --field {option}=NAME"

    def notes(self) -> list[str]:
        """What was read otherwise than it is written, in all rows."""
        notes = [mapped] if (mapped := self._record.mapped()) else []
        if self._negatives:
            only = f"; {self._only_negative} queries have no other and count as answered by no tool"
            judgements = "1 judgement" if self._negatives == 1 else f"{self._negatives} judgements"
            notes.append(f"{judgements} of relevance 0, which is no gold{only if self._only_negative else ''}")
        if ignored := self._fields.ignored:
            first = ", ".join(f"{name} ({count})" for name, count in ignored.most_common(_SHOWN))
            more = f" and {len(ignored) - _SHOWN} more" if len(ignored) > _SHOWN else ""
            notes.append(f"fields that are not read (rows): {first}{more}")
        return notes

    def requirements(
        self, values: dict[str, Any], labels: dict[str, str], forbidden: tuple[str, ...], scope: tuple[str, ...]
    ) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
        """Gold and its alternatives. The gold tool of a requirement is the first of its tools that no other has."""
        entries = self._entries(values, labels)
        if len(entries) > _MOST_NAMED:
            self.mistakes.append(f"it names more than {_MOST_NAMED} tools")
            return {}, {}
        wanted: dict[tuple[str, ...], int] = {}
        negatives = 0
        for named, relevance, label in entries:
            grade = int(relevance) if isinstance(relevance, float) and relevance.is_integer() else relevance
            if not isinstance(grade, int) or isinstance(grade, bool) or grade < 0:
                shown = one_line(str(named), 60)
                self.mistakes.append(f"{label}: the relevance of {shown!r} is not a whole number of 0 or more")
            elif group := self._group(named, label, forbidden):
                if scope and not (group := tuple(tool for tool in group if tool in scope)):
                    self.mistakes.append(f"{label}: {one_line(str(named), 60)!r} is not what the request may see")
                elif grade:
                    wanted[group] = max(grade, wanted.get(group, 0))
                negatives += not grade
        self.is_judged = bool(entries)
        self._negatives += negatives
        self._only_negative += bool(negatives) and not wanted
        gold: dict[str, int] = {}
        any_of: dict[str, tuple[str, ...]] = {}
        # Those with the fewest tools choose first, so that one tool alone is never taken by others.
        for group in sorted(wanted, key=len):
            free = [tool for tool in group if tool not in gold]
            if not free:
                self.mistakes.append(f"{one_line(' | '.join(group), 80)!r} is required more than once")
                continue
            gold[free[0]] = wanted[group]
            if others := tuple(tool for tool in group if tool != free[0]):
                any_of[free[0]] = others
        return gold, any_of

    def scope(self, values: dict[str, Any], labels: dict[str, str]) -> tuple[str, ...]:
        """Ids of the tools that the request may see; empty for the whole catalogue."""
        given = {name: parsed(values[name]) for name in ("scope", "servers") if name in values}
        scope: list[str] = []
        for name, value in given.items():
            label = labels.get(name, name)
            entries = self._cells(value) if isinstance(value, str) else value
            if not isinstance(entries, list) or not entries or not all(isinstance(each, str) for each in entries):
                self.mistakes.append(f"{label} must be a list of names; leave it out where all tools may be seen")
                return ()
            for entry in entries:
                if name == "servers":
                    codes = self._names.of_server(entry)
                    scope += [self._names.tools[code].tool_id for code in codes]
                    if not codes and self.dropped is None:
                        self.mistakes.append(f"{label}: no tool is of a server {one_line(entry, 80)!r}")
                elif (tool := self._visible(entry, label)) is not None:
                    scope.append(tool)
        if given and not scope and not self.mistakes:
            self.mistakes.append("no tool that it may see is in the catalogue")
        return tuple(dict.fromkeys(scope))

    def _visible(self, name: str, label: str) -> str | None:
        """The id of a tool of a scope; one that the catalogue lacks is left out where unknown names are."""
        dropped = self.dropped
        if dropped is not None:
            self.dropped = []
        tool = self._tool(name, label)
        self.dropped = dropped
        return tool

    def _entries(self, values: dict[str, Any], labels: dict[str, str]) -> list[tuple[Any, Any, str]]:
        """(what names a tool or several, relevance, name of the field) of each requirement."""
        given = parsed(values.get("tools"))
        any_of = parsed(values.get("any"))
        label = labels.get("tools", "tools")
        entries: list[tuple[Any, Any, str]] = []
        if isinstance(given, dict) and not all(isinstance(value, int | float) for value in given.values()):
            entries = [(given, 1, label)]
        elif isinstance(given, dict):
            entries = [(named, relevance, label) for named, relevance in given.items()]
        elif isinstance(given, list):
            entries = [(each, 1, label) for each in given]
        elif isinstance(given, str):
            entries = [(each, 1, label) for each in self._cells(given)]
        elif given is not None:
            self.mistakes.append("the tools are missing; write an empty list for a query that no tool answers")
        if isinstance(any_of, str):
            any_of = self._cells(any_of)
        if isinstance(any_of, list) and any_of:
            entries.append((any_of, 1, labels.get("any", "requireAny")))
        return entries

    def _cells(self, text: str) -> list[str]:
        """The names in a cell, which `;`, line ends or commas separate; `null` and `none` are none."""
        parts = [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]
        if len(parts) == 1 and "," in parts[0] and not self._names.find(parts[0]):
            split = [part.strip() for part in parts[0].split(",") if part.strip()]
            # The arguments of a call have commas, too.
            parts = split if all(self._names.find(part) for part in split) else parts
        return [part for part in parts if part.lower() not in {"null", "none"} or self._names.find(part)]

    def forbidden(self, given: Any, label: str) -> tuple[str, ...]:
        """Ids of tools."""
        given = parsed(given)
        parts = self._cells(given) if isinstance(given, str) else [given] if isinstance(given, dict) else given
        named = [call_of(part) for part in parts] if isinstance(parts, list) else [None]
        if None in named or len(named) > _MOST_NAMED:
            self.mistakes.append(f"{label} must be a list of texts, at most {_MOST_NAMED}")
            return ()
        tools = [
            tool
            for each in named
            for tool in (self._matching(each) if isinstance(each, ToolPattern) else [self._tool(str(each), label)])
        ]
        return tuple(dict.fromkeys(tool for tool in tools if tool is not None))

    def tags(self, given: Any) -> dict[str, str]:
        """Slices; a word alone has the value yes."""
        if isinstance(given, dict):
            pairs = {str(name).strip(): value for name, value in given.items()}
            if any(not isinstance(value, str | int | float) for value in pairs.values()) or len(pairs) > _MOST_NAMED:
                self.mistakes.append("tags must be words, or an object of names and texts")
                return {}
            words = {name: str(value).strip() for name, value in pairs.items()}
        else:
            words = dict.fromkeys(self._split_list(given, "tags", ";"), "yes")
        if any(not name or not value for name, value in words.items()):
            self.mistakes.append("a tag has no name or no value")
        return words

    def texts(self, given: Any, field: str, separator: str) -> tuple[str, ...]:
        """Texts of a list, or of a cell."""
        return tuple(self._split_list(given, field, separator))

    def turns(self, given: Any) -> tuple[str, ...]:
        """Earlier turns: texts, or objects of role and content, which become `role: content`."""
        if isinstance(given, str):
            return (given.strip(),)
        turns = []
        for turn in given if isinstance(given, list) and len(given) <= _MOST_NAMED else [None]:
            if (
                isinstance(turn, dict)
                and turn.keys() == _ROLES
                and all(isinstance(part, str) for part in turn.values())
            ):
                turns.append(f"{turn['role']}: {turn['content']}")
            elif isinstance(turn, str) and turn.strip():
                turns.append(turn.strip())
            else:
                self.mistakes.append("context must be a list of texts, or of objects with role and content")
                break
        return tuple(turns)

    def _split_list(self, given: Any, field: str, separator: str) -> list[str]:
        parts = given.split(separator) if isinstance(given, str) else given
        if (
            not isinstance(parts, list)
            or len(parts) > _MOST_NAMED
            or any(not isinstance(part, str | int) or isinstance(part, bool) for part in parts)
        ):
            self.mistakes.append(f"{field} must be a list of texts, at most {_MOST_NAMED}")
            return []
        return list(dict.fromkeys(text for part in parts if (text := str(part).strip())))

    def _group(self, named: Any, label: str, forbidden: tuple[str, ...]) -> tuple[str, ...]:
        """Ids of the tools any of which meets a requirement; none where a name means nothing."""
        members = [call_of(each) for each in named] if isinstance(named, list) else [call_of(named)]
        if len(members) == 1 and isinstance(named, str) and "|" in named and len(self._names.find(named.strip())) != 1:
            members = [part.strip() or None for part in named.split("|")]
        if not members or None in members or len(members) > _MOST_NAMED:
            self.mistakes.append(f"{label}: a requirement names no tool: {one_line(str(named), 60)!r}")
            return ()
        tools: list[str | None] = []
        for member in members:
            if isinstance(member, ToolPattern):
                matching = [tool for tool in self._matching(member) if tool not in forbidden]
                tools += matching or [None]
                if not matching:
                    self._miss(f"{member.server}/{member.pattern}".removeprefix("/"), label, "no tool matches")
            else:
                tools.append(self._tool(str(member), label))
        if None in tools and self.dropped is None:
            return ()
        return tuple(dict.fromkeys(tool for tool in tools if tool is not None))

    def _matching(self, pattern: ToolPattern) -> list[str]:
        """Ids of the tools of a server whose names match, in the order of the catalogue; at most a thousand."""
        globs = [re.compile(fnmatch.translate(glob)) for glob in pattern.pattern.split("|")]
        codes = self._names.of_server(pattern.server) if pattern.server else range(len(self._names.tools))
        tools = (self._names.tools[code] for code in codes)
        matching = (tool.tool_id for tool in tools if any(glob.match(tool.name) for glob in globs))
        return list(islice(matching, _MOST_NAMED))

    def _tool(self, name: str, label: str) -> str | None:
        codes = self._names.find(name)
        if not codes and (bare := without_arguments(name)) != name:
            name, codes = bare, self._names.find(bare)
        if len(codes) == 1:
            tool = self._names.tools[codes[0]].tool_id
            self._record.take(name, tool)
            return tool
        if codes and self.dropped is not None:
            self.mistakes.append(f"{label}: {self._names.fault(name)}")
            return None
        self._miss(name, label)
        return None

    def _miss(self, name: str, label: str, why: str = "") -> None:
        if self.dropped is not None:
            self.dropped.append(name)
        else:
            near = self._near and len(self.mistakes) < _SHOWN
            fault = f"{why} {one_line(name, 80)!r}" if why else self._names.fault(name, near=near)
            self.mistakes.append(f"{label}: {fault}")
