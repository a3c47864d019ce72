"""The propagation matrix compared with TGR's equation 3 on dense arrays, and worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.methods.tgr.convolution import Direction, propagation
from bench.methods.tgr.edges import connected_share

DIRECTIONS: tuple[Direction, ...] = ("symmetric", "prerequisite", "dependent")
checked = settings(deadline=None, derandomize=True, max_examples=60)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, NDArray[np.int32]]:
    """A number of tools and edges between distinct ones, some of them repeated and some in both directions."""
    tools = draw(st.integers(1, 9))
    pair = st.tuples(st.integers(0, tools - 1), st.integers(0, tools - 1)).filter(lambda edge: edge[0] != edge[1])
    edges = draw(st.lists(pair, max_size=20)) if tools > 1 else []
    return tools, np.array(edges, dtype=np.int32).reshape(-1, 2)


def dense(edges: NDArray[np.int32], tools: int, direction: str, alpha: float, layers: int) -> NDArray[np.float64]:
    """(D^-1/2 (F + αI) D^-1/2)^layers, with D of the symmetric A + αI and F what flows in the direction."""
    forward = np.zeros((tools, tools))
    for dependent, prerequisite in edges.tolist():
        forward[dependent, prerequisite] = 1.0
    symmetric = np.maximum(forward, forward.T)
    flow = {"symmetric": symmetric, "dependent": forward, "prerequisite": forward.T}[direction]
    loops = alpha * np.eye(tools)
    root = np.diag((symmetric + loops).sum(axis=1) ** -0.5)
    return np.array(np.linalg.matrix_power(root @ (flow + loops) @ root, layers))


@given(graphs(), st.sampled_from(DIRECTIONS), st.floats(0.01, 20), st.integers(1, 4))
@checked
def test_it_is_the_normalised_adjacency_of_equation_3(
    graph: tuple[int, NDArray[np.int32]], direction: Direction, alpha: float, layers: int
) -> None:
    tools, edges = graph
    result = propagation(edges, tools, direction, alpha, layers)
    assert result.shape == (tools, tools)
    np.testing.assert_allclose(result.toarray(), dense(edges, tools, direction, alpha, layers), rtol=1e-12, atol=1e-15)


@given(graphs(), st.floats(0.1, 5), st.integers(1, 3))
@checked
def test_the_two_one_way_directions_are_each_other_s_transpose_and_never_exceed_both_ways(
    graph: tuple[int, NDArray[np.int32]], alpha: float, layers: int
) -> None:
    tools, edges = graph
    one, other, both = (
        propagation(edges, tools, direction, alpha, layers).toarray()
        for direction in ("prerequisite", "dependent", "symmetric")
    )
    np.testing.assert_allclose(one, other.T, rtol=1e-12)
    np.testing.assert_allclose(both, both.T, rtol=1e-12)
    assert (both >= one - 1e-12).all()


def test_a_dependent_and_its_prerequisite_by_hand() -> None:
    # Tool 0 needs tool 1; tool 2 is alone. Degrees of A + I are 2, 2, 1, so each of the four entries is 1/2.
    edges = np.array([[0, 1]], dtype=np.int32)
    half = 0.5
    by_direction: dict[str, list[list[float]]] = {
        "symmetric": [[half, half, 0], [half, half, 0], [0, 0, 1]],
        "dependent": [[half, half, 0], [0, half, 0], [0, 0, 1]],
        "prerequisite": [[half, 0, 0], [half, half, 0], [0, 0, 1]],
    }
    for direction in DIRECTIONS:
        np.testing.assert_allclose(propagation(edges, 3, direction, 1.0, 1).toarray(), by_direction[direction])


def test_a_larger_alpha_keeps_more_of_a_tool_s_own_text() -> None:
    # Degrees of A + 3I are 4, 4: own weight 3/4, the neighbour's 1/4.
    edges = np.array([[0, 1]], dtype=np.int32)
    np.testing.assert_allclose(propagation(edges, 2, "symmetric", 3.0, 1).toarray(), [[0.75, 0.25], [0.25, 0.75]])


def test_two_layers_reach_the_neighbour_s_neighbour() -> None:
    # The path 0 - 1 - 2: degrees 2, 3, 2. One layer gives 0 and 2 nothing of each other; two give them
    # 1/sqrt(6) * 1/sqrt(6) = 1/6.
    edges = np.array([[0, 1], [1, 2]], dtype=np.int32)
    assert propagation(edges, 3, "symmetric", 1.0, 1)[0, 2] == 0
    assert propagation(edges, 3, "symmetric", 1.0, 2)[0, 2] == pytest.approx(1 / 6)


def test_an_edge_that_stands_twice_counts_once() -> None:
    once = np.array([[0, 1], [2, 1]], dtype=np.int32)
    twice = np.array([[0, 1], [2, 1], [0, 1], [0, 1]], dtype=np.int32)
    for direction in DIRECTIONS:
        left, right = (propagation(edges, 3, direction, 1.0, 1).toarray() for edges in (once, twice))
        np.testing.assert_array_equal(left, right)


def test_without_edges_nothing_flows() -> None:
    none = np.empty((0, 2), dtype=np.int32)
    np.testing.assert_allclose(propagation(none, 4, "symmetric", 2.0, 3).toarray(), np.eye(4))


def test_the_connected_share_counts_tools_with_an_edge_once() -> None:
    # Tools 0, 1 and 3 of 8.
    assert connected_share(np.array([[0, 1], [3, 1], [1, 0]], dtype=np.int32), 8) == 3 / 8
    assert connected_share(np.empty((0, 2), dtype=np.int32), 8) == 0
