"""Search by a graph of neighbours: what it finds is scored and ordered as exact search does, and its recall is told."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.base.errors import UnavailableError
from bench.interface.method import Similarity
from bench.search import approximate
from bench.search.dense import VectorIndex


def vectors(seed: int, count: int, size: int = 24) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, size)).astype(np.float32)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l1", "l2"])
def test_the_graph_finds_nearly_what_exact_search_does(similarity: Similarity) -> None:
    pytest.importorskip("faiss")
    tools, queries = vectors(1, 2000), vectors(2, 40)
    index = approximate.GraphIndex(tools, similarity)
    found, exact = index.rank(queries, 10), VectorIndex(tools, similarity).rank(queries, 10)
    assert found.scores is not None
    assert exact.scores is not None
    shares = [len(set(one) & set(other)) / 10 for one, other in zip(found.tools, exact.tools, strict=True)]
    assert np.mean(shares) > 0.9
    assert index.recall() == {"recall_of_exact_at_10": round(float(np.mean(shares)), 4)}
    # Where both found the same tools, order and scores are the same.
    for row in np.flatnonzero(np.array(shares) == 1):
        np.testing.assert_array_equal(found.tools[row], exact.tools[row])
        np.testing.assert_allclose(found.scores[row], exact.scores[row], rtol=1e-6)


def test_equal_vectors_give_equal_graphs() -> None:
    pytest.importorskip("faiss")
    one, other = (approximate.GraphIndex(vectors(3, 1500), "cosine").rank(vectors(4, 30), 20) for _ in range(2))
    np.testing.assert_array_equal(one.tools, other.tools)


def test_copies_are_returned_in_the_order_of_codes_and_the_depth_may_exceed_the_library() -> None:
    pytest.importorskip("faiss")
    index = approximate.GraphIndex(np.repeat(vectors(5, 3), 4, axis=0), "cosine")
    found = index.rank(vectors(6, 2), 50)
    assert found.tools.shape == (2, 12)
    for row in found.tools:
        assert (np.diff(row[row >= 0].reshape(-1, 4), axis=1) == 1).all()
    assert index.recall() == {"recall_of_exact_at_12": 1.0}


def test_without_a_query_there_is_no_recall() -> None:
    pytest.importorskip("faiss")
    assert approximate.GraphIndex(vectors(5, 30), "cosine").recall() == {}


def test_a_missing_package_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.base.errors.installed", lambda module: False)
    with pytest.raises(UnavailableError, match=r"index=hnsw needs the package faiss-cpu.*\[ann\]"):
        approximate.GraphIndex(vectors(7, 10), "cosine")
