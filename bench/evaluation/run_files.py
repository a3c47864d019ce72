"""Reads and writes run files: TREC and JSON lines. `bench score` reads them; `bench show` and the site write them.

TREC    `query_id Q0 tool_id rank score tag`, separated by white space. The order is by score (rule 1), as trec_eval
        reads it. White space and `%` inside an id are written as in a URL (`%20`).
JSONL   one object a line: {"query_id": "...", "tools": ["...", ...]}, best first, and optionally "scores" (as many
        numbers), "recommended" (a tool set) and "failed" (true).

Numbers are in ASCII digits. A note reports where ranks, or the order of a list, contradict the scores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from bench.base.errors import ResultError, UnresolvedError
from bench.base.parameters import suggestion
from bench.base.paths import read_once
from bench.base.reading import Reader
from bench.base.records import first_fault
from bench.base.text import finite_number, whole_number
from bench.data.beir import TREC_SECOND
from bench.data.dataset import Dataset
from bench.data.tool_names import NameRecord, ToolNames
from bench.evaluation.ask import Answers
from bench.interface import Ranking, ToolSets
from bench.interface.ranking import in_order
from bench.metrics.ties import UnseenTies
from bench.remote.answers import AnswerNote
from bench.results.store import StoredResult


@dataclass
class _QueryAnswer:
    """The answer to one query: tool codes, scores if any, the recommended set, and its first line in the file."""

    line: int
    tools: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    recommended: list[int] | None = None
    failed: bool = False
    ranks: list[int] = field(default_factory=list)

    @property
    def out_of_order(self) -> bool:
        """Whether a tool has a better rank and a lower score than another."""
        scores = np.array(self.scores)
        by_rank = np.lexsort((-scores, np.array(self.ranks or range(len(scores)))))
        return bool((np.diff(scores[by_rank]) > 0).any())


class RunLine(BaseModel):
    """A line of a JSON run file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    query_id: str
    tools: list[str] = []
    scores: list[float] | None = None
    recommended: list[str] | None = None
    failed: bool = False


def read_run_file(path: Path) -> bytes:
    """The bytes of a run file, which may be a pipe; read once.

    Raises:
        ResultError: it cannot be read.
    """
    try:
        return read_once(path)
    except OSError as error:
        raise ResultError(f"cannot read the run file {path}: {error.strerror}.") from None


@dataclass
class _Library:
    """The tools of a dataset by the names in a file, and a record of how names were resolved.

    Attributes:
        unknown: the line of the first name that is unknown or ambiguous; 0 if there is none.
    """

    dataset: Dataset
    names: ToolNames
    record: NameRecord
    unknown: int = 0

    def code(self, name: str, line: int) -> int:
        """The code of the tool; -1 for an unknown name, which is an error after the last line."""
        codes = self.names.find(name)
        if len(codes) == 1:
            self.record.take(name, self.names.tools[codes[0]].tool_id)
            return codes[0]
        self.unknown = self.unknown or line
        self.record.miss(name)
        return -1

    def check(self, path: str) -> None:
        """Refuse unknown names of tools.

        Raises:
            UnresolvedError: no name is known.
            ResultError: some names are unknown.
        """
        if self.unknown:
            unknown = self.record.unknown(self.names)
            if self.record.resolves_nothing:
                raise UnresolvedError(f"no name in {path} is a known tool of {self.dataset.spec}: {unknown}.")
            raise ResultError(f"{path}, line {self.unknown}: {unknown}; it was scored on {self.dataset.spec}.")


