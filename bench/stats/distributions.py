"""Student's t distribution, for arrays of degrees of freedom that need not be whole.

`scipy.special` has it too, but its import takes a fifth of the time of `bench compare`.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Bernoulli numbers B₂, B₄, ..., B₁₀.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)
#: From this argument on, the terms after these numbers are negligible.
_LARGE = 40
#: Maximum steps of a continued fraction and of Newton's method; a few tens and a few are usual.
_MOST_TERMS, _MOST_STEPS = 1000, 100


def student_tails(t: ArrayLike, freedom: ArrayLike) -> NDArray[np.float64]:
    """The probabilities that a variable of Student's t distribution exceeds t.

    I_x(ν/2, 1/2) / 2 at x = ν / (ν + t²), where I is the regularised incomplete beta function.

    Args:
        t: at least 0; it may be infinite.
        freedom: degrees of freedom ν, at least 1; of the same shape.

    Returns:
        (numbers,) at most 0.5.
    """
    quantiles, degrees = np.broadcast_arrays(np.atleast_1d(np.asarray(t, np.float64)), np.asarray(freedom, np.float64))
    return _tails_and_slopes(quantiles, degrees)[0]


def student_quantiles(tail: float, freedom: ArrayLike) -> NDArray[np.float64]:
    """The t that a variable of Student's t distribution exceeds with the probability `tail`.

    The logarithm of the tail is a concave function of log t, so Newton's method converges from any start.

    Args:
        tail: above 0, below 0.5.
        freedom: (numbers,) degrees of freedom, at least 1.

    Returns:
        (numbers,) above 0.
    """
    degrees = np.atleast_1d(np.asarray(freedom, np.float64))
    z = -NormalDist().inv_cdf(tail)
    # The expansion of Cornish and Fisher in 1/ν is close enough for two or three steps.
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    t = sum((term / degrees**power for power, term in enumerate(terms)), np.zeros(len(degrees)))
    t = np.maximum(t, z)
    moving = np.ones(len(degrees), dtype=bool)
    for _ in range(_MOST_STEPS):
        if not moving.any():
            break
        reached, slopes = _tails_and_slopes(t[moving], degrees[moving])
        steps = reached * np.log(reached / tail) / slopes
        t[moving] *= np.exp(steps)
        # The error after a step is about the square of the step.
        moving[moving] = np.abs(steps) >= 1e-9
    return t


def _tails_and_slopes(
    t: NDArray[np.float64], freedom: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The tail beyond each t, and the density at t times t."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = t * t / freedom
        x = 1 / (1 + squares)
        y = np.where(squares < 1, squares * x, 1 - x)
    half = freedom / 2
    slopes = np.exp(-half * np.log1p(squares)) * np.sqrt(y / math.pi) * _gamma_ratios(half)
    # I_x(a, b) = 1 - I_y(b, a): where the fraction needs fewer terms.
    far = t > 1.5
    a, b = np.where(far, half, 0.5), np.where(far, 0.5, half)
    with np.errstate(invalid="ignore"):
        parts = slopes / 2 / _beta_fractions(a, b, np.where(far, x, y), np.where(far, y, x))
    parts = np.where(slopes > 0, parts, 0.0)
    return np.where(far, parts, 0.5 - parts), slopes


def _beta_fractions(
    a: NDArray[np.float64], b: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """x^a y^b / (B(a, b) I_x(a, b)) for x + y = 1.

    The continued fraction of Didonato and Morris (1992, eq. 9), by Lentz's method.
    """
    values = above = a * (a * y - b * x + 1) / (a + 1)
    below, open_ends = np.zeros_like(values), np.ones(len(values), dtype=bool)
    for m in range(1, _MOST_TERMS):
        odd = a + 2 * m - 1
        numerators = (a + m - 1) * (a + b + m - 1) * m * (b - m) * (x / odd) ** 2
        denominators = m + m * (b - m) * x / odd + (a + m) * (a * y - b * x + 1 + m * (1 + y)) / (odd + 2)
        below = 1 / (denominators + numerators * below)
        above = denominators + numerators / above
        steps = above * below
        # A number must not depend on its neighbours: each stops when its own factors have converged to 1.
        values = np.where(open_ends, values * steps, values)
        open_ends &= np.abs(steps - 1) > 1e-16
        if not open_ends.any():
            break
    return values


def _gamma_ratios(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Γ(z + 1/2) / Γ(z), by the series of its logarithm for large z (DLMF 5.11.8)."""
    ratios, large = np.ones_like(z), z.copy()
    while (small := large < _LARGE).any():
        ratios = np.where(small, ratios * large / (large + 0.5), ratios)
        large = np.where(small, large + 1, large)
    series = np.zeros_like(z)
    for k, number in enumerate(_BERNOULLI, 1):
        series += (0.5 ** (2 * k - 1) - 2) * number / (2 * k * (2 * k - 1) * large ** (2 * k - 1))
    return ratios * np.sqrt(large) * np.exp(series)
