"""Near copies of texts: by hand, against scikit-learn and plain Python, and at their limits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from bench.data.nearcopies import FEWEST, RUN, likeness, near_copies

LONG = "please book a table for two persons at the small italian restaurant near the river tonight"
WORDS = st.lists(st.sampled_from("a b c d e f".split()), max_size=18).map(" ".join)


def test_a_word_changed_in_a_long_text_leaves_a_near_copy() -> None:
    assert near_copies([LONG.replace("italian", "greek")], ["something else", LONG]).tolist() == [False]
    # 13 runs of 4 words, one of which holds the last word.
    assert likeness([LONG.replace("tonight", "tomorrow")], [LONG])[0] == pytest.approx(12 / 13)
    assert near_copies([LONG.replace("tonight", "tomorrow"), "book a hotel"], [LONG]).tolist() == [True, False]


def test_case_and_punctuation_do_not_count_and_the_order_of_words_hides_nothing() -> None:
    turned = " ".join(reversed(LONG.split()))
    assert near_copies([LONG.upper().replace(" ", ", "), turned], [LONG]).tolist() == [True, True]
    assert likeness([turned], [LONG])[0] == [0.0]


def test_the_common_opening_of_a_short_text_is_no_copy() -> None:
    short, long = "i am planning a picnic in helsinki", "i am planning a picnic in central park and need the weather"
    assert likeness([short], [long])[0] == [0.0]
    assert not near_copies([short], [long])[0]
    assert near_copies([short], [short.upper()])[0]


def test_a_text_taken_from_a_longer_one_is_a_copy_but_not_the_other_way_round() -> None:
    longer = f"{LONG} and " + " ".join(f"word{i}" for i in range(40))
    assert near_copies([LONG], [longer])[0]
    assert not near_copies([longer], [LONG])[0]


def test_a_text_without_spaces_is_compared_by_its_parts() -> None:
    text = "请帮我预订一张明天上午从北京开往上海的高铁票"
    assert near_copies([text.replace("票", "座"), "请帮我预订一间酒店"], ["写封邮件", text]).tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize(("texts", "others"), [([], ["a"]), (["a"], []), ([""], [""]), (["?!"], ["?!"])])
def test_nothing_has_no_copies(texts: list[str], others: list[str]) -> None:
    assert not near_copies(texts, others).any()
    assert len(near_copies(texts, others)) == len(texts)


@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(WORDS, min_size=1, max_size=5))
def test_likeness_is_that_of_plain_python_and_scikit_learn(texts: list[str], others: list[str]) -> None:
    def runs(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w", text)
        return {tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1)}

    shared, cosine = likeness(texts, others)
    expected = [
        max(len(runs(text) & runs(other)) for other in others) / len(runs(text)) if len(runs(text)) >= FEWEST else 0.0
        for text in texts
    ]
    np.testing.assert_allclose(shared, expected)
    if any(text for text in texts + others):
        # scikit-learn's idf without smoothing is log(N / documents) + 1.
        vectors = TfidfVectorizer(smooth_idf=False, token_pattern=r"\w").fit(texts + others)
        expected_cosine = (vectors.transform(texts) @ vectors.transform(others).T).max(axis=1).toarray().ravel()
        np.testing.assert_allclose(cosine, expected_cosine, atol=1e-12)
