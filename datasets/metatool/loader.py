"""MetaTool's multi-tool queries: one JSON list of queries, one JSON object of tools.

Upstream has no hierarchy. Category is left empty and each tool is its own parent, so that a method that
works by collections finds collections of one, rather than one that holds the whole library.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.derive import SplitOptions, with_ptr_split, with_splits
from bench.data.files import Files
from bench.data.tables import Query, Tables, Tool

QUERIES = "dataset/data/multi_tool_query_golden.json"
LIBRARY = "dataset/big_tool_des.json"
#: PTR's copy of both: the same queries in another order, and the same library.
PTR_QUERIES = "src/Datasets/MetaTool_QT.json"
PTR_LIBRARY = "src/Datasets/MetaTool_tool.json"


class MetaToolOptions(SplitOptions):
    """How the queries are split; upstream does not split them."""


Options = {"": MetaToolOptions}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1)
    tool: list[str] = Field(min_length=1)


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The 47 tools, and the queries numbered in the order of their file: MetaTool's, or PTR's."""
    queries_file, library = (PTR_QUERIES, PTR_LIBRARY) if card.variant == "ptr" else (QUERIES, LIBRARY)
    tools = [
        Tool(tool_id=name, name=name, description=description, parent=name)
        for name, description in files.read_as(dict[str, str], library).items()
    ]
    queries = [
        Query(query_id=f"{number:03}", text=record.query, gold=dict.fromkeys(record.tool, 1))
        for number, record in enumerate(files.read_as(list[_Record], queries_file))
    ]
    if isinstance(options, SplitOptions):
        return Tables(tools, with_splits(queries, options))
    return Tables(tools, with_ptr_split(queries))
