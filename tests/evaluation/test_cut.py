"""Cuts learnt on hand-made histories: size, threshold, gap; what they are learnt on, and when they are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.tables import SPLITS, Tool
from bench.evaluation.cut import Cut, learn_cut
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.registry import build_method
from bench.results.settings import CutKind
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]
Answer = Sequence[tuple[int, float]]

TOOLS = tuple(Tool(f"t{code}", f"t{code}", "") for code in range(6))
LIBRARY = Library(TOOLS, tuple(tool.name for tool in TOOLS), "description", np.empty((0, 2), dtype=np.int32))


class Scripted(Method):
    """Answers each text with given (code, score) pairs, and remembers what it was fitted on."""

    def __init__(self, answers: Mapping[str, Answer], scored: bool = True) -> None:
        super().__init__(ParameterSet(), Context(build_method))
        self.name, self.answers, self.scored = "scripted", answers, scored
        self.fitted: tuple[str, ...] = ()
        self.asked: list[str] = []

    def fit(self, history: History) -> None:
        self.fitted = history.texts

    def index(self, library: Library) -> None:
        return None

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self.asked += queries.texts
        rows = [self.answers[text] for text in queries.texts]
        tools = Ranking.of_lists([[code for code, _ in row] for row in rows]).tools
        scores = np.full(tools.shape, -np.inf)
        for i, row in enumerate(rows):
            scores[i, : len(row)] = [score for _, score in row]
        return Ranking(tools, scores if self.scored else None)


def history(dev: Mapping[str, set[int]], train: Sequence[str] = ("past",)) -> History:
    """Dev queries with their gold, and train queries whose gold is tool 0."""
    gold = Gold.of([{0: 1} for _ in train] + [dict.fromkeys(tools, 1) for tools in dev.values()])
    split = [SPLITS.index("train")] * len(train) + [SPLITS.index("dev")] * len(dev)
    return History(LIBRARY, (*train, *dev), gold, np.array(split, dtype=np.int8))


def learnt(kind: CutKind, queries: Mapping[str, tuple[set[int], Answer]], scored: bool = True) -> Cut:
    method = Scripted({text: answer for text, (_, answer) in queries.items()}, scored)
    past = history({text: gold for text, (gold, _) in queries.items()})
    return learn_cut(kind, lambda: method, past, LIBRARY, 6)


def falling(*codes: int) -> Answer:
    """Codes with falling scores."""
    return [(code, -float(place)) for place, code in enumerate(codes)]


# Learning -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queries", "k"),
    [
        # Two gold tools at the top of both: k=1 gives (1 - 1/2) 1/2 = 1/4, k=2 gives 1, k=3 (1 - 1/3) = 2/3.
        ({"a": ({0, 1}, falling(0, 1, 2, 3)), "b": ({2, 3}, falling(3, 2, 0, 1))}, 2),
        # One and three: k=1 (1 + 1/9) / 2, k=2 (1/2 + 4/9) / 2, k=3 (1/3 + 1) / 2, k=4 (1/4 + 3/4) / 2.
        ({"a": ({0}, falling(0, 1, 2, 3)), "b": ({1, 2, 3}, falling(1, 2, 3, 0))}, 3),
        # Two queries of one tool and one of three outvote it: k=1 (1 + 1 + 1/9), k=3 (1/3 + 1/3 + 1).
        ({"a": ({0}, falling(0, 1, 2)), "b": ({4}, falling(4, 1, 2)), "c": ({1, 2, 3}, falling(1, 2, 3))}, 1),
        # Nothing helps: of equally bad sizes the smallest.
        ({"a": ({5}, falling(0, 1, 2))}, 1),
    ],
)
def test_the_size_with_the_best_mean_tracc_is_learnt(queries: dict[str, tuple[set[int], Answer]], k: int) -> None:
    cut = learnt("size", queries)
    assert cut == Cut("size", k)
    assert str(cut) == f"cut=size({k})"


def test_the_threshold_that_parts_gold_from_the_rest_is_learnt() -> None:
    queries = {
        "a": ({0}, [(0, 0.9), (1, 0.2)]),
        "b": ({2, 3}, [(2, 0.8), (3, 0.7), (1, 0.3)]),
    }
    # At 0.7 both sets are right. At 0.3 b has a tool too many, at 0.8 one too few.
    cut = learnt("threshold", queries)
    assert cut.value == np.float32(0.7)
    assert str(cut) == "cut=threshold(0.7)"


def test_abstaining_from_queries_without_gold_counts() -> None:
    queries: dict[str, tuple[set[int], Answer]] = {
        "a": ({0}, [(0, 0.9), (1, 0.3)]),
        "none": (set(), [(4, 0.5), (5, 0.4)]),
        "nothing": (set(), [(4, 0.6)]),
    }
    # 0.9 gives a its tool alone, and nothing to the two without gold; 0.6 would answer one of them.
    assert learnt("threshold", queries).value == np.float32(0.9)
    # Without them the lowest threshold that is as good for a, out of the scores that were seen.
    assert learnt("threshold", {"a": queries["a"]}).value == np.float32(0.9)


def test_the_gap_is_looked_for_among_the_first_places() -> None:
    queries = {
        "a": ({0, 1}, [(0, 10.0), (1, 9.0), (2, 3.0), (3, 2.9)]),
        "b": ({4}, [(4, 8.0), (0, 2.0), (1, 1.5), (2, 1.4)]),
    }
    # k=1 always cuts after the first tool: a gets 1/4. From k=2 the largest falls are after a's second, b's first.
    assert learnt("gap", queries) == Cut("gap", 2)
    # A larger fall at the third place misleads k=3: it would give b three tools.
    queries["b"] = ({4}, [(4, 8.0), (0, 7.0), (1, 6.5), (2, -9.0)])
    assert learnt("gap", queries) == Cut("gap", 2)


@st.composite
def answers(draw: st.DrawFn) -> list[tuple[set[int], Answer]]:
    collected: list[tuple[set[int], Answer]] = []
    for _ in range(draw(st.integers(1, 5))):
        codes = draw(st.permutations(range(6)))[: draw(st.integers(0, 6))]
        scores = sorted(draw(st.lists(st.integers(0, 9), min_size=len(codes), max_size=len(codes))), reverse=True)
        gold = draw(st.sets(st.integers(0, 5), max_size=4))
        collected.append((gold, [(code, float(score)) for code, score in zip(codes, scores, strict=True)]))
    return collected


def plain_quality(sets: Sequence[Sequence[int]], golds: Sequence[set[int]]) -> float:
    total = 0.0
    for chosen, gold in zip(map(set, sets), golds, strict=True):
        if gold:
            total += (1 - abs(len(chosen) - len(gold)) / len(chosen | gold)) * len(chosen & gold) / len(gold)
        else:
            total += not chosen
    return total / len(golds)


@given(answers(), st.sampled_from(["size", "threshold", "gap"]))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_no_other_value_would_have_been_better(rows: list[tuple[set[int], Answer]], kind: CutKind) -> None:
    result = learnt(kind, {f"q{i}": row for i, row in enumerate(rows)})
    # In the protocol's order: score descending, then code.
    ranked = [sorted(answer, key=lambda pair: (-pair[1], pair[0])) for _, answer in rows]

    def cut(answer: Answer, value: float) -> list[int]:
        if kind == "threshold":
            return [code for code, score in answer if score >= value]
        if kind == "size" or len(answer) < 2:
            return [code for code, _ in answer[: int(value) if kind == "size" else 1]]
        falls = [answer[i][1] - answer[i + 1][1] for i in range(min(int(value), len(answer) - 1))]
        return [code for code, _ in answer[: falls.index(max(falls)) + 1]]

    golds = [gold for gold, _ in rows]
    values = [float(v) for v in range(1, 7)] if kind != "threshold" else [s for row in ranked for _, s in row]
    qualities = [plain_quality([cut(answer, value) for answer in ranked], golds) for value in values]
    reached = plain_quality([cut(answer, result.value) for answer in ranked], golds)
    assert reached == pytest.approx(max(qualities, default=reached))


# Applying -----------------------------------------------------------------------------------------------------------

SCORED = Ranking(
    np.array([[0, 1, 2, 3], [4, 5, -1, -1], [-1, -1, -1, -1]], dtype=np.int32),
    np.array([[9, 8, 2, 1], [5, 5, -np.inf, -np.inf], [-np.inf] * 4], dtype=np.float32),
)


@pytest.mark.parametrize(
    ("cut", "sets"),
    [
        (Cut("size", 1), [[0], [4], []]),
        (Cut("size", 3), [[0, 1, 2], [4, 5], []]),
        (Cut("threshold", 8.0), [[0, 1], [], []]),
        (Cut("threshold", 5.0), [[0, 1], [4, 5], []]),
        (Cut("threshold", 10.0), [[], [], []]),
        # Falls 1, 6, 1: after the second. Two tools that tie fall by 0: after the first.
        (Cut("gap", 3), [[0, 1], [4], []]),
        (Cut("gap", 1), [[0], [4], []]),
    ],
)
def test_a_cut_makes_a_set_of_each_ranking(cut: Cut, sets: list[list[int]]) -> None:
    apply = cut.apply(SCORED)
    assert [apply.row(i).tolist() for i in range(3)] == sets


# What a cut is learnt on --------------------------------------------------------------------------------------------


def test_with_a_dev_split_the_method_is_fitted_on_train_and_the_cut_learnt_on_dev() -> None:
    method = Scripted({"d1": falling(0), "d2": falling(1)})
    learn_cut("size", lambda: method, history({"d1": {0}, "d2": {1}}, ["p1", "p2"]), LIBRARY, 6)
    assert method.fitted == ("p1", "p2")
    assert method.asked == ["d1", "d2"]


def test_without_a_dev_split_a_fifth_of_train_is_held_out_whatever_the_order() -> None:
    texts = [f"past {number}" for number in range(23)]

    def held(order: Sequence[str]) -> tuple[set[str], set[str]]:
        method = Scripted({text: falling(0) for text in texts})
        learn_cut("size", lambda: method, history({}, order), LIBRARY, 6)
        return set(method.fitted), set(method.asked)

    fitted, requests = held(texts)
    assert len(requests) == 4, "a fifth of 23, rounded down"
    assert not fitted & requests
    assert fitted | requests == set(texts)
    assert held(texts[::-1]) == (fitted, requests)


@pytest.mark.parametrize("past", [history({}, []), history({"d": {0}}, []), history({}, ["a", "b", "c", "d"])])
def test_too_little_history_is_refused(past: History) -> None:
    with pytest.raises(
        UsageError, match="--cut gap needs train or dev queries to learn from, and this dataset has too few"
    ):
        learn_cut("gap", lambda: Scripted({}), past, LIBRARY, 6)


@pytest.mark.parametrize("kind", ["threshold", "gap"])
def test_a_method_without_scores_can_only_be_cut_by_size(kind: CutKind) -> None:
    queries = {"a": ({0, 1}, falling(0, 1, 2))}
    with pytest.raises(UsageError, match=f"--cut {kind} needs scores, but scripted returns an order without scores"):
        learnt(kind, queries, scored=False)
    assert learnt("size", queries, scored=False) == Cut("size", 2)


# In a run -----------------------------------------------------------------------------------------------------------


class Seen(Method):
    """Remembers, for each instance in turn, what it was fitted on and asked. Ranks by code."""

    instances: ClassVar[list[tuple[set[str], list[str]]]] = []

    def fit(self, history: History) -> None:
        self._asked: list[str] = []
        self.instances.append((set(history.texts), self._asked))

    def index(self, library: Library) -> None:
        return None

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self._asked += queries.texts
        return Ranking.of_lists([[0, 1, 2]] * len(queries))


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """What was seen is forgotten after each test."""
    yield
    Seen.instances.clear()


def test_test_queries_play_no_part_in_learning(run: Run, tiny: Dataset) -> None:
    result = run(Seen, cut="size")
    texts = {split: {q.text for q in tiny.queries if q.split == split} for split in SPLITS}
    (for_cut, asked_for_cut), (for_run, asked_in_run) = Seen.instances
    assert (for_cut, set(asked_for_cut)) == (texts["train"], texts["dev"])
    assert for_run == texts["train"] | texts["dev"]
    assert set(asked_in_run) == texts["test"]
    assert result.manifest.method.cut in {"cut=size(1)", "cut=size(2)", "cut=size(3)"}


def test_other_test_gold_learns_the_same_cut(run: Run, tiny: Dataset) -> None:
    queries = [replace(q, gold={"t11": 1}) if q.split == "test" else q for q in tiny.queries]
    other = Dataset.build("tiny", tiny.card, replace(tiny.rows_again(), queries=queries))
    one, two = (run("bm25", cut="threshold", dataset=dataset) for dataset in (tiny, other))
    assert one.manifest.method.cut == two.manifest.method.cut
    assert one.manifest.dataset.content_hash != two.manifest.dataset.content_hash


def test_the_sets_of_a_cut_are_scored_as_recommended_ones(run: Run) -> None:
    result = run("bm25", cut="size", metrics=["tracc@2"])
    assert result.manifest.method.cut == "cut=size(2)"
    ranking: dict[str, list[str]] = {}
    for row in result.run.to_pylist():
        ranking.setdefault(row["query_id"], []).append(row["tool_id"])
    for row in result.per_query.to_pylist():
        assert row["recommended"] == ranking[row["query_id"]][:2]
        # The first two of the ranking are the set, so both ways of taking tracc agree.
        assert row["tracc"] == row["tracc@2"]


def test_a_threshold_abstains_where_no_score_reaches_it(run: Run) -> None:
    result = run("bm25", cut="threshold")
    assert {"abstained", "answered", "tracc", "set_f1"} <= set(result.metrics.metrics)
    assert result.metrics.metrics["abstained"].n == 3


# Cuts that are given --------------------------------------------------------------------------------------------------


def test_a_given_threshold_is_applied_and_named_and_needs_no_past_queries(run: Run, tiny: Dataset) -> None:
    queries = [query for query in tiny.queries if query.split == "test"]
    bare = Dataset.build("tiny", tiny.card, replace(tiny.rows_again(), queries=queries))
    result = run("bm25", cut="threshold", cut_at=1.5, dataset=bare)
    assert result.manifest.method.cut == "cut=threshold(1.5, given)"
    assert "--cut threshold --cut-at 1.5" in result.manifest.environment.command
    scores = dict.fromkeys(result.per_query["query_id"].to_pylist(), 0)
    for name, score in zip(*(result.run[column].to_pylist() for column in ("query_id", "score")), strict=True):
        scores[name] += score >= 1.5
    assert [len(names) for names in result.per_query["recommended"].to_pylist()] == list(scores.values())
    assert len(set(scores.values())) > 1


def test_a_given_cut_is_another_result(run: Run) -> None:
    ids = [run("bm25", cut="size", cut_at=at).manifest.result_id for at in (None, 2, 3)]
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    ("cut", "at", "sentence"),
    [
        ("none", 2.0, "--cut-at says where to cut; give --cut size, threshold or gap with it"),
        ("size", 0.0, "--cut size needs a whole number of 1 or more for --cut-at; it is 0"),
        ("gap", 2.5, "--cut gap needs a whole number of 1 or more for --cut-at; it is 2.5"),
    ],
)
def test_a_value_must_fit_its_cut(run: Run, cut: CutKind, at: float, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        run("bm25", cut=cut, cut_at=at)


def test_scores_are_needed_for_a_given_threshold() -> None:
    with pytest.raises(UsageError, match="--cut threshold needs scores, but the ranking has none"):
        Cut("threshold", 0.5, given=True).apply(Ranking.of_lists([[1, 2]]))
