"""Depths learnt on past queries, on scores that are made so that the right depths are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.methods.adaptive_depth import _falls
from bench.registry import build_method, method_class

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]

TOOLS = {f"t{i:03}": f"text {i}" for i in range(200)}
#: The first tool far ahead, and all nearly alike.
CLEAR, FLAT = [10.0, *np.linspace(3, 1, 29)], list(np.linspace(10, 9, 30))


class Given(Method):
    """Ranks all queries alike, with scores that fall as the query's first word says."""

    #: Texts of the past queries that an instance was fitted on.
    fitted: tuple[str, ...] | None = None

    def __init__(self, *, scored: bool = True, scale: float = 1.0) -> None:
        super().__init__(ParameterSet(), Context(build_method))
        self.scored, self.scale = scored, scale

    def index(self, library: Library) -> None:
        pass

    def rank(self, queries: Queries, depth: int) -> Ranking:
        given = [CLEAR if text.startswith("clear") else FLAT for text in queries.texts]
        lists = Ranking.of_lists([list(range(30))[:depth]] * len(queries))
        scores = self.scale * np.array(given)[:, :depth] if self.scored else None
        return Ranking(lists.tools, scores)


class Learning(Given):
    """The same, and it learns from past queries."""

    def fit(self, history: History) -> None:
        self.fitted = history.texts


def adaptive(*bases: Method, **parameters: object) -> Method:
    """The method on the first base; what it builds later is the next."""
    kind, rest = method_class("adaptive-depth"), iter(bases)
    chosen = kind.Parameters.model_validate({"base": Spec("given"), **parameters})
    method = kind(chosen, Context(lambda spec: next(rest)))
    method.name = "adaptive-depth"
    return method


def past(split: str = "dev") -> Iterator[tuple[str, Sequence[str], str]]:
    """Of clear queries the first tool is gold in nine of ten; of the others it is one of the first twenty."""
    for i in range(60):
        yield f"clear {i}", ["t000" if i % 10 else "t150"], split
        yield f"flat {i}", [f"t{i * 7 % 20:03}"], split


def depths(method: Method, *texts: str, depth: int = 100) -> list[int]:
    ranking = method.rank(Queries(texts, np.arange(len(texts))), depth)
    counts: list[int] = (ranking.tools >= 0).sum(axis=1).tolist()
    return counts


def test_queries_with_a_clear_first_tool_are_shown_one_and_others_many(make: Make, prepared: Prepared) -> None:
    method = prepared(adaptive(Given()), make(TOOLS, list(past())))
    assert depths(method, "clear one", "flat one") == [1, 20]
    # By hand: of the flat queries a twentieth has its gold first, and all have it within 20. With 200 tools that is
    # 0.05 * log2(200) = 0.38 bits against log2(10) = 3.3.
    assert method.facts()["mean_depth"] == 10.5
    assert method.facts()["depth_learnt_on"] == 120
    # The tools are the first of the base, whatever depth is asked for and whoever else asks.
    assert method.rank(Queries(("flat one",), np.arange(1)), 7).tools.tolist() == [list(range(7))]
    assert depths(method, "flat one", depth=100) == [20]


def test_no_query_gets_more_than_the_most(make: Make, prepared: Prepared) -> None:
    method = prepared(adaptive(Given(), most=7), make(TOOLS, list(past())))
    assert depths(method, "clear one", "flat one") == [1, 5]


def test_the_scale_of_the_scores_plays_no_part(make: Make, prepared: Prepared) -> None:
    method = prepared(adaptive(Given(scale=1e-6)), make(TOOLS, list(past())))
    assert depths(method, "clear one", "flat one") == [1, 20]


def test_a_base_that_learns_is_fitted_on_other_queries_than_those_that_teach(make: Make, prepared: Prepared) -> None:
    kept, apart = Learning(), Learning()
    data = make(TOOLS, [*past(), ("a train query", ["t003"], "train")])
    prepared(adaptive(kept, apart), data)
    assert kept.fitted is not None
    assert len(kept.fitted) == 121
    assert apart.fitted == ("a train query",)


def test_without_dev_queries_a_fifth_of_the_train_queries_teaches(make: Make, prepared: Prepared) -> None:
    kept, apart = Learning(), Learning()
    method = prepared(adaptive(kept, apart), make(TOOLS, list(past("train"))))
    assert apart.fitted is not None
    learnt_on = method.facts()["depth_learnt_on"]
    assert len(apart.fitted) + int(learnt_on) == 120
    assert 10 <= int(learnt_on) <= 40


def test_too_little_to_learn_from_is_said_before_anything_is_run(make: Make, prepared: Prepared) -> None:
    for queries in ([], [("one", ["t001"], "train")]):
        with pytest.raises(UsageError, match="too few past queries for that"):
            prepared(adaptive(Given()), make(TOOLS, queries))
    with pytest.raises(UsageError, match="too few past queries for that"):
        prepared(adaptive(Learning()), make(TOOLS, list(past())))


def test_a_base_without_scores_is_refused(make: Make, prepared: Prepared) -> None:
    with pytest.raises(UsageError, match="returns an order without scores"):
        prepared(adaptive(Given(scored=False)), make(TOOLS, list(past())))


def test_falls_are_shares_of_the_largest_score() -> None:
    ranking = Ranking(
        np.array([[4, 5, 6], [4, -1, -1], [-1, -1, -1]], np.int32), np.array([[8, 6, -2], [5, 0, 0], [0, 0, 0]])
    )
    # Of the first: to the second 2 / 8, to the third 10 / 8; what was not returned is as far as the largest score.
    assert _falls(ranking).tolist() == [[0.25, 1.25, 1, 1, 1], [1] * 5, [1] * 5]
    assert _falls(Ranking(np.array([[1, 2]], np.int32), np.array([[-2.0, -4.0]])))[0, 0] == 0.5
    assert _falls(Ranking(np.array([[1, 2]], np.int32), np.zeros((1, 2))))[0, 0] == 0.0
