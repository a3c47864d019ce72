"""Tiers of systems that are not significantly different, and rank intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import RESAMPLES, resampled_sums
from bench.stats.exact import as_integers
from bench.stats.multiple import holm
from bench.stats.noninferiority import LEVEL
from bench.stats.randomisation import FLIPS, MOST_ENUMERATED, enumerated_p, extreme_sums, flipped_wholes, sign_vectors
from bench.stats.robust_t import robust_t
from bench.stats.units import dependence, whole_sums

#: Numbers in a block of sums of pairs: as many as stay in the cache of a core.
_BLOCK = 1 << 17
#: Differences of pairs in memory at once.
_DIFFERENCES = 1 << 22


def rank_intervals(
    values: NDArray[np.float64],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    units: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """The ranks that a system's mean takes when the queries are resampled (Goldstein and Spiegelhalter 1996).

    All systems are ranked on the same resamples of queries. The best rank is the lower quantile at (1 - level) / 2 of
    the number of better systems plus one, the worst rank the upper quantile at (1 + level) / 2 of the number of systems
    that are as good: systems of the same mean take all of the ranks that they share, so identical systems have the same
    interval, and it holds them all. Each interval has its level for itself, not all of them together.

    Args:
        values: (queries, systems), finite; higher is better.
        level: between 0 and 1.
        resamples: bootstrap samples.
        seed: the same seed gives the same ranks.
        units: (queries,) the unit of independence of each query, numbered from 0 without a gap. Whole units are then
            resampled: all systems have the same queries in a resample, so their ranks are those of their sums. None for
            independent queries.

    Returns:
        (systems, 2) best and worst rank, 1 being the best of all. With a single unit nothing is known about the
        spread, and every rank is possible.

    Raises:
        ValueError: there are no queries or no systems, a value is not finite, the level is outside, or units are not
            numbered from 0 without a gap, or not one for each query.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError("values must be a table of finite numbers, one row for each query, one column for each system")
    if not 0 < level < 1:
        raise ValueError(f"a level is a number between 0 and 1: {level}")
    queries, systems = table.shape
    codes = dependence(units, queries)
    if queries < 2 or (codes is not None and not codes.any()):
        return np.tile(np.array([1, systems], dtype=np.int64), (systems, 1))
    # One unit for all systems, since their sums are compared.
    whole = as_integers(table.reshape(-1, 1))[0].reshape(queries, systems)
    # How far rounding moves the difference of two sums at most: by half a unit for each query, in each of the two.
    rounding = np.full((resamples, 1), float(queries))
    if codes is None:
        sums = resampled_sums(whole, resamples, np.random.default_rng(seed))
    else:
        by_unit, sizes = whole_sums(whole, codes), np.bincount(codes)[:, None]
        # A draw may hold the largest unit as often as there are units: coarser steps keep its sum exact.
        step = 2.0 ** max(0, int(np.frexp(np.abs(by_unit).max() * len(by_unit))[1]) - 52)
        drawn = np.hstack([np.rint(by_unit / step), sizes.astype(np.float64)])
        sums = resampled_sums(drawn, resamples, np.random.default_rng(seed))
        sums, rounding = sums[:, :-1], sums[:, -1:] / step + len(by_unit)
    intervals = np.empty((systems, 2), dtype=np.int64)
    for system in range(systems):
        ahead = sums - sums[:, [system]]
        best = 1 + np.count_nonzero(ahead > rounding, axis=1)
        worst = np.count_nonzero(ahead >= -rounding, axis=1)
        intervals[system] = (
            np.quantile(best, (1 - level) / 2, method="lower"),
            np.quantile(worst, (1 + level) / 2, method="higher"),
        )
    return intervals


