"""The layout of a graph: rows are sorted so that edges cross as little as the barycentre rule can make them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bench.lab.graph.layout import Layout, lay_out
from bench.methods.tgr.edges import Edges


def edges_of(*pairs: tuple[int, int]) -> Edges:
    return np.array(pairs, dtype=np.int32).reshape(-1, 2)


def crossings(layout: Layout) -> int:
    """Pairs of edges that cross between the columns: their ends are in opposite orders."""
    segments: dict[float, set[tuple[float, float]]] = {}
    for (dependent, prerequisite), route in layout.routes.items():
        points = [layout.places[dependent], *route, layout.places[prerequisite]]
        # A lane has two points, between which nothing can cross it.
        for (x, y), (_, to) in zip(points[::2], points[1::2], strict=True):
            segments.setdefault(x, set()).add((y, to))
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < 0
        for column in segments.values()
        for a, b in itertools.combinations(sorted(column), 2)
    )


def test_crossings_are_counted() -> None:
    places = {0: (0.0, 0.0), 1: (0.0, 1.0), 2: (9.0, 0.0), 3: (9.0, 1.0)}
    assert crossings(Layout(places, {(2, 0): [], (3, 1): []})) == 0
    assert crossings(Layout(places, {(2, 1): [], (3, 0): []})) == 1


@pytest.mark.parametrize(
    "pairs",
    [
        # In the order of their codes, all pairs of edges cross.
        pytest.param([(4, 3), (5, 2), (6, 1), (7, 0), (4, 2), (5, 1), (6, 0)], id="a zigzag"),
        pytest.param(
            [(3, 2), (4, 1), (5, 0), (6, 5), (7, 4), (8, 3), (9, 6), (9, 7), (9, 8)], id="three crossed chains"
        ),
        pytest.param([(2, 1), (3, 0), (4, 3), (5, 2), (6, 4), (6, 5), (6, 0), (4, 0)], id="with lanes"),
    ],
)
def test_graphs_that_can_be_drawn_without_a_crossing_are(pairs: list[tuple[int, int]]) -> None:
    tools = 1 + max(max(pair) for pair in pairs)
    assert crossings(lay_out(edges_of(*pairs), tools, dict.fromkeys(range(tools), 30.0))) == 0


@pytest.mark.parametrize("seed", range(5))
def test_trees_are_drawn_without_crossings(seed: int) -> None:
    """A tree whose nodes are all in the column of their depth can be drawn so; codes are shuffled."""
    random = np.random.default_rng(seed)
    parents = [0, 0, 0, *(int(random.integers(1, 4)) for _ in range(8))]
    names = random.permutation(12)
    pairs = [(int(names[child]), int(names[parent])) for child, parent in enumerate(parents, start=1)]
    layout = lay_out(edges_of(*sorted(pairs)), 12, dict.fromkeys(range(12), 30.0))
    assert crossings(layout) == 0
