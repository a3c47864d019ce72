"""A whole run with a model: recorded once, it replays offline to the same bytes; killed or limited, it goes on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.chatserver import ChatServer, message, status
from kit.datasets import loaded

from bench.base.errors import BenchError, UnavailableError
from bench.base.spec import Spec, parse
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.models.llm import Failure, LanguageModel, Message, Request
from bench.models.llm.replies import json_array
from bench.registry import build_method
from bench.results.store import StoredResult
from bench.search.topk import top_k


class Asked(Method):
    """Ranks tools by the numbers that a model gives them; by none where the reply does not parse."""

    def __init__(self, parameters: Any, context: Context) -> None:
        super().__init__(parameters, context)
        self._model = self.include(LanguageModel("m", progress=context.progress))
        self._unread = 0

    def index(self, library: Library) -> None:
        self._tools = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        replies = self._model.complete([Request((Message("user", text),)) for text in queries.texts])
        scores = np.zeros((len(queries), self._tools), dtype=np.float32)
        for i, reply in enumerate(replies):
            if not isinstance(reply, Failure) and (said := json_array(reply.text)):
                scores[i, : len(said)] = said
            else:
                self._unread += 1
        ranking = top_k(scores, depth)
        return Ranking(ranking.tools, ranking.scores, np.array([isinstance(reply, Failure) for reply in replies]))

    def facts(self) -> dict[str, str | int | float | bool]:
        return {"unread": self._unread, "calls": self._model.usage.calls}


def answer(body: dict[str, Any]) -> str:
    """Numbers that hang on the prompt; now and then something else."""
    digest = hashlib.sha256(body["messages"][0]["content"].encode()).digest()
    return "I would rather not." if digest[0] < 20 else f"Sure:\n{list(digest)}"


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], StoredResult]:
    """Run the method above on 40 queries of starter, into a folder of results."""

    def build(spec: Spec) -> Method:
        if spec.name != "asked":
            return build_method(spec)
        method = Asked(Asked.Parameters(), Context(build_method))
        method.name = "asked"
        return method

    def run(folder: str) -> StoredResult:
        runner = Runner(tmp_path / folder, load=lambda spec: loaded(str(spec)), build=build)
        (outcome,) = runner.run([Plan(parse("starter"), parse("asked"), limit=40)])
        if isinstance(outcome, BenchError):
            raise outcome
        return outcome

    return run


@contextmanager
def changed_environment(**variables: str | None) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            if value is None:
                patch.delenv(name)
            else:
                patch.setenv(name, value)
        yield


def test_a_recorded_run_replays_offline_to_the_same_bytes(
    chat_server: ChatServer, run: Callable[[str], StoredResult]
) -> None:
    chat_server.answer = answer
    chat_server.faults.extend([None, message(refusal="no"), status(500), None])
    with changed_environment(BENCH_LLM_CONCURRENCY="1"):
        chat_server.faults.extend([status(503)] * 6)
        recorded = run("recorded")
    assert recorded.manifest.facts["calls"] == 40
    assert float(recorded.manifest.facts["unread"]) > recorded.metrics.n_failed == 2
    chat_server.close()
    with changed_environment(BENCH_OFFLINE="1", BENCH_LLM_URL=None, BENCH_LLM_KEY=None):
        replayed = run("replayed")
    assert replayed.manifest.facts["calls"] == 0
    assert replayed.manifest.result_id == recorded.manifest.result_id
    for name in ("run.parquet", "per_query.parquet", "metrics.json"):
        assert (replayed.folder / name).read_bytes() == (recorded.folder / name).read_bytes()


def test_prompts_are_in_files_of_their_owner_and_results_in_public_ones(
    chat_server: ChatServer, run: Callable[[str], StoredResult], tmp_path: Path
) -> None:
    chat_server.answer = answer
    before = os.umask(0o022)
    try:
        folder = run("results").folder
    finally:
        os.umask(before)
    (prompt, *_) = chat_server.prompts
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    private = {path.name for path in files if prompt.encode() in path.read_bytes()}
    assert private == {"journal.jsonl"}
    modes = {path.name: path.stat().st_mode & 0o777 for path in files if path.parent == folder or path.name in private}
    assert modes.pop("journal.jsonl") == 0o600
    assert {*modes.values()} == {0o644}


def test_a_run_that_the_limit_ended_goes_on_when_it_is_raised(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, run: Callable[[str], StoredResult]
) -> None:
    chat_server.answer = answer
    monkeypatch.setenv("BENCH_LLM_PRICE", "1/1")
    monkeypatch.setenv("BENCH_LLM_LIMIT", "0.002")
    with pytest.raises(UnavailableError, match=r"of the limit of 0.002 is spent"):
        run("results")
    count = len(chat_server.requests)
    assert 0 < count < 40
    monkeypatch.setenv("BENCH_LLM_LIMIT", "1")
    assert run("results").metrics.n_failed == 0
    assert len(chat_server.requests) == 40


def test_a_result_says_what_its_ranking_costs_and_the_journal_makes_it_no_cheaper(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, run: Callable[[str], StoredResult]
) -> None:
    chat_server.answer = answer
    unpriced = run("unpriced").manifest.model_use
    assert unpriced is not None
    assert (unpriced.requests, unpriced.from_journal, unpriced.cost) == (40, 0, None)
    monkeypatch.setenv("BENCH_LLM_PRICE", "2/10")
    priced = run("priced").manifest.model_use
    assert priced is not None
    assert (priced.requests, priced.from_journal) == (40, 40)
    assert priced.input_tokens == unpriced.input_tokens > 0
    assert priced.cost == pytest.approx((2 * priced.input_tokens + 10 * priced.output_tokens) / 1e6)


def test_the_cost_of_a_run_that_was_resumed_is_not_known(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, run: Callable[[str], StoredResult]
) -> None:
    chat_server.answer = answer
    monkeypatch.setattr(Asked, "batch_size", 1)
    monkeypatch.setenv("BENCH_LLM_PRICE", "1/1")
    monkeypatch.setenv("BENCH_LLM_LIMIT", "0.002")
    with pytest.raises(UnavailableError, match="is spent"):
        run("results")
    monkeypatch.setenv("BENCH_LLM_LIMIT", "1")
    result = run("results")
    assert result.manifest.resumed
    assert result.manifest.model_use is not None
    assert result.manifest.model_use.cost is None


def test_without_an_endpoint_the_run_ends_before_it_begins(run: Callable[[str], StoredResult]) -> None:
    with pytest.raises(UnavailableError, match="cannot call m"):
        run("results")