def pairwise_tests(
    values: NDArray[np.float64],
    units: NDArray[np.int64] | None = None,
    contenders: NDArray[np.bool_] | None = None,
    flips: int = FLIPS,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Two-sided p-values of all pairs of systems, corrected by Holm's method (`corrected_pairs`).

    Each pair has the p-value of `bench.stats.differences.difference_p_values` to the last bit. All pairs share their
    sign vectors e, and e · (x - y) is e · x - e · y: one product for each system replaces one for each pair.

    Args:
        values: (queries, systems), finite.
        units: (queries,) the unit of independence of each query, numbered from 0 without a gap. None for independent
            queries.
        contenders: (systems,) which of them compete; None if all do.
        flips: random sign vectors, where they are not enumerated.
        seed: of the random sign vectors.

    Returns:
        (systems, systems) p-values, symmetric, with a diagonal of 1; 1 for identical systems.

    Raises:
        ValueError: there are no queries or no systems, a value is not finite, or units are not numbered from 0 without
            a gap, or not one for each query.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError("values must be a table of finite numbers, one row for each query, one column for each system")
    queries, systems = table.shape
    codes = dependence(units, queries)
    first, second = np.triu_indices(systems, 1)
    # One unit for all systems, since their sums are subtracted.
    unit = float(as_integers(table)[1].max())
    sums = np.rint(table / unit)
    if codes is not None:
        sums = whole_sums(sums, codes)
    p = np.ones(len(first))
    totals, scales, slacks = np.empty((3, len(first)))
    sampled = np.zeros(len(first), dtype=bool)
    for pair, (one, other) in enumerate(zip(first, second, strict=True)):
        flipped, scale = _pair(table, int(one), int(other), codes)
        nonzero = flipped[flipped != 0]
        if len(nonzero) <= MOST_ENUMERATED:
            p[pair] = enumerated_p(nonzero, queries)
            continue
        sampled[pair] = True
        totals[pair], scales[pair] = flipped.sum(), scale
        # By how much any signed sum of the systems' whole numbers differs from that of the pair's, in the former's
        # unit; one more for the rounding of this very arithmetic.
        slacks[pair] = np.abs(flipped * (scale / unit) - (sums[:, one] - sums[:, other])).sum() + 1
    if sampled.any():
        pairs = np.flatnonzero(sampled)
        border = (np.abs(totals[pairs]) - queries) * (scales[pairs] / unit)
        hits = np.zeros(len(pairs), dtype=np.int64)
        whole_totals = sums.sum(axis=0)
        rows = max(1, _BLOCK // len(pairs))
        upper, lower = (border + slacks[pairs])[:, None], (border - slacks[pairs])[:, None]
        for kept in sign_vectors(len(sums), flips, seed):
            products = 2 * (kept.astype(np.float64) @ sums) - whole_totals
            for start in range(0, len(kept), rows):
                block = np.ascontiguousarray(products[start : start + rows].T)
                # In place: most of the time goes by in moving these tables.
                apart = block[first[pairs]]
                apart -= block[second[pairs]]
                np.abs(apart, out=apart)
                sure = np.count_nonzero(apart >= upper, axis=1)
                hits += sure
                for which in np.flatnonzero(np.count_nonzero(apart >= lower, axis=1) != sure):
                    undecided = (apart[which] >= lower[which]) & (apart[which] < upper[which])
                    flipped, _ = _pair(table, int(first[pairs[which]]), int(second[pairs[which]]), codes)
                    signs = kept[start : start + rows][undecided]
                    exact = 2 * (signs.astype(np.float64) @ flipped) - totals[pairs[which]]
                    hits[which] += np.count_nonzero(extreme_sums(exact, totals[pairs[which]], queries))
        p[pairs] = (1 + hits) / (1 + flips)
    if codes is not None:
        p = np.maximum(p, _robust_p_values(table, first, second, codes))
    return correct_pairs(p, table, contenders)


def _robust_p_values(
    table: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64], codes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(pairs,) p-values of Student's t with skewness taken out, of dependent queries."""
    p = np.ones(len(first))
    step = max(1, _DIFFERENCES // len(table))
    for start in range(0, len(first), step):
        pairs = slice(start, start + step)
        p[pairs] = robust_t(table[:, first[pairs]] - table[:, second[pairs]], codes).p_values()
    return p


def correct_pairs(
    p: NDArray[np.float64], values: NDArray[np.float64], contenders: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """The p-values of all pairs of systems, corrected by Holm's method.

    The family is every pair of contenders. Pairs with a system that does not compete (a floor, an oracle) are a family
    of their own: however many are added, what is known of the contenders stays the same. Systems of the same values
    are one system in both: a run that is submitted fifty times is compared once.

    Args:
        p: (pairs,) not corrected, in the order of `np.triu_indices(systems, 1)`.
        values: (queries, systems).
        contenders: (systems,) which of them compete; None if all do.

    Returns:
        (systems, systems) p-values, symmetric, with a diagonal of 1; 1 for identical systems.
    """
    systems = values.shape[1]
    raw = np.ones((systems, systems))
    first, second = np.triu_indices(systems, 1)
    raw[first, second] = raw[second, first] = p
    _, distinct, twins = np.unique(values, axis=1, return_index=True, return_inverse=True)
    compete = np.zeros(len(distinct), dtype=np.bool_)
    np.logical_or.at(compete, twins, True if contenders is None else contenders)
    single = raw[np.ix_(distinct, distinct)]
    first, second = np.triu_indices(len(distinct), 1)
    competing = compete[first] & compete[second]
    corrected = np.ones_like(single)
    for family in (competing, ~competing):
        one, other = first[family], second[family]
        corrected[one, other] = corrected[other, one] = holm(single[one, other])
    whole: NDArray[np.float64] = corrected[np.ix_(twins, twins)]
    return whole


def _pair(
    table: NDArray[np.float64], one: int, other: int, codes: NDArray[np.int64] | None
) -> tuple[NDArray[np.float64], float]:
    """The whole numbers of a pair whose signs are flipped, and their unit."""
    whole, unit = as_integers((table[:, one] - table[:, other])[:, None])
    return flipped_wholes(whole, codes)[:, 0], float(unit[0])


def tiers(
    means: NDArray[np.float64],
    p: NDArray[np.float64],
    level: float = LEVEL,
    contenders: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Tiers of systems: in order of their means, a system that can be told from one of its tier opens the next.

    Not to be told apart is not transitive: A may pass for B and B for C, though A is known to be better than C. Any
    division into groups must then part some pair that cannot be told apart. This one is made from the top, depends on
    means and p-values alone, and promises that no two systems of a tier can be told apart: none is in the tier of
    one that it is known to be worse than. Systems of neighbouring tiers may well be alike.

    The p-values of `pairwise_tests` do not fall as the means move apart, since two systems that err on the same queries
    are told apart by a smaller difference. So a system is compared with all of a tier, not with its first alone.

    Systems that do not compete follow in tiers of their own, so that none of them parts two that do.

    Args:
        means: (systems,) finite; higher is better. Systems of the same mean are taken in the order given.
        p: (systems, systems) symmetric p-values of the pairs.
        level: significance level below which a pair differs.
        contenders: (systems,) which of them compete; None if all do.

    Returns:
        (systems,) from 1, the tier of the best.

    Raises:
        ValueError: a mean is not finite, or p is no symmetric table of numbers between 0 and 1 of that size.
    """
    scores, pairs = np.asarray(means, dtype=np.float64), np.asarray(p, dtype=np.float64)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise ValueError("means must be a list of finite numbers, one for each system")
    if pairs.shape != (len(scores), len(scores)) or not ((pairs >= 0) & (pairs <= 1)).all() or (pairs != pairs.T).any():
        raise ValueError("p-values must be a symmetric table of numbers between 0 and 1, one row for each system")
    compete = np.ones(len(scores), dtype=np.bool_) if contenders is None else contenders
    tier_of = np.zeros(len(scores), dtype=np.int64)
    tier = 0
    for group in (compete, ~compete):
        members: list[int] = []
        for system in np.argsort(-scores, kind="stable").tolist():
            if not group[system]:
                continue
            if not members or (pairs[system, members] < level).any():
                members = []
                tier += 1
            members.append(system)
            tier_of[system] = tier
    return tier_of
