"""What a method sees of a dataset: past queries, the queries in an order that tells nothing, and the gold if it is an
oracle."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from kit import watched
from kit.watched import given

from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.tables import Query, Tables
from bench.evaluation.ask import Answers, asking_order
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import History, Method, OracleMethod, Queries, Ranking, ToolSets
from bench.metrics.ties import UnseenTies
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]
MakeRunner = Callable[..., Runner]


class Watched(watched.Watched):
    """Asked in small batches."""

    batch_size: ClassVar[int] = 4


class Shown(OracleMethod, Watched):
    """Remembers the gold it was shown too."""

    def reveal(self, gold: Gold) -> None:
        self.calls.append(("reveal", gold))


def batches() -> list[Queries]:
    """What was asked, without the single queries that are timed."""
    collected = [queries for queries in given("rank") if isinstance(queries, Queries)]
    return [queries for queries in collected if len(queries) > 1]


# Past queries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "limit", "history"),
    [
        ("test", None, "train dev"),
        ("test", 3, "train dev"),
        ("train", None, "dev"),
        ("train", 2, "dev"),
        ("dev", 1, "train"),
    ],
)
def test_history_holds_no_query_of_the_evaluated_split(
    run: Run, tiny: Dataset, split: str, limit: int | None, history: str
) -> None:
    run(Watched, split=split, limit=limit)
    (seen,) = given("fit")
    assert isinstance(seen, History)
    expected = [query.text for query in tiny.queries if query.split in history.split()]
    assert sorted(seen.texts) == sorted(expected)
    requests = {text for queries in given("rank") for text in queries.texts}  # type: ignore[attr-defined]
    assert requests <= {query.text for query in tiny.queries if query.split == split}
    assert not requests & set(seen.texts)


def test_without_history_fit_is_not_called(run: Run) -> None:
    result = run(Watched, split="all")
    assert given("fit") == []
    assert result.manifest.dataset.history == 0


def test_each_plan_has_an_instance_of_its_own(runner: MakeRunner, instance: Callable[..., Method]) -> None:
    built: list[Method] = []

    def build(spec: Spec) -> Method:
        built.append(instance(Watched))
        return built[-1]

    plans = [Plan(Spec("tiny"), Spec("watched"), depth=depth) for depth in (3, 4)]
    list(runner(build=build).run(plans))
    assert len(built) == len(set(map(id, built)))
    indexed = [method for method in built if hasattr(method, "_size")]
    assert len(indexed) == 2


# The order of asking ------------------------------------------------------------------------------------------------


def test_queries_are_asked_in_the_order_of_the_hash_of_their_id(run: Run, tiny: Dataset) -> None:
    run(Watched)
    texts = [text for queries in batches() for text in queries.texts]
    tested = [query for query in tiny.queries if query.split == "test"]
    expected = sorted(tested, key=lambda query: hashlib.sha256(query.query_id.encode()).hexdigest())
    assert texts == [query.text for query in expected]
    # Worked out once: sha256 of "q08" begins with 05c3, that of "q09" with ef73.
    assert [text.partition(":")[0] for text in texts[:4]] == ["request 8", "request 18", "request 19", "request 15"]
    assert texts[-1].startswith("request 9:")


def test_queries_are_numbered_from_0_as_they_are_asked_and_keep_their_number(run: Run) -> None:
    run(Watched, split="dev")
    requests = [int(row) for queries in batches() for row in queries.rows]
    # Five queries in batches of four: the last one comes alone, as the timed ones do.
    assert requests == [0, 1, 2, 3]
    singles = [q for q in given("rank") if isinstance(q, Queries) and len(q) == 1]
    texts = dict(zip(batches()[0].rows.tolist(), batches()[0].texts, strict=True)) | {4: singles[0].texts[0]}
    for queries in singles:
        assert queries.texts == (texts[int(queries.rows[0])],)
    assert {int(queries.rows[0]) for queries in singles} == set(range(5))


def test_a_query_s_neighbours_tell_nothing_of_its_gold(tiny: Dataset) -> None:
    # A file sorted by gold, as upstream's often are: four tools, for each a block of 100 queries.
    queries = [Query(f"q{i:03}", f"request {i}", {f"t{i // 100:02}": 1}) for i in range(400)]
    blocks = Dataset.build("tiny", tiny.card, Tables(list(tiny.tools), queries))
    rows = blocks.rows("test")

    def alike(order: np.ndarray) -> float:
        """Share of the queries whose neighbour has the same gold."""
        gold = blocks.gold.take(rows[order]).tools
        return float((gold[1:] == gold[:-1]).mean())

    assert alike(np.arange(400)) > 0.99
    order = asking_order(blocks, rows)
    assert sorted(order.tolist()) == list(range(400))
    assert alike(order) == pytest.approx(1 / 4, abs=0.06)
    # Nor does the place in the whole.
    assert abs(np.corrcoef(order, np.arange(400))[0, 1]) < 0.1


def test_the_order_of_asking_is_that_of_the_ids_whatever_the_gold_and_the_other_queries(tiny: Dataset) -> None:
    rows = tiny.rows_again()
    other = [replace(query, gold={"t11": 1}, text="another") for query in rows.queries]
    changed = Dataset.build("tiny", tiny.card, replace(rows, queries=other))
    tested = tiny.rows("test")
    assert asking_order(changed, tested).tolist() == asking_order(tiny, tested).tolist()
    # A part is asked in its order in the whole.
    whole = tested[asking_order(tiny, tested)].tolist()
    part = tested[::3]
    assert part[asking_order(tiny, part)].tolist() == [row for row in whole if row in part]


def test_answers_come_back_to_their_queries(run: Run, tiny: Dataset) -> None:
    class Echo(Watched):
        """Returns the tool whose code is the number in the text, modulo twelve."""

        def rank(self, queries: Queries, depth: int) -> Ranking:
            numbers = [int(text.split()[1].rstrip(":")) for text in queries.texts]
            return Ranking.of_lists([[number % 12] for number in numbers])

    for limit in (None, 7):
        result = run(Echo, limit=limit)
        for row in result.run.to_pylist():
            assert row["tool_id"] == f"t{int(row['query_id'][1:]) % 12:02}"
        ids = result.per_query["query_id"].to_pylist()
        assert ids == sorted(ids)
        # Tool i mod 12 is gold of every query that has gold.
        assert np.nanmin(result.values("hit@1")) == 1


def test_answers_are_taken_with_all_that_belongs_to_them() -> None:
    ranking = Ranking(
        np.array([[0, 1], [2, -1], [-1, -1]], dtype=np.int32),
        np.array([[2.0, 1.0], [3.0, -np.inf], [-np.inf, -np.inf]]),
        np.array([False, False, True]),
    )
    beyond = UnseenTies(np.array([0, 4, 1]), Gold.of([{}, {5: 2, 7: 1}, {3: 1}]))
    answers = Answers(ranking, beyond, ToolSets.of([[0], [], [4, 5]]), 2.5, True)
    taken = answers.take(np.array([2, 1, 0]))
    assert taken.ranking.tools.tolist() == [[-1, -1], [2, -1], [0, 1]]
    assert taken.ranking.scores is not None
    assert taken.ranking.scores[2].tolist() == [2.0, 1.0]
    assert taken.ranking.failed is not None
    assert taken.ranking.failed.tolist() == [True, False, False]
    assert taken.beyond.counts.tolist() == [1, 4, 0]
    assert [taken.beyond.gold.row(i).tolist() for i in range(3)] == [[3], [5, 7], []]
    assert taken.beyond.gold.grades.tolist() == [1, 2, 1]
    assert taken.sets is not None
    assert [taken.sets.row(i).tolist() for i in range(3)] == [[4, 5], [], [0]]
    assert (taken.seconds, taken.resumed) == (2.5, True)
    assert answers.take(np.array([1])).ranking.tools.tolist() == [[2, -1]]


# Oracles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [{}, {"limit": 7}, {"split": "dev"}, {"split": "all"}])
def test_an_oracle_is_shown_the_gold_of_the_queries_by_their_number(
    run: Run, tiny: Dataset, plan: dict[str, object]
) -> None:
    result = run(Shown, **plan)
    (gold,) = given("reveal")
    assert isinstance(gold, Gold)
    by_text = {query.text: query for query in tiny.queries}
    requests = [
        (int(row), text) for queries in batches() for row, text in zip(queries.rows, queries.texts, strict=True)
    ]
    assert len(gold) == len(result.per_query) >= len(requests) > 0
    for row, text in requests:
        tools = {tiny.tools[code].tool_id for code in gold.row(row)}
        assert tools == set(by_text[text].gold)
    assert result.manifest.method.oracle


def test_only_an_oracle_is_shown_the_gold(run: Run) -> None:
    class Peeks(Watched):
        """Would take the gold."""

        oracle = True

        def reveal(self, gold: Gold) -> None:
            self.calls.append(("reveal", gold))

    result = run(Peeks)
    assert given("reveal") == []
    assert not result.manifest.method.oracle
    assert result.manifest.warnings == []


def test_the_oracle_is_right_about_every_query(run: Run) -> None:
    for plan in ({}, {"limit": 5}, {"split": "all"}, {"split": "dev"}):
        means = {name: value.mean for name, value in run("oracle", **plan).metrics.metrics.items()}
        assert means["recall@5"] == means["ndcg@5"] == means["tracc"] == means.get("abstained", 1) == 1
