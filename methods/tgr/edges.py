"""Edge lists of dependency graphs by tool code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import DataError
from bench.data.tables import Edge

#: (edges, 2) int32 codes [dependent, prerequisite].
Edges = NDArray[np.int32]

#: Possible relations of a pair of tools (a, b), in the order of a classifier's outputs.
LABELS = ("a depends on b", "neither", "b depends on a")
NEITHER: Final = 1


def coded(edges: list[Edge], codes: Mapping[str, int], where: str) -> Edges:
    """Edges by tool code; raises `DataError` that names the first unknown tool."""
    for edge in edges:
        for tool in (edge.dependent, edge.prerequisite):
            if tool not in codes:
                raise DataError(
                    f"{where}: the edge {edge.dependent} -> {edge.prerequisite} names the unknown tool {tool!r}."
                )
    pairs = [(codes[edge.dependent], codes[edge.prerequisite]) for edge in edges]
    return np.array(pairs, dtype=np.int32).reshape(-1, 2)


def connected_share(edges: Edges, tools: int) -> float:
    """Share of tools that have at least one edge (TGR Table 4)."""
    return len(np.unique(edges)) / tools
