"""The gold itself: the ceiling, marked as such and kept off every ranking of methods."""

from __future__ import annotations

from bench.data.gold import Gold
from bench.protocol import Library, OracleMethod, Queries, Ranking, ToolSets


class Oracle(OracleMethod):
    """Returns exactly the gold tools of each query."""

    def reveal(self, gold: Gold) -> None:
        self._gold = gold

    def index(self, library: Library) -> None:
        return None

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([self._gold.row(int(row)) for row in queries.rows])

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.of_lists([self._gold.row(int(row)).tolist()[:depth] for row in queries.rows])
