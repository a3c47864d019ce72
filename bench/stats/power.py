"""Minimum detectable effects and required sample sizes."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray


def minimum_detectable_effect(sd: float, queries: int, level: float = 0.05, power: float = 0.8) -> float:
    """The mean difference that a two-sided test of this size finds with probability `power`.

    (z_{1 - level/2} + z_{power}) · sd / √n, by the normal approximation of a paired test (Cohen 1988, chapter 2).

    Args:
        sd: standard deviation of the differences.
        queries: number of differences, at least 1.
        level: size of the test.
        power: probability of finding an effect of the returned size.
    """
    normal = NormalDist()
    return (normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)) * sd / math.sqrt(queries)


def queries_needed(effect: float, sd: float, level: float = 0.05, power: float = 0.8) -> int | None:
    """How many queries a two-sided test of this size needs to find a mean difference with probability `power`.

    The smallest n whose `minimum_detectable_effect` is no larger than the effect.

    Args:
        effect: the true mean difference; its sign does not matter.
        sd: standard deviation of the differences.
        level: size of the test.
        power: probability of finding the effect.

    Returns:
        At least 1, also if differences do not vary; None for an effect of zero, or one so small that the number is not
        finite.

    Raises:
        ValueError: effect or sd is not finite, or sd is negative.
    """
    if not math.isfinite(effect) or not math.isfinite(sd) or sd < 0:
        raise ValueError(f"an effect and a standard deviation must be finite, the latter not negative: {effect}, {sd}")
    if effect == 0:
        return None
    ratio = minimum_detectable_effect(sd, 1, level, power) / abs(effect)
    if ratio > 1e150:
        return None
    # The inverse of the effect for n queries is n, although its square is a hair above.
    return max(1, math.ceil(ratio * ratio * (1 - 1e-12)))


def queries_for_equivalence(difference: float, sd: float, margin: float, power: float = 0.8) -> int | None:
    """How many queries two one-sided tests at the 5% level need to show a mean difference to be within a margin.

    The smallest n with Φ((m - |d|) √n / σ - z) + Φ((m + |d|) √n / σ - z) - 1 of at least the power, where z is the
    normal quantile at 0.95 (Phillips 1990, for many queries).

    Args:
        difference: the true mean difference, d.
        sd: standard deviation of the differences, σ.
        margin: m, above 0.
        power: probability of showing it.

    Returns:
        At least 1; None if the difference is not below the margin, or so close that the number is not finite.

    Raises:
        ValueError: difference, sd or margin is not finite, sd is negative, or the margin is not above 0.
    """
    if not all(map(math.isfinite, (difference, sd, margin))) or sd < 0 or margin <= 0:
        raise ValueError(f"numbers must be finite, the margin above 0, sd not negative: {difference}, {sd}, {margin}")
    room = margin - abs(difference)
    if room <= 0:
        return None
    normal = NormalDist()
    quantile = normal.inv_cdf(0.95)

    def shown(root: float) -> float:
        return normal.cdf(room * root - quantile) + normal.cdf((margin + abs(difference)) * root - quantile) - 1

    # √n / σ lies between the value at which the nearer limit alone gives the power and that at which each gives half.
    low, high = (
        (quantile + normal.inv_cdf(power)) / room,
        (quantile + normal.inv_cdf((1 + power) / 2)) / room,
    )
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) >= power else (middle, high)
    root = high * sd
    return max(1, math.ceil(root * root * (1 - 1e-12))) if root < 1e75 else None


def expected_error(sd: float, correlation: float, units: NDArray[np.int64]) -> float:
    """The standard error of a mean over queries that correlate within units: σ √(Σ n_g (1 + (n_g - 1) ρ)) / n.

    Kish 1965, section 5.4, for units of n_g queries, n in all.

    Args:
        sd: standard deviation of a query's value, σ.
        correlation: of two queries in one unit, ρ; a negative value counts as 0.
        units: (queries,) the unit of each query, numbered from 0 without a gap; at least one query.
    """
    sizes = np.bincount(units)
    spread = float((sizes * (1 + (sizes - 1) * max(correlation, 0.0))).sum())
    return sd * math.sqrt(spread) / len(units)
