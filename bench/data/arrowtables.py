"""The four tables of a dataset as Arrow has them: their columns, and rows to and fro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bench.data.tables import Edge, Parameter, Query, Tables, Tool

SLICE_PREFIX = "slice_"

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
        ("title", pa.string()),
        ("annotations", pa.string()),
        ("input_schema", pa.string()),
        ("deprecated", pa.bool_()),
    ]
)
_TEXTS = pa.list_(pa.string())
_QUERIES = pa.schema(
    [
        ("query_id", pa.string()),
        ("text", pa.string()),
        ("split", pa.string()),
        ("group", pa.string()),
        ("forbidden", _TEXTS),
        ("searches", _TEXTS),
        ("context", _TEXTS),
        ("origin", pa.string()),
        ("calls", _TEXTS),
    ]
)
_GOLD = pa.schema([("query_id", pa.string()), ("tool_id", pa.string()), ("relevance", pa.int32()), ("any_of", _TEXTS)])
_EDGES = pa.schema(
    [("dependent", pa.string()), ("prerequisite", pa.string()), ("reason", pa.string()), ("note", pa.string())]
)
#: The columns of each table; `queries` may have further text columns, its slices.
SCHEMAS = {"tools": _TOOLS, "queries": _QUERIES, "gold": _GOLD, "edges": _EDGES}


def arrow_tables(tools: Sequence[Tool], queries: Sequence[Query], edges: Sequence[Edge]) -> dict[str, pa.Table]:
    """The four tables; `queries` has one further text column `slice_NAME` for each slice."""
    rows = [
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
            "title": t.title,
            "annotations": t.annotations,
            "input_schema": t.input_schema,
            "deprecated": t.deprecated,
        }
        for t in tools
    ]
    asked = pa.table(
        {
            "query_id": [q.query_id for q in queries],
            "text": [q.text for q in queries],
            "split": [q.split for q in queries],
            "group": [q.group for q in queries],
            "forbidden": [list(q.forbidden) for q in queries],
            "searches": [list(q.searches) for q in queries],
            "context": [list(q.context) for q in queries],
            "origin": [q.origin for q in queries],
            "calls": [list(q.calls) for q in queries],
        },
        _QUERIES,
    )
    for name in sorted({name for q in queries for name in q.slices}):
        values = [q.slices.get(name) for q in queries]
        asked = asked.append_column(SLICE_PREFIX + name, pa.array(values, pa.string()))
    judged = [
        (q.query_id, tool, grade, list(q.any_of.get(tool, ())))
        for q in queries
        for tool, grade in sorted(q.gold.items())
    ]
    drawn = [
        {"dependent": e.dependent, "prerequisite": e.prerequisite, "reason": e.reason, "note": e.note} for e in edges
    ]
    return {
        "tools": pa.Table.from_pylist(rows, _TOOLS),
        "queries": asked,
        "gold": pa.table(dict(zip(_GOLD.names, zip(*judged, strict=True), strict=True)), _GOLD)
        if judged
        else _GOLD.empty_table(),
        "edges": pa.Table.from_pylist(drawn, _EDGES),
    }


def rows_from(tables: dict[str, pa.Table]) -> Tables:
    """Rows from the four tables, as `arrow_tables` makes them."""
    gold: dict[str, dict[str, int]] = {}
    any_of: dict[str, dict[str, tuple[str, ...]]] = {}
    for query, tool, grade, others in zip(*(tables["gold"][name].to_pylist() for name in _GOLD.names), strict=True):
        gold.setdefault(query, {})[tool] = grade
        if others:
            any_of.setdefault(query, {})[tool] = tuple(others)
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
                row["group"],
                any_of.get(row["query_id"], {}),
                tuple(row["forbidden"]),
                tuple(row["searches"]),
                tuple(row["context"]),
                row["origin"],
                tuple(row["calls"]),
            )
            for row in tables["queries"].to_pylist()
        ],
        edges=[Edge(**row) for row in tables["edges"].to_pylist()],
    )


def _tool(row: dict[str, Any]) -> Tool:
    parameters = tuple(Parameter(**parameter) for parameter in row["parameters"])
    return Tool(**{**row, "parameters": parameters})
