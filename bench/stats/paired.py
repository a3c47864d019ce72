"""Paired comparisons: difference, interval, p-value, effect size, and win/tie/loss counts. Comparisons call it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.stats.bounded import ANY, Span
from bench.stats.classical import check_differences
from bench.stats.differences import agree, intervals_and_p_values, pair_intervals, second_looks
from bench.stats.exact import as_integers
from bench.stats.noninferiority import FEWEST_UNITS, LEVEL
from bench.stats.power import minimum_detectable_effect, queries_needed
from bench.stats.randomisation import randomisation_test
from bench.stats.ranking import p_of_pairs
from bench.stats.strata import centred_values, stratified_intervals, weighted_values
from bench.stats.units import dependence, effective_units, robust_mean


@dataclass(frozen=True)
class Paired:
    """One comparison: differences d = first - second over the same queries.

    Attributes:
        n: queries.
        difference: mean of d.
        low, high: its 95% interval, as from `bench.stats.differences.intervals_and_p_values`, which contains zero
            exactly if p is at least 0.05 (for `compare_pairs`: the corrected p); None if there are too few units, such
            as a single one.
        p: two-sided test of a zero mean, from the same function.
        dz: difference / standard deviation of d; None if d does not vary.
        wins, ties, losses: queries on which the first is better, equal and worse.
        detectable: the smallest mean difference that this many units detect with 80% power at the 5% level; None
            for a single unit, whose spread is unknown.
        units: units of independence; the number of queries if these are independent.
        effective: the equivalent number of independent queries (`bench.stats.units.effective_units`).
    """

    n: int
    difference: float
    low: float | None
    high: float | None
    p: float
    dz: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None
    units: int
    effective: float

    @property
    def decided(self) -> bool:
        """Whether there are enough units for a conclusion (`bench.stats.noninferiority.enough_units`)."""
        return self.effective >= FEWEST_UNITS

    @property
    def needed(self) -> int | None:
        """Units that would detect the observed difference as in `detectable`; None without a difference or for one
        unit.
        """
        if self.detectable is None:
            return None
        # A difference of zero up to rounding is none.
        effect = self.difference if abs(self.difference) > 1e-12 else 0.0
        return queries_needed(effect, self.detectable * math.sqrt(self.units) / minimum_detectable_effect(1, 1))


def compare(
    differences: NDArray[np.float64],
    strata: NDArray[np.int64] | None = None,
    units: NDArray[np.int64] | None = None,
    span: Span = ANY,
) -> list[Paired]:
    """Compare per-query values; one comparison per column.

    With units, signs are flipped unit by unit, and `detectable` uses the standard error for dependent queries
    (`bench.stats.units.robust_mean`).

    Args:
        differences: (queries, columns) first - second, finite.
        strata: (queries,) group of each query, from 0; the mean is then the mean of the groups' means.
        units: (queries,) as of `bench.stats.units.dependence`; None for independent queries.
        span: the range of the mean difference; if few units differ, the interval then allows for differences that
            the sample lacks.

    Raises:
        ValueError: there are no queries, a value is not finite or outside the span, or units are not as `dependence`
            takes them.
    """
    values = check_differences(differences)
    codes = dependence(units, len(values))
    groups = np.zeros(len(values), dtype=np.int64) if strata is None else strata
    if groups.any():
        span.check(values)
        weighted = weighted_values(values, groups)
        p = second_looks(randomisation_test(weighted, units=codes), centred_values(values, groups), codes)
        # Sign flips do not preserve the groups.
        intervals = stratified_intervals(values, groups, codes, [span] * values.shape[1])
        intervals = span.clip(agree(intervals, p < LEVEL, weighted.mean(axis=0)))
    else:
        intervals, p = intervals_and_p_values(values, units=codes, span=span)
    return _describe(values, groups, codes, intervals, p)


def compare_pairs(
    values: NDArray[np.float64],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    corrected: NDArray[np.float64],
    sizes: NDArray[np.int64],
    units: NDArray[np.int64] | None = None,
    span: Span = ANY,
    p: NDArray[np.float64] | None = None,
) -> list[Paired]:
    """`compare` for pairs of systems in families, with intervals that agree with the corrected p-values.

    The intervals of a family of m pairs have the level 1 - 0.05 / m, so that together they contain all differences in
    95% of cases (Bonferroni). If a stepwise correction such as Holm's finds a difference that they leave open, they end
    just short of zero: they contain zero exactly if the corrected p-value is at least 0.05.

    Args:
        values: (queries, systems), finite.
        first, second: (pairs,) columns.
        corrected, sizes: (pairs,) as in `bench.stats.ranking.PairTests`.
        units, span: as in `compare`, for first minus second; so are the errors.
        p: (pairs,) uncorrected p-values, as from `bench.stats.ranking.p_of_pairs`; computed if None.
    """
    p = p_of_pairs(values, first, second, units, span=span) if p is None else p
    differences, intervals = values[:, first] - values[:, second], np.empty((len(first), 2))
    for size in np.unique(sizes):
        part = sizes == size
        level = 1 - LEVEL / float(size)
        pairs = first[part], second[part], p[part]
        intervals[part] = pair_intervals(values, *pairs, level, units, span)
    intervals = agree(intervals, corrected < LEVEL, differences.mean(axis=0))
    groups = np.zeros(len(values), dtype=np.int64)
    return _describe(differences, groups, dependence(units, len(values)), intervals, p)


def _describe(
    values: NDArray[np.float64],
    groups: NDArray[np.int64],
    codes: NDArray[np.int64] | None,
    intervals: NDArray[np.float64],
    p: NDArray[np.float64],
) -> list[Paired]:
    centred = centred_values(values, groups)
    means = weighted_values(values, groups).mean(axis=0)
    whole, _ = as_integers(values)
    # Within groups: differences between groups do not make the mean of their means uncertain.
    spread = centred.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    count = len(values) if codes is None else int(codes.max()) + 1
    # A unit is an observation with a standard deviation that gives the mean the error for dependent queries.
    deviations = spread if codes is None else robust_mean(centred, codes)[1] * math.sqrt(count)
    comparisons = []
    for column in range(values.shape[1]):
        low, high = (float(end) if math.isfinite(end) else None for end in intervals[column])
        sd = float(spread[column])
        signs = np.sign(whole[:, column])
        comparisons.append(
            Paired(
                n=len(values),
                difference=float(means[column]),
                low=low,
                high=high,
                p=float(p[column]),
                dz=float(means[column]) / sd if sd > 0 else None,
                wins=int((signs > 0).sum()),
                ties=int((signs == 0).sum()),
                losses=int((signs < 0).sum()),
                detectable=minimum_detectable_effect(float(deviations[column]), count) if count > 1 else None,
                units=count,
                effective=float(len(values)) if codes is None else effective_units(codes),
            )
        )
    return comparisons
