"""Exact search by vectors: blocked matrix products, or distances, then top-k under the tie rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.protocol.method import Similarity
from bench.protocol.ranking import Ranking
from bench.search.topk import top_k


def normalized(vectors: NDArray[np.float32] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows scaled to length 1; rows of zeros stay zero."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    scaled: NDArray[np.float64] = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    return scaled


def similarities(
    queries: NDArray[np.float32] | NDArray[np.float64],
    tools: NDArray[np.float32] | NDArray[np.float64],
    similarity: Similarity,
) -> NDArray[np.float64]:
    """(queries, tools) float64 similarities; for l1 and l2 the negated distance.

    Computed in float64, so that equal vectors tie exactly once rounded to float32.
    """
    if similarity == "cosine":
        product: NDArray[np.float64] = normalized(queries) @ normalized(tools).T
        return product
    if similarity == "dot":
        product = queries.astype(np.float64) @ tools.astype(np.float64).T
        return product
    from scipy.spatial.distance import cdist

    left, right = queries.astype(np.float64), tools.astype(np.float64)
    return -(cdist(left, right, "cityblock") if similarity == "l1" else cdist(left, right, "euclidean"))


def search(
    queries: NDArray[np.float32] | NDArray[np.float64],
    tools: NDArray[np.float32] | NDArray[np.float64],
    similarity: Similarity,
    depth: int,
) -> Ranking:
    """The nearest `depth` tools of each query vector."""
    return top_k(similarities(queries, tools, similarity), depth)