def parse_run(
    data: bytes, name: str, dataset: Dataset, rows: NDArray[np.int64], record: NameRecord, notes: list[str]
) -> Answers:
    """Read the answers of a run file to some queries; queries that it does not mention count as failed.

    TREC cannot express an empty answer. In TREC, a query without gold that is not mentioned counts as an empty answer.

    Args:
        data: the file's bytes.
        name: the name of the file in errors.
        dataset: the dataset that the system ran on.
        rows: the queries that are scored.
        record: receives how names of tools were resolved.
        notes: receives sentences, without the period, about contradictions that do not stop reading.

    Raises:
        ResultError: a line is malformed, names an unknown query or tool, repeats a tool, or has a score that is not a
            finite number. The sentence names the line.
        UnresolvedError: no tool name in the file is a tool of the dataset.
    """
    text = Reader(f"the run file {name}", ResultError).decode(data)
    first = next((line for line in text.split("\n") if line.strip()), "").lstrip()
    if not first:
        raise ResultError(f"the run file {name} is empty.")
    is_trec = _is_trec(first)
    if first.startswith("[") and not is_trec:
        raise ResultError(f"the run file {name} is a JSON list; write one object per line, without brackets.")
    parse = _jsonl if first.startswith("{") and not is_trec else _trec
    positions = {int(row): i for i, row in enumerate(rows)}
    by_position: dict[int, _QueryAnswer] = {}
    library = _Library(dataset, ToolNames(dataset.tools), record)
    for row, answer in parse(text, name, library):
        if row not in positions:
            query = dataset.queries[row]
            raise ResultError(
                f"{name}, line {answer.line}: query {query.query_id} belongs to the {query.split} split, "
                "which is not scored; select it with --split."
            )
        by_position[positions[row]] = answer
    library.check(name)
    contradictions = {
        "the ranks contradict the scores, and the scores count": [
            a.line for a in by_position.values() if a.out_of_order
        ],
        "a failed query has tools, which do not count": [a.line for a in by_position.values() if a.failed and a.tools],
    }
    for what, lines in contradictions.items():
        if lines:
            notes.append(f"{name}: {what} ({len(lines)} of {len(by_position)} queries, the first in line {min(lines)})")
    if parse is _trec:
        for i in np.flatnonzero(dataset.gold.counts[rows] == 0).tolist():
            by_position.setdefault(i, _QueryAnswer(0, [], []))
    return _answers([by_position.get(i) for i in range(len(rows))])


def _is_trec(line: str) -> bool:
    """Whether a line has TREC form: an id may begin with a bracket, so the first character is not enough."""
    values = line.split()
    return len(values) == 6 and values[1] == "Q0" and whole_number(values[3]) is not None


def _trec(text: str, path: str, library: _Library) -> Iterator[tuple[int, _QueryAnswer]]:
    by_row: dict[int, _QueryAnswer] = {}
    seen: dict[tuple[int, int], int] = {}
    for number, line in _lines(text):
        values = line.split()
        if len(values) != 6:
            raise ResultError(
                f"{path}, line {number}: a TREC line has six values (query Q0 tool rank score tag); "
                f"this has {len(values)}."
            )
        if values[1].upper() not in TREC_SECOND:
            raise ResultError(f"{path}, line {number}: the second value of a TREC line is Q0, not {values[1][:80]!r}.")
        if (rank := whole_number(values[3])) is None:
            raise ResultError(f"{path}, line {number}: the rank {values[3][:80]!r} is not a whole number.")
        if (score := finite_number(values[4])) is None:
            raise ResultError(f"{path}, line {number}: the score {values[4][:80]!r} is not a finite number.")
        row = _query(unquote(values[0]), library.dataset, path, number)
        tool = library.code(unquote(values[2]), number)
        if tool >= 0 and (first := seen.setdefault((row, tool), number)) != number:
            twice = f"tool {values[2]} occurs twice for query {values[0]}"
            raise ResultError(f"{path}, line {number}: {twice}; the first is in line {first}.")
        answer = by_row.setdefault(row, _QueryAnswer(number))
        answer.tools.append(tool)
        answer.scores.append(score)
        answer.ranks.append(rank)
    yield from by_row.items()


