"""Read a submission's tables under limits (`reading.py`), and check them against the dataset. `check` calls it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.base.errors import ResultError
from bench.data.dataset import Dataset
from bench.leaderboard.submit.archive import quote
from bench.leaderboard.submit.reading import READ, REFUSED, read_apart
from bench.results.manifest import Manifest, Metrics
from bench.results.store import PER_QUERY, PER_QUERY_SCHEMA, REPEATS, RUN

#: Maximum cells to score (queries x depth of the deepest ranking), and maximum values of a column.
MOST_CELLS = 50_000_000
#: Memory and seconds for reading one table.
_MEMORY = 4 << 30
_SECONDS = 300.0
_LISTS = ("query_id", "tied_beyond_gold.list.element", "recommended.list.element")
_STRINGS = {RUN: ("query_id", "tool_id"), PER_QUERY: _LISTS, REPEATS: _LISTS}


def read_table(data: bytes, name: str, required: pa.Schema, rows: int) -> pa.Table:
    """Read a table from the bytes of a Parquet file; strings are dictionary-coded.

    Args:
        data: untrusted.
        name: `run.parquet`, `per_query.parquet` or `repeats.parquet`.
        required: required columns.
        rows: maximum rows.

    Raises:
        ResultError: it is not a Parquet file with these columns, or exceeds the limits.
    """
    try:
        code, stream, why = read_apart(data, rows, MOST_CELLS, _MEMORY, _STRINGS[name], _SECONDS)
    except TimeoutError:
        raise ResultError(f"{name} cannot be read in {_SECONDS:.0f} seconds.") from None
    if code == REFUSED:
        raise ResultError(f"{name} {why.strip()}.")
    if code != READ:
        raise ResultError(f"{name} cannot be read within {_MEMORY >> 30} GiB: it unpacks to more, or is damaged.")
    table = pa.ipc.open_stream(stream).read_all()
    if len(set(table.column_names)) < len(table.column_names):
        raise ResultError(f"{name} repeats a column.")
    for field in required:
        if field.name not in table.column_names or _plain(table.schema.field(field.name).type) != _plain(field.type):
            raise ResultError(f"{name} lacks the column {field.name} of the type {field.type}.")
    for column in _STRINGS[name]:
        kind = table.schema.field(column.partition(".")[0]).type
        if not pa.types.is_dictionary(kind.value_type if pa.types.is_list(kind) else kind):
            raise ResultError(f"{name} lacks the strings {column}.")
    for field in table.schema:
        if field.name not in required.names and (name == RUN or field.type != pa.float64()):
            raise ResultError(f"{name} has the column {quote(field.name)}, which is not part of the format.")
    return table


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without its dictionary, and without names and nullability inside lists."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return pa.list_(_plain(kind.value_type)) if pa.types.is_list(kind) else kind


def plain_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with plain strings, columns of the schema first. Its strings must have been checked before."""
    extra = [pa.field(name, pa.float64()) for name in table.column_names if name not in schema.names]
    full = pa.schema([*schema, *extra])
    return pa.table({field.name: table[field.name].cast(field.type) for field in full}, full)


def codes(column: pa.ChunkedArray, known: Mapping[str, int]) -> tuple[NDArray[np.int64], list[str]]:
    """The codes of a dictionary-coded string column, -1 for null and unknown strings; and the unknown ones, sorted.

    Each distinct string is decoded once: a long string on every row would fill the memory.
    """
    parts = [np.empty(0, dtype=np.int64)]
    unknown: set[str] = set()
    for chunk in column.chunks:
        values = chunk.dictionary.to_pylist()
        table = np.array([known.get(value, -1) for value in values] + [-1], dtype=np.int64)
        places = chunk.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
        parts.append(table[places])
        used = set(places[parts[-1] < 0].tolist()) - {len(values)}
        unknown.update(str(values[place]) for place in used)
    return np.concatenate(parts), sorted(unknown)


@dataclass(frozen=True)
class EvaluatedQueries:
    """The queries of a submission, according to the data of this bench.

    Attributes:
        dataset: the data.
        rows: (queries,) which queries, by code, ascending.
        deepest: maximum tools per query.
    """

    dataset: Dataset
    rows: NDArray[np.int64]
    deepest: int

    def name(self, place: int) -> str:
        """The id of the query in a row, quoted for a message."""
        return quote(self.dataset.queries[self.rows[place]].query_id)


