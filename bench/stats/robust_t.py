"""Student's t for means over dependent queries, with corrections for skewness and few groups. Intervals use it.

The cluster-robust error (`bench.stats.units.robust_mean`) is right on average, but its t is inaccurate if the sums over
units are skewed, because the error then moves with the mean, or if a handful of units makes up most of their spread.
Three corrections, each a formula, keep the size of the test and the coverage of the interval close to nominal on the
boards' own units (`benchmarks/units.py`):

- Skewness is removed from t by Hall's transformation (Hall 1992, "On the removal of skewness by transformation"): g(t)
  = t + A t²/3 + A² t³/27 + A/6 with A = Σ r³ / (Σ r²)^(3/2) of the units' residual sums r. It increases with t, so its
  inverse gives an interval.
- The degrees of freedom are the smaller of Satterthwaite's from the sizes of units alone and 3 (Σ r²)² / Σ r⁴ from
  their residuals: his formula with the residuals' own variances, whose fourth moment is 3 σ⁴ for normal ones.
- Of t and g(t), the one closer to zero counts, because the transformation overcorrects for heavy symmetric tails. So
  the p-value is the larger of the two, and the interval covers both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.stats.distributions import student_quantiles, student_tails
from bench.stats.units import errors_of_residuals, residual_sums


@dataclass(frozen=True, eq=False)
class RobustT:
    """Means of dependent queries and their spread; one entry per column.

    Attributes:
        means: (columns,).
        errors: (columns,) cluster-robust standard errors; NaN for a single unit.
        freedom: (columns,) degrees of freedom; 0 for a single unit, and if units do not vary.
        skewness: (columns,) A above; 0 if units do not vary.
    """

    means: NDArray[np.float64]
    errors: NDArray[np.float64]
    freedom: NDArray[np.float64]
    skewness: NDArray[np.float64]

    def p_values(self) -> NDArray[np.float64]:
        """(columns,) two-sided p-values of a mean of zero: 1 for a single unit and for a mean of zero, 0 for another
        mean of units that do not vary."""
        p = np.ones(len(self.means))
        some = np.abs(self.means) > 1e-12
        p[some & (self.errors == 0)] = 0.0
        tested = some & (self.errors > 0)
        t, skewness = self.means[tested] / self.errors[tested], self.skewness[tested]
        nearer = np.minimum(np.abs(t), np.abs(_without_skewness(t, skewness)))
        p[tested] = 2 * student_tails(nearer, self.freedom[tested])
        return p.round(12)

    def intervals(self, level: float) -> NDArray[np.float64]:
        """(columns, 2) intervals of the means; NaN for a single unit, and if units do not vary.

        Args:
            level: coverage, between 0 and 1.
        """
        ends = np.full((len(self.means), 2), np.nan)
        vary = self.errors > 0
        reach = student_quantiles((1 - level) / 2, self.freedom[vary])
        skewness = self.skewness[vary]
        # The mean minus t errors is the end at which t has the quantile: the upper quantile gives the lower end.
        upper = np.maximum(reach, _with_skewness(reach, skewness))
        lower = np.minimum(-reach, _with_skewness(-reach, skewness))
        ends[vary] = self.means[vary, None] - self.errors[vary, None] * np.column_stack([upper, lower])
        # Rounded, because functions of the t distribution may differ in the last bits between processors.
        return ends.round(12)


def robust_t(values: NDArray[np.float64], units: NDArray[np.int64]) -> RobustT:
    """The inputs of Student's t for values that depend on each other within units.

    Args and errors as in `bench.stats.units.unit_sums`.
    """
    means, residuals, sizes = residual_sums(values, units)
    errors, freedom = errors_of_residuals(residuals, sizes)
    squares = residuals * residuals
    spread, cubes = squares.sum(axis=1), (squares * residuals).sum(axis=1)
    fourths = (squares * squares).sum(axis=1)
    vary = errors > 0
    skewness = np.zeros(len(means))
    skewness[vary] = cubes[vary] / spread[vary] ** 1.5
    own = np.zeros(len(means))
    own[vary] = np.minimum(freedom[vary], 3 * spread[vary] ** 2 / fourths[vary])
    return RobustT(means, errors, own, skewness)


def _without_skewness(t: NDArray[np.float64], skewness: NDArray[np.float64]) -> NDArray[np.float64]:
    """Hall's g(t)."""
    return t + skewness * t * t / 3 + skewness * skewness * t**3 / 27 + skewness / 6


def _with_skewness(quantile: NDArray[np.float64], skewness: NDArray[np.float64]) -> NDArray[np.float64]:
    """The t whose g(t) is a quantile: 3 ((1 + A (q - A/6))^(1/3) - 1) / A, and q if A is 0."""
    even = np.abs(skewness) < 1e-8
    divisor = np.where(even, 1.0, skewness)
    cube = np.cbrt(1 + skewness * (quantile - skewness / 6))
    return np.where(even, quantile, 3 * (cube - 1) / divisor)
