"""The classical tests: by hand, column by column as scipy has them, and an answer for every input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats

from bench.stats.classical import paired_t, tied_ranks, wilcoxon

TESTS = (paired_t, wilcoxon)


def test_t_by_hand() -> None:
    # d = 1, 2, 3: mean 2, sd 1, t = 2 √3 with 2 degrees of freedom; there p = 1 - t / √(t² + 2) = 1 - √(12/14).
    assert paired_t(np.array([[1.0], [2.0], [3.0]])) == pytest.approx([1 - math.sqrt(12 / 14)])


def test_signed_ranks_by_hand() -> None:
    # All five positive: 2 of the 32 sign vectors have a rank sum as extreme; a tie with zero is left out.
    assert wilcoxon(np.array([[0.1], [0.2], [0.0], [0.3], [0.4], [0.5]])) == pytest.approx([2 / 32])


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_tested_as_scipy_tests_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    table = np.column_stack(
        [random.normal(0.2, 1, 40), random.choice([-0.5, 0, 0, 0.5, 1], 40), random.normal(0, 9, 40)]
    )
    assert paired_t(table) == pytest.approx([stats.ttest_rel(column, np.zeros(40)).pvalue for column in table.T])
    assert wilcoxon(table) == pytest.approx([stats.wilcoxon(column[column != 0]).pvalue for column in table.T])


@given(st.lists(st.sampled_from([-1.0, -0.5, -1 / 3, -0.1, 0.1, 0.5, 1.0, 2.0]), min_size=2, max_size=9))
@settings(max_examples=40)
def test_few_differences_are_enumerated_as_scipy_does(values: list[float]) -> None:
    assert wilcoxon(np.array(values)[:, None])[0] == pytest.approx(stats.wilcoxon(values).pvalue, abs=1e-12)


@given(st.data(), st.integers(2, 70), st.booleans())
@settings(max_examples=60)
def test_more_differences_are_tested_as_scipy_does(data: st.DataObject, count: int, tied: bool) -> None:
    sizes = st.integers(1, 12) if tied else st.integers(1, 10**6)
    signed = st.tuples(sizes, st.sampled_from([-1, 1])).map(lambda pair: pair[0] * pair[1] / 8)
    unique = None if tied else abs
    values = np.array(data.draw(st.lists(signed, min_size=count, max_size=count, unique_by=unique)))
    expected = [stats.wilcoxon(values).pvalue, stats.ttest_1samp(values, 0.0).pvalue if np.ptp(values) else 0.0]
    assert wilcoxon(values[:, None])[0] == pytest.approx(expected[0], rel=1e-9, abs=1e-300)
    assert paired_t(values[:, None])[0] == pytest.approx(expected[1], rel=1e-9, abs=1e-300)


@given(arrays(np.float64, st.integers(0, 30), elements=st.sampled_from([-2.5, -1.0, 0.0, 0.5, 0.5000001, 7.0])))
def test_tied_values_share_the_mean_of_their_ranks(values: NDArray[np.float64]) -> None:
    assert tied_ranks(values).tolist() == stats.rankdata(values).tolist()


def test_up_to_thirteen_differences_are_enumerated() -> None:
    values = [0.5, -0.5, 1.0, 0.25, 0.5, -0.25, 1.0, 1.0, 0.5, -1.0, 0.25, 0.5, 0.5, -0.25]
    for count in (13, 14):
        assert wilcoxon(np.array(values[:count])[:, None])[0] == pytest.approx(stats.wilcoxon(values[:count]).pvalue)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_identical_systems_have_p_one(test: object, n: int) -> None:
    for values in (np.zeros((n, 2)), np.tile([[1e-17, -1e-17]], (n, 1)), np.resize([0.0, 1e-17], (n, 2))):
        assert test(values).tolist() == [1.0, 1.0]  # type: ignore[operator]


@pytest.mark.parametrize("test", TESTS)
def test_a_single_query_says_nothing(test: object) -> None:
    assert test(np.array([[0.5, 0.0, -3.0]])).tolist() == [1.0, 1.0, 1.0]  # type: ignore[operator]


@pytest.mark.parametrize("value", [0.5, 0.1, -1 / 3, 1e9 / 3])
@pytest.mark.parametrize("n", [2, 3, 30, 1000])
def test_differences_that_are_all_the_same_have_an_infinite_t(n: int, value: float) -> None:
    noise = value * (1 + 1e-15 * np.resize([0.0, 1.0, -1.0], n))
    assert paired_t(np.column_stack([np.full(n, value), noise])).tolist() == [0.0, 0.0]


def test_ranks_are_shared_by_sizes_that_differ_by_rounding_alone() -> None:
    values = np.array([0.1 + 0.2, -0.3, 0.6, 0.1, -0.2, 0.7 - 0.1, 0.4])
    assert wilcoxon(values[:, None]) == pytest.approx(wilcoxon(np.round(values * 10)[:, None]))


def test_a_column_without_information_does_not_disturb_the_others() -> None:
    column = np.random.default_rng(4).normal(0.3, 1, 30)
    for test in TESTS:
        p = test(np.column_stack([np.zeros(30), column, np.full(30, 0.5)]))
        assert p[0] == 1.0
        assert p[1] == test(column[:, None])[0]


NUMBERS = st.sampled_from([0.0, -1.0, -0.5, 1 / 3, 0.5, 1.0, 1e-17, 0.1 + 0.2, 0.3, 1e-13, 1e6])


@settings(deadline=None, max_examples=60)
@given(st.lists(NUMBERS, min_size=1, max_size=12), st.sampled_from(TESTS))
def test_every_column_has_a_p_that_direction_does_not_change(values: list[float], test: object) -> None:
    table = np.array(values)[:, None]
    p = test(table)[0]  # type: ignore[operator]
    assert 0 <= p <= 1
    assert test(-table)[0] == pytest.approx(p)  # type: ignore[operator]


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("values", [np.zeros((0, 1)), np.array([[np.nan]]), np.array([[np.inf]]), np.zeros(3)])
def test_what_is_no_table_of_numbers_is_refused(test: object, values: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        test(values)  # type: ignore[operator]
