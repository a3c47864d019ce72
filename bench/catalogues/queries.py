"""Queries with their tools in one file: CSV, JSON Lines, JSON or YAML with `query` and `tools`."""

from __future__ import annotations

import csv
import difflib
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.catalogues.reading import Budget, Document, parsed
from bench.catalogues.tools import MOST_NAME
from bench.data.tables import SPLITS, Query, Tool
from bench.errors import DataError
from bench.text import one_line

_FIELDS = ("query", "tools", "id", "split")
_SHOWN = 5
MOST_QUERIES = 1_000_000


class Names:
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


def read_queries(path: Path, tools: Sequence[Tool]) -> list[Query]:
    """The queries of a file.

    Each has `query`, the text, and `tools`: a list, an object of tool and relevance, or in CSV a cell with tools
    separated by `;`. An empty list is a query without gold. `id` and `split` are optional; the split is test, and ids
    are numbers in the order of the file.

    Args:
        path: a file that ends in .csv, .jsonl, .json, .yaml or .yml.
        tools: the catalogue.

    Raises:
        UsageError: the file cannot be read, or is too large.
        DataError: the file is malformed, a field is missing or unknown, or a name means no tool or several; up to five
            faults are listed, each with its line and the candidates.
        UnavailableError: the file is YAML and PyYAML is not installed.
    """
    return queries_of(_rows(path), tools, str(path))


def queries_of(rows: Sequence[tuple[str, Any]], tools: Sequence[Tool], where: str) -> list[Query]:
    """The queries of (place, row) pairs; errors as of `read_queries`."""
    if not rows:
        raise DataError(f"{where} has no queries.")
    if len(rows) > MOST_QUERIES:
        raise DataError(f"{where} has more than {MOST_QUERIES} queries.")
    names = Names(tools)
    width = len(str(len(rows)))
    found: list[Query] = []
    faults: list[str] = []
    for number, (place, row) in enumerate(rows, start=1):
        mistakes: list[str] = []
        query = _query(row, f"q{number:0{width}}", names, mistakes, near=len(faults) < _SHOWN)
        faults += [f"{place}: {mistake}" for mistake in mistakes]
        if query is not None and not mistakes:
            found.append(query)
    if len(faults) == 1:
        raise DataError(f"{where}, {faults[0]}.")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise DataError(f"{where} has {len(faults)} faults: {'; '.join(faults[:_SHOWN])}{more}.")
    return found


def _query(row: Any, identifier: str, names: Names, mistakes: list[str], *, near: bool) -> Query | None:
    mistake = mistakes.append
    if not isinstance(row, dict):
        mistake("it is not an object with query and tools")
        return None
    for key in row:
        if key not in _FIELDS:
            mistake(f"the field {one_line(str(key), 40)!r} is none of {', '.join(_FIELDS)}")
    text, given = row.get("query"), row.get("tools")
    identifier = row["id"] if row.get("id") not in (None, "") else identifier
    split: Any = row.get("split") or "test"
    if not isinstance(text, str) or not text.strip():
        mistake("the query is missing or no text")
    if not isinstance(identifier, str | int) or isinstance(identifier, bool):
        mistake("the id is no text")
    if split not in SPLITS:
        mistake(f"the split {one_line(str(split), 40)!r} is none of {', '.join(SPLITS)}")
    grades: Mapping[Any, Any] = {}
    if isinstance(given, dict):
        grades = given
    elif isinstance(given, list):
        grades = {str(each): 1 for each in given}
    elif isinstance(given, str):
        grades = {each.strip(): 1 for each in given.split(";") if each.strip()}
    else:
        mistake("the tools are missing; write an empty list for a query that no tool answers")
    gold: dict[str, int] = {}
    for name, grade in grades.items():
        if not isinstance(grade, int) or isinstance(grade, bool) or grade < 1:
            mistake(f"the relevance of {one_line(str(name), 60)!r} is not a whole number of 1 or more")
            continue
        meant = names.find(str(name).strip(), near=near and len(mistakes) < _SHOWN)
        if isinstance(meant, str):
            gold[meant] = max(grade, gold.get(meant, 0))
        else:
            mistake(_unknown(str(name), meant))
    return Query(str(identifier), str(text), gold, split)


def _unknown(name: str, meant: Sequence[str]) -> str:
    shown = ", ".join(one_line(each, 80) for each in meant[:_SHOWN])
    more = f" and {len(meant) - _SHOWN} more" if len(meant) > _SHOWN else ""
    called = one_line(name, 80)
    if len(meant) > 1 and all(each == name or each.endswith(f"/{name}") for each in meant):
        return f"{called!r} may mean {shown}{more}; use the id"
    return f"there is no tool {called!r}" + (f" (near: {shown})" if meant else "")


def _rows(path: Path) -> list[tuple[str, Any]]:
    data = Budget().read(path)
    if path.suffix.lower() == ".csv":
        return _csv(path, data)
    documents = parsed(path, path.name, data)
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
        found: list[tuple[str, Any]] = []
        for row in reader:
            if None in row or None in row.values():
                raise DataError(f"{path}, line {reader.line_num}: expected {len(head)} columns.")
            found.append((f"line {reader.line_num}", row))
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}).") from None
    except csv.Error as error:
        raise DataError(f"{path} is not CSV: {error}.") from None
    return found
