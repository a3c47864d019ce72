"""Why queries failed: reasons by their numbers of queries, also of results of earlier versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bench.results.failures import group_reasons, reason_of_note, reasons, sentences
from bench.results.manifest import FailureReason
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]


def test_reasons_that_differ_only_in_numbers_are_one() -> None:
    failed = [
        ("a", "the status 500 ('request 1f3a9c77 failed after 12 ms')"),
        ("b", "the status 503 ('busy')"),
        ("c", "the status 500 ('request 77e0a1b2 failed after 9 ms')"),
        ("d", "the answer to question 3 instead of 4"),
        ("e", "the answer to question 10 instead of 11"),
        ("c", "the status 500 ('request 0 failed after 1 ms')"),
        ("f", "no answer: the process ended with 1; it said 'KeyError: x'"),
        ("g", "no answer: the process ended with 1; it said 'MemoryError'"),
        ("h", "the status 500 ('another text')"),
    ]
    assert [(reason.text, reason.count, reason.query_id) for reason in group_reasons(failed)] == [
        ("the status 500 ('request 1f3a9c77 failed after 12 ms')", 2, "a"),
        ("the answer to question 3 instead of 4", 2, "d"),
        ("the status 503 ('busy')", 1, "b"),
        ("no answer: the process ended with 1; it said 'KeyError: x'", 1, "f"),
        ("no answer: the process ended with 1; it said 'MemoryError'", 1, "g"),
        ("the status 500 ('another text')", 1, "h"),
    ]
    many = group_reasons((str(number), f"reason {'x' * number}") for number in range(60))
    assert (len(many), many[-1].text, many[-1].count) == (51, "other reasons", 10)


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ('{"shown": [], "failed": "timed out"}', "timed out"),
        ('[null, {"shown": []}, {"failed": "timed out"}]', "timed out"),
        ('{"shown": []}', ""),
        ("null", ""),
        (None, ""),
        ("{", ""),
        ("[" * 100_000, ""),
    ],
)
def test_a_note_tells_why_its_query_failed(note: str | None, reason: str) -> None:
    assert reason_of_note(note) == reason


def test_results_of_earlier_versions_have_reasons_too(run: Run) -> None:
    def older(failed: int, **facts: Any) -> StoredResult:
        result = run("bm25")
        manifest = result.manifest.model_copy(update={"facts": facts, "failures": []})
        return replace(result, manifest=manifest, metrics=result.metrics.model_copy(update={"n_failed": failed}))

    assert reasons(older(0)) == []
    assert reasons(older(3)) == [FailureReason(text="an empty answer, or no reason was recorded", count=3)]
    told = older(9, **{"http.failures": "5 x the status 500 ('x'); 2 x no answer; later; 1 x y"})
    assert sentences(told, 2) == ["5 x the status 500 ('x')", "2 x no answer; later", "1 more reason"]
