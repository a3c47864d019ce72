"""Covering the words of a query: by hand, and against the best cover that there is."""

from __future__ import annotations

from itertools import combinations
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.rankings import make_library, make_queries, returned

from bench.interface import Method, RecommendingMethod
from bench.registry import build_method
from bench.search.words import words


def indexed(texts: list[str], spec: str) -> Method:
    method = build_method(spec)
    method.index(make_library(texts))
    return method


def answers(texts: list[str], query: str, spec: str = "coverage(share=1.0)") -> tuple[list[int], list[int]]:
    """The recommended set in its order, and the ranking."""
    method = indexed(texts, spec)
    assert isinstance(method, RecommendingMethod)
    queries = make_queries(query)
    ranking = method.rank(queries, 1000)
    assert ranking.scores is None
    return method.recommend(queries).row(0).tolist(), returned(ranking)


TEXTS = ["send mail now", "mail mail mail", "weather in rome", "weather", "other things"]


def test_by_hand() -> None:
    # N = 5. df: send 1, mail 2, weather 2; `please` is in no tool. idf(1) = ln(1 + 4.5 / 1.5) = 1.386,
    # idf(2) = ln(1 + 3.5 / 2.5) = 0.875.
    # Step 1: t0 adds send and mail (1.386 + 0.875). Step 2: t2 and t3 add weather; BM25 has the shorter t3 first.
    chosen, ranking = answers(TEXTS, "Please send mail, weather")
    assert chosen == [0, 3]
    # The others follow by BM25: `mail` three times is above `weather` in three words.
    assert ranking == [0, 3, 1, 2]


def test_the_set_is_complete_at_a_share_of_the_weight() -> None:
    # t0 covers 1.386 + 0.875 = 2.262 of 3.137: 0.721.
    assert (log(4) + log(2.4)) / (log(4) + 2 * log(2.4)) == pytest.approx(0.721, abs=1e-3)
    assert answers(TEXTS, "send mail weather", "coverage(share=0.72)")[0] == [0]
    assert answers(TEXTS, "send mail weather", "coverage(share=0.73)")[0] == [0, 3]


def test_without_a_shared_word_the_set_is_empty() -> None:
    assert answers(TEXTS, "unknown") == ([], [])
    assert answers(TEXTS, "") == ([], [])


WORDS = st.lists(st.sampled_from(list("abcdefg")), max_size=5).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(WORDS, min_size=1, max_size=6), query=WORDS)
def test_all_words_are_covered_and_each_prefix_is_as_good_as_greedy_covers_are(texts: list[str], query: str) -> None:
    chosen, ranking = answers(texts, query)
    held = [set(words(text)) for text in texts]
    coverable = set(words(query)) & set().union(*held)
    df = {word: sum(word in each for each in held) for word in coverable}
    weight = {word: log(1 + (len(texts) - count + 0.5) / (count + 0.5)) for word, count in df.items()}

    def covered(tools: tuple[int, ...]) -> float:
        return sum(weight[word] for word in coverable & set().union(*(held[tool] for tool in tools)))

    assert coverable == coverable & set().union(*(held[tool] for tool in chosen))
    assert ranking[: len(chosen)] == chosen
    assert len(set(ranking)) == len(ranking)
    for size in range(1, len(chosen) + 1):
        best = max(covered(tools) for tools in combinations(range(len(texts)), size))
        assert covered(tuple(chosen[:size])) >= (1 - (1 - 1 / size) ** size) * best - 1e-9
