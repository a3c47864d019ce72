"""Why a method with vectors ranked as it did: texts that lie near the query, and neighbours in the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.evidence.explain_methods import tell
from bench.evidence.explain_vocabulary import Case, Explanation, Part, Reason, Told, excerpt, number, parts_of_sum
from bench.methods.tgr.convolution import propagation
from bench.methods.tgr.sources import GraphSource
from bench.protocol import EmbeddingMethod, Method, ScoringMethod
from bench.search.dense import normalized, similarities

#: What a tool's share in its own smoothed vector is called.
OWN = "own text"
#: A change of a score that three decimals do not show.
_NOTHING = 0.0005
#: How much of a tool's text a reason holds.
_MOST_TEXT = 200


def explain_dense(method: Method, case: Case) -> Explanation:
    """dense: the similarity of the query's vector with that of each tool's text, and how like gold its rivals are.

    `like gold` is the cosine of a tool's vector with the most similar gold tool's, itself left out: a rival near 1 says
    the same as gold does, and one far below drew the query for reasons of its own.
    """
    assert isinstance(method, EmbeddingMethod)
    tools = np.array(case.tools, dtype=np.int64)
    vectors = method.tool_vectors()
    scores = similarities(method.query_vectors(case.query), vectors[tools], method.similarity)[0]
    found = dict(zip(case.tools, scores.tolist(), strict=True))
    gold = np.array(sorted(case.gold), dtype=np.int64)
    likeness = similarities(vectors[tools], vectors[gold], "cosine") if len(gold) else np.zeros((len(tools), 0))
    likeness[tools[:, None] == gold[None, :]] = -np.inf
    nearest = likeness.max(axis=1, initial=-np.inf)
    measure = "cosine" if method.similarity == "cosine" else f"{method.similarity} similarity"
    reasons = {}
    for i, tool in enumerate(case.tools):
        cell = float(nearest[i]) if np.isfinite(nearest[i]) else None
        because = ""
        rival = case.rivals.get(tool)
        if rival is not None:
            between = similarities(vectors[[tool]], vectors[[rival]], "cosine")[0, 0]
            because = (
                f"{measure} with the query {number(found[tool])}, {case.id_of(rival)} has {number(found[rival])}; "
                f"the two texts: cosine {number(between)}"
            )
        text = excerpt(case.library.texts[tool], _MOST_TEXT)
        reasons[tool] = Reason(found[tool], (), (cell,), text, because)
    notes = (
        f"Score: {measure} with the query. Like gold: cosine of its text with that of the most similar gold tool.",
    )
    return Explanation("how its text begins", ("like gold",), reasons, notes=notes)


@dataclass(frozen=True)
class _Smoothed:
    """Shares of the tools' scores: (shown, library) what each tool of the library gives to each one that is shown."""

    shares: NDArray[np.float64]
    scores: NDArray[np.float64]
    additive: bool


def explain_graph(method: Method, case: Case) -> Explanation:
    """tgr: what a tool scores by its own text, and what each neighbour adds through the convolution.

    With X' = P X, rows scaled to length 1, the similarity of a query q with tool i is the sum over tools j of
    P_ij (q·x_j) / |X'_i|, for cosine and dot; with scores in place of vectors, of P_ij s_j / Σ_k P_ik. So the parts sum
    to the score. Distances are no such sum: neighbours are then listed by name.
    """
    chosen = method.parameters
    base = case.prepare(str(chosen.base))
    source = GraphSource(
        chosen.graph,
        chosen.most_producers,
        chosen.discriminator,
        chosen.nearest,
        chosen.within,
        method.context.progress,
    )
    edges = source.edges(case.library)
    weights = propagation(edges, len(case.library), chosen.direction, chosen.alpha, chosen.layers)
    tools = np.array(case.tools, dtype=np.int64)
    smoothed = _smoothed(base, case, weights[tools].toarray())
    told = tell(base, case)
    labels = _Labels({(int(a), int(b)) for a, b in edges}, case)
    neighbours = {tool: weights[[tool]].nnz - 1 for tool in case.tools}
    reasons = {}
    for i, tool in enumerate(case.tools):
        flowing = np.flatnonzero(weights[[tool]].toarray()[0])
        parts, note = _parts(smoothed, i, tool, flowing, labels)
        alone = told.places[tool]
        cells = (alone.rank, alone.score)
        because = _because(tool, case, told, smoothed, neighbours)
        reasons[tool] = Reason(float(smoothed.scores[i]), parts, cells, note, because if tool in case.gold else "")
    title = "own text and neighbours, and what each adds"
    return Explanation(
        title if smoothed.additive else "its neighbours in the graph",
        ("base rank", "base score"),
        reasons,
        notes=_notes(chosen.graph, len(edges), chosen.direction, chosen.layers),
        bases=(told,),
    )


