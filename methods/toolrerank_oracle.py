"""ToolRerank that is told how many parents a query takes: the upper bound of its classifier (Table 6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.methods.toolrerank.method import HierarchyAwareReranker
from bench.methods.toolrerank.parameters import ToolRerankParameters
from bench.protocol import OracleMethod, Queries


class ToolRerankOracle(HierarchyAwareReranker, OracleMethod):
    """ToolRerank with Algorithm 1 for the queries whose gold has one parent, Algorithm 2 for the others."""

    class Parameters(ToolRerankParameters):
        pass

    def reveal(self, gold: Gold) -> None:
        self._gold = gold

    def single(self, queries: Queries) -> NDArray[np.bool_]:
        gold = [self._parents[self._gold.row(int(row))] for row in queries.rows]
        return np.array([len(np.unique(parents)) == 1 for parents in gold], dtype=np.bool_)
