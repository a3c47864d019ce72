"""ToolBench's six test sets as StableToolBench filtered them, over one library pooled from all six."""

from __future__ import annotations

from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Tables

from .parsing import ToolPool, queries_of, read_records

FOLDER = "solvable_queries/test_instruction"
# The order in which the library is pooled; every card pools all of them, so all six share one library.
SUBSETS = ("G1_instruction", "G1_tool", "G1_category", "G2_instruction", "G2_category", "G3_instruction")


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The queries of the card's variant (one of `SUBSETS`), all of them test queries, over the pooled library."""
    library = ToolPool()
    paths = {name: f"{FOLDER}/{name}.json" for name in SUBSETS}
    records = {name: read_records(files.json(path), path, library) for name, path in paths.items()}
    return Tables(library.tools(), queries_of(records[card.variant], library))
