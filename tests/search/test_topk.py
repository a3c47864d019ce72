"""Exact top-k compared with Python's `sorted`, under the tie rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.interface.ranking import Violation, validate
from bench.search.topk import BLOCK, blocks, top_k

checked = settings(deadline=None, derandomize=True, max_examples=100)

#: Values that tie often: two pairs are equal as float32 only, 1e300 overflows to infinity.
LEVELS = (-np.inf, -2.0, -0.0, 0.0, 1e-60, 0.5, 1.0, 1.0 + 1e-9, 3e38, 1e300)
depths = st.integers(1, 12)


@st.composite
def matrices(draw: st.DrawFn) -> NDArray[np.float64]:
    queries, tools = draw(st.integers(0, 4)), draw(st.integers(0, 10))
    value = st.sampled_from(LEVELS) | st.floats(-10, 10)
    rows = draw(st.lists(st.lists(value, min_size=tools, max_size=tools), min_size=queries, max_size=queries))
    return np.array(rows, dtype=np.float64).reshape(queries, tools)


def single(scores: NDArray[np.float64]) -> list[list[float]]:
    """The scores as float32 sees them."""
    with np.errstate(over="ignore"):
        rows: list[list[float]] = scores.astype(np.float32).tolist()
    return rows


def best(row: list[float], depth: int) -> list[int]:
    """The protocol's order by Python's sort: score descending, then code ascending; -inf is left out."""
    return sorted((code for code, score in enumerate(row) if score > -np.inf), key=lambda code: (-row[code], code))[
        :depth
    ]


@given(matrices(), depths)
@checked
def test_the_best_tools_come_in_the_protocol_s_order(scores: NDArray[np.float64], depth: int) -> None:
    ranking = top_k(scores, depth)
    assert ranking.scores is not None
    width = min(depth, scores.shape[1])
    assert ranking.tools.shape == ranking.scores.shape == (len(scores), width)
    assert ranking.tools.dtype == np.int32
    assert ranking.scores.dtype == np.float32
    for i, row in enumerate(single(scores)):
        expected = best(row, depth)
        assert ranking.tools[i].tolist() == expected + [-1] * (width - len(expected))
        assert ranking.scores[i].tolist() == [row[code] for code in expected] + [-np.inf] * (width - len(expected))


@given(matrices(), depths)
@checked
def test_what_ties_with_the_last_returned_tool_but_does_not_fit_is_told(
    scores: NDArray[np.float64], depth: int
) -> None:
    ranking = top_k(scores, depth)
    expected = []
    for row in single(scores):
        kept = best(row, depth)
        full = len(kept) == depth
        expected.append(
            [code for code, score in enumerate(row) if full and code not in kept and score == row[kept[-1]]]
        )
    if not any(expected):
        assert ranking.tied_beyond is None
        return
    assert ranking.tied_beyond is not None
    bits = np.unpackbits(ranking.tied_beyond, axis=1, count=scores.shape[1])
    assert [np.flatnonzero(row).tolist() for row in bits] == expected


@given(matrices().filter(lambda scores: not (scores >= 1e300).any()), depths)
@checked
def test_the_protocol_accepts_the_ranking_as_it_is(scores: NDArray[np.float64], depth: int) -> None:
    ranking = top_k(scores, depth)
    allowed = validate(ranking, len(scores), scores.shape[1], depth)
    np.testing.assert_array_equal(allowed.tools, ranking.tools)
    np.testing.assert_array_equal(allowed.scores, ranking.scores)


@given(matrices(), depths, depths)
@checked
def test_a_deeper_ranking_begins_with_the_shallower_one(scores: NDArray[np.float64], one: int, other: int) -> None:
    shallow, deep = top_k(scores, min(one, other)), top_k(scores, max(one, other))
    np.testing.assert_array_equal(deep.tools[:, : shallow.tools.shape[1]], shallow.tools)


@given(matrices(), depths)
@checked
def test_float32_scores_rank_as_their_float64_copies_do(scores: NDArray[np.float64], depth: int) -> None:
    with np.errstate(over="ignore"):
        rounded = scores.astype(np.float32)
    np.testing.assert_array_equal(top_k(rounded, depth).tools, top_k(scores, depth).tools)


def test_minus_zero_and_zero_tie() -> None:
    assert top_k(np.array([[-0.0, 0.0, -0.0]]), 3).tools.tolist() == [[0, 1, 2]]
    cut = top_k(np.array([[0.0, -0.0, 0.0, -0.0]]), 2)
    assert cut.tools.tolist() == [[0, 1]]
    assert cut.tied_beyond is not None
    assert np.unpackbits(cut.tied_beyond, axis=1, count=4).tolist() == [[0, 0, 1, 1]]


def test_a_row_of_minus_infinity_has_no_tools_and_no_ties() -> None:
    ranking = top_k(np.full((1, 9), -np.inf), 3)
    assert ranking.tools.tolist() == [[-1, -1, -1]]
    assert ranking.tied_beyond is None


def test_nan_is_refused_with_its_query_and_tool() -> None:
    scores = np.zeros((3, 4))
    scores[1, 2] = scores[2, 0] = np.nan
    with pytest.raises(Violation, match="scored NaN") as caught:
        top_k(scores, 2)
    assert (caught.value.query, caught.value.tool) == (1, 2)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_queries_or_no_tools_make_an_empty_ranking(shape: tuple[int, int]) -> None:
    ranking = top_k(np.zeros(shape), 4)
    assert ranking.tools.shape == (shape[0], min(4, shape[1]))
    assert ranking.tied_beyond is None


@given(st.integers(0, 10_000), st.integers(0, 3 * BLOCK))
@checked
def test_blocks_are_consecutive_cover_every_row_and_stay_small(rows: int, columns: int) -> None:
    result = list(blocks(rows, columns))
    assert [row for block in result for row in range(block.start, block.stop)] == list(range(rows))
    assert all(block.stop - block.start == 1 or (block.stop - block.start) * columns <= BLOCK for block in result)


@pytest.fixture(scope="module")
def large() -> NDArray[np.float64]:
    """More than two blocks of scores, with many ties."""
    scores = np.random.default_rng(3).integers(0, 5000, size=(2 * BLOCK // 4000 + 50, 4000)).astype(np.float64)
    assert len(list(blocks(*scores.shape))) == 3
    return scores


def test_several_blocks_rank_as_their_rows_do_alone(large: NDArray[np.float64]) -> None:
    ranking = top_k(large, 20)
    expected = np.argsort(-large, axis=1, kind="stable")[:, :20]
    np.testing.assert_array_equal(ranking.tools, expected)
    assert ranking.tied_beyond is not None
    last = np.take_along_axis(large, expected[:, -1:], axis=1)
    # The ties that fit are among the twenty.
    fits = np.count_nonzero(np.take_along_axis(large, expected, axis=1) == last, axis=1)
    counts = np.bitwise_count(ranking.tied_beyond).sum(axis=1)
    np.testing.assert_array_equal(counts, np.count_nonzero(large == last, axis=1) - fits)


def test_nan_in_a_later_block_is_named_by_its_own_query(large: NDArray[np.float64]) -> None:
    scores = large.copy()
    row = len(scores) - 7
    scores[row, 3] = np.nan
    with pytest.raises(Violation) as caught:
        top_k(scores, 20)
    assert (caught.value.query, caught.value.tool) == (row, 3)
