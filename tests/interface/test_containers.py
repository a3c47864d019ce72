"""Rankings and tool sets made, cut and joined; and the check of recommended sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.interface.ranking import Ranking, ToolSets, Violation, validate_sets

checked = settings(deadline=None, derandomize=True)
rows = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=6), max_size=8)


def untyped(values: Sequence[float]) -> Any:
    """An array of whatever type the values have."""
    return np.array(values)


def of(ranking: Ranking) -> list[list[int]]:
    """The tools without padding."""
    return [[tool for tool in row if tool >= 0] for row in ranking.tools.tolist()]


@given(rows)
@checked
def test_a_ranking_of_lists_holds_the_lists_padded_at_the_end(lists: list[list[int]]) -> None:
    ranking = Ranking.of_lists(lists)
    width = max(map(len, lists), default=0)
    assert ranking.tools.tolist() == [row + [-1] * (width - len(row)) for row in lists]
    assert ranking.tools.dtype == np.int32
    assert len(ranking) == len(lists)
    assert (ranking.scores, ranking.failed, ranking.tied_beyond) == (None, None, None)


def test_a_ranking_of_lists_says_which_queries_failed() -> None:
    failed = Ranking.of_lists([[1], []], failed=[False, True]).failed
    assert failed is not None
    assert failed.dtype == np.bool_
    assert failed.tolist() == [False, True]


def test_take_gives_every_part_of_the_chosen_queries_in_their_order() -> None:
    ranking = Ranking(
        np.array([[0], [1], [2]], dtype=np.int32),
        np.array([[0.0], [1.0], [2.0]], dtype=np.float32),
        np.array([True, False, False]),
        np.array([[0], [1], [2]], dtype=np.uint8),
    )
    taken = ranking.take(np.array([2, 0]))
    assert taken.tools.tolist() == [[2], [0]]
    assert taken.scores is not None
    assert taken.scores.tolist() == [[2.0], [0.0]]
    assert taken.failed is not None
    assert taken.failed.tolist() == [False, True]
    assert taken.tied_beyond is not None
    assert taken.tied_beyond.tolist() == [[2], [0]]
    bare = Ranking.of_lists([[0], [1]]).take(np.array([1]))
    assert (bare.tools.tolist(), bare.scores, bare.failed, bare.tied_beyond) == ([[1]], None, None, None)


@given(st.lists(rows, max_size=4))
@checked
def test_join_is_the_rows_of_all_parts(parts: list[list[list[int]]]) -> None:
    joined = Ranking.join([Ranking.of_lists(part) for part in parts])
    assert of(joined) == [row for part in parts for row in part]
    assert joined.tools.dtype == np.int32
    assert (joined.tools[:, 1:][joined.tools[:, :-1] == -1] == -1).all()


def test_join_pads_scores_and_knows_who_failed() -> None:
    wide = Ranking(np.array([[0, 1]], dtype=np.int32), np.array([[2.0, 1.0]], dtype=np.float32))
    slim = Ranking(np.array([[3]], dtype=np.int32), np.array([[4.0]], dtype=np.float32), np.array([True]))
    joined = Ranking.join([wide, slim])
    assert joined.tools.tolist() == [[0, 1], [3, -1]]
    assert joined.scores is not None
    assert joined.scores.dtype == np.float32
    assert joined.scores.tolist() == [[2.0, 1.0], [4.0, -np.inf]]
    assert joined.failed is not None
    assert joined.failed.tolist() == [False, True]


def test_join_has_scores_only_if_every_part_has() -> None:
    scored = Ranking(np.array([[0]], dtype=np.int32), np.array([[2.0]], dtype=np.float32))
    assert Ranking.join([scored, Ranking.of_lists([[1]])]).scores is None


def test_join_of_nothing_is_empty() -> None:
    assert Ranking.join([]).tools.shape == (0, 0)


@given(rows)
@checked
def test_tool_sets_hold_each_query_s_tools(lists: list[list[int]]) -> None:
    for given_as in (lists, [np.array(row, dtype=np.int32) for row in lists]):
        sets = ToolSets.of(given_as)
        assert len(sets) == len(lists)
        assert [sets.row(query).tolist() for query in range(len(sets))] == lists
        assert sets.starts.dtype == np.int64
        assert sets.tools.dtype == np.int32


@given(st.lists(rows, max_size=4))
@checked
def test_joined_tool_sets_are_the_sets_of_all_parts(parts: list[list[list[int]]]) -> None:
    joined = ToolSets.join([ToolSets.of(part) for part in parts])
    assert [joined.row(query).tolist() for query in range(len(joined))] == [row for part in parts for row in part]


@given(rows)
@checked
def test_sound_tool_sets_pass_unchanged(lists: list[list[int]]) -> None:
    sets = validate_sets(ToolSets.of(lists), len(lists), 31)
    assert [sets.row(query).tolist() for query in range(len(sets))] == lists
    assert sets.starts.dtype == np.int64
    assert sets.tools.dtype == np.int32


@pytest.mark.parametrize(
    ("starts", "tools"),
    [
        ([0, 1], [0]),
        ([0, 1, 1, 1], [0]),
        ([1, 1, 1], [0]),
        ([0, 1, 1], [0, 1]),
        ([0, 2, 1], [0]),
        ([0, 1, 3], [0]),
    ],
)
def test_tool_sets_must_fit_the_queries(starts: list[int], tools: list[int]) -> None:
    sets = ToolSets(np.array(starts, dtype=np.int64), np.array(tools, dtype=np.int32))
    with pytest.raises(Violation) as caught:
        validate_sets(sets, 2, 5)
    assert str(caught.value) == "returned tool sets whose shape does not fit 2 queries"
    assert (caught.value.query, caught.value.tool) == (None, None)


@pytest.mark.parametrize("code", [5, -1])
def test_a_recommended_tool_must_be_in_the_library(code: int) -> None:
    with pytest.raises(Violation) as caught:
        validate_sets(ToolSets.of([[], [0, code]]), 2, 5)
    assert str(caught.value) == f"recommended the unknown tool code {code}"
    assert caught.value.query == 1


def test_a_recommended_tool_may_stand_once_in_a_set_and_in_any_set() -> None:
    validate_sets(ToolSets.of([[4], [4], [0]]), 3, 5)
    with pytest.raises(Violation) as caught:
        validate_sets(ToolSets.of([[4], [4, 0, 4]]), 2, 5)
    assert (str(caught.value), caught.value.query, caught.value.tool) == ("recommended a tool twice", 1, 4)


@pytest.mark.parametrize(
    "sets",
    [
        ToolSets(untyped([0.0, 1.0]), np.array([0], dtype=np.int32)),
        ToolSets(np.array([0, 1]), untyped([0.5])),
        ToolSets(np.array([0, 1]), np.array([[0]], dtype=np.int32)),
        ToolSets([0, 1], [0]),  # type: ignore[arg-type]
    ],
    ids=["starts of floats", "tools of floats", "tools in two dimensions", "lists"],
)
def test_tool_sets_must_be_arrays_of_integers(sets: ToolSets) -> None:
    with pytest.raises(Violation):
        validate_sets(sets, 1, 5)
