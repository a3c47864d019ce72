"""Whether answers agree: those to one query asked twice, and those to different queries. Runs and audits ask."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.interface import Ranking, ToolSets

#: Scores nearer than this may change places: the last bits of an embedding depend on the batch of its text.
_CLOSE = 1e-4
#: With so many different queries, the same tools in other orders are no coincidence.
FEWEST = 10


def place_of_difference(one: Ranking, two: Ranking, row: int) -> int | None:
    """The first position, from 0, at which two answers to a query differ; None if they agree.

    They agree if they differ only in tools whose scores are nearly equal.
    """
    first, second = _scored_tools(one, row), _scored_tools(two, row)
    if list(first) == list(second) or _nearly(first, second):
        return None
    pairs = zip([*first, None], [*second, None], strict=False)
    return next((i for i, (left, right) in enumerate(pairs) if left != right), 0)


def _scored_tools(ranking: Ranking, row: int) -> dict[int, float | None]:
    """The tools of one query with their scores, best first; None for an order without scores."""
    tools = ranking.tools[row][ranking.tools[row] >= 0].tolist()
    scores = [None] * len(tools) if ranking.scores is None else ranking.scores[row, : len(tools)].tolist()
    return dict(zip(tools, scores, strict=True))


def _nearly(first: dict[int, float | None], second: dict[int, float | None]) -> bool:
    """Whether two answers differ only in tools that score nearly the same in both.

    Every tool that both returned must have nearly the same score; one that only one of them returned must have scored
    nearly as the last tool of the other, whose position it took.
    """
    if not first or not second or None in {*first.values(), *second.values()} or len(first) != len(second):
        return False
    for mine, other in ((first, second), (second, first)):
        last = min(score for score in other.values() if score is not None)
        for tool, score in mine.items():
            expected = other.get(tool, last)
            if score is None or expected is None or abs(score - expected) > _CLOSE:
                return False
    return True


def describe_alike(ranking: Ranking, texts: Sequence[str], library: int, sets: ToolSets | None = None) -> str:
    """What all answers to different queries have in common, as a sentence without the period; empty if they differ.

    Empty answers are left out: failures are reported elsewhere. A library of one tool has one answer.

    Args:
        ranking: the answers.
        texts: the texts of the queries.
        library: number of tools.
        sets: recommended with the ranking; they are compared too.
    """
    answered = np.flatnonzero((ranking.tools >= 0).any(axis=1))
    asked = len({texts[i] for i in answered.tolist()})
    if asked < 2 or library < 2 or (sets is not None and len({tuple(sets.row(int(i))) for i in answered}) > 1):
        return ""
    tools = ranking.tools[answered]
    size = int((tools[0] >= 0).sum())
    what = f"all answers to {asked} different queries"
    if (tools == tools[0]).all():
        return f"{what} have the same {size} tools in the same order" if size > 1 else f"{what} are the same tool"
    if size == library or asked < FEWEST or {*tools[0].tolist()} != {*tools[-1].tolist()}:
        return ""
    ordered = np.sort(tools, axis=1)
    return f"{what} have the same {size} tools, in other orders" if (ordered == ordered[0]).all() else ""
