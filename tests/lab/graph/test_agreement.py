"""Graphs held against annotated edges."""

from __future__ import annotations

import numpy as np
import pytest

from bench.data.tables import Tool
from bench.lab.graph.agreement import agreement, densities, macro_scores, three_way, wilson
from bench.methods.tgr.edges import Edges


def edges_of(*pairs: tuple[int, int]) -> Edges:
    return np.array(pairs, dtype=np.int32).reshape(-1, 2)


def test_an_edge_is_right_in_its_direction_only() -> None:
    result = agreement(edges_of((1, 0), (2, 1), (0, 3), (1, 0)), edges_of((1, 0), (1, 2)))
    assert (result.found, result.annotated, result.right) == (3, 2, 1)
    assert (result.precision, result.recall, result.f1) == (1 / 3, 1 / 2, 2 / 5)


def test_nothing_found_or_annotated_counts_as_nothing() -> None:
    none = agreement(edges_of(), edges_of())
    assert (none.precision, none.recall, none.f1) == (0, 0, 0)
    assert agreement(edges_of(), edges_of((0, 1))).recall == 0


def test_macro_scores_by_hand() -> None:
    # Category 0: 1 of 2 found right, 1 of 1 true; category 1: 2 of 2, 2 of 3; category 2 is nowhere.
    precision, recall, f1 = macro_scores(np.array([0, 1, 1, 1]), np.array([0, 0, 1, 1]))
    assert (precision, recall) == (3 / 4, pytest.approx(5 / 6))
    assert f1 == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_wilsons_interval_is_that_of_the_books() -> None:
    # 8 of 10: 0.4902 to 0.9433.
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    low, high = wilson(0, 10)
    assert (low, high) == (pytest.approx(0, abs=1e-12), pytest.approx(0.2775, abs=1e-4))
    assert wilson(0, 0) == (0, 1)


def test_the_density_of_a_category_is_its_share_of_connected_tools() -> None:
    tools = [Tool(str(i), "n", "", "ab"[i // 3] if i < 5 else "c") for i in range(6)]
    rows = densities(tools, edges_of((0, 1), (0, 3)))
    assert [(row.category, row.tools, row.connected, row.edges) for row in rows] == [
        ("a", 3, 2, 1),
        ("b", 2, 1, 0),
        ("c", 1, 0, 0),
    ]
    assert rows[0].share == 2 / 3


class Known:
    """A discriminator that knows some edges."""

    def __init__(self, *edges: tuple[int, int]) -> None:
        self.edges = set(edges)
        self.asked: list[tuple[int, int]] = []

    def probabilities(self, tools: object, pairs: Edges) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        self.asked = [(int(a), int(b)) for a, b in pairs]
        return np.array([[pair in self.edges, 0.5, pair[::-1] in self.edges] for pair in self.asked], dtype=np.float64)


def test_the_three_way_test_asks_each_edge_in_both_orders_and_pairs_without_one() -> None:
    tools = [Tool(f"{i:02}", "n", "") for i in range(40)]
    annotated = edges_of((1, 0), (2, 1))
    knows_all, knows_one = Known((1, 0), (2, 1)), Known((1, 0))
    result = three_way(knows_all.probabilities, tools, annotated)
    assert result == {"precision": 1, "recall": 1, "f1": 1, "edges": 4, "others": 500}
    assert knows_all.asked[:4] == [(1, 0), (2, 1), (0, 1), (1, 2)]
    others = {frozenset(pair) for pair in knows_all.asked[4:]}
    assert len(others) == 500
    assert not others & {frozenset({0, 1}), frozenset({1, 2})}
    # Half of the edges in either order, all others.
    result = three_way(knows_one.probabilities, tools, annotated)
    assert result["recall"] == pytest.approx((0.5 + 0.5 + 1) / 3)


def test_a_small_library_is_asked_for_all_the_pairs_it_has() -> None:
    tools = [Tool(str(i), "n", "") for i in range(4)]
    result = three_way(Known().probabilities, tools, edges_of((1, 0)))
    assert result["others"] == 5
