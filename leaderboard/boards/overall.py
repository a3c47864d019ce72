"""The board over the datasets of a view: macro means with two-level intervals, and ranks. The home page shows it."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
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
from bench.leaderboard.boards.standings import Entrants, RankedSystems, over_datasets_limit, rank_by_metrics
from bench.leaderboard.buildcache import BuildCache, key_of
from bench.results.store import PER_QUERY, span_of
from bench.results.units import number_units
from bench.stats.macro import lead_intervals, macro_intervals_of_tables, macro_values

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
        board
        for view in views
        for kind in view_kinds(view, masks, absent)
        for board in overall_by_metrics(view, RANKED, kind, masks, cache)
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


def overall_by_metrics(
    view: View,
    metrics: Sequence[str],
    kind: str,
    masks: Mapping[str, Mapping[str, NDArray[np.bool_]]],
    cache: BuildCache | None = None,
) -> list[Overall]:
    """Build the board over datasets of each metric.

    Args:
        view: the datasets, independent of which results exist.
        metrics: of RANKED.
        kind: `all` queries, or those whose gold is all `seen` or all `unseen`.
        masks: board's slug -> kind -> (judged queries,).
        cache: the site's build cache.
    """
    taken = [_take(view, metric, kind, masks) for metric in metrics]
    numbers: list[_Numbers | None] = [None] * len(taken)
    names, keys = [entry_name(view, metric, kind) for metric in metrics], [one.key() for one in taken]
    if cache is not None:
        numbers = [_restore(cache.get(name, key)) for name, key in zip(names, keys, strict=True)]
    fresh = [i for i, found in enumerate(numbers) if found is None]
    for i, made in zip(fresh, _compute([taken[i] for i in fresh]), strict=True):
        numbers[i] = made
        if cache is not None and made.standing is not None:
            cache.put(names[i], keys[i], made)
    return [_show(view, one, found) for one, found in zip(taken, numbers, strict=True) if found is not None]


def _take(view: View, metric: str, kind: str, masks: Mapping[str, Mapping[str, NDArray[np.bool_]]]) -> _Taken:
    """The rows of a board over datasets, and what of them counts."""
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
    return _Taken(
        metric,
        kind,
        used,
        [None if kind == "all" else masks[board.slug][kind] for board in used],
        rows,
        whole,
        dict(zip(whole, references_of(firsts).tolist(), strict=True)),
        frozenset(by_limit),
        declared,
    )


def _compute(boards: Sequence[_Taken]) -> list[_Numbers]:
    """The slow parts of boards of several metrics over the same datasets."""
    standings = _standings(boards)
    spans = [_limit_spans(one, [key for key in one.whole if key in one.by_limit]) for one in boards]
    keys = [[key for key in one.whole if key not in one.by_limit] for one in boards]
    some = [i for i, own in enumerate(keys) if own]
    intervals = macro_intervals_of_tables(
        [boards[i].values(keys[i]) for i in some],
        [boards[i].units() for i in some],
        boards[0].sources if boards else [],
        [span_of(boards[i].metric) for i in some],
    )
    for i, found in zip(some, intervals, strict=True):
        spans[i] |= dict(zip(keys[i], found, strict=True))
    return [
        _Numbers(found, standing, _leads(one, standing, found))
        for one, standing, found in zip(boards, standings, spans, strict=True)
    ]


def _leads(
    taken: _Taken, standing: RankedSystems | None, spans: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """(contenders, 3) leads of the best contender; empty if there are none, or a dataset has no tests."""
    tested = taken.kind == "all" and not taken.limit and all(taken.metric in board.standings for board in taken.boards)
    contenders = _contenders(standing, spans) if tested else []
    if not contenders:
        return np.empty((0, 3))
    span = span_of(taken.metric).of_differences()
    return lead_intervals(taken.values(contenders), taken.units(), taken.sources, span)


def _show(view: View, taken: _Taken, numbers: _Numbers) -> Overall:
    """The board of a metric, from its numbers."""
    spans, standing = numbers.spans, numbers.standing
    ordered = [_make_row(taken, key, by_board, spans.get(key), standing) for key, by_board in taken.rows.items()]
    ordered.sort(key=_order)
    best = None
    if standing is not None and len(numbers.leads):
        best = _best(taken, _contenders(standing, spans), numbers.leads, standing)
    parts = tuple(taken.boards), tuple(ordered), standing, taken.declared, bool(taken.by_limit), best
    return Overall(view, taken.metric, taken.kind, *parts)


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
    """The methods of a board over datasets, and the values that count.

    Attributes:
        metric, kind, boards: as in `Overall`.
        masks: (datasets,) which queries are of the kind; None for all.
        rows: key -> the method's row on each dataset that it has.
        whole: the same of methods that have all datasets.
        references: key -> whether it is a reference.
        by_limit: keys whose values were not kept.
        declared: as in `Overall`.
    """

    metric: str
    kind: str
    boards: Sequence[Board]
    masks: Sequence[NDArray[np.bool_] | None]
    rows: Mapping[str, Mapping[int, Row]]
    whole: Mapping[str, Mapping[int, Row]]
    references: Mapping[str, bool]
    by_limit: frozenset[str]
    declared: bool

    @property
    def limit(self) -> bool:
        """Whether all methods are ranked in the large-sample limit."""
        return bool(self.by_limit) and not self.declared

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
                    for key, by_board in self.whole.items()
                ],
                "sources": self.sources,
                "masks": [None if mask is None else hashlib.sha256(mask.tobytes()).hexdigest() for mask in self.masks],
                "references": [key for key in self.whole if self.references[key]],
                "how": [self.column, self.kind, sorted(self.by_limit)],
            }
        )

    def values(self, keys: Iterable[str]) -> list[NDArray[np.float64]]:
        """For each dataset, (queries, keys)."""

        def column(row: Row, mask: NDArray[np.bool_] | None) -> NDArray[np.float64]:
            assert row.values is not None
            return row.values[:, self.column] if mask is None else row.values[mask, self.column]

        rows = [self.whole[key] for key in keys]
        return [np.column_stack([column(row[i], mask) for row in rows]) for i, mask in enumerate(self.masks)]

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
        return np.array([[of(self.whole[key][i].samples[self.kind])[self.column] for key in keys] for i in positions])


def _order(row: OverallRow) -> tuple[bool, bool, int, bool, int, float, str]:
    """Ranked methods by best rank and mean, then oracles, then methods that lack datasets, fewest lacking first."""
    last = row.ranks is None, row.ranks[0] if row.ranks else 0, -(row.mean or 0.0), row.key
    return bool(row.lacks), row.row.oracle, len(row.lacks), *last


def _limit_spans(taken: _Taken, keys: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Key -> its mean over sources with the interval, of rows without values."""
    if not keys:
        return {}
    means, errors = taken.samples(keys, attrgetter("means")), taken.samples(keys, attrgetter("errors"))
    own = np.array([[_own(taken.whole[key][i], taken) for key in keys] for i in range(len(means))])
    spans = over_datasets_limit(means, errors, own, taken.sources, span_of(taken.metric))
    return dict(zip(keys, spans, strict=True))


