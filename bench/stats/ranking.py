"""Ranks of systems from the corrected tests of their pairs, on a scale that no entrant can change. Boards use it.

A system may have any rank that the tests leave open: from 1 plus the number of references shown to be better to the
number of systems minus the references shown to be worse (rank confidence sets: Al Mohamad, Goeman and van Zwet 2019;
Mogstad, Romano, Shaikh and Wilhelm 2024). Holm's method (Holm 1979) makes all statements on the pairs of a family true
together in 95% of cases, and so all ranks. Nothing else is said about a pair: everything that reports it reads
`PairTests`.

Some systems are references, the others challengers. The references are tested against each other: all pairs form one
family. A challenger is ranked as if it alone were added to them, and a pair of two challengers is tested as if these
two were added. So each pair is corrected on the board of the references and the pair itself: the error rate of each
such board is controlled, and no challenger changes a number of a reference or of another challenger. If all systems are
references, this is the usual family of all pairs.

A family of all entrants can be flooded: with S systems a p-value is multiplied by up to S (S - 1) / 2, so near-copies
of one system under other names make every difference insignificant. The alternatives fail under some attack:

- Clusters of systems by their answers: copies with slightly more noise than the clustering threshold become systems of
  their own again.
- Hypotheses in the order of entry with alpha spending or investing (Foster and Stine 2008; Javanmard and Montanari
2018):
early entrants spend what later ones need, and a late system pays for all before it.
- The distribution of the largest statistic (Westfall and Young 1993): near-copies cost almost nothing, because it
  accounts for the dependence of the tests; but it still grows with noise systems, which are independent.

Blum and Hardt (2015) also rely on a scale that does not depend on who enters: their Ladder compares an entry with the
current best and not with all other entries. The guarantee is for one entry: of two hundred equal ones, some will be
ranked too high, at the level of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.stats.bounded import ANY, Span
from bench.stats.differences import second_looks
from bench.stats.exact import as_integers
from bench.stats.multiple import holm
from bench.stats.noninferiority import LEVEL
from bench.stats.randomisation import FLIPS, MOST_ENUMERATED, enumerated_p, extreme_sums, flipped_wholes, sign_vectors
from bench.stats.stacks import stack_tables
from bench.stats.units import dependence, whole_sums

#: Numbers in a block of sums of pairs, to fit the cache of a core.
_BLOCK = 1 << 17
#: Differences of pairs in memory at once.
_DIFFERENCES = 1 << 22


@dataclass(frozen=True, eq=False)
class PairTests:
    """Tests of pairs of systems by one metric.

    Attributes:
        p: (systems, systems) p-values, corrected for the family of each pair; symmetric, with a diagonal of 1. 1
            for identical systems, NaN for untested pairs.
        sizes: (systems, systems) number of pairs in that family.
        alone: (systems, systems) uncorrected p-values, as if each pair were the only one.
    """

    p: NDArray[np.float64]
    sizes: NDArray[np.int64]
    alone: NDArray[np.float64]


def reference_mask(references: NDArray[np.bool_] | None, systems: int) -> NDArray[np.bool_]:
    """(systems,) which systems are references: the declared ones, or all if there are none."""
    if references is None or not np.any(references):
        return np.ones(systems, dtype=np.bool_)
    return np.asarray(references, dtype=np.bool_)


def pairwise_tests(
    values: NDArray[np.float64],
    units: NDArray[np.int64] | None = None,
    references: NDArray[np.bool_] | None = None,
    flips: int = FLIPS,
    challengers: bool = True,
    span: Span = ANY,
) -> PairTests:
    """Two-sided tests of all pairs of systems (`p_of_pairs`), corrected by `correct_pairs`.

    Args:
        values: (queries, systems), finite.
        units: (queries,) as of `bench.stats.units.dependence`; None for independent queries.
        references: (systems,) which are references; all systems if None or if there are none.
        flips: number of random sign vectors, unless all are enumerated.
        challengers: whether to test pairs of two challengers too: their number grows with the square of the
            challengers.
        span: the range of the mean differences, as of `bench.stats.differences.second_looks`.

    Raises:
        ValueError: there are no queries or no systems, a value is not finite, or units are not numbered from 0 without
            a gap, or not one for each query.
    """
    table = _check_table(values)
    codes = np.arange(len(table)) if units is None else units
    return pairwise_tests_of_tables([table], codes, [references], [challengers], [span], flips)[0]


def pairwise_tests_of_tables(
    values: Sequence[NDArray[np.float64]],
    units: NDArray[np.int64],
    references: Sequence[NDArray[np.bool_] | None],
    challengers: Sequence[bool],
    spans: Sequence[Span],
    flips: int = FLIPS,
) -> list[PairTests]:
    """`pairwise_tests` of several tables of the same queries, such as one per metric, each a family of its own.

    Args:
        values, references, challengers, spans: for each table, as in `pairwise_tests`.
        units, flips: as in `pairwise_tests`.
    """
    first, second, tested = [], [], []
    for table, own, every in zip(values, references, challengers, strict=True):
        one, other = np.triu_indices(table.shape[1], 1)
        mask = reference_mask(own, table.shape[1])
        tested.append(mask[one] | mask[other] | every)
        first.append(one[tested[-1]])
        second.append(other[tested[-1]])
    found = p_of_tables(values, first, second, [units] * len(values), spans, flips)
    tests = []
    for table, own, among, p in zip(values, references, tested, found, strict=True):
        every_p = np.full(len(among), np.nan)
        every_p[among] = p
        tests += correct_pairs([every_p], [table], own)
    return tests


def p_of_pairs(
    values: NDArray[np.float64],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    units: NDArray[np.int64] | None = None,
    flips: int = FLIPS,
    span: Span = ANY,
) -> NDArray[np.float64]:
    """Two-sided p-values of pairs of systems, each as if it were the only test.

    Each pair has the p-value of `bench.stats.differences.intervals_and_p_values` to the last bit. All pairs share their
    sign vectors e, and e · (x - y) is e · x - e · y: one product per system replaces one per pair.

    Args:
        values: (queries, systems), finite.
        first, second: (pairs,) columns.
        units, flips, span: as `pairwise_tests`.

    Returns:
        (pairs,) uncorrected p-values; 1 for identical systems. Errors are those of `pairwise_tests`.
    """
    table = _check_table(values)
    queries = len(table)
    codes = dependence(units, queries)
    # One scale for all systems, because their sums are subtracted.
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
        for kept in sign_vectors(len(sums), flips, columns=sums.shape[1]):
            products = 2 * (kept.astype(np.float64) @ sums) - whole_totals
            for start in range(0, len(kept), rows):
                block = np.ascontiguousarray(products[start : start + rows].T)
                # In place: moving these tables takes most of the time.
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
    step = max(1, _DIFFERENCES // queries)
    for start in range(0, len(first) if codes is not None or span.bounds_values else 0, step):
        part = slice(start, start + step)
        p[part] = second_looks(p[part], table[:, first[part]] - table[:, second[part]], codes, span)
    return p


def p_of_tables(
    values: Sequence[NDArray[np.float64]],
    first: Sequence[NDArray[np.intp]],
    second: Sequence[NDArray[np.intp]],
    units: Sequence[NDArray[np.int64]],
    spans: Sequence[Span],
    flips: int = FLIPS,
) -> list[NDArray[np.float64]]:
    """`p_of_pairs` of several tables, such as one per metric, which share their sign vectors (`bench.stats.stacks`).

    Args:
        values, first, second, units, spans: for each table, as in `p_of_pairs`.
        flips: as in `pairwise_tests`.
    """
    found = [np.empty(0)] * len(values)
    for stack in stack_tables(values, units, spans):
        p = p_of_pairs(stack.values, stack.columns(first), stack.columns(second), stack.units, flips, stack.span)
        for i, part in stack.parts(first):
            found[i] = p[part]
    return found


def correct_pairs(
    p: Sequence[NDArray[np.float64]],
    values: Sequence[NDArray[np.float64]],
    references: NDArray[np.bool_] | None = None,
    correct: Callable[[NDArray[np.float64]], NDArray[np.float64]] = holm,
) -> list[PairTests]:
    """Correct the tests of pairs of systems, each on the board of the references and the pair.

    For two references this is the board of the references; for a reference and a challenger, that of the references and
    this challenger. A copy of a reference under another name has the p-values of that reference: systems with equal
    values count as one system on a board.

    Args:
        p: for each table of one family, such as a metric, (pairs,) uncorrected, in the order of
            `np.triu_indices(systems, 1)`; NaN for untested pairs of two challengers.
        values: for each table, (queries, systems).
        references: (systems,) which are references; all systems if None or if there is none.
        correct: corrects a family, such as `bench.stats.multiple.holm`.

    Returns:
        For each table.
    """
    systems = values[0].shape[1]
    first, second = np.triu_indices(systems, 1)
    alone = np.ones((len(p), systems, systems))
    alone[:, first, second] = alone[:, second, first] = p
    tests = [PairTests(raw.copy(), np.ones((systems, systems), dtype=np.int64), raw) for raw in alone]
    twins = [np.unique(table, axis=1, return_inverse=True)[1].ravel() for table in values]
    own = reference_mask(references, systems)
    board, others = np.flatnonzero(own), np.flatnonzero(~own)

    def correct_board(added: list[int], rows: slice, columns: slice) -> None:
        """Correct on the board of the references and some added systems; keep the pairs of some rows and columns."""
        members = np.append(board, added).astype(np.intp)
        one, other = np.ix_(members[rows], members[columns])
        corrected, size = _correct_board(alone, twins, members, correct)
        for item, whole in zip(tests, corrected, strict=True):
            item.p[one, other] = whole[rows, columns]
            item.p[other.T, one.T] = whole[rows, columns].T
            item.sizes[one, other] = size
            item.sizes[other.T, one.T] = size

    correct_board([], slice(None), slice(None))
    for place, challenger in enumerate(others.tolist()):
        correct_board([challenger], slice(-1, None), slice(-1))
        for other in others[:place][~np.isnan(alone[0, challenger, others[:place]])].tolist():
            correct_board([other, challenger], slice(-1, None), slice(-2, -1))
    return tests


def _correct_board(
    raw: Iterable[NDArray[np.float64]],
    twins: Sequence[NDArray[np.intp]],
    members: NDArray[np.intp],
    correct: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> tuple[list[NDArray[np.float64]], int]:
    """(members, members) the p-values of each table of a board, corrected over all pairs of distinct systems.

    Also their number.
    """
    boards = []
    for table, names in zip(raw, twins, strict=True):
        _, distinct, places = np.unique(names[members], return_index=True, return_inverse=True)
        single = table[np.ix_(members[distinct], members[distinct])]
        boards.append((single, *np.triu_indices(len(distinct), 1), places))
    family = [single[first, second] for single, first, second, _ in boards]
    parts = np.split(correct(np.concatenate(family)), np.cumsum([len(part) for part in family])[:-1])
    for (single, first, second, _), part in zip(boards, parts, strict=True):
        single[first, second] = single[second, first] = part
    return [single[np.ix_(places, places)] for single, _, _, places in boards], max(1, sum(map(len, family)))


def rank_ranges(
    values: NDArray[np.float64], p: NDArray[np.float64], references: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """The ranks that a system may have by the corrected tests of its pairs with the references.

    Systems with equal values have equal ranks. A challenger is ranked among the references and itself.

    Args:
        values: (queries, systems), finite; higher is better.
        p: (systems, systems) as in `PairTests.p`; those of two challengers are not used.
        references: (systems,) which are references; all systems if None or if there is none.

    Returns:
        (systems, 2) best and worst rank: 1 plus the number of references shown to be better (p < 0.05), and the number
        of systems minus the references shown to be worse.
    """
    own, means = reference_mask(references, values.shape[1]), column_means(values)
    twins = np.unique(values, axis=1, return_inverse=True)[1].ravel()
    # A copy of a reference does not count as another system.
    systems = own.sum() + ~np.isin(twins, twins[own])
    shown, apart = (p < LEVEL) & own, means - means[:, None]
    return np.column_stack([1 + (shown & (apart > 0)).sum(axis=1), systems - (shown & (apart < 0)).sum(axis=1)])


def column_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(columns,) means, one by one: the bits of a mean do not depend on the number of columns."""
    return np.array([column.mean() for column in np.ascontiguousarray(values.T)])


def rank_order(ranks: NDArray[np.int64], means: NDArray[np.float64]) -> list[int]:
    """Positions of systems, sorted by best possible rank, then by mean."""
    order: list[int] = np.lexsort((-means, ranks[:, 0])).tolist()
    return order


def _check_table(values: NDArray[np.float64]) -> NDArray[np.float64]:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError("values must be a table of finite numbers, one row for each query, one column for each system")
    return table


def _pair(
    table: NDArray[np.float64], one: int, other: int, codes: NDArray[np.int64] | None
) -> tuple[NDArray[np.float64], float]:
    """The whole numbers of a pair whose signs are flipped, and their scale."""
    whole, unit = as_integers((table[:, one] - table[:, other])[:, None])
    return flipped_wholes(whole, codes)[:, 0], float(unit[0])
