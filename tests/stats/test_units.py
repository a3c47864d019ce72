"""Units of independence: sums, robust errors and effective numbers by hand, by matrices, and by properties."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import stdtrit

from bench.stats.bootstrap import bca_intervals
from bench.stats.classical import paired_t
from bench.stats.units import (
    dependence,
    design_effect,
    effective_units,
    intraclass_correlation,
    robust_mean,
    singletons,
    unit_sums,
)

VALUES = st.sampled_from([-1.0, -0.5, 0.0, 0.0, 0.1, 1 / 3, 0.5, 1.0])


@st.composite
def grouped(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(queries, 2) values and the units of the queries, at least two."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=9))
    units = np.repeat(np.arange(len(sizes)), sizes)
    values = draw(st.lists(VALUES, min_size=2 * len(units), max_size=2 * len(units)))
    return np.reshape(values, (-1, 2)), np.array(draw(st.permutations(units.tolist())), dtype=np.int64)


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([-0.0, 0.0, 0.1, -0.1, 1e16, 1.0, 1 / 3])), min_size=1))
def test_sums_are_exact_to_the_last_bit(drawn: list[tuple[int, float]]) -> None:
    codes = np.unique([unit for unit, _ in drawn], return_inverse=True)[1]
    values = np.array([value for _, value in drawn])
    expected = [math.fsum(values[codes == unit].tolist()) for unit in range(codes.max() + 1)]
    assert unit_sums(values[:, None], codes)[0][:, 0].tobytes() == np.array(expected).tobytes()


def test_sums_and_sizes_by_hand() -> None:
    values = np.array([[1.0, 0.1], [0.5, 0.2], [0.0, 0.3], [0.25, 0.4]])
    sums, sizes = unit_sums(values, np.array([1, 0, 1, 0]))
    np.testing.assert_allclose(sums, [[0.75, 0.6], [1.0, 0.4]], rtol=1e-14)
    assert sizes.tolist() == [2, 2]


def test_the_robust_error_by_hand() -> None:
    # Units {1, 0} and {1} and {0}: n = 4, m = 1/2; S - n m = 0, 1/2, -1/2; 1 - n_g / n = 1/2, 3/4, 3/4.
    # V = (1/16) (0 + (1/4) / (3/4) + (1/4) / (3/4)) = 1/24.
    means, errors, freedom = robust_mean(np.array([[1.0], [0.0], [1.0], [0.0]]), np.array([0, 0, 1, 2]))
    assert means.tolist() == [0.5]
    assert errors[0] == pytest.approx((1 / 24) ** 0.5)
    # w = 4 / (1/2), 1 / (3/4), 1 / (3/4) = 8, 4/3, 4/3: (1/16) / (6/256 + ((32/3)² - 64 - 32/9) / 4096) = 1.86...
    assert freedom[0] == pytest.approx((1 / 16) / (6 / 256 + ((32 / 3) ** 2 - 64 - 32 / 9) / 4096))


def matrices(y: NDArray[np.float64], units: NDArray[np.int64]) -> tuple[float, float]:
    """CR2 variance and Satterthwaite degrees of freedom of a constant's coefficient, by matrices, as clubSandwich does.

    A_g = (I - H_gg)^(-1/2), V = M Σ X_g' A_g e_g e_g' A_g X_g M, and df = tr(P)² / tr(P P) for the quadratic form
    V = y' (Σ p_g p_g') y with p_g = (I - H)_g' A_g X_g M under the working model of independent queries.
    """
    n = len(y)
    design = np.ones((n, 1))
    bread = np.linalg.inv(design.T @ design)
    hat = design @ bread @ design.T
    residuals = (np.eye(n) - hat) @ y
    variance, columns = 0.0, []
    for unit in np.unique(units):
        rows = units == unit
        values = np.eye(int(rows.sum())) - hat[np.ix_(rows, rows)]
        eigenvalues, vectors = np.linalg.eigh(values)
        root = vectors @ np.diag(eigenvalues**-0.5) @ vectors.T
        weights = root @ design[rows] @ bread
        variance += float(weights[:, 0] @ residuals[rows]) ** 2
        columns.append((np.eye(n) - hat)[rows].T @ weights[:, 0])
    gram = np.array(columns) @ np.array(columns).T
    return variance, float(np.trace(gram) ** 2 / (gram * gram).sum())


@given(grouped())
@settings(deadline=None, max_examples=60)
def test_the_closed_form_is_that_of_the_matrices(drawn: tuple[NDArray[np.float64], NDArray[np.int64]]) -> None:
    values, units = drawn
    _, errors, freedom = robust_mean(values, units)
    for column in range(2):
        variance, degrees = matrices(values[:, column], units)
        assert errors[column] ** 2 == pytest.approx(variance, abs=1e-12)
        assert freedom[column] == pytest.approx(degrees)


def test_errors_are_those_of_clubsandwich_and_statsmodels() -> None:
    """Figures of R's clubSandwich 0.5.8 (`coef_test(lm(y ~ 1), "CR2", cluster, "Satterthwaite")` and `conf_int`).

    Of statsmodels 0.15 (`OLS(y, 1).fit(cov_type="cluster")` without corrections) it is the root of the sum of squares
    of the units' residual sums over n, which CR2 corrects.
    """
    sizes = [1, 2, 2, 3, 4, 5, 7]
    units = np.repeat(np.arange(7), sizes)
    values = np.array([[((5 * i * i + 3 * i) % 9 - 4) / 8] for i in range(24)])
    means, errors, freedom = robust_mean(values, units)
    assert means[0] == pytest.approx(-0.0677083333333334, rel=1e-13)
    assert errors[0] == pytest.approx(0.0710528778112843, rel=1e-13)
    assert freedom[0] == pytest.approx(4.39350505370562, rel=1e-13)
    assert paired_t(values, units)[0] == pytest.approx(0.390057202956472, rel=1e-12)
    reach = stdtrit(freedom[0], 0.975) * errors[0]
    conf_int = [-0.258206094315714, 0.122789427649047]
    assert [means[0] - reach, means[0] + reach] == pytest.approx(conf_int, rel=1e-12)
    # Ours reaches at least as far, for skewness and for what seven sums tell of their own spread.
    low, high = bca_intervals(values, units=units)[0]
    assert low <= conf_int[0]
    assert high >= conf_int[1]
    residuals = unit_sums(values - means, units)[0][:, 0]
    assert math.sqrt((residuals**2).sum()) / 24 == pytest.approx(0.06685577697283315, rel=1e-13)
    # A unit that holds the share h of the queries is corrected by 1 / (1 - h).
    corrected = residuals**2 / (1 - np.array(sizes) / 24)
    assert math.sqrt(corrected.sum()) / 24 == pytest.approx(errors[0], rel=1e-13)


def test_the_error_is_without_bias_for_independent_queries_whatever_the_units() -> None:
    random = np.random.default_rng(0)
    units = np.repeat(np.arange(8), [1, 1, 2, 3, 3, 4, 8, 10])
    _, errors, _ = robust_mean(random.normal(size=(32, 20_000)), units)
    # The variance of the mean is 1/32; the standard error of this average is 0.5%.
    assert np.mean(errors**2) * 32 == pytest.approx(1.0, abs=0.025)


def test_units_of_one_query_give_the_usual_error_of_a_mean() -> None:
    values = np.random.default_rng(1).normal(size=(30, 3))
    means, errors, freedom = robust_mean(values, np.random.default_rng(2).permutation(30))
    np.testing.assert_allclose(means, values.mean(axis=0), rtol=0, atol=1e-15)
    np.testing.assert_allclose(errors, values.std(axis=0, ddof=1) / 30**0.5, rtol=1e-12)
    np.testing.assert_allclose(freedom, 29, rtol=1e-12)


@given(grouped(), st.data())
@settings(deadline=None, max_examples=40)
def test_neither_the_order_of_queries_nor_the_numbers_of_units_matter(
    drawn: tuple[NDArray[np.float64], NDArray[np.int64]], data: st.DataObject
) -> None:
    values, units = drawn
    order = np.array(data.draw(st.permutations(range(len(units)))))
    names = np.array(data.draw(st.permutations(range(units.max() + 1))))
    for mine, other in zip(robust_mean(values, units), robust_mean(values[order], names[units[order]]), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-15)
    assert unit_sums(values[order], units[order])[0].tobytes() == unit_sums(values, units)[0].tobytes()
    assert effective_units(units) == effective_units(names[units[order]])


@given(grouped(), st.integers(2, 4))
@settings(deadline=None, max_examples=40)
def test_queries_that_are_repeated_within_their_units_tell_nothing_new(
    drawn: tuple[NDArray[np.float64], NDArray[np.int64]], times: int
) -> None:
    values, units = drawn
    again = robust_mean(np.repeat(values, times, axis=0), np.repeat(units, times))
    for mine, other in zip(robust_mean(values, units)[:2], again[:2], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-15)
    assert effective_units(np.repeat(units, times)) == pytest.approx(effective_units(units))


def test_a_column_s_bits_do_not_depend_on_the_others() -> None:
    values = np.random.default_rng(3).normal(size=(200, 7))
    units = np.random.default_rng(4).integers(0, 40, 200)
    units = np.unique(units, return_inverse=True)[1]
    together = robust_mean(values, units)
    for column in range(7):
        alone = robust_mean(values[:, [column]], units)
        assert [part[column] for part in together] == [part[0] for part in alone]


def test_a_single_unit_says_nothing_of_the_spread() -> None:
    means, errors, freedom = robust_mean(np.array([[1.0], [0.0]]), np.zeros(2, dtype=np.int64))
    assert means.tolist() == [0.5]
    assert np.isnan(errors).all()
    assert freedom.tolist() == [0.0]


def test_units_of_one_mean_do_not_vary() -> None:
    # Tenths do not add up to whole numbers in binary.
    values = np.array([[0.1], [0.2], [0.3], [0.3], [0.2], [0.1]])
    assert robust_mean(values, np.array([0, 0, 0, 1, 1, 1]))[1].tolist() == [0.0]


def test_effective_units_by_hand() -> None:
    assert effective_units(np.arange(7)) == 7
    assert effective_units(np.repeat(np.arange(5), 4)) == 5
    # Sizes 3 and 1: 16 / 10.
    assert effective_units(np.array([0, 0, 1, 0])) == 1.6
    assert effective_units(np.zeros(9, dtype=np.int64)) == 1


def test_effective_units_are_what_a_mean_of_equal_queries_is_worth() -> None:
    random = np.random.default_rng(5)
    units = np.repeat(np.arange(10), [1, 1, 1, 1, 2, 2, 3, 5, 8, 12])
    means = random.normal(size=(10, 40_000))[units].mean(axis=0)
    assert 1 / means.var() == pytest.approx(effective_units(units), rel=0.03)


def test_the_intraclass_correlation_by_hand() -> None:
    units = np.array([0, 0, 1, 1])
    # Mean squares: between 2 (1/4 + 1/4) = 1, within 0.
    assert intraclass_correlation(np.array([[1.0], [1.0], [0.0], [0.0]]), units).tolist() == [1.0]
    # Between 0, within (4 / 4) / 2 = 1/2; n0 = 2: (0 - 1/2) / (0 + 1/2).
    assert intraclass_correlation(np.array([[1.0], [0.0], [1.0], [0.0]]), units).tolist() == [-1.0]
    # Unequal units {1, 1, 0}, {0}: means 2/3, 0 and 1/2; MSB = 3/36 + 1/4 = 1/3, MSW = (2/3) / 2 = 1/3.
    assert intraclass_correlation(np.array([[1.0], [1.0], [0.0], [0.0]]), np.array([0, 0, 0, 1]))[0] == pytest.approx(0)


def test_the_intraclass_correlation_is_that_of_the_population() -> None:
    random = np.random.default_rng(6)
    units = np.repeat(np.arange(400), random.integers(1, 8, 400))
    values = 0.6**0.5 * random.normal(size=(400, 20))[units] + 0.4**0.5 * random.normal(size=(len(units), 20))
    assert intraclass_correlation(values, units).mean() == pytest.approx(0.6, abs=0.02)
    # Kish's 1 + (Σ n_g² / n - 1) rho for these sizes.
    sizes = np.bincount(units)
    expected = 1 + ((sizes**2).sum() / len(units) - 1) * 0.6
    assert design_effect(values, units).mean() == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("units", [np.zeros(4, dtype=np.int64), np.arange(4)])
def test_a_correlation_that_is_not_defined_is_nan(units: NDArray[np.int64]) -> None:
    assert np.isnan(intraclass_correlation(np.array([[1.0], [0.0], [1.0], [0.0]]), units)).all()
    assert np.isnan(intraclass_correlation(np.full((4, 1), 0.1), np.array([0, 0, 1, 1]))).all()


def test_the_design_effect_by_hand() -> None:
    values = np.array([[1.0], [1.0], [0.0], [0.0]])
    assert design_effect(values, np.arange(4))[0] == pytest.approx(1.0)
    # Residuals of the sums are 1 and -1: V = (1 + 1) / (1/2) / 16 = 1/4, where s² / n = (1/3) / 4 = 1/12.
    assert design_effect(values, np.array([0, 0, 1, 1]))[0] == pytest.approx(3.0)
    assert np.isnan(design_effect(np.full((4, 1), 0.1), np.array([0, 0, 1, 1]))).all()


def test_singletons_and_the_order_of_units() -> None:
    assert singletons(np.array([2, 0, 1]))
    assert not singletons(np.array([0, 0, 1]))
    assert dependence(None, 3) is None
    assert dependence(np.array([2, 0, 1]), 3) is None
    ordered = dependence(np.array([2, 0, 2, 1]), 4)
    assert ordered is not None
    assert ordered.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    "units", [np.array([0, 2]), np.array([-1, 0]), np.array([0.0, 1.0]), np.array([[0], [1]]), np.array([1, 1])]
)
def test_units_that_are_no_codes_are_refused(units: NDArray[Any]) -> None:
    for function in (singletons, effective_units, lambda codes: dependence(codes, 2)):
        with pytest.raises(ValueError, match="units must be"):
            function(units)


def test_units_of_other_queries_are_refused() -> None:
    for function in (unit_sums, robust_mean, design_effect, intraclass_correlation):
        with pytest.raises(ValueError, match="each query"):
            function(np.zeros((3, 1)), np.array([0, 1]))
    with pytest.raises(ValueError, match="each query"):
        dependence(np.array([0, 1]), 3)
    with pytest.raises(ValueError, match="no queries"):
        effective_units(np.zeros(0, dtype=np.int64))
