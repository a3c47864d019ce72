"""Seal-Tools: a library and queries in JSON Lines, the queries in upstream's splits.

Upstream's field of a tool is a place in a hierarchy of two levels, `Chemical Engineering/Forensic engineering`: the
part before the first slash is the category here, the rest the parent.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from bench.base.errors import DataError
from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.risk import RiskOptions, with_risk
from bench.data.tables import Parameter, Query, Split, Tables, Tool

FOLDER = "Seal-Tools_Dataset"
LIBRARY = f"{FOLDER}/tool.jsonl"
#: File -> split, and the slice `domain` of its queries (none in dev).
QUERIES: dict[str, tuple[Split, str]] = {
    f"{FOLDER}/dev.jsonl": ("dev", ""),
    f"{FOLDER}/test_in_domain.jsonl": ("test", "in-domain"),
    f"{FOLDER}/test_out_domain.jsonl": ("test", "out-of-domain"),
}
LABELS = "data/sealtools/sealtools_risk_labels_resolved.json"

Options = {"risk": RiskOptions}


class _Parameter(BaseModel):
    """Upstream adds `example`, `unit` or `choices` to some parameters; they are not read."""

    type: str
    description: str
    default: Any = None


class _Tool(BaseModel):
    api_name: str = Field(min_length=1)
    api_description: str
    field: str = Field(pattern=r"^[^/]+/.+$")
    parameters: dict[str, _Parameter]
    required: list[str]
    responses: dict[str, dict[str, Any]]


class _Call(BaseModel):
    api: str


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1)
    query: str = Field(min_length=1)
    calling: list[_Call] = Field(min_length=1)


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The tools by their names, and the queries of upstream's dev and test files by upstream's ids.

    Raises:
        DataError: a file is not in upstream's format.
    """
    tools = [_tool(record, where) for record, where in files.lines_as(_Tool, LIBRARY)]
    queries = [
        # A query that calls a tool twice needs it once.
        Query(
            record.id,
            record.query,
            {call.api: 1 for call in record.calling},
            split,
            {"domain": domain} if domain else {},
        )
        for name, (split, domain) in QUERIES.items()
        for record, _ in files.lines_as(_Query, name)
    ]
    tables = Tables(tools, queries)
    return with_risk(tables, files, LABELS, options) if isinstance(options, RiskOptions) else tables


def _tool(record: _Tool, where: str) -> Tool:
    category, _, parent = record.field.partition("/")
    if unknown := set(record.required) - record.parameters.keys():
        raise DataError(f"{where}: the required parameter {min(unknown)!r} is not among the parameters.")
    return Tool(
        tool_id=record.api_name,
        name=record.api_name,
        description=record.api_description,
        category=category,
        parent=parent,
        parameters=tuple(
            Parameter(
                name=name,
                **parameter.model_dump(exclude={"default"}),
                required=name in record.required,
                default=json.dumps(parameter.default) if "default" in parameter.model_fields_set else None,
            )
            for name, parameter in record.parameters.items()
        ),
        returns=json.dumps(record.responses, ensure_ascii=False),
    )
