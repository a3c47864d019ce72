"""The gate's test: verdicts by hand, against scipy's bootstrap, and at the borders."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.stats import bootstrap, norm

from bench.stats.bounded import Span
from bench.stats.noninferiority import FEWEST_UNITS, LEVEL, at_least, non_inferiority, pair_verdict

RANDOM = np.random.default_rng(3)
SPREAD = RANDOM.normal(0, 0.1, size=400)
SPREAD -= SPREAD.mean()


def one(values: np.ndarray, margin: float, **more: Any) -> Any:
    (result,) = non_inferiority(np.asarray(values, dtype=np.float64)[:, None], margin, **more)
    return result


@pytest.mark.parametrize(
    ("shift", "margin", "verdict"),
    [
        (0.0, 0.02, "pass"),
        (0.0, 0.0, "inconclusive"),
        (0.05, 0.0, "pass"),
        (-0.02, 0.02, "inconclusive"),
        (-0.05, 0.02, "regression"),
        (-0.05, 0.10, "pass"),
    ],
)
def test_the_verdict_follows_from_the_bounds(shift: float, margin: float, verdict: str) -> None:
    # The standard error is 0.005, so the bounds lie 0.008 to either side.
    item = one(SPREAD + shift, margin)
    assert item.verdict == verdict
    assert item.lower == pytest.approx(shift - norm.ppf(0.95) * 0.005, abs=0.001)
    assert item.upper == pytest.approx(shift + norm.ppf(0.95) * 0.005, abs=0.001)
    assert (item.lower > -margin) == (verdict == "pass")
    assert (item.upper < -margin) == (verdict == "regression")


def test_the_bounds_are_scipys_at_twice_the_level() -> None:
    values = RANDOM.choice([-1.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0.5], size=120)
    item = one(values, 0.02, level=0.1)
    theirs = bootstrap(
        (values,), np.mean, confidence_level=0.8, n_resamples=10_000, method="BCa", rng=np.random.default_rng(5)
    ).confidence_interval
    assert item.lower == pytest.approx(theirs.low, abs=0.01)
    assert item.upper == pytest.approx(theirs.high, abs=0.01)


@pytest.mark.parametrize("value", [-1.0, 0.0, 1e-17, 1.0])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_where_all_differ_alike_nothing_is_known_of_the_spread(value: float, n: int) -> None:
    item = one(np.full(n, value), 0.02)
    assert (item.verdict, item.lower, item.upper) == ("inconclusive", None, None)
    assert item.detectable is item.needed is None
    # A range of the values says how far another one may lie.
    (bounded,) = non_inferiority(np.full((n, 1), value), 0.02, span=Span(-1, 1))
    assert n == 1 or (bounded.lower is not None and bounded.upper is not None and bounded.lower < bounded.upper)


@pytest.mark.parametrize("value", [-0.5, 0.5])
def test_fewer_queries_than_the_fewest_decide_nothing(value: float) -> None:
    assert FEWEST_UNITS == 30
    spread: NDArray[np.float64] = value + 0.1 * (np.arange(FEWEST_UNITS, dtype=np.float64) % 2)
    for n in (2, FEWEST_UNITS - 1):
        item = one(spread[:n], 0.02)
        assert (item.verdict, item.needed) == ("inconclusive", FEWEST_UNITS)
        assert at_least(spread[:n, None], 0.2)[0].verdict == "inconclusive"
    assert one(spread, 0.02).verdict == ("regression" if value < 0 else "pass")


@pytest.mark.parametrize("n", [2, 5, 10, 20, 30])
def test_a_mean_below_its_floor_passes_on_few_queries_no_more_often_than_stated(n: int) -> None:
    """Of two queries both have a one in 64 of 100 samples, where the mean is 0.8: no proof of a mean of 0.85."""
    sampled: NDArray[np.float64] = (np.random.default_rng(1).random((n, 400)) < 0.80).astype(np.float64)
    passed = sum(item.verdict == "pass" for item in at_least(sampled, 0.85))
    assert passed / 400 <= 0.05


def test_a_floor_is_reached_by_a_bound_that_is_not_below_it() -> None:
    (item,) = at_least((SPREAD + 0.5)[:, None], 0.5)
    assert item.lower is not None
    assert at_least((SPREAD + 0.5)[:, None], item.lower)[0].verdict == "pass"
    spread = (SPREAD + 0.5)[:, None]
    assert [at_least(spread, floor)[0].verdict for floor in (0.48, 0.5, 0.52)] == ["pass", "inconclusive", "regression"]
    assert at_least(np.ones((1, 1)), 0.5)[0].verdict == "inconclusive"


def test_the_detectable_change_and_the_queries_needed_are_those_of_a_one_sided_z_test() -> None:
    item = one(SPREAD - 0.015, 0.02)
    assert item.verdict == "inconclusive"
    sd = SPREAD.std(ddof=1)
    assert item.detectable == pytest.approx((norm.ppf(0.95) + norm.ppf(0.8)) * sd / math.sqrt(400))
    assert item.needed == math.ceil(((norm.ppf(0.95) + norm.ppf(0.8)) * sd / 0.005) ** 2)
    # With the number that it asks for, the loss found lies just as far from the margin as can be detected.
    again = (norm.ppf(0.95) + norm.ppf(0.8)) * sd / math.sqrt(item.needed)
    assert again == pytest.approx(0.005, rel=0.01)


def test_no_number_of_queries_decides_where_the_mean_is_the_limit() -> None:
    item = one(np.array([-0.5, 0.5, -0.5, 0.5]), 0.0)
    assert (item.verdict, item.mean, item.needed) == ("inconclusive", 0.0, None)
    # By the table of a one-sided z test at 5% with 80% power: 619 for a tenth of a standard deviation.
    values = np.array([-1.0, 1.0] * 50) / np.sqrt(100 / 99) + 0.1
    assert one(values, 0.0).needed == 619


def test_columns_are_judged_as_if_each_were_alone_and_again_to_the_same_bits() -> None:
    values = RANDOM.normal(0, 0.2, size=(60, 3))
    together = non_inferiority(values, 0.02)
    assert together == non_inferiority(values, 0.02)
    assert together == [one(values[:, column], 0.02) for column in range(3)]


@pytest.mark.parametrize(
    ("values", "more"),
    [
        (np.empty((0, 1)), {}),
        (np.array([[math.nan]]), {}),
        (np.zeros(3), {}),
        (np.zeros((3, 1)), {"level": 0.5}),
        (np.zeros((3, 1)), {"level": 0.0}),
        (np.zeros((3, 1)), {"power": 0.01}),
        (np.zeros((3, 1)), {"margin": -0.1}),
        (np.zeros((3, 1)), {"margin": math.nan}),
        (np.zeros((3, 1)), {"margin": math.inf}),
    ],
)
def test_what_cannot_be_judged_is_refused(values: np.ndarray, more: dict[str, float]) -> None:
    arguments: dict[str, Any] = {"margin": 0.02} | more
    with pytest.raises(ValueError, match=r"."):
        non_inferiority(values, **arguments)


VALUES = st.sampled_from([-1.0, -0.5, -1 / 3, 0.0, 0.0, 0.0, 0.2, 1.0])


@given(arrays(np.float64, st.integers(1, 40), elements=VALUES), st.sampled_from([0.0, 0.01, 0.1]))
@settings(max_examples=60, deadline=None)
def test_a_wider_margin_never_makes_a_verdict_worse_and_nothing_warns(values: np.ndarray, margin: float) -> None:
    order = ["regression", "inconclusive", "pass"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narrow, wide = one(values, margin), one(values, margin + 0.05)
    assert order.index(narrow.verdict) <= order.index(wide.verdict)
    for result in (narrow, wide):
        assert result.mean == pytest.approx(values.mean(), abs=1e-12)
        assert result.needed is None or result.needed > result.n
        if result.lower is not None and result.upper is not None:
            assert result.lower <= result.upper
            assert math.isfinite(result.lower)
            assert math.isfinite(result.upper)


@pytest.mark.parametrize(
    ("difference", "p", "decided", "verdict"),
    [
        (0.1, LEVEL - 1e-12, True, "better"),
        (-0.1, 0.0, True, "worse"),
        (0.1, LEVEL, True, "not decided"),
        (0.0, 1.0, True, "not decided"),
        (0.1, 0.0, False, "too few groups"),
    ],
)
def test_a_pair_is_told_apart_below_the_level_and_from_enough_units(
    difference: float, p: float, decided: bool, verdict: str
) -> None:
    assert pair_verdict(difference, p, decided) == verdict
