"""The input of a re-run, as files, and its reply, as bytes. `rerun` writes and reads them outside the sandbox, `inside`
within.

The folder holds what a method sees (the library, past queries with their gold, the texts of the queries to answer)
and a request. It contains no gold of an evaluated query and no query ids. The reply is a line of JSON and plain arrays
of known lengths: reading it decodes no file format and makes no object that the other side chooses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from bench.base import arrow
from bench.base.records import StrictRecord
from bench.data.arrowtables import SCHEMAS, arrow_tables, rows_from
from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.interface import History, Library, Queries, Ranking, ToolSets
from bench.interface.ranking import validate, validate_sets
from bench.results.settings import RunSettings, TemplateText

_REQUEST = "request.json"
_TOOLS, _EDGES, _HISTORY, _QUERIES = "tools.parquet", "edges.parquet", "history.parquet", "queries.parquet"
#: Sent before the first line of a method's code runs.
BEGUN = b"begun\n"
_LONGEST_HEADER = 1 << 16
#: Maximum characters of an error in a reply.
LONGEST_ERROR = 2000


class SandboxRequest(StrictRecord, RunSettings):
    """Which method to run, and by which settings.

    Attributes:
        method: its full spec.
        label: its spec in short form.
        template: the template of tool texts; the sandbox knows no default of a dataset.
    """

    method: str
    label: str
    template: TemplateText


@dataclass(frozen=True)
class MethodInput:
    """The whole input of a method: the views and the request."""

    request: SandboxRequest
    library: Library
    history: History
    queries: Queries


def write_input(folder: Path, given: MethodInput) -> None:
    """Write the files of a folder for `read_input`."""
    library, history = given.library, given.history
    tools = arrow_tables(library.tools, [], [])["tools"].append_column("text", arrow.strings(library.texts))
    edges = library.edges.astype(np.int32)
    past = {
        "text": arrow.strings(history.texts),
        "split": arrow.numbers(history.split.astype(np.int32)),
        "gold": arrow.lists(history.gold.starts, arrow.numbers(history.gold.tools.astype(np.int32))),
        "grade": arrow.lists(history.gold.starts, arrow.numbers(history.gold.grades.astype(np.int32))),
    }
    if (groups := history.gold.groups) is not None:
        alternatives = arrow.lists(groups.members, arrow.numbers(groups.tools.astype(np.int32)))
        past["any_of"] = arrow.lists(groups.starts, alternatives)
    if (forbidden := history.gold.forbidden) is not None:
        past["forbidden"] = arrow.lists(forbidden.starts, arrow.numbers(forbidden.tools.astype(np.int32)))
    ends = {"dependent": arrow.numbers(edges[:, 0]), "prerequisite": arrow.numbers(edges[:, 1])}
    pq.write_table(tools, folder / _TOOLS)
    pq.write_table(pa.table(ends), folder / _EDGES)
    pq.write_table(pa.table(past), folder / _HISTORY)
    asked = {"text": arrow.strings(given.queries.texts)}
    if (scope := given.queries.scope) is not None:
        starts = np.arange(len(scope) + 1) * scope.shape[1]
        asked["scope"] = arrow.lists(starts, arrow.numbers(scope.ravel().astype(np.int32)))
    pq.write_table(pa.table(asked), folder / _QUERIES)
    (folder / _REQUEST).write_text(given.request.model_dump_json(), "utf-8")


def read_input(folder: Path) -> MethodInput:
    """Read the files that `write_input` wrote."""
    request = SandboxRequest.model_validate_json((folder / _REQUEST).read_bytes())
    tools, edges, past = (_table(folder / name) for name in (_TOOLS, _EDGES, _HISTORY))
    rows = {name: schema.empty_table() for name, schema in SCHEMAS.items()} | {"tools": tools.drop_columns(["text"])}
    library = Library(
        tuple(rows_from(rows).tools),
        tuple(tools["text"].to_pylist()),
        request.template,
        np.column_stack([edges["dependent"].to_numpy(), edges["prerequisite"].to_numpy()]).reshape(-1, 2),
    )
    history = History(
        library,
        tuple(past["text"].to_pylist()),
        _gold(past),
        past["split"].to_numpy().astype(np.int8),
    )
    asked = _table(folder / _QUERIES)
    scope = None
    if "scope" in asked.column_names:
        scope = np.array(asked["scope"].to_pylist(), dtype=np.uint8).reshape(len(asked), -1)
    return MethodInput(
        request, library, history, Queries(tuple(asked["text"].to_pylist()), np.arange(len(asked)), scope)
    )


def _gold(past: pa.Table) -> Gold:
    """The gold of past queries, with alternatives and forbidden tools if any query has them."""
    grades = past["grade"].to_pylist()
    plain = Gold.of(
        dict(zip(tools, row_grades, strict=True))
        for tools, row_grades in zip(past["gold"].to_pylist(), grades, strict=True)
    )
    groups = forbidden = None
    if "any_of" in past.column_names:
        rows = zip(past["any_of"].to_pylist(), grades, strict=True)
        groups = GoldGroups.of(zip(alternatives, row_grades, strict=True) for alternatives, row_grades in rows)
    if "forbidden" in past.column_names:
        forbidden = Gold.of(dict.fromkeys(tools, 1) for tools in past["forbidden"].to_pylist())
    return Gold(plain.starts, plain.tools, plain.grades, groups, forbidden)


def _table(path: Path) -> pa.Table:
    return pq.ParquetFile(path).read(use_threads=False)


@dataclass(frozen=True)
class SandboxReply:
    """The method's answer.

    Attributes:
        ranking: of the queries, in the order of the input.
        sets: recommended sets, if the method or a cut returns them.
        method_hash: the method's hash as computed in the sandbox.
    """

    ranking: Ranking
    sets: ToolSets | None
    method_hash: str


class RefusedReply(Exception):
    """The reply reports an error or does not have the form of a reply."""


class _Header(StrictRecord):
    """The first line of a reply, before the arrays.

    Attributes:
        error: why there is no answer; then the arrays are missing.
        method_hash: see `Reply`.
        width: number of tools in the longest ranking.
        scored: whether there are scores.
        recommended: number of tools in all sets; None without sets.
    """

    error: str | None = None
    method_hash: str = ""
    width: int = 0
    scored: bool = False
    recommended: int | None = None


def error_bytes(error: str) -> bytes:
    """A reply that only reports an error."""
    kept = error[:LONGEST_ERROR].encode("utf-8", "replace").decode()
    return _Header(error=kept).model_dump_json().encode() + b"\n"


def reply_bytes(reply: SandboxReply) -> bytes:
    """A reply as bytes."""
    ranking, sets = reply.ranking, reply.sets
    header = _Header(
        method_hash=reply.method_hash,
        width=ranking.tools.shape[1],
        scored=ranking.scores is not None,
        recommended=None if sets is None else len(sets.tools),
    )
    parts = [header.model_dump_json().encode() + b"\n", ranking.tools.astype("<i4").tobytes()]
    if ranking.scores is not None:
        parts.append(ranking.scores.astype("<f8").tobytes())
    failed = np.zeros(len(ranking), dtype=np.bool_) if ranking.failed is None else ranking.failed
    parts.append(failed.astype("u1").tobytes())
    if sets is not None:
        parts += [sets.starts.astype("<i8").tobytes(), sets.tools.astype("<i4").tobytes()]
    return b"".join(parts)


def longest_reply(queries: int, library: int, depth: int, most_recommended: int) -> int:
    """Maximum bytes of a reply."""
    cells = queries * min(depth, library)
    return len(BEGUN) + _LONGEST_HEADER + cells * 12 + queries + (queries + 1) * 8 + most_recommended * 4


def read_reply(data: bytes, queries: int, library: int, depth: int) -> SandboxReply:
    """Decode a reply from untrusted bytes and check it by the rules for every method.

    Args:
        data: without `BEGUN`.
        queries, library, depth: number of queries, number of tools, and maximum tools per query.

    Raises:
        RefusedReply: it reports an error or has another form or length.
        Violation: its rankings or sets break the protocol.
    """
    line, end, rest = data[:_LONGEST_HEADER].partition(b"\n")
    rest = data[len(line) + len(end) :]
    try:
        header = _Header.model_validate(json.loads(line.decode("utf-8")))
    except (ValueError, RecursionError, ValidationError):
        raise RefusedReply("its answer is not in the form of a reply") from None
    if header.error is not None:
        raise RefusedReply(header.error[:LONGEST_ERROR])
    width, tools = header.width, header.recommended
    if not 0 <= width <= min(depth, library) or not 0 <= (tools or 0) <= queries * library:
        raise RefusedReply("its answer has more tools than there are")
    shape = (queries, width)
    lengths = [queries * width * 4, queries * width * 8 if header.scored else 0, queries]
    lengths += [0, 0] if tools is None else [(queries + 1) * 8, tools * 4]
    if len(rest) != sum(lengths):
        raise RefusedReply(f"its answer has {len(rest)} bytes where {sum(lengths)} belong")
    ends = np.cumsum([0, *lengths]).tolist()
    parts = [rest[start:end] for start, end in pairwise(ends)]
    ranking = Ranking(
        np.frombuffer(parts[0], "<i4").reshape(shape),
        np.frombuffer(parts[1], "<f8").reshape(shape) if header.scored else None,
        np.frombuffer(parts[2], "u1") != 0,
    )
    ranking = validate(ranking, queries, library, depth)
    sets = None
    if tools is not None:
        sets = ToolSets(np.frombuffer(parts[3], "<i8"), np.frombuffer(parts[4], "<i4"))
        sets = validate_sets(sets, queries, library)
    return SandboxReply(ranking, sets, header.method_hash[:64])
