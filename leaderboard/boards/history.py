"""How a ranking came to be: what each day of results changed in it.

The ranking as of a day is computed again from the dates of the results, with those that newer ones have taken the
place of. A site therefore keeps no state: the same results have the same history, whatever was built before.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.leaderboard.boards.board import Board, Row
from bench.leaderboard.boards.overall import Overall
from bench.results.comparing import metric_difference
from bench.results.store import Result

#: When what has no date was made: it was always there.
FIRST_DATE = datetime.datetime.min.replace(tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Move:
    """A method whose rank changed: from `before`, None where it was not ranked, to `now`."""

    name: str
    before: int | None
    now: int


@dataclass(frozen=True)
class Day:
    """What a day changed in a ranking.

    Attributes:
        at: when its last result was made.
        ranked: how many methods are ranked after it.
        moves: by rank; ranks are those of the means.
    """

    at: datetime.datetime
    ranked: int
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class _Answer:
    """A result as it once was on a board: from `at` on, until the row's next one."""

    at: datetime.datetime
    row: Row
    mean: float


def created(result: Result) -> datetime.datetime | None:
    """When a result was made, in UTC; none where its manifest has no date."""
    return moment(result.manifest.environment.created)


def moment(text: str) -> datetime.datetime | None:
    """A date and time in UTC, out of its ISO form; none where it is none."""
    try:
        found = datetime.datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def changes(ranking: Overall) -> list[Day]:
    """The days that changed a ranking, the first one first; results without a date were always there.

    Args:
        ranking: on all queries. Its ranking set is that of today: it holds for the past, too.
    """
    answers = [_answers(board, ranking.metric) for board in ranking.boards]
    names = {place.key: place.row.full_name for place in ranking.places}
    sources = [board.source for board in ranking.boards]
    moments = sorted({item.at for own in answers for item in own})
    found: list[Day] = []
    before: dict[str, int] = {}
    for place, at in enumerate(moments):
        if place + 1 < len(moments) and moments[place + 1].date() == at.date():
            continue
        order = _order([_as_of(own, at) for own in answers], sources)
        now = {key: rank for rank, key in enumerate(order, 1)}
        moves = tuple(Move(names[key], before.get(key), rank) for key, rank in now.items() if before.get(key) != rank)
        if moves:
            found.append(Day(at, len(now), moves))
        before = now
    return found


def _answers(board: Board, metric: str) -> list[_Answer]:
    """The answers of a board's rows, the oldest first."""
    rows = {row.id: row for row in board.rows if row.samples and metric not in row.older and not row.oracle}
    return sorted(_comparable(board, rows, metric), key=lambda item: (item.at, item.row.id))


def _comparable(board: Board, rows: dict[str, Row], metric: str) -> Iterator[_Answer]:
    own = [(row.result, row) for row in rows.values()]
    own += [(item.result, rows[item.newer]) for item in board.superseded if item.newer in rows]
    for result, row in own:
        mean = result.metrics.metrics.get(metric)
        # What other code computed is no rank of today's metric.
        if mean is not None and metric_difference(result.manifest, row.result.manifest, metric) is None:
            yield _Answer(created(result) or FIRST_DATE, row, mean.mean)


def _as_of(answers: Sequence[_Answer], at: datetime.datetime) -> dict[str, float]:
    """Key -> its mean on a board; of several rows of one key, the best."""
    newest = {item.row.id: item for item in answers if item.at <= at}
    found: defaultdict[str, float] = defaultdict(lambda: -np.inf)
    for item in newest.values():
        found[item.row.key] = max(found[item.row.key], item.mean)
    return dict(found)


def _order(boards: Sequence[dict[str, float]], sources: Sequence[str]) -> list[str]:
    """Keys that all boards have, best first by the mean over sources."""
    whole = set.intersection(*map(set, boards)) if boards else set()
    parts = {source: [i for i, own in enumerate(sources) if own == source] for source in dict.fromkeys(sources)}
    means = {
        key: float(np.mean([np.mean([boards[i][key] for i in places]) for places in parts.values()])) for key in whole
    }
    return sorted(whole, key=lambda key: (-means[key], key))
