"""Approximate search by vectors: a graph of near neighbours (HNSW), as vector databases have it.

Malkov and Yashunin 2018, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small
World graphs". The graph finds the tools; their scores and order are those of exact search.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import require
from bench.interface.method import Similarity
from bench.interface.ranking import PAD, Ranking
from bench.search.dense import VectorIndex, Vectors, normalized, similarities
from bench.search.topk import top_k

#: Neighbours of a tool, and candidates that are considered for them: the values of the paper's experiments.
_NEIGHBOURS, _CONSIDERED = 32, 200
#: Candidates of a search, unless the ranking is longer.
_SEARCHED = 128
#: Queries whose rankings are compared with exact search.
_COMPARED = 256


class GraphIndex:
    """The vectors of a library as a graph. One thread builds it, so that equal vectors give equal graphs.

    Args:
        vectors: (tools, dimensions) in code order.
        similarity: how they are compared.

    Raises:
        UnavailableError: faiss is not installed.
    """

    def __init__(self, vectors: Vectors, similarity: Similarity) -> None:
        require("faiss", what="index=hnsw")
        import faiss

        self._faiss: Any = faiss
        self._vectors, self._similarity = vectors, similarity
        metrics = {"l1": self._faiss.METRIC_L1, "l2": self._faiss.METRIC_L2}
        metric = metrics.get(similarity, self._faiss.METRIC_INNER_PRODUCT)
        self._graph: Any = self._faiss.IndexHNSWFlat(vectors.shape[1], _NEIGHBOURS, metric)
        self._graph.hnsw.efConstruction = _CONSIDERED
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(1)
        try:
            self._graph.add(self._given(vectors))
        finally:
            self._faiss.omp_set_num_threads(before)
        self._asked: list[tuple[NDArray[np.float32], NDArray[np.int32]]] = []
        self._depth = 0

    def rank(self, queries: Vectors, depth: int) -> Ranking:
        """The tools that the graph finds for each query, at most `depth`. Ties beyond the depth are not known."""
        width = min(depth, len(self._vectors))
        parameters = self._faiss.SearchParametersHNSW(efSearch=max(_SEARCHED, 2 * width))
        _, codes = self._graph.search(self._given(queries), width, params=parameters)
        tools = np.full((len(queries), width), PAD, dtype=np.int32)
        scores = np.full((len(queries), width), -np.inf, dtype=np.float32)
        for row, found in enumerate(codes):
            own = np.unique(found[found >= 0])
            if len(own):
                exact = top_k(similarities(queries[row : row + 1], self._vectors[own], self._similarity), width)
                assert exact.scores is not None
                tools[row, : len(own)], scores[row, : len(own)] = own[exact.tools[0]], exact.scores[0]
        if self._depth in (0, width) and sum(len(asked) for asked, _ in self._asked) < _COMPARED:
            self._depth = width
            self._asked.append((np.array(queries[:_COMPARED], dtype=np.float32), tools[:_COMPARED]))
        return Ranking(tools, scores)

    def recall(self) -> dict[str, float]:
        """Which share of the exact ranking the graph found for the first queries, as a fact of the row."""
        if not self._asked:
            return {}
        queries, found = (np.concatenate(parts)[:_COMPARED] for parts in zip(*self._asked, strict=True))
        exact = VectorIndex(self._vectors, self._similarity).rank(queries, self._depth).tools
        shares = [len(np.intersect1d(one, other)) / len(other) for one, other in zip(found, exact, strict=True)]
        return {f"recall_of_exact_at_{self._depth}": round(float(np.mean(shares)), 4)}

    def _given(self, vectors: Vectors) -> NDArray[np.float32]:
        scaled = normalized(vectors) if self._similarity == "cosine" else vectors
        return np.ascontiguousarray(scaled, dtype=np.float32)
