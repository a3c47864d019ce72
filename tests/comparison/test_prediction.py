"""What predicts a choice, on choices made from arrays: what they were shown, what was right, and by which method."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kit.results import folder_of
from numpy.typing import NDArray

from bench.comparison.prediction import Prediction, Predictor, predictions
from bench.results.store import StoredResult

CUTOFFS = (1, 3, 5, 10)
Ranks = NDArray[np.int64]
Picks = Callable[[Ranks, int], NDArray[np.bool_]]


class Board:
    """Results of methods, each with the rank of the only gold tool of each query, and choices of a picker."""

    def __init__(self, folder: Path, units: Sequence[int]) -> None:
        self.like = StoredResult.read(folder)
        self.units = [f"{unit:04d}" for unit in units]
        self.ids = [f"q{i:04d}" for i in range(len(units))]
        self.sources: list[StoredResult] = []
        self.choices: list[StoredResult] = []

    def _stored(self, spec: str, columns: dict[str, Any], queries: slice = slice(None)) -> StoredResult:
        method = self.like.manifest.method.model_copy(update={"spec": spec, "full_spec": spec, "alias": None})
        result = StoredResult(
            self.like.folder, self.like.manifest.model_copy(update={"method": method}), self.like.metrics
        )
        n = len(self.ids)
        table = {"query_id": self.ids, "unit": self.units, "n_gold": [1] * n, "failed": [False] * n, **columns}
        # A cached property looks there first.
        vars(result)["per_query"] = pa.table(table)[queries]
        return result

    def method(self, name: str, ranks: Ranks) -> None:
        hits = {k: (ranks <= k).astype(np.float64) for k in CUTOFFS}
        gain = 1 / np.log2(1 + ranks)
        columns = {f"{one}@{k}": hits[k] for one in ("recall", "hit", "pass") for k in CUTOFFS}
        columns |= {f"precision@{k}": hits[k] / k for k in CUTOFFS}
        columns |= {f"ndcg@{k}": hits[k] * gain for k in CUTOFFS}
        columns |= {"map@10": hits[10] / ranks, "mrr@10": hits[10] / ranks}
        self.sources.append(self._stored(name, columns))

    def choice(
        self, name: str, ranks: Ranks, k: int, right: NDArray[np.bool_], queries: slice = slice(None), llm: str = "m"
    ) -> None:
        spec = f"choose(base={name}(), context=100000, form=calls, llm={llm}, order=shuffled, seed=0, shown={k})"
        columns = {
            "recommended": [["t"]] * len(ranks),
            "recall@100": (ranks <= k).astype(np.float64),
            "set_recall": right.astype(np.float64),
            "set_precision": right.astype(np.float64),
        }
        result = self._stored(spec, columns, queries)
        note = json.dumps({"shown": ["t"] * k, "input_tokens": 100 * k, "cached_tokens": 50, "output_tokens": 7})
        ids = result.per_query["query_id"]
        notes = {"repeat": [1] * len(ids), "query_id": ids, "note": [note] * len(ids)}
        vars(result)["notes"] = pa.table(notes)
        self.choices.append(result)

    def predict(self) -> Prediction:
        (prediction,) = predictions(self.choices, self.sources)
        json.dumps(asdict(prediction), allow_nan=False)
        return prediction


@pytest.fixture
def board(starter_results: Path) -> Callable[..., Board]:
    """A board of three methods, where a choice is right as `picks` has it by the gold's rank and the tools shown."""
    folder = folder_of(starter_results, "bm25")

    def make(picks: Picks, n: int = 90, units: int = 45, seed: int = 0) -> Board:
        made = Board(folder, [i % units for i in range(n)])
        random = np.random.default_rng(seed)
        for name, odds in {"good": 0.45, "fair": 0.25, "poor": 0.08}.items():
            ranks = np.minimum(random.geometric(odds, n), 40)
            made.method(name, ranks)
            for k in CUTOFFS:
                made.choice(name, ranks, k, picks(ranks, k) & (ranks <= k))
        return made

    return make


def all_shown(ranks: Ranks, k: int) -> NDArray[np.bool_]:
    return ranks <= k


def of(prediction: Prediction, metric: str) -> Predictor:
    (found,) = (item for item in prediction.predictors if item.metric == metric)
    return found


