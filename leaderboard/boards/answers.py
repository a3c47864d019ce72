"""The answer to visitors' main question: which method for my case, and how certain that is.

The home page shows them. They come from the overall boards.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from bench.comparison.rows import competes
from bench.leaderboard.boards.board import RANKED
from bench.leaderboard.boards.decisions import VERIFIED
from bench.leaderboard.boards.overall import Overall, OverallRow
from bench.leaderboard.boards.traits import learns
from bench.stats.noninferiority import LEVEL

#: Maximum latency of a quick method, in seconds per query.
QUICK = 0.001


#: What a visitor may have to learn from, and what a method may need.
TRAINING = ("without training", "with training queries")
LIMITS = ("any method", "no model to download", f"under {QUICK * 1000:g} ms a query")
#: Maximum kinds of tools to choose from; the style sheet has a rule for each.
_MOST_KINDS = 6


@dataclass(frozen=True)
class BoardAnswer:
    """The best method among those that fit a case.

    It is the best reference system, or the best challenger that is significantly better than that: among many similar
    challengers, some lead by chance. A method that the maintainers did not run, first or again, is never the best.

    Attributes:
        board: the board that ranks it.
        best: its row.
        ties: rows that fit and do not differ significantly from the best.
        better: rows that fit and are significantly better; the maintainers ran none of them.
        others: number of other rows that fit.
        outside: rows that do not fit and do not differ significantly from the best.
    """

    board: Overall
    best: OverallRow
    ties: tuple[OverallRow, ...]
    better: tuple[OverallRow, ...]
    others: int
    outside: tuple[OverallRow, ...]


@dataclass(frozen=True)
class Case:
    """A visitor's case: positions of the chosen kind of tools, training and limit, and the answer if there is one.

    `learnt` says whether a ranked method has learnt from queries of such tools.
    """

    kind: int
    training: int
    limit: int
    learnt: bool
    answer: BoardAnswer | None


@dataclass(frozen=True)
class Cases:
    """The cases that a site answers.

    Attributes:
        kinds: titles of views, by the kind of tools; the first has all sources.
        cases: one for each combination of kind, `TRAINING` and `LIMITS`, in their order.
    """

    kinds: tuple[str, ...]
    cases: tuple[Case, ...]

    def answer(self, kind: str, training: int = 0, limit: int = 0) -> BoardAnswer | None:
        """The answer for a kind of tools; training and limit are positions in `TRAINING` and `LIMITS`."""
        place = self.kinds.index(kind), training, limit
        return next(case.answer for case in self.cases if (case.kind, case.training, case.limit) == place)


def cases(boards: Sequence[Overall]) -> Cases | None:
    """The answers that a site can give; None if nothing is ranked.

    With training queries, all methods fit, on data where some have learnt: of all sources, these are those of the view
    that ranks most methods that learn.
    """
    first = [board for board in boards if board.metric == RANKED[0] and board.kind == "all"]
    if not first:
        return None
    learners = [sum(_competes(row) and _learns(row) for row in board.rows) for board in first]
    trained = first[learners.index(max(learners))]
    kinds = [first[0], *(board for board in first[1:] if board.view.card and board is not trained)][:_MOST_KINDS]
    fits: tuple[Callable[[OverallRow], bool], ...] = (lambda row: True, lambda row: not _models(row), _quick)
    found = []
    for (kind, board), training, (limit, fit) in product(enumerate(kinds), range(len(TRAINING)), enumerate(fits)):
        ranking = trained if training and not kind else board
        learnt = any(map(_learns, filter(_competes, ranking.rows)))
        answer = (
            _answer(ranking, fit if training else partial(_fits_untrained, fit)) if learnt or not training else None
        )
        found.append(Case(kind, training, limit, learnt, answer))
    if all(case.answer is None for case in found):
        return None
    return Cases(tuple(board.view.title for board in kinds), tuple(found))


def _answer(board: Overall, fits: Callable[[OverallRow], bool]) -> BoardAnswer | None:
    every = [row for row in board.rows if _competes(row)]
    rows = [row for row in every if fits(row)]
    if board.standing is None or not rows:
        return None
    standing = board.standing
    at = {row.key: standing.ids.index(row.key) for row in every}
    verified = [row for row in rows if all(cell is None or cell[1].evidence in VERIFIED for cell in row.cells)]
    if not verified:
        return None
    first = next((row for row in verified if standing.references[at[row.key]]), verified[0])
    p, ahead = standing.pairs[at[first.key]], standing.means > standing.means[at[first.key]]
    better = [row for row in verified if p[at[row.key]] < LEVEL and ahead[at[row.key]]]
    best = better[0] if better else first
    alike = standing.ties(at[best.key])
    ties = tuple(row for row in rows if alike[at[row.key]])
    above = standing.means > standing.means[at[best.key]]
    unrun = tuple(row for row in rows if row is not best and above[at[row.key]] and not alike[at[row.key]])
    outside = tuple(row for row in every if not fits(row) and alike[at[row.key]])
    return BoardAnswer(board, best, ties, unrun, len(rows) - 1, outside)


def _competes(row: OverallRow) -> bool:
    return row.ranks is not None and competes(row.row.result)


def _fits_untrained(fit: Callable[[OverallRow], bool], row: OverallRow) -> bool:
    return not _learns(row) and fit(row)


def _learns(row: OverallRow) -> bool:
    return any(learns(cell[1]) for cell in row.cells if cell is not None)


def _models(row: OverallRow) -> bool:
    return any(cell[1].result.manifest.method.revisions for cell in row.cells if cell is not None)


def _quick(row: OverallRow) -> bool:
    seconds = latency_of(row)
    return seconds is not None and seconds < QUICK


def latency_of(row: OverallRow) -> float | None:
    """Seconds per query: the median of the datasets' medians; None if it was not measured.

    If embeddings came from the cache, the time does not include encoding the query, so it is not a latency.
    """
    latencies = [
        latency.p50
        for cell in row.cells
        if cell is not None and (latency := cell[1].result.manifest.latency) is not None and not latency.cached
    ]
    return statistics.median(latencies) if latencies else None


def tokens_of(row: OverallRow) -> float | None:
    """Mean tokens of the first five tools' texts over its datasets; None unless all datasets have token counts."""
    counts = [cell[1].result.metrics.tokens.get("top_5") for cell in row.cells if cell is not None]
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if known and len(known) == len(counts) else None
