"""The conformance kit: when two answers count as the same, what a manifest may store, small datasets, oracles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from kit.datasets import make_dataset

from bench.base.parameters import ParameterSet
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.tables import Query, Tool
from bench.interface import Context, Library, Method, OracleMethod, Queries, Ranking
from bench.registry import build_method
from bench.validation.method import check_method


def dataset(test: int = 3) -> Dataset:
    """Thirty tools, two past queries, and a few test queries, each with a gold tool of its own (of the first 30)."""
    tools = [Tool(f"t{number:02}", f"tool {number}", f"Does thing {number}.") for number in range(30)]
    queries = [Query(f"p{number}", f"past {number}", {f"t{number:02}": 1}, "train") for number in range(2)]
    requests = [Query(f"q{number:02}", f"do thing {number}", {f"t{number % 30:02}": 1}) for number in range(test)]
    return make_dataset(tools, queries + requests)


def problems(build: Callable[[], Method], data: Dataset | None = None) -> dict[str, str]:
    """What the kit finds wrong, by the first word of the check's name."""
    checks = check_method(build, data or dataset())
    return {check.name.split(":")[0]: check.problem for check in checks if check.problem}


# Answers that count as the same -------------------------------------------------------------------------------------

Answer = Mapping[int, float] | Sequence[int]


class TwoFaced(Method):
    """Gives one answer to a batch and another to a query that is asked alone; tools without scores are an order."""

    def __init__(self, together: Answer, alone: Answer) -> None:
        super().__init__(ParameterSet(), Context(build_method))
        self.together, self.alone = together, alone

    def index(self, library: Library) -> None:
        self.size = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        answer = self.alone if len(queries) == 1 else self.together
        # The kit's own libraries are smaller than the dataset's.
        tools = [tool for tool in answer if tool < self.size][:depth]
        ranking = Ranking.of_lists([tools] * len(queries))
        if not isinstance(answer, Mapping):
            return ranking
        scores = np.array([[answer[tool] for tool in tools]] * len(queries)).reshape(len(queries), len(tools))
        return Ranking(ranking.tools, scores)


@pytest.mark.parametrize(
    ("together", "alone"),
    [
        ({0: 3.0, 1: 2.0}, {0: 3.0, 1: 2.0}),
        ([2, 0, 1], [2, 0, 1]),
        ({}, {}),
        # Two that nearly tie change places ...
        ({0: 3.0, 1: 1.00001, 2: 1.0, 3: 0.5}, {0: 3.0, 2: 1.00001, 1: 1.0, 3: 0.5}),
        # ... or one takes the other's place at the end, where the ranking was cut.
        ({0: 3.0, 1: 1.00001}, {0: 3.0, 2: 1.0}),
        # A cycle of three.
        ({0: 1.00002, 1: 1.00001, 2: 1.0}, {2: 1.00002, 0: 1.00001, 1: 1.0}),
    ],
)
def test_answers_that_differ_in_nearly_equal_scores_alone_agree(together: Answer, alone: Answer) -> None:
    assert problems(lambda: TwoFaced(together, alone)) == {}


@pytest.mark.parametrize(
    ("together", "alone", "rank"),
    [
        # The same scores at the same ranks, given to other tools.
        ({0: 3.0, 1: 2.0, 2: 1.0}, {1: 3.0, 0: 2.0, 2: 1.0}, 1),
        ({0: 3.0, 1: 2.0, 2: 1.0}, {0: 3.0, 2: 2.0, 1: 1.0}, 2),
        # Nearly level in one answer, far apart in the other.
        ({0: 3.0, 1: 2.00001, 2: 2.0}, {0: 3.0, 2: 2.5, 1: 2.0}, 2),
        # Another tool at the end, whose score is not near.
        ({0: 3.0, 1: 2.0}, {0: 3.0, 2: 1.0}, 2),
        # Another tool at the top, although its score is near.
        ({0: 3.00001, 1: 2.0}, {2: 3.0, 1: 2.0}, 1),
        # Fewer tools.
        ({0: 3.0, 1: 2.0}, {0: 3.0}, 2),
        ({0: 3.0}, {}, 1),
        # Without scores nothing is near.
        ([0, 1, 2], [0, 2, 1], 2),
        ([0, 1], [0, 1, 2], 3),
        ({0: 1.00001, 1: 1.0}, [1, 0], 1),
    ],
)
def test_answers_that_differ_otherwise_do_not_agree(together: Answer, alone: Answer, rank: int) -> None:
    sentence = f"one by one they differ: the rankings of 'do thing 0' part at rank {rank}"
    assert problems(lambda: TwoFaced(together, alone)) == {"batches": sentence}
    assert problems(lambda: TwoFaced(alone, together)) == {"batches": sentence}


