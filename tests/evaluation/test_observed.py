"""What a run says of its answers: queries answered differently the second time, and answers that are all alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pytest
from kit.watched import Watched

from bench.data.dataset import Dataset
from bench.evaluation.agreement import describe_alike
from bench.interface import Queries, Ranking, ToolSets
from bench.interface.marks import ALL_ALIKE, FLAKY
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]


@pytest.fixture(autouse=True)
def all_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the 22 queries are asked a second time."""
    monkeypatch.setattr("bench.evaluation.ask._LATENCY_QUERIES", 100)


class Own(Watched):
    """An answer of its own for each query, by its number."""

    has_chance = True
    tie: ClassVar[float] = 0.0

    def answers(self, queries: Queries) -> list[list[int]]:
        return [[(row * 5) % 12, (row * 5 + 1 + row % 7) % 12] for row in queries.rows.tolist()]

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.of_lists([list(dict.fromkeys(answer)) for answer in self.answers(queries)])


class Shuffled(Own):
    """The order of a query's tools is drawn anew each time."""

    def answers(self, queries: Queries) -> list[list[int]]:
        return [random.sample(answer, 2) for answer in super().answers(queries)]


class Lagging(Own):
    """Each query gets the answer to the one before."""

    before: ClassVar[list[int]] = [0]

    def answers(self, queries: Queries) -> list[list[int]]:
        own = super().answers(queries)
        given = [self.before, *own[:-1]]
        type(self).before = own[-1]
        return given


class FailsLater(Own):
    """Fails where it is asked one by one."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking(super().rank(queries, depth).tools, failed=np.full(len(queries), len(queries) == 1))


class Twice(Own):
    """Breaks the protocol where it is asked one by one."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.of_lists([[1, 1]]) if len(queries) == 1 else super().rank(queries, depth)


class LastBits(Own):
    """Two tools that nearly tie change places where it is asked one by one."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        first = 1.0 + (1e-7 if len(queries) == 1 else -1e-7)
        tools = np.tile(np.array([[0, 1, 2]], dtype=np.int32), (len(queries), 1))
        tools[:, 2] += queries.rows.astype(np.int32) % 10
        return Ranking(tools, np.tile([[first, 1.0, 0.5]], (len(queries), 1)))


@pytest.mark.parametrize(
    ("kind", "flaky"), [(Own, 0), (Shuffled, 22), (Lagging, 22), (FailsLater, 22), (Twice, 22), (LastBits, 0)]
)
def test_queries_that_are_answered_differently_the_second_time_are_counted(
    run: Run, kind: type[Own], flaky: int
) -> None:
    marks = {mark.text: mark.why for mark in run(kind).manifest.marks}
    assert (FLAKY in marks) == bool(flaky)
    if flaky:
        count, _, rest = marks[FLAKY].partition(" of 22 queries that were asked twice were answered differently, such ")
        # By chance, some are drawn in the same order.
        assert flaky / 4 < int(count) <= flaky
        assert rest.startswith("as q")
    # Where it runs several times, that is measured.
    assert FLAKY not in {mark.text for mark in run(kind, repeats=2).manifest.marks}


def test_what_encodes_is_flaky_only_if_it_differs_on_its_own(run: Run, tiny: Dataset) -> None:
    class Part:
        name = "encoder"

        def revisions(self) -> dict[str, str]:
            return {}

    class Batched(Own):
        """Answers by the size of the batch, without scores."""

        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)
            self.include(Part())

        def rank(self, queries: Queries, depth: int) -> Ranking:
            return Ranking.of_lists([[row % 12] if len(queries) > 1 else [0] for row in queries.rows.tolist()])

    class Drawn(Batched):
        """Answers at random."""

        def rank(self, queries: Queries, depth: int) -> Ranking:
            return Ranking.of_lists([random.sample(range(12), 5) for _ in queries.texts])

    assert FLAKY not in {mark.text for mark in run(Batched).manifest.marks}
    assert FLAKY in {mark.text for mark in run(Drawn).manifest.marks}


TEXTS = [f"text {number}" for number in range(12)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[3, 1, 2]] * 12, "all answers to 12 different queries have the same 3 tools in the same order"),
        ([[3]] * 2, "all answers to 2 different queries are the same tool"),
        ([[3, 1], [], [3, 1], []], "all answers to 2 different queries have the same 2 tools in the same order"),
        ([[3, 1, 2], [1, 3, 2]] * 6, "all answers to 12 different queries have the same 3 tools, in other orders"),
        # A few queries may want the same tools, all may get the whole library, and one says nothing of others.
        ([[3, 1, 2], [1, 3, 2]], ""),
        ([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]] * 6, ""),
        ([[3, 1], [], []], ""),
        ([[3, 1]] * 11 + [[1, 3]], "all answers to 12 different queries have the same 2 tools, in other orders"),
        ([[3, 1]] * 11 + [[3]], ""),
        ([[]] * 12, ""),
    ],
)
def test_answers_that_are_all_alike_are_described(rows: Sequence[Sequence[int]], said: str) -> None:
    ranking = Ranking.of_lists(rows)
    assert describe_alike(ranking, TEXTS[: len(rows)], 5) == said
    # Queries of one text are one, in a library of one tool all answers are alike, and sets count.
    assert describe_alike(ranking, ["one"] * len(rows), 5) == ""
    assert describe_alike(ranking, TEXTS[: len(rows)], 1) == ""
    sets = ToolSets.of([[row] for row in range(len(rows))])
    assert describe_alike(ranking, TEXTS[: len(rows)], 5, sets) == ""


class Constant(Own):
    """The same for every query."""

    def answers(self, queries: Queries) -> list[list[int]]:
        return [[4, 2]] * len(queries)


class Floor(Constant):
    """Is meant to look at no query."""

    is_floor = True


def test_a_run_says_that_all_answers_are_alike(run: Run) -> None:
    (mark,) = run(Constant).manifest.marks
    assert (mark.text, mark.why) == (
        ALL_ALIKE,
        "all answers to 22 different queries have the same 2 tools in the same order: the search may ignore the query",
    )
    for kind in (Floor, "popularity", "oracle"):
        assert run(kind).manifest.marks == []
