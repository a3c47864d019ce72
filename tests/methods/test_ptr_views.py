"""Multi-view re-ranking: lists worked out by hand, and what merging must keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.data.gold import Gold
from bench.methods.ptr.views import View, Views, merged

lists_of_tools = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=7), max_size=4)


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([], []),
        ([[], [], []], []),
        # 4 is in three lists, 1 and 5 in two; 1 comes first in the first list.
        ([[1, 4, 2], [5, 4], [4, 5, 1]], [4, 1, 5, 2]),
        # Once each: the order of the lists, then of the list.
        ([[3], [1, 2], [0]], [3, 1, 2, 0]),
        # 2 beats 1 although it is last in both of its lists.
        ([[1, 2], [0, 2]], [2, 1, 0]),
    ],
)
def test_the_tool_of_most_lists_comes_first_and_ties_go_by_first_appearance(
    lists: list[list[int]], expected: list[int]
) -> None:
    assert merged(lists) == expected


@given(lists_of_tools)
def test_merging_names_every_tool_once_and_never_puts_a_rarer_one_first(lists: list[list[int]]) -> None:
    merged_row = merged(lists)
    every = [tool for part in lists for tool in part]
    assert sorted(merged_row) == sorted(set(every))
    counts = [every.count(tool) for tool in merged_row]
    assert counts == sorted(counts, reverse=True)
    for before, after in pairwise(merged_row):
        assert every.count(before) > every.count(after) or every.index(before) < every.index(after)


# Five tools in a plane, at these angles (degrees), and past queries with their bundles.
TOOLS = (0, 20, 50, 90, 180)
PAST = {5: (3,), 12: (1, 3), 60: (2, 4), 170: (0, 4)}


def at(*degrees: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) * 3


def views(chosen: Sequence[View], size: int, past: Mapping[int, tuple[int, ...]] | None = None) -> Views:
    past = PAST if past is None else past
    gold = Gold.of([dict.fromkeys(tools, 1) for tools in past.values()])
    return Views(at(*TOOLS), at(*past) if past else np.zeros((0, 0), np.float32), gold, chosen, size)


def test_the_three_lists_of_a_problem() -> None:
    (lists,) = views(("direct", "history", "context"), 2).lists(at(12))
    # Nearest to 12 degrees: the tool at 20, then the one at 0.
    assert lists[0] == [1, 0]
    # Nearest past queries: the one at 12 with 1 and 3, then the one at 5 with 3 again.
    assert lists[1] == [1, 3]
    # Nearest to the tool at 20 degrees: itself, then the one at 0.
    assert lists[2] == [1, 0]
    assert merged(lists) == [1, 0, 3]


def test_the_historical_list_has_the_tools_of_as_many_past_queries_as_the_view_looks_at() -> None:
    assert views(("history",), 1).lists(at(12)) == [[[1, 3]]]
    assert views(("history",), 3).lists(at(12)) == [[[1, 3, 2, 4]]]
    assert views(("history",), 99).lists(at(12)) == [[[1, 3, 2, 4, 0]]]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (("direct",), 2),
        # The past query at 60 degrees had 2 and 4.
        (("history",), 2),
        (("context",), 2),
        # Without the direct view the first past tool wins the tie of single mentions.
        (("history", "context"), 2),
        ((), None),
    ],
)
def test_each_view_can_be_left_out(chosen: tuple[View, ...], expected: int | None) -> None:
    assert views(chosen, 1).best(at(58)) == [expected]


def test_the_tool_that_all_views_name_beats_the_most_similar_one() -> None:
    past = {30: (2,)}
    # At 30 degrees the tool at 20 is nearest, then 50; the past query had the tool at 50; near 20 are 20, 0, 50.
    assert views(("direct",), 3, past).best(at(30)) == [1]
    assert views(("direct", "history", "context"), 3, past).best(at(30)) == [2]


def test_the_order_in_which_views_are_named_changes_nothing() -> None:
    problem = at(33, 77, 140)
    assert views(("context", "history", "direct"), 2).best(problem) == views(("direct", "history", "context"), 2).best(
        problem
    )


def test_without_a_history_the_historical_view_is_empty() -> None:
    assert views(("history",), 3, {}).best(at(30, 40)) == [None, None]
    assert views(("direct", "history"), 3, {}).best(at(30)) == [1]


def test_no_problems_have_no_tools() -> None:
    assert views(("direct", "history", "context"), 3).best(np.zeros((0, 0), np.float32)) == []
