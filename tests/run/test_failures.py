"""What goes wrong in a run: queries that fail are counted, methods that fail are named, and before the first step all
plans are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from bench.data.dataset import Dataset
from bench.errors import BenchError, DataError, MethodError, UsageError
from bench.protocol import History, Library, Method, Queries, Ranking, ToolSets
from bench.run.plan import Plan
from bench.run.result import Result
from bench.run.runner import Runner
from bench.search.topk import top_k
from bench.spec import Spec

Run = Callable[..., Result]
MakeRunner = Callable[..., Runner]


class Watched(Method):
    """Remembers everything that any instance was given. Ranks by code."""

    needs_history = False
    calls: ClassVar[list[tuple[str, object]]] = []

    def fit(self, history: History) -> None:
        self.calls.append(("fit", history))

    def index(self, library: Library) -> None:
        self._size = len(library)
        self.calls.append(("index", library))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self.calls.append(("rank", queries))
        return top_k(np.tile(-np.arange(self._size, dtype=np.float64), (len(queries), 1)), depth)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    Watched.calls.clear()
    yield
    Watched.calls.clear()


def given(what: str) -> list[object]:
    return [value for name, value in Watched.calls if name == what]


# Failures -----------------------------------------------------------------------------------------------------------


class Silent(Watched):
    """Marks the first query of each batch as failed and returns nothing for the second."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        tools = np.tile(np.arange(3, dtype=np.int32), (len(queries), 1))
        failed = np.arange(len(queries)) == 0
        tools[1:2] = -1
        return Ranking(tools, failed=failed)


def test_queries_that_failed_or_got_no_answer_are_counted_and_score_zero(run: Run, tiny: Dataset) -> None:
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


class Faulty(Watched):
    """Raises where `step` says."""

    step: ClassVar[str] = ""

    def _perhaps(self, step: str) -> None:
        if self.step == step:
            raise RuntimeError("the model has gone")

    def fit(self, history: History) -> None:
        self._perhaps("fit")

    def index(self, library: Library) -> None:
        super().index(library)
        self._perhaps("index")

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self._perhaps("rank" if len(queries) > 1 else "single")
        return super().rank(queries, depth)

    def preflight(self, library: Library, history: History) -> None:
        self._perhaps("preflight")

    def facts(self) -> dict[str, str | int | float | bool]:
        self._perhaps("facts")
        return {}


@pytest.mark.parametrize("step", ["fit", "index", "rank", "single", "preflight", "facts"])
def test_a_method_that_raises_is_named_with_its_error(run: Run, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(Faulty, "step", step)
    with pytest.raises(MethodError) as caught:
        run(Faulty)
    assert "method faulty" in str(caught.value)
    assert "RuntimeError: the model has gone" in str(caught.value)


def test_a_method_that_raises_while_a_cut_is_learnt_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faulty, "step", "rank")
    with pytest.raises(MethodError, match=r"method faulty .*the model has gone"):
        run(Faulty, cut="size")


class Wrong(Watched):
    """Returns what `answer` says for the last query of each batch."""

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
        ([4, 7, 4], 2.0, "method wrong returned a tool twice for query q21, tool t04; the protocol does not allow it"),
        ([0, 99, 1], 2.0, "method wrong returned the unknown tool code 99 for query q21; the protocol"),
        ([0, 5, 1], np.nan, "method wrong returned the score nan for query q21, tool t05; the protocol"),
        ([0, 5, 1], np.inf, "method wrong returned the score inf for query q21, tool t05; the protocol"),
        ([0, -1, 1], 2.0, "method wrong put padding before a tool for query q21; the protocol"),
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
    """Recommends a tool twice."""

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([[3, 3]] * len(queries))


def test_a_set_that_holds_a_tool_twice_is_refused(run: Run) -> None:
    with pytest.raises(MethodError, match=r"method recommends recommended a tool twice for query q00, tool t03;"):
        run(Recommends)


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
            "method popularity learns from past queries, and tiny has none when all queries of --split all are asked.",
        ),
        (
            Plan(Spec("tiny"), Spec("oracle"), cut="size"),
            UsageError,
            "method oracle recommends its own sets; --cut is for methods that only rank.",
        ),
        (
            Plan(Spec("tiny"), Spec("bm25"), split="all", cut="size"),
            UsageError,
            "--cut size is learnt on train and dev queries, and this dataset has too few; use --cut none.",
        ),
        (Plan(Spec("tiny"), Spec("bm52")), UsageError, "there is no method 'bm52' (did you mean 'bm25'?)"),
    ],
)
def test_a_plan_that_cannot_work_stops_all_of_them_before_anything_runs(
    runner: MakeRunner, tmp_path: Path, second: Plan, error: type[BenchError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        list(runner(Watched, Refuses).run([Plan(Spec("tiny"), Spec("watched")), second]))
    assert str(caught.value).startswith(sentence)
    assert Watched.calls == []
    assert not (tmp_path / "results").exists()


def test_a_split_without_queries_is_refused(runner: MakeRunner, tiny: Dataset) -> None:
    rows = tiny.rows_again()
    tested = Dataset.build("tiny", tiny.card, replace(rows, queries=[q for q in rows.queries if q.split == "test"]))
    with pytest.raises(UsageError, match=r"tiny has no dev queries; choose another --split\."):
        list(runner(Watched, load=lambda spec: tested).run([Plan(Spec("tiny"), Spec("watched"), split="dev")]))
    assert Watched.calls == []
    with pytest.raises(UsageError, match=r"method popularity learns from past queries, and tiny has none\."):
        list(runner(load=lambda spec: tested).run([Plan(Spec("tiny"), Spec("popularity"))]))


def test_a_results_folder_that_cannot_be_made_is_told(runner: MakeRunner, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(BenchError, match="a part of the path is a file") as caught:
        list(runner().run([Plan(Spec("tiny"), Spec("bm25"))]))
    assert caught.value.exit_code == 7
