"""Reciprocal rank fusion of several methods."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from bench.errors import UsageError
from bench.protocol import Context, History, Library, Method, OracleMethod, Queries, Ranking
from bench.search.topk import top_k
from bench.specs.parameters import MethodSpec, ParameterSet
from bench.specs.spec import Spec


class ReciprocalRankFusion(Method):
    """score = Σ over methods of 1 / (constant + rank) (Cormack et al. 2009).

    Each method contributes its first `pool` tools, whatever depth is asked for, so that a deeper ranking begins with
    the shallower one.
    """

    class Parameters(ParameterSet):
        methods: tuple[MethodSpec, ...] = Field((Spec("bm25"), Spec("dense")), description="methods to fuse")
        constant: float = Field(60.0, gt=0, description="RRF's k")
        pool: int = Field(100, ge=1, description="number of tools each method contributes")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        if not parameters.methods:
            raise UsageError("rrf needs at least one method, as in rrf(methods=[bm25, dense]).")
        self._parts = [context.build(spec) for spec in parameters.methods]
        self.needs_history = any(part.needs_history for part in self._parts)
        self.needs_llm = any(part.needs_llm for part in self._parts)

    def revisions(self) -> dict[str, str]:
        return {name: digest for part in self._parts for name, digest in part.revisions().items()}

    def preflight(self, library: Library, history: History) -> None:
        for part in self._parts:
            if isinstance(part, OracleMethod):
                raise UsageError("rrf cannot fuse an oracle: the mark would be lost.")
            part.preflight(library, history)

    def fit(self, history: History) -> None:
        for part in self._parts:
            part.fit(history)

    def index(self, library: Library) -> None:
        self._tools = len(library)
        for part in self._parts:
            part.index(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        scores = np.zeros((len(queries), self._tools))
        failed = np.ones(len(queries), dtype=np.bool_)
        for part in self._parts:
            ranking = part.rank(queries, self.parameters.pool)
            row, column = np.nonzero(ranking.tools >= 0)
            scores[row, ranking.tools[row, column]] += 1 / (self.parameters.constant + column + 1)
            failed &= np.zeros_like(failed) if ranking.failed is None else ranking.failed
        scores[scores == 0] = -np.inf
        fused = top_k(scores, depth)
        return Ranking(fused.tools, fused.scores, failed, fused.tied_beyond)

    def facts(self) -> dict[str, str | int | float | bool]:
        return {f"{part.name}.{key}": value for part in self._parts for key, value in part.facts().items()}
