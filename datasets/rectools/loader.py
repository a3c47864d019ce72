"""RecTools: one JSON list of queries, one JSON object of tools.

Upstream has no hierarchy. Category is left empty and each tool is its own parent, so that a method that
works by collections finds collections of one, rather than one that holds the whole library.
"""

from __future__ import annotations

from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.derive import SplitOptions
from bench.data.files import Files
from bench.data.tables import Tables
from bench.datasets.metatool.loader import read_tables

QUERIES = "src/Datasets/RecTools_QT.json"
LIBRARY = "src/Datasets/RecTools_tool.json"
#: Upstream's files do not split the queries.
Options = {"": SplitOptions}


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The 47 tools, and the queries numbered in upstream's order.

    The slice `size` is the number of tools that upstream asked its generator for: `01` to `10`.
    """
    return read_tables(files, LIBRARY, QUERIES, options, sized=True)
