"""Reciprocal rank fusion of several methods."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Contribution, ExplainedAnswer, Explanation, Reason, list_parts
from bench.search.topk import top_k


class ReciprocalRankFusion(Method):
    """score = Σ over methods of 1 / (constant + rank) (Cormack et al. 2009).

    Each method contributes its first `pool` tools, whatever the depth, so that a deeper ranking begins with a shallower
    one.
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

    def explain(self, case: Case) -> Explanation:
        """What each method adds, 1 / (constant + rank), and the method's own reason."""
        answers = tuple(case.answer(part) for part in self._parts)
        reasons = {}
        for tool in case.tools:
            ranks = [answer.positions[tool].rank for answer in answers]
            parts = tuple(
                Contribution(f"{answer.label} rank {rank}", 1 / (self.parameters.constant + rank))
                for answer, rank in zip(answers, ranks, strict=True)
                if rank is not None and rank <= self.parameters.pool
            )
            because = fused_in_words(tool, case, answers, parts) if tool in case.gold else ""
            reasons[tool] = Reason(sum(part.value for part in parts), parts, (), "", because)
        return Explanation("what each method adds", (), reasons, bases=answers)


def fused_in_words(tool: int, case: Case, answers: tuple[ExplainedAnswer, ...], parts: tuple[Contribution, ...]) -> str:
    """Why a gold tool does not rank higher, if each method's answer adds a part."""
    has = list_parts(parts, len(parts)) or "no method has it in its pool"
    rival = case.rivals.get(tool)
    if rival is None:
        return has
    others = ", ".join(f"{answer.label} rank {answer.positions[rival].rank or '-'}" for answer in answers)
    return f"{has}; {case.id_of(rival)}: {others}"
