"""Non-inferiority tests of a mean against a threshold (protocol, section 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import as_integers, bca_intervals
from bench.stats.power import minimum_detectable_effect, queries_needed

Verdict = Literal["pass", "regression", "inconclusive"]

#: Bounds are compared after rounding: the last bits of a sum decide nothing.
_DECIMALS = 12
#: Fewer queries decide nothing. Few queries may all have one value where others do not: the bootstrap sees no spread
#: then, and its bounds are that value. At level 0.05 a floor of 0.85 passes a method of mean 0.80 (zeros and ones) in
#: 64% of all samples of 2 queries, 51% of 3, 33% of 5, 10% of 10, and 1.2% of 20.
FEWEST_QUERIES = 20


@dataclass(frozen=True)
class Bounded:
    """A mean against a threshold.

    Attributes:
        n: queries.
        mean: of the values.
        lower, upper: one-sided bounds of the mean, each at the level asked for; None for a single query, of whose
            spread nothing is known.
        verdict: `pass` where the mean is shown to lie above the threshold, `regression` where below, else
            `inconclusive`.
        detectable: how far from the threshold the true mean must lie for this many queries to decide with the power
            asked for; None for a single query.
        needed: queries that would decide with that power, if mean and spread stay as they are; None where it is
            decided, or where no number would (the mean is the threshold, or a single query was asked).
    """

    n: int
    mean: float
    lower: float | None
    upper: float | None
    verdict: Verdict
    detectable: float | None
    needed: int | None


def non_inferiority(
    differences: NDArray[np.float64], margin: float, level: float = 0.05, power: float = 0.8, seed: int = 0
) -> list[Bounded]:
    """Is a candidate worse than its baseline by more than a margin? One answer for each column.

    With d = candidate - baseline on the same queries, higher being better: pass where the lower one-sided bound of the
    mean of d lies above -margin, regression where the upper one lies below it, else inconclusive (Wellek 2010,
    chapter 1; protocol, section 5). The bounds are the ends of the BCa interval of coverage 1 - 2 level.

    A candidate that agrees with its baseline on every query passes, whatever the margin and however few queries there
    are: it answers the same. Of others, fewer than `FEWEST_QUERIES` queries are inconclusive, whatever their bounds.

    Args:
        differences: (queries, columns), finite.
        margin: the largest loss that is acceptable, at least 0.
        level: chance of each error: passing a loss of `margin`, reporting one of `margin` as more.
        power: probability to which `detectable` and `needed` refer.
        seed: of the bootstrap; the same seed gives the same bounds.

    Raises:
        ValueError: there are no queries, a value is not finite, the margin is negative, the level is not between
            0 and 0.5, or the power not between the level and 1.
    """
    if not margin >= 0:
        raise ValueError("the margin must not be negative")
    found = _bounded(differences, -margin, level, power, seed, reaching=False)
    values = np.asarray(differences, dtype=np.float64)
    whole, _ = as_integers(values)
    same = (whole == 0).all(axis=0)
    return [
        Bounded(item.n, 0.0, 0.0, 0.0, "pass", item.detectable, None) if same[column] else item
        for column, item in enumerate(found)
    ]


def at_least(
    values: NDArray[np.float64], floor: float, level: float = 0.05, power: float = 0.8, seed: int = 0
) -> list[Bounded]:
    """Is a mean at least a floor? One answer for each column.

    Pass where the lower one-sided bound of the mean is not below the floor, regression where the upper one is,
    else inconclusive, as are fewer than `FEWEST_QUERIES` queries. Arguments and errors as `non_inferiority`; the floor
    is any finite number.
    """
    return _bounded(values, floor, level, power, seed, reaching=True)


def _bounded(
    values: NDArray[np.float64], threshold: float, level: float, power: float, seed: int, reaching: bool
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
    intervals = bca_intervals(values, level=1 - 2 * level, seed=seed)
    limit = round(threshold, _DECIMALS)
    found = []
    for column, mean in enumerate(means):
        if n == 1:
            found.append(Bounded(1, float(values[0, column]), None, None, "inconclusive", None, None))
            continue
        constant = bool((whole[:, column] == whole[0, column]).all())
        # An exact sum, so that the last bits do not depend on how the columns lie in memory.
        squares = math.fsum((float(value) - float(mean)) ** 2 for value in values[:, column])
        mean, sd = float(mean), 0.0 if constant else math.sqrt(squares / (n - 1))
        lower, upper = (round(float(end), _DECIMALS) for end in intervals[column])
        verdict: Verdict = "inconclusive"
        if n < FEWEST_QUERIES:
            verdict = "inconclusive"
        elif lower > limit or (reaching and lower == limit):
            verdict = "pass"
        elif upper < limit:
            verdict = "regression"
        detectable = minimum_detectable_effect(sd, n, level=2 * level, power=power)
        needed = None
        # A mean on the limit but for rounding: no number of queries would decide.
        if verdict == "inconclusive" and abs(mean - threshold) > 10.0**-_DECIMALS:
            needed = queries_needed(mean - threshold, sd, level=2 * level, power=power)
        # By the normal approximation this many may do already; the bootstrap has just said that they do not.
        needed = None if needed is None else max(needed, n + 1, FEWEST_QUERIES)
        found.append(Bounded(n, mean, lower, upper, verdict, detectable, needed))
    return found
