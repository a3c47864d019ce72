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


#: Upstream does not split the queries.
Options = {"": SplitOptions}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1)
    tool: list[str] = Field(min_length=1)


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The 47 tools, and the queries numbered in the order of their file: MetaTool's, or PTR's."""
    return read_tables(files, *((PTR_LIBRARY, PTR_QUERIES) if card.variant == "ptr" else (LIBRARY, QUERIES)), options)


def read_tables(files: Files, library: str, requests: str, options: ParameterSet, sized: bool = False) -> Tables:
    """The tools of a JSON object of descriptions, and the queries of a JSON list, numbered in its order.

    With `sized`, the slice `size` of a query is the number of its tools in two digits, so that it sorts.
    """
    tools = [
        Tool(tool_id=name, name=name, description=description, parent=name)
        for name, description in files.read_as(dict[str, str], library).items()
    ]
    queries = [
        Query(
            query_id=f"{number:03}",
            # Verbatim: what is left of a generator's markup is in the published numbers too.
            text=record.query,
            gold=dict.fromkeys(record.tool, 1),
            slices={"size": f"{len(set(record.tool)):02}"} if sized else {},
        )
        for number, record in enumerate(files.read_as(list[_Record], requests))
    ]
    if isinstance(options, SplitOptions):
        return Tables(tools, with_splits(queries, options))
    return Tables(tools, with_ptr_split(queries))
