"""Similarities of vectors compared with scipy's `cdist`; ties of equal vectors; search."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bench.interface.method import Similarity
from bench.interface.ranking import Ranking, Violation
from bench.search import dense
from bench.search.dense import VectorIndex, normalize, search, similarities
from bench.search.topk import top_k

SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot", "l1", "l2")
SHAPES = [(1, 1, 1), (3, 5, 2), (40, 70, 33), (65, 130, 384)]


def vectors(seed: int, count: int, size: int, dtype: Any = np.float32) -> NDArray[Any]:
    drawn: NDArray[Any] = np.random.default_rng(seed).normal(size=(count, size)).astype(dtype)
    return drawn


def reference(queries: NDArray[Any], tools: NDArray[Any], similarity: Similarity) -> NDArray[np.float64]:
    left, right = queries.astype(np.float64), tools.astype(np.float64)
    if similarity == "dot":
        return np.array([(query * right).sum(axis=1) for query in left])
    if similarity == "cosine":
        return np.array(1 - cdist(left, right, "cosine"))
    return np.array(-cdist(left, right, "cityblock" if similarity == "l1" else "euclidean"))


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_similarities_equal_scipy_s(similarity: Similarity) -> None:
    for (queries, tools, size), dtype in itertools.product(SHAPES, (np.float32, np.float64)):
        left, right = vectors(1, queries, size, dtype), vectors(2, tools, size, dtype)
        result, expected = similarities(left, right, similarity), reference(left, right, similarity)
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-10, err_msg=f"{queries} {tools} {size} {dtype}")


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("size", [3, 33, 384])
def test_equal_vectors_tie_exactly_wherever_they_stand(similarity: Similarity, size: int) -> None:
    # 131 tools from 10 vectors: copies are in different positions of the kernels that multiply matrices.
    origin = np.random.default_rng(4).integers(10, size=131)
    tools, queries = vectors(5, 10, size)[origin], vectors(6, 17, size)
    result = similarities(queries, tools, similarity).astype(np.float32)
    for vector in range(10):
        copies = result[:, origin == vector]
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
    result = normalize(rows)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, np.array([[0.6, 0.8], [0, 0], [-1, 0]]), rtol=0, atol=1e-15)
    assert rows.tolist() == [[3, 4], [0, 0], [-2, 0]], "the caller's vectors are as they were"


# The index of a large library ----------------------------------------------------------------------------------------


def make_large(patch: pytest.MonkeyPatch) -> None:
    """Every library is a large one, in many blocks."""
    for name, value in {"_SMALL": 0, "_SCORES": 1 << 10, "_CONVERTED": 1 << 8, "_QUERIES": 5, "_CROWD": 40}.items():
        patch.setattr(dense, name, value)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every index counts as large."""
    make_large(monkeypatch)


def assert_same(result: Ranking, expected: Ranking) -> None:
    assert result.scores is not None
    assert expected.scores is not None
    np.testing.assert_array_equal(result.tools, expected.tools)
    np.testing.assert_array_equal(result.scores, expected.scores)
    assert (result.tied_beyond is None) == (expected.tied_beyond is None)
    if result.tied_beyond is not None and expected.tied_beyond is not None:
        np.testing.assert_array_equal(result.tied_beyond, expected.tied_beyond)


