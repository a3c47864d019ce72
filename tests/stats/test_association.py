"""Rank correlations and calibrated forecasts, against SciPy and scikit-learn, and their bootstrap by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import kendalltau

from bench.stats.association import (
    brier_skill,
    cross_fitted,
    difference_p,
    folds_of,
    kendall_tau_b,
    logistic_ridge,
    tau_b_with_success,
    unit_draws,
)

FEW = st.integers(0, 4).map(float)


def same(mine: float, theirs: float) -> bool:
    return (np.isnan(mine) and np.isnan(theirs)) or mine == pytest.approx(theirs, abs=1e-12)


@given(st.lists(st.tuples(FEW, FEW), min_size=2, max_size=12))
def test_tau_b_is_that_of_scipy(pairs: list[tuple[float, float]]) -> None:
    first, second = np.array(pairs).T
    assert same(float(kendall_tau_b(first, second)), float(kendalltau(first, second).statistic))


@given(st.lists(st.tuples(FEW, st.booleans(), st.integers(0, 3)), min_size=2, max_size=12))
def test_tau_b_with_success_is_that_of_the_drawn_queries(rows: list[tuple[float, bool, int]]) -> None:
    values, success, times = (np.array(column) for column in zip(*rows, strict=True))
    mine = tau_b_with_success(values, success, times[None, :].astype(np.float64))[0]
    drawn = np.repeat(np.arange(len(rows)), times)
    theirs = kendalltau(values[drawn], success[drawn]).statistic if len(drawn) > 1 else np.nan
    assert same(float(mine), float(theirs))


def test_values_that_hardly_repeat() -> None:
    random = np.random.default_rng(4)
    values, success = random.integers(0, 300, 400).astype(np.float64), random.random(400) < 0.4
    draws = unit_draws(np.arange(400) // 2, 3)
    for tau, times in zip(tau_b_with_success(values, success, draws), draws, strict=True):
        drawn = np.repeat(np.arange(400), times.astype(np.int64))
        assert same(float(tau), float(kendalltau(values[drawn], success[drawn]).statistic))


def test_infinite_values_are_tied_with_each_other() -> None:
    # Two methods without a hit: one concordant pair with each, and a tie.
    assert kendall_tau_b(np.array([-np.inf, -np.inf, 1.0]), np.array([0.0, 0.0, 0.5])) == 1.0


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_draws_keep_the_queries_of_a_unit_together(raw: list[int]) -> None:
    units = np.unique(raw, return_inverse=True)[1].astype(np.int64)
    draws = unit_draws(units, 50, seed=3)
    assert draws.shape == (50, len(raw))
    for unit in np.unique(units):
        of_unit = draws[:, units == unit]
        assert (of_unit == of_unit[:, :1]).all()
    first = np.unique(units, return_index=True)[1]
    assert (draws[:, first].sum(axis=1) == len(first)).all()
    assert np.array_equal(draws, unit_draws(units, 50, seed=3))


def example(n: int = 240) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    """Values from 0 to 1, of which 0 rules out success, as recall does."""
    random = np.random.default_rng(5)
    values = random.choice([0.0, 0.5, 1.0], n)
    folds = folds_of([f"unit {i // 3}" for i in range(n)])
    return values, random.random(n) < 0.7 * values, folds


def test_the_forecast_is_that_of_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    values, success, folds = example()
    assert len(set(folds.tolist())) == 10
    model = make_pipeline(StandardScaler(), linear.LogisticRegression(tol=1e-10, max_iter=1000))
    split = {"groups": folds, "cv": LeaveOneGroupOut()}
    theirs = cross_val_predict(model, values[:, None], success, method="predict_proba", **split)[:, 1]
    fitted, rate = cross_fitted(values, success, folds)
    assert fitted == pytest.approx(theirs, abs=1e-6)
    by_hand = np.array([success[folds != fold].mean() for fold in folds])
    assert rate == pytest.approx(by_hand, abs=1e-12)
    skill = brier_skill(fitted[:, None], rate[:, None], success[:, None], np.ones((1, len(values))))[0]
    assert skill == pytest.approx(1 - ((theirs - success) ** 2).mean() / ((by_hand - success) ** 2).mean(), abs=1e-6)
    assert 0.2 < skill < 0.6


def test_no_unit_is_forecast_by_a_fit_that_saw_it() -> None:
    values, success, folds = example()
    before = cross_fitted(values, success, folds)[0]
    held = folds == folds[0]
    changed = np.where(held, ~success, success)
    after = cross_fitted(values, changed, folds)[0]
    assert np.array_equal(before[held], after[held])
    assert not np.allclose(before[~held], after[~held])


def test_what_does_not_vary_forecasts_the_base_rate() -> None:
    _, success, folds = example()
    fitted, rate = cross_fitted(np.ones(len(folds)), success, folds)
    assert np.array_equal(fitted, rate)
    fitted, rate = cross_fitted(np.arange(len(folds), dtype=np.float64), np.ones_like(success), folds)
    assert (fitted == 1).all()


def boards(seed: int, count: int) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Simulated boards: successes of eight systems on 120 queries in 60 units of two alike."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        units = np.repeat(np.arange(60), 2)
        hard = random.normal(0, 0.15, 60)[units]
        chance = np.clip(np.linspace(0.3, 0.6, 8) + hard[:, None], 0, 1)
        made.append(((random.random((120, 8)) < chance).astype(np.float64), units))
    return made


def test_a_random_metric_has_an_interval_that_holds_zero() -> None:
    random = np.random.default_rng(1)
    held = 0
    for i, (success, units) in enumerate(boards(0, 200)):
        draws = unit_draws(units, 300, seed=i)
        metric = random.normal(size=(60, 8))[units] + random.normal(size=(60, 1))[units]
        taus = kendall_tau_b(draws @ metric, draws @ success)
        low, high = np.quantile(taus[~np.isnan(taus)], (0.025, 0.975))
        held += low <= 0 <= high
    # 95% at least, but for chance: the chance of fewer than 182 at 95% is 1 in 500.
    assert held >= 182


def test_equal_predictors_differ_in_one_of_twenty_boards_at_most() -> None:
    random = np.random.default_rng(2)
    found = 0
    for i, (success, units) in enumerate(boards(1, 200)):
        draws = np.concatenate([np.ones((1, 120)), unit_draws(units, 300, seed=i)])
        noise = random.normal(0, 0.5, (2, 120, 8))
        one, other = (kendall_tau_b(draws @ (success + each), draws @ success) for each in noise)
        found += difference_p(float(one[0] - other[0]), (one - other)[1:]) < 0.05
    assert found <= 19


def test_a_difference_that_never_varies_is_none() -> None:
    assert difference_p(0.0, np.zeros(99)) == 1.0
    # By hand: all draws on one side, none as far from their mean as the difference from zero.
    assert difference_p(0.5, np.full(99, 0.5)) == pytest.approx(2 / 100)


@pytest.mark.parametrize("seed", range(3))
def test_the_regression_is_that_of_scikit_learn(seed: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    random = np.random.default_rng(seed)
    features = np.column_stack([np.ones(200), random.normal(size=(200, 3)) * [1, 5, 30]])
    found = random.random(200) < 1 / (1 + np.exp(-features[:, 1] - features[:, 2]))
    model = linear_model.LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    np.testing.assert_allclose(
        logistic_ridge(features, found.astype(np.float64), np.ones(features.shape[1])),
        model.fit(features, found).coef_[0],
        atol=1e-5,
    )


def test_the_regression_stays_finite_where_all_agree_and_where_a_line_parts_them() -> None:
    ones = np.ones((500, 1))
    (weight,) = logistic_ridge(ones, np.ones(500), np.ones(1))
    # By hand: the derivative of the penalised likelihood is 0 where 500 * (1 - p) = weight.
    assert 500 * (1 - 1 / (1 + np.exp(-weight))) == pytest.approx(weight)
    line = np.column_stack([ones, np.linspace(-2, 2, 500)])
    assert np.abs(logistic_ridge(line, (line[:, 1] > 0).astype(np.float64), np.ones(2))).max() < 20