def per_query_faults(table: pa.Table, evaluated: EvaluatedQueries) -> list[str]:
    """Faults in the rows of per_query.parquet, one sentence per kind."""
    dataset, rows = evaluated.dataset, evaluated.rows
    present, strange = codes(table["query_id"], dataset.query_codes)
    if (present < 0).any():
        return [_unknown(PER_QUERY, "query", dataset, strange or ["None"])]
    if not np.array_equal(present, rows):
        lacking, extra = np.setdiff1d(rows, present), np.setdiff1d(present, rows)
        detail = f"lacks {len(lacking)} of them" + _first(dataset, lacking)
        detail += f", and has {len(extra)} others" + _first(dataset, extra)
        if not len(lacking) and not len(extra):
            detail = "repeats some, or has them in another order"
        return [f"{PER_QUERY} does not contain the {len(rows)} queries of the evaluated split: it {detail}."]
    faults = [
        f"{PER_QUERY} has an empty cell in the column {name}."
        for name in ("unit", "n_gold", "failed", "tied_beyond", "tied_beyond_gold")
        if table[name].null_count
    ]
    if table["recommended"].null_count not in {0, len(rows)}:
        faults.append(f"{PER_QUERY} has recommended sets for some queries only.")
    if faults:
        return faults
    for name in ("tied_beyond_gold", "recommended"):
        faults += _list_faults(table[name], name, evaluated)
    if faults:
        return faults
    beyond = np.array(table["tied_beyond"].to_pylist(), dtype=np.int64)
    gold_beyond = _lengths(table["tied_beyond_gold"])
    if (beyond < gold_beyond).any() or (beyond > len(dataset.tools)).any():
        faults.append(f"{PER_QUERY} has impossible counts of tools that tie beyond the ranking.")
    for name in table.column_names:
        if name not in PER_QUERY_SCHEMA.names and pc.all(pc.is_finite(table[name])).as_py() is False:
            faults.append(f"{PER_QUERY} has a value of {quote(name)} that is not a finite number.")
    return faults


def _first(dataset: Dataset, queries: NDArray[np.int64]) -> str:
    return f", first {quote(dataset.queries[queries[0]].query_id)}" if len(queries) else ""


