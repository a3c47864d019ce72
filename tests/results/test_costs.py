"""Searching against giving a model all tools, in tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.spec import Spec
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.registry import build_method, load_dataset
from bench.results.costs import BreakEven, break_even
from bench.results.store import StoredResult


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StoredResult:
    """A result of bm25 on twenty queries."""
    runner = Runner(tmp_path_factory.mktemp("r"), load_dataset, build_method)
    (outcome,) = runner.run([Plan(Spec.of("starter"), Spec.of("bm25"), limit=20)])
    assert isinstance(outcome, StoredResult)
    return outcome


@given(st.integers(1, 10**7), st.integers(1, 10**5))
def test_it_is_the_first_search_with_which_searching_takes_more(all_tools: int, search: int) -> None:
    searches = BreakEven(all_tools, search, None, 100, None).searches
    assert searches * search > all_tools >= (searches - 1) * search


def test_a_result_says_it_in_a_sentence(result: StoredResult) -> None:
    assert (outcome := break_even(result.manifest, result.metrics)) is not None
    tokens, recall = result.metrics.tokens, result.metrics.metrics["recall@5"].mean
    assert (outcome.all_tools, outcome.search, outcome.recall) == (
        tokens["definitions"],
        tokens["definitions_top_5"],
        recall,
    )
    assert f"recall@5 {recall:.3f}" in outcome.sentence
    assert "a search adds" in outcome.sentence
    assert "answer" not in outcome.sentence


def test_the_answer_of_a_search_counts(result: StoredResult) -> None:
    tokens = {"definitions": 10_000.0, "definitions_top_5": 400.0, "answer": 600.0}
    outcome = break_even(result.manifest, result.metrics.model_copy(update={"tokens": tokens}))
    assert outcome is not None
    assert (outcome.search, outcome.searches) == (1000, 11)
    assert "10,000 tokens, a search adds 1,000 (an answer of up to 100 tools, and the top 5)" in outcome.sentence


@pytest.mark.parametrize(
    "tokens",
    [{}, {"library": 10.0, "top_5": 5.0, "top_10": 6.0}, {"definitions": 10.0, "definitions_top_5": 0.0}],
)
def test_a_result_without_these_counts_says_nothing(result: StoredResult, tokens: dict[str, float]) -> None:
    assert break_even(result.manifest, result.metrics.model_copy(update={"tokens": tokens})) is None
