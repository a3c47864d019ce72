"""`validate`: what a method may return, and the one order that ties get; rankings and tool sets as containers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.interface.ranking import Ranking, Violation, validate

checked = settings(deadline=None, derandomize=True)

#: Few values, so that they tie; the last two would tie as float32.
LEVELS = (-3.0, -0.0, 0.0, 0.5, 1.0, 1.0 + 1e-9)


def array(rows: Any, dtype: Any = np.int32) -> Any:
    return np.array(rows, dtype=dtype)


def refusal(ranking: Ranking, queries: int = 2, library: int = 5, depth: int = 3) -> tuple[str, int | None, int | None]:
    with pytest.raises(Violation) as caught:
        validate(ranking, queries, library, depth)
    return str(caught.value), caught.value.query, caught.value.tool


NO_TABLE = "did not return tools as a two-dimensional array of integers"
NO_SCORES = "did not return scores as an array of numbers in the shape of its tools"
NO_FAILED = "did not return `failed` as one boolean per query"
NO_BITS = "did not return `tied_beyond` as packed bits of shape (2, 1)"
GOOD = array([[0, 1], [2, 3]])


@pytest.mark.parametrize(
    "tools",
    [
        [[0], [1]],
        array([0, 1]),
        array([[[0]], [[1]]]),
        array([[0.0], [1.0]], np.float64),
        array([[True], [False]], np.bool_),
        array([["0"], ["1"]], np.str_),
        array([[0], [1]], object),
        None,
    ],
)
def test_tools_must_be_a_table_of_integers(tools: Any) -> None:
    assert refusal(Ranking(tools)) == (NO_TABLE, None, None)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_there_must_be_one_ranking_per_query(rows: int) -> None:
    message = f"returned {rows} rankings for 2 queries"
    assert refusal(Ranking(np.zeros((rows, 1), dtype=np.int32))) == (message, None, None)


@pytest.mark.parametrize(
    ("tools", "dtype", "code"),
    [
        ([[0, 1], [2, 5]], np.int32, 5),
        ([[0, 1], [2, -2]], np.int32, -2),
        ([[0, 1], [2, 2**40]], np.int64, 2**40),
        ([[0, 1], [2, 2**64 - 1]], np.uint64, 2**64 - 1),
        ([[0, 1], [2, 255]], np.uint8, 255),
    ],
)
def test_an_unknown_tool_code_is_named_with_its_query(tools: list[list[int]], dtype: Any, code: int) -> None:
    assert refusal(Ranking(array(tools, dtype))) == (f"returned the unknown tool code {code}", 1, None)


@pytest.mark.parametrize("row", [[4, 4, -1], [4, 0, 4], [4, 4, 4]])
def test_a_tool_returned_twice_is_named_with_its_query(row: list[int]) -> None:
    assert refusal(Ranking(array([[0, 1, 2], row]))) == ("returned a tool twice", 1, 4)


@pytest.mark.parametrize("row", [[-1, 0, -1], [-1, -1, 0], [0, -1, 1]])
def test_padding_before_a_tool_is_refused(row: list[int]) -> None:
    assert refusal(Ranking(array([[0, 1, 2], row]))) == ("put padding before a tool", 1, None)


@pytest.mark.parametrize(("depth", "library", "allowed"), [(2, 5, 2), (9, 2, 2), (2, 2, 2)])
def test_more_tools_than_the_depth_or_the_library_are_refused(depth: int, library: int, allowed: int) -> None:
    ranking = Ranking(array([[0, 1, -1], [0, 1, 2]]))
    assert refusal(ranking, library=library, depth=depth) == (f"returned more than {allowed} tools", 1, None)


def test_one_tool_too_many_is_refused_though_padding_follows() -> None:
    ranking = Ranking(array([[0, 1, -1, -1], [0, 1, 2, -1]]))
    assert refusal(ranking, depth=2) == ("returned more than 2 tools", 1, None)


@pytest.mark.parametrize(
    ("score", "dtype", "shown"),
    [
        (np.nan, np.float32, "nan"),
        (np.inf, np.float32, "inf"),
        (-np.inf, np.float64, "-inf"),
        (np.inf, np.float16, "inf"),
    ],
)
def test_a_score_that_is_not_finite_is_named_with_its_query_and_tool(score: float, dtype: Any, shown: str) -> None:
    ranking = Ranking(GOOD, array([[1, 0.5], [1, score]], dtype))
    assert refusal(ranking) == (f"returned the score {shown}", 1, 3)


@pytest.mark.parametrize(
    "scores",
    [
        [[1.0, 0.5], [1.0, 0.5]],
        array([1.0, 0.5], np.float32),
        array([[1.0], [1.0]], np.float32),
        array([[1.0, 0.5, 0.1], [1.0, 0.5, 0.1]], np.float32),
        array([[1.0, 0.5]], np.float32),
        array([[True, False], [True, False]], np.bool_),
        array([[1j, 0], [1, 0]], np.complex64),
        array([["a", "b"], ["a", "b"]], np.str_),
    ],
)
def test_scores_must_be_numbers_in_the_shape_of_the_tools(scores: Any) -> None:
    assert refusal(Ranking(GOOD, scores)) == (NO_SCORES, None, None)


def test_scores_must_have_the_shape_of_the_tools_before_these_are_cut_to_the_depth() -> None:
    # Ten columns of tools, eight of them padding, with three of scores.
    wide = np.pad(GOOD, ((0, 0), (0, 8)), constant_values=-1)
    assert refusal(Ranking(wide, np.ones((2, 3), dtype=np.float32))) == (NO_SCORES, None, None)


@pytest.mark.parametrize(
    "failed",
    [
        [True, False],
        array([True], np.bool_),
        array([[True], [False]], np.bool_),
        array([1, 0], np.int64),
    ],
)
def test_failed_must_be_one_boolean_per_query(failed: Any) -> None:
    assert refusal(Ranking(GOOD, failed=failed)) == (NO_FAILED, None, None)


@pytest.mark.parametrize(
    "tied",
    [
        [[0], [0]],
        array([0, 0], np.uint8),
        array([[0, 0], [0, 0]], np.uint8),
        array([[0]], np.uint8),
        array([[0], [0]], np.int32),
        array([[False], [False]], np.bool_),
    ],
)
def test_tied_beyond_must_be_packed_bits(tied: Any) -> None:
    assert refusal(Ranking(GOOD, tied_beyond=tied)) == (NO_BITS, None, None)


@pytest.mark.parametrize(("library", "width"), [(8, 1), (9, 2), (16, 2), (17, 3)])
def test_tied_beyond_has_a_bit_for_every_tool(library: int, width: int) -> None:
    bits = np.zeros((2, width), dtype=np.uint8)
    assert validate(Ranking(GOOD, tied_beyond=bits), 2, library, 3).tied_beyond is bits


@st.composite
def scored(draw: st.DrawFn) -> tuple[list[list[tuple[float, int]]], Ranking, int]:
    """Rows of (score, tool), and the same as a ranking of a library."""
    library = draw(st.integers(1, 10))
    values = st.sampled_from(LEVELS) | st.floats(-1e6, 1e6)
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        tools = draw(st.permutations(range(library)))[: draw(st.integers(0, library))]
        rows.append([(draw(values), tool) for tool in tools])
    width = draw(st.integers(max(map(len, rows)), library))
    codes, scores = np.full((len(rows), width), -1), np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        codes[i, : len(row)] = [tool for _, tool in row]
        scores[i, : len(row)] = [score for score, _ in row]
    kind = draw(st.sampled_from([np.int64, np.int32, np.int8]))
    return rows, Ranking(array(codes, kind), array(scores, np.float64)), library


@given(scored())
@checked
def test_rows_are_ordered_by_score_descending_then_code_ascending(
    case: tuple[list[list[tuple[float, int]]], Ranking, int],
) -> None:
    rows, ranking, library = case
    ordered = validate(ranking, len(rows), library, 100)
    assert ordered.scores is not None
    assert ordered.tools.dtype == np.int32
    assert ordered.scores.dtype == np.float64
    for i, row in enumerate(rows):
        expected = sorted((-score, tool) for score, tool in row)
        assert ordered.tools[i].tolist() == [tool for _, tool in expected] + [-1] * (ranking.tools.shape[1] - len(row))
        assert ordered.scores[i, : len(row)].tolist() == [-score for score, _ in expected]
        assert (ordered.scores[i, len(row) :] == -np.inf).all()


@given(scored())
@checked
def test_an_ordered_ranking_stays_as_it_is(case: tuple[list[list[tuple[float, int]]], Ranking, int]) -> None:
    rows, ranking, library = case
    once = validate(ranking, len(rows), library, 100)
    twice = validate(once, len(rows), library, 100)
    np.testing.assert_array_equal(twice.tools, once.tools)
    np.testing.assert_array_equal(twice.scores, once.scores)


@given(scored())
@checked
def test_without_scores_the_order_is_the_method_s(case: tuple[list[list[tuple[float, int]]], Ranking, int]) -> None:
    rows, ranking, library = case
    kept = validate(Ranking(ranking.tools), len(rows), library, 100)
    assert kept.scores is None
    assert kept.tools.dtype == np.int32
    np.testing.assert_array_equal(kept.tools, ranking.tools)


def test_scores_are_compared_as_they_are() -> None:
    tools, scores = array([[3, 1, 2]]), [[1 + 2e-9, 1.0, 1 + 1e-9]]
    ordered = validate(Ranking(tools, array(scores, np.float64)), 1, 5, 3)
    assert ordered.tools.tolist() == [[3, 2, 1]]
    assert ordered.scores is not None
    assert ordered.scores.tolist() == [[1 + 2e-9, 1 + 1e-9, 1.0]]
    # The same numbers in single precision tie.
    assert validate(Ranking(tools, array(scores, np.float32)), 1, 5, 3).tools.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("score", [1e39, -1e39, 1e-300])
def test_scores_that_float32_cannot_hold_are_allowed(score: float) -> None:
    ordered = validate(Ranking(array([[0, 1]]), array([[0.0, score]], np.float64)), 1, 5, 3)
    assert ordered.tools.tolist() == [[1, 0] if score > 0 else [0, 1]]
    assert ordered.scores is not None
    assert sorted(ordered.scores[0].tolist()) == sorted([0.0, score])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint16, np.int64])
def test_single_precision_stays_and_any_other_number_becomes_double(dtype: Any) -> None:
    scores = array([[1, 2], [0, 4]], dtype)
    for failed in (None, np.array([False, True])):
        ordered = validate(Ranking(array([[0, 1], [2, 3]]), scores, failed), 2, 5, 3)
        assert ordered.scores is not None
        assert ordered.scores.dtype == (np.float32 if dtype is np.float32 else np.float64)
        assert (ordered.tools[0].tolist(), ordered.scores[0].tolist()) == ([1, 0], [2.0, 1.0])


def test_padding_deeper_than_the_depth_is_cut_away_with_its_scores() -> None:
    tools, scores = array([[1, 0, -1, -1], [2, -1, -1, -1]]), array([[1, 2, 9, 9], [1, 9, 9, 9]], np.float32)
    ordered = validate(Ranking(tools, scores), 2, 5, 2)
    assert ordered.tools.tolist() == [[0, 1], [2, -1]]
    assert ordered.scores is not None
    assert ordered.scores.tolist() == [[2, 1], [1, -np.inf]]


@pytest.mark.parametrize("beside", [np.nan, np.inf, 1e30])
def test_scores_beside_padding_are_ignored(beside: float) -> None:
    ordered = validate(Ranking(array([[3, -1, -1]]), array([[1.0, beside, beside]], np.float64)), 1, 5, 3)
    assert ordered.scores is not None
    assert ordered.tools.tolist() == [[3, -1, -1]]
    assert ordered.scores.tolist() == [[1.0, -np.inf, -np.inf]]


def test_the_method_s_own_arrays_are_not_changed() -> None:
    tools, scores = array([[0, 1, 2]]), array([[1, 1, 2]], np.float32)
    validate(Ranking(tools, scores), 1, 5, 3)
    assert (tools.tolist(), scores.tolist()) == ([[0, 1, 2]], [[1, 1, 2]])


@pytest.mark.parametrize("queries", [0, 2])
def test_rankings_without_any_tool_are_allowed(queries: int) -> None:
    assert validate(Ranking.empty(queries), queries, 5, 3).tools.shape == (queries, 0)
    assert len(validate(Ranking(np.full((queries, 3), -1)), queries, 5, 3)) == queries
