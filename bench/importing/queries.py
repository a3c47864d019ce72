"""Queries with their tools in one file: CSV, JSON Lines, JSON or YAML with `query` and `tools`."""

from __future__ import annotations

import csv
import difflib
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.data.origins import TRACES, is_synthetic, written_by
from bench.data.tables import SPLITS, Query, Tool
from bench.importing.reading import ByteBudget, Document, parse_documents
from bench.importing.tools.tool import MOST_NAME

_FIELDS = ("query", "tools", "id", "split", "forbidden", "tags", "searches", "context", "group", "origin")
#: Fields that a table may leave empty.
_OPTIONAL = frozenset(_FIELDS) - {"query", "tools"}
_SHOWN = 5
#: Of one query: tools that are named, searches, earlier turns.
_MOST_NAMED = 1_000
#: Of one file: each tag is a column of the table of queries.
_MOST_TAGS = 200
_LONGEST_MODEL = 200
_ROLES = frozenset({"role", "content"})
MOST_QUERIES = 1_000_000


class ToolNames:
    """What a tool may be called in a file of queries: its id, `server/name`, its name, or `METHOD /path`."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._ids: set[str] = set()
        self._named: defaultdict[str, list[str]] = defaultdict(list)
        for tool in tools:
            self._ids.add(tool.tool_id)
            names = {tool.name, f"{tool.category or tool.parent}/{tool.name}", f"{tool.parent}/{tool.name}"}
            about = json.loads(tool.annotations) if tool.annotations else {}
            if isinstance(about.get("path"), str):
                names.add(f"{about.get('method')} {about['path']}")
            for name in names:
                self._named[name].append(tool.tool_id)

    def find(self, name: str, *, near: bool) -> str | list[str]:
        """The id of the tool; or the ids that the name may mean, the nearest ones if there is no such tool.

        To find near names in a large catalogue takes a second; `near` says whether anybody reads them.
        """
        if name in self._ids:
            return name
        meant = self._named.get(name, [])
        if len(meant) == 1:
            return meant[0]
        if meant:
            return sorted(meant)
        close = difflib.get_close_matches(name, self._named, n=3) if near and len(name) <= MOST_NAME else []
        return list(dict.fromkeys(each for one in close for each in self._named[one]))[:3]


def read_queries(path: Path, tools: Sequence[Tool], unknown: list[tuple[str, str]] | None = None) -> list[Query]:
    """The queries of a file.

    Each has `query`, the text, and `tools`: a list, an object of tool and relevance, or in CSV a cell with tools
    separated by `;`. Each entry is a requirement; where any of several tools meets it, they stand in a list or are
    joined by `|`. No entry is a query without gold: no tool fits.

    The rest is optional. `id`: numbers in the order of the file without. `split`: test without. `forbidden`: tools that
    look right and do harm. `tags`: words, or an object of names and values, by which results are shown (slices).
    `searches`: texts that a model typed into a tool search (in CSV joined by `|`). `context`: earlier turns, as texts
    or as objects of role and content. `group`: queries of a group are dependent. `origin`: `traces` or `model NAME`;
    without, people wrote the query.

    Args:
        path: a file that ends in .csv, .jsonl, .json, .yaml or .yml.
        tools: the catalogue.
        unknown: takes (query id, name) of each name that means no tool. A requirement without a tool is then left out,
            and so is a query without a requirement that it had. None: such a name is an error.

    Raises:
        UsageError: the file cannot be read, or is too large.
        DataError: the file is malformed, a field is missing or unknown, or a name means no tool or several; up to five
            faults are listed, each with its line and the candidates.
        UnavailableError: the file is YAML and PyYAML is not installed.
    """
    return queries_of(_rows(path), tools, str(path), unknown)


def queries_of(
    rows: Sequence[tuple[str, Any]],
    tools: Sequence[Tool],
    where: str,
    unknown: list[tuple[str, str]] | None = None,
) -> list[Query]:
    """The queries of (place, row) pairs; `unknown` and errors as of `read_queries`."""
    if not rows:
        raise DataError(f"{where} has no queries.")
    if len(rows) > MOST_QUERIES:
        raise DataError(f"{where} has more than {MOST_QUERIES} queries.")
    names = ToolNames(tools)
    width = len(str(len(rows)))
    queries: list[Query] = []
    faults: list[str] = []
    for number, (place, row) in enumerate(rows, start=1):
        mistakes: list[str] = []
        dropped: list[str] | None = None if unknown is None else []
        query = _query(row, f"q{number:0{width}}", names, mistakes, dropped, near=len(faults) < _SHOWN)
        faults += [f"{place}: {mistake}" for mistake in mistakes]
        if query is None or mistakes:
            continue
        if unknown is not None and dropped:
            unknown += [(query.query_id, name) for name in dropped]
            # Of a query that no tool answers, a forbidden one may have been left out.
            if not query.gold and str(row["tools"] or "").strip("; "):
                continue
        queries.append(query)
    if len(tags := {name for query in queries for name in query.slices}) > _MOST_TAGS:
        raise DataError(f"{where} has {len(tags)} different tags; at most {_MOST_TAGS} are allowed.")
    if len(faults) == 1:
        raise DataError(f"{where}, {faults[0]}.")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise DataError(f"{where} has {len(faults)} faults: {'; '.join(faults[:_SHOWN])}{more}.")
    return queries


def _query(
    row: Any, identifier: str, names: ToolNames, mistakes: list[str], dropped: list[str] | None, *, near: bool
) -> Query | None:
    mistake = mistakes.append
    if not isinstance(row, dict):
        mistake("it is not an object with query and tools")
        return None
    for key in row:
        if key not in _FIELDS:
            mistake(f"the field {one_line(str(key), 40)!r} is none of {', '.join(_FIELDS)}")
    row = {key: value for key, value in row.items() if key not in _OPTIONAL or value not in (None, "")}
    text, split = row.get("query"), row.get("split", "test")
    identifier = row.get("id", identifier)
    if not isinstance(text, str) or not text.strip():
        mistake("the query is missing or no text")
    if not isinstance(identifier, str | int) or isinstance(identifier, bool):
        mistake("the id is no text")
    if split not in SPLITS:
        mistake(f"the split {one_line(str(split), 40)!r} is none of {', '.join(SPLITS)}")
    reader = _RowReader(names, mistakes, dropped, near)
    gold, any_of = reader.requirements(row.get("tools"))
    forbidden = reader.forbidden(row.get("forbidden", []))
    if both := {*gold, *(other for others in any_of.values() for other in others)}.intersection(forbidden):
        mistake(f"{one_line(min(both), 80)!r} is both right and forbidden")
    group, origin = row.get("group", ""), row.get("origin", "")
    if not isinstance(group, str | int) or isinstance(group, bool):
        mistake("the group is no text")
    if not _is_origin(origin):
        mistake("the origin is neither traces nor model NAME; leave it out for queries that people wrote")
    return Query(
        str(identifier),
        str(text),
        gold,
        split,
        reader.tags(row.get("tags", [])),
        str(group),
        any_of,
        forbidden,
        reader.texts(row.get("searches", []), "searches", separator="|"),
        reader.turns(row.get("context", [])),
        str(origin),
    )


def _is_origin(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    model = value.removeprefix(written_by("")).strip()
    return value in {"", TRACES} or (is_synthetic(value) and 0 < len(model) < _LONGEST_MODEL)


class _RowReader:
    """Reads the fields of one row.

    What is wrong with them goes to `mistakes`; names that mean no tool go to `dropped`, if it is there.
    """

    def __init__(self, names: ToolNames, mistakes: list[str], dropped: list[str] | None, near: bool) -> None:
        self._names = names
        self._mistakes = mistakes
        self._dropped = dropped
        self._near = near

    def requirements(self, given: Any) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
        """Gold and its alternatives. The gold tool of a requirement is the first of its tools that no other has."""
        entries: list[tuple[Any, Any]] = []
        if isinstance(given, dict):
            entries = list(given.items())
        elif isinstance(given, list):
            entries = [(each, 1) for each in given]
        elif isinstance(given, str):
            entries = [(each.strip(), 1) for each in given.split(";") if each.strip()]
        else:
            self._mistakes.append("the tools are missing; write an empty list for a query that no tool answers")
        if len(entries) > _MOST_NAMED:
            self._mistakes.append(f"it names more than {_MOST_NAMED} tools")
            return {}, {}
        wanted: dict[tuple[str, ...], int] = {}
        for named, grade in entries:
            if not isinstance(grade, int) or isinstance(grade, bool) or grade < 1:
                shown = one_line(str(named), 60)
                self._mistakes.append(f"the relevance of {shown!r} is not a whole number of 1 or more")
            elif group := self._group(named):
                wanted[group] = max(grade, wanted.get(group, 0))
        gold: dict[str, int] = {}
        any_of: dict[str, tuple[str, ...]] = {}
        # Those with the fewest tools choose first, so that one tool alone is never taken by others.
        for group in sorted(wanted, key=len):
            free = [tool for tool in group if tool not in gold]
            if not free:
                self._mistakes.append(f"{one_line(' | '.join(group), 80)!r} is required more than once")
                continue
            gold[free[0]] = wanted[group]
            if others := tuple(tool for tool in group if tool != free[0]):
                any_of[free[0]] = others
        return gold, any_of

    def forbidden(self, given: Any) -> tuple[str, ...]:
        """Ids of tools."""
        named = self._split_list(given, "forbidden", ";")
        return tuple(dict.fromkeys(tool for name in named if (tool := self._tool(name)) is not None))

    def tags(self, given: Any) -> dict[str, str]:
        """Slices; a word alone has the value yes."""
        if isinstance(given, dict):
            pairs = {str(name).strip(): value for name, value in given.items()}
            if any(not isinstance(value, str | int | float) for value in pairs.values()) or len(pairs) > _MOST_NAMED:
                self._mistakes.append("tags must be words, or an object of names and texts")
                return {}
            words = {name: str(value).strip() for name, value in pairs.items()}
        else:
            words = dict.fromkeys(self._split_list(given, "tags", ";"), "yes")
        if any(not name or not value for name, value in words.items()):
            self._mistakes.append("a tag has no name or no value")
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
                self._mistakes.append("context must be a list of texts, or of objects with role and content")
                break
        return tuple(turns)

    def _split_list(self, given: Any, field: str, separator: str) -> list[str]:
        parts = given.split(separator) if isinstance(given, str) else given
        if (
            not isinstance(parts, list)
            or len(parts) > _MOST_NAMED
            or any(not isinstance(part, str | int) or isinstance(part, bool) for part in parts)
        ):
            self._mistakes.append(f"{field} must be a list of texts, at most {_MOST_NAMED}")
            return []
        return list(dict.fromkeys(text for part in parts if (text := str(part).strip())))

    def _group(self, named: Any) -> tuple[str, ...]:
        """Ids of the tools any of which meets a requirement; none where a name means nothing."""
        if isinstance(named, list):
            members = self._split_list(named, "the tools of a requirement", "|")
        elif "|" in str(named) and not isinstance(self._names.find(str(named).strip(), near=False), str):
            members = [part.strip() for part in str(named).split("|")]
        else:
            members = [str(named).strip()]
        if not members or any(not member for member in members):
            self._mistakes.append(f"a requirement names no tool: {one_line(str(named), 60)!r}")
            return ()
        tools = [self._tool(member) for member in members]
        if None in tools and self._dropped is None:
            return ()
        return tuple(dict.fromkeys(tool for tool in tools if tool is not None))

    def _tool(self, name: str) -> str | None:
        meant = self._names.find(name, near=self._near and len(self._mistakes) < _SHOWN)
        if isinstance(meant, str):
            return meant
        if self._dropped is not None and not self._names.find(name, near=False):
            self._dropped.append(name)
        else:
            self._mistakes.append(_unknown(name, meant))
        return None


def _unknown(name: str, meant: Sequence[str]) -> str:
    shown = ", ".join(one_line(each, 80) for each in meant[:_SHOWN])
    more = f" and {len(meant) - _SHOWN} more" if len(meant) > _SHOWN else ""
    called = one_line(name, 80)
    if len(meant) > 1 and all(each == name or each.endswith(f"/{name}") for each in meant):
        return f"{called!r} may mean {shown}{more}; use the id"
    return f"there is no tool {called!r}" + (f" (near: {shown})" if meant else "")


def _rows(path: Path) -> list[tuple[str, Any]]:
    data = ByteBudget().read(path)
    if path.suffix.lower() == ".csv":
        return _csv(path, data)
    documents = parse_documents(path, path.name, data)
    if len(documents) == 1 and isinstance(documents[0].value, list):
        return [(f"entry {number}", row) for number, row in enumerate(documents[0].value, start=1)]
    return [(_line(document), document.value) for document in documents]


def _line(document: Document) -> str:
    return document.where.rpartition(", ")[2] if ", line " in document.where else "the file"


def _csv(path: Path, data: bytes) -> list[tuple[str, Any]]:
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        head = reader.fieldnames or []
        if "query" not in head or "tools" not in head or len(set(head)) < len(head):
            raise DataError(f"{path} must begin with a line of column names, query and tools among them, each once.")
        rows: list[tuple[str, Any]] = []
        for row in reader:
            if None in row or None in row.values():
                raise DataError(f"{path}, line {reader.line_num}: expected {len(head)} columns.")
            rows.append((f"line {reader.line_num}", row))
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}).") from None
    except csv.Error as error:
        raise DataError(f"{path} is not CSV: {error}.") from None
    return rows
