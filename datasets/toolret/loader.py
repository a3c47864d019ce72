"""Four subsets of ToolRet, each over the tools of its own origin alone: the copies that MFTR's repository has.

Upstream's tools are objects, and the text that mteb indexes is such an object as JSON. It is written out here with the
defaults of `json.dumps`, for the template `source`.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Query, Tables

from .importer import read_tool

FOLDER = "dataset/from_toolret"


class Options(ParameterSet):
    """What the query is."""

    instruction: bool = Field(
        False,
        description="Put the query's instruction behind it, after a blank, as mteb's ToolRetrievalInstruction does.",
    )


class _Tool(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1)
    documentation: dict[str, Any]
    type: str


class _Label(BaseModel):
    # Beside it stands the tool's documentation again, in an older form for some tools.
    id: str
    relevance: int = Field(ge=1)


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1)
    query: str = Field(min_length=1)
    instruction: str = Field(min_length=1)
    labels: list[_Label] = Field(min_length=1)
    category: str


def load(files: Files, options: Options, card: Card) -> Tables:
    """The tools and queries of the card's subset, by upstream's ids; every query is a test query.

    Raises:
        DataError: a file is not in upstream's format.
    """
    tools = [
        read_tool(tool.id, tool.documentation, json.dumps(tool.documentation, ensure_ascii=False))
        for tool in files.read_as(list[_Tool], f"{FOLDER}/{card.variant}/tools.json")
    ]
    queries = [
        Query(
            query.id,
            f"{query.query} {query.instruction}" if options.instruction else query.query,
            {label.id: label.relevance for label in query.labels},
        )
        for query in files.read_as(list[_Query], f"{FOLDER}/{card.variant}/queries.json")
    ]
    return Tables(tools, queries)
