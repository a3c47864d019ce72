"""Tiers and rank intervals: by hand, and what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.stats.bootstrap import resampled_sums
from bench.stats.multiple import holm
from bench.stats.tiers import correct_pairs, p_of_pairs, pairwise_tests, rank_intervals, tiers


def test_systems_that_are_far_apart_have_one_rank_each() -> None:
    values = np.random.default_rng(0).normal(0, 0.1, (100, 3)) + np.array([0.0, 2.0, 1.0])
    assert rank_intervals(values).tolist() == [[3, 3], [1, 1], [2, 2]]


def test_systems_that_cannot_be_told_apart_share_their_ranks() -> None:
    random = np.random.default_rng(1)
    values = random.normal(0, 1, (200, 4)) + np.array([0.0, 0.0, 5.0, 0.0])
    intervals = rank_intervals(values)
    assert intervals[2].tolist() == [1, 1]
    assert intervals[[0, 1, 3]].tolist() == [[2, 4]] * 3


def test_identical_systems_hold_all_the_ranks_that_they_share() -> None:
    base = np.random.default_rng(2).normal(0, 1, 50)
    intervals = rank_intervals(np.column_stack([base, base, base + 9, base]))
    assert intervals.tolist() == [[2, 4], [2, 4], [1, 1], [2, 4]]
    assert rank_intervals(np.full((9, 3), 0.1)).tolist() == [[1, 3]] * 3


def test_means_that_differ_by_rounding_alone_are_equal() -> None:
    # Every resample of one is a resample of the other times 1 + 1e-16 or so.
    base = np.resize([0.1, 0.2, 0.3], 30)
    assert rank_intervals(np.column_stack([base, (base * 3) / 3, base + 1e-16])).tolist() == [[1, 3]] * 3


def test_the_interval_is_that_of_counted_ranks() -> None:
    values = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    # Of the 256 resamples, the second leads with three or four of its one query: 13 of 256, 5.1%.
    assert rank_intervals(values, level=0.92).tolist() == [[1, 2], [1, 2]]
    assert rank_intervals(values, level=0.5).tolist() == [[1, 2], [1, 2]]  # a tie, 54 of 256, is both
    assert rank_intervals(values, level=0.3).tolist() == [[1, 1], [2, 2]]


@pytest.mark.parametrize("resamples", [6, 8])
@pytest.mark.parametrize("level", [0.3, 0.5, 0.9])
def test_the_ends_are_ranks_of_resamples_taken_outwards(resamples: int, level: float) -> None:
    """The best rank is the order statistic below (1 - level) / 2, the worst the one above (1 + level) / 2."""
    values = np.random.default_rng(7).integers(0, 5, (12, 6)).astype(np.float64)
    means = resampled_sums(values, resamples, np.random.default_rng(3))
    intervals = rank_intervals(values, level, resamples, seed=3)
    parted = 0
    for system in range(6):
        best = sorted(1 + int((row > row[system]).sum()) for row in means)
        worst = sorted(int((row >= row[system]).sum()) for row in means)
        low, high = (resamples - 1) * (1 - level) / 2, (resamples - 1) * (1 + level) / 2
        assert intervals[system].tolist() == [best[math.floor(low)], worst[math.ceil(high)]]
        parted += best[math.floor(low)] != best[math.ceil(low)] or worst[math.floor(high)] != worst[math.ceil(high)]
    assert parted, "another rule would give other ranks"


def test_with_a_single_query_every_rank_is_possible() -> None:
    assert rank_intervals(np.array([[0.1, 0.9, 0.5]])).tolist() == [[1, 3]] * 3
    assert rank_intervals(np.array([[0.1]])).tolist() == [[1, 1]]


def test_a_wider_level_holds_the_narrower_and_the_seed_decides() -> None:
    values = np.random.default_rng(3).normal(0, 1, (60, 6)) + np.arange(6) * 0.1
    narrow, wide = rank_intervals(values, 0.5), rank_intervals(values, 0.99)
    assert (wide[:, 0] <= narrow[:, 0]).all()
    assert (narrow[:, 1] <= wide[:, 1]).all()
    assert (narrow != wide).any()
    assert (rank_intervals(values, seed=1) == rank_intervals(values, seed=1)).all()


@pytest.mark.parametrize("values", [np.zeros((0, 2)), np.zeros((2, 0)), np.zeros(3), np.array([[np.nan, 1.0]])])
def test_what_is_no_table_of_numbers_is_refused(values: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        rank_intervals(values)


@pytest.mark.parametrize("level", [0.0, 1.0, np.nan])
def test_a_level_outside_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        rank_intervals(np.ones((2, 2)), level)


def table(size: int, **pairs: float) -> NDArray[np.float64]:
    p = np.ones((size, size))
    for pair, value in pairs.items():
        one, other = ("abcdef".index(letter) for letter in pair)
        p[one, other] = p[other, one] = value
    return p


def test_tiers_by_hand() -> None:
    means = np.array([0.5, 0.9, 0.8, 0.4])
    # b, c | a, d: a can be told from b, though not from c; d not from a.
    assert tiers(means, table(4, ab=0.01, bd=0.01, cd=0.02)).tolist() == [2, 1, 1, 2]
    assert tiers(means, table(4)).tolist() == [1, 1, 1, 1]
    assert tiers(means, np.zeros((4, 4))).tolist() == [3, 1, 2, 4]
    assert tiers(means, table(4, ab=0.05, bd=0.04)).tolist() == [1, 1, 1, 2]
    assert tiers(means, table(4, ab=0.05, bd=0.04), level=0.06).tolist() == [2, 1, 1, 2]


def test_a_system_known_to_be_worse_than_another_than_the_first_of_a_tier_leaves_it_too() -> None:
    # Means a > b > c; c is told from b alone: the two err on the same queries.
    assert tiers(np.array([0.9, 0.8, 0.7]), table(3, bc=0.01)).tolist() == [1, 1, 2]


def test_few_systems() -> None:
    assert tiers(np.array([]), np.ones((0, 0))).tolist() == []
    # d stands between a and b, differs from both, and is no reference: it parts nobody.
    means, floor = np.array([0.9, 0.7, 0.6, 0.8]), np.array([True, True, True, False])
    assert tiers(means, table(4, ad=0.01, bd=0.01)).tolist() == [1, 3, 3, 2]
    assert tiers(means, table(4, ad=0.01, bd=0.01), references=floor).tolist() == [1, 1, 1, 2]
    assert tiers(means, table(4, ad=0.01), references=np.zeros(4, dtype=np.bool_)).tolist() == [1, 2, 2, 2]
    assert tiers(np.array([0.3]), np.ones((1, 1))).tolist() == [1]


@given(
    st.integers(1, 8).flatmap(
        lambda n: st.tuples(*[st.lists(st.floats(0, 1), min_size=k, max_size=k) for k in (n, n * n)])
    )
)
def test_no_two_of_a_tier_can_be_told_apart_and_tiers_follow_the_means(drawn: tuple[list[float], list[float]]) -> None:
    means = np.array(drawn[0])
    square = np.array(drawn[1]).reshape(len(means), -1)
    p = np.minimum(square, square.T)
    np.fill_diagonal(p, 1.0)
    result = tiers(means, p, level=0.3)
    assert sorted(set(result.tolist())) == list(range(1, result.max() + 1))
    assert (np.diff(result[np.argsort(-means, kind="stable")]) >= 0).all()
    same = result[:, None] == result
    assert (p[same] >= 0.3).all()


def test_what_is_no_table_of_p_values_is_refused() -> None:
    for p in (np.ones((2, 3)), np.full((2, 2), np.nan), np.full((2, 2), 1.1), np.array([[1.0, 0.1], [0.2, 1.0]])):
        with pytest.raises(ValueError, match="symmetric"):
            tiers(np.array([0.1, 0.2]), p)
    with pytest.raises(ValueError, match="finite"):
        tiers(np.array([0.1, np.nan]), np.ones((2, 2)))


def test_challengers_are_placed_by_hand() -> None:
    # References a > c > e in tiers 1, 1, 2; challengers b, d, f, and one that is better than all.
    means = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 1.0])
    references = np.array([True, False, True, False, True, False, False])
    p = table(7, ae=0.01, ab=0.01, bc=0.01, cd=0.02, de=0.001, ef=0.2)
    p[6, :6] = p[:6, 6] = 0.001
    assert tiers(means, p, references=references).tolist() == [1, 2, 1, 2, 2, 2, 1]
    # Whether two challengers differ is not read: it may not be known.
    p[1, 3] = p[3, 1] = np.nan
    assert tiers(means, p, references=references).tolist() == [1, 2, 1, 2, 2, 2, 1]


def test_a_challenger_is_ranked_among_the_references_and_itself() -> None:
    values = np.random.default_rng(0).normal(0, 0.1, (100, 6)) + np.array([0.0, 2.0, 1.0, 1.5, 1.5, 9.0])
    references = np.array([True] * 3 + [False] * 3)
    assert rank_intervals(values, references=references).tolist() == [[3, 3], [1, 1], [2, 2], [2, 2], [2, 2], [1, 1]]
    assert rank_intervals(values[:1], references=references).tolist() == [[1, 3]] * 3 + [[1, 4]] * 3


def test_a_pair_is_corrected_on_the_board_of_the_references_and_itself() -> None:
    values = (np.random.default_rng(1).random((90, 7)) < np.linspace(0.2, 0.7, 7)).astype(np.float64)
    references = np.array([True, False, True, False, True, True, False])
    raw = np.ones((7, 7))
    first, second = np.triu_indices(7, 1)
    raw[first, second] = raw[second, first] = p_of_pairs(values, first, second, flips=400)
    corrected = pairwise_tests(values, references=references, flips=400)
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        board = sorted({*np.flatnonzero(references).tolist(), one, other})
        pairs = [(i, j) for i in board for j in board if i < j]
        at = pairs.index((one, other))
        assert corrected[one, other] == corrected[other, one] == holm([raw[pair] for pair in pairs])[at]


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

    def board(members: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        own, part = references[members], whole[:, members]
        pairs = pairwise_tests(part, units, own, flips=200)
        ranks = rank_intervals(part, resamples=200, units=units, references=own)
        return pairs, tiers(part.mean(axis=0), pairs, references=own), ranks

    everybody = np.arange(len(order))
    pairs, tier, ranks = board(everybody)
    alone = np.flatnonzero(references)
    for members in (alone, *(np.sort(np.append(alone, one)) for one in np.flatnonzero(~references))):
        few = board(members)
        assert pairs[np.ix_(members, members)].tolist() == few[0].tolist()
        for i, system in enumerate(members):
            if references[system] and len(members) > len(alone):
                continue
            assert (tier[system], *ranks[system]) == (few[1][i], *few[2][i])


@pytest.mark.parametrize("units", [None, np.arange(40) // 2])
def test_a_system_of_large_values_does_not_coarsen_the_others(units: NDArray[np.int64] | None) -> None:
    random = np.random.default_rng(0)
    first = random.integers(0, 4, 40) / 3
    # Better by a billionth on every query: so it is on every resample.
    values = np.column_stack([first, random.integers(0, 4, 40) / 3, first + 1e-9, 1e6 * first])
    references = np.array([True, True, False, False])
    assert rank_intervals(values, units=units, references=references)[2, 1] == 2
    few = rank_intervals(values[:, :3], units=units, references=references[:3])
    assert rank_intervals(values, units=units, references=references)[:3].tolist() == few.tolist()


def test_pairs_that_are_not_tested_are_not_corrected() -> None:
    p = np.array([0.01, 0.02, 0.03, 0.02, 0.03, np.nan])
    corrected = correct_pairs(p, np.eye(4), np.array([True, True, False, False]))
    assert np.isnan(corrected[2, 3])
    # On a board of three: 0.01, 0.02, 0.02; of the two references there is one pair.
    assert corrected[0].tolist() == [1.0, 0.01, 0.04, 0.06]
