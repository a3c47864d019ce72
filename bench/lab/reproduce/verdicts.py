"""Verdicts from numbers, independent of files, methods and datasets. `reproduction` and `claimtests` call it."""

from __future__ import annotations

from collections.abc import Sequence

from bench.lab.reproduce.cells import Unit
from bench.lab.reproduce.outcomes import SAME, CellVerdict, ClaimVerdict, Outcome
from bench.stats.noninferiority import EquivalenceVerdict, judge_interval, pair_verdict

#: A share is reproduced if it is significantly within this distance of the published one.
MARGIN = 0.02
#: The same for a published difference of two shares, which is usually smaller than `MARGIN`.
DIFFERENCE_MARGIN = 0.01
_VERDICTS: dict[EquivalenceVerdict, CellVerdict] = {
    "within": "reproduced",
    "beyond": "not reproduced",
    "undecided": "not decided",
}


def margin_of(unit: Unit) -> float | None:
    """The margin of a printed number; None for a count, which must be equal."""
    if unit == "count":
        return None
    return DIFFERENCE_MARGIN if unit in {"difference", "points"} else MARGIN


def judge_value(published: float, low: float | None, high: float | None, margin: float, decided: bool) -> CellVerdict:
    """Whether ours is the published share, or difference of shares, within a margin: two one-sided tests.

    `reproduced` if our interval lies inside the margin around the published number, `not reproduced` if it lies
    outside, else `not decided`. A wide interval decides nothing. The published number is treated as a constant, because
    papers do not give its error.

    Args:
        low, high: our 90% interval; None if nothing is known about the spread.
        decided: whether there are enough units of independence for a conclusion.
    """
    if low is None or high is None:
        return "not decided"
    return _VERDICTS[judge_interval(low - published, high - published, margin, decided)]


def judge_fact(published: float, stated: float, margin: float) -> CellVerdict:
    """The same for a number without an error, such as a graph's share: no sample is drawn for it."""
    return "reproduced" if abs(stated - published) < margin - 1e-12 else "not reproduced"


def judge_count(published: float, least: float, most: float) -> CellVerdict:
    """A count is reproduced if it equals ours, of which `count_range` may know only a range: `least` to `most`."""
    return "reproduced" if least - 0.5 < published < most + 0.5 else "not reproduced"


def judge_direction(published: float, difference: float, identical: bool, p: float, decided: bool) -> Outcome:
    """Whether ours is better and worse where the paper's is.

    Args:
        published: the paper's first minus its second, whose sign counts.
        difference: our first minus our second.
        identical: whether ours agree on every query.
        p: the comparison's p-value, corrected for its family.
        decided: whether there are enough units of independence for a conclusion.

    Returns:
        `no direction` if the paper prints equal numbers, `no difference` if ours answer every query identically,
        `undecided` if the difference is not significant or there are too few units.
    """
    if published == 0:
        return "no direction"
    if identical:
        return "no difference"
    verdict = pair_verdict(difference, p, decided)
    if verdict not in {"better", "worse"}:
        return "undecided"
    return "as published" if (verdict == "better") == (published > 0) else "opposite"


def judge_claim(outcomes: Sequence[Outcome], set_aside: bool = False) -> ClaimVerdict:
    """A claim holds if every test that ran comes out as claimed.

    It does not hold if one test comes out the other way, or if no query differs by its metric. Otherwise a test of two
    systems with identical answers leaves it untested. If no test ran, it is `not run`.

    Args:
        outcomes: of the tests that ran and whose precondition holds.
        set_aside: whether others ran whose precondition fails: with only these the claim is `not tested`.
    """
    if not outcomes:
        return "not tested" if set_aside else "not run"
    if any(outcome in {"opposite", "no difference"} for outcome in outcomes):
        return "does not hold"
    if SAME in outcomes:
        return SAME
    return "holds" if all(outcome == "as published" for outcome in outcomes) else "undecided"
