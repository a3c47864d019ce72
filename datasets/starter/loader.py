"""Starter: our own tools, queries and dependency edges, embedded in the package."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.edges import read_edges
from bench.data.files import Files
from bench.data.novelty import with_parent_slice
from bench.data.origins import written_by
from bench.data.tables import Parameter, Query, Tables, Tool

#: Who wrote the requests.
_ORIGIN = written_by("Claude")


class Options(ParameterSet):
    """The options of starter."""

    gold: Literal["annotated", "reviewed"] = Field(
        default="annotated",
        description="The gold as it was annotated, or with the alternatives that a later review found.",
    )


def load(files: Files, options: Options, card: Card) -> Tables:
    """The files next to this one.

    With `gold=reviewed`, a tool of `review.jsonl` that `meets` a requirement is an alternative to its gold tool.

    The slice `prerequisite` is `unnamed` if the query needs a gold tool that it does not mention, else `none`;
    queries without gold have no such slice. The slice `parent` says how new the parents of a dev or test query's gold
    are (see `bench.data.novelty`): nine providers are never gold in train.
    """
    folder = files.folder
    tools = [_tool(json.loads(line)) for line in (folder / "tools.jsonl").read_text("utf-8").splitlines()]
    alternatives = _alternatives(folder / "review.jsonl") if options.gold == "reviewed" else {}
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    queries = [_query(row, alternatives.get(row["query_id"], {})) for row in rows]
    return Tables(tools, with_parent_slice(queries, tools), read_edges(folder / "edges.tsv"))


def _tool(row: dict[str, Any]) -> Tool:
    parameters = tuple(
        Parameter(**field | {"default": json.dumps(field["default"]) if "default" in field else None})
        for field in row["parameters"]
    )
    returns = {field["name"]: {"type": field["type"], "description": field["description"]} for field in row["returns"]}
    texts = {key: row[key] for key in ("tool_id", "name", "description", "category", "parent")}
    return Tool(**texts, parameters=parameters, returns=json.dumps(returns, ensure_ascii=False))


def _alternatives(path: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """query_id -> gold tool -> the tools that meet its requirement as well."""
    alternatives: defaultdict[str, defaultdict[str, tuple[str, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["meets"]:
            alternatives[row["query_id"]][row["gold"]] += (row["tool"],)
    return {query: dict(tools) for query, tools in alternatives.items()}


def _query(row: dict[str, Any], any_of: dict[str, tuple[str, ...]]) -> Query:
    needs = {"prerequisite": "unnamed" if row["needs_prerequisite"] else "none"} if row["gold"] else {}
    gold = dict.fromkeys(row["gold"], 1)
    return Query(row["query_id"], row["text"], gold, row["split"], needs, any_of=any_of, origin=_ORIGIN)
