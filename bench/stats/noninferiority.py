"""Means against a threshold: what a margin or a floor says of them (protocol, section 5).

One pair of bounds answers both questions about a margin. Is the candidate worse by more than it (non-inferiority)? Are
the two the same within it? Then two one-sided tests (Schuirmann 1987; Lakens 2017) reject that the difference is at
least the margin, and that it is at most minus the margin. That no test shows a difference shows nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import ANY, Span
from bench.stats.differences import hold_both, sign_flip_intervals
from bench.stats.exact import as_integers
from bench.stats.multiple import LEVEL as LEVEL
from bench.stats.power import minimum_detectable_effect, queries_needed
from bench.stats.units import dependence, effective_units, robust_mean

Verdict = Literal["pass", "regression", "inconclusive"]
EquivalenceVerdict = Literal["within", "beyond", "undecided"]
PairVerdict = Literal["better", "worse", "not decided", "too few groups"]

#: Bounds are compared after rounding: the last bits of a sum decide nothing.
_DECIMALS = 12
#: Queries, or units of independence that are worth fewer (`effective_units`), decide nothing. Of 61 groups worth 28
#: (azure-mcp), tests find what is not there in up to 13% of samples, and 95% intervals hold as few as 88% of
#: differences; from 38 on they keep what they promise on all boards but one (`benchmarks/units.py`).
FEWEST_UNITS = 30


@dataclass(frozen=True)
class Bounded:
    """A mean against a threshold.

    Attributes:
        n: queries.
        units: units of independence, which is the number of queries if these are independent.
        mean: of the values.
        lower, upper: one-sided bounds of the mean, each at the level asked for; None where nothing is known of its
            spread, as of a single unit.
        verdict: `pass` where the mean is shown to lie above the threshold, `regression` where below, else
            `inconclusive`.
        detectable: how far from the threshold the true mean must lie for this many units to decide with the power
            asked for; None where there are no bounds.
        needed: units, in all, that would decide with that power, if mean and spread stay as they are; None where it is
            decided, or where no number would (the mean is the threshold, or there are no bounds).
    """

    n: int
    mean: float
    lower: float | None
    upper: float | None
    verdict: Verdict
    detectable: float | None
    needed: int | None
    units: int


def enough_units(units: NDArray[np.int64]) -> bool:
    """Whether units are worth at least `FEWEST_UNITS` independent queries; else they are too few to decide.

    Args:
        units: (queries,) the unit of each query, numbered from 0 without a gap; at least one query.
    """
    return effective_units(units) >= FEWEST_UNITS


def pair_verdict(difference: float, p: float, decided: bool) -> PairVerdict:
    """What a two-sided test says of a difference between two, in a word; higher is better.

    A test that shows no difference does not show that there is none (`judge_interval` can).

    Args:
        difference: the first less the second.
        p: of the test, corrected where several are compared.
        decided: whether the units are enough for a conclusion (`enough_units`).
    """
    if not decided:
        return "too few groups"
    return "not decided" if p >= LEVEL else "better" if difference > 0 else "worse"


def non_inferiority(
    differences: NDArray[np.float64],
    margin: float,
    level: float = LEVEL,
    power: float = 0.8,
    units: NDArray[np.int64] | None = None,
    span: Span = ANY,
) -> list[Bounded]:
    """Is a candidate worse than its baseline by more than a margin? One answer for each column.

    With d = candidate - baseline on the same queries, higher being better: pass where the lower one-sided bound of the
    mean of d lies above -margin, regression where the upper one lies below it, else inconclusive (Wellek 2010,
    chapter 1). Units that are too few (`enough_units`) are inconclusive, whatever their bounds.

    The bounds are the ends of the interval of coverage 1 - 2 level, as of `bench.stats.bootstrap.bca_intervals`; of
    dependent queries, those of the shifts that the randomisation test does not reject
    (`bench.stats.differences.sign_flip_intervals`) if these lie farther out, since few large units may pull the former
    too near.

    Args:
        differences: (queries, columns), finite.
        margin: the largest loss that is acceptable, at least 0.
        level: chance of each error: passing a loss of `margin`, reporting one of `margin` as more.
        power: probability to which `detectable` and `needed` refer.
        units: (queries,) as of `bench.stats.units.dependence`; None for independent queries.
        span: the range of the mean, such as `Span(-1, 1)` for differences of shares.

    Raises:
        ValueError: there are no queries, a value is not finite or outside the span, the margin is negative, the level
            is not between 0 and 0.5, the power not between the level and 1, or units are not as `dependence`
            takes them.
    """
    if not margin >= 0:
        raise ValueError("the margin must not be negative")
    return at_least(differences, -margin, level, power, units, span, reaching=False)


def judge_interval(low: float | None, high: float | None, margin: float, decided: bool) -> EquivalenceVerdict:
    """Are two the same within a margin? What an interval of coverage 1 - 2 level says, each error at that level.

    `within` where it lies inside (-margin, margin), `beyond` where it lies outside [-margin, margin], else `undecided`.
    With the bounds of `non_inferiority`, `within` passes there in both directions, and `beyond` is a regression in one.
    An equivalence and a difference do not exclude each other: a small one may be certain.

    Args:
        low, high: the ends; None where nothing is known of the spread.
        margin: the smallest difference that matters, above 0.
        decided: whether the units are enough for a conclusion (`enough_units`).
    """
    if low is None or high is None or not decided:
        return "undecided"
    low, high, margin = (round(number, _DECIMALS) for number in (low, high, margin))
    if -margin < low and high < margin:
        return "within"
    return "beyond" if low > margin or high < -margin else "undecided"


def at_least(
    values: NDArray[np.float64],
    floor: float,
    level: float = LEVEL,
    power: float = 0.8,
    units: NDArray[np.int64] | None = None,
    span: Span = ANY,
    *,
    reaching: bool = True,
) -> list[Bounded]:
    """Is a mean at least a floor? One answer for each column.

    Pass where the lower one-sided bound of the mean is not below the floor, regression where the upper one is,
    else inconclusive, as are too few units (`enough_units`). Arguments and errors as `non_inferiority`; the floor
    is any finite number, and a mean must lie above it unless `reaching` it is enough.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError("values must be a table of finite numbers, one row for each query")
    if not math.isfinite(floor):
        raise ValueError("the threshold must be a finite number")
    if not 0 < level < 0.5 or not level < power < 1:
        raise ValueError("the level must lie between 0 and 0.5, and the power between the level and 1")
    n = len(values)
    whole, unit = as_integers(values)
    means = whole.sum(axis=0) * unit / n
    codes = dependence(units, n)
    count = n if codes is None else int(codes.max()) + 1
    worth = n if codes is None else effective_units(codes)
    intervals = bca_intervals(values, level=1 - 2 * level, units=codes, span=span)
    if codes is not None and not reaching and worth >= FEWEST_UNITS:
        shifts = sign_flip_intervals(values, 1 - 2 * level, codes)
        intervals = hold_both(intervals, span.clip(shifts))
    few = span.binds(values, codes)
    errors = None if codes is None else robust_mean(values, codes)[1]
    limit = round(floor, _DECIMALS)
    outcomes = []
    for column, mean in enumerate(means):
        if intervals[column, 0] == intervals[column, 1] or np.isnan(intervals[column]).any():
            only = float(values[0, column]) if n == 1 else float(mean)
            outcomes.append(Bounded(n, only, None, None, "inconclusive", None, None, count))
            continue
        constant = bool((whole[:, column] == whole[0, column]).all())
        # An exact sum, so that the last bits do not depend on how the columns lie in memory.
        squares = math.fsum((float(value) - float(mean)) ** 2 for value in values[:, column])
        mean, sd = float(mean), 0.0 if constant else math.sqrt(squares / (n - 1))
        lower, upper = (round(float(end), _DECIMALS) for end in intervals[column])
        verdict: Verdict = "inconclusive"
        if worth >= FEWEST_UNITS and (lower > limit or (reaching and lower == limit)):
            verdict = "pass"
        elif worth >= FEWEST_UNITS and upper < limit:
            verdict = "regression"
        if errors is not None:
            # Of a unit, such that the mean has the error that holds for dependent queries.
            sd = float(errors[column]) * math.sqrt(count)
        detectable = minimum_detectable_effect(sd, count, level=2 * level, power=power)
        # Where few units differ, the bounds lie farther from the mean than its spread accounts for, by what units that
        # the sample does not hold may contribute; that part falls with their number, not with its root.
        unseen = 0.0
        if few[column]:
            distance = mean - lower if mean >= floor else upper - mean
            unseen = max(0.0, distance - minimum_detectable_effect(sd, count, level=2 * level, power=0.5))
            detectable += unseen
        needed = None
        # A mean on the limit but for rounding: no number of queries would decide.
        if verdict == "inconclusive" and abs(mean - floor) > 10.0**-_DECIMALS:
            needed = _needed_units(mean - floor, sd, unseen * count, 2 * level, power)
        # By the normal approximation this many may do already; the bootstrap has just said that they do not.
        needed = None if needed is None else max(needed, count + 1, math.ceil(FEWEST_UNITS * count / worth))
        outcomes.append(Bounded(n, mean, lower, upper, verdict, detectable, needed, count))
    return outcomes


def _needed_units(effect: float, sd: float, unseen: float, level: float, power: float) -> int | None:
    """How many units decide: the smallest n with `minimum_detectable_effect` + unseen / n no larger than the effect."""
    if unseen == 0:
        return queries_needed(effect, sd, level, power)
    spread = minimum_detectable_effect(sd, 1, level, power)
    # effect n - spread √n - unseen = 0.
    root = (spread + math.sqrt(spread * spread + 4 * abs(effect) * unseen)) / (2 * abs(effect))
    return math.ceil(root * root * (1 - 1e-12)) if root < 1e75 else None
