"""Every claim and every recipe of two systems: where both answer alike, the comparison decides nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from kit.tiny import tiny

from bench.base.errors import BenchError
from bench.base.spec import format_value
from bench.data.dataset import Dataset
from bench.lab.reproduce.artefacts import artefact
from bench.lab.reproduce.cells import cells
from bench.lab.reproduce.claims import claims
from bench.lab.reproduce.claimtests import run_claim, with_models
from bench.lab.reproduce.measuring import compare_methods
from bench.lab.reproduce.outcomes import SAME
from bench.lab.reproduce.recipes import RecipeQuestion, recipes_of
from bench.lab.reproduce.reproduction import metrics_of
from bench.lab.reproduce.runs import MethodRuns
from bench.registry import build_method
from bench.results.store import StoredResult

__all__ = ["tiny"]  # with train queries and edges, which that of this folder has not

QUESTION = RecipeQuestion(on=("tiny",))
#: Kind of an artefact -> the untrained model that stands in for it.
KINDS = {"retriever": "encoder", "reranker": "reranker", "classifier": "classifier"}


@pytest.fixture
def runs(tmp_path: Path, tiny: Dataset) -> MethodRuns:
    """Runs of methods on a tiny dataset."""
    return MethodRuns(tmp_path, load=lambda spec: tiny, build=build_method, metrics=metrics_of([], claims()))


def small(text: str, models: dict[str, str]) -> str:
    """A spec with untrained models, rules for a language model, and edges of the data for a discriminator's."""
    text = re.sub(r"llm=[^,)]+", "llm=rules", text)
    text = re.sub(r"graph=discriminator, discriminator=\$[\w-]+", "graph=manual", text)
    text = re.sub(r"encoder=[^$,)]+", lambda _: f"encoder={format_value(models['encoder'])}", text)
    return re.sub(r"\$([\w-]+)", lambda name: format_value(models[KINDS[artefact(name[1]).kind]]), text)


def answers(result: StoredResult) -> list[object]:
    """The first ten tools of each query, and its recommended set."""
    ranked = defaultdict(list)
    for row in result.run.to_pylist():
        if row["rank"] <= 10:
            ranked[row["query_id"]].append(row["tool_id"])
    return [dict(ranked), result.per_query["recommended"].to_pylist()]


def test_no_claim_is_judged_by_two_systems_that_answer_alike(runs: MethodRuns, tiny_models: dict[str, str]) -> None:
    walked = 0
    for claim in claims():
        tests = []
        for test in with_models(claim, {}).tests:
            better, worse = small(test.better, tiny_models), small(test.worse, tiny_models)
            # The stand-in is one for two different models: what it says is no matter of the claim.
            if better != worse:
                update = {"better": better, "worse": worse, "precondition": None, **QUESTION.model_dump()}
                tests.append(test.model_copy(update=update))
        report = run_claim(claim.model_copy(update={"tests": tuple(tests)}), runs, lambda: None)
        for test, made in zip(tests, report.tests, strict=True):
            if made.lacking is not None:
                assert not made.lacking.failed or "llm=rules" in test.better + test.worse, made.lacking
                continue
            walked += 1
            first, second = (runs.ask(name, QUESTION, ["recall@5"]).results[0] for name in (test.better, test.worse))
            alike = answers(first) == answers(second)
            assert {comparison.outcome == SAME for comparison in made.comparisons} == {alike}, (test.better, test.worse)
        outcomes = {comparison.outcome for made in report.tests for comparison in made.comparisons}
        if SAME in outcomes:
            assert report.verdict == ("does not hold" if outcomes & {"opposite", "no difference"} else SAME)
    assert walked > 50


def test_no_cell_is_judged_by_two_systems_that_answer_alike(runs: MethodRuns, tiny_models: dict[str, str]) -> None:
    pairs = {
        (small(recipe.method, tiny_models), small(other, tiny_models)): None
        for cell in cells()
        for role in ({}, {"agent": "m", "rewriter": "m", "recommender-strong": "m"})
        for recipe in recipes_of(cell, role)
        if recipe.runnable and (other := recipe.rival or recipe.minus) is not None and other != recipe.method
    }
    walked = 0
    for method, other in pairs:
        try:
            first, second, (comparison,) = compare_methods(method, other, QUESTION, ["recall@5"], runs)
        except BenchError:
            continue
        walked += 1
        assert (comparison.outcome == SAME) == (answers(first.results[0]) == answers(second.results[0])), (
            method,
            other,
        )
    assert walked > 30
