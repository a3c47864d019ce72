"""Read the rows of files of queries: tables, JSON Lines, JSON and YAML, and the files beside them.

The rows are lines, a list, or a list inside one object, in which promptfoo and pydantic-evals also have assertions for
all rows. BFCL has the right calls in a file of the same name in the folder `possible_answer`. gevals has each request
in a separate file, which its file of assertions names. `queries` and `bench.registry.catalogues` call this module.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.importing.assertions import fold
from bench.importing.dialects import TABLE, words
from bench.importing.query_rows import NAMES, FieldNames, at_path
from bench.importing.reading import MOST_VALUES, ByteBudget, decode, parse_documents
from bench.importing.tools.schemas import MOST_HOPS, resolve_reference

#: If a file is one object: the key of its rows -> the key of what applies to all of them.
_CONTAINERS: Mapping[str, str] = TABLE["queries"]["containers"]
#: Column separators of tables -> their names.
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: Excel's first line, which names the separator.
_NAMED_SEPARATOR = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
#: promptfoo's columns of assertions.
_EXPECTED = "__expected"
#: BFCL's folder of right calls, next to its files of questions.
_ANSWERS = "possible_answer"
#: Maximum task files that one file of gevals may name.
_MOST_TASKS = 2_000
_OF_TASK_SETS = frozenset({"path", "glob", "assertions"})


def query_rows(path: Path, fields: FieldNames) -> list[tuple[str, Any]]:
    """(place, row) of each row of a file, and of the files next to it that it names.

    Raises:
        UsageError: a file cannot be read, or is too large.
        DataError: a file is malformed, or is a table without a column of texts or tools.
        UnavailableError: a file is YAML and PyYAML is not installed.
    """
    budget = ByteBudget()
    data = budget.read(path)
    if path.suffix.lower() in {".csv", ".tsv"}:
        return list(_table(path, decode(path, data), fields))
    documents = parse_documents(path, path.name, data)
    if len(documents) > 1:
        return _with_answers(path, [(f"line {each.line}", each.value) for each in documents], budget)
    value = documents[0].value
    if isinstance(value, list):
        return _with_answers(path, [(f"entry {number}", row) for number, row in enumerate(value, start=1)], budget)
    if isinstance(value, dict) and value.get("kind") == "Eval":
        return list(_gevals(path, value, fields, budget))
    if isinstance(value, dict) and not fields.can_be(list(value)) and value.keys() & _CONTAINERS.keys():
        return list(_contained(path, value, fields))
    line = documents[0].line
    return _with_answers(path, [(f"line {line}" if line else "the file", value)], budget)


def _table(path: Path, text: str, fields: FieldNames) -> Iterator[tuple[str, Any]]:
    """The rows of a table, each with its first line; the head determines the separator."""
    named = _NAMED_SEPARATOR.match(text)
    text, before = (text[named.end() :], 1) if named else (text, 0)
    separators = [named[1]] if named else list(_SEPARATORS)
    heads = {separator: _head(text, separator) for separator in separators}
    fitting = [each for each in separators if fields.can_be([name.rstrip("0123456789") for name in heads[each]])]
    separator = (fitting or separators)[0]
    head = heads[separator]
    if len(fitting) > 1:
        either = " or ".join(_SEPARATORS[each] for each in fitting)
        raise DataError(f"{path}: {either} may separate its columns; write `sep={separator}` above its first line.")
    if not fitting or len(set(head)) < len(head):
        columns = f"; it has {one_line(', '.join(head), 120)}" if head else ""
        raise DataError(
            f"{path} must begin with a line of column names, query and tools among them, each once; for other "
            f"names give --field text=COLUMN --field tools=COLUMN{columns}."
        )
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
    line = 0
    try:
        for cells in reader:
            if line and any(map(str.strip, cells)):
                if len(cells) < len(head) or any(cells[len(head) :]):
                    raise DataError(f"{path}, line {line}: expected {len(head)} columns.")
                row: dict[str, Any] = dict(zip(head, cells, strict=False))
                if expected := [name for name in head if name.startswith(_EXPECTED)]:
                    row["assert"] = [cell for name in expected if (cell := row.pop(name)).strip()]
                yield f"line {line}", row
            line = before + reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {line}: it is not CSV ({error}).") from None


def _head(text: str, separator: str) -> list[str]:
    """The column names, without the empty ones that spreadsheets add at the end; empty for a wrong separator."""
    try:
        head = next(csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator), [])
    except csv.Error:
        return []
    while head and not head[-1].strip():
        head.pop()
    return [name.strip() for name in head]


def _contained(path: Path, document: dict[str, Any], fields: FieldNames) -> Iterator[tuple[str, Any]]:
    """The rows inside one object, each merged with what applies to all of them."""
    present = [name for name in _CONTAINERS if document.get(name)]
    names = present if set(present) <= {"tests", "scenarios"} else present[:1]
    read = {*names, *(_CONTAINERS[name] for name in names), "assertionTemplates", "$defs"}
    fields.ignored.update(f"{one_line(str(key), 60)} of the file" for key in document if key not in read)
    # Templates that refer to templates could expand without bound.
    steps = iter(range(MOST_VALUES))
    for name in names:
        common, rows = document.get(_CONTAINERS[name]), document[name]
        if _CONTAINERS[name] == "defaultTest":
            common, rows = (_follow(path, document, each, steps) for each in (common, rows))
        common = {_CONTAINERS[name]: common} if isinstance(common, list) else common
        for place, parts in _parts(name, rows):
            merged: dict[str, Any] = {}
            for part in (common, *parts):
                if not isinstance(part, dict | None):
                    where, shown = _CONTAINERS[name] if part is common else place, one_line(str(part), 80)
                    raise DataError(f"{path}, {where}: {shown!r} is not followed; write its content in its place.")
                if part is not common and at_path(part, "options.disableDefaultAsserts") is True:
                    merged.pop("assert", None)
                merged = _merge(merged, part or {})
            yield place, merged


def _parts(name: str, rows: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(place, the parts to merge) of each row of a container."""
    for number, row in enumerate(_list(rows), start=1):
        if name != "scenarios" or not isinstance(row, dict):
            yield f"{name} {number}", (row,)
            continue
        # promptfoo combines each test of a scenario with each of its configurations.
        configurations, tests = (list(enumerate(_list(row.get(key)), start=1)) for key in ("config", "tests"))
        for (first, configuration), (second, test) in product(configurations, tests):
            yield f"{name} {number}, config {first}, tests {second}", (configuration, test)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _merge(common: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Merge two rows: assertions and variables of both; of other fields, the values of the second."""
    merged = {**common, **row}
    for key in common.keys() & row.keys() & {"assert", "evaluators", "vars"}:
        if isinstance(common[key], dict) and isinstance(row[key], dict):
            merged[key] = {**common[key], **row[key]}
        else:
            merged[key] = [each for each in (*_list(common[key]), *_list(row[key])) if each is not None]
    return merged


def _follow(path: Path, root: Any, value: Any, steps: Iterator[int], hops: int = 0) -> Any:
    """A value with its references (`$ref`) into the document resolved; promptfoo refers to templates by them.

    Unresolvable references remain; later they are unknown assertions, or not queries.
    """
    if next(steps, None) is None:
        raise DataError(f"{path}: with its references written out, it has more than {MOST_VALUES} values.")
    if isinstance(value, list):
        return [_follow(path, root, each, steps, hops) for each in value]
    if not isinstance(value, dict):
        return value
    target = resolve_reference(root, value["$ref"]) if isinstance(value.get("$ref"), str) else None
    if target is not None and hops < MOST_HOPS:
        return _follow(path, root, target, steps, hops + 1)
    return {key: _follow(path, root, each, steps, hops) for key, each in value.items()}


def _with_answers(path: Path, rows: list[tuple[str, Any]], budget: ByteBudget) -> list[tuple[str, Any]]:
    """Add the right calls from the other file to rows of BFCL; other rows are unchanged."""
    file = path.parent / _ANSWERS / path.name
    answers: dict[str, Any] | None = None
    joined = []
    for place, row in rows:
        keys = {fold(str(key)) for key in row} if isinstance(row, dict) else set()
        if {"question", "id"} <= keys and keys.isdisjoint((*NAMES["tools"], *NAMES["any"])):
            if answers is None:
                is_beside = file.is_file() and file.resolve().is_relative_to(path.parent.resolve())
                answers = dict(_answers(file, budget)) if is_beside else {}
            # BFCL has no answers for questions that no function answers.
            usual: dict[str, Any] = {"ground_truth": []} if "irrelevance" in str(row.get("id")) else {}
            row = {**row, **answers.get(str(row.get("id")), usual)}
        joined.append((place, row))
    return joined


def _answers(file: Path, budget: ByteBudget) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in parse_documents(file, file.name, budget.read(file)):
        for answer in _list(document.value):
            if isinstance(answer, dict) and "id" in answer and "ground_truth" in answer:
                yield str(answer["id"]), {"ground_truth": answer["ground_truth"]}


def _gevals(path: Path, document: dict[str, Any], fields: FieldNames, budget: ByteBudget) -> Iterator[tuple[str, Any]]:
    """A row for each task that a file of gevals names, with its assertions."""
    sets = at_path(document, "config.taskSets")
    if not isinstance(sets, list) or not sets:
        raise DataError(f"{path}, config: it has no taskSets; expected a list of tasks with their assertions.")
    for number, entry in enumerate(sets, start=1):
        given = entry if isinstance(entry, dict) else {}
        fields.ignored.update(f"{one_line(key, 60)} of taskSets" for key in given if key not in _OF_TASK_SETS)
        for file in _beside(path, given.get("path") or given.get("glob"), f"taskSets {number}"):
            yield f"taskSets {number}, {one_line(file.name, 80)}", _task(file, given.get("assertions"), budget)


def _beside(path: Path, pattern: Any, place: str) -> list[Path]:
    """The task files that match a pattern; none is outside of the parent of the file's folder."""
    bound = (path.parent / "..").resolve()
    target = os.path.normpath(path.parent.resolve() / pattern) if isinstance(pattern, str) else ""
    shown = one_line(str(pattern), 80)
    if os.path.isabs(str(pattern)) or not target.startswith(os.path.join(bound, "")):
        raise DataError(
            f"{path}, {place}: {shown!r} is outside the folders beside this file; expected a path or a glob of "
            "tasks, relative to this file."
        )
    found = (Path(file) for file in glob.iglob(target, recursive=True))
    files = list(
        islice((file for file in found if file.is_file() and file.resolve().is_relative_to(bound)), _MOST_TASKS + 1)
    )
    if not files or len(files) > _MOST_TASKS:
        what = f"more than {_MOST_TASKS} tasks match" if files else "no file of tasks matches"
        raise DataError(f"{path}, {place}: {what} {shown!r}.")
    return sorted(files)


def _task(file: Path, assertions: Any, budget: ByteBudget) -> dict[str, Any]:
    """A task as a row: its request, its assertions and its name."""
    task = parse_documents(file, file.name, budget.read(file))[0].value
    prompts = (at_path(task, path) for path in words("queries", "values", "prompts"))
    prompt = next((each for each in prompts if isinstance(each, str | dict)), None)
    if isinstance(prompt, dict) and isinstance(prompt.get("file"), str):
        beside = file.parent / Path(prompt["file"]).name
        if not beside.resolve().is_relative_to(file.parent.resolve()):
            raise DataError(f"{file}: the prompt {one_line(prompt['file'], 80)!r} leads out of its folder.")
        prompt = decode(beside, budget.read(beside))
    elif isinstance(prompt, dict):
        prompt = prompt.get("inline")
    if not isinstance(prompt, str) or not prompt.strip():
        raise DataError(f"{file} is not a task: expected steps.prompt or spec.prompt with its text under inline.")
    name = at_path(task, "metadata.name")
    row = {"query": prompt, "assertions": assertions or {}}
    return {**row, "id": name} if isinstance(name, str) and name else row
