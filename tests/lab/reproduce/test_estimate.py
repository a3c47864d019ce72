"""What a reproduction will take is said before it begins: results, time, calls, cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.base.spec import parse
from bench.data.tables import Tool
from bench.lab.reproduce.artefacts import resolve_references
from bench.lab.reproduce.cells import cells
from bench.lab.reproduce.claims import Claim, claims
from bench.lab.reproduce.claimtests import with_models
from bench.lab.reproduce.estimate import MOST_CALLS, estimate_runs, estimate_text
from bench.lab.reproduce.recipes import recipes_of
from bench.lab.reproduce.report import RunEstimate
from bench.lab.reproduce.reproduction import look_ahead
from bench.lab.reproduce.runs import MethodRuns, plans
from bench.methods.ptr.dialogue import Dialogue
from bench.models.llm import LanguageModel

if TYPE_CHECKING:
    from kit.chatserver import ChatServer

RunsOf = Callable[..., MethodRuns]
WRITER = "query-generation(base=bm25, llm=some-model)"


def claim(*pairs: tuple[str, str], **more: Any) -> Claim:
    tests = [{"better": a, "worse": b, "on": ["tiny"], "metrics": ["recall@1"], **more} for a, b in pairs]
    return Claim.model_validate({"id": "c", "paper": "tgr", "claim": "x", "where": "here", "tests": tests})


def estimated(runs: MethodRuns, *pairs: tuple[str, str]) -> RunEstimate:
    return estimate_runs(look_ahead([], [claim(*pairs)], runs), runs)


def test_results_that_are_kept_are_told_from_those_to_run(runs: RunsOf) -> None:
    made = claim(("most", "half"), ("most", "same"))
    first = estimated(runs("recall@1"), ("most", "half"), ("most", "same"))
    assert (first.to_run, first.kept, first.methods, first.datasets, first.untimed) == (3, 0, 3, 1, 3)
    assert estimate_text(first) == [
        "to run: 3 results (3 methods, 1 dataset); time not known, as no result of the same methods is kept"
    ]
    ours = runs("recall@1")
    ours.result(plans("most", made.tests[0])[0])
    second = estimated(runs("recall@1"), ("most", "half"))
    assert (second.to_run, second.kept, second.untimed) == (1, 1, 1)
    ours.result(plans("half", made.tests[0])[0])
    assert estimate_text(estimated(runs("recall@1"), ("most", "half"))) == ["nothing to run: 2 results kept"]


def test_nothing_that_can_run_is_told(runs: RunsOf) -> None:
    assert estimate_text(estimated(runs(), ("most", "missing"))) == ["nothing of it can run on this machine"]
    assert estimate_text(estimated(runs())) == ["nothing of it can run on this machine"]


def test_time_is_that_of_kept_results_of_the_same_method(runs: RunsOf) -> None:
    ours = runs("recall@1")
    kept = ours.result(plans("half", claim(("most", "half")).tests[0])[0])
    question = claim(("most", "half"), template="name_description")
    again = runs("recall@1")
    found = estimate_runs(look_ahead([], [question], again), again)
    assert (found.to_run, found.untimed) == (2, 1)
    assert found.seconds == pytest.approx(sum(kept.manifest.timings.values()), abs=0.06)
    assert "for 1 of them, not known for 1" in estimate_text(found)[0]


def test_calls_that_an_endpoint_would_take_are_counted_without_one(
    runs: RunsOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "none.jsonl"))
    # Forty queries with one call each, asked for by two tests; rules and a model of ours are not called.
    pairs = [(WRITER, "bm25"), (WRITER, "half"), ("query-generation(base=bm25, llm=rules)", "missing")]
    found = estimated(runs("recall@1"), *pairs)
    assert (found.calls, found.more_calls) == (0, 40)
    assert estimate_text(found)[-1] == (
        "not run, because their language models are not here: at most 40 calls (--model ROLE=MODEL)"
    )


def test_tokens_and_cost_are_those_of_kept_results(
    runs: RunsOf, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_LLM_URL", chat_server.url)
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "journal.jsonl"))
    monkeypatch.setenv("BENCH_LLM_PRICE", "10/20")
    before = estimated(runs("recall@1"), (WRITER, "half"))
    assert (before.calls, before.tokens, before.cost) == (40, None, None)
    assert "at most 40 calls, tokens not known" in estimate_text(before)[-1]
    assert not chat_server.requests
    kept = runs("recall@1").result(plans(WRITER, claim((WRITER, "half")).tests[0])[0])
    use = kept.manifest.model_use
    assert use is not None
    ours = runs("recall@1")
    after = estimate_runs(look_ahead([], [claim((WRITER, "half"), template="name_description")], ours), ours)
    assert after.tokens == use.input_tokens + use.output_tokens
    assert after.cost == pytest.approx((10 * use.input_tokens + 20 * use.output_tokens) / 1e6)
    assert "by BENCH_LLM_PRICE; BENCH_LLM_LIMIT bounds them" in estimate_text(after)[-1]


def test_every_method_that_a_recipe_lets_call_a_model_has_its_most_calls() -> None:
    filled = [recipe for cell in cells() for recipe in recipes_of(cell, {"rewriter": "x"})]
    texts = {text for recipe in filled for text in (recipe.method, recipe.rival, recipe.minus) if text is not None}
    tests = [test for item in claims() for test in with_models(item, {}).tests]
    texts |= {text for test in tests for text in (test.better, test.worse)}
    assert {parse(resolve_references(text)).name for text in texts if "llm=" in text} == set(MOST_CALLS)


def test_the_most_calls_of_a_query_are_no_fewer_than_are_made(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """PTR's dialogue over three queries, with replies that lead to the next question."""
    monkeypatch.setenv("BENCH_LLM_URL", chat_server.url)
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "journal.jsonl"))
    chat_server.answer = lambda body: '{"functionalities": ["find a film", "book a table"], "matches": {}}'
    tools = [Tool("film", "film", "Finds films."), Tool("table", "table", "Books tables.")]
    Dialogue(LanguageModel("some-model"), tools).cover(["a film", "a table", "both"], [(0,), (1,), (0, 1)])
    assert 3 < len(chat_server.requests) <= 3 * MOST_CALLS["ptr"]
