"""Preconditions of claims: measured, and a claim whose precondition fails is not tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.base.errors import DataError
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.tables import Tool
from bench.lab.reproduce.cells import cell_at
from bench.lab.reproduce.claims import Claim, ClaimTest, claims, read_claims
from bench.lab.reproduce.claimtests import check_precondition, is_pretrained, run_claim
from bench.lab.reproduce.parts import claim_state, precondition_text, preconditions_of
from bench.lab.reproduce.report import ClaimReport
from bench.lab.reproduce.runs import MethodRuns
from bench.methods.tgr.edges import Edges
from bench.registry import build_method, load_dataset

if TYPE_CHECKING:
    from kit.chatserver import ChatServer

RunsOf = Callable[..., MethodRuns]
#: Most is shown to be better than half, and half not than itself under another name.
HOLDS: dict[str, Any] = {"name": "a", "needs": "the first is better", "better": "most", "worse": "half"}
HOLDS |= {"on": ["tiny"], "metric": "recall@1", "split": "test"}
FAILS = {**HOLDS, "name": "b", "better": "half", "worse": "most"}
UNSHOWN = {**HOLDS, "name": "c", "better": "same", "worse": "half"}
MODEL = {"name": "m", "needs": "a model answers", "fact": "llm_replies_per_query", "at_least": 0.5}


def judged(runs: RunsOf, *tests: dict[str, Any]) -> ClaimReport:
    made = [{"better": "most", "worse": "half", "on": ["tiny"], "metrics": ["recall@1"], **test} for test in tests]
    claim = Claim.model_validate({"id": "c", "paper": "tgr", "claim": "It helps.", "where": "here", "tests": made})
    return run_claim(claim, runs("recall@1"), lambda: None)


@pytest.mark.parametrize(
    ("tests", "verdict", "state"),
    [
        ([{"precondition": HOLDS}], "holds", "holds"),
        ([{"precondition": FAILS}], "not tested", "not tested: its precondition fails"),
        ([{"precondition": UNSHOWN}], "not tested", "not tested: its precondition fails"),
        # What contradicts the claim decides nothing either where the precondition fails.
        (
            [{"better": "half", "worse": "most", "precondition": FAILS}, {}],
            "holds",
            "holds (the precondition of 1 fails)",
        ),
        ([{"worse": "missing", "precondition": HOLDS}], "not run", "not run"),
        ([{"precondition": {**HOLDS, "worse": "missing"}}], "not tested", "not tested: its precondition fails"),
    ],
)
def test_a_test_decides_nothing_where_its_precondition_does_not_hold(
    runs: RunsOf, tests: list[dict[str, Any]], verdict: str, state: str
) -> None:
    report = judged(runs, *tests)
    assert report.verdict == verdict
    assert claim_state(report) == state


def test_what_was_measured_of_a_precondition_is_told_once(runs: RunsOf) -> None:
    report = judged(runs, {"precondition": FAILS}, {"precondition": FAILS, "metrics": ["hit@1"]})
    (sentence,) = preconditions_of(report)
    # Half is right on 20 of 40, most on 36.
    assert sentence.startswith(
        "Precondition fails: the first is better; recall@1 0.500 against 0.900, difference -0.400 ["
    )
    assert sentence.endswith("], p <.001, 40 test queries.")


def test_a_precondition_that_cannot_be_measured_says_why(runs: RunsOf) -> None:
    (sentence,) = preconditions_of(judged(runs, {"precondition": {**HOLDS, "worse": "missing"}}))
    assert sentence == "Precondition not measured: the first is better; there is no encoder here."
    (sentence,) = preconditions_of(judged(runs, {"precondition": {**HOLDS, "metric": "recall@five"}}))
    assert sentence.startswith("Precondition not measured: the first is better; ")


def test_replies_of_a_language_model_are_counted(
    runs: RunsOf, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rules ask nobody; a model that answers is asked once for each of the 40 queries."""
    monkeypatch.setenv("BENCH_LLM_URL", chat_server.url)
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "journal.jsonl"))
    chat_server.answer = lambda body: "[2] > [1]"
    ours = runs("recall@1")

    def report(better: str) -> Any:
        test = {"better": better, "worse": "bm25", "on": ["tiny"], "metrics": ["recall@1"], "precondition": MODEL}
        return check_precondition(ClaimTest.model_validate(test), ours)

    asked = report("rankgpt(base=random, llm=some-model, depth=5)")
    assert (asked.holds, asked.value, asked.at_least) == (True, 1.0, 0.5)
    by_rules = report("query-generation(base=bm25, llm=rules)")
    assert (by_rules.holds, by_rules.value) == (False, 0.0)
    assert precondition_text(by_rules) == (
        "Precondition fails: a model answers; llm replies per query 0, at least 0.5 is needed."
    )


