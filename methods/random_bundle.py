"""A random past bundle: the score of knowing only which tools are used together."""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
from pydantic import Field

from bench.base.config import repeat_seed
from bench.base.parameters import ParameterSet
from bench.interface import History, Library, Method, Queries, Ranking, ToolSets


class RandomBundle(Method):
    """The gold set of a past query drawn at random, in the order of tool ids (PTR's `Random`, N/A row).

    With `draw=queries` frequent bundles are drawn more often; with `draw=bundles` all are equally likely. The draw
    depends only on the seed and the query's text, and differs between repeats of a run.
    """

    class Parameters(ParameterSet):
        seed: int = Field(0, description="random seed")
        draw: Literal["queries", "bundles"] = Field(
            "queries", description="draw from past queries, or from their distinct bundles (as PTR's released code)"
        )

    parameters: Parameters
    is_floor = True
    needs_history = True
    has_chance = True

    def fit(self, history: History) -> None:
        self._bundles = [history.gold.row(i) for i in range(len(history)) if len(history.gold.row(i))]
        if self.parameters.draw == "bundles":
            distinct = sorted({tuple(bundle.tolist()) for bundle in self._bundles})
            self._bundles = [np.array(bundle, dtype=np.int32) for bundle in distinct]

    def index(self, library: Library) -> None:
        self._seed = ".".join(map(str, repeat_seed(self.parameters.seed)))

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([self._bundles[self._draw(text)] for text in queries.texts])

    def rank(self, queries: Queries, depth: int) -> Ranking:
        sets = self.recommend(queries)
        return Ranking.of_lists([sets.row(i).tolist()[:depth] for i in range(len(sets))])

    def _draw(self, text: str) -> int:
        digest = hashlib.sha256(f"{self._seed}:{text}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % len(self._bundles)
