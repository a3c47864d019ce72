"""A dataset as a folder of Parquet tables (`tools`, `queries`, `gold`, `edges`) with `dataset.json`.

Any of them is one line away: `pandas.read_parquet(f"{folder}/queries.parquet")` or
`datasets.load_dataset("parquet", data_files=f"{folder}/queries.parquet")`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Parameter, Query, Tables, Tool
from bench.errors import DataError
from bench.storage.paths import replacing, write_text

FORMAT_VERSION = 1
MANIFEST = "dataset.json"
SLICE_PREFIX = "slice_"
#: Bytes of one table, decompressed. Full-size ToolBench takes a fiftieth.
_LARGEST_TABLE = 4 << 30

_PARAMETER = pa.struct(
    [
        ("name", pa.string()),
        ("type", pa.string()),
        ("description", pa.string()),
        ("required", pa.bool_()),
        ("default", pa.string()),
    ]
)
_TOOLS = pa.schema(
    [
        ("tool_id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("category", pa.string()),
        ("parent", pa.string()),
        ("parameters", pa.list_(_PARAMETER)),
        ("returns", pa.string()),
        ("source", pa.string()),
    ]
)
_QUERIES = pa.schema([("query_id", pa.string()), ("text", pa.string()), ("split", pa.string())])
_GOLD = pa.schema([("query_id", pa.string()), ("tool_id", pa.string()), ("relevance", pa.int32())])
_EDGES = pa.schema(
    [("dependent", pa.string()), ("prerequisite", pa.string()), ("reason", pa.string()), ("note", pa.string())]
)
_SCHEMAS = {"tools": _TOOLS, "queries": _QUERIES, "gold": _GOLD, "edges": _EDGES}


class DatasetManifest(BaseModel):
    """`dataset.json`: what the tables beside it are, with the sha256 of each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_name: Literal["dataset"] = "dataset"
    schema_version: Literal[1] = 1
    spec: str
    content_hash: str
    files: dict[str, str]
    unknown_gold: list[tuple[str, str]] = []
    card: Card


def table_schemas() -> dict[str, pa.Schema]:
    """The columns of each table; `queries` may have further text columns, its slices."""
    return dict(_SCHEMAS)


def arrow_tables(dataset: Dataset) -> dict[str, pa.Table]:
    """The four tables. `queries` has one further text column `slice_NAME` for each slice."""
    tools = [
        {
            "tool_id": t.tool_id,
            "name": t.name,
            "description": t.description,
            "category": t.category,
            "parent": t.parent,
            "parameters": [
                {
                    "name": p.name,
                    "type": p.type,
                    "description": p.description,
                    "required": p.required,
                    "default": p.default,
                }
                for p in t.parameters
            ],
            "returns": t.returns,
            "source": t.source,
        }
        for t in dataset.tools
    ]
    queries = pa.table(
        {
            "query_id": [q.query_id for q in dataset.queries],
            "text": [q.text for q in dataset.queries],
            "split": [q.split for q in dataset.queries],
        },
        _QUERIES,
    )
    for name in dataset.slice_names:
        values = [q.slices.get(name) for q in dataset.queries]
        queries = queries.append_column(SLICE_PREFIX + name, pa.array(values, pa.string()))
    judged = [(q.query_id, tool, grade) for q in dataset.queries for tool, grade in sorted(q.gold.items())]
    edges = [
        {"dependent": e.dependent, "prerequisite": e.prerequisite, "reason": e.reason, "note": e.note}
        for e in dataset.edges
    ]
    return {
        "tools": pa.Table.from_pylist(tools, _TOOLS),
        "queries": queries,
        "gold": pa.table(dict(zip(_GOLD.names, zip(*judged, strict=True), strict=True)), _GOLD)
        if judged
        else _GOLD.empty_table(),
        "edges": pa.Table.from_pylist(edges, _EDGES),
    }


