"""ToolBench's six test sets as StableToolBench filtered them, over one library pooled from all six.

Each set is a dataset, and `toolbench` has all of them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Tables

from .heldout import hold_out
from .parsing import SETS, ToolPool, queries_of, read_records, set_slices

FOLDER = "solvable_queries/test_instruction"


class JoinedOptions(ParameterSet):
    """The options of all six sets together."""

    split: Literal["test", "held-out"] = Field(
        default="test",
        description="test: all queries are test queries, as they are upstream; held-out: units of dependent queries "
        "become train and dev, and of the test queries' parents train has some and never uses others.",
    )
    seed: int = Field(default=0, description="split=held-out: another seed is another choice.")


Options = {"joined": JoinedOptions}


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The queries of the card's variant (one of `SETS`, or `joined`: all of them) over the pooled library."""
    library = ToolPool()
    paths = {name: f"{FOLDER}/{name}.json" for name in SETS}
    records = {name: read_records(files.json(path), path, library) for name, path in paths.items()}
    if not isinstance(options, JoinedOptions):
        return Tables(library.tools(), queries_of(records[card.variant], library))
    queries = [query for name in SETS for query in queries_of(records[name], library, slices=set_slices(name))]
    tables = Tables(library.tools(), queries)
    return hold_out(tables, card, options.seed) if options.split == "held-out" else tables
