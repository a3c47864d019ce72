"""Ranking by postings compared with matrix products and `top_k`: the same tools, scores and ties."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.datasets import loaded

import bench.search.lexical as lexical
from bench.interface import Library, Queries, Ranking
from bench.interface.ranking import Violation
from bench.methods.bm25 import bm25_weights
from bench.registry import build_method
from bench.search.postings import rank_postings
from bench.search.topk import top_k


def same(result: Ranking, expected: Ranking) -> None:
    np.testing.assert_array_equal(result.tools, expected.tools)
    assert result.scores is not None
    assert expected.scores is not None
    np.testing.assert_array_equal(result.scores, expected.scores)
    assert (result.tied_beyond is None) == (expected.tied_beyond is None)
    if result.tied_beyond is not None and expected.tied_beyond is not None:
        np.testing.assert_array_equal(result.tied_beyond, expected.tied_beyond)


@st.composite
def searches(draw: st.DrawFn) -> tuple[sp.csr_matrix, sp.csr_matrix, int, bool]:
    """Weights of documents and queries that are few different numbers, so that scores often tie, cancel or overflow."""
    documents, words, queries = draw(st.integers(1, 40)), draw(st.integers(1, 6)), draw(st.integers(0, 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    levels = np.array(draw(st.sampled_from([(1.0, 2.0), (0.5, 1.0, 1e-9), (-1.0, 1.0, 0.25), (1e30, 1e30, 3e38)])))

    def matrix(rows: int) -> sp.csr_matrix:
        present = random.random((rows, words)) < draw(st.sampled_from([0.2, 0.7]))
        return sp.csr_matrix(np.where(present, random.choice(levels, (rows, words)), 0.0))

    return matrix(documents), matrix(queries), draw(st.integers(1, 45)), draw(st.booleans())


@settings(deadline=None, derandomize=True, max_examples=120)
@given(searches())
def test_postings_rank_as_products_do(search: tuple[sp.csr_matrix, sp.csr_matrix, int, bool]) -> None:
    weights, queries, depth, shared = search
    scores = (queries @ weights.T).toarray()
    if shared:
        scores[scores == 0] = -np.inf
    same(rank_postings(weights.T.tocsr(), queries, depth, shared=shared), top_k(scores, depth))


def test_the_smallest_numbers_of_float32_tie_as_they_round() -> None:
    weights = sp.csr_matrix(np.array([[1.4e-45], [1.1e-45], [2e-46]]))
    query = sp.csr_matrix(np.array([[1.0]]))
    postings = rank_postings(weights.T.tocsr(), query, 1, shared=True)
    assert postings.tied_beyond is not None
    same(postings, top_k(weights.T.toarray(), 1))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([900, 2_000, 5_000, 9_000]), st.sampled_from([1, 10, 100, 200]))
def test_methods_weights_rank_alike_at_every_size(seed: int, documents: int, depth: int) -> None:
    random = np.random.default_rng(seed)
    chances = 1 / np.arange(1, 301)
    chances /= chances.sum()

    def texts(count: int, words: int) -> list[list[str]]:
        return [list(map(str, text)) for text in random.choice(300, (count, words), p=chances)]

    counts = lexical.WordCounts.of(texts(documents, 12))
    index = lexical.LexicalIndex(counts.vocabulary, bm25_weights(counts, 1.2, 0.75))
    queries = index.counts(texts(24, 8))
    scores = index.score(queries)
    scores[scores == 0] = -np.inf
    same(rank_postings(index._by_word, queries, depth, shared=True), top_k(scores, depth))


@pytest.mark.parametrize("levels", [2, 50, -50])
def test_a_library_of_several_blocks_has_the_same_ties(levels: int) -> None:
    random = np.random.default_rng(abs(levels))
    weights = sp.csr_matrix(sp.random(40_000, 12, 0.2, random_state=random))
    weights.data = np.sign(levels) * random.integers(1, abs(levels) + 1, len(weights.data)).astype(np.float64)
    queries = sp.csr_matrix(random.integers(0, 2, (9, 12)).astype(np.float64))
    scores = (queries @ weights.T).toarray()
    scores[scores == 0] = -np.inf
    expected = top_k(scores, 100)
    assert expected.tied_beyond is not None
    same(rank_postings(weights.T.tocsr(), queries, 100, shared=True), expected)


def test_threads_do_not_change_a_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(7)
    by_word = sp.csr_matrix(random.integers(0, 3, (30, 500)).astype(np.float64))
    queries = sp.csr_matrix(random.integers(0, 2, (23, 30)).astype(np.float64))
    collected = []
    for threads in ("1", "2", "64"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        collected.append(rank_postings(by_word, queries, 10, shared=True))
    same(collected[1], collected[0])
    same(collected[2], collected[0])


def test_a_score_that_is_no_number_is_named() -> None:
    by_word = sp.csr_matrix(np.array([[1.0, 1.0, np.nan]]))
    with pytest.raises(Violation, match="scored NaN") as error:
        rank_postings(by_word, sp.csr_matrix(np.array([[0.0], [0.0], [1.0]])), 2, shared=True)
    assert (error.value.query, error.value.tool) == (2, 2)


@pytest.mark.parametrize("method", ["bm25", "bm25-fields", "bm25-okapi", "tfidf", "tfidf(sublinear=true)"])
def test_methods_rank_alike_before_and_after_compiled_code_is_loaded(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter = loaded("starter")
    queries = Queries.of(starter, starter.rows("test"))
    searching = build_method(method)
    searching.index(Library.of(starter, starter.card.template))
    monkeypatch.setattr(lexical, "_COMPILED", "not loaded")
    products = searching.rank(queries, 20)
    monkeypatch.setattr(lexical, "_LOADING", 0)
    same(searching.rank(queries, 20), products)


def test_compiled_code_is_loaded_once_products_have_taken_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "_COMPILED", "not loaded")
    work = lexical.Work()
    # 1,000 queries of 9,500 tools, and the cost of ten calls.
    assert not any(work.compile(100, 9_500) for _ in range(10))
    assert [work.compile(1000, 9_500) for _ in range(2)] == [False, True]
    assert lexical.Work().compile(1, 20_000)
    monkeypatch.setattr(lexical, "is_installed", lambda module: False)
    assert not work.compile(1000, 20_000)
    monkeypatch.setattr(lexical, "_COMPILED", "bench.search.postings")
    assert work.compile(1, 1)


def test_products_in_blocks_rank_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    weights = sp.csr_matrix(random.integers(0, 3, (200, 12)).astype(np.float64))
    queries = sp.csr_matrix(random.integers(0, 2, (17, 12)).astype(np.float64))
    monkeypatch.setattr(lexical, "_COMPILED", "not loaded")
    index = lexical.LexicalIndex({f"w{word}": word for word in range(12)}, weights)
    whole = index.rank(queries, 10, shared=False)
    assert whole.tied_beyond is not None
    monkeypatch.setattr("bench.search.topk.BLOCK", 3 * 200)
    same(index.rank(queries, 10, shared=False), whole)
