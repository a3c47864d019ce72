"""The four tables of a dataset in Arrow: their columns, and conversion from and to rows. `parquet` uses them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from bench.base import arrow
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
#: A column of `queries` if some requests may see only part of the library.
SCOPE = pa.field("scope", _TEXTS)
_GOLD = pa.schema([("query_id", pa.string()), ("tool_id", pa.string()), ("relevance", pa.int32()), ("any_of", _TEXTS)])
_EDGES = pa.schema(
    [("dependent", pa.string()), ("prerequisite", pa.string()), ("reason", pa.string()), ("note", pa.string())]
)
#: The columns of each table; `queries` may have further text columns, its slices.
SCHEMAS = {"tools": _TOOLS, "queries": _QUERIES, "gold": _GOLD, "edges": _EDGES}


def arrow_tables(tools: Sequence[Tool], queries: Sequence[Query], edges: Sequence[Edge]) -> dict[str, pa.Table]:
    """The four tables; `queries` has one further text column `slice_NAME` for each slice."""
    inputs = [parameter for tool in tools for parameter in tool.parameters]
    starts = np.cumsum([0, *(len(tool.parameters) for tool in tools)])
    library = {name: arrow.texts([getattr(tool, name) for tool in tools]) for name in _names(_TOOLS, pa.string())}
    library["parameters"] = arrow.lists(starts, _parameters(inputs))
    library["deprecated"] = arrow.booleans(np.array([tool.deprecated for tool in tools], dtype=np.bool_))
    query_columns = {
        name: arrow.texts([getattr(query, name) for query in queries]) for name in _names(_QUERIES, pa.string())
    }
    query_columns |= {
        name: arrow.text_lists([getattr(query, name) for query in queries]) for name in _names(_QUERIES, _TEXTS)
    }
    if any(query.scope for query in queries):
        query_columns[SCOPE.name] = arrow.text_lists([query.scope for query in queries])
    for name in sorted({name for query in queries for name in query.slices}):
        query_columns[SLICE_PREFIX + name] = arrow.texts([query.slices.get(name) for query in queries])
    judged = [(query, tool, grade) for query in queries for tool, grade in sorted(query.gold.items())]
    gold = {
        "query_id": arrow.texts([query.query_id for query, _, _ in judged]),
        "tool_id": arrow.texts([tool for _, tool, _ in judged]),
        "relevance": arrow.numbers(np.array([grade for _, _, grade in judged], dtype=np.int32)),
        "any_of": arrow.text_lists([query.any_of.get(tool, ()) for query, tool, _ in judged]),
    }
    drawn = {name: arrow.texts([getattr(edge, name) for edge in edges]) for name in _EDGES.names}
    return {
        "tools": _table(library, _TOOLS),
        "queries": _table(query_columns, _QUERIES),
        "gold": _table(gold, _GOLD),
        "edges": _table(drawn, _EDGES),
    }


def _names(schema: pa.Schema, kind: pa.DataType) -> list[str]:
    return [field.name for field in schema if field.type == kind]


def _parameters(inputs: Sequence[Parameter]) -> pa.Array:
    columns = {
        name: arrow.texts([getattr(parameter, name) for parameter in inputs])
        for name in _names(_PARAMETER, pa.string())
    }
    columns["required"] = arrow.booleans(np.array([parameter.required for parameter in inputs], dtype=np.bool_))
    return pa.StructArray.from_arrays([columns[field.name] for field in _PARAMETER], fields=list(_PARAMETER))


def _table(columns: dict[str, pa.Array | pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    """A table with the columns of the schema in order, followed by the other columns, which are text."""
    more = [
        SCOPE if name == SCOPE.name else pa.field(name, pa.string()) for name in columns if name not in schema.names
    ]
    return pa.table(
        {name: columns[name] for name in [*schema.names, *(field.name for field in more)]}, pa.schema([*schema, *more])
    )


def rows_from(tables: dict[str, pa.Table]) -> Tables:
    """Rows from the four tables, as `arrow_tables` makes them."""
    gold: dict[str, dict[str, int]] = {}
    any_of: dict[str, dict[str, tuple[str, ...]]] = {}
    for query, tool, grade, others in zip(*_columns(tables["gold"], _GOLD.names), strict=True):
        gold.setdefault(query, {})[tool] = grade
        if others:
            any_of.setdefault(query, {})[tool] = tuple(others)
    # Column by column, because a dictionary per row takes longer than everything else.
    sliced = [name for name in tables["queries"].column_names if name.startswith(SLICE_PREFIX)]
    slices = [name.removeprefix(SLICE_PREFIX) for name in sliced]
    query_rows = zip(*_columns(tables["queries"], [*_QUERIES.names, *sliced]), strict=True)
    scoped = SCOPE.name in tables["queries"].column_names
    scopes = tables["queries"][SCOPE.name].to_pylist() if scoped else repeat(())
    library = dict(zip(_TOOLS.names, _columns(tables["tools"], _TOOLS.names), strict=True))
    library["parameters"] = [tuple([Parameter(**fields) for fields in row]) for row in library["parameters"]]
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
                tuple(scope),
            )
            for (query, text, split, group, forbidden, searches, context, origin, calls, *values), scope in zip(
                query_rows, scopes, strict=scoped
            )
        ],
        edges=[Edge(**row) for row in tables["edges"].to_pylist()],
    )


def _columns(table: pa.Table, names: Sequence[str]) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]
