"""Hierarchy-aware reranking: parents, seen parents, and connected groups of tools.

Zheng et al. 2024, "ToolRerank: Adaptive and Hierarchy-Aware Reranking for Tool Retrieval", sections 3.2 and 3.3. The
paper's "tool" is the parent here, and its "API" the tool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
#: Tools of one query, the most relevant first, and their logits.
Scored = tuple[Codes, NDArray[np.float64]]


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
    """Positions of a reranked list in two parts, F₁ and F₂, each in the list's order.

    Attributes:
        first, rest: the two parts.
        groups: (length,) in Algorithm 2, the group of each position, named by its lowest; None in Algorithm 1.
    """

    first: NDArray[np.int64]
    rest: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None

    @property
    def order(self) -> NDArray[np.int64]:
        """F₁ and then F₂."""
        return np.concatenate([self.first, self.rest])


def concentrated(parents: NDArray[np.int64], scores: NDArray[np.float64], threshold: float) -> Split:
    """Algorithm 1, for queries of one parent: tools of the likely parents come first.

    A parent is likely if one of its tools scores above the threshold; the first tool's parent always is.

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

    Two tools are similar if they share a parent or their similarity exceeds the threshold; a group is a connected
    component, so it also includes tools that are similar through others.

    Args:
        parents: (length,) parent of the tool at each position of the reranked list, best first.
        similarity: (length, length) of the tools, symmetric.
        threshold: τ_m.
        most: n, the number of tools per group that come first.
    """
    alike = (parents[:, None] == parents[None, :]) | (similarity > threshold)
    is_first = np.zeros(len(parents), dtype=np.bool_)
    groups = components(alike)
    for group in np.unique(groups):
        is_first[np.flatnonzero(groups == group)[:most]] = True
    return Split(np.flatnonzero(is_first), np.flatnonzero(~is_first), groups)


def components(alike: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(length,) the connected component of each node, named by its lowest node.

    Args:
        alike: (length, length), symmetric.
    """
    from scipy.sparse.csgraph import connected_components

    _, labels = connected_components(alike, directed=False)
    _, lowest = np.unique(labels, return_index=True)
    return np.asarray(lowest[labels], dtype=np.int64)


@dataclass(frozen=True)
class Reranking:
    """The results of the stages for one query, from which the ranking and its explanation follow.

    Attributes:
        retrieved: the base's tools, in its order.
        reranked, logits: those kept by Adaptive Truncation, the most relevant first, and their logits.
        single: which of the two algorithms was used: 1 (True) or 2; None if the hierarchy is not used.
        split: positions of `reranked` in F₁ and F₂; all are in F₁ if the hierarchy is not used.
        brought, brought_logits: tools that likely parents add to F₁, the most relevant first, and their logits.
    """

    retrieved: Codes
    reranked: Codes
    logits: NDArray[np.float64]
    single: bool | None
    split: Split
    brought: Codes
    brought_logits: NDArray[np.float64]

    @property
    def order(self) -> Codes:
        """F₁ with the tools added to it, by relevance; F₂; then tools that were not reranked, in the base's order."""
        first = np.append(self.reranked[self.split.first], self.brought)
        logits = np.append(self.logits[self.split.first], self.brought_logits)
        head = np.append(by_relevance(first, logits)[0], self.reranked[self.split.rest])
        return np.concatenate([head, self.retrieved[~np.isin(self.retrieved, head)]])


def by_relevance(tools: Codes, scores: NDArray[np.float64]) -> Scored:
    """Tools by score, the highest first, ties by code."""
    order = np.lexsort((tools, -scores))
    return tools[order], scores[order]
