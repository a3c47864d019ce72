"""BM25, the papers' BM25 and TF-IDF: against reference implementations on `starter`; what a score of zero means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, sqrt

import bm25s
import numpy as np
import pytest
from kit.datasets import loaded
from kit.rankings import make_library, make_queries, returned, scores_by_code
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi
from sklearn.feature_extraction.text import TfidfVectorizer

from bench.interface import Library, Ranking
from bench.registry import build_method
from bench.search.words import whitespace, words

Scores = NDArray[np.float64]


def ranked(spec: str, texts: Sequence[str], queries: Sequence[str], depth: int = 1000) -> Ranking:
    method = build_method(spec)
    method.index(make_library(texts))
    return method.rank(make_queries(*queries), depth)


def codes_of(spec: str, texts: Sequence[str], query: str, depth: int = 1000) -> list[int]:
    """Codes of the tools returned for one query, best first."""
    return returned(ranked(spec, texts, [query], depth))


def scores_of(spec: str, texts: Sequence[str], query: str) -> dict[int, float]:
    """Score of each returned tool."""
    return scores_by_code(ranked(spec, texts, [query]))


# Against reference implementations, on starter ----------------------------------------------------------------------


def lucene_bm25(texts: Sequence[str], query: str) -> Scores:
    documents, tokens = [words(text) for text in texts], words(query)
    mean = sum(map(len, documents)) / len(documents)
    scores = np.zeros(len(documents))
    for word in tokens:
        df = sum(word in document for document in documents)
        for code, document in enumerate(documents):
            if tf := document.count(word):
                idf = log(1 + (len(documents) - df + 0.5) / (df + 0.5))
                scores[code] += idf * tf / (tf + 1.2 * (0.25 + 0.75 * len(document) / mean))
    return scores


def bm25s_lucene(texts: Sequence[str], query: str) -> Scores:
    index = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    index.index([words(text) for text in texts], show_progress=False)
    known = [word for word in words(query) if word in index.vocab_dict]
    return np.asarray(index.get_scores(known), dtype=np.float64) if known else np.zeros(len(texts))


def okapi(texts: Sequence[str], query: str) -> Scores:
    return np.asarray(BM25Okapi([whitespace(text) for text in texts]).get_scores(whitespace(query)), dtype=np.float64)


def scikit_learn(texts: Sequence[str], query: str) -> Scores:
    vectorizer = TfidfVectorizer(analyzer=words)
    documents = vectorizer.fit_transform(texts)
    return np.asarray((vectorizer.transform([query]) @ documents.T).toarray()[0], dtype=np.float64)


@pytest.mark.parametrize(
    ("spec", "reference", "drops_zero"),
    [
        ("bm25", lucene_bm25, True),
        ("bm25", bm25s_lucene, True),
        ("bm25-okapi", okapi, False),
        ("tfidf", scikit_learn, True),
    ],
)
def test_rankings_of_starter_are_the_reference_s(
    spec: str, reference: Callable[[Sequence[str], str], Scores], drops_zero: bool
) -> None:
    dataset = loaded("starter")
    texts = Library.of(dataset, "name_description").texts
    queries = [dataset.queries[row].text for row in dataset.rows("test")[::12]]
    result = ranked(spec, texts, queries)
    assert result.scores is not None
    for row, query in enumerate(queries):
        expected = reference(texts, query)
        kept = result.tools[row] >= 0
        tools, scores = result.tools[row][kept], result.scores[row][kept]
        assert set(tools.tolist()) == (set(np.flatnonzero(expected > 0).tolist()) if drops_zero else set(range(179)))
        np.testing.assert_allclose(scores, expected[tools], rtol=1e-5, atol=1e-6)
        # Sorted by score, then code; and nowhere against the reference by more than rounding.
        order = list(zip((-scores).tolist(), tools.tolist(), strict=True))
        assert order == sorted(order)
        assert (np.diff(expected[tools]) <= 1e-5).all()


# By hand ------------------------------------------------------------------------------------------------------------


def test_bm25_by_hand() -> None:
    # N = 3, mean length (2 + 4 + 3) / 3 = 3. `mail`: df 1, idf ln(1 + 2.5 / 1.5) = 0.980829.
    # `send`: df 2, idf ln(1 + 1.5 / 2.5) = 0.470004.
    # t0 (length 2): 1.2 (0.25 + 0.75 * 2/3) = 0.9; mail 0.980829 / 1.9 = 0.516226, send 0.470004 / 1.9 = 0.247370.
    # t1 (length 4): 1.2 (0.25 + 0.75 * 4/3) = 1.5; send occurs twice: 0.470004 * 2 / 3.5 = 0.268574.
    scores = scores_of("bm25", ["Send mail", "send it, send_now", "look at that"], "SEND mail")
    assert scores == pytest.approx({0: 0.763596, 1: 0.268574}, abs=2e-6)


def test_tfidf_by_hand() -> None:
    # N = 2. idf(a) = ln(3/3) + 1 = 1, idf(b) = ln(3/2) + 1 = 1.405465. The length of t0 = "a b" is
    # sqrt(1 + 1.975332) = 1.724915. The query "b" has the vector (0, 1): its cosine with t0 is
    # 1.405465 / 1.724915 = 0.814802.
    assert scores_of("tfidf", ["a b", "a"], "b") == pytest.approx({0: 1.405465 / sqrt(1 + 1.405465**2)}, abs=1e-6)


def test_words_asked_twice_weigh_twice() -> None:
    texts = ["send mail", "read news", "write code"]
    once, twice = scores_of("bm25", texts, "send"), scores_of("bm25", texts, "send send")
    assert twice[0] == pytest.approx(2 * once[0])


# What a score of zero means -----------------------------------------------------------------------------------------

HALF = ["common alpha", "common beta", "gamma", "delta"]


@pytest.mark.parametrize("spec", ["bm25", "tfidf"])
def test_tools_that_share_no_word_with_the_query_are_not_returned(spec: str) -> None:
    assert codes_of(spec, HALF, "alpha unknown") == [0]
    assert codes_of(spec, HALF, "unknown") == []
    assert codes_of(spec, HALF, "") == []
    # Not even to fill the depth.
    assert codes_of(spec, HALF, "common", depth=3) == [0, 1]


def test_the_papers_bm25_returns_the_whole_library_and_the_rest_in_the_order_of_ids() -> None:
    assert codes_of("bm25-okapi", HALF, "gamma") == [2, 0, 1, 3]
    assert codes_of("bm25-okapi", HALF, "unknown") == [0, 1, 2, 3]
    assert codes_of("bm25-okapi", HALF, "unknown", depth=2) == [0, 1]


def test_in_the_papers_bm25_a_perfect_match_can_tie_with_noise() -> None:
    # `common` occurs in half of the tools: ln((4 - 2 + 0.5) / (2 + 0.5)) = 0, so it counts nothing.
    assert scores_of("bm25-okapi", HALF, "common") == {0: 0.0, 1: 0.0, 2: 0.0, 3: 0.0}
    assert codes_of("bm25", HALF, "common") == [0, 1]


def test_the_papers_bm25_answers_on_a_library_without_words() -> None:
    assert scores_of("bm25-okapi", ["", " ", ""], "anything") == {0: 0.0, 1: 0.0, 2: 0.0}


@pytest.mark.parametrize("spec", ["bm25", "tfidf"])
def test_a_library_without_words_returns_nothing(spec: str) -> None:
    assert codes_of(spec, ["", " ", ""], "anything") == []


# Parameters ---------------------------------------------------------------------------------------------------------


def test_k1_and_b_do_what_they_say() -> None:
    texts = ["send", "send send send", "send one two three four five", "other", "other", "other", "other"]
    flat = scores_of("bm25(k1=0)", texts, "send")
    assert flat[0] == pytest.approx(flat[1]) == pytest.approx(flat[2]), "k1=0: repeats and lengths do not count"
    no_length = scores_of("bm25(b=0)", texts, "send")
    assert no_length[0] == pytest.approx(no_length[2]), "b=0: lengths do not count"
    assert no_length[1] > no_length[0]
    held = scores_of("bm25(b=1)", texts, "send")
    assert held[2] < held[0], "b=1: long texts are held back"


@pytest.mark.parametrize("spec", ["bm25", "tfidf", "bm25-okapi"])
def test_tokens_decide_how_texts_are_split(spec: str) -> None:
    texts = ["sendMail, now", "send_mail NOW", "other one", "more text", "and more"]
    by_words = scores_of(f"{spec}(tokens=words)", texts, "now mail")
    by_blanks = scores_of(f"{spec}(tokens=whitespace)", texts, "NOW now mail")
    assert {code for code, score in by_words.items() if score > 0} == {0, 1}
    assert {code for code, score in by_blanks.items() if score > 0} == {0, 1}
    # Between blanks `NOW` is only in the second text, `now` only in the first, and `mail` in none.
    one = scores_of(f"{spec}(tokens=whitespace)", texts, "NOW")
    assert {code for code, score in one.items() if score > 0} == {1}


def test_sublinear_tf_is_scikit_learn_s() -> None:
    texts, query = ["a a a b", "a c c", "b d"], "a a b c"
    vectorizer = TfidfVectorizer(analyzer=words, sublinear_tf=True)
    documents = vectorizer.fit_transform(texts)
    expected = (vectorizer.transform([query]) @ documents.T).toarray()[0]
    scores = scores_of("tfidf(sublinear=true)", texts, query)
    assert scores == pytest.approx(dict(enumerate(expected.tolist())), rel=1e-6)
    assert scores != pytest.approx(scores_of("tfidf", texts, query), rel=1e-3)