def _jsonl(text: str, path: str, library: _Library) -> Iterator[tuple[int, _QueryAnswer]]:
    seen: dict[int, int] = {}
    scored: bool | None = None
    for number, text_line in _lines(text):
        place = f"{path}, line {number}"
        value = Reader(place, ResultError).parse(text_line, number - 1)
        try:
            line = RunLine.model_validate(value)
        except ValidationError as error:
            raise ResultError(f"{place}: {first_fault(error, 'the line')}.") from None
        row = _query(line.query_id, library.dataset, path, number)
        if (first := seen.setdefault(row, number)) != number:
            raise ResultError(f"{place}: query {line.query_id} occurs twice; the first is in line {first}.")
        tools = _codes(line.tools, library, path, number)
        recommended = None if line.recommended is None else _codes(line.recommended, library, path, number)
        if line.scores is not None and len(line.scores) != len(line.tools):
            raise ResultError(f"{path}, line {number}: {len(line.scores)} scores for {len(line.tools)} tools.")
        if not all(math.isfinite(score) for score in line.scores or []):
            raise ResultError(f"{path}, line {number}: a score is not a finite number.")
        if line.tools:
            scored = (line.scores is not None) if scored is None else scored
            if scored != (line.scores is not None):
                raise ResultError(f"{path}, line {number}: give scores on all lines or on none.")
        yield row, _QueryAnswer(number, tools, line.scores or [], recommended, line.failed)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _query(name: str, dataset: Dataset, path: str, line: int) -> int:
    row = dataset.query_codes.get(name)
    if row is None:
        hint = suggestion(name, dataset.query_codes) if len(dataset.query_codes) < 5000 else ""
        raise ResultError(f"{path}, line {line}: {dataset.spec} has no query {name[:80]!r}{hint}.")
    return row


def _codes(names: list[str], library: _Library, path: str, line: int) -> list[int]:
    codes = [library.code(name, line) for name in names]
    known = [code for code in codes if code >= 0]
    if len(set(known)) < len(known):
        twice = min(names[codes.index(code)] for code in known if codes.count(code) > 1)
        raise ResultError(f"{path}, line {line}: tool {twice[:200]} occurs twice.")
    return codes


def _answers(rows: list[_QueryAnswer | None]) -> Answers:
    width = max((len(row.tools) for row in rows if row), default=0)
    tools = np.full((len(rows), width), -1, dtype=np.int32)
    # As in the file: scores that differ there differ here.
    scores = np.full((len(rows), width), -np.inf)
    scored = all(len(row.scores) == len(row.tools) for row in rows if row)
    told = {
        i: AnswerNote("it is not in the run file" if row is None else "the run file says that it failed")
        for i, row in enumerate(rows)
        if row is None or row.failed
    }
    failed = np.isin(np.arange(len(rows)), list(told))
    # Tools of a failed query do not count.
    rows = [None if row is None or row.failed else row for row in rows]
    for i, row in enumerate(rows):
        if row is not None:
            tools[i, : len(row.tools)] = row.tools
            if scored:
                scores[i, : len(row.tools)] = row.scores
    if scored:
        tools, scores = in_order(tools, scores)
    sets = None
    if any(row is not None and row.recommended is not None for row in rows):
        sets = ToolSets.of([(row.recommended or []) if row else [] for row in rows])
    ranking = Ranking(tools, scores if scored else None, failed)
    return Answers(ranking, UnseenTies.none(len(rows)), sets, told=told)


def write_trec(result: StoredResult) -> Iterator[str]:
    """Lines of a TREC run; a method without scores gets 1 / rank, which keeps its order."""
    tag = _escape_id(result.manifest.method.spec)
    queries, tools, ranks, scores = (result.run[name].to_pylist() for name in ("query_id", "tool_id", "rank", "score"))
    # Each id is escaped once, not once for each of its lines.
    shown = {name: _escape_id(name) for name in {*queries, *tools}}
    for query, tool, rank, score in zip(queries, tools, ranks, scores, strict=True):
        yield f"{shown[query]} Q0 {shown[tool]} {rank} {1 / rank if score is None else score!r} {tag}\n"


def write_jsonl(result: StoredResult) -> Iterator[str]:
    """JSON lines, one for every evaluated query, as `bench score` reads them."""
    tools: dict[str, list[str]] = {}
    scores: dict[str, list[float | None]] = {}
    for row in result.run.to_pylist():
        tools.setdefault(row["query_id"], []).append(row["tool_id"])
        scores.setdefault(row["query_id"], []).append(row["score"])
    columns = ("query_id", "failed", "recommended")
    for query, failed, recommended in zip(*(result.per_query[name].to_pylist() for name in columns), strict=True):
        values = [score for score in scores.get(query, []) if score is not None]
        ranked = tools.get(query, [])
        line = RunLine(
            query_id=query,
            tools=ranked,
            scores=values if len(values) == len(ranked) else None,
            recommended=recommended,
            failed=failed,
        )
        yield line.model_dump_json(exclude_none=True) + "\n"


def _escape_id(text: str) -> str:
    return re.sub(r"[\s%]", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)
