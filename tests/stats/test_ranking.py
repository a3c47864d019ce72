"""Ranks that follow from tests of pairs: by hand, and what they promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.stats.bounded import Span
from bench.stats.multiple import benjamini_hochberg, holm
from bench.stats.paired import compare_pairs
from bench.stats.ranking import correct_pairs, p_of_pairs, pairwise_tests, rank_order, rank_ranges

Correct: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def table(size: int, **pairs: float) -> NDArray[np.float64]:
    p = np.ones((size, size))
    for pair, value in pairs.items():
        one, other = ("abcdef".index(letter) for letter in pair)
        p[one, other] = p[other, one] = value
    return p


def row(*means: float) -> NDArray[np.float64]:
    return np.array([means])


def test_ranks_by_hand() -> None:
    values = row(0.5, 0.9, 0.8, 0.4)
    # b is better than a and d, c better than d.
    ranks = rank_ranges(values, table(4, ab=0.01, bd=0.01, cd=0.02))
    assert ranks.tolist() == [[2, 4], [1, 2], [1, 3], [3, 4]]
    assert rank_order(ranks, values[0]) == [1, 2, 0, 3]
    assert rank_ranges(values, table(4)).tolist() == [[1, 4]] * 4
    assert rank_ranges(values, np.zeros((4, 4))).tolist() == [[3, 3], [1, 1], [2, 2], [4, 4]]
    assert rank_ranges(values, table(4, ab=0.05)).tolist() == [[1, 4]] * 4
    assert rank_ranges(row(0.3), np.ones((1, 1))).tolist() == [[1, 1]]


def test_a_challenger_is_ranked_among_the_references_and_itself() -> None:
    values, references = row(0.9, 0.7, 0.6, 0.8, 0.7), np.array([True, True, True, False, False])
    # d is worse than a and better than b; e is a copy of b, and so it has the p-values and the ranks of b.
    p = table(5, ad=0.01, bd=0.01, ae=0.03, ab=0.03)
    # Whether two challengers differ is not read: it may not be known.
    p[3, 4] = p[4, 3] = np.nan
    assert rank_ranges(values, p, references).tolist() == [[1, 2], [2, 3], [1, 3], [2, 3], [2, 3]]
    assert rank_ranges(values, p, np.zeros(5, dtype=np.bool_)).tolist()[0] == [1, 2]


@pytest.mark.parametrize("units", [None, np.arange(60) // 2])
def test_identical_systems_share_their_ranks(units: NDArray[np.int64] | None) -> None:
    base = np.random.default_rng(2).normal(0, 1, 60)
    values = np.column_stack([base, base, base + 9, base])
    p = pairwise_tests(values, units, flips=500).p
    assert rank_ranges(values, p).tolist() == [[2, 4], [2, 4], [1, 1], [2, 4]]


def test_ranks_of_all_systems_are_held_together() -> None:
    """Over samples of a population in which systems differ by some standard errors, and two do not."""
    truth = np.array([0.0, 0.0, 0.3, 0.6])
    ranks = np.array([[3, 4], [3, 4], [2, 2], [1, 1]])
    random, held, decided = np.random.default_rng(0), 0, 0
    for _ in range(400):
        values = random.normal(size=(50, 4)) * [1, 1, 1.5, 1] + random.normal(size=(50, 1)) + truth
        found = rank_ranges(values, pairwise_tests(values, flips=499).p)
        # A system may have each of the ranks that it shares with its equals.
        held += bool((found[:, 0] <= ranks[:, 1]).all() and (found[:, 1] >= ranks[:, 0]).all())
        decided += bool((found[:, 0] > 1).any())
    assert held >= 0.95 * 400
    assert decided > 200


@given(
    st.integers(2, 5),
    st.integers(20, 60),
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([holm, benjamini_hochberg]),
)
@settings(deadline=None, max_examples=25)
def test_nothing_that_is_said_of_a_pair_contradicts_another_statement(
    systems: int,
    queries: int,
    seed: int,
    dependent: bool,
    correct: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> None:
    random = np.random.default_rng(seed)
    values = (random.random((queries, systems)) < random.random(systems)).astype(np.float64)
    units = np.unique(random.integers(0, queries // 2, queries), return_inverse=True)[1] if dependent else None
    first, second = np.triu_indices(systems, 1)
    span = Span(-1.0, 1.0)
    (tests,) = correct_pairs([p_of_pairs(values, first, second, units, span=span)], [values], None, correct)
    p, ranks = tests.p[first, second], rank_ranges(values, tests.p)
    pairs = compare_pairs(values, first, second, p, tests.sizes[first, second], units=units, span=span)
    for one, other, corrected, pair in zip(first, second, p, pairs, strict=True):
        assert pair.low is not None
        assert pair.high is not None
        assert (pair.low > 0 or pair.high < 0) == (corrected < 0.05)
        assert pair.low <= pair.difference <= pair.high
        better = (one, other) if pair.difference > 0 else (other, one)
        if corrected < 0.05:
            assert ranks[better[0], 1] < ranks[better[1], 1] or ranks[better[0], 0] < ranks[better[1], 0]
    for system in range(systems):
        p_values, means = tests.p[system], values.mean(axis=0)
        better_ones = sum(p_values[i] < 0.05 and means[i] > means[system] for i in range(systems))
        worse_ones = sum(p_values[i] < 0.05 and means[i] < means[system] for i in range(systems))
        assert ranks[system].tolist() == [1 + better_ones, systems - worse_ones]


def test_several_metrics_may_be_one_family() -> None:
    random = np.random.default_rng(3)
    values = [(random.random((80, 3)) < [0.2, 0.4, 0.6]).astype(np.float64) for _ in range(2)]
    first, second = np.triu_indices(3, 1)
    p = [p_of_pairs(part, first, second, flips=400) for part in values]
    together = correct_pairs(p, values)
    assert [test.p[first, second].tolist() for test in together] == holm(np.concatenate(p)).reshape(2, 3).tolist()
    assert {int(size) for test in together for size in test.sizes[first, second]} == {6}


def test_a_pair_is_corrected_on_the_board_of_the_references_and_itself() -> None:
    values = (np.random.default_rng(1).random((90, 7)) < np.linspace(0.2, 0.7, 7)).astype(np.float64)
    references = np.array([True, False, True, False, True, True, False])
    raw = np.ones((7, 7))
    first, second = np.triu_indices(7, 1)
    raw[first, second] = raw[second, first] = p_of_pairs(values, first, second, flips=400)
    tests = pairwise_tests(values, references=references, flips=400)
    corrected = tests.p
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        board = sorted({*np.flatnonzero(references).tolist(), one, other})
        pairs = [(i, j) for i in board for j in board if i < j]
        at = pairs.index((one, other))
        assert corrected[one, other] == corrected[other, one] == holm([raw[pair] for pair in pairs])[at]
        assert tests.sizes[one, other] == len(pairs)


KINDS = ("copy", "near copy", "noise", "above", "below", "perfect", "large")


def challenger(kind: str, values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    base: NDArray[np.float64] = values[:, int(random.integers(values.shape[1]))].copy()
    if kind == "near copy":
        base += random.choice([0.0, 1e-9, 0.001, 0.1]) * random.normal(size=len(base))
    if kind == "noise":
        return (random.random(len(base)) < random.random()).astype(np.float64)
    if kind in {"above", "below"}:
        base[random.integers(len(base))] = float(kind == "above")
    return {"perfect": np.ones_like(base), "large": 1e6 * base}.get(kind, base)


@given(
    st.integers(2, 5),
    st.integers(20, 50),
    st.integers(0, 10**6),
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 10**6)), min_size=1, max_size=6),
    st.data(),
)
@settings(deadline=None, max_examples=40)
def test_a_challenger_changes_nothing_of_references_and_of_other_challengers(
    count: int, queries: int, seed: int, made: list[tuple[str, int]], data: st.DataObject
) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 4, (queries, count)) / 3
    units = np.unique(random.integers(0, queries, queries), return_inverse=True)[1]
    whole = np.column_stack([values, *(challenger(kind, values, number) for kind, number in made)])
    # In any order of entry.
    order = np.array(data.draw(st.permutations(range(whole.shape[1]))))
    whole, references = whole[:, order], order < count

    def board(members: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        own, part = references[members], whole[:, members]
        pairs = pairwise_tests(part, units, own, flips=200).p
        return pairs, rank_ranges(part, pairs, own)

    everybody = np.arange(len(order))
    pairs, ranks = board(everybody)
    alone = np.flatnonzero(references)
    for members in (alone, *(np.sort(np.append(alone, one)) for one in np.flatnonzero(~references))):
        few = board(members)
        assert pairs[np.ix_(members, members)].tolist() == few[0].tolist()
        for i, system in enumerate(members):
            if references[system] and len(members) > len(alone):
                continue
            assert ranks[system].tolist() == few[1][i].tolist()


def test_pairs_that_are_not_tested_are_not_corrected() -> None:
    p = np.array([0.01, 0.02, 0.03, 0.02, 0.03, np.nan])
    corrected = correct_pairs([p], [np.eye(4)], np.array([True, True, False, False]))[0].p
    assert np.isnan(corrected[2, 3])
    # On a board of three: 0.01, 0.02, 0.02; of the two references there is one pair.
    assert corrected[0].tolist() == [1.0, 0.01, 0.04, 0.06]