def test_a_picker_that_never_errs_is_predicted_by_recall(board: Callable[..., Board]) -> None:
    prediction = board(all_shown).predict()
    recall = of(prediction, "recall@k")
    for estimate in (recall.across_systems, recall.across_queries):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1.0, 1.0, 1.0))
    assert recall.skill.low is not None
    assert recall.skill.low > 0.95
    # Given that gold was shown nothing is left to predict.
    assert recall.systems_given_shown.value is recall.queries_given_shown.value is None
    assert prediction.given_shown.value == 1.0
    assert (prediction.queries, prediction.units, prediction.decided) == (90, 45, True)
    # Of one gold tool, a hit and full recall are the same: no difference, in any draw.
    assert (of(prediction, "hit@k").less_recall.value, of(prediction, "hit@k").p) == (0.0, 1.0)
    precision = of(prediction, "precision@k")
    assert precision.p is not None
    assert precision.p < 0.05
    assert precision.less_recall.high is not None
    assert precision.less_recall.high < 0
    assert "precision@k" in prediction.verdict
    assert "worse with accuracy across systems than recall@k (12 points, 90 queries, 45 groups" in prediction.verdict


def test_a_picker_that_many_tools_confuse(board: Callable[..., Board]) -> None:
    """It finds the gold among k tools with chance 1/k: precision goes with accuracy, and recall does not."""
    random = np.random.default_rng(9)
    prediction = board(lambda ranks, k: random.random(len(ranks)) < 1 / k, n=240, units=120).predict()
    recall, precision = of(prediction, "recall@k"), of(prediction, "precision@k")
    assert precision.across_systems.value is not None
    assert precision.across_systems.value > 0.7 > (recall.across_systems.value or 0)
    assert precision.p is not None
    assert precision.p < 0.05
    told = prediction.verdict.partition(" go better")[0]
    assert "precision@k" in told
    # Three or more names are a list with one "and", before the last.
    assert (told.count(", ") > 0, told.count(" and ")) == (True, 1)
    k = of(prediction, "k")
    assert k.across_queries.value is None
    assert k.systems_given_shown.high is not None
    assert k.systems_given_shown.high < -0.5
    assert "k -" in prediction.conditional
    assert {item.base: item.best for item in prediction.best_shown}["good"] == 1


def test_luck_goes_with_no_metric(board: Callable[..., Board]) -> None:
    """Of choices with all gold shown half are right, whatever else is shown."""
    random = np.random.default_rng(4)
    prediction = board(lambda ranks, k: (ranks <= k) & (random.random(len(ranks)) < 0.5), n=90, units=45).predict()
    assert prediction.conditional.endswith("across systems, none of precision@k, ndcg@k, k is shown to go with that.")


def test_what_goes_the_other_way_is_worse_however_strongly(board: Callable[..., Board]) -> None:
    """A picker that errs with fewer than ten tools: precision falls where it succeeds."""
    prediction = board(lambda ranks, k: np.full(len(ranks), k >= 10)).predict()
    recall, precision = of(prediction, "recall@k"), of(prediction, "precision@k")
    assert recall.across_systems.value is not None
    assert precision.across_systems.value is not None
    assert precision.across_systems.value < 0 < recall.across_systems.value
    assert precision.less_recall.value == pytest.approx(precision.across_systems.value - recall.across_systems.value)
    assert precision.p is not None
    assert precision.p < 0.05
    # The number of tools has no direction that is the good one.
    k = of(prediction, "k")
    assert k.less_recall.value == pytest.approx(abs(k.across_systems.value or 0) - recall.across_systems.value)


def test_points_are_as_by_hand(board: Callable[..., Board]) -> None:
    made = board(lambda ranks, k: ranks % 2 == 1)
    prediction = made.predict()
    assert [(point.base, point.shown) for point in prediction.points] == [
        (name, k) for name in ("fair", "good", "poor") for k in CUTOFFS
    ]
    ranks = np.array([round(1 / value) if value else 99 for value in made.sources[1].values("mrr@10")])
    point = prediction.points[2]
    shown, right = (ranks <= 5).sum(), ((ranks <= 5) & (ranks % 2 == 1)).sum()
    assert (point.accuracy.value, point.all_shown) == pytest.approx((right / 90, shown / 90))
    assert point.given_shown.value == pytest.approx(right / shown)
    assert (point.tokens_in, point.tokens_cached, point.tokens_out) == (500, 50, 7)
    assert point.per_1000_tokens == pytest.approx(right / 90 / 0.5)
    tools = made.like.manifest.dataset.tools
    # One gold tool among all: five drawn ones hold it with the chance 5 / N.
    assert point.metrics["bits_over_random@k"] == pytest.approx(np.log2(shown / 90 / (5 / tools)))
    assert point.metrics["precision@k"] == pytest.approx(shown / 90 / 5)


