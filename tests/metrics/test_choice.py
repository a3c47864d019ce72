"""`choice`: exact sets and abstentions as one share over all queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.interface.ranking import Ranking, ToolSets
from bench.metrics import evaluate, parse_metric, parse_metrics
from bench.results.intervals import means_and_intervals

CODES = st.sets(st.integers(0, 4), max_size=4)


def choices(gold: Gold, sets: list[list[int]], failed: list[bool] | None = None) -> list[float]:
    chosen = ToolSets.of([sorted(tools) for tools in sets])
    # What was shown is the ranking: it has tools whatever was called.
    shown = Ranking.of_lists([[0, 1, 2]] * len(sets)).tools
    unanswered = None if failed is None else np.array(failed)
    column: list[float] = evaluate(shown, gold, [parse_metric("choice")], chosen, unanswered).values[:, 0].tolist()
    return column


def test_by_hand() -> None:
    gold = Gold.of([{1: 1}, {1: 1, 2: 1}, {1: 1}, {1: 1}, {}, {}])
    assert choices(gold, [[1], [1], [1, 2], [], [], [3]]) == [1, 0, 0, 0, 1, 0]
    # Right or wrong, a query that failed was not chosen for.
    assert choices(gold, [[1], [1, 2], [], [], [], [3]], [True] * 6) == [0] * 6
    assert choices(gold, [[1], [2, 1], [1], [1], [], []], [False] * 6) == [1] * 6


def test_of_alternatives_one_is_right_and_two_are_one_too_many() -> None:
    plain = Gold.of([{1: 1, 2: 1}] * 3)
    gold = replace(plain, groups=GoldGroups.of([[([1, 4], 1), ([2], 1)]] * 3))
    assert choices(gold, [[2, 4], [1, 4], [1, 2, 4]]) == [1, 0, 0]


def test_a_forbidden_tool_is_wrong_with_gold_and_without() -> None:
    gold = replace(Gold.of([{1: 1}, {1: 1}, {}]), forbidden=Gold.of([{7: 1}, {7: 1}, {7: 1}]))
    assert choices(gold, [[1], [1, 7], [7]]) == [1, 0, 0]


def test_a_hundred_tools_are_no_choice() -> None:
    # A query that failed counts as one that was handed a hundred tools, so that it must never be right.
    gold = Gold.of([dict.fromkeys(range(100), 1), dict.fromkeys(range(99), 1)])
    assert choices(gold, [list(range(100)), list(range(99))]) == [0, 1]
    assert choices(gold, [list(range(100)), list(range(99))], [True, True]) == [0, 0]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(st.tuples(CODES, CODES, st.booleans()), min_size=1, max_size=12))
def test_it_is_set_exact_with_gold_and_abstained_without(rows: list[tuple[set[int], set[int], bool]]) -> None:
    gold = Gold.of(dict.fromkeys(tools, 1) for tools, _, _ in rows)
    sets = ToolSets.of([sorted(tools) for _, tools, _ in rows])
    failed = np.array([row[2] for row in rows])
    shown = Ranking.of_lists([[0, 1]] * len(rows)).tools
    values = evaluate(shown, gold, parse_metrics(["choice", "set_exact", "abstained"]), sets, failed).values
    np.testing.assert_array_equal(values[:, 0], np.where(gold.counts > 0, values[:, 1], values[:, 2]))


def test_its_mean_is_over_all_queries() -> None:
    gold = Gold.of([{1: 1}, {1: 1}, {}])
    sets = ToolSets.of([[1], [2], []])
    scores = evaluate(Ranking.of_lists([[1], [2], [1]]).tools, gold, parse_metrics(["choice", "set_exact"]), sets)
    found = means_and_intervals(scores, np.arange(3), gold.counts)
    assert (found["choice"].mean, found["choice"].n) == (pytest.approx(2 / 3), 3)
    assert (found["set_exact"].mean, found["set_exact"].n) == (0.5, 2)
