"""Layered graph layout: columns from prerequisites to dependents.

Each connected part is laid out by itself: a tool is one column to the right of its farthest prerequisite, and the
tools of a column are sorted to lie near their neighbours (the barycentre rule of Sugiyama et al. 1981). Edges that
cross a column pass it in a lane of their own, which all edges to the same prerequisite share, so that none runs below a
node. Parts are stacked into columns of about the same height.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from bench.methods.tgr.edges import Edges

ROW = 20.0
GAP = 70.0
_PART_GAP = 26.0
_SWEEPS = 6
_WIDER_THAN_HIGH = 1.5

#: A tool's code, or the lane of edges to a prerequisite through a column: (prerequisite, column).
_Item = int | tuple[int, int]
Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Positions in a drawing.

    Attributes:
        places: tool code -> left edge and middle of its row.
        routes: (dependent, prerequisite) -> the points that its edge runs through in between, right to left; two for
            each lane, between which it is straight.
        width, height: of the whole.
    """

    places: dict[int, Point] = field(default_factory=dict)
    routes: dict[tuple[int, int], list[Point]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def lay_out(edges: Edges, tools: int, widths: Mapping[int, float]) -> Layout:
    """Place every tool that has an edge.

    Args:
        edges: (edges, 2) [dependent, prerequisite].
        tools: number of tools.
        widths: of each tool's node.
    """
    prerequisites: defaultdict[int, set[int]] = defaultdict(set)
    for dependent, prerequisite in edges.tolist():
        prerequisites[dependent].add(prerequisite)
    parts = [_part(codes, prerequisites, widths) for codes in connected_parts(edges, tools)]
    parts.sort(key=lambda part: -part.height)
    area = sum((part.width + _PART_GAP) * (part.height + _PART_GAP) for part in parts)
    # Never lower than the highest part, which comes first.
    height = max([*(part.height for part in parts), math.sqrt(area / _WIDER_THAN_HIGH)])
    whole = Layout()
    left = top = widest = lowest = 0.0
    for part in parts:
        if top and top + part.height > height:
            left, top, widest = left + widest + GAP, 0.0, 0.0
        whole.places.update({code: (left + x, top + y) for code, (x, y) in part.places.items()})
        whole.routes.update({edge: [(left + x, top + y) for x, y in route] for edge, route in part.routes.items()})
        lowest = max(lowest, top + part.height)
        top += part.height + _PART_GAP
        widest = max(widest, part.width)
    return Layout(whole.places, whole.routes, left + widest, lowest)


def connected_parts(edges: Edges, tools: int) -> list[list[int]]:
    """Codes of the tools of each connected part that has an edge, the largest part first."""
    graph = sp.csr_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(tools, tools))
    _, numbers = sp.csgraph.connected_components(graph, directed=False)
    members: defaultdict[int, list[int]] = defaultdict(list)
    for code in np.unique(edges).tolist():
        members[int(numbers[code])].append(code)
    return sorted(members.values(), key=lambda codes: (-len(codes), codes))


def depths(codes: Sequence[int], prerequisites: Mapping[int, set[int]]) -> dict[int, int]:
    """The column of each tool of a part; a circle of dependencies is opened where fewest are left waiting."""
    waiting = {code: set(prerequisites.get(code, ())) for code in codes}
    columns: dict[int, int] = {}
    while waiting:
        ready = [code for code in waiting if not waiting[code]]
        ready = ready or [min(waiting, key=lambda code: (len(waiting[code]), code))]
        for code in ready:
            columns[code] = 1 + max(
                (columns[other] for other in prerequisites.get(code, ()) if other in columns), default=-1
            )
            del waiting[code]
        for left in waiting.values():
            left.difference_update(ready)
    return columns


def _part(codes: Sequence[int], prerequisites: Mapping[int, set[int]], widths: Mapping[int, float]) -> Layout:
    depth = depths(codes, prerequisites)
    columns: list[list[_Item]] = [[] for _ in range(max(depth.values()) + 1)]
    for code in sorted(depth):
        columns[depth[code]].append(code)
    near: defaultdict[_Item, set[_Item]] = defaultdict(set)
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for dependent in codes:
        for prerequisite in sorted(prerequisites.get(dependent, ())):
            crossed = range(depth[dependent] - 1, depth[prerequisite], -1)
            lanes[dependent, prerequisite] = [(prerequisite, column) for column in crossed]
            chain: list[_Item] = [dependent, *lanes[dependent, prerequisite], prerequisite]
            for one, other in itertools.pairwise(chain):
                near[one].add(other)
                near[other].add(one)
    for lane in sorted({lane for crossed in lanes.values() for lane in crossed}):
        columns[lane[1]].append(lane)
    _sort(columns, near)
    return _place_columns(columns, lanes, widths)


def _sort(columns: Sequence[list[_Item]], near: Mapping[_Item, set[_Item]]) -> None:
    """Sort each column by the mean height of the neighbours, to and fro."""
    height = {item: row - len(column) / 2 for column in columns for row, item in enumerate(column)}
    first = {item: i for i, item in enumerate(item for column in columns for item in column)}
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else columns[::-1]:
            wanted = {item: sum(height[other] for other in near[item]) / len(near[item]) for item in column}
            column.sort(key=lambda item: (wanted[item], first[item]))
            height.update({item: row - len(column) / 2 for row, item in enumerate(column)})


def _place_columns(
    columns: Sequence[Sequence[_Item]],
    lanes: Mapping[tuple[int, int], Sequence[tuple[int, int]]],
    widths: Mapping[int, float],
) -> Layout:
    rows = max(len(column) for column in columns)
    places: dict[int, Point] = {}
    through: dict[tuple[int, int], list[Point]] = {}
    left = 0.0
    for column in columns:
        width = max((widths[item] for item in column if isinstance(item, int)), default=0.0)
        for row, item in enumerate(column):
            y = ((rows - len(column)) / 2 + row + 0.5) * ROW
            if isinstance(item, int):
                places[item] = (left, y)
            else:
                through[item] = [(left + width, y), (left, y)]
        left += width + GAP
    routes = {edge: [point for lane in crossed for point in through[lane]] for edge, crossed in lanes.items()}
    return Layout(places, routes, left - GAP, rows * ROW)
