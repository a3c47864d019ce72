"""Tiers of systems that are not significantly different, and rank intervals, on a scale that no entrant can change.

Some systems are references, the others challengers. The references are tested against each other: all pairs, corrected
by Holm's method (Holm 1979). A challenger is placed as if it alone were added to them, and a pair of two challengers is
tested as if these two were. So each pair is corrected on the board of the references and the pair itself: the error
rate of each such board is controlled, and nothing that a challenger does changes a number of a reference or of another
challenger. Where all systems are references, this is the usual family of all pairs.

A family of all entrants can be flooded: with S systems a p-value is multiplied by up to S (S - 1) / 2, so near-copies
of one system under other names make every difference insignificant. The alternatives fail under some attack:

- Clusters of systems by their answers: copies with a little more noise than the threshold of the clustering are systems
  of their own again.
- Hypotheses in the order of entry with alpha spending or investing (Foster and Stine 2008; Javanmard and Montanari
  2018): whoever enters first spends what those after need, and a late system pays for all before it.
- The distribution of the largest statistic (Westfall and Young 1993): near-copies cost next to nothing, as it knows the
  dependence of the tests; but it still grows with systems that are noise, which depend on nothing.

A scale that does not depend on who enters is what Blum and Hardt (2015) rest on, too: their Ladder compares an entry
with what stands, and not with all other entries. The promise is about one entry: of two hundred that are alike, some
will be placed too high, at the level of the tests.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import RESAMPLES, resampled_sums, scaled_sums
from bench.stats.bounded import ANY, Span
from bench.stats.differences import withhold
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
    references: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """The ranks that a system's mean takes when the queries are resampled (Goldstein and Spiegelhalter 1996).

    A reference is ranked among the references, and a challenger among the references and itself. All systems are
    ranked on the same resamples of queries. The best rank is the lower quantile at (1 - level) / 2 of the number of
    better systems plus one, the worst rank the upper quantile at (1 + level) / 2 of the number of systems that are as
    good: systems of the same mean take all of the ranks that they share, so identical references have the same
    interval, and it holds them all. Each interval has its level for itself, not all of them together.

    Args:
        values: (queries, systems), finite; higher is better.
        level: between 0 and 1.
        resamples: bootstrap samples.
        seed: the same seed gives the same ranks.
        units: (queries,) the unit of independence of each query, numbered from 0 without a gap. Whole units are then
            resampled: all systems have the same queries in a resample, so their ranks are those of their sums. None for
            independent queries.
        references: (systems,) which are references; all systems if None or if there is none.

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
    ranked = _ranked_among(references, systems)
    if queries < 2 or (codes is not None and not codes.any()):
        return np.column_stack([np.ones(systems, dtype=np.int64), 1 + ranked.sum(axis=1)])
    # Each system has whole steps of its own, so that how finely two are compared does not depend on a third.
    sums, sizes, step = scaled_sums(table, np.arange(queries) if codes is None else codes)
    drawn = np.column_stack([sums, sizes])
    drawn = resampled_sums(drawn, resamples, np.random.default_rng(seed))
    # How far rounding moves a sum at most: by half a step for each query, and for each unit.
    halves = (drawn[:, -1:] + (0 if codes is None else len(sums))) / 2
    intervals = np.empty((systems, 2), dtype=np.int64)
    for system in range(systems):
        others = ranked[system]
        # Steps are powers of two: the products are exact.
        ahead = drawn[:, :-1][:, others] * step[others] - drawn[:, [system]] * step[system]
        rounding = halves * (step[others] + step[system])
        best = 1 + np.count_nonzero(ahead > rounding, axis=1)
        worst = 1 + np.count_nonzero(ahead >= -rounding, axis=1)
        intervals[system] = (
            np.quantile(best, (1 - level) / 2, method="lower"),
            np.quantile(worst, (1 + level) / 2, method="higher"),
        )
    return intervals


def _reference_mask(references: NDArray[np.bool_] | None, systems: int) -> NDArray[np.bool_]:
    if references is None or not np.any(references):
        return np.ones(systems, dtype=np.bool_)
    return np.asarray(references, dtype=np.bool_)


def _ranked_among(references: NDArray[np.bool_] | None, systems: int) -> NDArray[np.bool_]:
    """(systems, systems) which others each system is ranked among: all references but itself."""
    return _reference_mask(references, systems) & ~np.eye(systems, dtype=np.bool_)


def pairwise_tests(
    values: NDArray[np.float64],
    units: NDArray[np.int64] | None = None,
    references: NDArray[np.bool_] | None = None,
    flips: int = FLIPS,
    seed: int = 0,
    challengers: bool = True,
    span: Span = ANY,
) -> NDArray[np.float64]:
    """Two-sided p-values of pairs of systems (`p_of_pairs`), corrected by `correct_pairs`.

    Args:
        values: (queries, systems), finite.
        units: (queries,) the unit of independence of each query, numbered from 0 without a gap. None for independent
            queries.
        references: (systems,) which are references; all systems if None or if there is none.
        flips: random sign vectors, where they are not enumerated.
        seed: of the random sign vectors.
        challengers: whether pairs of two challengers are tested, too: their number grows with the square of that of
            the challengers.
        span: the range of the mean differences, as of `bench.stats.differences.withhold`.

    Returns:
        (systems, systems) p-values, symmetric, with a diagonal of 1; 1 for identical systems, nan for pairs that are
        not tested.

    Raises:
        ValueError: there are no queries or no systems, a value is not finite, or units are not numbered from 0 without
            a gap, or not one for each query.
    """
    table = np.asarray(values, dtype=np.float64)
    systems = table.shape[-1] if table.ndim else 0
    first, second = np.triu_indices(systems, 1)
    own = _reference_mask(references, systems)
    tested = own[first] | own[second] | challengers
    p = np.full(len(first), np.nan)
    p[tested] = p_of_pairs(table, first[tested], second[tested], units, flips, seed, span)
    return correct_pairs(p, table, references)


