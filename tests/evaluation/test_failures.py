"""What goes wrong in a run: queries that fail are counted, methods that fail are named, and before the first step all
plans are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from kit.watched import Watched

from bench.base.errors import BenchError, DataError, MethodError, UsageError
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import History, Library, OracleMethod, Queries, Ranking, ToolSets
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]
MakeRunner = Callable[..., Runner]


# Failures -----------------------------------------------------------------------------------------------------------


class Silent(Watched):
    """Marks request 0 as failed and returns nothing for request 1."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        tools = np.tile(np.arange(3, dtype=np.int32), (len(queries), 1))
        failed = np.array([text.startswith("request 0:") for text in queries.texts])
        tools[[text.startswith("request 1:") for text in queries.texts]] = -1
        return Ranking(tools, failed=failed)


def test_queries_that_failed_or_got_no_answer_are_counted_and_score_zero(run: Run) -> None:
    result = run(Silent)
    assert result.metrics.n_failed == 2
    assert result.metrics.n == 19
    failed = dict(zip(result.per_query["query_id"].to_pylist(), result.per_query["failed"].to_pylist(), strict=True))
    assert [query for query, silent in failed.items() if silent] == ["q00", "q01"]
    # q00 has t00 and t03 as gold; t00 was returned, but the query failed.
    values = result.values("recall@5")
    assert values[0] == values[1] == 0
    # The mean runs over all 19 judged queries.
    assert result.metrics.metrics["recall@5"].mean == pytest.approx(np.nansum(values) / 19)
    assert result.metrics.metrics["recall@5"].n == 19
    # It says of neither why.
    said = [("no reason was recorded", 1, "q00"), ("an empty answer", 1, "q01")]
    assert [(reason.text, reason.count, reason.query_id) for reason in result.manifest.failures] == said


class Faulty(Watched):
    """Raises `error` where `step` says."""

    step: ClassVar[str] = ""
    error: ClassVar[BaseException] = RuntimeError("the model has gone")

    def _perhaps(self, step: str) -> None:
        if self.step == step:
            raise self.error

    def fit(self, history: History) -> None:
        self._perhaps("fit")

    def index(self, library: Library) -> None:
        super().index(library)
        self._perhaps("index")

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self._perhaps("rank" if len(queries) > 1 else "single")
        return super().rank(queries, depth)

    def recommend(self, queries: Queries) -> ToolSets:
        self._perhaps("recommend" if len(queries) > 1 else "recommend one")
        return ToolSets.of([[0]] * len(queries))

    def preflight(self, library: Library, history: History) -> None:
        self._perhaps("preflight")

    def revisions(self) -> dict[str, str]:
        self._perhaps("revisions")
        return {}

    def facts(self) -> dict[str, str | int | float | bool]:
        self._perhaps("facts")
        return {}


