"""Estimates and comparisons count units, and too few of them decide no claim."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from bench.lab.reproduce.measuring import compare_methods, decide, estimates
from bench.lab.reproduce.recipes import RecipeQuestion
from bench.lab.reproduce.runs import MethodRuns, MethodValues

QUESTION = RecipeQuestion(on=("here",))


class Known:
    """Answers made by hand: each of so many requests in three wordings, answered alike."""

    def __init__(self, requests: int, dependent: bool = True) -> None:
        self.count = 3 * requests
        self.units = np.arange(self.count) // 3 if dependent else np.arange(self.count)

    def ask(self, method: str, question: RecipeQuestion, metrics: Any) -> MethodValues:
        right = {"all": 1.0, "some": 0.3}[method] * self.count
        values = (np.arange(self.count) < right).astype(np.float64)[:, None]
        groups = np.zeros(self.count, dtype=np.int64)
        return MethodValues((), values, groups, self.units, (np.ones(self.count, dtype=np.bool_),), 0)


def runs(requests: int, dependent: bool = True) -> MethodRuns:
    return cast(MethodRuns, Known(requests, dependent))


def test_wordings_of_one_request_are_no_further_evidence() -> None:
    _, _, (grouped,) = compare_methods("all", "some", QUESTION, ["recall@1"], runs(10))
    _, _, (alone,) = compare_methods("all", "some", QUESTION, ["recall@1"], runs(10, dependent=False))
    assert (grouped.n, grouped.units, alone.units) == (30, 10, 30)
    # Seven requests differ, in 21 wordings.
    assert 2 / 2**7 < grouped.p < 0.05
    assert alone.p < 1e-4


def test_intervals_of_estimates_are_as_wide_as_the_units_say() -> None:
    widths = []
    for dependent in (True, False):
        _, (result,) = estimates("some", QUESTION, ["recall@1"], runs(40, dependent))
        assert result.low is not None
        assert result.high is not None
        widths.append(result.high - result.low)
    assert widths[0] > 1.5 * widths[1]


def test_equal_answers_leave_room_for_what_the_sample_lacks() -> None:
    # Of 60 requests, all right: the exact interval of Clopper and Pearson begins at 0.05 and 0.025 to the power 1/60.
    _, (result,) = estimates("all", QUESTION, ["recall@1"], runs(60))
    assert (result.low_90, result.high_90) == (pytest.approx(0.05 ** (1 / 60), abs=0.003), 1.0)
    assert (result.low, result.high) == (pytest.approx(0.025 ** (1 / 60), abs=0.003), 1.0)


@pytest.mark.parametrize(("requests", "outcome"), [(29, "undecided"), (30, "as published")])
def test_too_few_units_decide_no_claim(requests: int, outcome: str) -> None:
    _, _, (result,) = compare_methods("all", "some", QUESTION, ["recall@1"], runs(requests))
    assert result.p < 0.001
    assert decide(result, 0.1, result.p).outcome == outcome