class Knowing:
    """Says of every pair what is so, as far as `right` goes."""

    right = True

    def __init__(self, name: str) -> None:
        assert name.endswith("dependency-discriminator")

    def probabilities(self, tools: Sequence[Tool], pairs: Edges) -> NDArray[np.float64]:
        # `three_way` asks for edges, the same edges turned, then drawn pairs without one.
        kind = np.full(len(pairs), 1)
        if self.right:
            edges = (len(pairs) - 500) // 2
            kind[:edges], kind[edges : 2 * edges] = 0, 2
        return np.asarray(np.eye(3)[kind], dtype=np.float64)


@pytest.mark.parametrize("right", [True, False])
def test_a_discriminator_is_tested_as_the_paper_tests_it(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch, right: bool
) -> None:
    monkeypatch.setattr("bench.methods.tgr.discriminator.Discriminator", Knowing)
    monkeypatch.setattr(Knowing, "right", right)
    (test, *_) = next(claim.tests for claim in claims() if claim.id == "tgr-d-improves-every-base")
    report = check_precondition(test, MethodRuns(tmp_path, load=load, build=build_method))
    assert report is not None
    assert report.value is not None
    assert report.holds is right
    # Neither category is ever named: only the third has an F1.
    assert report.value == pytest.approx(1.0) if right else report.value < 1 / 3


def load(spec: Spec) -> Dataset:
    return load_dataset(spec)


def test_the_least_f1_is_the_one_that_the_paper_prints() -> None:
    (wanted,) = {
        test.precondition.at_least
        for claim in claims()
        for test in claim.tests
        if test.precondition is not None and test.precondition.fact == "discriminator_f1"
    }
    assert wanted == cell_at("tgr-3", "discriminator", "TDI300K test", "f1").value


def test_what_a_generator_began_as_is_followed_to_its_first_model() -> None:
    assert not is_pretrained("domains-generator")
    assert not is_pretrained("domains-aligned")
    assert is_pretrained("toolbench-aligned")


def test_every_stand_in_of_a_claim_has_a_precondition() -> None:
    for claim in claims():
        for test in claim.tests:
            # Nothing stands in for a model that the user names.
            texts = (test.better + test.worse).replace("llm={agent}", "")
            stands_in = ("llm=", "$domains-", "$dependency-discriminator", "reranker=")
            assert (test.precondition is not None) >= any(name in texts for name in stands_in), claim.id


@pytest.mark.parametrize(
    ("number", "named", "sentence"),
    [
        ("fact = 'pretrained'\nat_least = 1", 'precondition = "absent"', "there is no precondition 'absent'"),
        ("fact = 'pretrained'", "", "either better, worse, metric and on, or fact and at_least"),
        ("", "", "either better, worse, metric and on, or fact and at_least"),
        ("fact = 'taste'\nat_least = 1", "", "llm_replies_per_query"),
    ],
)
def test_a_damaged_precondition_is_refused(tmp_path: Path, number: str, named: str, sentence: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        f'[precondition.present]\nneeds = "x"\n{number}\n'
        '[[claim]]\nid = "c"\npaper = "tgr"\nwhere = "here"\nclaim = "x"\n'
        f'[[claim.tests]]\nbetter = "a"\nworse = "b"\non = ["c"]\nmetrics = ["d"]\n{named}\n'
    )
    with pytest.raises(DataError, match=sentence):
        read_claims(path)
