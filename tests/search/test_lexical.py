"""Lexical scores compared with reference implementations: plain formulas, rank_bm25, bm25s, scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import log

import bm25s
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi
from sklearn.feature_extraction.text import TfidfVectorizer

from bench.data.tables import Tool
from bench.interface import Library, Method, Queries
from bench.registry.methods import build_method
from bench.search.lexical import LexicalIndex, WordCounts, count_matrix
from bench.search.scoring import ScoringMethod
from bench.search.words import whitespace, words

#: More words than are scored densely, so that both halves of the index are used.
VOCABULARY = [f"w{number}" for number in range(400)]
Corpus = tuple[list[str], list[str]]


@cache
def corpus(seed: int) -> Corpus:
    """Random texts and queries: common words in more than half of the texts, rare ones, repeats, empty texts."""
    random = np.random.default_rng(seed)
    chance = 1 / np.arange(1, len(VOCABULARY) + 1)
    chance /= chance.sum()

    def text(longest: int) -> str:
        return " ".join(random.choice(VOCABULARY, size=int(random.integers(longest)), p=chance))

    documents = [text(60) for _ in range(120)] + ["", "  "]
    queries = [text(12) for _ in range(20)] + ["", "unknown", "w0 w0 unknown W0", "w0 w1 w2", " ".join(VOCABULARY[::9])]
    return documents, queries


def method_on(spec: str, documents: Sequence[str]) -> Method:
    tools = tuple(Tool(f"t{number:04}", "name", text) for number, text in enumerate(documents))
    method = build_method(spec)
    method.index(Library(tools, tuple(documents), "description", np.empty((0, 2), dtype=np.int32)))
    return method


def scores_of(spec: str, documents: Sequence[str], queries: Sequence[str]) -> NDArray[np.float64]:
    method = method_on(spec, documents)
    assert isinstance(method, ScoringMethod)
    return method.score(Queries(tuple(queries), np.arange(len(queries))))


def plain_bm25(documents: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    """score = sum over query words of ln(1 + (N-df+0.5)/(df+0.5)) tf / (tf + k1 (1 - b + b len / mean len))."""
    mean = sum(map(len, documents)) / len(documents)
    df = {word: sum(word in document for document in documents) for word in query}
    scores = []
    for document in documents:
        score = 0.0
        for word in query:
            tf = document.count(word)
            if tf:
                idf = log(1 + (len(documents) - df[word] + 0.5) / (df[word] + 0.5))
                score += idf * tf / (tf + k1 * (1 - b + b * len(document) / mean))
        scores.append(score)
    return scores


def test_the_random_documents_hold_every_hard_case() -> None:
    for seed in range(4):
        documents, _ = corpus(seed)
        tokens = [words(text) for text in documents]
        counts = WordCounts.of(tokens)
        assert (counts.document_frequency > len(documents) / 2).sum() >= 2, "words in more than half of the texts"
        assert sum(not document for document in tokens) >= 2, "empty texts"
        assert len(counts.vocabulary) > 150, "more words than are scored densely"
        assert counts.matrix.max() > 5, "repeated words"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.0, 0.75), (0.9, 0.0), (2.0, 1.0)])
def test_bm25_equals_the_plain_formula(seed: int, k1: float, b: float) -> None:
    documents, queries = corpus(seed)
    scores = scores_of(f"bm25(k1={k1}, b={b})", documents, queries)
    tokens = [words(text) for text in documents]
    expected = [plain_bm25(tokens, words(query), k1, b) for query in queries]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_bm25_equals_bm25s_in_lucene_s_form(seed: int) -> None:
    documents, queries = corpus(seed)
    reference = bm25s.BM25(method="lucene", k1=1.2, b=0.75, dtype="float64")
    reference.index([words(text) for text in documents], show_progress=False)
    scores = scores_of("bm25", documents, queries)
    for row, query in enumerate(queries):
        known = [word for word in words(query) if word in reference.vocab_dict]
        expected = reference.get_scores(known) if known else np.zeros(len(documents))
        np.testing.assert_allclose(scores[row], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("k1", "b", "epsilon"), [(1.5, 0.75, 0.25), (0.5, 0.9, 0.25), (2.0, 0.0, 0.0), (1.2, 0.5, 1.0)]
)
@pytest.mark.parametrize("tokens", ["whitespace", "words"])
def test_bm25_okapi_equals_rank_bm25(seed: int, k1: float, b: float, epsilon: float, tokens: str) -> None:
    documents, queries = corpus(seed)
    split = whitespace if tokens == "whitespace" else words
    reference = BM25Okapi([split(text) for text in documents], k1=k1, b=b, epsilon=epsilon)
    scores = scores_of(f"bm25-okapi(k1={k1}, b={b}, epsilon={epsilon}, tokens={tokens})", documents, queries)
    expected = np.array([reference.get_scores(split(query)) for query in queries])
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9)


def test_bm25_okapi_equals_rank_bm25_where_the_mean_idf_is_negative() -> None:
    # Every word in most of the texts: even the floor is below zero.
    documents, queries = ["a b c", "a b c", "a b", "b c"], ["a", "b c", "a a z", ""]
    reference = BM25Okapi([text.split() for text in documents])
    expected = [reference.get_scores(query.split()) for query in queries]
    assert np.min(expected) < 0
    np.testing.assert_allclose(scores_of("bm25-okapi", documents, queries), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sublinear", ["false", "true"])
@pytest.mark.parametrize("tokens", ["words", "whitespace"])
def test_tfidf_equals_scikit_learn(seed: int, sublinear: str, tokens: str) -> None:
    documents, queries = corpus(seed)
    split = words if tokens == "words" else whitespace
    reference = TfidfVectorizer(analyzer=split, norm="l2", smooth_idf=True, sublinear_tf=sublinear == "true")
    vectors = reference.fit_transform(documents)
    expected = (reference.transform(queries) @ vectors.T).toarray()
    scores = scores_of(f"tfidf(sublinear={sublinear}, tokens={tokens})", documents, queries)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("spec", ["bm25", "tfidf"])
def test_tools_that_share_no_word_with_the_query_are_not_returned(spec: str) -> None:
    method = method_on(spec, ["red fox", "blue fox", "green"])
    ranking = method.rank(Queries(("fox", "yellow", "Green_fox"), np.arange(3)), 10)
    assert ranking.tools.tolist() == [[0, 1, -1], [-1, -1, -1], [2, 0, 1]]


def test_bm25_okapi_returns_every_tool_in_the_order_of_codes_where_scores_tie() -> None:
    ranking = method_on("bm25-okapi", ["red fox", "blue fox", "green"]).rank(Queries(("yellow",), np.arange(1)), 10)
    assert ranking.tools.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("spec", ["bm25", "bm25-okapi", "tfidf"])
def test_a_library_without_any_word_is_ranked_without_an_error(spec: str) -> None:
    assert scores_of(spec, ["", " "], ["a", ""]).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("spec", ["bm25", "bm25-okapi", "tfidf"])
def test_a_query_s_scores_do_not_depend_on_its_batch(spec: str) -> None:
    documents, queries = corpus(0)
    together = scores_of(spec, documents, queries)
    alone = np.concatenate([scores_of(spec, documents, [query]) for query in queries])
    # Equal as float32, which is what is ranked.
    np.testing.assert_array_equal(together.astype(np.float32), alone.astype(np.float32))


documents = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8), min_size=1, max_size=8)


@given(documents)
@settings(deadline=None, derandomize=True)
def test_counts_are_those_of_python(texts: list[list[str]]) -> None:
    counts = WordCounts.of(texts)
    dense = counts.matrix.toarray()
    assert set(counts.vocabulary) == {word for text in texts for word in text}
    for word, column in counts.vocabulary.items():
        assert dense[:, column].tolist() == [text.count(word) for text in texts]
        assert counts.document_frequency[column] == sum(word in text for text in texts)
    assert counts.lengths.tolist() == [len(text) for text in texts]


@given(documents, documents)
@settings(deadline=None, derandomize=True)
def test_words_outside_the_vocabulary_are_ignored(texts: list[list[str]], queries: list[list[str]]) -> None:
    counts = WordCounts.of(texts)
    toarray = count_matrix([[*query, "unknown"] for query in queries], counts.vocabulary).toarray()
    assert toarray.shape == (len(queries), len(counts.vocabulary))
    for word, column in counts.vocabulary.items():
        assert toarray[:, column].tolist() == [query.count(word) for query in queries]


@pytest.mark.parametrize("vocabulary", [1, 95, 96, 97, 300])
def test_the_index_scores_as_the_full_product_of_query_and_document_weights(vocabulary: int) -> None:
    random = np.random.default_rng(vocabulary)
    # Weights may be negative, as in the Okapi variant.
    dense = random.normal(size=(40, vocabulary)) * (random.random((40, vocabulary)) < 0.2)
    queries = random.integers(0, 3, size=(7, vocabulary)).astype(np.float64)
    index = LexicalIndex({f"w{column}": column for column in range(vocabulary)}, sp.csr_matrix(dense))
    np.testing.assert_allclose(index.score(sp.csr_matrix(queries)), queries @ dense.T, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Get_the-Weather v2.0", ["get", "the", "weather", "v2", "0"]),
        ("Straße, naïve 東京!", ["straße", "naïve", "東京"]),
        ("", []),
        ("__ -- ..", []),
    ],
)
def test_words_are_lower_cased_runs_of_letters_and_digits(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_whitespace_tokens_keep_case_and_signs() -> None:
    assert whitespace(" Get_the-Weather  v2.0\n") == ["Get_the-Weather", "v2.0"]
