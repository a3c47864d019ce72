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
    for query, tool, grade, others in zip(*_columns(tables["gold"], _GOLD.names), strict=True):
        gold.setdefault(query, {})[tool] = grade
        if others:
            any_of.setdefault(query, {})[tool] = tuple(others)
    # By columns, since a dictionary for each row takes longer than all else.
    sliced = [name for name in tables["queries"].column_names if name.startswith(SLICE_PREFIX)]
    slices = [name.removeprefix(SLICE_PREFIX) for name in sliced]
    asked = zip(*_columns(tables["queries"], [*_QUERIES.names, *sliced]), strict=True)
    library = dict(zip(_TOOLS.names, _columns(tables["tools"], _TOOLS.names), strict=True))
    library["parameters"] = [tuple([Parameter(**own) for own in row]) for row in library["parameters"]]
    return Tables(
        # The columns are in the order of the fields.
        tools=[Tool(*row) for row in zip(*library.values(), strict=True)],
        queries=[
            Query(
                query,
                text,
                gold.get(query, {}),
                split,
                {name: value for name, value in zip(slices, values, strict=True) if value is not None},
                group,
                any_of.get(query, {}),
                tuple(forbidden),
                tuple(searches),
                tuple(context),
                origin,
                tuple(calls),
            )
            for query, text, split, group, forbidden, searches, context, origin, calls, *values in asked
        ],
        edges=[Edge(**row) for row in tables["edges"].to_pylist()],
    )


def _columns(table: pa.Table, names: Sequence[str]) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]
