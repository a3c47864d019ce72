"""Tests, ranks and macro intervals within the time budget of a site build.

Up to a size far above that of most boards, the numbers are those of `bench.stats`, and so those of `bench compare`.
Beyond it, flipping signs would take minutes per board, so its large-sample limit is used: sums with flipped signs are
normal. Pages say where it was used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.stats.bounded import ANY, Span
from bench.stats.macro import combined_intervals, hull
from bench.stats.noninferiority import LEVEL, enough_units
from bench.stats.randomisation import FLIPS
from bench.stats.ranking import (
    PairTests,
    column_means,
    correct_pairs,
    pairwise_tests_of_tables,
    rank_order,
    rank_ranges,
    reference_mask,
)

#: Maximum sums of units times sign vectors, per metric and board: about a second's work.
_FLIPPED = 40_000_000_000
_MACRO_DRAWS = 10_000


@dataclass(frozen=True)
class RankedSystems:
    """Systems on one metric, with tests and ranks.

    Attributes:
        ids: (systems,) names of the systems.
        references: (systems,) which are references; each other system is ranked as if it alone were added to these
            (`bench.stats.ranking`).
        means: (systems,).
        ranks: (systems, 2) best and worst rank that `pairs` leave open (`rank_ranges`).
        pairs: (systems, systems) p-values of the paired randomisation test of every pair, corrected by Holm
            (`correct_pairs`); 1 if there are too few units for a conclusion, NaN for untested pairs of two challengers.
        alone: (systems, systems) uncorrected p-values, NaN for untested pairs; None unless `decided`.
        sizes: (systems, systems) number of pairs in each correction.
        n, units: queries, and their units of independence.
        exact: whether p-values are those of `bench compare`; False if they come from the large-sample limit.
        decided: whether there are enough units for a conclusion (`bench.stats.noninferiority.enough_units`).
    """

    ids: tuple[str, ...]
    references: NDArray[np.bool_]
    means: NDArray[np.float64]
    ranks: NDArray[np.int64]
    pairs: NDArray[np.float64]
    alone: NDArray[np.float64] | None
    sizes: NDArray[np.int64]
    n: int
    units: int
    exact: bool
    decided: bool

    def position(self, name: str) -> int | None:
        """The position of a system; None if it is not ranked."""
        return self.ids.index(name) if name in self.ids else None

    def ties(self, system: int) -> NDArray[np.bool_]:
        """(systems,) which others do not differ significantly from the system at this position."""
        ties: NDArray[np.bool_] = ~(self.pairs[system] < LEVEL)
        ties[system] = False
        return ties

    def order(self) -> list[int]:
        """Positions sorted by best possible rank, then by mean."""
        return rank_order(self.ranks, self.means)

    def best(self, most: int) -> list[int]:
        """Positions of the `most` best systems: references first, then challengers if there is room; sorted best first.

        Challengers never displace references, however many there are.
        """
        order = self.order()
        kept = sorted(order, key=lambda position: not self.references[position])[:most]
        return [position for position in order if position in kept]


class Entrants(NamedTuple):
    """Systems to rank by one metric.

    Attributes:
        ids: (systems,).
        values: (queries, systems), finite; higher is better.
        references: (systems,) which are references; all systems if None or if there are none.
        span: the range of the mean differences, as in `bench.stats.differences.second_looks`.
    """

    ids: Sequence[str]
    values: NDArray[np.float64]
    references: NDArray[np.bool_] | None = None
    span: Span = ANY


def rank_systems(
    ids: Sequence[str],
    values: NDArray[np.float64],
    units: NDArray[np.int64],
    references: NDArray[np.bool_] | None = None,
    span: Span = ANY,
) -> RankedSystems:
    """Test and rank systems on the same queries by one metric; arguments as in `Entrants` and `rank_by_metrics`."""
    return rank_by_metrics([Entrants(ids, values, references, span)], units)[0]


def rank_by_metrics(metrics: Sequence[Entrants], units: NDArray[np.int64]) -> list[RankedSystems]:
    """Test and rank systems on the same queries by several metrics, each for itself.

    Only the references decide how: challengers cannot make a board too large for exact tests.

    Args:
        metrics: the systems of each metric.
        units: (queries,) the unit of independence of each query, as a code from 0.
    """
    count, decided = int(units.max()) + 1, enough_units(units)
    own = [reference_mask(one.references, one.values.shape[1]) for one in metrics]
    exact = [_is_testable(count, int(mask.sum())) for mask in own]
    chosen = [i for i, small in enumerate(exact) if small]
    found = pairwise_tests_of_tables(
        [metrics[i].values for i in chosen],
        units,
        [own[i] for i in chosen],
        [_is_testable(count, len(own[i])) for i in chosen],
        [metrics[i].span for i in chosen],
        FLIPS if decided else 1,
    )
    tests = dict(zip(chosen, found, strict=True))
    ranked = []
    for i, (one, mask) in enumerate(zip(metrics, own, strict=True)):
        pairs = tests[i] if exact[i] else pairs_limit(one.values, units, mask)
        # With too few units nothing is decided, not even that a floor is worse.
        p = pairs.p if decided else np.ones_like(pairs.p)
        ranked.append(
            RankedSystems(
                ids=tuple(one.ids),
                references=mask,
                means=column_means(one.values),
                ranks=rank_ranges(one.values, p, mask),
                pairs=p,
                alone=pairs.alone if decided else None,
                sizes=pairs.sizes,
                n=len(one.values),
                units=count,
                exact=exact[i],
                decided=decided,
            )
        )
    return ranked


def _is_testable(units: int, systems: int) -> bool:
    """Whether all pairs of so many systems can be tested exactly."""
    return FLIPS * units * systems * (systems - 1) // 2 <= _FLIPPED


def unit_totals(values: NDArray[np.float64], units: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Equal to `bench.stats.units.unit_sums` up to rounding, but a hundred times faster.

    Its sums do not depend on the order of queries to the last bit, but a board's order is fixed (by id).

    Args:
        values: (queries, columns), finite.
        units: (queries,) codes from 0, without gaps.

    Returns:
        (units, columns) sums; (units,) number of queries of each unit.
    """
    sizes = np.bincount(units)
    starts = np.cumsum(sizes) - sizes
    return np.add.reduceat(values[np.argsort(units, kind="stable")], starts, axis=0), sizes


