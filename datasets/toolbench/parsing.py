"""ToolBench's records as rows; shared by the loader and the importer.

An instruction file is a list of records with `query`, `query_id`, `api_list` (the candidate APIs that the
query was written for) and `relevant APIs` (pairs of tool name and API name, without the category).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.base.errors import DataError
from bench.data.derive import bundle_id
from bench.data.tables import Parameter, Query, Split, Tool

Leaf = tuple[str, str, str]  # category, parent, name

#: Upstream's test files and the names that papers give them, in the order in which the library is pooled.
SETS = {
    "G1_instruction": "I1-Inst",
    "G1_tool": "I1-Tool",
    "G1_category": "I1-Cat",
    "G2_instruction": "I2-Inst",
    "G2_category": "I2-Cat",
    "G3_instruction": "I3-Inst",
}


def group_slices(group: str) -> dict[str, str]:
    """The slices of all queries of `G1`, `G2` or `G3`: the group, and whether they need one parent or several."""
    return {"group": group, "tools": "single" if group == "G1" else "multi"}


def set_slices(file: str) -> dict[str, str]:
    """The slices of the queries of a test file: those of its group, the set, and whether ToolRerank calls it seen.

    ToolRerank (section 4.1) leaves the tools and categories of the -Tool and -Cat sets out of train.
    """
    name = SETS[file]
    return {**group_slices(file[:2]), "set": name, "seen": "yes" if name.endswith("-Inst") else "no"}


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """One query with its candidates and the (parent, name) pairs that answer it; `where` names it in errors."""

    query_id: str
    text: str
    candidates: tuple[Tool, ...]
    relevant: tuple[tuple[str, str], ...]
    where: str


class ToolPool:
    """The pooled tools, each leaf (category, parent, name) once: where records differ, the first one is kept."""

    def __init__(self) -> None:
        self._tools: dict[Leaf, Tool] = {}

    def add(self, api: Any, where: str) -> Tool:
        """The tool of an `api_list` entry, made when its leaf is new."""
        leaf = _leaf(api, where)
        if leaf not in self._tools:
            self._tools[leaf] = tool_of(api, where)
        return self._tools[leaf]

    def tools(self) -> list[Tool]:
        """All tools, in order of first appearance."""
        return list(self._tools.values())

    def named(self) -> dict[tuple[str, str], list[str]]:
        """(parent, name) -> tool_ids: several where the same pair occurs in several categories."""
        by_name: dict[tuple[str, str], list[str]] = {}
        for (_, parent, name), tool in self._tools.items():
            by_name.setdefault((parent, name), []).append(tool.tool_id)
        return by_name


def _leaf(api: Any, where: str) -> Leaf:
    if not isinstance(api, dict):
        raise DataError(f"{where}: an API is {_kind(api)} instead of an object.")
    category, parent, name = api.get("category_name"), api.get("tool_name"), api.get("api_name")
    if not (isinstance(category, str) and isinstance(parent, str) and isinstance(name, str)):
        raise DataError(f"{where}: an API lacks the text of category_name, tool_name or api_name.")
    return category, parent, name


def tool_of(api: Any, where: str, tool_id: str | None = None) -> Tool:
    """One API object as a tool; without `tool_id` its id is `category/parent/name`.

    What upstream's retriever indexes of it (`process_retrieval_ducoment` in toolbench/utils.py) is kept exactly:
    default values and the response template are JSON text, and an absent one stays apart from null.

    Raises:
        DataError: it is not an object, lacks a name, or its parameters are not lists of objects.
    """
    category, parent, name = _leaf(api, where)
    where = f"{where}, API {name!r}"
    description = api.get("api_description")
    if not isinstance(description, str | None):
        raise DataError(f"{where}: api_description is {_kind(description)} instead of a text.")
    parameters = [
        _parameter(value, required, where)
        for key, required in (("required_parameters", True), ("optional_parameters", False))
        for value in _list(api.get(key) or [], key, where)
    ]
    returns = json.dumps(api["template_response"], ensure_ascii=False) if "template_response" in api else None
    # Ids may not hold control characters; a name may.
    path = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in f"{category}/{parent}/{name}")
    return Tool(
        tool_id=path if tool_id is None else tool_id,
        name=name,
        description=description or "",
        category=category,
        parent=parent,
        parameters=tuple(parameters),
        returns=returns,
    )


def _parameter(value: Any, required: bool, where: str) -> Parameter:
    if not isinstance(value, dict):
        raise DataError(f"{where}: a parameter is {_kind(value)} instead of an object.")
    return Parameter(
        name=_words(value.get("name")),
        type=_words(value.get("type")),
        description=_words(value.get("description")),
        required=required,
        default=json.dumps(value["default"], ensure_ascii=False) if "default" in value else None,
    )


def _words(value: Any) -> str:
    # Only the full-size data may hold anything but text here: null is nothing, a number is its JSON text.
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def read_records(data: Any, file: str, library: ToolPool, numbered: bool = True) -> list[QueryRecord]:
    """The records of one instruction file; their candidates join the library.

    With `numbered=False` a record without `query_id` has its position in the file as id, as in
    upstream's preprocess_retriever_data.py.

    Raises:
        DataError: a record is malformed; the sentence names file, record and what is wrong.
    """
    records: list[QueryRecord] = []
    for position, item in enumerate(_list(data, "the file", file)):
        where = f"{file}, record {position + 1}"
        if not isinstance(item, dict):
            raise DataError(f"{where} is {_kind(item)} instead of an object.")
        query_id = item.get("query_id") if numbered or "query_id" in item else position
        if not isinstance(query_id, int | str) or isinstance(query_id, bool):
            raise DataError(f"{where} has no query_id.")
        where = f"{where} (query_id {query_id})"
        text = item.get("query")
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{where}: query is {'empty' if isinstance(text, str) else _kind(text)} instead of a text.")
        candidates = [library.add(api, where) for api in _list(item.get("api_list"), "api_list", where)]
        relevant = [_pair(value, where) for value in _list(item.get("relevant APIs"), "relevant APIs", where)]
        records.append(QueryRecord(str(query_id), text, tuple(candidates), tuple(relevant), where))
    return records


def _pair(value: Any, where: str) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(part, str) for part in value):
        raise DataError(f"{where}: an entry of relevant APIs is not a pair of tool name and API name.")
    return value[0], value[1]


def queries_of(
    records: Iterable[QueryRecord], library: ToolPool, split: Split = "test", slices: Mapping[str, str] | None = None
) -> list[Query]:
    """Queries with their gold resolved to tool_ids.

    A relevant pair means the candidates of that name (all of them, as upstream's retriever data has it), else the
    one tool of that name in the library. A pair that occurs twice counts once. Upstream's generator was shown the
    candidates and wrote several queries for them, so queries with the same candidates are one group.

    Raises:
        DataError: a pair names no tool, or several in different categories; gives the first and the count.
    """
    named = library.named()
    queries: list[Query] = []
    lost: list[str] = []
    for record in records:
        gold: dict[str, int] = {}
        for pair in record.relevant:
            candidates = [tool.tool_id for tool in record.candidates if (tool.parent, tool.name) == pair]
            matching = candidates or named.get(pair, [])
            if not candidates and len(matching) != 1:
                what = f"{len(matching)} tools of several categories" if matching else "no tool"
                lost.append(f"{record.where}: the relevant API {list(pair)} names {what}")
            gold.update(dict.fromkeys(matching, 1))
        shown = bundle_id(tool.tool_id for tool in record.candidates)
        # A digest: of the full-size data, the lists themselves would take more memory than the queries.
        group = hashlib.sha256(shown.encode()).hexdigest()[:16]
        queries.append(Query(record.query_id, record.text, gold, split, dict(slices or {}), group))
    if lost:
        raise DataError(f"{lost[0]}, and is not in its api_list ({len(lost)} such in all).")
    return queries


def _list(value: Any, what: str, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise DataError(f"{where}: {what} is {_kind(value)} instead of a list.")
    return value


def _kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null or missing"}
    return names.get(type(value), "a number")
