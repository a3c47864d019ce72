"""ToolRerank with the true number of parents per query: the upper bound of its classifier (Table 6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.interface import OracleMethod, Queries
from bench.methods.toolrerank.method import HierarchyAwareReranker
from bench.methods.toolrerank.parameters import ToolRerankParameters


class ToolRerankOracle(HierarchyAwareReranker, OracleMethod):
    """ToolRerank that applies Algorithm 1 to queries whose gold has one parent, and Algorithm 2 to all others."""

    class Parameters(ToolRerankParameters):
        pass

    def reveal(self, gold: Gold) -> None:
        self._gold = gold

    def single(self, queries: Queries) -> NDArray[np.bool_]:
        gold = [self._parents[self._gold.row(int(row))] for row in queries.rows]
        return np.array([len(np.unique(parents)) == 1 for parents in gold], dtype=np.bool_)