def _own(row: Row, taken: _Taken) -> tuple[float, float]:
    """The interval of a row without values on its own dataset: the stored one, or that of a normal mean."""
    stored = row.result.metrics.metrics[taken.metric]
    if taken.kind == "all":
        return (np.nan, np.nan) if stored.low is None or stored.high is None else (stored.low, stored.high)
    sample = row.samples[taken.kind]
    reach = _NORMAL * sample.errors[taken.column]
    return sample.means[taken.column] - reach, sample.means[taken.column] + reach


def _standings(boards: Sequence[_Taken]) -> list[RankedSystems | None]:
    """Tests and ranks of the methods that have all datasets, by their means over sources; None if there are none.

    Signs of the units of all datasets are flipped, so ranks are about these datasets and not about others like them.
    """
    entrants = defaultdict[bool, list[tuple[int, Entrants]]](list)
    for i, one in enumerate(boards):
        unplaced = one.by_limit if one.declared else frozenset()
        ranked = [key for key, by_board in one.whole.items() if not by_board[0].oracle and key not in unplaced]
        if ranked and one.limit:
            values = one.samples(ranked, attrgetter("means"))
        elif ranked:
            values = macro_values(one.values(ranked), one.units(), one.sources)[0]
        else:
            continue
        own = np.array([one.references[key] for key in ranked])
        entrants[one.limit].append((i, Entrants(ranked, values, own)))
    found: list[RankedSystems | None] = [None] * len(boards)
    for limit, members in entrants.items():
        first = boards[members[0][0]]
        if limit:
            # The rows have no values, so only the sources' means can be tested, which are too few for conclusions.
            units = np.unique(first.sources, return_inverse=True)[1].astype(np.int64)
        else:
            codes = first.units()
            units = macro_values([np.empty((len(part), 0)) for part in codes], codes, first.sources)[1]
        for (i, _), standing in zip(members, rank_by_metrics([one for _, one in members], units), strict=True):
            found[i] = standing
    return found


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
        mine = found.ids.index(taken.whole[best][position].id)
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
