"""Starter: our own tools, queries and dependency edges, embedded in the package."""

from __future__ import annotations

import json
from typing import Any

from bench.data.card import Card
from bench.data.edges import read_edges
from bench.data.files import Files
from bench.data.novelty import with_parent_slice
from bench.data.tables import Parameter, Query, Tables, Tool
from bench.specs.parameters import ParameterSet


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The three files next to this one.

    The slice `prerequisite` is `unnamed` if the query needs a gold tool that it does not mention, else `none`;
    queries without gold have no such slice. The slice `parent` says how new the parents of a dev or test query's gold
    are (see `bench.data.novelty`): nine providers are never gold in train.
    """
    folder = files.folder
    tools = [_tool(json.loads(line)) for line in (folder / "tools.jsonl").read_text("utf-8").splitlines()]
    queries = [_query(json.loads(line)) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    return Tables(tools, with_parent_slice(queries, tools), read_edges(folder / "edges.tsv"))


def _tool(row: dict[str, Any]) -> Tool:
    parameters = tuple(
        Parameter(
            name=field["name"],
            type=field["type"],
            description=field["description"],
            required=field["required"],
            default=json.dumps(field["default"]) if "default" in field else None,
        )
        for field in row["parameters"]
    )
    returns = {field["name"]: {"type": field["type"], "description": field["description"]} for field in row["returns"]}
    texts = {key: row[key] for key in ("tool_id", "name", "description", "category", "parent")}
    return Tool(**texts, parameters=parameters, returns=json.dumps(returns, ensure_ascii=False))


def _query(row: dict[str, Any]) -> Query:
    needs = {"prerequisite": "unnamed" if row["needs_prerequisite"] else "none"} if row["gold"] else {}
    return Query(row["query_id"], row["text"], dict.fromkeys(row["gold"], 1), row["split"], needs)
