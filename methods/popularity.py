"""The most used tools, independent of the query."""

from __future__ import annotations

import numpy as np

from bench.interface import History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason
from bench.search.topk import top_k


class Popularity(Method):
    """Ranks tools by the number of past queries that used them. Unused tools are not returned."""

    needs_history = True
    is_floor = True

    def fit(self, history: History) -> None:
        counts = np.bincount(history.gold.tools, minlength=len(history.library)).astype(np.float64)
        counts[counts == 0] = -np.inf
        self._counts = counts

    def index(self, library: Library) -> None:
        return None

    def rank(self, queries: Queries, depth: int) -> Ranking:
        one = top_k(self._counts[None, :], depth)
        return one.take(np.zeros(len(queries), dtype=np.int64))

    def explain(self, case: Case) -> Explanation:
        counts = {tool: int(max(self._counts[tool], 0)) for tool in case.tools}
        return Explanation(
            "the score is the number of past queries that used it",
            reasons={
                tool: Reason(float(count), because=f"{count} past queries used it" if tool in case.gold else "")
                for tool, count in counts.items()
            },
        )
