"""The weighted sum of two methods by hand, and how its weight is learnt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from kit.rankings import make_queries, scores_by_code

from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.registry import build_method, method_class
from bench.search.topk import top_k

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]


class Given(Method):
    """Answers with the scores that a query's text has; None fails, and no table of scores is an order."""

    def __init__(self, answers: Mapping[str, Mapping[int, float] | None], *, scored: bool = True) -> None:
        super().__init__(ParameterSet(), Context(build_method))
        self.answers = answers
        self.scored = scored

    def index(self, library: Library) -> None:
        self.tools = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        scores = np.full((len(queries), self.tools), -np.inf)
        failed = np.zeros(len(queries), dtype=np.bool_)
        for row, text in enumerate(queries.texts):
            answer = self.answers.get(text, {})
            failed[row] = answer is None
            for code, score in (answer or {}).items():
                scores[row, code] = score
        ranking = top_k(scores, depth)
        return Ranking(ranking.tools, ranking.scores if self.scored else None, failed)


def hybrid(first: Method, second: Method, **parameters: object) -> Method:
    parts = {"first": first, "second": second}
    kind = method_class("hybrid")
    chosen = kind.Parameters.model_validate({"methods": tuple(map(Spec, parts)), **parameters})
    return kind(chosen, Context(lambda spec: parts[spec.name]))


def scores(method: Method, text: str = "asked", depth: int = 100) -> dict[int, float]:
    return scores_by_code(method.rank(make_queries(text), depth))


TOOLS = {name: f"text of {name}" for name in "abcde"}


def test_by_hand(make: Make, prepared: Prepared) -> None:
    first, second = Given({"asked": {0: 10.0, 1: 6.0, 2: 2.0}}), Given({"asked": {1: 0.9, 3: 0.5, 0: 0.4}})
    # First: 0 -> 1, 1 -> 0.5, 2 -> 0. Second: 1 -> 1, 3 -> 0.2, 0 -> 0. Tool 4 is in neither.
    result = scores(prepared(hybrid(first, second, weight=0.6), make(TOOLS)))
    assert result == pytest.approx({0: 0.6, 1: 0.6 * 0.5 + 0.4, 2: 0.0, 3: 0.4 * 0.2}, abs=1e-6)
    assert list(result) == [1, 0, 3, 2]


def test_an_order_counts_by_places_and_equal_scores_are_all_best(make: Make, prepared: Prepared) -> None:
    order, level = Given({"asked": {0: 9.0, 1: 8.0, 2: 0.0}}, scored=False), Given({"asked": {1: 7.0, 3: 7.0}})
    result = scores(prepared(hybrid(order, level, weight=0.5), make(TOOLS)))
    assert result == pytest.approx({0: 0.5, 1: 0.75, 2: 0.0, 3: 0.5}, abs=1e-6)


def test_the_pool_is_what_each_method_contributes_whatever_the_depth(make: Make, prepared: Prepared) -> None:
    both = Given({"asked": {0: 4.0, 1: 3.0, 2: 2.0, 3: 0.0}})
    method = prepared(hybrid(both, both, pool=3), make(TOOLS))
    assert scores(method) == pytest.approx({0: 1.0, 1: 0.5, 2: 0.0}, abs=1e-6)
    assert scores(method, depth=1) == pytest.approx({0: 1.0})


def test_a_query_fails_if_both_methods_fail(make: Make, prepared: Prepared) -> None:
    fails, answers = Given({"asked": None, "other": None}), Given({"asked": {2: 1.0}, "other": None})
    ranking = prepared(hybrid(fails, answers), make(TOOLS)).rank(Queries(("asked", "other"), np.arange(2)), 3)
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [False, True]
    assert ranking.tools[0, 0] == 2


@pytest.mark.parametrize("right", ["first", "second"])
@pytest.mark.parametrize("split", ["dev", "train"])
def test_the_weight_goes_to_the_method_that_finds_the_gold(
    make: Make, prepared: Prepared, right: str, split: str
) -> None:
    texts = [f"past {number}" for number in range(60)]
    good = Given({text: {number % 5: 5.0, (number + 1) % 5: 4.0} for number, text in enumerate(texts)})
    bad = Given({text: {(number + 2) % 5: 5.0, (number + 3) % 5: 4.0} for number, text in enumerate(texts)})
    past = [(text, ["abcde"[number % 5]], split) for number, text in enumerate(texts)]
    method = prepared(hybrid(good, bad) if right == "first" else hybrid(bad, good), make(TOOLS, past))
    facts = method.facts()
    # The nearest to 0.5 at which the right tool is first; at 0.5 the two tools tie and the code decides.
    assert facts["weight_used"] == pytest.approx(0.55 if right == "first" else 0.45)
    learnt = facts["weight_learnt_on"]
    assert learnt == 60 if split == "dev" else isinstance(learnt, int) and 3 <= learnt <= 25


def test_without_past_queries_or_learning_the_weight_is_the_given_one(make: Make, prepared: Prepared) -> None:
    good, bad = Given({"past": {0: 2.0, 1: 1.0}}), Given({"past": {3: 2.0, 2: 1.0}})
    past = [("past", ["a"], "dev")]
    for method in (
        prepared(hybrid(good, bad, weight=0.3), make(TOOLS)),
        prepared(hybrid(good, bad, weight=0.3, learn=False), make(TOOLS, past)),
    ):
        assert method.facts() == {"weight_used": 0.3, "weight_learnt_on": 0}
    assert prepared(hybrid(good, bad, weight=0.3), make(TOOLS, past)).facts()["weight_used"] == pytest.approx(0.5)


def test_methods_that_learn_are_fitted_without_the_queries_that_the_weight_is_learnt_on(
    make: Make, prepared: Prepared
) -> None:
    fitted: list[Sequence[str]] = []

    class Remembers(Given):
        needs_history = True

        def fit(self, history: History) -> None:
            fitted.append(history.texts)

    parts = {"first": lambda: Remembers({}), "second": lambda: Given({})}
    kind = method_class("hybrid")
    chosen = kind.Parameters.model_validate({"methods": tuple(map(Spec, parts))})
    method = kind(chosen, Context(lambda spec: parts[spec.name]()))
    prepared(method, make(TOOLS, [("one", ["a"], "train"), ("two", ["b"], "dev"), ("three", ["c"], "train")]))
    assert [sorted(texts) for texts in fitted] == [["one", "three", "two"], ["one", "three"]]


def test_two_methods_are_needed() -> None:
    with pytest.raises(UsageError, match="needs two methods"):
        build_method("hybrid(methods=[bm25])")


def test_the_weight_is_learnt_on_requirements_that_any_of_their_tools_meets(make: Make, prepared: Prepared) -> None:
    # The second method finds the alternatives alone, and each of them for the one requirement that it meets.
    texts = [f"past {number}" for number in range(20)]
    first = Given({text: {2: 5.0, 3: 4.0} for text in texts})
    second = Given({text: {1: 5.0, 4: 4.0} for text in texts})
    plain = make(TOOLS, [(text, ["a"], "dev") for text in texts])
    queries = [replace(query, any_of={"a": ("b",)}) if query.split == "dev" else query for query in plain.queries]
    grouped = Dataset.build("made", plain.card, replace(plain.rows_again(), queries=queries))
    assert prepared(hybrid(first, second), plain).facts()["weight_used"] == 0.5
    assert prepared(hybrid(first, second, weight=1.0), plain).facts()["weight_used"] == 1.0
    # Above one half the first method's wrong tool is before the alternative.
    assert prepared(hybrid(first, second, weight=1.0), grouped).facts()["weight_used"] == pytest.approx(0.5)