STEPS = {
    "preflight": "checking that it can run",
    "revisions": "checking that it can run",
    "fit": "learning from past queries",
    "index": "indexing the library",
    "rank": "ranking the batch of 22 queries from q08",
    "recommend": "ranking the batch of 22 queries from q08",
    "single": "ranking single queries",
    "recommend one": "ranking single queries",
    "facts": "ranking single queries",
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("error", "named"),
    [
        (RuntimeError("the model has gone"), "RuntimeError: the model has gone"),
        # `sys.exit()` in a method must not end the run as if all were well.
        (SystemExit(0), "SystemExit: 0"),
    ],
)
def test_a_method_that_raises_is_named_with_its_error(
    run: Run, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException, named: str
) -> None:
    monkeypatch.setattr(Faulty, "step", step)
    monkeypatch.setattr(Faulty, "error", error)
    with pytest.raises(MethodError) as caught:
        run(Faulty)
    told = f"method faulty failed while {STEPS[step]}: {named}"
    # With the line that raised: that of the function below which every step goes through.
    line = next(
        i for i, text in enumerate(Path(__file__).read_text("utf-8").split("\n"), 1) if "raise self.error" in text
    )
    assert str(caught.value) == f"{told} (test_failures.py:{line})."


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("too large"), DataError("there is no index.")])
@pytest.mark.parametrize("step", ["preflight", "fit", "index", "rank", "recommend", "facts"])
def test_interrupts_lack_of_memory_and_sentences_of_ours_stay_what_they_are(
    run: Run, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    monkeypatch.setattr(Faulty, "step", step)
    monkeypatch.setattr(Faulty, "error", error)
    with pytest.raises(type(error)) as caught:
        run(Faulty)
    assert caught.value is error


class Shows(OracleMethod):
    """Fails when it is shown the gold."""

    def reveal(self, gold: Gold) -> None:
        raise LookupError("too bright")

    def index(self, library: Library) -> None:
        return None

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.empty(len(queries))


def test_an_oracle_that_raises_is_named_with_its_error(run: Run) -> None:
    with pytest.raises(
        MethodError,
        match=r"^method shows failed while learning .*: LookupError: too bright \(test_failures\.py:\d+\)\.$",
    ):
        run(Shows)


@pytest.mark.parametrize("error", [RuntimeError("the model has gone"), SystemExit("the model has gone")])
def test_a_method_that_raises_while_a_cut_is_learnt_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    class Ranks(Watched):
        def rank(self, queries: Queries, depth: int) -> Ranking:
            raise error

    with pytest.raises(MethodError) as caught:
        run(Ranks, cut="size")
    name = type(error).__name__
    told = f"method ranks failed while ranking past queries to learn a cut: {name}: the model has gone"
    assert str(caught.value).startswith(f"{told} (test_failures.py:")


class Wrong(Watched):
    """Returns what `answer` says for the last query of each batch; in a batch of all test queries that is q09."""

    answer: ClassVar[list[int]] = []
    score: ClassVar[float] = 1.0

    def rank(self, queries: Queries, depth: int) -> Ranking:
        tools = np.tile(np.arange(3, dtype=np.int32), (len(queries), 1))
        scores = np.tile(np.array([3.0, 2.0, 1.0]), (len(queries), 1))
        tools[-1] = self.answer
        scores[-1, 1] = self.score
        return Ranking(tools, scores)


@pytest.mark.parametrize(
    ("answer", "score", "sentence"),
    [
        ([4, 7, 4], 2.0, "method wrong returned a tool twice for query q09, tool t04; the protocol does not allow it"),
        ([0, 99, 1], 2.0, "method wrong returned the unknown tool code 99 for query q09; the protocol"),
        ([0, 5, 1], np.nan, "method wrong returned the score nan for query q09, tool t05; the protocol"),
        ([0, 5, 1], np.inf, "method wrong returned the score inf for query q09, tool t05; the protocol"),
        ([0, -1, 1], 2.0, "method wrong put padding before a tool for query q09; the protocol"),
    ],
)
@pytest.mark.parametrize("cut", ["none", "size"])
def test_what_the_protocol_does_not_allow_is_told_with_method_query_and_tool(
    run: Run, monkeypatch: pytest.MonkeyPatch, answer: list[int], score: float, sentence: str, cut: str
) -> None:
    monkeypatch.setattr(Wrong, "answer", answer)
    monkeypatch.setattr(Wrong, "score", score)
    with pytest.raises(MethodError) as caught:
        run(Wrong, cut=cut)
    # A cut is learnt on past queries, so the query that is named is another.
    assert str(caught.value).startswith(sentence if cut == "none" else sentence.partition(" for query")[0])


class Recommends(Watched):
    """Recommends a tool twice, to q08 first of all."""

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([[3, 3]] * len(queries))


def test_a_set_that_holds_a_tool_twice_is_refused(run: Run) -> None:
    with pytest.raises(MethodError, match=r"method recommends recommended a tool twice for query q08, tool t03;"):
        run(Recommends)


class Tells(Watched):
    """Says of itself what `told` holds."""

    told: ClassVar[Any] = {}

    def facts(self) -> dict[str, str | int | float | bool]:
        result: dict[str, str | int | float | bool] = self.told
        return result


class Pins(Watched):
    """Names the revisions in `told`."""

    told: ClassVar[Any] = {}

    def revisions(self) -> dict[str, str]:
        result: dict[str, str] = self.told
        return result


@pytest.mark.parametrize(
    "told",
    [
        *(None, [("edges", 3)], "edges", {"edges": None}, {"edges": [3]}, {3: "edges"}, {"edges": {"all": 3}}),
        *({"edges": np.int64(3)}, {"share": np.array([0.5])}),
        # JSON has no such numbers, and half a character cannot be written.
        *({"share": float("nan")}, {"share": float("inf")}, {"name": "\ud800"}),
    ],
)
def test_facts_that_cannot_stand_in_a_manifest_are_the_method_s_error(
    run: Run, monkeypatch: pytest.MonkeyPatch, told: object
) -> None:
    monkeypatch.setattr(Tells, "told", told)
    with pytest.raises(MethodError, match=r"^method tells: facts\(\) must return a dict of strings, numbers or"):
        run(Tells)


def test_facts_stand_in_the_manifest_as_they_are(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"edges": 3, "share": 0.25, "graph": "männlich 🙂", "cached": True, "half": np.float64(0.5)}
    monkeypatch.setattr(Tells, "told", told)
    assert StoredResult.read(run(Tells).folder).manifest.facts == told


@pytest.mark.parametrize("told", [None, ["a"], {"model": None}, {"model": 3}, {1: "a"}])
def test_revisions_that_cannot_stand_in_a_manifest_are_told_before_anything_runs(
    run: Run, monkeypatch: pytest.MonkeyPatch, told: object
) -> None:
    monkeypatch.setattr(Pins, "told", told)
    with pytest.raises(MethodError, match=r"^method pins: revisions\(\) must return a dict of strings\."):
        run(Pins)
    assert Watched.calls == []


# Checks before the first step ---------------------------------------------------------------------------------------


class Refuses(Watched):
    """Refuses in its preflight."""

    def preflight(self, library: Library, history: History) -> None:
        raise DataError("there is no index for this library.")


@pytest.mark.parametrize(
    ("second", "error", "sentence"),
    [
        (Plan(Spec("tiny"), Spec("refuses")), DataError, "there is no index for this library."),
        (
            Plan(Spec("tiny"), Spec("popularity"), split="all"),
            UsageError,
            "method popularity needs past queries, and tiny has none when all queries of --split all are asked.",
        ),
        (
            Plan(Spec("tiny"), Spec("oracle"), cut="size"),
            UsageError,
            "method oracle recommends its own sets; --cut is for methods that only rank.",
        ),
        (
            Plan(Spec("tiny"), Spec("bm25"), split="all", cut="size"),
            UsageError,
            "--cut size needs train or dev queries to learn from, and this dataset has too few; use --cut none.",
        ),
        (Plan(Spec("tiny"), Spec("bm52")), UsageError, "there is no method 'bm52' (did you mean 'bm25'?)"),
        (
            Plan(Spec("tiny"), Spec("bm25"), depth=6),
            UsageError,
            "ndcg@7 needs a deeper ranking: give --depth 7 or more.",
        ),
    ],
)
def test_a_plan_that_cannot_work_stops_all_of_them_before_anything_runs(
    runner: MakeRunner, tmp_path: Path, second: Plan, error: type[BenchError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        list(runner(Watched, Refuses, metrics=["ndcg@7"]).run([Plan(Spec("tiny"), Spec("watched")), second]))
    assert str(caught.value).startswith(sentence)
    assert Watched.calls == []
    assert not (tmp_path / "results").exists()


def test_a_split_without_queries_is_refused(runner: MakeRunner, tiny: Dataset) -> None:
    rows = tiny.rows_again()
    tested = Dataset.build("tiny", tiny.card, replace(rows, queries=[q for q in rows.queries if q.split == "test"]))
    with pytest.raises(UsageError, match=r"tiny has no dev queries; choose another --split\."):
        list(runner(Watched, load=lambda spec: tested).run([Plan(Spec("tiny"), Spec("watched"), split="dev")]))
    assert Watched.calls == []
    with pytest.raises(UsageError, match=r"method popularity needs past queries, and tiny has none\."):
        list(runner(load=lambda spec: tested).run([Plan(Spec("tiny"), Spec("popularity"))]))


def test_a_results_folder_that_cannot_be_made_is_told(runner: MakeRunner, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(BenchError, match="a part of the path is a file") as caught:
        list(runner().run([Plan(Spec("tiny"), Spec("bm25"))]))
    assert caught.value.exit_code == 7
