"""The paired randomisation test: by hand, against scipy's, at its limits; and what is reported with its p-value."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import permutation_test

from bench.stats.exact import as_integers
from bench.stats.paired import compare
from bench.stats.randomisation import FLIPS, MOST_ENUMERATED, randomisation_test


def test_by_hand() -> None:
    # d = 1, 2, 3: of the 8 sign vectors, +++ and --- give |sum| 6, no other as much: p = 2/8.
    assert randomisation_test(np.array([[1.0], [2.0], [3.0]])) == [0.25]
    # d = 1, 1, -1: |sum| is 1 or 3, always at least 1.
    assert randomisation_test(np.array([[1.0], [1.0], [-1.0]])) == [1.0]
    # Five wins of the same size and two ties: 2 of 32 vectors.
    assert randomisation_test(np.array([[0.5], [0.5], [0.0], [0.5], [0.5], [0.0], [0.5]])) == [2 / 32]


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_identical_systems_have_p_one(n: int) -> None:
    assert randomisation_test(np.zeros((n, 3))).tolist() == [1.0, 1.0, 1.0]


def test_columns_are_tested_each_for_itself() -> None:
    random = np.random.default_rng(1)
    table = np.column_stack(
        [random.normal(0.3, 1, 60), np.zeros(60), np.where(np.arange(60) < 5, 0.5, 0), random.normal(0, 1, 60)]
    )
    together = randomisation_test(table)
    assert together[1] == 1.0
    assert together[2] == 2 / 32
    for column in (1, 2):
        assert randomisation_test(table[:, [column]]) == together[column]
    # A sampled column alone has flips of its own only where other columns have rows that it has not.
    assert randomisation_test(table[:, [0, 3]]) == pytest.approx(together[[0, 3]], abs=0.01)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [2, 5, 11, MOST_ENUMERATED])
def test_few_differences_equal_scipy_s_exact_test(n: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-3, 5, n) / 3
    theirs = permutation_test((values,), np.mean, permutation_type="samples", n_resamples=2**n)
    assert randomisation_test(values[:, None])[0] == pytest.approx(theirs.pvalue, abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.2, 0.3])
def test_many_differences_equal_scipy_s_within_monte_carlo_error(shift: float) -> None:
    values = np.random.default_rng(3).normal(shift, 1, 80)
    ours = randomisation_test(values[:, None])[0]
    theirs = float(
        permutation_test(
            (values,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(4), batch=5000
        ).pvalue
    )
    assert ours == pytest.approx(theirs, abs=4 * math.sqrt(max(theirs, 1e-3) / 20_000))


def test_the_smallest_sampled_p_counts_the_one_found() -> None:
    assert randomisation_test(np.ones((40, 1))) == [1 / (1 + FLIPS)]
    assert randomisation_test(np.ones((40, 1)), flips=999) == [1 / 1000]


def test_seventeen_are_sampled_and_sixteen_enumerated() -> None:
    values = np.ones((17, 1))
    assert randomisation_test(values[:16]) == [2 / 2**16]
    assert randomisation_test(values) != [2 / 2**17]
    assert randomisation_test(values)[0] == pytest.approx(2 / 2**17, abs=1e-4)


def test_sums_that_differ_by_rounding_alone_are_equal() -> None:
    # Tenths: 0.1 + 0.2 is not 0.3 in binary, but the flip that turns one into the other is as extreme.
    values = np.array([0.1, 0.2, -0.3, 0.1, 0.2, -0.3, 0.6])
    exact = randomisation_test(np.round(values * 10)[:, None])[0]
    assert randomisation_test(values[:, None])[0] == exact
    # The same on the sampled side, and whatever the scale.
    table = np.tile(values, 5)[:, None]
    whole = randomisation_test(np.round(table * 10))
    assert randomisation_test(table) == pytest.approx(whole, abs=1e-12)
    assert randomisation_test(table / 3) == pytest.approx(whole, abs=1e-12)


def plain(values: NDArray[np.float64], flips: int, seed: int = 0) -> NDArray[np.float64]:
    """The sampled test as its definition has it, one float64 product; the reference for the fast one."""
    whole, _ = as_integers(values)
    queries, totals = len(whole), whole.sum(axis=0)
    words = math.ceil(len(whole) / 64)
    drawn = np.random.default_rng(seed).integers(0, 1 << 64, size=(flips, words), dtype=np.uint64).astype("<u8")
    kept = np.unpackbits(drawn.view(np.uint8), axis=1, count=len(whole)).astype(np.float64)
    hits = (np.abs(2 * (kept @ whole) - totals) >= np.abs(totals) - queries).sum(axis=0)
    result: NDArray[np.float64] = (1 + hits) / (1 + flips)
    return result


SHAPES = {
    "shares": lambda random, n: random.integers(-6, 7, n) / 6,
    "hits": lambda random, n: random.choice([-1.0, 0.0, 0.0, 1.0], n),
    "reciprocal ranks": lambda random, n: 1 / random.integers(1, 30, n) - 1 / random.integers(1, 30, n),
    "gains": lambda random, n: random.normal(0.05, 0.3, n),
    "weighted hits": lambda random, n: random.choice([-1.0, 0.0, 1.0], n) * 0.7310585786300049,
    "two weights": lambda random, n: random.choice([-1.0, 1.0], n) * np.resize([np.pi, np.e], n),
    "balanced": lambda random, n: np.resize([1 / 3, -1 / 3], n),
    "balanced and no share": lambda random, n: np.resize([np.pi, -np.pi, np.e, -np.e], n),
    "one outlier": lambda random, n: np.append(random.normal(0, 1e-6, n - 1), 1e4),
    "small": lambda random, n: random.normal(0, 1e-11, n),
    "nearly noise": lambda random, n: random.normal(0, 1e-14, n),
    "large": lambda random, n: random.integers(-9, 10, n) * 1e12,
    "wide": lambda random, n: 10.0 ** random.uniform(-9, 9, n) * random.choice([-1.0, 1.0], n),
    "same": lambda random, n: np.full(n, 0.1),
}


@pytest.mark.parametrize("n", [40, 301])
def test_the_fast_product_gives_the_p_of_the_plain_one_to_the_last_bit(n: int) -> None:
    random = np.random.default_rng(9)
    table = np.column_stack([shape(random, n) for shape in SHAPES.values()])
    assert randomisation_test(table, 4000, 1).tolist() == plain(table, 4000, 1).tolist()


@given(st.sampled_from(sorted(SHAPES)), st.integers(20, 90), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_so_it_does_for_any_column_alone(shape: str, n: int, seed: int) -> None:
    values = SHAPES[shape](np.random.default_rng(seed), n)[:, None]
    if np.count_nonzero(as_integers(values)[0]) > MOST_ENUMERATED:
        assert randomisation_test(values, 500) == plain(values, 500)


def test_noise_is_no_difference() -> None:
    values = np.full((50, 1), 1e-17)
    assert randomisation_test(values) == [1.0]
    (result,) = compare(values)
    assert (result.wins, result.ties, result.losses) == (0, 50, 0)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1 / 3, 0.5, 1.0]), min_size=1, max_size=14), st.integers(0, 5))
@settings(deadline=None, max_examples=50)
def test_neither_order_nor_direction_nor_ties_matter(values: list[float], ties: int) -> None:
    table = np.array(values)[:, None]
    p = randomisation_test(table)
    assert 0 < p[0] <= 1
    assert randomisation_test(-table) == p
    assert randomisation_test(table[::-1]) == p
    assert randomisation_test(np.vstack([table, np.zeros((ties, 1))])) == p


def test_the_same_seed_gives_the_same_p_and_another_seed_another() -> None:
    values = np.random.default_rng(5).normal(0.2, 1, (70, 2))
    again = [randomisation_test(values, flips=2000, seed=seed).tolist() for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]


@pytest.mark.parametrize("block", [1, 70 * 7])
def test_the_flips_do_not_depend_on_where_blocks_end(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    # 70 queries: a block holds fewer than one flip, or 7.
    values = np.random.default_rng(6).normal(0.2, 1, (70, 2))
    whole = randomisation_test(values, flips=3000)
    monkeypatch.setattr("bench.stats.randomisation._BLOCK", block)
    assert randomisation_test(values, flips=3000).tolist() == whole.tolist()


def test_memory_does_not_grow_with_the_flips() -> None:
    values = np.random.default_rng(7).normal(0.1, 1, (2000, 1))

    def peak(flips: int) -> int:
        tracemalloc.start()
        randomisation_test(values, flips=flips)
        traced_memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return traced_memory

    assert peak(20_000) < 1.2 * peak(5_000)


def test_the_test_keeps_its_size() -> None:
    """Under the hypothesis, p < 0.05 comes in one of twenty; so a test that is too eager fails here."""
    random = np.random.default_rng(8)
    table = random.choice([-1.0, -0.5, 0.0, 0.0, 0.5, 1.0], (40, 400))
    p = randomisation_test(table, flips=1000)
    assert 0.02 < (p < 0.05).mean() < 0.08


def test_a_comparison_by_hand() -> None:
    (result,) = compare(np.array([[0.5], [0.5], [0.0], [-0.5], [0.0]]))
    assert (result.n, result.wins, result.ties, result.losses) == (5, 2, 2, 1)
    assert result.difference == pytest.approx(0.1)
    assert result.p == 1.0  # of the 8 sign vectors, all have |sum| 0.5 or 1.5
    sd = np.std([0.5, 0.5, 0, -0.5, 0], ddof=1)
    assert result.dz == pytest.approx(0.1 / sd)
    assert result.detectable == pytest.approx((1.959964 + 0.841621) * sd / math.sqrt(5), rel=1e-5)
    # With five queries no difference has p below 0.05: none can be left out.
    assert (result.low, result.high) == (None, None)


def test_a_single_query_has_no_interval() -> None:
    (result,) = compare(np.array([[0.5]]))
    assert (result.low, result.high, result.dz, result.p) == (None, None, None, 1.0)


def test_the_mean_of_groups_counts_every_group_the_same() -> None:
    # Group 0: differences 1, 1; group 1: 0, 0, 0, 0. The mean of means is 0.5, the plain mean a third.
    table = np.array([[1.0], [1.0], [0.0], [0.0], [0.0], [0.0]])
    groups = np.array([0, 0, 1, 1, 1, 1])
    assert compare(table)[0].difference == pytest.approx(1 / 3)
    (result,) = compare(table, groups)
    assert result.difference == pytest.approx(0.5)
    assert result.p == 0.5  # two sign vectors of four
    # Nothing varies within a group, which says nothing of the spread.
    assert result.low is None
    assert result.high is None
    assert result.detectable == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("values", [np.zeros((0, 1)), np.array([[np.nan]]), np.array([[np.inf]]), np.zeros(3)])
def test_what_is_no_table_of_numbers_is_refused(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        compare(values)


def test_a_p_value_does_not_depend_on_what_is_tested_beside_it() -> None:
    random = np.random.default_rng(4)
    one = np.where(random.random((200, 1)) < 0.7, 0.0, random.normal(0.02, 0.3, size=(200, 1)))
    others = random.normal(size=(200, 5))
    alone = randomisation_test(one, flips=2000)
    beside = randomisation_test(np.concatenate([one, others], axis=1), flips=2000)
    assert alone[0] == beside[0]
