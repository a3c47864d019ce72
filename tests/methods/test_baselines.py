"""Baselines: random, random-bundle, popularity, oracle, and rank fusion by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from math import sqrt

import numpy as np
import pytest
from kit.rankings import make_library, make_queries, scores_by_code

from bench.base.parameters import ParameterSet
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.tables import Tool
from bench.interface import Context, History, Library, Method, OracleMethod, Queries, Ranking, RecommendingMethod
from bench.interface.parts import is_oracle, needs_history
from bench.metrics import evaluate, parse_metrics
from bench.registry import build_method, method_class, method_names

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]


# random -------------------------------------------------------------------------------------------------------------

TEXTS = tuple(f"request {number}" for number in range(3000))


def random_orders(*ids: str, seed: int = 0, texts: Sequence[str] = TEXTS) -> list[tuple[str, ...]]:
    method = build_method(f"random(seed={seed})")
    method.index(make_library([Tool(name, name, name) for name in ids]))
    return [tuple(ids[code] for code in row) for row in method.rank(make_queries(*texts), 100).tools]


def test_random_gives_every_order_equally_often() -> None:
    # 3000 draws of 6 orders: 500 each, standard deviation sqrt(3000 * 1/6 * 5/6) = 20.4.
    orders = Counter(random_orders("a", "b", "c"))
    assert set(orders) == set(permutations(("a", "b", "c")))
    assert max(abs(count - 500) for count in orders.values()) < 4 * sqrt(3000 * 5) / 6


def test_random_puts_every_tool_first_equally_often() -> None:
    # 3000 draws of 40 tools: 75 each, standard deviation 8.6; chi-square of 39 degrees of freedom: mean 39, sd 8.8.
    ids = tuple(f"tool-{number:02}" for number in range(40))
    firsts = Counter(order[0] for order in random_orders(*ids))
    assert sum((firsts[name] - 75) ** 2 / 75 for name in ids) < 39 + 4 * 8.8


def test_random_depends_on_the_text_and_not_on_its_place() -> None:
    plain = random_orders("a", "b", "c", "d", texts=TEXTS[:50])
    assert random_orders("a", "b", "c", "d", texts=TEXTS[:50][::-1])[::-1] == plain
    assert random_orders("a", "b", "c", "d", texts=TEXTS[7:8]) == plain[7:8]


def test_random_puts_two_tools_in_the_same_order_whatever_else_is_in_the_library() -> None:
    few = random_orders("a", "d", texts=TEXTS[:200])
    many = random_orders("a", "b", "c", "d", "e", texts=TEXTS[:200])
    assert [tuple(name for name in order if name in "ad") for order in many] == few
    assert len(set(few)) == 2


def test_another_seed_is_another_order_and_the_same_seed_the_same() -> None:
    ids = tuple("abcdef")
    one, again, other = (random_orders(*ids, seed=seed, texts=TEXTS[:100]) for seed in (1, 1, 2))
    assert one == again
    # Of 100 orders of six tools, 100 / 720 are expected to agree by chance.
    assert sum(a == b for a, b in zip(one, other, strict=True)) <= 3


# random-bundle ------------------------------------------------------------------------------------------------------


def test_random_bundle_recommends_past_bundles_as_often_as_they_were_used(make: Make, prepared: Prepared) -> None:
    past = [("one", ["a"], "train")] * 1 + [("two", ["b", "c"], "dev")] * 3 + [("none", [], "train")] * 4
    method = prepared("random-bundle", make({"a": "", "b": "", "c": ""}, past))
    assert isinstance(method, RecommendingMethod)
    sets = method.recommend(make_queries(*TEXTS))
    drawn = Counter(tuple(sets.row(i).tolist()) for i in range(len(sets)))
    # Never the empty bundle; b and c in 3 of 4 draws: 2250, standard deviation sqrt(3000 * 3/4 * 1/4) = 23.7.
    assert set(drawn) == {(0,), (1, 2)}
    assert abs(drawn[1, 2] - 2250) < 4 * 23.7
    ranking = method.rank(make_queries(*TEXTS), 1)
    assert ranking.tools[:, 0].tolist() == [sets.row(i)[0] for i in range(len(sets))]
    assert ranking.scores is None


def test_random_bundle_can_draw_every_bundle_as_often(make: Make, prepared: Prepared) -> None:
    past = [("one", ["a"], "train")] * 1 + [("two", ["c", "b"], "dev")] * 3 + [("none", [], "train")] * 4
    method = prepared("random-bundle(draw=bundles)", make({"a": "", "b": "", "c": ""}, past))
    assert isinstance(method, RecommendingMethod)
    sets = method.recommend(make_queries(*TEXTS))
    drawn = Counter(tuple(sets.row(i).tolist()) for i in range(len(sets)))
    # One of two in each of 3,000 draws: 1500, standard deviation 27.4.
    assert set(drawn) == {(0,), (1, 2)}
    assert abs(drawn[1, 2] - 1500) < 4 * 27.4


def test_random_bundle_draws_by_seed_and_text_alone(make: Make, prepared: Prepared) -> None:
    past = [(f"past {number}", [f"t{number}"], "train") for number in range(9)]
    made = make({f"t{number}": "" for number in range(9)}, past)

    def drawn(seed: int, *texts: str) -> list[int]:
        first: list[int] = (
            prepared(f"random-bundle(seed={seed})", made).rank(make_queries(*texts), 5).tools[:, 0].tolist()
        )
        return first

    texts = TEXTS[:60]
    assert drawn(0, *texts) == drawn(0, *texts[::-1])[::-1]
    assert drawn(0, *texts) == [drawn(0, text)[0] for text in texts]
    assert drawn(0, *texts) != drawn(1, *texts)


# popularity ---------------------------------------------------------------------------------------------------------


def test_popularity_counts_past_queries_and_returns_no_tool_that_was_never_used(make: Make, prepared: Prepared) -> None:
    past = [
        ("one", ["b", "d"], "train"), ("two", ["b"], "dev"), ("three", ["c"], "train"), ("four", [], "train")
    ]  # fmt: skip
    method = prepared("popularity", make(dict.fromkeys("abcde", ""), past))
    ranking = method.rank(make_queries("x", "y"), 10)
    # b twice; c and d once, by id; a is gold for the test query alone, e for none.
    assert ranking.tools.tolist() == [[1, 2, 3, -1, -1]] * 2
    assert ranking.scores is not None
    assert ranking.scores[0, :3].tolist() == [2, 1, 1]
    assert method.rank(make_queries("x"), 2).tools.tolist() == [[1, 2]]


@pytest.mark.parametrize("name", ["popularity", "random-bundle", "nearest-query", "nearest-bundle"])
def test_methods_that_learn_from_past_queries_say_so(name: str) -> None:
    assert build_method(name).needs_history


# oracle -------------------------------------------------------------------------------------------------------------


def test_the_oracle_returns_the_gold_of_each_query_and_is_marked() -> None:
    method = build_method("oracle")
    assert isinstance(method, OracleMethod)
    assert isinstance(method, RecommendingMethod)
    method.reveal(Gold.of([{3: 1}, {}, {1: 2, 0: 1, 7: 1}]))
    requests = Queries(("c", "a", "b"), np.array([2, 0, 1]))
    assert method.rank(requests, 2).tools.tolist() == [[1, 0], [3, -1], [-1, -1]]
    sets = method.recommend(requests)
    assert [sorted(sets.row(i).tolist()) for i in range(3)] == [[0, 1, 7], [3], []]


def test_the_oracle_puts_the_most_relevant_tools_first_and_equals_by_code() -> None:
    method = build_method("oracle")
    assert isinstance(method, OracleMethod)
    gold = Gold.of([{2: 1, 4: 3, 5: 1, 9: 3, 11: 2}, {0: 1, 1: 1_000_000}])
    method.reveal(gold)
    requests = Queries(("a", "b"), np.array([0, 1]))
    ranking = method.rank(requests, 10)
    assert ranking.tools.tolist() == [[4, 9, 11, 2, 5], [1, 0, -1, -1, -1]]
    # So it is the ceiling of every graded metric at every depth.
    metrics = parse_metrics(["ndcg@1", "ndcg@2", "ndcg@3", "ndcg@10", "ndcg_ptr@gold", "map@10", "recall@gold"])
    assert set(evaluate(ranking.tools, gold, metrics).means().values()) == {1.0}
    assert evaluate(method.rank(requests, 1).tools, gold, metrics[:1]).means() == {"ndcg@1": 1.0}


@pytest.mark.parametrize("name", method_names())
def test_an_oracle_is_known_by_its_class_alone(name: str) -> None:
    assert isinstance(build_method(name), OracleMethod) == (name in {"oracle", "planted", "toolrerank-oracle"})
    # A mark that a class could set or forget would be one too many.
    assert not hasattr(method_class(name), "oracle")


# rrf ----------------------------------------------------------------------------------------------------------------


class Fixed(Method):
    """Returns one list of codes to every query; -2 at its head means that it failed."""

    def __init__(self, order: Sequence[int]) -> None:
        super().__init__(ParameterSet(), Context(build_method))
        self.order = list(order)

    def index(self, library: Library) -> None:
        return None

    def rank(self, queries: Queries, depth: int) -> Ranking:
        if self.order[:1] == [-2]:
            return Ranking.of_lists([[]] * len(queries), [True] * len(queries))
        return Ranking.of_lists([self.order[:depth]] * len(queries))


class Learning(Fixed):
    """Records what it was fitted on."""

    needs_history = True

    def fit(self, history: History) -> None:
        self.seen = history.texts


def fused(*orders: Sequence[int], tools: int = 5, depth: int = 100, **parameters: object) -> Ranking:
    parts = {f"part{number}": Fixed(order) for number, order in enumerate(orders)}
    kind = method_class("rrf")
    chosen = kind.Parameters.model_validate({"methods": tuple(map(Spec, parts)), **parameters})
    method = kind(chosen, Context(lambda spec: parts[spec.name]))
    method.index(make_library([""] * tools))
    return method.rank(make_queries("x"), depth)


def test_rank_fusion_by_hand() -> None:
    # 3: 1/61 + 1/62; 1: 1/62 + 1/61, a tie that the smaller code wins; 0: 1/63; 4: 1/63; 2 is in neither list.
    ranking = fused([3, 1, 0], [1, 3, 4])
    assert ranking.tools[0].tolist() == [1, 3, 0, 4, -1]
    expected = {1: 1 / 61 + 1 / 62, 3: 1 / 61 + 1 / 62, 0: 1 / 63, 4: 1 / 63}
    assert scores_by_code(ranking) == pytest.approx(expected, rel=1e-6)


def test_the_constant_says_how_little_the_first_ranks_stand_out() -> None:
    # 1/2 + 1/5 = 0.7 for tool 0 (ranks 1 and 4) against 1/3 + 1/3 = 0.667 for tool 1 (ranks 2 and 2) ...
    lists = ([0, 1, 2, 3], [4, 1, 2, 0])
    assert fused(*lists, constant=1.0).tools[0, 0] == 0
    # ... and 1/101 + 1/104 = 0.019516 against 2/102 = 0.019608.
    assert fused(*lists, constant=100.0).tools[0, 0] == 1


def test_the_pool_is_what_each_method_contributes_whatever_the_depth() -> None:
    lists = ([0, 1, 2, 3, 4], [0, 2, 1, 3, 4])
    assert sorted(scores_by_code(fused(*lists, pool=2))) == [0, 1, 2]
    deep = fused(*lists)
    for depth in range(1, 6):
        assert fused(*lists, depth=depth).tools[0].tolist() == deep.tools[0, :depth].tolist()


def test_a_method_alone_keeps_its_order() -> None:
    assert fused([4, 0, 2]).tools[0].tolist() == [4, 0, 2, -1, -1]


def test_a_query_has_failed_when_all_methods_failed_on_it() -> None:
    one = fused([-2], [3, 1])
    assert one.tools[0].tolist() == [3, 1, -1, -1, -1]
    assert one.failed is not None
    assert one.failed.tolist() == [False]
    both = fused([-2], [-2])
    assert both.failed is not None
    assert both.failed.tolist() == [True]
    assert both.tools[0].tolist() == [-1] * 5


def test_what_an_oracle_is_fused_into_is_an_oracle() -> None:
    assert is_oracle(build_method("rrf(methods=[bm25, oracle])"))
    assert not is_oracle(build_method("rrf(methods=[bm25, random])"))


def test_fusion_learns_where_a_part_learns(make: Make, prepared: Prepared) -> None:
    part = Learning([0])
    kind = method_class("rrf")
    method = kind(kind.Parameters.model_validate({"methods": (Spec("part"),)}), Context(lambda spec: part))
    assert needs_history(method)
    prepared(method, make({"a": ""}, [("past", ["a"], "train")]))
    assert part.seen == ("past",)
    assert not needs_history(build_method("rrf(methods=[bm25, tfidf])"))
    assert needs_history(build_method("rrf(methods=[bm25, popularity])"))
