"""Student's t distribution, to the last bit and the same on every processor, as the logarithms of floats are not.

`scipy.special` has it, too; its import takes a fifth of the time of `bench compare`.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache
from statistics import NormalDist

#: Digits of what is calculated, and how near to 1 the last factor of a continued fraction is.
_DIGITS, _NEAR = 26, Decimal("1e-20")
_PI, _HALF = Decimal("3.14159265358979323846264338328"), Decimal("0.5")
#: Bernoulli numbers B₂, B₄, ..., B₁₀, each as numerator and denominator.
_BERNOULLI = ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66))
#: From this argument on, the terms after those numbers are too small to count.
_LARGE = 40


def student_tail(t: float, freedom: float) -> float:
    """The probability that a variable of Student's t distribution is larger than t.

    It is I_x(ν/2, 1/2) / 2 at x = ν / (ν + t²), where I is the regularised incomplete beta function.

    Args:
        t: at least 0; it may be infinite.
        freedom: degrees of freedom ν, at least 1; they need not be whole.

    Returns:
        At most 0.5.
    """
    with localcontext(prec=_DIGITS):
        return float(_tail_and_slope(Decimal(t), Decimal(freedom))[0])


@lru_cache
def student_quantile(tail: float, freedom: float) -> float:
    """The t that a variable of Student's t distribution exceeds with the probability `tail`.

    The logarithm of the tail is a concave function of log t, so Newton's method comes to the quantile from wherever it
    starts.

    Args:
        tail: above 0, below 0.5.
        freedom: degrees of freedom, at least 1; they need not be whole.

    Returns:
        Above 0.
    """
    with localcontext(prec=_DIGITS):
        t, step = Decimal(-NormalDist().inv_cdf(tail)), Decimal(1)
        # The error after a step is about the square of the step.
        while abs(step) > Decimal("1e-10"):
            reached, slope = _tail_and_slope(t, Decimal(freedom))
            step = reached * (reached / Decimal(tail)).ln() / slope
            t *= step.exp()
        return float(t)


def _tail_and_slope(t: Decimal, freedom: Decimal) -> tuple[Decimal, Decimal]:
    """The tail beyond t, and the density at t times t."""
    square = t * t / freedom
    x = 1 / (1 + square)
    y = square * x if square < 1 else 1 - x
    half = freedom / 2
    slope = (-half * (1 + square).ln()).exp() * (y / _PI).sqrt() * _gamma_ratio(half)
    # I_x(a, b) = 1 - I_y(b, a): where the fraction needs fewer terms.
    if t > 1.5:
        return slope / 2 / _beta_fraction(half, _HALF, x, y), slope
    return _HALF - slope / 2 / _beta_fraction(_HALF, half, y, x), slope


def _beta_fraction(a: Decimal, b: Decimal, x: Decimal, y: Decimal) -> Decimal:
    """x^a y^b / (B(a, b) I_x(a, b)) for x + y = 1.

    The continued fraction of Didonato and Morris (1992, eq. 9), by Lentz's method.
    """
    value = above = a * (a * y - b * x + 1) / (a + 1)
    below, step, m = Decimal(0), Decimal(0), 0
    while abs(step - 1) > _NEAR:
        m += 1
        odd = a + 2 * m - 1
        numerator = (a + m - 1) * (a + b + m - 1) * m * (b - m) * (x / odd) ** 2
        denominator = m + m * (b - m) * x / odd + (a + m) * (a * y - b * x + 1 + m * (1 + y)) / (odd + 2)
        below = 1 / (denominator + numerator * below)
        above = denominator + numerator / above
        step = above * below
        value *= step
    return value


def _gamma_ratio(z: Decimal) -> Decimal:
    """Γ(z + 1/2) / Γ(z), by the series of its logarithm for large z (DLMF 5.11.8)."""
    ratio = Decimal(1)
    while z < _LARGE:
        ratio *= z / (z + _HALF)
        z += 1
    series = Decimal(0)
    for k, (numerator, denominator) in enumerate(_BERNOULLI, 1):
        series += (_HALF ** (2 * k - 1) - 2) * numerator / (denominator * 2 * k * (2 * k - 1) * z ** (2 * k - 1))
    return ratio * z.sqrt() * series.exp()
