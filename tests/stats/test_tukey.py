"""Randomised Tukey HSD: by enumeration, compared with the test of two systems, at its limits, and its error rate."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.stats.paired import randomisation_test
from bench.stats.tukey import randomised_tukey


def enumerated(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of all tables of permuted rows whose range is at least each pair's difference."""
    orders = [[np.array(order) for order in itertools.permutations(row)] for row in values]
    ranges = np.array([np.ptp(sum(rows)) for rows in itertools.product(*orders)])
    sums = values.sum(axis=0)
    return np.array([[(ranges >= abs(one - other) - 1e-9).mean() for other in sums] for one in sums])


def test_p_values_are_those_of_all_permutations_within_monte_carlo_error() -> None:
    values = np.random.default_rng(0).integers(0, 4, (5, 3)) / 3 + np.array([0.0, 0.1, 0.5])
    exact = enumerated(values)
    assert exact.min() < 0.2
    found = randomised_tukey(values, permutations=40_000)
    np.testing.assert_allclose(found, exact, rtol=0, atol=4 * 0.5 / math.sqrt(40_000))


def test_two_systems_by_hand() -> None:
    # d = 1, 2, 3: of the 8 ways to swap, two give a range of 6; so p is near 1/4.
    values = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    assert randomised_tukey(values, 20_000)[0, 1] == pytest.approx(0.25, abs=0.015)


def test_two_systems_have_the_p_of_the_paired_randomisation_test() -> None:
    values = np.random.default_rng(1).normal(0, 1, (80, 2)) + np.array([0.0, 0.25])
    alone = randomisation_test(values[:, [1]] - values[:, [0]])[0]
    assert 0.001 < alone < 0.5
    assert randomised_tukey(values)[0, 1] == pytest.approx(alone, abs=4 * math.sqrt(alone / 10_000))


def test_more_systems_make_the_same_difference_less_sure() -> None:
    values = np.random.default_rng(2).normal(0, 1, (60, 8)) + np.array([0.0, 0.4] + [0.2] * 6)
    assert randomised_tukey(values)[0, 1] > 2 * randomised_tukey(values[:, :2])[0, 1]


def test_the_table_is_symmetric_its_diagonal_one_and_p_falls_as_means_move_apart() -> None:
    values = np.random.default_rng(3).normal(0, 1, (40, 5)) + np.arange(5) * 0.2
    p = randomised_tukey(values, 2000)
    assert (p == p.T).all()
    assert (np.diag(p) == 1.0).all()
    apart = np.abs(values.mean(axis=0)[:, None] - values.mean(axis=0)).ravel()
    assert (np.diff(p.ravel()[np.argsort(apart)]) <= 0).all()
    assert p.min() < 0.05 < p[~np.eye(5, dtype=bool)].max()


def test_the_smallest_p_counts_the_table_found() -> None:
    values = np.tile([0.0, 1.0], (60, 1))
    assert randomised_tukey(values, 999)[0, 1] == 1 / 1000


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (7, 1), (30, 3)])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 / 3])
def test_identical_systems_have_p_one(shape: tuple[int, int], value: float) -> None:
    p = randomised_tukey(np.full(shape, value), 50)
    assert p.shape == (shape[1], shape[1])
    assert (p == 1.0).all()


def test_two_identical_systems_beside_a_third() -> None:
    base = np.random.default_rng(4).random(50)
    p = randomised_tukey(np.column_stack([base, base, base + 0.5]), 1000)
    assert p[0, 1] == 1.0
    assert p[0, 2] == p[1, 2] < 0.01


def test_a_single_query_says_nothing() -> None:
    # Any order has the same range; the pair that is farthest apart is always as far.
    assert randomised_tukey(np.array([[0.0, 0.5, 1.0]]), 100)[0, 2] == 1.0


def test_sums_that_differ_by_rounding_alone_are_equal() -> None:
    values = np.array([[0.1, 0.3], [0.2, 0.0], [0.3, 0.1], [0.1, 0.3], [0.2, 0.6]] * 4)
    whole = randomised_tukey(np.round(values * 10), 3000)
    assert 0.01 < whole[0, 1] < 1
    assert randomised_tukey(values, 3000).tolist() == whole.tolist()
    assert randomised_tukey(values / 3, 3000).tolist() == whole.tolist()


@pytest.mark.parametrize("block", [1, 120 * 7])
def test_the_permutations_do_not_depend_on_where_blocks_end(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    values = np.random.default_rng(5).normal(0, 1, (30, 4))
    whole = randomised_tukey(values, 700)
    assert randomised_tukey(values, 700, seed=1).tolist() != whole.tolist()
    # 120 values: a block holds less than one permutation, or 7.
    monkeypatch.setattr("bench.stats.tukey._BLOCK", block)
    assert randomised_tukey(values, 700).tolist() == whole.tolist()


def test_memory_does_not_grow_with_the_permutations() -> None:
    values = np.random.default_rng(6).normal(0, 1, (2000, 5))

    def peak(permutations: int) -> int:
        tracemalloc.start()
        randomised_tukey(values, permutations)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(1000) < 1.2 * peak(200)


def test_one_family_in_twenty_finds_something_in_nothing() -> None:
    """Of six pairs tested one by one, it would be one in seven."""
    random = np.random.default_rng(7)
    tables = random.choice([0.0, 0.5, 1.0], (300, 25, 4))
    found = sum(randomised_tukey(table, 200).min() < 0.05 for table in tables)
    # Of 300 at 0.05: 15 expected, standard deviation 3.8.
    assert 4 <= found <= 28


@pytest.mark.parametrize("values", [np.zeros((0, 2)), np.zeros((2, 0)), np.zeros(3), np.array([[np.nan, 1.0]])])
def test_what_is_no_table_of_numbers_is_refused(values: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        randomised_tukey(values)


def test_the_order_of_the_systems_makes_no_difference() -> None:
    values = np.random.default_rng(3).integers(0, 3, size=(60, 4)) / 2
    order = [2, 0, 3, 1]
    p = randomised_tukey(values, 500)
    assert randomised_tukey(values[:, order], 500).tolist() == p[np.ix_(order, order)].tolist()
