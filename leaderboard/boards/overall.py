"""The overall board: macro means with two-level intervals, tiers and ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.leaderboard.boards.board import RANKED, Board, Row
from bench.leaderboard.boards.standings import over_datasets, over_datasets_limit, ranked_over_datasets, ranked_systems
from bench.results.units import numbered

#: Values that are resampled one by one; more of them are resampled by their means and errors.
MOST_VALUES = 20_000_000


@dataclass(frozen=True)
class OverallRow:
    """A method over datasets, on one metric.

    Attributes:
        cells: (datasets,) its mean on each, and the row that it is in; None where it has none.
        mean, low, high: over the `over` datasets that it is averaged over.
        tier, best, worst: None where it is not ranked.
        n, failed: queries of the datasets that it is averaged over.
    """

    key: str
    row: Row
    cells: tuple[tuple[float, Row] | None, ...]
    mean: float
    low: float
    high: float
    over: int
    n: int
    failed: int
    tier: int | None
    best: int | None
    worst: int | None


@dataclass(frozen=True)
class Overall:
    """One metric over datasets.

    Attributes:
        boards: the datasets, in the order of columns.
        common: which of them the ranked methods all have.
        places: ranked ones best first, then the others, then oracles.
    """

    metric: str
    kind: str
    boards: tuple[Board, ...]
    common: tuple[int, ...]
    places: tuple[OverallRow, ...]
    limit: bool


def main_boards(boards: Sequence[Board]) -> list[Board]:
    """One board for each dataset: the current protocol's, of all queries, most rows, then the newest."""
    found: dict[str, Board] = {}
    for board in boards:
        if not board.current or board.limit is not None or board.split not in {"test", "all"}:
            continue
        rival = found.get(board.spec)
        if rival is None or (board.latest, len(board.rows)) > (rival.latest, len(rival.rows)):
            found[board.spec] = board
    return [found[spec] for spec in sorted(found)]


def overall(
    boards: Sequence[Board], metric: str, kind: str, masks: Mapping[str, Mapping[str, NDArray[np.bool_]]]
) -> Overall:
    """A board over datasets.

    Args:
        boards: one for each dataset.
        metric: one of RANKED.
        kind: `all` queries, or those whose gold is all `seen` or all `unseen`.
        masks: board's slug -> kind -> (judged queries,).
    """
    column = RANKED.index(metric)
    used = [board for board in boards if kind == "all" or kind in masks.get(board.slug, {})]
    rows: dict[str, dict[int, Row]] = {}
    for place, board in enumerate(used):
        for row in board.rows:
            # Of two rows that differ in nothing a reader is told, the better one comes first.
            if kind in row.samples and metric not in row.older and place not in rows.get(row.key, {}):
                rows.setdefault(row.key, {})[place] = row
    methods = {key: frozenset(found) for key, found in rows.items() if not next(iter(found.values())).oracle}
    common = _common(list(methods.values()))
    ranked = [key for key, own in methods.items() if common and common <= own]
    own = [None if kind == "all" else masks[board.slug][kind] for board in used]
    limit = any(row.values is None for found in rows.values() for row in found.values())
    spans = _spans(rows, common, set(ranked), _Taken(column, kind, own), used, limit)
    ranks = _ranks(ranked, rows, sorted(common), _Taken(column, kind, own), used, limit)
    places = [_place(key, found, column, kind, spans[key], ranks.get(key), len(used)) for key, found in rows.items()]
    places.sort(key=_order)
    return Overall(metric, kind, tuple(used), tuple(sorted(common)), tuple(places), limit)


@dataclass(frozen=True)
class _Taken:
    """Which values count: a column, a kind of queries, and for each dataset a mask of these queries."""

    column: int
    kind: str
    masks: Sequence[NDArray[np.bool_] | None]

    def values(self, place: int, row: Row) -> NDArray[np.float64]:
        assert row.values is not None
        mask = self.masks[place]
        own = row.values[:, self.column]
        return own if mask is None else own[mask]

    def units(self, place: int, board: Board) -> NDArray[np.int64]:
        assert board.units is not None
        mask = self.masks[place]
        return board.units if mask is None else numbered(board.units[mask])


