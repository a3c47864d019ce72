"""RecTools: one JSON list of queries, one JSON object of tools.

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

QUERIES = "src/Datasets/RecTools_QT.json"
LIBRARY = "src/Datasets/RecTools_tool.json"


class RecToolsOptions(SplitOptions):
    """How the queries are split; upstream's files do not split them."""


Options = {"": RecToolsOptions}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1)
    tool: list[str] = Field(min_length=1)


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The 47 tools, and the queries numbered in upstream's order.

    The slice `size` is the number of tools that upstream asked its generator for: `01` to `10`, two
    digits so that it sorts.
    """
    tools = [
        Tool(tool_id=name, name=name, description=description, parent=name)
        for name, description in files.read_as(dict[str, str], LIBRARY).items()
    ]
    queries = [
        Query(
            query_id=f"{number:03}",
            # Verbatim: what is left of the generator's markup is in the published numbers too.
            text=record.query,
            gold=dict.fromkeys(record.tool, 1),
            slices={"size": f"{len(set(record.tool)):02}"},
        )
        for number, record in enumerate(files.read_as(list[_Record], QUERIES))
    ]
    if isinstance(options, SplitOptions):
        return Tables(tools, with_splits(queries, options))
    return Tables(tools, with_ptr_split(queries))
