"""Why TGR ranked as it did: a tool's own score, and what its neighbours in the graph add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.interface import Case, Contribution, Explanation, Method, Reason
from bench.interface.explanation import ExplainedAnswer, number, parts_of_sum
from bench.methods.tgr.convolution import Direction
from bench.methods.tgr.edges import Edges
from bench.search.dense import normalize, similarities
from bench.search.scoring import EmbeddingMethod, ScoringMethod
from bench.show.numbers import several

if TYPE_CHECKING:
    import scipy.sparse as sp

#: The name of a tool's share in its own smoothed vector.
OWN = "own text"
#: A change of a score that is invisible with three decimals.
_NOTHING = 0.0005


@dataclass(frozen=True)
class _Smoothed:
    """Shares of the tools' scores: (displayed, library) what each tool of the library adds to each displayed one."""

    shares: NDArray[np.float64]
    scores: NDArray[np.float64]
    additive: bool


def explain_graph(
    case: Case, base: Method, edges: Edges, weights: sp.csr_matrix, scaled: bool, notes: tuple[str, ...]
) -> Explanation:
    """What a tool scores by its own text, and what each neighbour adds through the convolution.

    With X' = P X, rows scaled to length 1, the similarity of a query q with tool i is the sum over tools j of P_ij
    (q·x_j) / |X'_i|, for cosine and dot; with scores in place of vectors, of P_ij s_j / Σ_k P_ik. So the parts sum to
    the score. Without the scaling, the divisor is 1, except for cosine. Distances are not such a sum: neighbours are
    then listed by name.

    Args:
        case: the query and the displayed tools.
        base: the method whose vectors or scores are smoothed.
        edges: (edges, 2) of the graph.
        weights: (tools, tools) P.
        scaled: whether rows of X' have length 1, and scores are weighted means.
        notes: remarks on the graph.
    """
    rows = weights[np.array(case.tools, dtype=np.int64)].toarray()
    smoothed = _smoothed(base, case, rows, scaled)
    answer = case.answer(base)
    pairs = {(int(a), int(b)) for a, b in edges}

    def label(tool: int, other: int) -> str:
        """The relation of a neighbour to a tool, in two words."""
        if other == tool:
            return OWN
        way = "needs" if (tool, other) in pairs else "for" if (other, tool) in pairs else "via"
        return f"{way} {case.id_of(other)}"

    flows = {tool: np.flatnonzero(row) for tool, row in zip(case.tools, rows, strict=True)}
    neighbours = {tool: len(flowing) - 1 for tool, flowing in flows.items()}
    reasons = {}
    for i, (tool, flowing) in enumerate(flows.items()):
        parts, note = _parts(smoothed, i, flowing, [label(tool, other) for other in flowing.tolist()])
        alone = answer.positions[tool]
        because = _because(tool, case, answer, smoothed, neighbours) if tool in case.gold else ""
        reasons[tool] = Reason(float(smoothed.scores[i]), parts, (alone.rank, alone.score), note, because)
    title = "own text and neighbours, and what each adds"
    return Explanation(
        title if smoothed.additive else "its neighbours in the graph",
        ("base rank", "base score"),
        reasons,
        notes=notes,
        bases=(answer,),
    )


def _smoothed(base: Method, case: Case, rows: NDArray[np.float64], scaled: bool) -> _Smoothed:
    if isinstance(base, EmbeddingMethod):
        vectors, query = base.tool_vectors().astype(np.float64), base.query_vectors(case.query)
        mixed = rows @ vectors
        scores = similarities(query, normalize(mixed) if scaled else mixed, base.similarity)[0]
        if base.similarity not in ("cosine", "dot"):
            return _Smoothed(np.zeros_like(rows), scores, False)
        direction = normalize(query)[0] if base.similarity == "cosine" else query[0].astype(np.float64)
        lengths = np.linalg.norm(mixed, axis=1, keepdims=True)
        given = rows * (vectors @ direction)
        if not scaled and base.similarity == "dot":
            return _Smoothed(given, scores, True)
        return _Smoothed(np.divide(given, lengths, out=np.zeros_like(given), where=lengths > 0), scores, True)
    assert isinstance(base, ScoringMethod)
    shares = rows * base.score(case.query) / (rows.sum(axis=1, keepdims=True) if scaled else 1.0)
    return _Smoothed(shares, shares.sum(axis=1), True)


def _parts(
    smoothed: _Smoothed, row: int, flowing: NDArray[np.int64], names: list[str]
) -> tuple[tuple[Contribution, ...], str]:
    if not smoothed.additive:
        return (), ", ".join(name for name in names if name != OWN) or "no neighbours"
    parts = parts_of_sum(names, smoothed.shares[row, flowing], np.ones(len(flowing), dtype=np.bool_))
    # Its own text first; the rest comes from the graph.
    return tuple(sorted(parts, key=lambda part: part.name != OWN)), ""


def _because(tool: int, case: Case, answer: ExplainedAnswer, smoothed: _Smoothed, neighbours: Mapping[int, int]) -> str:
    rival = case.rivals.get(tool)
    if rival is None:
        return ""
    row = {code: i for i, code in enumerate(case.tools)}

    def way(code: int) -> str:
        """The effect of the graph on a tool."""
        alone, after = answer.positions[code], float(smoothed.scores[row[code]])
        before = 0.0 if alone.score is None else alone.score
        if abs(after - before) < _NOTHING:
            return f"leaves {{}} at {number(after)}"
        does = "lifts" if after > before else "pulls"
        return f"{does} {{}} from {number(before)} (rank {alone.rank or '-'}) to {number(after)}"

    sentence = f"it has no neighbour and keeps {number(float(smoothed.scores[row[tool]]))}"
    if neighbours[tool]:
        sentence = f"the graph {way(tool).format('it')} with {several(neighbours[tool], 'neighbour')}"
    name = case.id_of(rival)
    if not neighbours[rival]:
        return f"{sentence}; {name} has no neighbour and keeps {number(float(smoothed.scores[row[rival]]))}"
    who = "it" if neighbours[tool] else "the graph"
    return f"{sentence}; {who} {way(rival).format(name)} with {several(neighbours[rival], 'neighbour')}"


def graph_notes(graph: str, edges: int, direction: Direction, layers: int) -> tuple[str, ...]:
    """A description of the graph, and a legend for the labels of neighbours."""
    ways = {
        "symmetric": "both ways",
        "prerequisite": "from tools to what they need",
        "dependent": "from what is needed to the tools that need it",
    }
    times = "once" if layers == 1 else f"{layers} times"
    return (
        f"graph={graph}, {edges} edges; scores flow {ways[direction]}, {times}. `needs X`: X is its prerequisite; "
        "`for X`: it is the prerequisite of X" + ("; `via X`: X is further away." if layers > 1 else "."),
    )