def _order(place: OverallRow) -> tuple[bool, bool, int, float, str]:
    """Ranked ones by their mean; of the others, those on more datasets first; oracles last."""
    return place.row.oracle, place.tier is None, 0 if place.tier else -place.over, -place.mean, place.key


def _common(sets: Sequence[frozenset[int]]) -> frozenset[int]:
    """The datasets to rank on: of the sets that methods have, the one that makes the largest full table."""
    if not sets:
        return frozenset()
    sizes = {own: sum(own <= other for other in sets) * len(own) for own in set(sets)}
    return max(sizes, key=lambda own: (sizes[own], len(own), sorted(own)))


def _spans(
    rows: Mapping[str, Mapping[int, Row]],
    common: frozenset[int],
    ranked: set[str],
    taken: _Taken,
    boards: Sequence[Board],
    limit: bool,
) -> dict[str, tuple[tuple[int, ...], NDArray[np.float64]]]:
    """Key -> the datasets it is averaged over, and its mean with the interval."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for key, found in rows.items():
        # A ranked method counts on the common datasets alone: a mean over others would not compare with its rivals'.
        over = tuple(sorted(common)) if key in ranked else tuple(sorted(found))
        groups.setdefault(over, []).append(key)
    spans: dict[str, tuple[tuple[int, ...], NDArray[np.float64]]] = {}
    for over, keys in groups.items():
        if limit:
            own = [[rows[key][place].samples[taken.kind] for key in keys] for place in over]
            means = np.array([[item.means[taken.column] for item in items] for items in own])
            errors = np.array([[item.errors[taken.column] for item in items] for items in own])
            found_over = over_datasets_limit(means, errors, [boards[place].source for place in over])
        else:
            found_over = over_datasets(
                [np.column_stack([taken.values(place, rows[key][place]) for key in keys]) for place in over],
                [taken.units(place, boards[place]) for place in over],
                [boards[place].source for place in over],
            )
        spans |= {key: (over, found_over[i]) for i, key in enumerate(keys)}
    return spans


def _ranks(
    ranked: Sequence[str],
    rows: Mapping[str, Mapping[int, Row]],
    common: Sequence[int],
    taken: _Taken,
    boards: Sequence[Board],
    limit: bool,
) -> dict[str, tuple[int, int, int]]:
    """Key -> tier, best and worst rank, on the common datasets."""
    if not ranked:
        return {}
    sources = [boards[place].source for place in common]
    if limit:
        # The rows have no values, so only the sources' means can be resampled: too few of them for conclusions.
        means = np.array(
            [[rows[key][place].samples[taken.kind].means[taken.column] for key in ranked] for place in common]
        )
        found = ranked_systems(ranked, means, np.unique(sources, return_inverse=True)[1].astype(np.int64))
    else:
        values = [np.column_stack([taken.values(place, rows[key][place]) for key in ranked]) for place in common]
        found = ranked_over_datasets(ranked, values, [taken.units(place, boards[place]) for place in common], sources)
    return {key: (int(found.tier[i]), int(found.ranks[i, 0]), int(found.ranks[i, 1])) for i, key in enumerate(ranked)}


def _place(
    key: str,
    found: Mapping[int, Row],
    column: int,
    kind: str,
    span: tuple[tuple[int, ...], NDArray[np.float64]],
    ranks: tuple[int, int, int] | None,
    datasets: int,
) -> OverallRow:
    over, interval = span
    own = [(float(found[i].samples[kind].means[column]), found[i]) if i in found else None for i in range(datasets)]
    tier, best, worst = ranks or (None, None, None)
    return OverallRow(
        key=key,
        row=found[over[0]],
        cells=tuple(own),
        mean=float(interval[0]),
        low=float(interval[1]),
        high=float(interval[2]),
        over=len(over),
        n=sum(found[i].samples[kind].n for i in over),
        failed=sum(found[i].result.metrics.n_failed for i in over),
        tier=tier,
        best=best,
        worst=worst,
    )


def families(boards: Sequence[Board]) -> dict[str, int]:
    """Family -> how many results it has, sorted."""
    return dict(sorted(Counter(row.family for board in boards for row in board.rows).items()))
