"""Drawings of graphs: well-formed whatever tools are called, complete, and with every node in a place of its own."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.tables import Tool
from bench.lab.graph.drawing import draw
from bench.lab.graph.layout import ROW, connected_parts, depths, lay_out
from bench.methods.tgr.edges import Edges

SVG = "{http://www.w3.org/2000/svg}"


def edges_of(*pairs: tuple[int, int]) -> Edges:
    return np.array(pairs, dtype=np.int32).reshape(-1, 2)


def tools_called(*names: str) -> list[Tool]:
    return [Tool(f"t{i}", name, f"about {name}", f"category {i % 3}") for i, name in enumerate(names)]


def paths(svg: str) -> list[str]:
    """The classes of the edges."""
    root = ElementTree.fromstring(svg)
    return [path.get("class", "") for path in root.iter(f"{SVG}path") if path.get("class")]


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_tool_with_an_edge_is_drawn_once_and_the_others_are_counted() -> None:
    svg = draw(tools_called("a", "b", "c", "d"), edges_of((1, 0), (2, 0)), "Title")
    assert paths(svg) == ["edge", "edge"]
    shown = texts(svg)
    assert shown[0] == "Title"
    assert shown[1].endswith("2 edges; 3 of 4 tools have one.")
    assert sorted(shown[2:5]) == ["t0", "t1", "t2"]
    assert "t3" not in svg


def test_edges_are_told_apart_by_the_annotations() -> None:
    svg = draw(tools_called("a", "b", "c"), edges_of((1, 0), (2, 0)), "x", edges_of((1, 0), (2, 1)))
    assert paths(svg) == ["edge", "edge extra", "edge missed"]
    assert "Dashed: 1 that are not annotated. Dotted: 1 annotated that are missing." in texts(svg)[1]


def test_a_graph_without_edges_is_drawn_as_one() -> None:
    assert paths(draw(tools_called("a"), edges_of(), "none")) == []


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>", "a & b", '"quoted"', "]]>", "--><!--", "&amp;", "\x00\x08null", "\ufffe", "",
        "x" * 500, "名前の長い道具",
    ],
)  # fmt: skip
def test_hostile_names_stay_text(name: str) -> None:
    hostile = Tool("a" * 40 + name.replace("\x00", "")[:100], name, name, name, name)
    svg = draw([hostile, Tool("b", name, name, "c")], edges_of((0, 1)), name)
    root = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "style", "defs", "marker", "path", "rect", "text", "g",
    }  # fmt: skip
    assert len(list(root.iter(f"{SVG}path"))) == 2, "the arrow and one edge"


def test_categories_have_colours_and_a_legend_the_smallest_share_one() -> None:
    tools = [Tool(f"t{i:02}", "n", "", f"category {i // 2:02}") for i in range(30)]
    svg = draw(tools, edges_of(*((i, i + 1) for i in range(0, 30, 2))), "x")
    assert texts(svg)[-1] == "3 other categories"
    fills = {rect.get("fill") for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect") if rect.get("class") == "node"}
    assert len(fills) == 13


# Layout -------------------------------------------------------------------------------------------------------------


def test_dependents_stand_to_the_right_of_what_they_need() -> None:
    # 3 needs 2 needs 1 needs 0, and 3 needs 0 as well: its edge passes two columns in lanes.
    edges = edges_of((1, 0), (2, 1), (3, 2), (3, 0))
    layout = lay_out(edges, 4, dict.fromkeys(range(4), 50.0))
    x = [layout.places[code][0] for code in range(4)]
    assert x == sorted(x)
    assert len(set(x)) == 4
    route = layout.routes[3, 0]
    assert len(route) == 4, "two lanes, two points each"
    assert [point[0] for point in route] == sorted((point[0] for point in route), reverse=True)
    for code in (1, 2):
        assert abs(route[2 * (2 - code)][1] - layout.places[code][1]) >= ROW / 2, "a lane is not behind a node"


def test_edges_to_the_same_tool_share_a_lane() -> None:
    layout = lay_out(edges_of((1, 0), (2, 1), (3, 1), (2, 0), (3, 0)), 4, dict.fromkeys(range(4), 10.0))
    assert layout.routes[2, 0] == layout.routes[3, 0]


def test_circles_are_opened() -> None:
    prerequisites = {0: {1}, 1: {2}, 2: {0}, 3: {0}}
    result = depths([0, 1, 2, 3], prerequisites)
    assert sorted(result) == [0, 1, 2, 3]
    assert result[3] > result[0]
    layout = lay_out(edges_of((0, 1), (1, 0)), 2, {0: 10.0, 1: 10.0})
    assert layout.places[0] != layout.places[1]


def test_parts_are_the_connected_ones() -> None:
    assert connected_parts(edges_of((5, 1), (2, 5), (3, 4)), 7) == [[1, 2, 5], [3, 4]]


@given(st.sets(st.tuples(st.integers(0, 14), st.integers(0, 14)).filter(lambda pair: pair[0] != pair[1]), min_size=1))
@settings(deadline=None, derandomize=True, max_examples=80)
def test_no_two_nodes_overlap_and_all_lie_inside(pairs: set[tuple[int, int]]) -> None:
    edges = edges_of(*sorted(pairs))
    layout = lay_out(edges, 15, dict.fromkeys(range(15), 40.0))
    assert set(layout.places) == set(np.unique(edges).tolist())
    assert set(layout.routes) == pairs
    for x, y in layout.places.values():
        assert 0 <= x <= layout.width - 40 + 1e-6
        assert ROW / 2 <= y <= layout.height - ROW / 2 + 1e-6
    for (x1, y1), (x2, y2) in itertools.combinations(layout.places.values(), 2):
        assert abs(x1 - x2) >= 40 or abs(y1 - y2) >= ROW - 1e-6