def write_dataset(dataset: Dataset, folder: Path) -> None:
    """Write the folder; `dataset.json` comes last, so a folder without it is not a dataset yet."""
    digests: dict[str, str] = {}
    for name, table in arrow_tables(dataset).items():
        with replacing(folder / f"{name}.parquet") as temporary:
            pq.write_table(table, temporary, compression="zstd")
            digests[f"{name}.parquet"] = hashlib.sha256(temporary.read_bytes()).hexdigest()
    manifest = DatasetManifest(
        spec=dataset.spec,
        content_hash=dataset.content_hash,
        files=digests,
        unknown_gold=list(dataset.unknown_gold),
        card=dataset.card,
    )
    write_text(folder / MANIFEST, json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n")


def read_dataset(folder: Path) -> Dataset:
    """Read a folder that `write_dataset` wrote, checking every file against `dataset.json`.

    Raises:
        DataError: a file is missing, truncated, changed, or of another format version.
    """
    path = folder / MANIFEST
    try:
        raw = json.loads(path.read_text("utf-8"))
        version = raw.get("schema_version") if isinstance(raw, dict) else None
        if version != FORMAT_VERSION:
            raise DataError(f"{path} has format version {version!r}; this bench reads {FORMAT_VERSION}.")
        manifest = DatasetManifest.model_validate(raw)
        tables = {name: _read_table(folder / f"{name}.parquet", manifest.files[f"{name}.parquet"]) for name in _SCHEMAS}
        _check_columns(folder, tables)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the dataset in {folder}: {error}.") from None
    except (ValueError, KeyError, RecursionError) as error:  # pydantic's and json's errors are ValueErrors
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path} is damaged or not a dataset of bench ({detail}).") from None
    rows = replace(rows_from(tables), unknown_gold=manifest.unknown_gold)
    dataset = Dataset.build(manifest.spec, manifest.card, rows)
    # The files' checksums were verified above; the stored hash then holds for their content.
    dataset.__dict__["content_hash"] = manifest.content_hash
    return dataset


def _read_table(path: Path, digest: str) -> pa.Table:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise DataError(f"{path} is truncated or changed: its sha256 is not the one in {MANIFEST}.")
    try:
        file = pq.ParquetFile(pa.BufferReader(data))  # read_table would import pandas
        # Bit by bit: what the file says of its size counts a value that is repeated a million times once.
        size, batches = 0, []
        for batch in file.iter_batches(batch_size=256, use_threads=False):
            size += batch.nbytes
            if size > _LARGEST_TABLE:
                raise DataError(f"{path} would take {size >> 20} MiB of memory or more; tables take far less.")
            batches.append(batch)
        table = pa.Table.from_batches(batches, schema=file.schema_arrow)
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}.") from None


#: Columns that may hold nulls; in the others a null is a defect.
_NULLABLE = frozenset({"returns", "source"})


def _check_columns(folder: Path, tables: dict[str, pa.Table]) -> None:
    """Refuse a table whose columns are not those that `write_dataset` writes."""
    for name, schema in _SCHEMAS.items():
        table = tables[name]
        for field in schema:
            if field.name not in table.column_names or not table.schema.field(field.name).type.equals(field.type):
                raise DataError(f"{folder / name}.parquet lacks the column {field.name!r} of type {field.type}.")
            if field.name not in _NULLABLE and table[field.name].null_count:
                raise DataError(f"{folder / name}.parquet has nulls in the column {field.name!r}.")
        slices = name == "queries"
        for column in table.column_names:
            if column not in schema.names and not (slices and column.startswith(SLICE_PREFIX)):
                raise DataError(f"{folder / name}.parquet has the unknown column {column!r}.")


def rows_from(tables: dict[str, pa.Table]) -> Tables:
    """Rows from the four tables, as `arrow_tables` makes them."""
    gold: dict[str, dict[str, int]] = {}
    for query, tool, grade in zip(*(tables["gold"][name].to_pylist() for name in _GOLD.names), strict=True):
        gold.setdefault(query, {})[tool] = grade
    return Tables(
        tools=[_tool(row) for row in tables["tools"].to_pylist()],
        queries=[
            Query(
                row["query_id"],
                row["text"],
                gold.get(row["query_id"], {}),
                row["split"],
                {
                    key.removeprefix(SLICE_PREFIX): value
                    for key, value in row.items()
                    if key.startswith(SLICE_PREFIX) and value is not None
                },
            )
            for row in tables["queries"].to_pylist()
        ],
        edges=[Edge(**row) for row in tables["edges"].to_pylist()],
    )


def _tool(row: dict[str, Any]) -> Tool:
    parameters = tuple(Parameter(**parameter) for parameter in row["parameters"])
    return Tool(**{**row, "parameters": parameters})
