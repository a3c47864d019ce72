"""Similarities of vectors compared with scipy's `cdist`; ties of equal vectors; search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bench.protocol.method import Similarity
from bench.search.dense import normalized, search, similarities

SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot", "l1", "l2")
SHAPES = [(1, 1, 1), (3, 5, 2), (40, 70, 33), (65, 130, 384)]


def vectors(seed: int, count: int, size: int, dtype: Any = np.float32) -> NDArray[Any]:
    drawn: NDArray[Any] = np.random.default_rng(seed).normal(size=(count, size)).astype(dtype)
    return drawn


def reference(queries: NDArray[Any], tools: NDArray[Any], similarity: Similarity) -> NDArray[np.float64]:
    left, right = queries.astype(np.float64), tools.astype(np.float64)
    if similarity == "dot":
        return np.array(
            [[sum(a * b for a, b in zip(q, t, strict=True)) for t in right.tolist()] for q in left.tolist()]
        )
    if similarity == "cosine":
        return np.array(1 - cdist(left, right, "cosine"))
    return np.array(-cdist(left, right, "cityblock" if similarity == "l1" else "euclidean"))


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(("queries", "tools", "size"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_similarities_equal_scipy_s(similarity: Similarity, queries: int, tools: int, size: int, dtype: Any) -> None:
    left, right = vectors(1, queries, size, dtype), vectors(2, tools, size, dtype)
    found = similarities(left, right, similarity)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, reference(left, right, similarity), rtol=0, atol=1e-10)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("size", [3, 33, 384])
def test_equal_vectors_tie_exactly_wherever_they_stand(similarity: Similarity, size: int) -> None:
    # 131 tools from 10 vectors: copies are in different positions of the kernels that multiply matrices.
    origin = np.random.default_rng(4).integers(10, size=131)
    tools, queries = vectors(5, 10, size)[origin], vectors(6, 17, size)
    found = similarities(queries, tools, similarity).astype(np.float32)
    for vector in range(10):
        copies = found[:, origin == vector]
        assert (copies == copies[:, :1]).all()


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_equal_vectors_are_returned_in_the_order_of_codes(similarity: Similarity) -> None:
    tools = np.repeat(vectors(7, 4, 33), 5, axis=0)
    ranking = search(vectors(8, 6, 33), tools, similarity, 20)
    assert ranking.scores is not None
    codes, scores = ranking.tools.reshape(6, 4, 5), ranking.scores.reshape(6, 4, 5)
    assert (np.diff(codes, axis=2) == 1).all()
    assert (codes[:, :, 0] % 5 == 0).all()
    assert (scores == scores[:, :, :1]).all()


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_query_s_scores_do_not_depend_on_its_batch(similarity: Similarity) -> None:
    tools, queries = vectors(9, 100, 384), vectors(10, 50, 384)
    together = similarities(queries, tools, similarity).astype(np.float32)
    alone = np.concatenate([similarities(query[None], tools, similarity) for query in queries]).astype(np.float32)
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_search_returns_the_most_similar_first(similarity: Similarity) -> None:
    queries, tools = vectors(11, 8, 16), vectors(12, 60, 16)
    ranking = search(queries, tools, similarity, 7)
    expected = reference(queries, tools, similarity)
    np.testing.assert_array_equal(ranking.tools, np.argsort(-expected, axis=1)[:, :7])
    assert ranking.scores is not None
    np.testing.assert_allclose(ranking.scores, -np.sort(-expected, axis=1)[:, :7], rtol=1e-6)


def test_the_depth_may_exceed_the_library() -> None:
    assert search(vectors(1, 2, 3), vectors(2, 4, 3), "dot", 100).tools.shape == (2, 4)


def test_the_four_similarities_by_hand() -> None:
    query, tools = np.array([[3.0, 4.0]]), np.array([[6.0, 8.0], [4.0, -3.0], [0.0, 0.0]])
    # |q| = 5, |t0| = 10; q . t0 = 18 + 32; q . t1 = 0; differences (3, 4), (1, -7), (-3, -4).
    assert similarities(query, tools, "dot").tolist() == [[50, 0, 0]]
    assert similarities(query, tools, "cosine")[0].tolist() == pytest.approx([1, 0, 0])
    assert similarities(query, tools, "l1").tolist() == [[-7, -8, -7]]
    assert similarities(query, tools, "l2")[0].tolist() == pytest.approx([-5, -(50**0.5), -5])


def test_rows_are_scaled_to_length_1_and_zeros_stay_zero() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [-2.0, 0.0]], dtype=np.float32)
    found = normalized(rows)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.array([[0.6, 0.8], [0, 0], [-1, 0]]), rtol=0, atol=1e-15)
    assert rows.tolist() == [[3, 4], [0, 0], [-2, 0]], "the caller's vectors are as they were"
