"""Verdicts, by hand."""

from __future__ import annotations

import pytest

from bench.lab.reproduce.outcomes import CellVerdict, ClaimVerdict, Outcome
from bench.lab.reproduce.verdicts import judge_claim, judge_count, judge_direction, judge_value


@pytest.mark.parametrize(
    ("published", "measured", "low", "high", "verdict"),
    [
        (0.391, 0.365, 0.318, 0.415, "reproduced"),  # within the interval
        (0.391, 0.650, 0.600, 0.690, "differs"),
        (0.500, 0.520, 0.515, 0.525, "reproduced"),  # outside, but within 0.02
        (0.500, 0.521, 0.515, 0.525, "differs"),
        (0.415, 0.365, 0.318, 0.415, "reproduced"),  # on the edge
        (0.42, 0.40, None, None, "reproduced"),  # no interval: 0.02 alone, in spite of binary fractions
        (0.43, 0.40, None, None, "differs"),
        (0.0, 0.0, 0.0, 0.0, "reproduced"),
    ],
)
def test_a_value_is_reproduced_within_the_interval_or_two_hundredths(
    published: float, measured: float, low: float | None, high: float | None, verdict: CellVerdict
) -> None:
    assert judge_value(published, measured, low, high) == verdict


def test_a_small_difference_is_not_reproduced_by_being_small() -> None:
    assert judge_value(-0.0028, 0.01, 0.005, 0.015) == "reproduced"
    assert judge_value(-0.0028, 0.01, 0.005, 0.015, tolerance=0) == "differs"
    assert judge_value(-0.0028, 0.01, -0.005, 0.015, tolerance=0) == "reproduced"


def test_a_count_is_reproduced_if_it_is_the_same() -> None:
    assert judge_count(119, 119.0, 119.0) == "reproduced"
    assert judge_count(119, 101, 101) == "differs"


def test_a_count_that_is_known_within_a_range_is_reproduced_inside_of_it() -> None:
    assert [judge_count(published, 5219, 5220) for published in (5218, 5219, 5220, 5221)] == [
        "differs",
        "reproduced",
        "reproduced",
        "differs",
    ]


@pytest.mark.parametrize(
    ("published", "difference", "identical", "p", "units", "outcome"),
    [
        (0.1, 0.05, False, 0.001, 20, "as published"),
        (-0.1, -0.05, False, 0.001, 20, "as published"),
        (0.1, -0.05, False, 0.001, 20, "opposite"),
        (-0.1, 0.05, False, 0.049, 20, "opposite"),
        (0.1, 0.05, False, 0.05, 20, "undecided"),
        (0.1, -0.05, False, 0.8, 20, "undecided"),
        (0.1, 0.05, False, 0.001, 19, "undecided"),
        (0.1, 0.0, True, 1.0, 19, "no difference"),
        (0.0, 0.05, False, 0.001, 20, "no direction"),
        (0.0, 0.0, True, 1.0, 20, "no direction"),
    ],
)
def test_a_direction_is_decided_by_its_corrected_p_and_its_units(
    published: float, difference: float, identical: bool, p: float, units: int, outcome: Outcome
) -> None:
    assert judge_direction(published, difference, identical, p, units) == outcome


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([], "not run"),
        (["as published"], "holds"),
        (["as published", "as published"], "holds"),
        (["as published", "undecided"], "undecided"),
        (["as published", "undecided", "opposite"], "does not hold"),
        (["as published", "no difference"], "does not hold"),
    ],
)
def test_a_claim_holds_if_all_its_tests_come_out_as_claimed(outcomes: list[Outcome], verdict: ClaimVerdict) -> None:
    assert judge_claim(outcomes) == verdict
