"""The tools of GitHub's MCP server, from the snapshots that its repository has of each tool, and queries of our own.

`queries.jsonl` is a file of queries (see `bench.importing.queries`), `toolsets.tsv` the toolset of each tool. What the
review of the queries changed, and the second annotation, are in `review.jsonl`, which is not loaded.
"""

from __future__ import annotations

import csv
from dataclasses import replace

from bench.base.errors import DataError
from bench.data.card import Card
from bench.data.files import Files
from bench.data.queryviews import ViewOptions
from bench.data.tables import Query, Tables
from bench.importing.queries import read_queries
from bench.importing.tools.catalogue import Source, read_catalogue

SNAPSHOTS = "pkg/github/__toolsnaps__"

Options = ViewOptions


def load(files: Files, options: ViewOptions, card: Card) -> Tables:
    """The tools by their names, each under its toolset, and the queries.

    The slice `toolset` of a query is the toolset of its gold tools, or `several`; queries without gold have none.

    Raises:
        DataError: a snapshot is not in upstream's format, or a tool has no toolset.
    """
    read = read_catalogue([Source(files.path(name), card.id) for name in files.under(SNAPSHOTS)], "mcp")
    with (files.folder / "toolsets.tsv").open(encoding="utf-8", newline="") as lines:
        toolsets = {row["tool"]: row["toolset"] for row in csv.DictReader(lines, delimiter="\t")}
    if missing := sorted({tool.name for tool in read.tools} - toolsets.keys()):
        raise DataError(f"toolsets.tsv has no line for the tool {missing[0]!r}.")
    tools = [replace(tool, tool_id=tool.name, parent=toolsets[tool.name]) for tool in read.tools]
    queries = read_queries(files.folder / "queries.jsonl", tools)
    return Tables(tools, [_with_toolset(query, toolsets) for query in queries], remarks=read.remarks)


def _with_toolset(query: Query, toolsets: dict[str, str]) -> Query:
    used = {toolsets[tool] for tool in query.gold}
    if not used:
        return query
    return replace(query, slices={**query.slices, "toolset": used.pop() if len(used) == 1 else "several"})
