"""The variance within and between queries: by hand, by NumPy and SciPy, as properties, and by simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats

from bench.stats.repeats import decompose, narrowing, repeat_means
from bench.stats.units import robust_mean

SHARES = st.sampled_from([0.0, 0.1, 0.2, 1 / 3, 0.7, 1.0])
TABLES = arrays(np.float64, st.tuples(st.integers(2, 7), st.integers(2, 12), st.just(2)), elements=SHARES)


def singles(queries: int) -> NDArray[np.int64]:
    return np.arange(queries, dtype=np.int64)


def test_a_table_by_hand() -> None:
    # Three queries, two repeats: variances 0.5, 0, 0.5 within; means 0.5, 1, 0.5, whose variance is 1/12.
    values = np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])[:, :, None]
    result = decompose(values, singles(3))
    assert result.within[0] == pytest.approx(1 / 3)
    assert result.error[0] ** 2 == pytest.approx(1 / 12 / 3)
    # Chance alone would make the means vary by 1/6: more than they do.
    assert result.between[0] == 0
    assert result.share[0] == 1


@given(TABLES)
def test_independent_queries_agree_with_numpy_and_scipy(values: NDArray[np.float64]) -> None:
    repeats, queries, _ = values.shape
    result = decompose(values, singles(queries))
    means = values.mean(axis=0)
    within = values.var(axis=0, ddof=1).mean(axis=0)
    error = np.atleast_1d(stats.sem(means, axis=0))
    np.testing.assert_allclose(result.within, within, atol=1e-12)
    np.testing.assert_allclose(result.error, error, atol=1e-9)
    between = np.maximum(0, means.var(axis=0, ddof=1) - within / repeats)
    np.testing.assert_allclose(result.between, between, atol=1e-9)
    for i in np.flatnonzero((error > 1e-6) & (result.between > 0)):
        # Var(mean) = (between + within / K) / n, and the share of chance is its second term.
        whole = (result.between[i] + result.within[i] / repeats) / queries
        assert whole == pytest.approx(error[i] ** 2)
        assert result.share[i] == pytest.approx(result.within[i] / repeats / queries / whole)


@given(TABLES, st.data())
def test_dependent_queries_split_the_robust_error_by_sums_of_units(values: NDArray[np.float64], data: Any) -> None:
    repeats, queries, columns = values.shape
    drawn = data.draw(arrays(np.int64, queries, elements=st.integers(0, 3)))
    units = np.unique(drawn, return_inverse=True)[1].astype(np.int64)
    result = decompose(values, units)
    _, error, _ = robust_mean(values.mean(axis=0), units)
    for i in range(columns):
        sums = np.array([[values[r, units == unit, i].sum() for unit in np.unique(units)] for r in range(repeats)])
        assert result.within[i] == pytest.approx(sums.var(axis=0, ddof=1).sum() / queries, abs=1e-12)
        if len(np.unique(units)) == 1:
            assert np.isnan([result.error[i], result.between[i], result.share[i]]).all()
        elif error[i] > 1e-6 and result.between[i] > 0:
            whole = (result.between[i] + result.within[i] / repeats) / queries
            assert whole == pytest.approx(error[i] ** 2)


@given(TABLES)
def test_chance_that_the_queries_of_a_unit_share_counts_once(values: NDArray[np.float64]) -> None:
    # Every query twice, with the same answers: as much is known of chance as from each query once.
    once = decompose(values, singles(values.shape[1]))
    twice = decompose(np.repeat(values, 2, axis=1), np.repeat(singles(values.shape[1]), 2))
    np.testing.assert_allclose(twice.error, once.error, atol=1e-9)
    large = once.error > 1e-6
    np.testing.assert_allclose(twice.share[large], once.share[large], atol=1e-9)


@given(arrays(np.float64, (9, 3), elements=st.floats(0, 1)), st.integers(2, 9), st.booleans())
def test_equal_repeats_are_one_run_to_the_last_bit(values: NDArray[np.float64], repeats: int, dependent: bool) -> None:
    copies = np.stack([values] * repeats)
    assert repeat_means(copies).tobytes() == values.tobytes()
    units = np.arange(9, dtype=np.int64) // 2 if dependent else singles(9)
    result = decompose(copies, units)
    assert (result.within == 0).all()
    assert (result.share == 0).all()
    _, error, _ = robust_mean(values, units)
    assert result.error.tobytes() == error.tobytes()


@given(TABLES)
def test_means_keep_within_the_span_and_do_not_mind_queries_without_a_value(values: NDArray[np.float64]) -> None:
    values[:, 0] = np.nan
    means = repeat_means(values)
    assert np.isnan(means[0]).all()
    assert ((means[1:] >= 0) & (means[1:] <= 1)).all()
    np.testing.assert_allclose(means[1:], values[:, 1:].mean(axis=0), atol=1e-12)


def test_a_single_repeat_is_refused() -> None:
    with pytest.raises(ValueError, match="says nothing about chance"):
        decompose(np.zeros((1, 3, 1)), singles(3))


@settings(max_examples=30)
@given(st.floats(0, 1), st.floats(1, 50))
def test_more_repeats_narrow_by_the_part_of_chance_that_they_take_away(share: float, more: float) -> None:
    # Of a squared error of 1, the share of chance falls to a part of it.
    assert narrowing(share, more) == pytest.approx(1 - math.sqrt(1 - share + share / more), abs=1e-9)
    assert 0 <= narrowing(share, more) <= narrowing(share) + 1e-12
    assert narrowing(share) == pytest.approx(1 - math.sqrt(1 - share), abs=1e-9)


def simulated(
    rng: np.random.Generator, samples: int, queries: int, repeats: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(samples, repeats, queries) zeros and ones; each query has a probability of its own, 0.6 on average."""
    worth = rng.beta(1.2, 0.8, size=(samples, 1, queries))
    return (rng.random((samples, repeats, queries)) < worth).astype(np.float64), worth[:, 0]


def test_the_parts_are_without_bias() -> None:
    rng = np.random.default_rng(1)
    values, _ = simulated(rng, samples=2000, queries=30, repeats=4)
    # All samples side by side: each is a column.
    result = decompose(np.moveaxis(values, 0, 2), singles(30))
    spread = stats.beta(1.2, 0.8)
    within = spread.mean() - spread.moment(2)
    assert result.within.mean() == pytest.approx(within, rel=0.02)
    # Not truncated at 0 here, since so much of the variance is between queries.
    assert result.between.mean() == pytest.approx(spread.var(), rel=0.05)
    means = values.mean(axis=(1, 2))
    assert (result.error**2).mean() == pytest.approx(means.var(), rel=0.1)
    chance = result.within.mean() / 4 / 30
    assert chance / (result.error**2).mean() == pytest.approx(within / 4 / (spread.var() + within / 4), rel=0.05)


@pytest.mark.parametrize("repeats", [2, 5])
def test_intervals_over_the_means_of_queries_cover_and_those_over_all_answers_do_not(repeats: int) -> None:
    rng = np.random.default_rng(2)
    queries, samples, truth = 30, 2000, 0.6
    values, _ = simulated(rng, samples, queries, repeats)
    means, error, freedom = robust_mean(np.moveaxis(values.mean(axis=1), 0, 1), singles(queries))
    covered = np.abs(means - truth) <= stats.t.ppf(0.975, freedom) * error
    assert 0.93 <= covered.mean() <= 0.97
    flat = values.reshape(samples, -1).T
    means, error, freedom = robust_mean(flat, singles(repeats * queries))
    naive = np.abs(means - truth) <= stats.t.ppf(0.975, freedom) * error
    assert naive.mean() < 0.925