def mean_errors(
    values: NDArray[np.float64], units: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard errors as from `bench.stats.units.robust_mean`, computed from `unit_totals`.

    Args:
        values: (queries, columns), finite.
        units: (queries,) codes from 0, without gaps.

    Returns:
        (columns,) means; (columns,) standard errors, NaN for a single unit; NaN without queries.
    """
    n = len(values)
    if not n:
        nothing = np.full(values.shape[1], np.nan)
        return nothing, nothing
    sums, sizes = unit_totals(values, units)
    means = sums.sum(axis=0) / n
    if len(sizes) < 2:
        return means, np.full(len(means), np.nan)
    residuals = sums - sizes[:, None] * means
    # Sums that differ only by rounding have no variance.
    residuals[np.abs(residuals) <= 1e-12 * np.abs(sums).max(axis=0)] = 0.0
    return means, np.sqrt((residuals * residuals / (1 - sizes / n)[:, None]).sum(axis=0)) / n


def pairs_limit(
    values: NDArray[np.float64], units: NDArray[np.int64], references: NDArray[np.bool_] | None = None
) -> PairTests:
    """The tests of `pairwise_tests` in the limit of many units: sums with flipped signs are normal.

    Flipping signs gives the sum of a pair's differences the variance Σ d_g², where d_g are the sums of units.

    Args:
        values: (queries, systems), finite.
        units: (queries,) codes from 0.
        references: (systems,) which are references; all systems if None.

    Returns:
        Tests; NaN for pairs of two challengers.
    """
    from scipy.stats import norm

    systems = values.shape[1]
    own = reference_mask(references, systems)
    sums = np.ascontiguousarray(unit_totals(values, units)[0].T)
    board, lengths = np.flatnonzero(own), np.array([column @ column for column in sums])
    products = np.full((systems, systems), np.nan)
    products[np.ix_(board, board)] = sums[board] @ sums[board].T
    for challenger in np.flatnonzero(~own):
        # One column at a time: the bits of the products then do not depend on the number of columns.
        products[challenger, board] = products[board, challenger] = sums[board] @ sums[challenger]
    first, second = np.triu_indices(systems, k=1)
    squares = lengths[first] + lengths[second] - 2 * products[first, second]
    spread = np.sqrt(np.maximum(squares, 0.0))
    totals = np.round(sums.sum(axis=1), 9)
    apart = np.abs(totals[first] - totals[second])
    with np.errstate(invalid="ignore", divide="ignore"):
        p = np.where(apart > 0, 2 * norm.sf(apart / spread), 1.0)
    p[np.isnan(spread)] = np.nan
    # The correction only needs to know which systems have equal values, so sort numbers that stand for them.
    numbers: dict[bytes, int] = {}
    copies = [numbers.setdefault(column.tobytes(), len(numbers)) for column in np.ascontiguousarray(values.T)]
    return correct_pairs([np.minimum(p, 1.0)], [np.array([copies], dtype=np.float64)], own)[0]


def over_datasets_limit(
    means: NDArray[np.float64],
    errors: NDArray[np.float64],
    own: NDArray[np.float64],
    sources: Sequence[str],
    span: Span,
) -> NDArray[np.float64]:
    """`bench.stats.macro.macro_intervals`, taking the mean of each dataset's resampled units as normal.

    Args:
        means: (datasets, columns).
        errors: (datasets, columns) their standard errors.
        own: (datasets, columns, 2) ends of their intervals; NaN if there is none.
        sources: (datasets,).
        span: the range of the metric's mean.
    """
    intervals = combined_intervals(means, own, sources, span)
    by_source = [[i for i, name in enumerate(sources) if name == source] for source in dict.fromkeys(sources)]
    count = len(by_source)
    if count == 1:
        return intervals
    means = np.array([means[rows].mean(axis=0) for rows in by_source])
    # A single unit has no known variance and adds none to the resamples.
    errors = np.nan_to_num(errors)
    errors = np.array([np.sqrt((errors[rows] ** 2).sum(axis=0)) / len(rows) for rows in by_source])
    random = np.random.default_rng(0)
    drawn = random.multinomial(_MACRO_DRAWS * [count], np.full(count, 1 / count)).astype(np.float64)
    noise = random.standard_normal((_MACRO_DRAWS, count)) * np.sqrt(drawn)
    samples = (drawn @ means + noise @ errors) / count
    return hull(intervals, span.clip(samples), count)
