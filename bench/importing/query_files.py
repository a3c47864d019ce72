"""Files of queries: the rows of CSV, TSV, JSON Lines, JSON and YAML, and what stands in files beside them.

A file of rows has them in a list, one in a line, or in a list inside one object. BFCL keeps the right calls in a file
of the same name in the folder `possible_answer`; gevals keeps each request in a file of its own, which its file of
assertions names.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.importing.query_rows import CONTAINERS, NAMES, FieldNames, at_path, fold
from bench.importing.reading import ByteBudget, Document, parse_documents

#: BFCL's folder of right calls, beside its files of questions.
_ANSWERS = "possible_answer"
#: Files of tasks that one file of gevals may name.
_MOST_TASKS = 2_000


def query_rows(path: Path, fields: FieldNames) -> list[tuple[str, Any]]:
    """(place, row) of each row of a file, and of the files beside it that it names.

    Raises:
        UsageError: a file cannot be read, or is too large.
        DataError: a file is malformed, or is a table without a column of texts or of tools.
        UnavailableError: a file is YAML and PyYAML is not installed.
    """
    budget = ByteBudget()
    data = budget.read(path)
    suffix = path.suffix.lower()
    if suffix in {".csv", ".tsv"}:
        return _table(path, data, "\t" if suffix == ".tsv" else ",", fields)
    documents = parse_documents(path, path.name, data)
    if len(documents) > 1:
        return _with_answers(path, [(_line(each), each.value) for each in documents], budget)
    value = documents[0].value
    if isinstance(value, list):
        return _with_answers(path, [(f"entry {number}", row) for number, row in enumerate(value, start=1)], budget)
    if isinstance(value, dict) and value.get("kind") == "Eval":
        return list(_gevals(path, value, budget))
    if isinstance(value, dict) and not fields.can_be(list(value)):
        for name in CONTAINERS:
            rows = value.get(name)
            if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
                return [(f"{name} {number}", row) for number, row in enumerate(rows, start=1)]
    return _with_answers(path, [(_line(documents[0]), value)], budget)


def _line(document: Document) -> str:
    return document.where.rpartition(", ")[2] if ", line " in document.where else "the file"


def _table(path: Path, data: bytes, delimiter: str, fields: FieldNames) -> list[tuple[str, Any]]:
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True, delimiter=delimiter)
        head = reader.fieldnames or []
        if not fields.can_be(head) or len(set(head)) < len(head):
            columns = f"; it has {one_line(', '.join(head), 120)}" if head else ""
            raise DataError(
                f"{path} must begin with a line of column names, query and tools among them, each once; for other "
                f"names give --field text=COLUMN --field tools=COLUMN{columns}."
            )
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


def _with_answers(path: Path, rows: list[tuple[str, Any]], budget: ByteBudget) -> list[tuple[str, Any]]:
    """Rows of BFCL with their right calls, which lie in another file; other rows as they are."""
    of_tools = {*NAMES["tools"], *NAMES["any"]}
    is_bfcl = [
        isinstance(row, dict)
        and "question" in row
        and "id" in row
        and not of_tools.intersection(map(fold, map(str, row)))
        for _, row in rows
    ]
    if not any(is_bfcl):
        return rows
    file = path.parent / _ANSWERS / path.name
    answers: dict[str, Any] = {}
    if file.is_file() and file.resolve().is_relative_to(path.parent.resolve()):
        for document in parse_documents(file, file.name, budget.read(file)):
            for answer in document.value if isinstance(document.value, list) else [document.value]:
                if isinstance(answer, dict) and "id" in answer and "ground_truth" in answer:
                    answers[str(answer["id"])] = answer["ground_truth"]
    joined = []
    for (place, row), lacks in zip(rows, is_bfcl, strict=True):
        if lacks and str(row["id"]) in answers:
            row = {**row, "ground_truth": answers[str(row["id"])]}
        elif lacks and "irrelevance" in str(row["id"]):
            # BFCL has no answers to these, because no function is right.
            row = {**row, "ground_truth": []}
        joined.append((place, row))
    return joined


def _gevals(path: Path, document: dict[str, Any], budget: ByteBudget) -> Iterator[tuple[str, Any]]:
    """A row for each task that a file of gevals names, with its assertions."""
    sets = at_path(document, "config.taskSets")
    if not isinstance(sets, list) or not sets:
        raise DataError(f"{path}, config: it has no taskSets; expected a list of tasks with their assertions.")
    for number, entry in enumerate(sets, start=1):
        place = f"taskSets {number}"
        given = entry if isinstance(entry, dict) else {}
        pattern = given.get("path") or given.get("glob")
        if not isinstance(pattern, str) or Path(pattern).is_absolute():
            raise DataError(f"{path}, {place}: expected a path or a glob of tasks, relative to this file.")
        for file in _beside(path, pattern, place):
            yield f"{place}, {one_line(file.name, 80)}", _task(file, given.get("assertions"), budget)


def _beside(path: Path, pattern: str, place: str) -> list[Path]:
    """The files of tasks, none of them outside of the folder above that of the file."""
    # `../tasks/*/*.yaml`: a glob of Python may not go up.
    parts = Path(pattern).parts
    start = path.parent
    while parts and parts[0] == "..":
        start, parts = start / "..", parts[1:]
    bound = (path.parent / "..").resolve()
    if not parts or ".." in parts or not start.resolve().is_relative_to(bound):
        raise DataError(f"{path}, {place}: {one_line(pattern, 80)!r} leads out of the folders beside this file.")
    files = []
    for file in start.glob(str(Path(*parts))):
        if file.is_file() and file.resolve().is_relative_to(bound):
            files.append(file)
        if len(files) > _MOST_TASKS:
            raise DataError(f"{path}, {place}: more than {_MOST_TASKS} tasks match {one_line(pattern, 80)!r}.")
    if not files:
        raise DataError(f"{path}, {place}: no file of tasks matches {one_line(pattern, 80)!r}.")
    return sorted(files)


def _task(file: Path, assertions: Any, budget: ByteBudget) -> dict[str, Any]:
    """The request of a task, by its name."""
    task = parse_documents(file, file.name, budget.read(file))[0].value
    prompt = next((each for where in ("steps.prompt", "spec.prompt", "prompt") if (each := _known(task, where))), None)
    if isinstance(prompt, dict) and isinstance(prompt.get("file"), str):
        beside = file.parent / Path(prompt["file"]).name
        if not beside.resolve().is_relative_to(file.parent.resolve()):
            raise DataError(f"{file}: the prompt {one_line(prompt['file'], 80)!r} leads out of its folder.")
        prompt = budget.read(beside).decode("utf-8", "replace")
    elif isinstance(prompt, dict):
        prompt = prompt.get("inline")
    if not isinstance(prompt, str) or not prompt.strip():
        raise DataError(f"{file} is no task: expected steps.prompt or spec.prompt with its text under inline.")
    name = _known(task, "metadata.name")
    row = {"query": prompt, "assertions": {} if assertions is None else assertions}
    return {**row, "id": name} if isinstance(name, str) and name else row


def _known(value: Any, path: str) -> Any:
    inner = at_path(value, path)
    return inner if isinstance(inner, str | dict) else None
