"""A cross-encoder puts the first tools of another method in a new order."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from bench.models.classifiers import Backend
from bench.models.crossencoders import CrossEncoder
from bench.protocol import Context, History, Library, Method, Queries, Ranking
from bench.protocol.ranking import PAD
from bench.specs.parameters import MethodSpec, ParameterSet
from bench.specs.spec import Spec


class Rerank(Method):
    """Rerank-m (Nogueira and Cho 2019): a cross-encoder scores the base's first `depth` tools; the rest stay below.

    What lies deeper keeps the base's order. A reranked tool's score is the cross-encoder's logit; below them the scores
    only say the order.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="the method that retrieves")
        reranker: str = Field("", description="the cross-encoder: a folder, or a name on the hub (required)")
        depth: int = Field(30, ge=1, description="m: how many of the base's tools are scored")
        backend: Backend = Field("torch", description="what computes the cross-encoder")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._base = context.build(parameters.base)
        self._scorer = self.include(
            CrossEncoder(parameters.reranker, backend=parameters.backend, progress=context.progress)
        )

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._texts = library.texts
        self._base.index(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        pool = self.parameters.depth
        base = self._base.rank(queries, max(pool, depth))
        row, column = np.nonzero(base.tools[:, :pool] != PAD)
        found = base.tools[row, column]
        pairs = [(queries.texts[i], self._texts[tool]) for i, tool in zip(row, found, strict=True)]
        scores = np.full(base.tools.shape, -np.inf)
        scores[row, column] = self._scorer.score(pairs)
        place = np.arange(base.tools.shape[1])
        head = scores[:, :pool]
        lowest = np.min(head, axis=1, where=np.isfinite(head), initial=0.0)
        below = lowest[:, None] - 1 - place
        scores[:, pool:] = np.where(base.tools[:, pool:] != PAD, below[:, pool:], -np.inf)
        order = np.lexsort((base.tools, -scores), axis=1)[:, :depth]
        tools, scores = np.take_along_axis(base.tools, order, 1), np.take_along_axis(scores, order, 1)
        return Ranking(tools, scores, base.failed, base.tied_beyond if depth > pool else None)
