"""The board over the datasets of a view: macro means with two-level intervals, and ranks. The home page shows it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.comparison.best import best_over_datasets, worse_on
from bench.comparison.report import BestOverDatasets
from bench.leaderboard.boards.board import RANKED, Board, Row, RowSample, references_of
from bench.leaderboard.boards.rankingset import View
from bench.leaderboard.boards.standings import RankedSystems, over_datasets_limit, rank_systems
from bench.leaderboard.buildcache import BuildCache, key_of
from bench.results.store import PER_QUERY, span_of
from bench.results.units import number_units
from bench.stats.macro import lead_intervals, macro_intervals, macro_values

#: Maximum values to resample one by one; beyond that, means and errors are resampled.
MOST_VALUES = 20_000_000
#: Half width of a 95% interval of a normal mean, in standard errors.
_NORMAL = 1.959964


@dataclass(frozen=True)
class OverallRow:
    """A method over the datasets of a view, on one metric.

    Attributes:
        cells: (datasets,) its mean on each and the row it is in; None if it has none.
        lacks: names of the datasets without a result. Such a method has no mean and no rank, because a mean over
            other data would not be comparable.
        mean, low, high: over sources.
        ranks: best and worst rank that the tests leave open; None if it is not ranked, as for oracles.
        reference: whether it is a reference system; the others are ranked against these.
        n, failed: queries of the datasets that it has results on.
    """

    key: str
    row: Row
    cells: tuple[tuple[float, Row] | None, ...]
    lacks: tuple[str, ...]
    mean: float | None
    low: float | None
    high: float | None
    n: int
    failed: int
    ranks: tuple[int, int] | None
    reference: bool


@dataclass(frozen=True, eq=False)
class Overall:
    """One metric over the datasets of a view.

    Attributes:
        view: the ranked datasets.
        boards: the view's datasets that have such queries, in the order of columns.
        rows: ranked methods best first, then oracles, then methods that lack a dataset, by how many they have.
        standing: ranks and p-values of the ranked methods; None if there are none.
        declared: whether there are two reference systems; otherwise all methods compete with each other.
        limit: whether there were too many values to keep: those of all rows or, with reference systems, those of
            the challengers, which then have no rank.
        best: the best reference system over all queries, systems by their keys; None with fewer than two, for a
            kind of queries, beyond the limit, and if a dataset has no tests.
    """

    view: View
    metric: str
    kind: str
    boards: tuple[Board, ...]
    rows: tuple[OverallRow, ...]
    standing: RankedSystems | None
    declared: bool
    limit: bool
    best: BestOverDatasets | None = None


#: Kinds of queries: all, those whose gold tools all occur in training queries, those of which none does.
KINDS = ("all", "seen", "unseen")


def overall_boards(
    views: Sequence[View],
    masks: Mapping[str, Mapping[str, NDArray[np.bool_]]],
    absent: Collection[str],
    cache: BuildCache | None = None,
) -> list[Overall]:
    """Every overall board: each view, by each metric, on each kind of queries.

    Args:
        views: the site's views.
        masks: board's slug -> kind -> (judged queries,).
        absent: slugs of boards whose dataset was unavailable.
        cache: the site's build cache: tests of unchanged results are not repeated.
    """
    return [
        overall(view, metric, kind, masks, cache)
        for view in views
        for kind in view_kinds(view, masks, absent)
        for metric in RANKED
    ]


def view_kinds(view: View, masks: Mapping[str, Mapping[str, NDArray[np.bool_]]], absent: Collection[str]) -> list[str]:
    """The kinds of queries that a view is ranked on.

    Seen and unseen tools only if every dataset has training queries and is available, because only the dataset says
    which tools they have. Otherwise the ranking would cover a fragment of the view.
    """
    if find_unavailable(view, absent) or not all(board.first.manifest.dataset.history for board in view.boards):
        return ["all"]
    known = {kind for board in view.boards for kind in masks.get(board.slug, {})}
    return ["all", *(kind for kind in KINDS[1:] if kind in known)]


def find_unavailable(view: View, absent: Collection[str]) -> list[Board]:
    """The datasets of a view that were unavailable, if all of them have training queries."""
    if not all(board.first.manifest.dataset.history for board in view.boards):
        return []
    return [board for board in view.boards if board.slug in absent]


def overall(
    view: View,
    metric: str,
    kind: str,
    masks: Mapping[str, Mapping[str, NDArray[np.bool_]]],
    cache: BuildCache | None = None,
) -> Overall:
    """Build a board over datasets.

    Args:
        view: the datasets, independent of which results exist.
        metric: one of RANKED.
        kind: `all` queries, or those whose gold is all `seen` or all `unseen`.
        masks: board's slug -> kind -> (judged queries,).
        cache: the site's build cache.
    """
    used = [board for board in view.boards if kind == "all" or kind in masks.get(board.slug, {})]
    rows: dict[str, dict[int, Row]] = {}
    for position, board in enumerate(used):
        for row in board.rows:
            # Of two rows that read the same, keep the better one.
            if kind in row.samples and metric not in row.older and position not in rows.get(row.key, {}):
                rows.setdefault(row.key, {})[position] = row
    whole = {key: by_board for key, by_board in rows.items() if len(by_board) == len(used)}
    # A system is a reference here if each of its results is one.
    firsts = [
        replace(by_board[0], reference=all(row.reference for row in by_board.values())) for by_board in whole.values()
    ]
    declared = sum(row.reference for row in firsts) > 1
    by_limit = {key for key, by_board in whole.items() if any(row.values is None for row in by_board.values())}
    if by_limit and not declared:
        by_limit = set(whole)
    taken = _Taken(
        metric,
        kind,
        used,
        [None if kind == "all" else masks[board.slug][kind] for board in used],
        whole,
        dict(zip(whole, references_of(firsts).tolist(), strict=True)),
        frozenset(by_limit),
    )
    name, key = entry_name(view, metric, kind), taken.key()
    numbers = None if cache is None else _restore(cache.get(name, key))
    if numbers is None:
        unplaced = by_limit if declared else set()
        ranked = [key for key, by_board in whole.items() if not by_board[0].oracle and key not in unplaced]
        limit = bool(by_limit) and not declared
        standing = _standing(taken, ranked, limit) if ranked else None
        spans = _spans(taken, [key for key in whole if key not in by_limit], limit=False)
        spans |= _spans(taken, [key for key in whole if key in by_limit], limit=True)
        tested = kind == "all" and not limit and all(metric in board.standings for board in used)
        contenders = _contenders(standing, spans) if tested else []
        span = span_of(metric).of_differences()
        leads = np.empty((0, 3))
        if contenders:
            leads = lead_intervals(taken.values(contenders), taken.units(), taken.sources, span)
        numbers = _Numbers(spans, standing, leads)
        if cache is not None and standing is not None:
            cache.put(name, key, numbers)
    spans, standing = numbers.spans, numbers.standing
    ordered = [_make_row(taken, key, by_board, spans.get(key), standing) for key, by_board in rows.items()]
    ordered.sort(key=_order)
    best = None
    if standing is not None and len(numbers.leads):
        best = _best(taken, _contenders(standing, spans), numbers.leads, standing)
    return Overall(view, metric, kind, tuple(used), tuple(ordered), standing, declared, bool(by_limit), best)


def entry_name(view: View, metric: str, kind: str) -> str:
    """The name of what the build cache keeps of a board over datasets."""
    return f"overall {view.name} {metric} {kind}"


@dataclass(frozen=True)
class _Numbers:
    """Compute the slow parts: means over sources with intervals, the tests, and the leads of the best contender."""

    spans: dict[str, NDArray[np.float64]]
    standing: RankedSystems | None
    leads: NDArray[np.float64]


def _restore(kept: Any) -> _Numbers | None:
    """The numbers from the build cache; None if it lacks them."""
    try:
        standing = kept["standing"]
        return _Numbers(kept["spans"], None if standing is None else RankedSystems(**standing), kept["leads"])
    except (KeyError, TypeError):
        return None


@dataclass(frozen=True)
class _Taken:
    """The methods that have all datasets, and the values that count.

    Attributes:
        metric, kind, boards: as in `Overall`.
        masks: (datasets,) which queries are of the kind; None for all.
        rows: key -> the method's row on each dataset.
        references: key -> whether it is a reference.
        by_limit: keys whose values were not kept.
    """

    metric: str
    kind: str
    boards: Sequence[Board]
    masks: Sequence[NDArray[np.bool_] | None]
    rows: Mapping[str, Mapping[int, Row]]
    references: Mapping[str, bool]
    by_limit: frozenset[str]

    @property
    def sources(self) -> list[str]:
        """The sources of the datasets."""
        return [board.source for board in self.boards]

    @property
    def column(self) -> int:
        """The range of the metric."""
        return RANKED.index(self.metric)

    def key(self) -> str:
        """A digest of all inputs: the digests of the tables, which were checked on reading."""
        return key_of(
            {
                "systems": [
                    [
                        key,
                        [by_board[position].result.manifest.files[PER_QUERY] for position in range(len(self.boards))],
                    ]
                    for key, by_board in self.rows.items()
                ],
                "sources": self.sources,
                "masks": [None if mask is None else hashlib.sha256(mask.tobytes()).hexdigest() for mask in self.masks],
                "references": [key for key in self.rows if self.references[key]],
                "how": [self.column, self.kind, sorted(self.by_limit)],
            }
        )

    def values(self, keys: Iterable[str]) -> list[NDArray[np.float64]]:
        """For each dataset, (queries, keys)."""

        def column(row: Row, mask: NDArray[np.bool_] | None) -> NDArray[np.float64]:
            assert row.values is not None
            return row.values[:, self.column] if mask is None else row.values[mask, self.column]

        return [np.column_stack([column(self.rows[key][i], mask) for key in keys]) for i, mask in enumerate(self.masks)]

    def units(self) -> list[NDArray[np.int64]]:
        """For each dataset, (queries,)."""
        units = []
        for board, mask in zip(self.boards, self.masks, strict=True):
            assert board.units is not None
            units.append(board.units if mask is None else number_units(board.units[mask]))
        return units

    def samples(self, keys: Iterable[str], of: Callable[[RowSample], NDArray[np.float64]]) -> NDArray[np.float64]:
        """(datasets, keys) sample statistics for the kind of queries."""
        positions = range(len(self.boards))
        return np.array([[of(self.rows[key][i].samples[self.kind])[self.column] for key in keys] for i in positions])


def _order(row: OverallRow) -> tuple[bool, bool, int, bool, int, float, str]:
    """Ranked methods by best rank and mean, then oracles, then methods that lack datasets, fewest lacking first."""
    last = row.ranks is None, row.ranks[0] if row.ranks else 0, -(row.mean or 0.0), row.key
    return bool(row.lacks), row.row.oracle, len(row.lacks), *last


def _spans(taken: _Taken, keys: Sequence[str], limit: bool) -> dict[str, NDArray[np.float64]]:
    """Key -> its mean over sources with the interval."""
    span = span_of(taken.metric)
    if not keys:
        return {}
    if limit:
        means, errors = taken.samples(keys, attrgetter("means")), taken.samples(keys, attrgetter("errors"))
        own = np.array([[_own(taken.rows[key][i], taken) for key in keys] for i in range(len(means))])
        spans = over_datasets_limit(means, errors, own, taken.sources, span)
    else:
        spans = macro_intervals(taken.values(keys), units=taken.units(), sources=taken.sources, span=span)
    return dict(zip(keys, spans, strict=True))


def _own(row: Row, taken: _Taken) -> tuple[float, float]:
    """The interval of a row without values on its own dataset: the stored one, or that of a normal mean."""
    stored = row.result.metrics.metrics[taken.metric]
    if taken.kind == "all":
        return (np.nan, np.nan) if stored.low is None or stored.high is None else (stored.low, stored.high)
    sample = row.samples[taken.kind]
    reach = _NORMAL * sample.errors[taken.column]
    return sample.means[taken.column] - reach, sample.means[taken.column] + reach


def _standing(taken: _Taken, ranked: Sequence[str], limit: bool) -> RankedSystems:
    """Tests and ranks of methods that have all datasets, by their means over sources.

    Signs of the units of all datasets are flipped, so ranks are about these datasets and not about others like them.
    """
    own = np.array([taken.references[key] for key in ranked])
    if limit:
        # The rows have no values, so only the sources' means can be tested, which are too few for conclusions.
        units = np.unique(taken.sources, return_inverse=True)[1].astype(np.int64)
        return rank_systems(ranked, taken.samples(ranked, attrgetter("means")), units, own)
    return rank_systems(ranked, *macro_values(taken.values(ranked), taken.units(), taken.sources), own)


def _contenders(standing: RankedSystems | None, spans: Mapping[str, NDArray[np.float64]]) -> list[str]:
    """The references, in the order of `rows`; empty if there are fewer than two."""
    keys = [] if standing is None else [key for key, own in zip(standing.ids, standing.references, strict=True) if own]
    return sorted(keys, key=lambda key: (-spans[key][0], key)) if len(keys) > 1 else []


def _best(
    taken: _Taken, contenders: Sequence[str], leads: NDArray[np.float64], standing: RankedSystems
) -> BestOverDatasets:
    """The leads of the first contender."""
    at, best = [standing.ids.index(key) for key in contenders], contenders[0]
    worse = []
    for position, board in enumerate(taken.boards):
        found, keys = board.standings[taken.metric], {row.id: row.key for row in board.rows}
        mine = found.ids.index(taken.rows[best][position].id)
        # Another row of the same key is no competitor: readers see no difference.
        rivals = [
            (keys[name], float(found.means[i]), float(found.pairs[mine, i]))
            for i, name in enumerate(found.ids)
            if found.references[i] and keys[name] != best
        ]
        worse += worse_on(board.name, float(found.means[mine]), rivals)
    names = [board.name for board in taken.boards]
    return best_over_datasets(contenders, leads, standing.pairs[at[0], at], names, len(set(taken.sources)), worse)


def _make_row(
    taken: _Taken,
    key: str,
    by_board: Mapping[int, Row],
    span: NDArray[np.float64] | None,
    standing: RankedSystems | None,
) -> OverallRow:
    boards, kind = taken.boards, taken.kind
    cells = [
        (float(by_board[i].samples[kind].means[taken.column]), by_board[i]) if i in by_board else None
        for i in range(len(boards))
    ]
    mean, low, high = (None, None, None) if span is None else map(float, span)
    at = None if standing is None else standing.position(key)
    ranks = None if standing is None or at is None else (int(standing.ranks[at, 0]), int(standing.ranks[at, 1]))
    return OverallRow(
        key=key,
        row=next(iter(by_board.values())),
        cells=tuple(cells),
        lacks=tuple(board.name for i, board in enumerate(boards) if i not in by_board),
        mean=mean,
        low=low,
        high=high,
        n=sum(row.samples[kind].n for row in by_board.values()),
        failed=sum(row.result.metrics.n_failed for row in by_board.values()),
        ranks=ranks,
        reference=standing is not None and at is not None and bool(standing.references[at]),
    )


def families(boards: Sequence[Board]) -> dict[str, int]:
    """Family -> number of its results, sorted."""
    return dict(sorted(Counter(row.family for board in boards for row in board.rows).items()))
