"""Hierarchy-aware reranking: parents, seen parents, and connected groups of tools.

Zheng et al. 2024, "ToolRerank: Adaptive and Hierarchy-Aware Reranking for Tool Retrieval", sections 3.2 and 3.3. The
paper's "tool" is the parent here, and its "API" the tool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def truncated(seen: NDArray[np.bool_], seen_depth: int, unseen_depth: int) -> NDArray[np.int64]:
    """Adaptive Truncation (section 3.2): the positions of the retrieved list that are kept, in its order.

    Args:
        seen: (length,) whether the parent of the tool at each position is seen.
        seen_depth: m_s, the last position (from 1) at which a tool of a seen parent is kept.
        unseen_depth: m_u, the same for unseen parents.
    """
    place = np.arange(1, len(seen) + 1)
    return np.flatnonzero(place <= np.where(seen, seen_depth, unseen_depth))


@dataclass(frozen=True)
class Split:
    """Positions of a reranked list in two parts, F₁ and F₂, each in the list's order."""

    first: NDArray[np.int64]
    rest: NDArray[np.int64]

    @property
    def order(self) -> NDArray[np.int64]:
        """F₁ and then F₂."""
        return np.concatenate([self.first, self.rest])


def concentrated(parents: NDArray[np.int64], scores: NDArray[np.float64], threshold: float) -> Split:
    """Algorithm 1, for queries of one parent: tools of the likely parents come first.

    A parent is likely when one of its tools scores above the threshold; the first tool's parent always is.

    Args:
        parents: (length,) parent of the tool at each position of the reranked list.
        scores: (length,) its relevance, descending.
        threshold: τ_s.
    """
    likely = scores > threshold
    likely[:1] = True
    is_first = np.isin(parents, parents[likely])
    return Split(np.flatnonzero(is_first), np.flatnonzero(~is_first))


def diversified(parents: NDArray[np.int64], similarity: NDArray[np.float64], threshold: float, most: int) -> Split:
    """Algorithm 2, for queries of several parents: the best few of each group of like tools come first.

    Two tools are alike when they share a parent or are more similar than the threshold; a group is a connected
    component, so it also holds tools that are alike through others.

    Args:
        parents: (length,) parent of the tool at each position of the reranked list, best first.
        similarity: (length, length) of the tools, symmetric.
        threshold: τ_m.
        most: n, how many of a group come first.
    """
    alike = (parents[:, None] == parents[None, :]) | (similarity > threshold)
    is_first = np.zeros(len(parents), dtype=np.bool_)
    groups = components(alike)
    for group in np.unique(groups):
        is_first[np.flatnonzero(groups == group)[:most]] = True
    return Split(np.flatnonzero(is_first), np.flatnonzero(~is_first))


def components(alike: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(length,) the connected component of each node, named by its lowest node.

    Args:
        alike: (length, length), symmetric.
    """
    names = np.arange(len(alike))
    reached = alike | np.eye(len(alike), dtype=np.bool_)
    while True:
        # Each node takes the lowest name among its neighbours, until no name changes.
        lowest = np.where(reached, names[None, :], len(alike)).min(axis=1, initial=len(alike))
        if (lowest == names).all():
            return names
        names = lowest
