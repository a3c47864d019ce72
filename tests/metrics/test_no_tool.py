"""Queries that no tool answers: what is returned for them, and whether scores tell them apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from bench.data.gold import Gold
from bench.interface.ranking import Ranking, ToolSets
from bench.metrics import Scores, evaluate, parse_metrics
from bench.results.intervals import means_and_intervals

checked = settings(deadline=None, derandomize=True, max_examples=80)
SCORES = st.sampled_from([-np.inf, 0.0, 0.5, 1.0, 1.5, 2.0])


def values(
    scores: list[float], has_gold: list[bool], right: list[bool], failed: list[bool] | None = None
) -> NDArray[np.float64]:
    """(queries, [auroc, aurc@1]): queries whose first tool is 0, which is gold where `right`."""
    gold = Gold.of(({0 if good else 1: 1} if row else {}) for row, good in zip(has_gold, right, strict=True))
    rankings = [[] if score == -np.inf else [0] for score in scores]
    return evaluate(
        Ranking.of_lists(rankings).tools,
        gold,
        parse_metrics(["auroc", "aurc@1"]),
        unanswered=None if failed is None else np.array(failed),
        confidence=np.array(scores),
    ).values


def test_by_hand() -> None:
    # Gold at 3, 2 and 1, none at 2 and 0: 3 beats both, 2 ties and beats, 1 beats one: (2 + 1.5 + 1) / 6.
    result = values([3.0, 2.0, 1.0, 2.0, 0.0], [True, True, True, False, False], [True, False, True, True, True])
    assert result[:, 0].mean() == pytest.approx(4.5 / 6)
    # Answered at 3: right. At 2: three answers, two wrong. At 1: four, two wrong. At 0: five, three wrong.
    risks = [Fraction(0), Fraction(2, 3), Fraction(2, 3), Fraction(1, 2), Fraction(3, 5)]
    assert result[:, 1].mean() == pytest.approx(float(sum(risks) / 5))


@checked
@given(st.lists(st.tuples(SCORES, st.booleans(), st.booleans()), min_size=2, max_size=25))
def test_the_means_are_the_statistics(rows: list[tuple[float, bool, bool]]) -> None:
    scores, has_gold, right = (list(column) for column in zip(*rows, strict=True))
    assume(any(has_gold) and not all(has_gold))
    result = values(scores, has_gold, right)
    finite = [max(score, -9.0) for score in scores]
    assert result[:, 0].mean() == pytest.approx(roc_auc_score(has_gold, finite), abs=1e-12)
    # An empty answer is right for a query without gold. With gold it is a failure: wrong with the highest confidence.
    wrong = [not good or score == -np.inf if row else score > -np.inf for score, row, good in rows]
    scores = [np.inf if row and score == -np.inf else score for score, row, _ in rows]
    risks = [np.mean([bad for bad, other in zip(wrong, scores, strict=True) if other >= score]) for score in scores]
    assert result[:, 1].mean() == pytest.approx(float(np.mean(risks)), abs=1e-12)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.lists(st.tuples(SCORES, st.booleans(), st.booleans()), min_size=4, max_size=12), st.integers(0, 11))
def test_the_values_are_influences(rows: list[tuple[float, bool, bool]], which: int) -> None:
    """A value less the mean is the derivative by the query's weight: here, of weights that are numbers of copies."""
    which %= len(rows)
    scores, has_gold, right = (list(column) for column in zip(*rows, strict=True))
    assume(any(has_gold) and not all(has_gold))
    result = values(scores, has_gold, right)
    copies = 1000

    def mean_with(extra: int) -> NDArray[np.float64]:
        again = [row for i, row in enumerate(rows) for _ in range(copies + (extra if i == which else 0))]
        mean: NDArray[np.float64] = values(*(list(column) for column in zip(*again, strict=True))).mean(axis=0)
        return mean

    slope = (mean_with(1) - mean_with(0)) * copies * len(rows)
    np.testing.assert_allclose(slope, result[which] - result.mean(axis=0), atol=0.05)


def test_the_variance_is_that_of_delong() -> None:
    rng = np.random.default_rng(5)
    has_gold = np.arange(200) % 4 > 0
    scores = np.round(rng.normal(size=200) + has_gold, 1)
    result = values(scores.tolist(), has_gold.tolist(), [True] * 200)[:, 0]
    positive, negative = scores[has_gold], scores[~has_gold]
    kernel = (positive[:, None] > negative).astype(float) + 0.5 * (positive[:, None] == negative)
    variance = kernel.mean(axis=1).var(ddof=1) / len(positive) + kernel.mean(axis=0).var(ddof=1) / len(negative)
    assert result.var(ddof=1) / 200 == pytest.approx(variance, rel=0.02)


def test_without_queries_of_both_kinds_there_is_no_value() -> None:
    assert np.isnan(values([1.0, 2.0], [True, True], [True, True])).all()
    assert np.isnan(values([1.0, 2.0], [False, False], [True, True])).all()


@checked
@given(st.lists(st.tuples(SCORES, st.booleans(), st.booleans()), min_size=2, max_size=9), st.data())
def test_to_fail_is_never_the_better_answer(rows: list[tuple[float, bool, bool]], data: st.DataObject) -> None:
    scores, has_gold, right = (list(column) for column in zip(*rows, strict=True))
    assume(any(has_gold) and not all(has_gold))
    failed = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    query = data.draw(st.integers(0, len(rows) - 1))
    failed[query] = False
    before = values(scores, has_gold, right, failed).mean(axis=0)
    failed[query] = True
    after = values(scores, has_gold, right, failed).mean(axis=0)
    assert after[0] <= before[0] + 1e-12
    assert after[1] >= before[1] - 1e-12


def test_what_is_returned_where_no_tool_fits() -> None:
    gold = Gold.of([{}, {}, {}, {0: 1}])
    metrics = parse_metrics(["abstained", "abstained@5", "false_returns", "false_returns@2", "answered@1"])
    ranked = Ranking.of_lists([[1, 2, 3], [], [1], [5]]).tools
    sets = ToolSets.of([[1], [], [], [0]])
    result = evaluate(ranked, gold, metrics, sets).values
    nan = np.nan
    np.testing.assert_array_equal(
        result, [[0, 0, 1, 2, nan], [1, 1, 0, 0, nan], [1, 0, 0, 1, nan], [nan, nan, nan, nan, 1]]
    )
    failed = evaluate(ranked, gold, metrics, sets, np.array([True, True, False, False])).values
    np.testing.assert_array_equal(failed[:2], [[0, 0, 100, 2, nan], [0, 0, 100, 2, nan]])


def test_intervals_stay_between_0_and_1_and_perfect_separation_has_none() -> None:
    units = np.arange(12)
    metrics = tuple(parse_metrics(["auroc", "aurc@1"]))
    has_gold = [True] * 6 + [False] * 6
    result = means_and_intervals(Scores(metrics, values([3.0] * 6 + [1.0] * 6, has_gold, [True] * 12)), units, has_gold)
    assert (result["auroc"].mean, result["auroc"].low, result["auroc"].high) == (1.0, None, None)
    scores = [3.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    result = means_and_intervals(Scores(metrics, values(scores, has_gold, [True] * 12)), units, has_gold)
    for name in ("auroc", "aurc@1"):
        low, high = result[name].low, result[name].high
        assert low is not None
        assert high is not None
        assert 0 <= low < result[name].mean < high <= 1