def _lengths(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.array(pc.list_value_length(column).to_pylist(), dtype=np.float64).astype(np.int64)


def _list_faults(column: pa.ChunkedArray, name: str, evaluated: EvaluatedQueries) -> list[str]:
    """Check tools in lists: known, no duplicates; those that tie must be gold of their query."""
    dataset = evaluated.dataset
    library = len(dataset.tools)
    if column.null_count:
        return []
    lengths = _lengths(column)
    # Before anything of this length is allocated: a few bytes can expand to millions of tools.
    longest = int(lengths.argmax())
    if lengths[longest] > library:
        return [f"{PER_QUERY} has a tool twice in {name} of the query {evaluated.name(longest)}."]
    flat = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
    tools, strange = codes(flat, dataset.tool_codes)
    if (tools < 0).any():
        return [_unknown(f"the column {name} of {PER_QUERY}", "tool", dataset, strange or ["None"])]
    keys = np.sort(np.repeat(np.arange(len(lengths)), lengths) * library + tools)
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        return [f"{PER_QUERY} has a tool twice in {name} of the query {evaluated.name(keys[twice[0]] // library)}."]
    gold = dataset.gold.take(evaluated.rows).members()
    wrong = np.setdiff1d(keys, np.repeat(np.arange(len(gold)), gold.counts) * library + gold.tools)
    if name == "tied_beyond_gold" and len(wrong):
        query = evaluated.name(wrong[0] // library)
        return [f"{PER_QUERY} wrongly says that a tool is gold for the query {query}."]
    return []


def repeats_faults(
    repeats: pa.Table, run: pa.Table | None, manifest: Manifest, metrics: Metrics, evaluated: EvaluatedQueries
) -> list[str]:
    """Faults in the rows of repeats.parquet, or of a run.parquet with several repeats, repeat by repeat."""
    count = manifest.repeats
    tables = {REPEATS: repeats} if run is None else {REPEATS: repeats, RUN: run}
    parts = {}
    for name, table in tables.items():
        numbers = np.array(table["repeat"].to_pylist(), dtype=np.float64)
        if not np.isin(numbers, np.arange(1, count + 1)).all() or (np.diff(numbers) < 0).any():
            return [f"{name} does not hold the repeats 1 to {count}, each after the one before."]
        ends = np.searchsorted(numbers, np.arange(1, count + 2)).tolist()
        plain = table.drop_columns(["repeat"])
        parts[name] = [plain.slice(start, end - start) for start, end in itertools.pairwise(ends)]
    for i, table in enumerate(parts[REPEATS]):
        # The sentences name the table without repeats, whose format the rows of each repeat have.
        faults = per_query_faults(table, evaluated)
        if not faults and run is not None:
            faults = run_faults(parts[RUN][i], table, manifest, metrics, evaluated)
        if faults:
            return [f"repeat {i + 1}: {fault.replace(PER_QUERY, REPEATS)}" for fault in faults]
    return []


def run_faults(
    table: pa.Table, per_query: pa.Table, manifest: Manifest, metrics: Metrics, evaluated: EvaluatedQueries
) -> list[str]:
    """Faults in the rows of run.parquet; `per_query` is valid."""
    dataset = evaluated.dataset
    place = {dataset.queries[row].query_id: i for i, row in enumerate(evaluated.rows)}
    queries, strange_queries = codes(table["query_id"], place)
    tools, strange_tools = codes(table["tool_id"], dataset.tool_codes)
    faults = []
    if strange_queries:
        faults.append(_unknown(RUN, "query", dataset, strange_queries, " among the evaluated ones"))
    if strange_tools:
        faults.append(_unknown(RUN, "tool", dataset, strange_tools))
    if any(table[name].null_count for name in ("query_id", "rank", "tool_id")):
        faults.append(f"{RUN} has an empty cell.")
    if faults:
        return faults
    ranks = table["rank"].to_numpy().astype(np.int64)
    first = np.ones(len(queries), dtype=np.bool_)
    first[1:] = queries[1:] != queries[:-1]
    starts = np.flatnonzero(first)
    expected = np.arange(len(queries)) - np.repeat(starts, np.diff([*starts, len(queries)])) + 1
    wrong = ranks != expected
    wrong[1:] |= queries[1:] < queries[:-1]
    if wrong.any():
        query = evaluated.name(queries[wrong.argmax()])
        faults.append(f"{RUN} is not in the order of query ids with the ranks 1, 2, 3, ... each once (at {query}).")
    elif ranks.max(initial=0) > evaluated.deepest:
        faults.append(f"{RUN} has {ranks.max()} tools for a query; at most {evaluated.deepest} are possible.")
    keys = np.sort(queries * len(dataset.tools) + tools)
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        query_place, tool = divmod(int(keys[twice[0]]), len(dataset.tools))
        query = evaluated.name(query_place)
        faults.append(f"{RUN} has the tool {quote(dataset.tools[tool].tool_id)} twice for {query}.")
    failed = np.array(per_query["failed"].to_pylist(), dtype=np.bool_)
    if failed[queries].any():
        query = evaluated.name(queries[failed[queries].argmax()])
        faults.append(f"{RUN} has tools for {query}, which failed according to {PER_QUERY}.")
    returned = np.bincount(queries, minlength=len(evaluated.rows))
    if faults:
        return faults
    return [
        *_score_faults(table, queries, tools, first, metrics, evaluated),
        *_beyond_faults(per_query, tools, starts, returned, manifest, metrics, evaluated),
    ]


def _score_faults(
    table: pa.Table,
    queries: NDArray[np.int64],
    tools: NDArray[np.int64],
    first: NDArray[np.bool_],
    metrics: Metrics,
    evaluated: EvaluatedQueries,
) -> list[str]:
    column = table["score"]
    if column.null_count not in {0, len(column)}:
        return [f"{RUN} has scores for some tools only."]
    scored = not column.null_count
    if len(column) and scored != (metrics.n_tied is not None):
        words = "has scores, but the metrics do not mention" if scored else "has no scores, but the metrics mention"
        return [f"{RUN} {words} ties."]
    if not scored or not len(column):
        return []
    scores = column.to_numpy().astype(np.float64)
    if not np.isfinite(scores).all():
        query = evaluated.name(queries[np.isfinite(scores).argmin()])
        return [f"{RUN} has a score that is not a finite number (at {query})."]
    wrong = np.zeros(len(scores), dtype=np.bool_)
    wrong[1:] = (scores[1:] > scores[:-1]) | ((scores[1:] == scores[:-1]) & (tools[1:] < tools[:-1]))
    wrong &= ~first
    if wrong.any():
        query = evaluated.name(queries[wrong.argmax()])
        return [f"{RUN} is not in the order of its scores, ties by tool id (rule 1 of the protocol; at {query})."]
    return []


def _beyond_faults(
    per_query: pa.Table,
    tools: NDArray[np.int64],
    starts: NDArray[np.int64],
    returned: NDArray[np.int64],
    manifest: Manifest,
    metrics: Metrics,
    evaluated: EvaluatedQueries,
) -> list[str]:
    """Check counts of ties beyond a ranking, which cannot be recomputed: they must be possible."""
    dataset = evaluated.dataset
    beyond = np.array(per_query["tied_beyond"].to_pylist(), dtype=np.int64)
    at_depth = returned == min(manifest.depth, len(dataset.tools))
    impossible = (beyond > 0) & (~at_depth | (metrics.n_tied is None) | (manifest.method.run_file is not None))
    impossible |= beyond > len(dataset.tools) - returned
    begins = np.zeros(len(returned), dtype=np.int64)
    begins[returned > 0] = starts
    for i, names in enumerate(per_query["tied_beyond_gold"].to_pylist()):
        if names:
            held = set(tools[begins[i] : begins[i] + returned[i]].tolist())
            impossible[i] |= any(dataset.tool_codes[name] in held for name in names)
    if impossible.any():
        query = evaluated.name(impossible.argmax())
        return [f"{PER_QUERY} counts tools that tie beyond a ranking where none can (at {query})."]
    return []


def _unknown(where: str, kind: str, dataset: Dataset, names: list[str], among: str = "") -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    shown = ", ".join(quote(name) for name in names[:3])
    return f"{where} names {shown}{more}: {dataset.spec} has no such {kind}{among}."
