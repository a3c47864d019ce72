"""Verdicts, by hand."""

from __future__ import annotations

from typing import get_args

import pytest

from bench.lab.reproduce.cells import Unit
from bench.lab.reproduce.outcomes import SAME, CellVerdict, ClaimVerdict, Outcome
from bench.lab.reproduce.verdicts import judge_claim, judge_count, judge_direction, judge_fact, judge_value, margin_of


@pytest.mark.parametrize(
    ("published", "low", "high", "verdict"),
    [
        (0.391, 0.380, 0.405, "reproduced"),
        # Containing the published number is not enough, nor is a mean near to it.
        (0.391, 0.318, 0.415, "not decided"),
        (0.391, 0.600, 0.690, "not reproduced"),
        (0.500, 0.505, 0.519, "reproduced"),
        # An end on the margin is not inside of it, in spite of binary fractions.
        (0.500, 0.505, 0.520, "not decided"),
        (0.431, 0.400, 0.410, "not reproduced"),
        (0.430, 0.400, 0.410, "not decided"),
        (0.0, 0.0, 0.0, "reproduced"),
        (0.5, None, None, "not decided"),
    ],
)
def test_a_value_is_reproduced_where_its_interval_lies_inside_the_margin(
    published: float, low: float | None, high: float | None, verdict: CellVerdict
) -> None:
    assert judge_value(published, low, high, 0.02, decided=True) == verdict
    assert judge_value(published, low, high, 0.02, decided=False) == "not decided"


@pytest.mark.parametrize(
    ("published", "stated", "verdict"),
    [(0.42, 0.43, "reproduced"), (0.42, 0.44, "not reproduced"), (0.42, 0.79, "not reproduced")],
)
def test_a_fact_has_no_error(published: float, stated: float, verdict: CellVerdict) -> None:
    assert judge_fact(published, stated, 0.02) == verdict


def test_each_kind_of_number_has_its_margin() -> None:
    margins = {unit: margin_of(unit) for unit in get_args(Unit)}
    assert margins == {"share": 0.02, "percent": 0.02, "count": None, "difference": 0.01, "points": 0.01}


def test_a_count_is_reproduced_if_it_is_the_same() -> None:
    assert judge_count(119, 119.0, 119.0) == "reproduced"
    assert judge_count(119, 101, 101) == "not reproduced"


def test_a_count_that_is_known_within_a_range_is_reproduced_inside_of_it() -> None:
    assert [judge_count(published, 5219, 5220) for published in (5218, 5219, 5220, 5221)] == [
        "not reproduced",
        "reproduced",
        "reproduced",
        "not reproduced",
    ]


@pytest.mark.parametrize(
    ("published", "difference", "identical", "p", "decided", "outcome"),
    [
        (0.1, 0.05, False, 0.001, True, "as published"),
        (-0.1, -0.05, False, 0.001, True, "as published"),
        (0.1, -0.05, False, 0.001, True, "opposite"),
        (-0.1, 0.05, False, 0.049, True, "opposite"),
        (0.1, 0.05, False, 0.05, True, "undecided"),
        (0.1, -0.05, False, 0.8, True, "undecided"),
        (0.1, 0.05, False, 0.001, False, "undecided"),
        (0.1, 0.0, True, 1.0, False, "no difference"),
        (0.0, 0.05, False, 0.001, True, "no direction"),
        (0.0, 0.0, True, 1.0, True, "no direction"),
    ],
)
def test_a_direction_is_decided_by_its_corrected_p_and_its_units(
    published: float, difference: float, identical: bool, p: float, decided: bool, outcome: Outcome
) -> None:
    assert judge_direction(published, difference, identical, p, decided) == outcome


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([], "not run"),
        (["as published"], "holds"),
        (["as published", "as published"], "holds"),
        (["as published", "undecided"], "undecided"),
        (["as published", "undecided", "opposite"], "does not hold"),
        (["as published", "no difference"], "does not hold"),
        ([SAME, SAME], SAME),
        (["as published", SAME, "undecided"], SAME),
        ([SAME, "opposite"], "does not hold"),
    ],
)
def test_a_claim_holds_if_all_its_tests_come_out_as_claimed(outcomes: list[Outcome], verdict: ClaimVerdict) -> None:
    assert judge_claim(outcomes) == verdict
