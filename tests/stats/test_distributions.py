"""Student's t distribution: by its closed forms, and as scipy has it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit

from bench.stats.distributions import student_quantiles, student_tails


def tail_of(t: float, freedom: float) -> float:
    return float(student_tails(t, freedom)[0])


def quantile(tail: float, freedom: float) -> float:
    return float(student_quantiles(tail, freedom)[0])


FREEDOM = st.one_of(st.integers(1, 200).map(float), st.floats(1.0, 1e5))
#: Where scipy itself is right to so many digits.
CLOSE = 1e-12


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 1.5, 2.0, 12.7, 1e6])
def test_tails_of_one_and_of_two_degrees_of_freedom_have_closed_forms(t: float) -> None:
    assert tail_of(t, 1.0) == pytest.approx(math.atan2(1.0, t) / math.pi, rel=1e-14)
    root = math.sqrt(t * t + 2)
    assert tail_of(t, 2.0) == pytest.approx(1 / (root * (root + t)), rel=1e-14)


@pytest.mark.parametrize("tail", [1e-12, 1e-9, 0.025, 0.05, 0.1, 0.25, 0.49])
def test_quantiles_of_one_and_of_two_degrees_of_freedom_have_closed_forms(tail: float) -> None:
    assert quantile(tail, 1.0) == pytest.approx(1 / math.tan(math.pi * tail), rel=1e-14)
    assert quantile(tail, 2.0) == pytest.approx((1 - 2 * tail) / math.sqrt(2 * tail * (1 - tail)), rel=1e-14)


@given(FREEDOM, st.floats(0.0, 40.0))
@example(1.0, 1e-7)
def test_tails_are_scipy_s(freedom: float, t: float) -> None:
    # Near zero scipy is the less exact one: with one degree of freedom the tail is 1/2 - arctan(t) / pi.
    close = CLOSE if t > 1e-3 else 1e-10
    assert tail_of(t, freedom) == pytest.approx(float(stdtr(freedom, -t)), rel=close, abs=1e-290)
    assert tail_of(t, 1.0) == pytest.approx(0.5 - math.atan(t) / math.pi, rel=CLOSE)


@given(FREEDOM, st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.9999]))
def test_quantiles_are_scipy_s(freedom: float, level: float) -> None:
    share = (1 + level) / 2
    assert quantile(1 - share, freedom) == pytest.approx(float(stdtrit(freedom, share)), rel=CLOSE)


@given(FREEDOM, st.floats(1e-12, 0.499))
def test_a_quantile_has_its_tail(freedom: float, tail: float) -> None:
    t = quantile(tail, freedom)
    # What the rounding of t itself changes.
    slack = freedom * t * t / (freedom + t * t) + 20
    assert tail_of(t, freedom) == pytest.approx(tail, rel=1e-15 * slack)


def test_the_farthest_tail_is_zero() -> None:
    assert tail_of(math.inf, 5.0) == 0.0
    assert tail_of(1e200, 5.0) == 0.0


def test_arrays_have_the_values_of_their_numbers() -> None:
    freedom, t = np.array([1.0, 3.7, 47.2, 4000.0]), np.array([0.0, 1.2, 2.9, 1.96])
    assert student_tails(t, freedom).tolist() == [tail_of(*pair) for pair in zip(t, freedom, strict=True)]
    assert student_quantiles(0.025, freedom) == pytest.approx(
        [quantile(0.025, degrees) for degrees in freedom], rel=1e-14
    )
    assert student_quantiles(0.025, np.array([])).tolist() == []
