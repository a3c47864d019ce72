"""Intervals of bounded values: exact ones of zeros and ones, a plain Bayesian bootstrap, coverage, and the gate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import beta

from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import ENOUGH, SHARE, Span, bounded_intervals, few_differ
from bench.stats.noninferiority import at_least, non_inferiority
from bench.stats.paired import compare


def interval(values: NDArray[np.float64], span: Span, level: float = 0.95) -> tuple[float, float]:
    low, high = bounded_intervals(values[:, None], None, span, level, 40_000, 0)[0]
    return float(low), float(high)


@pytest.mark.parametrize(("ones", "n"), [(0, 20), (1, 30), (3, 20), (10, 20), (29, 30), (100, 100)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_zeros_and_ones_have_the_exact_interval(ones: int, n: int, level: float) -> None:
    low, high = interval(np.repeat([0.0, 1.0], [n - ones, ones]), SHARE, level)
    tail = (1 - level) / 2
    assert low == pytest.approx(beta.ppf(tail, ones, n - ones + 1) if ones else 0.0, abs=0.004)
    assert high == pytest.approx(beta.ppf(1 - tail, ones + 1, n - ones) if ones < n else 1.0, abs=0.004)


def test_other_values_have_the_quantiles_of_a_plain_bayesian_bootstrap() -> None:
    values = np.array([0.0] * 12 + [1 / 3, 0.5, 0.5, 1.0])
    random = np.random.default_rng(1)
    weights = random.dirichlet(np.ones(17), 40_000)
    low = np.quantile(weights @ np.append(values, 0.0), 0.025)
    high = np.quantile(weights @ np.append(values, 1.0), 0.975)
    assert interval(values, SHARE) == pytest.approx((low, high), abs=0.006)


def test_units_weigh_by_their_queries() -> None:
    units = np.repeat(np.arange(10), [1, 1, 2, 2, 2, 3, 3, 4, 5, 7])
    values = (units == 3).astype(float)
    sizes = np.bincount(units)
    random = np.random.default_rng(2)
    weights = random.standard_exponential((40_000, 11))
    extra = (sizes**2).sum() / 30
    held, total = 2 * weights[:, 3], weights[:, :10] @ sizes + extra * weights[:, 10]
    low = np.quantile(held / total, 0.025)
    high = np.quantile((held + extra * weights[:, 10]) / total, 0.975)
    bounded_interval = bounded_intervals(values[:, None], units, SHARE, 0.95, 40_000, 0)[0]
    # The units without it count by a gamma variable of the same mean and variance.
    assert bounded_interval == pytest.approx((low, high), abs=0.015)


def test_units_of_one_size_without_any_other_value_are_so_many_queries() -> None:
    low, high = bca_intervals(np.zeros((90, 1)), units=np.arange(90) // 3, span=Span(-1, 1))[0]
    assert high == pytest.approx(1 - 0.025 ** (1 / 30), abs=0.006)
    assert low == pytest.approx(-high, abs=0.01)


def test_units_that_differ_are_counted() -> None:
    column = np.append(np.zeros(100), np.full(ENOUGH, 0.5))
    table = np.column_stack([column, 1 - column, column * 2 / 3 + 0.1, np.append(column[1:], 0.0)])
    assert few_differ(table, None).tolist() == [False] * 4
    assert few_differ(table[:-1], None).tolist() == [True] * 3 + [False]
    # Two of the queries with another value share a unit.
    units = np.minimum(np.arange(100 + ENOUGH), 98 + ENOUGH)
    assert few_differ(table, units).tolist() == [True] * 3 + [False]


@given(st.lists(st.sampled_from([0.0, 0.0, 0.0, 1 / 3, 0.5, 1.0]), min_size=2, max_size=60), st.data())
@settings(deadline=None, max_examples=40)
def test_the_interval_holds_the_mean_within_the_span_in_any_order(values: list[float], data: st.DataObject) -> None:
    table = np.array(values)[:, None]
    result = bca_intervals(table, resamples=500, span=Span(0, 1))
    assert 0 <= result[0, 0] <= table.mean() + 1e-9
    assert table.mean() - 1e-9 <= result[0, 1] <= 1
    if few_differ(table, None)[0]:
        order = data.draw(st.permutations(range(len(table))))
        assert bca_intervals(table[order], resamples=500, span=Span(0, 1)).tolist() == result.tolist()


def test_where_enough_units_differ_no_bit_changes() -> None:
    random = np.random.default_rng(3)
    ordinary = random.integers(0, 5, (80, 3)) / 4
    plain = bca_intervals(ordinary, resamples=500)
    assert bca_intervals(ordinary, resamples=500, span=Span(0, 1)).tolist() == plain.tolist()
    rare = np.column_stack([ordinary, np.arange(80) < ENOUGH - 1, np.arange(80) < ENOUGH]).astype(float)
    with_span = bca_intervals(rare, resamples=500, span=Span(0, 1))
    without = bca_intervals(rare, resamples=500)
    assert (with_span == without).all(axis=1).tolist() == [True, True, True, False, True]


def test_a_column_s_interval_does_not_depend_on_the_others() -> None:
    values = np.zeros((40, 3))
    values[:4, 1] = 1
    values[:9, 2] = 0.5
    together = bca_intervals(values, resamples=500, span=Span(0, 1))
    for column in range(3):
        assert (
            bca_intervals(values[:, [column]], resamples=500, span=Span(0, 1))[0].tolist() == together[column].tolist()
        )


def test_an_interval_of_units_ends_with_the_span() -> None:
    # Forty units of one query, none of the same value as another, and one of thirty.
    values = np.append(np.linspace(0.9, 0.99, 40), np.full(30, 0.05))[:, None]
    units = np.append(np.arange(40), np.full(30, 40))
    assert bca_intervals(values, units=units)[0, 1] > 1
    assert bca_intervals(values, units=units, span=Span(0, 1))[0, 1] == 1


def test_values_outside_the_span_are_refused() -> None:
    for function in (
        lambda: bca_intervals(np.array([[0.5], [1.5]]), span=Span(0, 1)),
        lambda: compare(np.array([[0.5], [-1.5]]), span=Span(-1, 1)),
        lambda: non_inferiority(np.array([[0.5], [-1.5]]), 0.02, span=Span(-1, 1)),
        lambda: at_least(np.array([[0.5], [-0.5]]), 0.5, span=Span(0, 1)),
    ):
        with pytest.raises(ValueError, match="must lie between"):
            function()


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("mean", [0.02, 0.1, 0.9, 0.98])
def test_intervals_of_rare_values_cover(mean: float, n: int) -> None:
    """Without the span, 0.31 of them do at a mean of 0.02 and 20 queries."""
    sample = (np.random.default_rng(5).random((n, 400)) < mean).astype(float)
    low, high = bca_intervals(sample, resamples=500, span=Span(0, 1)).T
    # The exact intervals cover at least 0.95; the standard error is 0.011.
    assert ((low <= mean) & (mean <= high)).mean() > 0.93


@pytest.mark.parametrize("n", [30, 100])
def test_a_rare_loss_of_the_margin_passes_no_more_often_than_stated(n: int) -> None:
    """At n = 30 it is in no query of half of the samples, which says nothing."""
    lost = -(np.random.default_rng(6).random((n, 400)) < 0.02).astype(float)
    judged = non_inferiority(lost, 0.02, span=Span(-1, 1))
    assert sum(item.verdict == "pass" for item in judged) / 400 <= 0.07
    assert sum(item.verdict == "regression" for item in judged) / 400 <= 0.07


def test_no_difference_is_a_sample_like_any_other_if_the_span_is_known() -> None:
    # The bound is -(1 - 0.05^(1/n)), which is above -0.02 from 149 queries on.
    for n, verdict in ((30, "inconclusive"), (140, "inconclusive"), (160, "pass")):
        (result,) = non_inferiority(np.zeros((n, 1)), 0.02, span=Span(-1, 1))
        assert result.verdict == verdict
        assert result.lower is not None
        assert result.lower == pytest.approx(-(1 - 0.05 ** (1 / n)), abs=0.005)
        assert (result.needed is None) == (verdict == "pass")
        if result.needed is not None:
            assert result.needed == pytest.approx(149, rel=0.1)
        assert result.detectable == pytest.approx(-result.lower)
    # Without it, nothing is known of how far another query may lie.
    assert non_inferiority(np.zeros((30, 1)), 0.02)[0].verdict == "inconclusive"


def test_the_number_needed_decides_if_the_sample_stays_as_it_is() -> None:
    sample = np.append(np.zeros(58), [-0.5, -0.5])[:, None]
    (result,) = non_inferiority(sample, 0.05, span=Span(-1, 1))
    assert result.verdict == "inconclusive"
    assert result.needed is not None
    times = math.ceil(result.needed / 60)
    assert non_inferiority(np.tile(sample, (times, 1)), 0.05, span=Span(-1, 1))[0].verdict == "pass"


def test_a_comparison_of_identical_systems_allows_for_differences_not_seen() -> None:
    (result,) = compare(np.zeros((50, 1)), span=Span(-1, 1))
    assert result.high == pytest.approx(1 - 0.025 ** (1 / 50), abs=0.006)
    assert (result.difference, result.p, result.wins, result.losses) == (0.0, 1.0, 0, 0)
    # Of two groups, the weight of one query is that of its group.
    (result,) = compare(np.zeros((50, 1)), np.repeat([0, 1], [40, 10]), span=Span(-1, 1))
    assert result.high == pytest.approx((1 - 0.025 ** (1 / 50)) * 50 / 20, abs=0.02)
