"""Multi-view re-ranking: three lists of tools per problem, merged by the number of lists that contain a tool.

"PTR: Precision-Driven Tool Recommendation for Large Language Models", section 3.3 and Algorithm 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.search.dense import normalize
from bench.search.topk import top_k

View = Literal["direct", "history", "context"]
VIEWS: tuple[View, ...] = ("direct", "history", "context")


def merged(lists: Sequence[Sequence[int]]) -> list[int]:
    """Every tool once: those in most lists first, equal ones in the order of their first appearance."""
    every = list(chain.from_iterable(lists))
    counts = Counter(every)
    # A dictionary keeps the order of first appearance, and the sort is stable.
    return sorted(counts, key=lambda tool: -counts[tool])


class Views:
    """Searches tools for a problem in up to three ways.

    direct    the `size` tools whose texts are most similar to the problem (direct semantic alignment)
    history   the tools of the `size` most similar past queries, each tool once (historical query correlation)
    context   the `size` tools most similar to the first tool of `direct`, itself among them (contextual tool expansion)

    As in the published system, the first tool is its own nearest neighbour, so it is in two lists.

    Args:
        tools: (tools, dimensions) vectors of the library.
        past: (past queries, dimensions) vectors of the history; may have no rows.
        gold: the bundles of the same past queries.
        views: which of the three; their lists are merged in the order direct, history, context.
        size: number of tools, or past queries, per view.
    """

    def __init__(
        self,
        tools: NDArray[np.float32],
        past: NDArray[np.float32],
        gold: Gold,
        views: Iterable[View],
        size: int,
    ) -> None:
        self._tools = normalize(tools)
        self._past = normalize(past)
        self._gold = gold
        self._views = tuple(view for view in VIEWS if view in set(views))
        self._size = size

    def lists(self, problems: NDArray[np.float32]) -> list[list[list[int]]]:
        """For each of the (problems, dimensions) vectors, the list of each view, best first."""
        if not len(problems):
            return []
        vectors = normalize(problems)
        direct = top_k(vectors @ self._tools.T, self._size).tools
        by_view: dict[View, list[list[int]]] = {"direct": direct.tolist()}
        if "history" in self._views:
            by_view["history"] = self._of_history(vectors)
        if "context" in self._views:
            by_view["context"] = top_k(self._tools[direct[:, 0]] @ self._tools.T, self._size).tools.tolist()
        return [[by_view[view][row] for view in self._views] for row in range(len(problems))]

    def _of_history(self, vectors: NDArray[np.float64]) -> list[list[int]]:
        if not len(self._past):
            return [[] for _ in vectors]
        nearest = top_k(vectors @ self._past.T, self._size).tools
        rows = ([self._gold.row(int(past)).tolist() for past in row] for row in nearest)
        return [list(dict.fromkeys(chain.from_iterable(bundles))) for bundles in rows]

    def best(self, problems: NDArray[np.float32]) -> list[int | None]:
        """The first tool of each problem's merged lists; None if no view returns any."""
        return [next(iter(merged(lists)), None) for lists in self.lists(problems)]
