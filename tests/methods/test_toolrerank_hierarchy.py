"""Hierarchy-aware reranking on lists and answers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from bench.methods.toolrerank.hierarchy import components, concentrated, diversified, truncated


def codes(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def alike(length: int, *pairs: tuple[int, int], value: float = 0.9) -> NDArray[np.float64]:
    """Similarities: 1 with itself, `value` for these pairs, 0.1 for all others."""
    matrix = np.full((length, length), 0.1)
    np.fill_diagonal(matrix, 1.0)
    for a, b in pairs:
        matrix[a, b] = matrix[b, a] = value
    return matrix


# Adaptive truncation ------------------------------------------------------------------------------------------------


def test_seen_parents_are_cut_at_their_rank_and_unseen_ones_at_theirs() -> None:
    #                 rank: 1     2      3     4      5     6      7
    seen = np.array([True, False, True, False, True, False, False])
    # m_s = 2 keeps rank 1 of the seen ones (1, 3, 5); m_u = 6 keeps ranks 2, 4, 6 of the unseen ones (2, 4, 6, 7).
    assert truncated(seen, 2, 6).tolist() == [0, 1, 3, 5]
    # The ranks are those of the whole list: rank 3 is kept by m_s = 3 although it is the second of the seen ones.
    assert truncated(seen, 3, 1).tolist() == [0, 2]
    assert truncated(seen, 7, 7).tolist() == list(range(7))


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 40))
def test_equal_depths_cut_a_list_like_rerank_m(seen: list[bool], depth: int) -> None:
    assert truncated(np.array(seen, dtype=bool), depth, depth).tolist() == list(range(min(depth, len(seen))))


# Algorithm 1 --------------------------------------------------------------------------------------------------------


def test_tools_of_likely_parents_come_first() -> None:
    # Rank:            1     2     3     4     5     6
    parents = codes(7, 8, 9, 7, 8, 9)
    scores = np.array([0.95, 0.90, 0.60, 0.50, 0.20, 0.10])
    # Above 0.85 are ranks 1 and 2: X = {7, 8}. F1 keeps the order of ranks 1, 2, 4, 5; F2 is 3, 6.
    split = concentrated(parents, scores, 0.85)
    assert split.first.tolist() == [0, 1, 3, 4]
    assert split.rest.tolist() == [2, 5]
    assert split.order.tolist() == [0, 1, 3, 4, 2, 5]


def test_without_a_score_above_the_threshold_the_first_parent_is_likely() -> None:
    # X = {tool(r1)} = {4}, by lines 1 to 4 with no r_i beyond the first.
    split = concentrated(codes(4, 5, 5, 4), np.array([0.5, 0.4, 0.3, 0.2]), 0.85)
    assert split.order.tolist() == [0, 3, 1, 2]


def test_the_threshold_itself_is_not_enough() -> None:
    split = concentrated(codes(1, 2, 1), np.array([0.9, 0.85, 0.1]), 0.85)
    assert split.order.tolist() == [0, 2, 1]


def test_a_list_of_one_or_none_is_left_as_it_is() -> None:
    assert concentrated(codes(3), np.array([0.1]), 0.85).order.tolist() == [0]
    assert concentrated(codes(), np.empty(0), 0.85).order.tolist() == []
    assert diversified(codes(), np.empty((0, 0)), 0.7, 3).order.tolist() == []


# Algorithm 2 --------------------------------------------------------------------------------------------------------


def test_the_papers_case_of_many_like_tools() -> None:
    """Figure 4: a checker's two tools, and seven others that all make QR codes; the second checker was ninth."""
    # Ranks 1 and 9 share parent 0; ranks 2 to 8 have parents of their own and are alike in meaning, in a chain.
    parents = codes(0, 1, 2, 3, 4, 5, 6, 7, 0)
    chain = [(i, i + 1) for i in range(1, 7)]
    split = diversified(parents, alike(9, *chain), 0.7, 3)
    # Components: {1, 9} and {2..8}; three of each come first: ranks 1, 9 and 2, 3, 4, in the list's order.
    assert split.first.tolist() == [0, 1, 2, 3, 8]
    assert split.rest.tolist() == [4, 5, 6, 7]
    assert split.order[4] == 8  # as the paper says, it is fifth now


def test_groups_hang_together_through_parents_and_meaning_alike() -> None:
    # 1-3 by parent, 3-4 by meaning: {1, 3, 4}. 2 and 5 are alone.
    parents = codes(1, 2, 1, 3, 4)
    split = diversified(parents, alike(5, (2, 3)), 0.7, 1)
    assert split.first.tolist() == [0, 1, 4]
    assert split.rest.tolist() == [2, 3]


def test_tools_exactly_as_similar_as_the_threshold_are_not_alike() -> None:
    parents = codes(1, 2)
    assert diversified(parents, alike(2, (0, 1), value=0.7), 0.7, 1).first.tolist() == [0, 1]
    assert diversified(parents, alike(2, (0, 1), value=0.71), 0.7, 1).first.tolist() == [0]


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_no_more_than_so_many_of_a_parent_come_first(most: int) -> None:
    split = diversified(codes(0, 0, 0, 0, 1), alike(5), 0.7, most)
    assert split.first.tolist() == [*range(min(most, 4)), 4]


@given(
    st.integers(0, 12).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11))))
    )
)
def test_components_are_those_of_a_graph_library(case: tuple[int, set[tuple[int, int]]]) -> None:
    length, pairs = case
    matrix = np.zeros((length, length), dtype=bool)
    for a, b in pairs:
        if a < length and b < length:
            matrix[a, b] = matrix[b, a] = True
    names = components(matrix)
    if length:
        _, expected = connected_components(matrix, directed=False)
        assert ((names[:, None] == names[None, :]) == (expected[:, None] == expected[None, :])).all()
    assert all(names[name] == name <= node for node, name in enumerate(names))


@given(
    st.integers(1, 15).flatmap(
        lambda n: st.tuples(
            st.lists(st.integers(0, 4), min_size=n, max_size=n), st.lists(st.floats(0, 1), min_size=n, max_size=n)
        )
    ),
    st.floats(0, 1),
    st.integers(1, 4),
)
def test_both_algorithms_only_reorder_and_keep_the_first(
    case: tuple[list[int], list[float]], threshold: float, most: int
) -> None:
    parents, scores = np.array(case[0], dtype=np.int64), np.sort(case[1])[::-1]
    similarity = np.equal.outer(scores > 0.5, scores > 0.5).astype(float)
    for split in (concentrated(parents, scores, threshold), diversified(parents, similarity, threshold, most)):
        assert sorted(split.order.tolist()) == list(range(len(parents)))
        assert split.order[0] == 0
        assert (np.diff(split.first) > 0).all()
        assert (np.diff(split.rest) > 0).all()
