"""Non-inferiority tests of a mean against a threshold (protocol, section 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import few_differ
from bench.stats.differences import hold_both, sign_flip_intervals
from bench.stats.exact import as_integers
from bench.stats.power import minimum_detectable_effect, queries_needed
from bench.stats.units import dependence, effective_units, robust_mean

Verdict = Literal["pass", "regression", "inconclusive"]
PairVerdict = Literal["better", "worse", "not decided", "too few groups"]

#: Bounds are compared after rounding: the last bits of a sum decide nothing.
_DECIMALS = 12
#: Queries, or units of independence that are worth fewer (`effective_units`), decide nothing. Few queries may all have
#: one value where others do not: the bootstrap sees no spread then, and its bounds are that value. At level 0.05 a
#: floor of 0.85 passes a method of mean 0.80 (zeros and ones) in 64% of all samples of 2 queries, 51% of 3, 33% of 5,
#: 10% of 10, and 1.2% of 20.
FEWEST_UNITS = 20
#: p-values below it tell two apart; where several are compared, corrected ones.
LEVEL = 0.05


@dataclass(frozen=True)
class Bounded:
    """A mean against a threshold.

    Attributes:
        n: queries.
        units: units of independence, which is the number of queries if these are independent.
        mean: of the values.
        lower, upper: one-sided bounds of the mean, each at the level asked for; None for a single unit, of whose
            spread nothing is known.
        verdict: `pass` where the mean is shown to lie above the threshold, `regression` where below, else
            `inconclusive`.
        detectable: how far from the threshold the true mean must lie for this many units to decide with the power
            asked for; None for a single unit.
        needed: units, in all, that would decide with that power, if mean and spread stay as they are; None where it is
            decided, or where no number would (the mean is the threshold, or there is a single unit).
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

    A test that shows no difference does not show that there is none (`bench.stats.equivalence` can).

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
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
    span: tuple[float, float] | None = None,
) -> list[Bounded]:
    """Is a candidate worse than its baseline by more than a margin? One answer for each column.

    With d = candidate - baseline on the same queries, higher being better: pass where the lower one-sided bound of the
    mean of d lies above -margin, regression where the upper one lies below it, else inconclusive (Wellek 2010,
    chapter 1; protocol, section 5). The bounds are the ends of the interval of coverage 1 - 2 level, as of
    `bench.stats.bootstrap.bca_intervals`; of dependent queries, those of the shifts that the randomisation test does
    not reject (`bench.stats.differences.sign_flip_intervals`) if these lie farther out, since few large units may pull
    the former too near.

    Without a span, a candidate that agrees with its baseline on every query passes, whatever the margin and however few
    queries there are: it answers the same. With a span, it is a sample like any other: a loss that comes in one query
    of fifty is not found in half of all samples of thirty. Of others, units that are too few (`enough_units`) are
    inconclusive, whatever their bounds.

    Args:
        differences: (queries, columns), finite.
        margin: the largest loss that is acceptable, at least 0.
        level: chance of each error: passing a loss of `margin`, reporting one of `margin` as more.
        power: probability to which `detectable` and `needed` refer.
        seed: of the bootstrap; the same seed gives the same bounds.
        units: (queries,) the unit of independence of each query, numbered from 0 without a gap. None for independent
            queries.
        span: the smallest and the largest difference that is possible, such as (-1, 1) for shares. None if it is not
            known.

    Raises:
        ValueError: there are no queries, a value is not finite or outside the span, the margin is negative, the level
            is not between 0 and 0.5, the power not between the level and 1, or units are not numbered from 0 without a
            gap, or not one for each query.
    """
    if not margin >= 0:
        raise ValueError("the margin must not be negative")
    outcomes = _bound_means(differences, -margin, level, power, seed, units, span, reaching=False)
    if span is not None:
        return outcomes
    values = np.asarray(differences, dtype=np.float64)
    whole, _ = as_integers(values)
    same = (whole == 0).all(axis=0)
    return [
        Bounded(item.n, 0.0, 0.0, 0.0, "pass", item.detectable, None, item.units) if same[column] else item
        for column, item in enumerate(outcomes)
    ]


