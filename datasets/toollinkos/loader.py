"""ToolLinkOS: fictional tools that depend on each other, three requests for each of most tools.

A dependency of upstream is of a tool or of one of its parameters, and direct or indirect (the request decides whether
it is needed). The edges keep upstream's type as their note. Their reason is `result` where a parameter depends, and
`verification` where the tool does: most of these check or switch on what the tool needs, such as a connection.

Upstream has no hierarchy. Category is left empty and each tool is its own parent.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bench.base.errors import DataError
from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Edge, Parameter, Query, Tables, Tool

LIBRARY = ("toollinkos/regular_tools.json", "toollinkos/core_tools.json")
QUERIES = "toollinkos/instances.json"

#: Upstream's type -> the reason of the edge, and the kinds that the type belongs to.
TYPES: dict[str, tuple[Literal["result", "verification"], set[str]]] = {
    "TOOL_DIRECTLY_DEPENDS_ON": ("verification", {"tool", "direct"}),
    "TOOL_INDIRECTLY_DEPENDS_ON": ("verification", {"tool", "indirect"}),
    "PARAMETER_DIRECTLY_DEPENDS_ON": ("result", {"parameter", "direct"}),
    "PARAMETER_INDIRECTLY_DEPENDS_ON": ("result", {"parameter", "indirect"}),
    "PARAMETER_DEPENDS_ON": ("result", {"parameter"}),
}


class Options(ParameterSet):
    """What is gold, and which dependencies are edges."""

    gold: Literal["all", "main"] = Field(
        "all",
        description="gold tools: the tool that is asked for with its prerequisites, as upstream judges (all), or that "
        "tool alone (main)",
    )
    edges: Literal["all", "tool", "parameter", "direct", "indirect", "none"] = Field(
        "all", description="which dependencies are edges, by upstream's types"
    )


class _Parameter(BaseModel):
    """One parameter upstream has no `type`, another no `required`; `enum` is not read."""

    name: str
    description: str
    type: str = ""
    required: bool = True
    default: Any = None


class _Dependency(BaseModel):
    name: str
    dependence_type: str


class _Tool(BaseModel):
    name: str = Field(min_length=1)
    description: str
    parameters: list[_Parameter]
    depends_on: list[_Dependency]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user_query: str = Field(min_length=1)
    main_golden_function_name: str
    golden_function_names: list[str]


def load(files: Files, options: Options, card: Card) -> Tables:
    """The tools by their names, the requests numbered in upstream's order, and the chosen edges.

    Raises:
        DataError: a file is not in upstream's format.
    """
    records = [(record, name) for name in LIBRARY for record in files.read_as(list[_Tool], name)]
    queries = []
    for number, record in enumerate(files.read_as(list[_Record], QUERIES)):
        main = record.main_golden_function_name
        if main not in record.golden_function_names:
            raise DataError(f"{QUERIES}, record {number}: the main tool is not gold.")
        gold = record.golden_function_names if options.gold == "all" else [main]
        queries.append(Query(f"{number:04}", record.user_query, dict.fromkeys(gold, 1)))
    return Tables([_tool(record) for record, _ in records], queries, _edges(records, options))


def _tool(record: _Tool) -> Tool:
    return Tool(
        tool_id=record.name,
        name=record.name,
        description=record.description,
        parent=record.name,
        parameters=tuple(
            Parameter(
                **parameter.model_dump(exclude={"default"}),
                default=json.dumps(parameter.default) if "default" in parameter.model_fields_set else None,
            )
            for parameter in record.parameters
        ),
    )


def _edges(records: list[tuple[_Tool, str]], options: Options) -> list[Edge]:
    # By both ends: upstream repeats a dependency where two parameters have it.
    edges: dict[tuple[str, str], Edge] = {}
    for record, name in records:
        for dependency in record.depends_on:
            if dependency.dependence_type not in TYPES:
                raise DataError(f"{name}: {record.name} depends on {dependency.name} in a way that is not known.")
            reason, kinds = TYPES[dependency.dependence_type]
            if options.edges != "all" and options.edges not in kinds:
                continue
            edge = Edge(record.name, dependency.name, reason, dependency.dependence_type)
            edges.setdefault((edge.dependent, edge.prerequisite), edge)
    return list(edges.values())
