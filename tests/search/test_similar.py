"""Near-duplicates within a collection: by hand, and against comparing every pair."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.nearcopies import COSINE
from bench.search.similar import TextVectors
from bench.search.words import words


def brute(texts: list[str]) -> np.ndarray:
    """(texts, texts) cosines, word by word."""
    counts = [Counter(words(text)) for text in texts]
    having = Counter(word for row in counts for word in row)
    vectors = [
        {word: times * (math.log(len(texts) / having[word]) + 1) for word, times in row.items()} for row in counts
    ]
    lengths = [math.sqrt(sum(value**2 for value in vector.values())) for vector in vectors]
    result = np.zeros((len(texts), len(texts)))
    for i, one in enumerate(vectors):
        for j, other in enumerate(vectors):
            if one and other:
                product = sum(value * other.get(word, 0.0) for word, value in one.items())
                result[i, j] = product / lengths[i] / lengths[j]
    return result


def test_a_word_more_or_less_in_a_long_text_is_a_near_duplicate() -> None:
    long = "returns the current weather and the forecast of the next days for a place that is given by its name"
    texts = [long, f"{long} please", "sends a letter to an address", long.upper(), ""]
    near = TextVectors(texts).near_duplicates
    assert near.count.tolist() == [2, 2, 0, 2, 0]
    # The same words come before nearly the same ones, and the first of equals is named.
    assert near.nearest.tolist() == [3, 0, -1, 0, -1]
    assert near.cosine[[0, 3]] == pytest.approx(1.0)
    assert COSINE <= near.cosine[1] < 1
    assert near.cosine[[2, 4]].tolist() == [0, 0]


def test_words_of_few_texts_come_first() -> None:
    vectors = TextVectors(["the map", "the letter", "the map of the world"])
    assert vectors.rarest_first(["the", "nowhere", "map", "world"]) == ["world", "map", "the", "nowhere"]


TEXTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=7).map(" ".join), min_size=1, max_size=14)


@given(TEXTS)
@settings(max_examples=100)
def test_every_pair_and_no_other_is_found(texts: list[str]) -> None:
    cosines = brute(texts)
    vectors = TextVectors(texts)
    one, other = (part.ravel() for part in np.indices(cosines.shape))
    assert vectors.cosines(one, other) == pytest.approx(cosines.ravel(), abs=1e-9)
    near = vectors.near_duplicates
    np.fill_diagonal(cosines, 0.0)
    for text, row in enumerate(cosines):
        sure, possible = (row >= COSINE + 1e-6).sum(), (row >= COSINE - 1e-6).sum()
        assert sure <= near.count[text] <= possible
        if near.count[text]:
            assert near.nearest[text] != text
            assert row[near.nearest[text]] == pytest.approx(row.max())
            assert near.cosine[text] == pytest.approx(row.max())
        else:
            assert near.nearest[text] == -1


def test_many_texts_are_compared_without_comparing_every_pair() -> None:
    # Half of them are one text: every pair of those would be more than a billion.
    texts = [f"tool {i} does thing {i % 97} of kind {i % 1009}" for i in range(50_000)] + ["the same text"] * 50_000
    near = TextVectors(texts).near_duplicates
    assert (near.count[50_000:] == 49_999).all()
    assert near.nearest[50_000] == 50_001
    assert (near.nearest[50_001:] == 50_000).all()