# What may be stored in a manifest ------------------------------------------------------------------------------------


class Plain(Method):
    """Ranks every tool alike, and says of itself what it is told to."""

    def __init__(self, facts: Any = None, revisions: Any = None) -> None:
        super().__init__(ParameterSet(), Context(build_method))
        self.told = ({} if facts is None else facts, {} if revisions is None else revisions)

    def facts(self) -> Any:
        return self.told[0]

    def revisions(self) -> Any:
        return self.told[1]

    def index(self, library: Library) -> None:
        self.size = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.of_lists([range(min(depth, self.size))] * len(queries))


def test_facts_of_texts_numbers_and_truth_values_pass() -> None:
    assert problems(lambda: Plain({"a": "x", "b": 1, "c": 0.5, "d": True}, {"model": "0123"})) == {}


@pytest.mark.parametrize(
    "facts",
    [
        ["a"],
        {1: "x"},
        {"a": None},
        {"a": [1]},
        {"a": np.float32(1)},
        {"a": np.int64(1)},
        # JSON has no such numbers.
        {"a": math.nan},
        {"a": -math.inf},
    ],
    ids=repr,
)
def test_facts_that_no_manifest_can_hold_are_told(facts: Any) -> None:
    def build() -> Method:
        method = Plain(facts)
        method.name = "plain"
        return method

    assert problems(build).keys() == {"facts"}
    assert problems(build)["facts"].startswith("method plain: facts() must ")


@pytest.mark.parametrize("revisions", [["a"], {1: "x"}, {"a": 1}, {"a": None}], ids=repr)
def test_revisions_that_no_manifest_can_hold_are_told(revisions: Any) -> None:
    def build() -> Method:
        method = Plain(revisions=revisions)
        method.name = "plain"
        return method

    assert problems(build) == {"facts": "method plain: revisions() must return a dict of strings."}


# A method that ends the process -------------------------------------------------------------------------------------


def test_a_method_that_exits_fails_its_checks_and_does_not_end_the_kit() -> None:
    class Exits(Plain):
        """Ends the process when it is asked."""

        def rank(self, queries: Queries, depth: int) -> Ranking:
            raise SystemExit(0)

    result = problems(Exits)
    assert all(told.startswith("it raised SystemExit: 0") for told in result.values())
    assert "(test_method_agreement.py:" in result["valid"]
    assert {"valid", "order", "tiny library", "inputs"} <= result.keys()
    assert "documented" not in result


# Oracles and small datasets -----------------------------------------------------------------------------------------


def test_an_oracle_is_shown_the_gold_of_the_queries_that_it_is_asked() -> None:
    shown: list[Gold] = []

    class Watching(OracleMethod):
        """Keeps what it was shown, and answers with it."""

        def __init__(self) -> None:
            super().__init__(ParameterSet(), Context(build_method))

        def reveal(self, gold: Gold) -> None:
            shown.append(gold)
            self.gold = gold

        def index(self, library: Library) -> None:
            return None

        def rank(self, queries: Queries, depth: int) -> Ranking:
            rows = [row for row in queries.rows.tolist() if row < len(self.gold)]
            collected = [self.gold.row(row).tolist()[:depth] for row in rows]
            return Ranking.of_lists(collected + [[]] * (len(queries) - len(rows)))

    data = dataset(test=40)
    assert problems(Watching, data) == {}
    # Of forty test queries the kit asks 24, spread over all of them; past queries are never among them.
    (whole,) = {tuple(gold.tools.tolist()) for gold in shown if len(gold) > 2}
    assert len(whole) == 24
    assert (whole[0], whole[-1]) == (0, 39 % 30)


@pytest.mark.parametrize("test", [1, 2, 6, 7, 8])
@pytest.mark.parametrize("method", ["oracle", "bm25", "popularity"])
def test_a_dataset_may_have_few_test_queries(method: str, test: int) -> None:
    assert problems(lambda: build_method(method), dataset(test)) == {}