def _smoothed(base: Method, case: Case, rows: NDArray[np.float64]) -> _Smoothed:
    if isinstance(base, EmbeddingMethod):
        vectors, query = base.tool_vectors().astype(np.float64), base.query_vectors(case.query)
        mixed = rows @ vectors
        scores = similarities(query, normalized(mixed), base.similarity)[0]
        if base.similarity not in ("cosine", "dot"):
            return _Smoothed(np.zeros_like(rows), scores, False)
        direction = normalized(query)[0] if base.similarity == "cosine" else query[0].astype(np.float64)
        lengths = np.linalg.norm(mixed, axis=1, keepdims=True)
        given = rows * (vectors @ direction)
        return _Smoothed(np.divide(given, lengths, out=np.zeros_like(given), where=lengths > 0), scores, True)
    assert isinstance(base, ScoringMethod)
    shares = rows * base.score(case.query) / rows.sum(axis=1, keepdims=True)
    return _Smoothed(shares, shares.sum(axis=1), True)


class _Labels:
    """What a neighbour is to a tool, in two words."""

    def __init__(self, edges: set[tuple[int, int]], case: Case) -> None:
        self._edges = edges
        self._case = case

    def __call__(self, tool: int, other: int) -> str:
        if other == tool:
            return OWN
        name = self._case.id_of(other)
        if (tool, other) in self._edges:
            return f"needs {name}"
        return f"for {name}" if (other, tool) in self._edges else f"via {name}"


def _parts(
    smoothed: _Smoothed, row: int, tool: int, flowing: NDArray[np.int64], labels: _Labels
) -> tuple[tuple[Part, ...], str]:
    names = [labels(tool, int(other)) for other in flowing]
    if not smoothed.additive:
        return (), ", ".join(name for name in names if name != OWN) or "no neighbours"
    found = parts_of_sum(names, smoothed.shares[row, flowing], np.ones(len(flowing), dtype=np.bool_))
    # Its own text first: the rest is what the graph brought.
    return tuple(sorted(found, key=lambda part: part.name != OWN)), ""


def _because(tool: int, case: Case, told: Told, smoothed: _Smoothed, neighbours: Mapping[int, int]) -> str:
    rival = case.rivals.get(tool)
    if rival is None:
        return ""
    row = {code: i for i, code in enumerate(case.tools)}

    def way(code: int) -> str:
        """What the graph did to a tool."""
        alone, after = told.places[code], float(smoothed.scores[row[code]])
        before = 0.0 if alone.score is None else alone.score
        if abs(after - before) < _NOTHING:
            return f"leaves {{}} at {number(after)}"
        does = "lifts" if after > before else "pulls"
        return f"{does} {{}} from {number(before)} (rank {alone.rank or '-'}) to {number(after)}"

    own = f"it has no neighbour and keeps {number(float(smoothed.scores[row[tool]]))}"
    if neighbours[tool]:
        own = f"the graph {way(tool).format('it')} with {_counted(neighbours[tool])}"
    name = case.id_of(rival)
    if not neighbours[rival]:
        return f"{own}; {name} has no neighbour and keeps {number(float(smoothed.scores[row[rival]]))}"
    who = "it" if neighbours[tool] else "the graph"
    return f"{own}; {who} {way(rival).format(name)} with {_counted(neighbours[rival])}"


def _counted(neighbours: int) -> str:
    return "1 neighbour" if neighbours == 1 else f"{neighbours} neighbours"


def _notes(graph: str, edges: int, direction: str, layers: int) -> tuple[str, ...]:
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
