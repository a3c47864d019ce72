"""A dataset as a folder of Parquet tables (`tools`, `queries`, `gold`, `edges`) with `dataset.json`.

Each table can be read in one line: `pandas.read_parquet(f"{folder}/queries.parquet")` or
`datasets.load_dataset("parquet", data_files=f"{folder}/queries.parquet")`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from bench.base.errors import DataError
from bench.base.paths import read_regular, replacing, write_text
from bench.base.reading import Reader
from bench.base.records import Record
from bench.base.text import one_line
from bench.data.arrowtables import SCHEMAS, SCOPE, SLICE_PREFIX, arrow_tables, rows_from
from bench.data.card import MANIFEST, Card
from bench.data.dataset import Dataset

FORMAT_VERSION = 1
#: Maximum decompressed bytes of one table; full-size ToolBench takes a fiftieth.
_LARGEST_TABLE = 4 << 30
#: Maximum bytes of a user's file; as rows it takes several times as much.
_LARGEST_BROUGHT = 1 << 30


class DatasetManifest(Record):
    """`dataset.json`: the tables in the same folder, with the sha256 of each."""

    schema_name: Literal["dataset"] = "dataset"
    schema_version: Literal[1] = 1
    spec: str
    content_hash: str
    files: dict[str, str]
    unknown_gold: list[tuple[str, str]] = []
    remarks: list[tuple[str, str]] = []
    card: Card


def write_dataset(dataset: Dataset, folder: Path) -> None:
    """Write the folder; `dataset.json` comes last, so a folder without it is not yet a dataset."""
    digests: dict[str, str] = {}
    for name, table in arrow_tables(dataset.tools, dataset.queries, dataset.edges).items():
        with replacing(folder / f"{name}.parquet") as temporary:
            pq.write_table(table, temporary, compression="zstd")
            digests[f"{name}.parquet"] = hashlib.sha256(temporary.read_bytes()).hexdigest()
    manifest = DatasetManifest(
        spec=dataset.spec,
        content_hash=dataset.content_hash,
        files=digests,
        unknown_gold=list(dataset.unknown_gold),
        remarks=list(dataset.remarks),
        card=dataset.card,
    )
    write_text(folder / MANIFEST, json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n")


def read_dataset(folder: Path) -> Dataset:
    """Read a folder written by `write_dataset` and check every file against `dataset.json`.

    Raises:
        DataError: a file is missing, truncated, changed, or of another format version.
    """
    path = folder / MANIFEST
    reader = Reader(str(path), DataError)
    raw = reader.parse(reader.read_bytes(path))
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != FORMAT_VERSION:
        raise DataError(f"{path} has format version {version!r}; this bench reads {FORMAT_VERSION}.")
    manifest = reader.validate(DatasetManifest, raw)
    if others := {f"{name}.parquet" for name in SCHEMAS} ^ manifest.files.keys():
        raise DataError(f"{path} does not name the {len(SCHEMAS)} tables of a dataset: see {min(others)!r}.")
    tables = {name: _read_table(folder / f"{name}.parquet", manifest.files[f"{name}.parquet"]) for name in SCHEMAS}
    _check_columns(folder, tables)
    rows = replace(rows_from(tables), unknown_gold=manifest.unknown_gold, remarks=manifest.remarks)
    if sum(len(query.gold) for query in rows.queries) != len(tables["gold"]):
        judged = Counter(zip(*(tables["gold"][column].to_pylist() for column in ("query_id", "tool_id")), strict=True))
        known = {query.query_id for query in rows.queries}
        query, tool = next((pair for pair, times in judged.items() if times > 1 or pair[0] not in known), ("", ""))
        raise DataError(
            f"{folder / 'gold'}.parquet judges {tool!r} twice for query {query!r}, or the query does not exist."
        )
    dataset = Dataset.build(manifest.spec, manifest.card, rows)
    # The files' checksums were verified above, so the stored hash holds for their content.
    dataset.__dict__["content_hash"] = manifest.content_hash
    return dataset


def _read_table(path: Path, digest: str) -> pa.Table:
    data = Reader(str(path), DataError).read_verified(path, digest, MANIFEST)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))  # read_table would import pandas
        table = pa.Table.from_batches(_read_batches(file, str(path), None, _LARGEST_TABLE), schema=file.schema_arrow)
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}.") from None


def _read_batches(file: pq.ParquetFile, label: str, columns: list[str] | None, most: int) -> Iterator[pa.RecordBatch]:
    """Read in parts: the file's size information counts a repeated value once."""
    size = 0
    for batch in file.iter_batches(batch_size=256, columns=columns, use_threads=False):
        size += batch.nbytes
        if size > most:
            raise DataError(f"{label} would take {size >> 20} MiB of memory or more; tables take far less.")
        yield batch


def parquet_rows(path: Path, columns: Sequence[str], label: str) -> list[dict[str, Any]]:
    """Read columns of a user's Parquet file, one dictionary per row.

    Args:
        path: the file.
        columns: columns to read.
        label: the file's name in messages.

    Raises:
        DataError: it is not a Parquet file, lacks a column, or would fill the memory.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(read_regular(path)))
        lacking = [name for name in columns if name not in file.schema_arrow.names]
        if lacking:
            raise DataError(f"{label} has no column {lacking[0]!r}.")
        return [
            row for batch in _read_batches(file, label, list(columns), _LARGEST_BROUGHT) for row in batch.to_pylist()
        ]
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise DataError(f"{label} is not a readable Parquet file ({one_line(str(error), 200)}).") from None


#: Columns that may contain nulls; elsewhere a null is an error.
_NULLABLE = frozenset({"returns", "source", "annotations", "input_schema"})


def _has_nulls(column: pa.ChunkedArray) -> bool:
    """Whether a column, its list items, or a field of objects in a list is null; a default may be null."""
    if pa.types.is_struct(column.type):
        parts = zip(column.type, column.flatten(), strict=True)
        return bool(column.null_count) or any(_has_nulls(part) for field, part in parts if field.name != "default")
    if pa.types.is_list(column.type):
        return bool(column.null_count) or _has_nulls(
            pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        )
    return bool(column.null_count)


def _check_columns(folder: Path, tables: dict[str, pa.Table]) -> None:
    """Refuse a table whose columns differ from those that `write_dataset` writes."""
    for name, schema in SCHEMAS.items():
        table = tables[name]
        columns = {field.name: field.type for field in schema}
        slices = {column for column in table.column_names if name == "queries" and column.startswith(SLICE_PREFIX)}
        columns |= dict.fromkeys(slices, pa.string())
        columns |= {SCOPE.name: SCOPE.type} if name == "queries" and SCOPE.name in table.column_names else {}
        for column, kind in columns.items():
            if table.column_names.count(column) != 1 or not table.schema.field(column).type.equals(kind):
                raise DataError(f"{folder / name}.parquet lacks the column {column!r} of type {kind}, or repeats it.")
            if column not in _NULLABLE | slices and _has_nulls(table[column]):
                raise DataError(f"{folder / name}.parquet has nulls in the column {column!r}.")
        for column in table.column_names:
            if column not in columns:
                raise DataError(f"{folder / name}.parquet has the unknown column {column!r}.")
