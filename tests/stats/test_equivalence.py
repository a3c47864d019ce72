"""Equivalence: verdicts by hand, against the two t tests that define them, and properties."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from bench.stats.bounded import ANY, SHARE, Span
from bench.stats.noninferiority import FEWEST_UNITS, enough_units, judge_interval, non_inferiority
from bench.stats.paired import compare
from bench.stats.power import queries_for_equivalence

RANDOM = np.random.default_rng(11)
TWO_EACH = np.arange(72) // 2


class Equivalence(NamedTuple):
    margin: float
    low: float | None
    high: float | None
    verdict: str


def one(values: np.ndarray, margin: float, **more: Any) -> Equivalence:
    """As `bench compare --margin` has it."""
    table = np.asarray(values, dtype=np.float64)[:, None]
    (bounds,) = non_inferiority(table, margin, **more)
    decided = enough_units(more.get("units", np.arange(len(table))))
    return Equivalence(margin, bounds.lower, bounds.upper, judge_interval(bounds.lower, bounds.upper, margin, decided))


@pytest.mark.parametrize(
    ("low", "high", "margin", "verdict"),
    [
        (-0.004, 0.009, 0.01, "within"),
        (0.001, 0.009, 0.01, "within"),
        (-0.004, 0.011, 0.01, "undecided"),
        (-0.02, 0.02, 0.01, "undecided"),
        # An end on the margin is not inside of it.
        (-0.004, 0.01, 0.01, "undecided"),
        (0.01, 0.02, 0.01, "undecided"),
        (0.011, 0.02, 0.01, "beyond"),
        (-0.03, -0.011, 0.01, "beyond"),
        (0.1 + 0.2 - 0.29, 0.02, 0.01, "undecided"),
        (0.0, 0.0, 0.01, "within"),
        (None, None, 0.01, "undecided"),
    ],
)
def test_the_verdict_is_read_off_the_interval(
    low: float | None, high: float | None, margin: float, verdict: str
) -> None:
    assert judge_interval(low, high, margin, decided=True) == verdict
    assert judge_interval(low, high, margin, decided=False) == "undecided"


def test_units_by_hand() -> None:
    # 36 units of two equal queries, half at 0.03 and half at -0.01: mean 0.01, error 0.02 √(36/35) / 6 = 0.003381, and
    # t at 0.95 with 35 degrees of freedom is 1.6896, which gives 0.004288 and 0.015712. The test by signs reaches less
    # far or as far: halves of 18 have means in steps of 0.04/18.
    values = np.where(TWO_EACH % 2 == 0, 0.03, -0.01)
    item = one(values, 0.016, units=TWO_EACH)
    assert item.low is not None
    assert item.high is not None
    assert 0.003 < item.low < 0.0043
    assert item.low == pytest.approx(0.02 - item.high, abs=1e-9)
    margins = (item.high + 1e-4, item.high, item.low, item.low - 1e-4)
    verdicts = [one(values, margin, units=TWO_EACH).verdict for margin in margins]
    assert verdicts == ["within", "undecided", "undecided", "beyond"]
    # Units that are too few show nothing.
    assert one(values[:58], 1.0, units=TWO_EACH[:58]).verdict == "undecided"


@pytest.mark.parametrize("margin", [0.01, 0.02, 0.03, 0.05])
@pytest.mark.parametrize("shift", [-0.03, -0.012, 0.0, 0.007, 0.02])
def test_two_one_sided_t_tests_of_units_say_the_same(margin: float, shift: float) -> None:
    values = np.repeat(RANDOM.normal(shift, 0.04, size=30), 2)
    item = one(values, margin, units=np.arange(60) // 2)
    each = values[::2]
    above = stats.ttest_1samp(each, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(each, margin, alternative="less").pvalue
    assert (item.verdict == "within") == (max(above, below) < 0.05)


def test_independent_queries_have_nearly_the_interval_of_t() -> None:
    values = RANDOM.normal(0.004, 0.05, size=400)
    item = one(values, 0.01)
    ends = stats.t.interval(0.9, 399, values.mean(), values.std(ddof=1) / 20)
    assert (item.low, item.high) == (pytest.approx(ends[0], abs=5e-4), pytest.approx(ends[1], abs=5e-4))


def test_a_difference_may_be_certain_and_too_small_to_matter() -> None:
    values = 0.004 + RANDOM.normal(0, 0.01, size=500)
    assert one(values, 0.01).verdict == "within"
    assert compare(values[:, None])[0].p < 0.001


def test_no_difference_in_few_queries_is_not_shown_to_be_none() -> None:
    # Without a span, resampling equal values sees no spread; with it, what the sample lacks may be there.
    assert one(np.zeros(30), 0.02, span=Span(-1, 1)).verdict == "undecided"
    assert one(np.zeros(2000), 0.02, span=Span(-1, 1)).verdict == "within"
    assert one(np.array([0.1]), 0.02) == Equivalence(0.02, None, None, "undecided")


VALUES = arrays(
    np.float64, st.integers(2, 60), elements=st.sampled_from([-1.0, -0.5, -0.1, 0.0, 0.0, 0.0, 0.1, 0.5, 1.0])
)
MARGINS = st.floats(0.001, 1.0)


@settings(max_examples=60, deadline=None)
@given(VALUES, MARGINS, MARGINS, st.integers(1, 3), st.sampled_from([ANY, SHARE.of_differences()]))
def test_equivalent_means_inside_and_a_larger_margin_keeps_it(
    values: np.ndarray, first: float, second: float, size: int, span: Span
) -> None:
    units = np.arange(len(values)) // size
    small, large = (one(values, margin, units=units, span=span) for margin in sorted((first, second)))
    assert (small.low, small.high) == (large.low, large.high)
    for item in (small, large):
        if item.verdict == "undecided":
            continue
        assert units.max() + 1 >= FEWEST_UNITS
        assert item.low is not None
        assert item.high is not None
        inside = -item.margin < item.low <= item.high < item.margin
        assert inside == (item.verdict == "within")
    assert small.verdict != "within" or large.verdict == "within"
    assert large.verdict != "beyond" or small.verdict == "beyond"


@settings(max_examples=60, deadline=None)
@given(VALUES, MARGINS, st.integers(1, 3), st.sampled_from([ANY, SHARE.of_differences()]))
@example(np.array([0.1, -0.1]), 1.0, 1, SHARE.of_differences())
@example(np.array([0.2, -0.1, -0.1]), 1.0, 1, SHARE.of_differences())
def test_it_does_not_matter_which_is_taken_from_which(values: np.ndarray, margin: float, size: int, span: Span) -> None:
    units = np.arange(len(values)) // size
    there, back = (one(sign * values, margin, units=units, span=span) for sign in (1, -1))
    if there.low is None or there.high is None or back.low is None or back.high is None:
        assert there == back
        return
    # The quantiles of the same resamples, read from the other end.
    assert (there.low, there.high) == (pytest.approx(-back.high, abs=1e-9), pytest.approx(-back.low, abs=1e-9))
    assume(min(abs(abs(end) - margin) for end in (there.low, there.high)) > 1e-6)
    assert there.verdict == back.verdict


@settings(max_examples=30, deadline=None)
@given(arrays(np.float64, 60, elements=st.floats(-1, 1, width=16), unique=True), MARGINS)
def test_equivalence_is_non_inferiority_either_way(values: np.ndarray, margin: float) -> None:
    item = one(values, margin, units=np.arange(60) // 2)
    gates = [non_inferiority(sign * values[:, None], margin, units=np.arange(60) // 2)[0] for sign in (1, -1)]
    assert (gates[0].lower, gates[0].upper) == (item.low, item.high)
    assert (item.verdict == "within") == all(gate.verdict == "pass" for gate in gates)
    assert (item.verdict == "beyond") == any(gate.verdict == "regression" for gate in gates)


@pytest.mark.parametrize(
    "arguments",
    [
        {"margin": -0.01},
        {"margin": float("nan")},
        {"margin": float("inf")},
        {"margin": 0.01, "level": 0.5},
        {"margin": 0.01, "level": 0.0},
        {"margin": 0.01, "span": Span(-0.1, 0.1)},
        {"margin": 0.01, "units": np.array([0, 2])},
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|units"):
        non_inferiority(np.array([[0.5], [-0.5]]), **arguments)


# How many queries show it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("difference", "sd", "margin", "needed"),
    [
        # (1.6449 + 1.2816)² 0.3² / 0.02²: each border by half.
        (0.0, 0.3, 0.02, 1927),
        # (1.6449 + 0.8416)² 0.3² / 0.005²: the nearer border alone.
        (0.015, 0.3, 0.02, 22258),
        (-0.015, 0.3, 0.02, 22258),
        (0.02, 0.3, 0.02, None),
        (0.03, 0.3, 0.02, None),
        (0.0, 0.0, 0.02, 1),
        (0.0, 0.3, 1e-90, None),
    ],
)
def test_needed_queries_by_hand(difference: float, sd: float, margin: float, needed: int | None) -> None:
    assert queries_for_equivalence(difference, sd, margin) == needed


@settings(max_examples=100, deadline=None)
@given(st.floats(-0.1, 0.1), st.floats(0.01, 1.0), st.floats(0.005, 0.2), st.floats(0.5, 0.95))
def test_needed_queries_are_the_fewest_with_the_power(
    difference: float, sd: float, margin: float, power: float
) -> None:
    needed = queries_for_equivalence(difference, sd, margin, power=power)
    if abs(difference) >= margin:
        assert needed is None
        return
    assume(needed is not None and needed < 1e12)
    assert needed is not None

    def shown(queries: int) -> float:
        error = sd / np.sqrt(queries)
        z = stats.norm.ppf(0.95)
        borders = ((margin - difference) / error - z, (margin + difference) / error - z)
        return float(stats.norm.cdf(borders[0]) + stats.norm.cdf(borders[1]) - 1)

    assert shown(needed) >= power - 1e-9
    assert needed == 1 or shown(needed - 1) < power + 1e-9


def test_numbers_that_are_none_are_refused() -> None:
    for arguments in ((np.nan, 1.0, 0.1), (0.0, -1.0, 0.1), (0.0, 1.0, 0.0), (0.0, np.inf, 0.1)):
        with pytest.raises(ValueError, match="must be finite"):
            queries_for_equivalence(*arguments)
