"""Files of queries, read as an import reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.data.tables import Query, Tool
from bench.importing.queries import queries_of
from bench.importing.query_files import query_rows
from bench.importing.query_rows import FieldNames


def read_queries(
    path: Path,
    tools: Sequence[Tool],
    unknown: list[tuple[str, str]] | None = None,
    *,
    fields: FieldNames | None = None,
    notes: list[str] | None = None,
) -> list[Query]:
    """The queries of a file; arguments as of `queries_of`."""
    fields = FieldNames() if fields is None else fields
    return queries_of(query_rows(path, fields), tools, str(path), unknown, fields=fields, notes=notes)
