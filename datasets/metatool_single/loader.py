"""MetaTool's single-tool queries: a CSV of query and tool name, one JSON object of tools.

Upstream has no hierarchy. Category is left empty and each tool is its own parent, so that a method that
works by collections finds collections of one, rather than one that holds the whole library.
"""

from __future__ import annotations

import csv
import io

from bench.base.errors import DataError
from bench.data.card import Card
from bench.data.derive import SplitOptions, with_splits
from bench.data.files import Files
from bench.data.tables import Query, Tables, Tool

QUERIES = "dataset/data/all_clean_data.csv"
LIBRARY = "dataset/plugin_des.json"
HEADER = ["Query", "Tool"]
#: Upstream does not split the queries. A bundle here is one tool.
Options = SplitOptions


def load(files: Files, options: SplitOptions, card: Card) -> Tables:
    """The 199 tools, and the queries numbered in upstream's order."""
    library = files.read_as(dict[str, str], LIBRARY)
    tools = [
        Tool(tool_id=name, name=name, description=description, parent=name) for name, description in library.items()
    ]
    queries = [
        # Every row stays a query of its own, also where its text occurs in another row.
        Query(query_id=f"{number:05}", text=text, gold={tool: 1})
        for number, (text, tool) in enumerate(_rows(files, library))
    ]
    return Tables(tools, with_splits(queries, options))


def _rows(files: Files, library: dict[str, str]) -> list[list[str]]:
    reader = csv.reader(io.StringIO(files.text(QUERIES), newline=""), strict=True)
    rows = []
    try:
        if next(reader, None) != HEADER:
            raise DataError(f"{QUERIES} does not begin with the columns {' and '.join(HEADER)}.")
        for row in reader:
            if len(row) != len(HEADER) or not all(row):
                raise DataError(f"{QUERIES}, line {reader.line_num}: not a query and a tool, both non-empty.")
            if row[1] not in library:
                raise DataError(f"{QUERIES}, line {reader.line_num}: the tool {row[1]!r} is not in {LIBRARY}.")
            rows.append(row)
    except csv.Error as error:
        raise DataError(f"{QUERIES}, line {reader.line_num}: {error}.") from None
    return rows
