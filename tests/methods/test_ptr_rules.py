"""Rules in place of a language model: clauses, coverage by cosine, and the cut that is learnt on the history."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.rankings import make_library

from bench.data.gold import Gold
from bench.interface import History
from bench.methods.ptr.rules import DROP_ALL, KEEP_ALL, CosineJudge, Judgements, held_out, learn_threshold
from bench.search.clauses import clauses
from bench.search.words import words

JOINING = {"and", "then", "also", "plus", "as", "well"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Book a table", ["Book a table"]),
        ("Book a table, then find the way.", ["Book a table", "find the way"]),
        ("Convert my euros and draw a chart", ["Convert my euros", "draw a chart"]),
        ("Send it. Is rain expected? Tell me also who won", ["Send it", "Is rain expected", "Tell me", "who won"]),
        # Fragments too short to ask for anything join their neighbour.
        ("Additionally, book a table", ["Additionally book a table"]),
        ("Find flights to Rome, Paris, and Oslo", ["Find flights to Rome, Paris, Oslo"]),
        # A point or comma inside a word or number ends nothing.
        ("Pay 1,200.50 at shop.example now", ["Pay 1,200.50 at shop.example now"]),
        ("帮我订一张去上海的机票，再查天气怎么样", ["帮我订一张去上海的机票", "再查天气怎么样"]),
        ("brand and sandy bandstand", ["brand sandy bandstand"]),
        ("hello", ["hello"]),
        ("", []),
        (" \n ?! 🙂", []),
    ],
)
def test_clauses_by_example(query: str, expected: list[str]) -> None:
    assert clauses(query) == expected


def test_a_long_list_is_cut_into_so_many_clauses_and_no_word_is_lost() -> None:
    result = clauses(", ".join(f"do thing number {i}" for i in range(60)))
    assert len(result) == 24
    assert "number 59" in result[-1]


@given(st.text(max_size=200))
def test_clauses_keep_the_words_in_their_order(query: str) -> None:
    kept = [word for word in words(" ".join(clauses(query))) if word not in JOINING]
    assert kept == [word for word in words(query) if word not in JOINING]
    assert all(clause == clause.strip() and words(clause) for clause in clauses(query))


# Coverage -----------------------------------------------------------------------------------------------------------

#: A clause's vector, and the tools' (rows): cosines are the products.
VECTORS = {"do the first": (1.0, 0.0), "do the second": (0.0, 1.0), "do both things": (0.6, 0.8)}
TOOLS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6], [-1.0, 0.0]])


def encode(texts: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array([VECTORS[text] for text in texts], dtype=np.float32)


def cosines(queries: Sequence[str], bundles: Sequence[Sequence[int]] | None) -> Judgements:
    return Judgements.of(queries, bundles, CosineJudge(encode, TOOLS))


@pytest.mark.parametrize(
    ("bundle", "cut", "kept", "unsolved", "assessment"),
    [
        # Cosines of `do the first`: 1, 0, 0.8, -1; of `do the second`: 0, 1, 0.6, 0.
        ([0, 1], 0.9, (0, 1), (), "exact"),
        ([0, 1, 2], 0.9, (0, 1), (), "over"),
        # The better tool of a clause comes first.
        ([2, 0], 0.7, (0, 2), ("do the second",), "partial"),
        ([0, 3], 0.9, (0,), ("do the second",), "partial"),
        ([3], 0.5, (), ("do the first", "do the second"), "partial"),
        # One tool may serve both.
        ([2], 0.5, (2,), (), "exact"),
        ([], 0.5, (), ("do the first", "do the second"), "partial"),
        ([0, 1, 2, 3], KEEP_ALL, (0, 2, 1, 3), (), "exact"),
        ([0, 1, 2, 3], DROP_ALL, (), ("do the first", "do the second"), "partial"),
    ],
)
def test_a_tool_stays_if_it_serves_a_clause(
    bundle: list[int], cut: float, kept: tuple[int, ...], unsolved: tuple[str, ...], assessment: str
) -> None:
    coverage = cosines(["do the first, do the second"], [bundle]).coverage(0, cut)
    assert (coverage.kept, coverage.unsolved, coverage.assessment) == (kept, unsolved, assessment)


def test_without_a_bundle_every_clause_is_unsolved() -> None:
    result = cosines(["do the first, do the second", ""], None)
    assert result.coverage(0, 0.1).unsolved == ("do the first", "do the second")
    assert result.coverage(1, 0.1) == result.coverage(1, 0.9)
    assert result.coverage(0, 0.1).assessment is None


def test_a_query_without_words_needs_no_tool() -> None:
    result = cosines(["", "do the first"], [[0, 1], [0, 1]])
    assert result.coverage(0, KEEP_ALL).kept == ()
    assert result.coverage(1, 0.5).kept == (0,)
    assert cosines(["?"], [[0, 1]]).coverage(0, 0.5).kept == ()


# The cut ------------------------------------------------------------------------------------------------------------


def history(rows: Sequence[tuple[str, Sequence[int], str]]) -> History:
    return History(
        make_library([""] * 4),
        tuple(text for text, _, _ in rows),
        Gold.of([dict.fromkeys(gold, 1) for _, gold, _ in rows]),
        np.array([("train", "dev").index(split) for _, _, split in rows], dtype=np.int8),
    )


def test_the_cut_is_where_held_out_queries_get_their_tools() -> None:
    # One past query, bundle {0, 2}, gold {0, 1}; re-ranking would add 0 for the first clause and 1 for the second.
    # Cosines: first clause 1 and 0.8, second 0 and 0.6.
    # cut <= 0.6: {0, 2}                            1 hit of 2: 0.5
    # cut   0.8: {0, 2} and 1                       2 of 2, one too many of three: 2/3
    # cut   1.0: {0} and 1                          1
    # above:     {} and 0, 1                        1, but the lower of the two is taken
    past = history([("do the first, do the second", [0, 1], "dev")])
    cut = learn_threshold(cosines(past.texts, [[0, 2]]), past, [[0, 1]])
    assert (cut.value, cut.queries) == (1.0, 1)
    # Were 3 added in place of 1, 0.8 would give {0, 2, 3} = 1/3 and 1.0 {0, 3} = 1/2: the bundle as it is is as good.
    assert learn_threshold(cosines(past.texts, [[0, 2]]), past, [[0, 3]]).value == KEEP_ALL
    # With a bundle that has nothing to do with it, all of it is dropped.
    assert (
        learn_threshold(cosines(["do the first"], [[2]]), history([("do the first", [0], "dev")]), [[0]]).value
        == DROP_ALL
    )


def test_without_past_queries_nothing_is_learnt_and_bundles_stay() -> None:
    cut = learn_threshold(cosines([], []), history([]), [])
    assert (cut.value, cut.queries) == (KEEP_ALL, 0)


def test_the_dev_split_is_held_out_where_there_is_one() -> None:
    past = history([("a", [0], "train"), ("b", [1], "dev"), ("c", [], "dev"), ("d", [], "train"), ("e", [0], "dev")])
    seen, held = held_out(past, "queries")
    assert (seen.tolist(), held.tolist()) == ([0], [1, 4])
    # The bundle of `a` is that of `e`.
    assert [rows.tolist() for rows in held_out(past, "bundles")] == [[], [1, 4]]


def bundle(number: int) -> list[int]:
    """One of fifteen."""
    return [tool for tool in range(4) if (number % 15 + 1) >> tool & 1]


def test_without_a_dev_split_a_fifth_is_held_out_whatever_the_order() -> None:
    rows = [(f"query {i}", bundle(i), "train") for i in range(400)]
    past = history(rows)
    seen, held = held_out(past, "queries")
    assert sorted([*seen, *held]) == list(range(400))
    assert 60 <= len(held) <= 100
    turned = history(rows[::-1])
    assert {turned.texts[i] for i in held_out(turned, "queries")[1]} == {past.texts[i] for i in held}
    # Adding queries moves none of the others.
    more = history([*rows, *((f"new {i}", [0], "train") for i in range(50))])
    assert {more.texts[i] for i in held_out(more, "queries")[1]} >= {past.texts[i] for i in held}


def test_bundles_are_held_out_with_all_their_queries() -> None:
    past = history([(f"query {i}", bundle(i), "train") for i in range(400)])
    seen, held = held_out(past, "bundles")
    assert sorted([*seen, *held]) == list(range(400))
    sides = [{tuple(past.gold.row(row)) for row in rows} for rows in (seen, held)]
    assert not sides[0] & sides[1]
    assert len(sides[0]) > len(sides[1]) > 0


def test_equal_texts_are_held_out_together_and_no_more_than_five_hundred() -> None:
    twice = history([(f"query {i // 2}", [0], "train") for i in range(400)])
    seen, held = held_out(twice, "queries")
    assert not {twice.texts[i] for i in seen} & {twice.texts[i] for i in held}
    many = history([(f"query {i}", [0], "train") for i in range(4000)])
    seen, held = held_out(many, "queries")
    assert len(held) == 500
    assert 3000 < len(seen) < 3400
    assert not {*seen.tolist()} & {*held.tolist()}
