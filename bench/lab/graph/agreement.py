"""Graph statistics, and agreement with annotated edges (TGR Tables 3 and 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data.tables import Tool
from bench.methods.tgr.edges import LABELS, NEITHER, Edges

#: Number of pairs without a dependency in the paper's test of its discriminator.
_NEITHER_PAIRS = 500


#: (pairs, 3) probabilities of `LABELS` for pairs of tools, from TGR's discriminator.
Probabilities = Callable[[Sequence[Tool], Edges], NDArray[np.float64]]


@dataclass(frozen=True)
class Agreement:
    """Found edges compared with annotated ones; an edge must have the right direction.

    Attributes:
        found, annotated, right: numbers of edges.
        precision, recall: shares of the found and of the annotated edges that are right; 0 without any.
        f1: their harmonic mean.
    """

    found: int
    annotated: int
    right: int
    precision: float
    recall: float
    f1: float


def edge_set(edges: Edges) -> set[tuple[int, int]]:
    """Edges as pairs (dependent, prerequisite)."""
    return {(int(a), int(b)) for a, b in edges}


def agreement(derived: Edges, annotated: Edges) -> Agreement:
    """Compare found edges with annotated ones."""
    ours, theirs = edge_set(derived), edge_set(annotated)
    sizes, right = (len(ours), len(theirs)), len(ours & theirs)
    shares = [part / max(1, whole) for part, whole in ((right, sizes[0]), (right, sizes[1]), (2 * right, sum(sizes)))]
    return Agreement(*sizes, right, *shares)


def wilson(right: int, of: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share (Wilson 1927); (0, 1) without a sample."""
    if not of:
        return 0.0, 1.0
    from scipy.stats import binomtest  # takes half a second to import, and only one verb needs it

    interval = binomtest(right, of).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def macro_scores(labels: NDArray[np.int64], predicted: NDArray[np.int64]) -> tuple[float, float, float]:
    """Precision, recall and F1, each the mean over categories; categories that never occur are left out."""
    rows = []
    for category in np.union1d(labels, predicted):
        right = np.count_nonzero((labels == category) & (predicted == category))
        true, taken = np.count_nonzero(labels == category), np.count_nonzero(predicted == category)
        rows.append((right / taken if taken else 0.0, right / true if true else 0.0, 2 * right / (true + taken)))
    precision, recall, f1 = np.mean(rows, axis=0).tolist()
    return precision, recall, f1


def three_way(probabilities: Probabilities, tools: Sequence[Tool], annotated: Edges) -> dict[str, float]:
    """Test the discriminator as the paper does (Table 3): each annotated edge in both orders, and random other pairs.

    The category of a pair is the most probable one; no threshold, no candidates.

    Returns:
        precision, recall and f1, means over the three categories; `edges` and `others`: how many pairs of each kind.
    """
    edges = edge_set(annotated)
    codes = len(tools)
    random = np.random.default_rng(0)
    others: dict[tuple[int, int], None] = {}
    free = codes * (codes - 1) // 2 - len({(min(pair), max(pair)) for pair in edges})
    while len(others) < min(_NEITHER_PAIRS, free):
        a, b = random.integers(0, codes, size=2).tolist()
        if a != b and not {(a, b), (b, a)} & (edges | others.keys()):
            others[a, b] = None
    pairs = np.array([*sorted(edges), *[(b, a) for a, b in sorted(edges)], *others], dtype=np.int32).reshape(-1, 2)
    labels = np.repeat([0, len(LABELS) - 1, NEITHER], [len(edges), len(edges), len(others)])
    precision, recall, f1 = macro_scores(labels, probabilities(tools, pairs).argmax(axis=1))
    return {"precision": precision, "recall": recall, "f1": f1, "edges": 2 * len(edges), "others": len(others)}


@dataclass(frozen=True)
class Density:
    """One category of a library: its tools, how many have an edge, and the edges between them."""

    category: str
    tools: int
    connected: int
    edges: int

    @property
    def share(self) -> float:
        """Share of the tools that have an edge."""
        return self.connected / self.tools


def densities(tools: Sequence[Tool], edges: Edges) -> list[Density]:
    """Each category's density, the densest first. An edge from one category to another connects both its tools."""
    touched = set(np.unique(edges).tolist())
    sizes = Counter(tool.category for tool in tools)
    connected = Counter(tool.category for code, tool in enumerate(tools) if code in touched)
    inside = Counter(tools[a].category for a, b in edges.tolist() if tools[a].category == tools[b].category)
    rows = [Density(name, size, connected[name], inside[name]) for name, size in sizes.items()]
    return sorted(rows, key=lambda density: (-density.share, density.category))