#: What makes vectors hard to tell apart; each takes normal ones.
HARD: dict[str, Callable[[NDArray[np.float32], np.random.Generator], NDArray[Any]]] = {
    "any": lambda rows, random: rows,
    "of length 1": lambda rows, random: normalize(rows).astype(np.float32),
    "copies": lambda rows, random: rows[random.integers(max(1, len(rows) // 8), size=len(rows))],
    "near copies": lambda rows, random: rows[:1] + rows * np.float32(1e-6),
    "all equal": lambda rows, random: np.repeat(rows[:1], len(rows), axis=0),
    "zeros": lambda rows, random: rows * (random.random((len(rows), 1)) < 0.5),
    "all zero": lambda rows, random: rows * 0,
    "small integers": lambda rows, random: np.rint(rows),
    "other lengths": lambda rows, random: rows * np.float32(10) ** random.integers(-6, 7, (len(rows), 1)),
    "tiny": lambda rows, random: rows * np.float32(1e-25),
    "huge": lambda rows, random: rows * np.float32(1e30),
    "ever better": lambda rows, random: rows[:1] + rows / np.arange(1, len(rows) + 1, dtype=np.float32)[:, None],
    "in double precision": lambda rows, random: rows + 1e-9 * random.normal(size=rows.shape),
}


@given(
    st.integers(0, 1 << 30),
    st.sampled_from(sorted(HARD)),
    st.sampled_from(sorted(HARD)),
    st.sampled_from(SIMILARITIES),
    st.sampled_from([1, 2, 3, 17]),
    st.integers(1, 400),
    st.sampled_from([1, 2, 9, 64]),
    st.sampled_from([1, 3, 10, 60, 500]),
)
@example(1, "any", "ever better", "cosine", 17, 400, 64, 3)
@example(1, "any", "copies", "dot", 3, 399, 9, 10)
@example(1, "any", "all equal", "cosine", 17, 400, 9, 10)
@settings(deadline=None, derandomize=True, max_examples=250)
def test_the_index_ranks_as_float64_does(
    seed: int, asked: str, kind: str, similarity: Similarity, queries: int, tools: int, size: int, depth: int
) -> None:
    random = np.random.default_rng(seed)
    left = HARD[asked](vectors(seed, queries, size), random)
    right = HARD[kind](vectors(seed + 1, tools, size), random)
    with pytest.MonkeyPatch.context() as patch:
        make_large(patch)
        index = VectorIndex(right, similarity)
        with np.errstate(over="ignore"):
            assert_same(index.rank(left, depth), top_k(similarities(left, right, similarity), depth))
            np.testing.assert_allclose(index.score(left), similarities(left, right, similarity), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_query_is_ranked_alone_as_among_others(similarity: Similarity) -> None:
    tools, queries = vectors(21, 3000, 48), vectors(22, 23, 48)
    index = VectorIndex(tools[np.random.default_rng(1).integers(900, size=3000)], similarity)
    together = index.rank(queries, 10)
    alone = [index.rank(query[None], 10) for query in queries]
    np.testing.assert_array_equal(together.tools, np.concatenate([each.tools for each in alone]))
    assert together.tied_beyond is not None
    none = np.zeros((1, together.tied_beyond.shape[1]), dtype=np.uint8)
    tied = [none if each.tied_beyond is None else each.tied_beyond for each in alone]
    np.testing.assert_array_equal(together.tied_beyond, np.concatenate(tied))


@pytest.mark.usefixtures("large")
def test_few_tools_are_computed_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise the index is right, and slow.
    monkeypatch.setattr(dense, "_SCORES", 1 << 16)
    index, left = VectorIndex(vectors(23, 20_000, 64), "cosine"), normalize(vectors(24, 5, 64))
    rows, _, crowded = index._candidates(left, 10)
    assert len(crowded) == 0
    assert len(rows) <= 5 * 12


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("similarity", ["dot", "l1", "l2"])
def test_a_vector_of_no_number_is_told(similarity: Similarity) -> None:
    tools = vectors(25, 200, 8)
    tools[7, 3] = np.nan
    with pytest.raises(Violation):
        VectorIndex(tools, similarity).rank(vectors(26, 2, 8), 5)
    with pytest.raises(Violation):
        VectorIndex(vectors(25, 200, 8), similarity).rank(np.full((1, 8), np.nan, dtype=np.float32), 5)


@pytest.mark.usefixtures("large")
def test_no_query_and_no_tool() -> None:
    assert VectorIndex(vectors(1, 50, 4), "cosine").rank(np.zeros((0, 4)), 5).tools.shape == (0, 5)
    assert VectorIndex(np.zeros((0, 4)), "cosine").rank(vectors(1, 2, 4), 5).tools.shape == (2, 0)


@pytest.mark.parametrize("size", [1, 8, 100, 768])
def test_the_bound_of_the_error_holds_and_is_no_more_than_a_few_times_too_wide_per_term(size: int) -> None:
    left, right = normalize(np.abs(vectors(27, 40, size))), normalize(np.abs(vectors(28, 40, size)))
    with_float32 = (left.astype(np.float32) @ right.astype(np.float32).T).astype(np.float64)
    assert np.abs(with_float32 - left @ right.T).max() <= dense._error(size) <= 2 * (size + 16) * 2.0**-24


@pytest.mark.usefixtures("large")
def test_a_search_takes_bounded_memory_besides_the_vectors() -> None:
    import tracemalloc

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "_SCORES", 1 << 21)
        patch.setattr(dense, "_CONVERTED", 1 << 20)
        patch.setattr(dense, "_QUERIES", 256)
        tools, queries = vectors(29, 60_000, 64), vectors(30, 400, 64)
        tracemalloc.start()
        try:
            VectorIndex(tools, "cosine").rank(queries, 100)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 40 << 20
