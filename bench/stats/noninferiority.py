"""Means against a threshold: tests of a margin or a floor (protocol, gate). Gates and comparisons call it.

One pair of bounds answers both questions about a margin. Is the candidate worse by more than the margin
(non-inferiority)? Are the two equal within it? For the latter, two one-sided tests (Schuirmann 1987; Lakens 2017)
reject that the difference is at least the margin, and that it is at most minus the margin. Failing to find a difference
does not show equivalence.
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

#: Bounds are compared after rounding, so that last bits decide nothing.
_DECIMALS = 12
#: With fewer effective units of independence (`effective_units`), no verdict is given. With 61 groups worth 28
#: (azure-mcp), tests find non-existent differences in up to 13% of samples, and 95% intervals contain as few as 88% of
#: differences; from 38 on they keep their level on all boards but one (`benchmarks/units.py`).
FEWEST_UNITS = 30


@dataclass(frozen=True)
class BoundedMean:
    """A mean against a threshold.

    Attributes:
        n: queries.
        units: units of independence; the number of queries if these are independent.
        mean: of the values.
        lower, upper: one-sided bounds of the mean, each at the given level; None if the spread is unknown, as for a
            single unit.
        verdict: `pass` if the mean is significantly above the threshold, `regression` if below, else `inconclusive`.
        detectable: distance of the true mean from the threshold at which this many units decide with the given
            power; None without bounds.
        needed: total units that would decide with that power, if mean and spread stay the same; None if it is
            decided, or if no number would decide (the mean is the threshold, or there are no bounds).
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
    """Whether units are worth at least `FEWEST_UNITS` independent queries; otherwise they are too few to decide.

    Args:
        units: (queries,) the unit of each query, numbered from 0 without a gap; at least one query.
    """
    return effective_units(units) >= FEWEST_UNITS


def pair_verdict(difference: float, p: float, decided: bool) -> PairVerdict:
    """The verdict of a two-sided test on a difference, in a word; higher is better.

    A test that finds no difference does not show that there is none (`judge_interval` can).

    Args:
        difference: the first minus the second.
        p: p-value of the test, corrected if there are several comparisons.
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
) -> list[BoundedMean]:
    """Is a candidate worse than its baseline by more than a margin? One answer per column.

    With d = candidate - baseline on the same queries, higher being better: pass if the lower one-sided bound of the
    mean of d is above -margin, regression if the upper one is below it, else inconclusive (Wellek 2010, chapter 1). Too
    few units (`enough_units`) are inconclusive whatever their bounds.

    The bounds are the ends of the interval of coverage 1 - 2 level, as from `bench.stats.bootstrap.bca_intervals`; for
    dependent queries, those of the shifts that the randomisation test does not reject
    (`bench.stats.differences.sign_flip_intervals`) if these are farther out, because a few large units may make the
    former too narrow.

    Args:
        differences: (queries, columns), finite.
        margin: the largest acceptable loss, at least 0.
        level: probability of each error: passing a loss of `margin`, or reporting a loss of `margin` as more.
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
    """Are two equal within a margin? Decided by an interval of coverage 1 - 2 level, each error at that level.

    `within` if it lies inside (-margin, margin), `beyond` if it lies outside [-margin, margin], else `undecided`. With
    the bounds of `non_inferiority`, `within` means a pass in both directions, and `beyond` a regression in one. An
    equivalence and a difference do not exclude each other: a small difference may be certain.

    Args:
        low, high: the ends; None if nothing is known about the spread.
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
) -> list[BoundedMean]:
    """Is a mean at least a floor? One answer per column.

    Pass if the lower one-sided bound of the mean is not below the floor, regression if the upper one is, else
    inconclusive, as are too few units (`enough_units`). Arguments and errors as in `non_inferiority`; the floor is any
    finite number, and a mean must be above it unless `reaching` it is enough.
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
            outcomes.append(BoundedMean(n, only, None, None, "inconclusive", None, None, count))
            continue
        constant = bool((whole[:, column] == whole[0, column]).all())
        # An exact sum, so that the last bits do not depend on the memory layout.
        squares = math.fsum((float(value) - float(mean)) ** 2 for value in values[:, column])
        mean, sd = float(mean), 0.0 if constant else math.sqrt(squares / (n - 1))
        lower, upper = (round(float(end), _DECIMALS) for end in intervals[column])
        verdict: Verdict = "inconclusive"
        if worth >= FEWEST_UNITS and (lower > limit or (reaching and lower == limit)):
            verdict = "pass"
        elif worth >= FEWEST_UNITS and upper < limit:
            verdict = "regression"
        if errors is not None:
            # The spread of a unit such that the mean has the error for dependent queries.
            sd = float(errors[column]) * math.sqrt(count)
        detectable = minimum_detectable_effect(sd, count, level=2 * level, power=power)
        # If few units differ, the bounds are farther from the mean than its spread explains, because of units that the
        # sample may lack; that part decreases with their number, not with its root.
        unseen = 0.0
        if few[column]:
            distance = mean - lower if mean >= floor else upper - mean
            unseen = max(0.0, distance - minimum_detectable_effect(sd, count, level=2 * level, power=0.5))
            detectable += unseen
        needed = None
        # The mean is on the limit up to rounding: no number of queries would decide.
        if verdict == "inconclusive" and abs(mean - floor) > 10.0**-_DECIMALS:
            needed = _needed_units(mean - floor, sd, unseen * count, 2 * level, power)
        # By the normal approximation this many may be enough already; the bootstrap has just shown that they are not.
        needed = None if needed is None else max(needed, count + 1, math.ceil(FEWEST_UNITS * count / worth))
        outcomes.append(BoundedMean(n, mean, lower, upper, verdict, detectable, needed, count))
    return outcomes


def _needed_units(effect: float, sd: float, unseen: float, level: float, power: float) -> int | None:
    """Units needed: the smallest n for which `minimum_detectable_effect` + unseen / n is at most the effect."""
    if unseen == 0:
        return queries_needed(effect, sd, level, power)
    spread = minimum_detectable_effect(sd, 1, level, power)
    # effect n - spread √n - unseen = 0.
    root = (spread + math.sqrt(spread * spread + 4 * abs(effect) * unseen)) / (2 * abs(effect))
    return math.ceil(root * root * (1 - 1e-12)) if root < 1e75 else None
