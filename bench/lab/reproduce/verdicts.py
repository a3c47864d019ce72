"""Verdicts from numbers, independent of files, methods and datasets."""

from __future__ import annotations

from collections.abc import Sequence

from bench.lab.reproduce.outcomes import CellVerdict, ClaimVerdict, Outcome
from bench.stats.noninferiority import pair_verdict

#: A published number this near to ours counts as reproduced, however narrow our interval.
TOLERANCE = 0.02
_ROUNDING = 1e-9


def judge_value(
    published: float, measured: float, low: float | None, high: float | None, tolerance: float = TOLERANCE
) -> CellVerdict:
    """`reproduced` if the published share lies within our 95% interval, or near our mean; else `differs`.

    Args:
        published, measured: shares of 1.
        low, high: the interval, if there is one.
        tolerance: what is near; 0 for differences, most of which are smaller than 0.02 themselves.
    """
    near = abs(published - measured) <= tolerance + _ROUNDING
    within = low is not None and high is not None and low - _ROUNDING <= published <= high + _ROUNDING
    return "reproduced" if near or within else "differs"


def judge_count(published: float, least: float, most: float) -> CellVerdict:
    """A count is reproduced if it is the same, or one of those that ours can be.

    Args:
        published: the printed count.
        least, most: ours; two numbers where it is known only within a range (`bench.lab.reproduce.runs.count_range`).
    """
    return "reproduced" if least - 0.5 < published < most + 0.5 else "differs"


def judge_direction(published: float, difference: float, identical: bool, p: float, units: int) -> Outcome:
    """Whether ours is better and worse where the paper's is.

    Args:
        published: the paper's first minus its second; its sign is what is asked for.
        difference: our first minus our second.
        identical: whether ours agree on every query.
        p: the comparison's p-value, corrected for its family.
        units: how many units of independence it has.

    Returns:
        `no direction` where the paper prints the same number twice, `no difference` where ours answer every query
        alike, `undecided` where no test tells ours apart, or there are too few units for one.
    """
    if published == 0:
        return "no direction"
    if identical:
        return "no difference"
    verdict = pair_verdict(difference, p, units)
    if verdict not in {"better", "worse"}:
        return "undecided"
    return "as published" if (verdict == "better") == (published > 0) else "opposite"


def judge_claim(outcomes: Sequence[Outcome]) -> ClaimVerdict:
    """A claim holds if every test that ran comes out as claimed.

    It does not hold if one test comes out the other way, or if the two systems it tells apart are the same. With no
    test that ran it is `not run`.
    """
    if not outcomes:
        return "not run"
    if any(outcome in {"opposite", "no difference"} for outcome in outcomes):
        return "does not hold"
    return "holds" if all(outcome == "as published" for outcome in outcomes) else "undecided"
