"""The most similar past queries vote with their gold tools."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pydantic import Field

from bench.models.encoders import EMBEDDED, Encoder
from bench.protocol import Context, History, Library, Method, Queries, Ranking, ToolSets
from bench.search.dense import similarities
from bench.search.topk import top_k
from bench.specs.parameters import ParameterSet


class NearestQuery(Method):
    """k-nearest neighbours over the history: the score of a tool is the sum of the similarities of past queries that
    used it.

    The recommended set is the gold set of the nearest past query. The method reads no tool text, so its score shows
    how much of a dataset can be answered from similar past queries alone.
    """

    class Parameters(ParameterSet):
        encoder: str = Field(
            EMBEDDED, description="`minilm` (embedded), a folder, a sentence-transformers model, or `openai:MODEL`"
        )
        neighbours: int = Field(10, ge=1, description="number of past queries that vote (k)")

    parameters: Parameters
    needs_history = True

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._encoder = Encoder(parameters.encoder, progress=context.progress)

    def revisions(self) -> dict[str, str]:
        return {self.parameters.encoder: self._encoder.revision}

    def preflight(self, library: Library, history: History) -> None:
        self._encoder.revision  # noqa: B018 - resolves the model's files, or says that they are missing

    def fit(self, history: History) -> None:
        past = np.flatnonzero(history.gold.counts)
        self._gold = history.gold.take(past)
        self._vectors = self._encoder.encode([history.texts[i] for i in past])
        shape = (len(past), len(history.library))
        self._used = sp.csr_matrix((np.ones(len(self._gold.tools)), self._gold.tools, self._gold.starts), shape=shape)

    def index(self, library: Library) -> None:
        return None

    def _neighbours(self, queries: Queries, count: int) -> Ranking:
        return top_k(similarities(self._encoder.encode(queries.texts), self._vectors, "cosine"), count)

    def score(self, queries: Queries) -> NDArray[np.float64]:
        found = self._neighbours(queries, self.parameters.neighbours)
        assert found.scores is not None
        rows = np.repeat(np.arange(len(queries)), found.tools.shape[1])
        # A past query on the other side of the space still votes, but with next to nothing.
        weights = np.maximum(found.scores.ravel().astype(np.float64), 1e-6)
        votes = sp.csr_matrix((weights, (rows, found.tools.ravel())), shape=(len(queries), self._used.shape[0]))
        scores: NDArray[np.float64] = (votes @ self._used).toarray()
        return scores

    def rank(self, queries: Queries, depth: int) -> Ranking:
        scores = self.score(queries)
        scores[scores == 0] = -np.inf
        return top_k(scores, depth)

    def recommend(self, queries: Queries) -> ToolSets:
        nearest = self._neighbours(queries, 1).tools[:, 0]
        return ToolSets.of([self._gold.row(int(past)) for past in nearest])

    def facts(self) -> dict[str, str | int | float | bool]:
        return {
            "past_queries": len(self._gold),
            "texts_encoded": self._encoder.computed,
            "texts_from_cache": self._encoder.from_cache,
        }
