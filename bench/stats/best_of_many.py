"""The best of many variants tried on the same queries: a corrected test, and a mean without selection bias.

Selecting the best of 50 variants on a test set lets chance choose, and the test of that one variant ignores the other
49 (White 2000, "A reality check for data snooping"). A board that sees only submissions can answer in steps, as the
ladder of Blum and Hardt (2015) does: it reports an improvement only above a margin, so many tries learn little from it.
That protects the board, but hides real gains below the margin and does not say how certain the best is. Here the values
of every stored variant are known per query, so the test can ask directly how large the best of so many would be if none
were better, given their dependence: near-copies count as little more than one.

The statistic is standardised, as Romano and Wolf (2005) and Hansen (2005) advise: with raw means, one erratic variant
would hide what steady ones show. The step-down of Romano and Wolf is not used, because it only finds more beyond the
best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.stats.exact import as_integers
from bench.stats.randomisation import FLIPS, MOST_ENUMERATED, every_sign_vector, flipped_wholes, sign_vectors
from bench.stats.robust_t import robust_t
from bench.stats.units import dependence, unit_sums

#: Number of resamples for choosing a variant.
CHOICES = 1_000


def best_of_many(
    values: NDArray[np.float64],
    families: NDArray[np.int64],
    against: int,
    *,
    units: NDArray[np.int64] | None = None,
    flips: int = FLIPS,
) -> NDArray[np.float64]:
    """Two-sided p-values of systems against one of them, corrected for every variant tried of either.

    The statistic of a pair is its mean difference divided by its standard deviation over the sign vectors. p is the
    share of sign vectors, the same for all pairs, for which the largest statistic of any variant of one system against
    any variant of the other is at least as far from zero as the observed one (the single-step maximum of Westfall and
    Young 1993, with random signs of units as in `randomisation_test`). So if no variant differs, some variant has p <
    0.05 in 5% of cases, and p is valid however one of them was selected. Variants of one family are corrected for the
    whole family against the same one.

    For one variant against one other, p is that of `intervals_and_p_values` to the last bit: with dependent queries, no
    p is below that of Student's t corrected for skewness. Copies of a variant change nothing.

    Args:
        values: (queries, systems), finite.
        families: (systems,) the family of each system, by code: variants of one family were tried as alternatives.
        against: position of the system that all others are compared with.
        units: (queries,) as of `bench.stats.units.dependence`; None for independent queries.
        flips: number of random sign vectors, unless all are enumerated.

    Returns:
        (systems,) p-values; 1 for identical values.

    Raises:
        ValueError: units are not numbered from 0 without a gap, or not one for each query.
    """
    return best_of_tables([values], [families], against, units=units, flips=flips)[0]


def best_of_tables(
    values: Sequence[NDArray[np.float64]],
    families: Sequence[NDArray[np.int64]],
    against: int,
    *,
    units: NDArray[np.int64] | None = None,
    flips: int = FLIPS,
) -> list[NDArray[np.float64]]:
    """`best_of_many` of several tables of the same queries, such as one per metric, which share their sign vectors.

    Args:
        values, families: for each table, as in `best_of_many`.
        against, units, flips: as in `best_of_many`.
    """
    contests = [_SignFlips(*one, against, units) for one in zip(values, families, strict=True)]
    sampled = [contest for contest in contests if not contest.enumerated]
    for contest in contests:
        if contest.enumerated:
            contest.count(every_sign_vector(len(contest.rows)).astype(np.float64) @ contest.rows)
    if sampled:
        rows = np.hstack([contest.rows for contest in sampled])
        ends = np.cumsum([contest.rows.shape[1] for contest in sampled])
        for kept in sign_vectors(len(rows), flips, columns=rows.shape[1]):
            sums = kept.astype(np.float64) @ rows
            for contest, part in zip(sampled, np.split(sums, ends[:-1], axis=1), strict=True):
                contest.count(part)
    return [contest.p_values() for contest in contests]


class _SignFlips:
    """The systems of one table against one of them, and how many sign vectors were as extreme.

    Systems are sorted by family.

    Attributes:
        rows: (units, systems) whole numbers whose signs are flipped; without the rows that are zero, if all sign
            vectors are enumerated.
        enumerated: whether they are.
    """

    def __init__(
        self, values: NDArray[np.float64], families: NDArray[np.int64], against: int, units: NDArray[np.int64] | None
    ) -> None:
        order = np.argsort(families, kind="stable")
        table = np.asarray(values, dtype=np.float64)[:, order]
        self._codes = np.unique(families[order], return_inverse=True)[1]
        self._back = np.argsort(order, kind="stable")
        baseline = int(self._back[against])
        queries, systems = table.shape
        # All as differences from one system on one scale: the whole numbers of a pair are differences of two of these.
        self._table = table - table[:, [baseline]]
        _, unit = as_integers(self._table)
        self._dependent = dependence(units, queries)
        whole = flipped_wholes(np.rint(self._table / unit.max()), self._dependent)
        self._totals = whole.sum(axis=0)
        # Variants of the reference system, and the spread of their differences from all systems.
        self._baseline, self._family = baseline, self._codes[baseline]
        self._rivals = np.flatnonzero(self._codes == self._family).tolist()
        self._slack = {rival: queries if rival == baseline else 2 * queries for rival in self._rivals}
        self._scales = {
            rival: _scales(whole - whole[:, [rival]], self._slack[rival] - queries) for rival in self._rivals
        }
        self._found = np.abs(self._totals - self._totals[baseline]) * self._scales[baseline]
        nonzero = whole.any(axis=1)
        self.enumerated = int(np.count_nonzero(nonzero)) <= MOST_ENUMERATED
        self.rows = whole[nonzero] if self.enumerated else whole
        self._starts = np.searchsorted(self._codes, np.arange(int(self._codes.max()) + 1))
        self._hits, self._vectors = np.zeros(systems, dtype=np.int64), 0

    def count(self, kept: NDArray[np.float64]) -> None:
        """Count the sign vectors that are as extreme as the observed one.

        Args:
            kept: (vectors, systems) sums of the rows whose sign a vector keeps.
        """
        # Rows of systems, which are contiguous.
        sums = np.ascontiguousarray(kept.T)
        sums *= 2
        sums -= self._totals[:, None]
        largest = np.zeros((len(self._starts), len(kept)))
        own = largest[0]
        for rival in self._rivals:
            apart = sums - sums[rival]
            np.abs(apart, out=apart)
            # Rounding moves a sum by at most half a unit per query, so equal sums are this close.
            apart += self._slack[rival]
            apart *= self._scales[rival][:, None]
            by_family = np.maximum.reduceat(apart, self._starts, axis=0)
            own = by_family[self._family] if rival == self._baseline else own
            largest = np.maximum(largest, by_family)
        # The reference's own variants are compared only with it.
        largest[self._family] = own
        self._hits += [
            np.count_nonzero(largest[code] >= value) for code, value in zip(self._codes, self._found, strict=True)
        ]
        self._vectors += len(kept)

    def p_values(self) -> NDArray[np.float64]:
        """(systems,) p-values, in the order of the table."""
        p = self._hits / self._vectors if self.enumerated else (1 + self._hits) / (1 + self._vectors)
        if self._dependent is not None:
            p = np.maximum(p, robust_t(self._table, self._dependent).p_values())
        p[self._scales[self._baseline] == 0] = 1.0
        back: NDArray[np.float64] = p[self._back]
        return back


def _scales(differences: NDArray[np.float64], rounding: int) -> NDArray[np.float64]:
    """(columns,) 1 / standard deviation of the columns' sums over the sign vectors; 0 if all are zero.

    Args:
        differences: (units, columns) whole numbers.
        rounding: values up to this count as zero.
    """
    whole = np.where(np.abs(differences) <= rounding, 0.0, differences)
    spread = np.sqrt((whole * whole).sum(axis=0))
    scales: NDArray[np.float64] = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0)
    return scales


def mean_without_choice(
    variants: NDArray[np.float64],
    *,
    units: NDArray[np.int64] | None = None,
    resamples: int = CHOICES,
) -> float:
    """The expected mean of the best variant on queries other than those it was chosen by.

    The mean of the best is too high by what the selection took from chance. Here the best is chosen on a bootstrap
    resample of units, and each query counts in the resamples without its unit: the leave-one-out bootstrap of Efron and
    Tibshirani (1997). Tibshirani and Tibshirani (2009) treat the same bias of the best of a cross-validation.

    It estimates the outcome of choosing, so the less clear the best variant is, the further it lies below the best
    mean. It has no interval: that would take a bootstrap of bootstraps.

    Args:
        variants: (queries, variants), finite; higher is better.
        units: (queries,) as of `bench.stats.units.dependence`; None for independent queries.
        resamples: number of resamples for choosing a variant.

    Returns:
        The mean; that of the variant if there is only one. NaN for a single unit.

    Raises:
        ValueError: there are no queries, or units are not numbered from 0 without a gap, or not one for each query.
    """
    table = np.asarray(variants, dtype=np.float64)
    codes = dependence(units, len(table))
    sums, sizes = unit_sums(table, np.arange(len(table)) if codes is None else codes)
    count = len(sizes)
    if count < 2:
        return math.nan
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=resamples)
    # Rounded, so that the first of equals is chosen.
    chosen = np.argmax(np.round(drawn @ sums / (drawn @ sizes)[:, None], 12), axis=1)
    # (variants, units) number of resamples without the unit in which each variant was chosen.
    votes = np.stack([(drawn[chosen == variant] == 0).sum(axis=0) for variant in range(table.shape[1])])
    out = votes.sum(axis=0)
    left = out > 0
    means = (votes.T[left] * sums[left]).sum(axis=1) / out[left]
    return float(means.sum() / sizes[left].sum())
