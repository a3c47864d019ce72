"""ToolBench cut as the query-generation paper cuts it (Kachuee et al. 2024, section 4.1).

Of the groups that the user's copy of ToolBench has, it is made of G3; the card says why.
"""

from __future__ import annotations

from pathlib import Path

from bench.data.derive import DomainOptions, SplitOptions, split_domains, with_splits
from bench.data.tables import Tables
from bench.datasets.toolbench import importer as toolbench

GROUP = "toolbench-g3"
#: The in-domain queries of the paper's test: 1,776 of 17,763.
TEST_SHARE = 0.1


def read(folder: Path) -> dict[str, Tables]:
    """The tables of `toolbench-domains`, if the folder (or its `data/`) has the group.

    Raises:
        DataError: as the importer of ToolBench's groups; or the group is too small to be divided.
    """
    tables = toolbench.read(folder).get(GROUP)
    return {} if tables is None else {"toolbench-domains": derive(tables)}


def derive(tables: Tables) -> Tables:
    """Train and test queries drawn anew, whatever upstream used them for; then the domains.

    The share that is drawn for the test is that of the in-domain queries: out-of-domain ones are all tested.
    """
    queries = with_splits(tables.queries, SplitOptions(test_share=TEST_SHARE))
    drawn = Tables(tables.tools, queries, tables.edges, tables.unknown_gold, tables.left_out)
    return split_domains(drawn, DomainOptions())
