"""Equivalence: is a mean difference shown to be smaller than a margin, whichever way it points?

That no test shows a difference is no evidence that there is none: few queries show nothing. Two one-sided tests
(Schuirmann 1987; Lakens 2017) turn the question round: of the hypotheses that the difference is at least the margin,
and that it is at most minus the margin, both must be rejected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.stats.differences import difference_intervals
from bench.stats.noninferiority import LEVEL, enough_units
from bench.stats.units import dependence

EquivalenceVerdict = Literal["within", "beyond", "undecided"]

#: Ends are compared with the margin after rounding: the last bits of a sum decide nothing.
_DECIMALS = 12


@dataclass(frozen=True)
class Equivalence:
    """A mean difference against a margin.

    Attributes:
        margin: the smallest difference that matters.
        low, high: interval of the mean difference, of coverage 1 - 2 level; None where so few units say nothing.
        verdict: as of `judge_interval`.
    """

    margin: float
    low: float | None
    high: float | None
    verdict: EquivalenceVerdict


def judge_interval(low: float | None, high: float | None, margin: float, decided: bool) -> EquivalenceVerdict:
    """What an interval of coverage 1 - 2 level says of a difference and a margin, each error at that level.

    `within` where it lies inside (-margin, margin), `beyond` where it lies outside, else `undecided`.

    Args:
        low, high: the ends; None where nothing is known of the spread.
        margin: above 0.
        decided: whether the units are enough for a conclusion (`bench.stats.noninferiority.enough_units`).
    """
    if low is None or high is None or not decided:
        return "undecided"
    low, high, margin = (round(number, _DECIMALS) for number in (low, high, margin))
    if -margin < low and high < margin:
        return "within"
    return "beyond" if low >= margin or high <= -margin else "undecided"


def equivalence(
    differences: NDArray[np.float64],
    margin: float,
    level: float = LEVEL,
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
    span: tuple[float, float] | None = None,
) -> list[Equivalence]:
    """Are two systems the same within a margin? One answer for each column.

    The two tests, each at the level, reject together exactly where the interval of coverage 1 - 2 level lies inside
    (-margin, margin) (Schuirmann 1987), and the verdict is read off that interval, so that the two cannot disagree. An
    equivalence and a difference do not exclude each other: a small one may be certain.

    Args:
        differences: (queries, columns), finite.
        margin: the smallest difference that matters, above 0.
        level: chance to call a difference of the margin smaller, and to call a smaller one as large.
        seed: of sign flips and resamples; the same seed gives the same intervals.
        units: (queries,) the unit of independence of each query, numbered from 0 without a gap. None for independent
            queries.
        span: the smallest and the largest difference that is possible, such as (-1, 1) for shares. None if it is not
            known.

    Raises:
        ValueError: there are no queries, a value is not finite or outside the span, the margin is not above 0, the
            level is not between 0 and 0.5, or units are not numbered from 0 without a gap, or not one for each query.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError("differences must be a table of finite numbers, one row for each query")
    if not 0 < margin < math.inf:
        raise ValueError("the margin must be a number above 0")
    if not 0 < level < 0.5:
        raise ValueError("the level must lie between 0 and 0.5")
    codes = dependence(units, len(values))
    decided = enough_units(np.arange(len(values)) if codes is None else codes)
    intervals = difference_intervals(values, level=1 - 2 * level, seed=seed, units=codes, span=span)
    outcomes = []
    for ends in intervals.tolist():
        low, high = (float(end) if math.isfinite(end) else None for end in ends)
        outcomes.append(Equivalence(margin, low, high, judge_interval(low, high, margin, decided)))
    return outcomes
