"""Read and validate the columns of a result's tables that the site needs. Boards and pages call it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.base.errors import ResultError
from bench.base.reading import Reader
from bench.base.text import label
from bench.results.stated import check_counts, check_means
from bench.results.store import MANIFEST, PER_QUERY, REPEATED_RUN_SCHEMA, REPEATS, RUN, RUN_SCHEMA, StoredResult

_IDS = ("query_id", "tool_id")


def read_columns(
    result: StoredResult, name: str, wanted: Sequence[str] | None = None, coded: Sequence[str] = ()
) -> pa.Table:
    """Read some columns of a result's table; all of them by default.

    Args:
        result: the result.
        name: the file's name.
        wanted: columns; None for all.
        coded: text columns to read as dictionaries, which takes a third of the time if texts repeat.

    Raises:
        ResultError: the file is missing, is not the one that the manifest names, is not Parquet, or repeats a column.
    """
    path = result.folder / name
    data = Reader(str(path), ResultError).read_verified(path, result.manifest.files.get(name), MANIFEST)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        there = file.schema_arrow.names
        texts = [field.name for field in file.schema_arrow if field.name in coded and field.type == pa.string()]
        if texts and len(set(there)) == len(there):
            file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
        twice = [column for column, times in Counter(there).items() if times > 1]
        columns = there if wanted is None else [column for column in wanted if column in set(there)]
        table = file.read(columns=[] if twice else columns, use_threads=False)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ResultError(f"{path} is not a readable Parquet file ({first[:200]}).") from None
    if twice:
        raise ResultError(f"{path} has the column {label(twice[0], 40)} twice.")
    return table


def check_values(
    result: StoredResult, metrics: Sequence[str], verify: bool, orders: list[pa.Table]
) -> tuple[NDArray[np.float64] | None, int]:
    """Per-query values of some metrics over the judged queries, and which queries these are.

    Args:
        result: the result.
        metrics: all or none are returned: a result that lacks one has no ranked row.
        verify: whether to read and check all columns and the ranking too.
        orders: the queries of the results checked before, with their numbers of gold tools; new ones are added.

    Returns:
        (judged queries, metrics), and the position of the queries in `orders`.

    Raises:
        ResultError: a table cannot be read, holds values that bench never writes, or its means differ from those of
            the result.
    """
    table = read_columns(result, PER_QUERY, None if verify else ["query_id", "unit", "n_gold", "failed", *metrics])
    path = result.folder / PER_QUERY
    units = {"unit": pa.string()} if result.manifest.dataset.unit else {}
    check_types(table, {"query_id": pa.string(), "n_gold": pa.int32(), "failed": pa.bool_(), **units}, str(path))
    key_columns = [name for name in ("query_id", "unit", "n_gold") if name in table.column_names]
    order = _order(table.select(key_columns), orders, str(path))
    judged = table["n_gold"].to_numpy() > 0
    stated = result.metrics.metrics
    there = [name for name in metrics if name in table.column_names and name in stated]
    columns = [_column(table, name, judged, path.name) for name in there]
    check_counts(result.manifest, result.metrics, table, str(path))
    check_means(result.metrics, table, stated if verify else there, str(path))
    if verify and result.has_run:
        read_run(result)
    if verify and result.manifest.repeats > 1:
        check_types(read_columns(result, REPEATS), {"repeat": pa.int32()}, str(result.folder / REPEATS))
    return (np.column_stack(columns) if len(there) == len(metrics) else None), order


def _order(queries: pa.Table, orders: list[pa.Table], where: str) -> int:
    """The position of these queries among the known ones."""
    # Comparing columns is a hundred times faster than looking at each id.
    for place, known in enumerate(orders):
        if known.equals(queries):
            return place
    ids = queries["query_id"].to_pylist()
    if any(first >= second for first, second in itertools.pairwise(ids)):
        raise ResultError(f"{where} is not in the order of query ids, or repeats one.")
    orders.append(queries)
    return len(orders) - 1


def read_run(result: StoredResult) -> pa.Table:
    """A result's ranking: query_id, rank, tool_id, score, and repeat if it has several. Ids are dictionaries.

    Raises:
        ResultError: it cannot be read, or has other columns.
    """
    schema = RUN_SCHEMA if result.manifest.repeats == 1 else REPEATED_RUN_SCHEMA
    table = read_columns(result, RUN, schema.names, coded=_IDS)
    check_types(table, {field.name: field.type for field in schema}, str(result.folder / RUN))
    return table


def check_types(table: pa.Table, wanted: Mapping[str, pa.DataType], where: str) -> None:
    """Raise `ResultError` unless the table has these columns without empty cells; the score may be missing."""
    for column, kind in wanted.items():
        found = table.schema.field(column).type if column in table.column_names else None
        if (found.value_type if found is not None and pa.types.is_dictionary(found) else found) != kind:
            raise ResultError(f"{where} has no column {column} of the type {kind}.")
        if table[column].null_count and column != "score":
            raise ResultError(f"{where} leaves cells of the column {column} empty.")


def _column(table: pa.Table, name: str, judged: NDArray[np.bool_], where: str) -> NDArray[np.float64]:
    if table.schema.field(name).type != pa.float64():
        raise ResultError(f"the column {name} of {where} is not numeric.")
    values: NDArray[np.float64] = table[name].combine_chunks().to_numpy(zero_copy_only=False)[judged]
    if not np.isfinite(values).all():
        raise ResultError(f"the column {name} of {where} has a value that is not a finite number.")
    if values.size and (values.min() < -1e-12 or values.max() > 1 + 1e-9):
        raise ResultError(f"the column {name} of {where} has a value outside [0, 1].")
    return values
