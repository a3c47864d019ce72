"""Growth: what the tools that no query names cost, as they are added in several orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal, get_args

from pydantic import Field

from bench.data.derive import shuffle
from bench.data.nearcopies import likeness
from bench.data.parents import parent_of
from bench.data.tables import Query, Tool
from bench.robustness.perturbation import Changed, perturbation

_Kept = Annotated[float, Field(ge=0, le=1)]
_Order = Literal["random", "siblings", "look-alikes"]


@perturbation(
    "growth",
    invariant="the tools that are left out are right for no query",
    source="`DATASET(tools=N)`, whose random draws are nested too",
    usual=[{"share": 0.0}, *({"first": order, "share": share} for order in get_args(_Order) for share in (0.25, 0.5))],
)
def smaller_library(
    queries: Sequence[Query],
    tools: Sequence[Tool],
    seed: int,
    *,
    first: _Order = "random",
    share: _Kept = 0.0,
) -> Changed:
    """The tools that these queries name, and a share of the others, in an order.

    random: as drawn. siblings: first the tools on the servers of named tools. look-alikes: first the tools whose text
    is nearest to that of a named tool, by TF-IDF cosine. With `share=0` the orders are the same.
    """
    named = {tool for query in queries for tool in (*query.meeting, *query.forbidden)}
    others = {tool.tool_id: tool for tool in tools if tool.tool_id not in named}
    judged = [tool for tool in tools if tool.tool_id in named]
    order = shuffle(others, seed)
    if first == "siblings":
        parents = {parent_of(tool) for tool in judged}
        order.sort(key=lambda tool: parent_of(others[tool]) not in parents)
    elif first == "look-alikes":
        texts, rest = ([f"{tool.name} {tool.description}" for tool in part] for part in (judged, others.values()))
        near = dict(zip(others, likeness(rest, texts)[1].tolist(), strict=True))
        order.sort(key=lambda tool: -near[tool])
    kept = named.union(order[: round(share * len(order))])
    narrowed = [replace(query, scope=tuple(tool for tool in query.scope if tool in kept)) for query in queries]
    return narrowed, [tool for tool in tools if tool.tool_id in kept]