def test_the_fewest_tools_that_are_not_worse(board: Callable[..., Board]) -> None:
    """Gold in the first place only: no number of tools is better than one, and the smallest of equals is the best."""
    prediction = board(lambda ranks, k: ranks == 1).predict()
    assert {(item.best, item.smallest, item.per_token) for item in prediction.best_shown} == {(1, 1, 1)}
    assert "good with 1" in prediction.advice
    # Right up to the third place, and in a few queries wherever it is shown: more than three tools may be a little
    # better, which few queries do not show.
    made = board(lambda ranks, k: (ranks <= 3) | (np.arange(len(ranks)) % 40 == 0), n=200, units=200, seed=4)
    (good,) = (item for item in made.predict().best_shown if item.base == "good")
    assert (good.best, good.smallest, good.per_token) == (5, 3, 1)
    assert "good with 5" in made.predict().advice
    assert "3 not shown to be worse" in made.predict().advice


def test_the_order_of_results_does_not_matter(board: Callable[..., Board]) -> None:
    made = board(lambda ranks, k: ranks % 3 > 0)
    first = made.predict()
    made.choices.reverse()
    made.sources.reverse()
    assert made.predict() == first


def test_few_groups_decide_nothing(board: Callable[..., Board]) -> None:
    prediction = board(lambda ranks, k: ranks % 2 == 1, units=10).predict()
    assert not prediction.decided
    assert prediction.verdict.startswith("Too few groups of queries tell no metric from recall@k")
    recall = of(prediction, "recall@k")
    assert recall.across_systems.value is not None
    assert all(
        (item.across_systems.low, item.skill.high, item.less_recall.low, item.p) == (None, None, None, None)
        for item in prediction.predictors
    )
    assert {item.smallest for item in prediction.best_shown} == {None}


def test_what_is_no_point_is_told_or_passed_over(board: Callable[..., Board]) -> None:
    made = board(all_shown)
    whole = made.predict()
    ranks = np.full(90, 7)
    # Gold that was planted is no ranking of a method; a result that is no choice is none.
    made.choice("planted", ranks, 5, ranks <= 5)
    made.choices.append(made.sources[0])
    assert made.predict() == whole
    made.choice("unknown", ranks, 5, ranks <= 5)
    made.method("other", ranks)
    made.choice("other", np.full(90, 2), 5, ranks > 0)
    made.choice("other", ranks, 4, ranks <= 4)
    made.choice("other", ranks, 5, ranks <= 5, slice(0, 12))
    prediction = made.predict()
    assert prediction.points == whole.points
    told = "\n".join(prediction.left_out)
    assert "the result that it chose from is not stored" in told
    assert "it was shown other tools than the stored ranking has" in told
    assert "recall@4 of the result that it chose from is not stored" in told
    assert "other, 5 shown: on other queries" in told


def test_points_are_taken_on_the_queries_of_all(board: Callable[..., Board]) -> None:
    made = board(all_shown)
    ranks = np.full(90, 2)
    made.method("later", ranks)
    made.choice("later", ranks, 3, ranks <= 3, slice(0, 88))
    prediction = made.predict()
    assert (prediction.queries, len(prediction.points), prediction.left_out) == (88, 13, ())


def test_two_points_predict_nothing_and_pickers_are_kept_apart(board: Callable[..., Board]) -> None:
    made = board(all_shown)
    ranks = np.array([round(1 / value) if value else 40 for value in made.sources[0].values("mrr@10")])
    made.choice("good", ranks, 1, ranks <= 1, llm="another")
    made.choice("good", ranks, 3, ranks <= 3, llm="another")
    assert [item.picker for item in predictions(made.choices, made.sources)] == ["m, calls, shuffled"]
    made.choice("good", ranks, 5, ranks <= 5, llm="another")
    assert [item.picker for item in predictions(made.choices, made.sources)] == [
        "m, calls, shuffled",
        "another, calls, shuffled",
    ]
