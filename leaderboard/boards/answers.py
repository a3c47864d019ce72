"""Answers to visitors' main questions: which method is best, under which constraints, and how certain that is.

The home page shows them. They come from the overall boards.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.comparison.rows import competes
from bench.leaderboard.boards.board import RANKED
from bench.leaderboard.boards.decisions import VERIFIED
from bench.leaderboard.boards.overall import Overall, OverallRow
from bench.leaderboard.boards.traits import learns
from bench.stats.noninferiority import LEVEL

#: Maximum latency of a quick method, in seconds per query.
QUICK = 0.001


@dataclass(frozen=True)
class BoardAnswer:
    """The best method among those that meet a constraint.

    It is the best reference system, or the best challenger that is significantly better than that: among many similar
    challengers, some lead by chance. A method that the maintainers did not run, first or again, is never the best.

    Attributes:
        question: what it is best at.
        group: the constraint, such as `without training`; empty if there is none.
        board: the board that ranks it.
        best: its row.
        ties: rows that meet the constraint and do not differ significantly from the best.
        others: number of other rows that meet the constraint.
        outside: rows that do not meet the constraint and do not differ significantly from the best.
    """

    question: str
    group: str
    board: Overall
    best: OverallRow
    ties: tuple[OverallRow, ...]
    others: int
    outside: tuple[OverallRow, ...]


def answers(boards: Sequence[Overall]) -> list[BoardAnswer]:
    """The answers that a site can give, most common question first; constraints that no method meets are left out."""
    first = [board for board in boards if board.metric == RANKED[0] and board.kind == "all"]
    if not first:
        return []
    main = first[0]
    untrained, quick = "without training", f"under {QUICK * 1000:g} ms a query"
    light = f"{untrained} and without a model to download"
    questions: list[tuple[str, str, Overall, Callable[[OverallRow], bool]]] = [
        (f"Best {untrained}", untrained, main, lambda row: not _learns(row)),
        ("Best without a model to download", light, main, lambda row: not _learns(row) and not _models(row)),
        (f"Best {quick}", quick, main, _quick),
    ]
    # The view that ranks most methods that learn; of equal ones the first.
    learners = [sum(_competes(row) and _learns(row) for row in board.rows) for board in first]
    trained = first[learners.index(max(learners))]
    questions.insert(1, ("Best trained", "with training", trained, _learns))
    view_questions = [
        (f"Best: {board.view.title}", "", board, lambda row: True)
        for board in first[1:]
        if board.view.card and board is not trained
    ]
    # The view declared next after the ranking fits most visitors; the other views fit fewer.
    questions = [*view_questions[:1], *questions, *view_questions[1:]]
    return [answer for question in questions if (answer := _answer(*question))]


def _answer(question: str, group: str, board: Overall, fits: Callable[[OverallRow], bool]) -> BoardAnswer | None:
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
    outside = tuple(row for row in every if not fits(row) and alike[at[row.key]])
    return BoardAnswer(question, group, board, best, ties, len(rows) - 1, outside)


def _competes(row: OverallRow) -> bool:
    return row.ranks is not None and competes(row.row.result)


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
