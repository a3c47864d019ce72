"""Tool Graph Retriever: tool embeddings smoothed over a dependency graph.

Gao et al. 2025, "Tool Graph Retriever: Exploring Dependency Graph-based Tool Retrieval for Large Language Models".
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation
from bench.methods.tgr.candidates import NEAREST, Within
from bench.methods.tgr.convolution import Direction, propagation
from bench.methods.tgr.edges import connected_share
from bench.methods.tgr.sources import GraphSource
from bench.search.dense import VectorIndex, normalize
from bench.search.scoring import EmbeddingMethod, ScoringMethod
from bench.search.topk import top_k


class ToolGraphRetriever(Method):
    """Graph smoothing of the base's vectors: X' = D^-1/2 (A + αI) D^-1/2 X (eq. 3).

    The base provides X, and its similarity compares X' with a query. The equation changes the lengths of rows: they
    become long for a tool with many neighbours. Cosine ignores length; dot product, L1 and L2 do not.

    If the base has scores but no vectors (bm25, tfidf), the scores are smoothed with the same weights.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="method whose vectors or scores are smoothed")
        graph: str = Field(
            "rules",
            description="`rules`, `manual` (the dataset's annotated edges), `discriminator` (a trained classifier), or "
            "a TSV file of edges",
        )
        direction: Direction = Field("symmetric", description="direction of the smoothing along dependency edges")
        layers: int = Field(1, ge=1, le=10, description="number of smoothing steps (layers)")
        alpha: float = Field(1.0, gt=0, description="weight of the self-loop (α); 1 in the paper")
        scale: Literal["unit", "none"] = Field(
            "unit",
            description="scaling after eq. 3: `unit` gives vectors length 1 (and divides scores by the sum of "
            "weights); `none` leaves the equation as printed, which matters where the similarity is not cosine",
            json_schema_extra={"added": True},
        )
        most_producers: int = Field(
            3, ge=1, description="graph=rules: ignore a handle returned by more tools than this"
        )
        discriminator: str = Field(
            "", description="graph=discriminator: classifier folder from `bench train discriminator`"
        )
        nearest: int = Field(
            NEAREST, ge=0, description="graph=discriminator: nearest tools by text to propose as candidate pairs"
        )
        within: Within = Field(
            "library",
            description="graph=discriminator: scope of the edges; `category` allows only edges inside a category",
        )

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        base = context.build(parameters.base)
        if not isinstance(base, EmbeddingMethod | ScoringMethod):
            raise UsageError(f"tgr cannot use base={parameters.base}: it has neither vectors nor scores for all tools.")
        self._base: Method = base
        self._graph = self.include(
            GraphSource(
                parameters.graph,
                parameters.most_producers,
                parameters.discriminator,
                parameters.nearest,
                parameters.within,
                context.progress,
            )
        )

    def preflight(self, library: Library, history: History) -> None:
        self._graph.check(library)

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._base.index(library)
        self._edges = self._graph.edges(library)
        share = round(connected_share(self._edges, len(library)), 4)
        self._facts = {"edges": len(self._edges), "connected_share": share}
        chosen = self.parameters
        self._weights = propagation(self._edges, len(library), chosen.direction, chosen.alpha, chosen.layers)
        scaled = chosen.scale == "unit"
        if isinstance(self._base, EmbeddingMethod):
            smoothed = self._weights @ self._base.tool_vectors().astype(np.float64)
            self._index = VectorIndex(normalize(smoothed) if scaled else smoothed, self._base.similarity)
        else:
            self._totals = np.asarray(self._weights.sum(axis=1)).ravel() if scaled else np.ones(len(library))

    def score(self, queries: Queries) -> NDArray[np.float64]:
        if isinstance(self._base, EmbeddingMethod):
            return self._index.score(self._base.query_vectors(queries))
        assert isinstance(self._base, ScoringMethod)
        scores: NDArray[np.float64] = (self._weights @ self._base.score(queries).T).T / self._totals
        return scores

    def rank(self, queries: Queries, depth: int) -> Ranking:
        if isinstance(self._base, EmbeddingMethod):
            return self._index.rank(self._base.query_vectors(queries), depth)
        return top_k(self.score(queries), depth)

    def facts(self) -> dict[str, str | int | float | bool]:
        return {"graph": self.parameters.graph, **self._facts}

    def explain(self, case: Case) -> Explanation:
        from bench.methods.tgr.explain import explain_graph, graph_notes

        chosen = self.parameters
        notes = graph_notes(chosen.graph, len(self._edges), chosen.direction, chosen.layers)
        return explain_graph(case, self._base, self._edges, self._weights, chosen.scale == "unit", notes)