def at_least(
    values: NDArray[np.float64],
    floor: float,
    level: float = LEVEL,
    power: float = 0.8,
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
    span: tuple[float, float] | None = None,
) -> list[Bounded]:
    """Is a mean at least a floor? One answer for each column.

    Pass where the lower one-sided bound of the mean is not below the floor, regression where the upper one is,
    else inconclusive, as are too few units (`enough_units`). Arguments and errors as `non_inferiority`; the floor
    is any finite number.
    """
    return _bound_means(values, floor, level, power, seed, units, span, reaching=True)


def _bound_means(
    values: NDArray[np.float64],
    threshold: float,
    level: float,
    power: float,
    seed: int,
    units: NDArray[np.int64] | None,
    span: tuple[float, float] | None,
    reaching: bool,
) -> list[Bounded]:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError("values must be a table of finite numbers, one row for each query")
    if not math.isfinite(threshold):
        raise ValueError("the threshold must be a finite number")
    if not 0 < level < 0.5 or not level < power < 1:
        raise ValueError("the level must lie between 0 and 0.5, and the power between the level and 1")
    n = len(values)
    whole, unit = as_integers(values)
    means = whole.sum(axis=0) * unit / n
    codes = dependence(units, n)
    count = n if codes is None else int(codes.max()) + 1
    worth = n if codes is None else effective_units(codes)
    intervals = bca_intervals(values, level=1 - 2 * level, seed=seed, units=codes, span=span)
    if codes is not None and not reaching and worth >= FEWEST_UNITS:
        shifts = sign_flip_intervals(values, 1 - 2 * level, seed, codes)
        intervals = hold_both(intervals, shifts if span is None else np.clip(shifts, *span))
    few = None if span is None else few_differ(values, codes)
    errors = None if codes is None else robust_mean(values, codes)[1]
    limit = round(threshold, _DECIMALS)
    outcomes = []
    for column, mean in enumerate(means):
        if count == 1:
            only = float(values[0, column]) if n == 1 else float(mean)
            outcomes.append(Bounded(n, only, None, None, "inconclusive", None, None, 1))
            continue
        constant = bool((whole[:, column] == whole[0, column]).all())
        # An exact sum, so that the last bits do not depend on how the columns lie in memory.
        squares = math.fsum((float(value) - float(mean)) ** 2 for value in values[:, column])
        mean, sd = float(mean), 0.0 if constant else math.sqrt(squares / (n - 1))
        lower, upper = (round(float(end), _DECIMALS) for end in intervals[column])
        verdict: Verdict = "inconclusive"
        if worth < FEWEST_UNITS:
            verdict = "inconclusive"
        elif lower > limit or (reaching and lower == limit):
            verdict = "pass"
        elif upper < limit:
            verdict = "regression"
        if errors is not None:
            # Of a unit, such that the mean has the error that holds for dependent queries.
            sd = float(errors[column]) * math.sqrt(count)
        detectable = minimum_detectable_effect(sd, count, level=2 * level, power=power)
        # Where few units differ, the bounds lie farther from the mean than its spread accounts for, by what units that
        # the sample does not hold may contribute; that part falls with their number, not with its root.
        unseen = 0.0
        if few is not None and few[column]:
            distance = mean - lower if mean >= threshold else upper - mean
            unseen = max(0.0, distance - minimum_detectable_effect(sd, count, level=2 * level, power=0.5))
            detectable += unseen
        needed = None
        # A mean on the limit but for rounding: no number of queries would decide.
        if verdict == "inconclusive" and abs(mean - threshold) > 10.0**-_DECIMALS:
            needed = _needed_units(mean - threshold, sd, unseen * count, 2 * level, power)
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