def p_of_pairs(
    values: NDArray[np.float64],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    units: NDArray[np.int64] | None = None,
    flips: int = FLIPS,
    seed: int = 0,
    span: Span = ANY,
) -> NDArray[np.float64]:
    """Two-sided p-values of pairs of systems, each as if no other were tested.

    Each pair has the p-value of `bench.stats.differences.intervals_and_p_values` to the last bit. All pairs share their
    sign vectors e, and e · (x - y) is e · x - e · y: one product for each system replaces one for each pair.

    Args:
        values: (queries, systems), finite.
        first, second: (pairs,) columns.
        units, flips, seed, span: as `pairwise_tests`.

    Returns:
        (pairs,) not corrected; 1 for identical systems.

    Raises:
        ValueError: as `pairwise_tests`.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError("values must be a table of finite numbers, one row for each query, one column for each system")
    queries = len(table)
    codes = dependence(units, queries)
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
    found = np.flatnonzero(p < LEVEL) if span.bounds_values else np.zeros(0, dtype=np.intp)
    p[found] = withhold(p[found], table[:, first[found]] - table[:, second[found]], seed, codes, span)
    return p


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
    p: NDArray[np.float64], values: NDArray[np.float64], references: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """The p-values of pairs of systems, each corrected by Holm's method on the board of the references and the pair.

    For two references this is the board of the references; for a reference and a challenger, that of the references
    and this challenger. A copy of a reference under another name has the p-values of that reference: systems of the
    same values are one system on a board.

    Args:
        p: (pairs,) not corrected, in the order of `np.triu_indices(systems, 1)`; nan for pairs of two challengers that
            are not tested.
        values: (queries, systems).
        references: (systems,) which are references; all systems if None or if there is none.

    Returns:
        (systems, systems) p-values, symmetric, with a diagonal of 1; 1 for identical systems, nan for pairs that are
        not tested.
    """
    systems = values.shape[1]
    raw = np.ones((systems, systems))
    first, second = np.triu_indices(systems, 1)
    raw[first, second] = raw[second, first] = p
    twins = np.unique(values, axis=1, return_inverse=True)[1].ravel()
    own = _reference_mask(references, systems)
    board, others = np.flatnonzero(own), np.flatnonzero(~own)
    corrected = raw.copy()
    corrected[np.ix_(board, board)] = _correct_board(raw, twins, board)
    for place, challenger in enumerate(others):
        alone = _correct_board(raw, twins, np.append(board, challenger))[-1, :-1]
        corrected[challenger, board] = corrected[board, challenger] = alone
        for other in others[:place][~np.isnan(raw[challenger, others[:place]])]:
            pair = _correct_board(raw, twins, np.append(board, [other, challenger]))[-1, -2]
            corrected[challenger, other] = corrected[other, challenger] = pair
    return corrected


def _correct_board(raw: NDArray[np.float64], twins: NDArray[np.intp], members: NDArray[np.intp]) -> NDArray[np.float64]:
    """(members, members) the p-values of a board, corrected over all pairs of its distinct systems."""
    _, distinct, places = np.unique(twins[members], return_index=True, return_inverse=True)
    single = raw[np.ix_(members[distinct], members[distinct])]
    first, second = np.triu_indices(len(distinct), 1)
    single[first, second] = single[second, first] = holm(single[first, second])
    whole: NDArray[np.float64] = single[np.ix_(places, places)]
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
    references: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Tiers of systems: in order of their means, a system that can be told from one of its tier opens the next.

    Not to be told apart is not transitive: A may pass for B and B for C, though A is known to be better than C. Any
    division into groups must then part some pair that cannot be told apart. This one is made from the top, depends on
    means and p-values alone, and promises that no two references of a tier can be told apart: none is in the tier of
    one that it is known to be worse than. Systems of neighbouring tiers may well be alike.

    The p-values of `pairwise_tests` do not fall as the means move apart, since two systems that err on the same queries
    are told apart by a smaller difference. So a system is compared with all of a tier, not with its first alone.

    A challenger has the tier that it would have if it alone were added to the references. It is known to be worse than
    none of that tier that is before it; those after it, which it may be known to be better than, stay where they are.

    Args:
        means: (systems,) finite; higher is better. Systems of the same mean are taken in the order given.
        p: (systems, systems) symmetric p-values of the pairs; those of two challengers are not read.
        level: significance level below which a pair differs.
        references: (systems,) which are references; all systems if None or if there is none.

    Returns:
        (systems,) from 1, the tier of the best.

    Raises:
        ValueError: a mean is not finite, or p is no symmetric table of numbers between 0 and 1 of that size.
    """
    scores, pairs = np.asarray(means, dtype=np.float64), np.asarray(p, dtype=np.float64)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise ValueError("means must be a list of finite numbers, one for each system")
    own = _reference_mask(references, len(scores))
    if (
        pairs.shape != (len(scores), len(scores))
        or not ((pairs[own] >= 0) & (pairs[own] <= 1)).all()
        or (pairs[own] != pairs[:, own].T).any()
    ):
        raise ValueError("p-values must be a symmetric table of numbers between 0 and 1, one row for each system")
    tier_of = np.ones(len(scores), dtype=np.int64)
    tier, members = 1, list[int]()
    for system in np.argsort(-scores, kind="stable").tolist():
        opens = bool((pairs[system, members] < level).any())
        tier_of[system] = tier + opens
        if own[system]:
            members = [system] if opens else [*members, system]
            tier += opens
    return tier_of
