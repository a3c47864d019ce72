"""A cross-encoder reranks the top tools of another method."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason, number
from bench.interface.ranking import PAD
from bench.models.compiled import Backend
from bench.models.crossencoders import CrossEncoder, probability
from bench.search.corrected import CorrectedScores


class Rerank(Method):
    """Rerank-m (Nogueira and Cho 2019): a cross-encoder scores the first `depth` tools of the base.

    Deeper tools follow in the base's order. The score of a reranked tool is `mix * base score + logit`; deeper scores
    only encode the order. A cross-encoder of `bench train reranker` brings the weight that it was trained with.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="retrieval method")
        reranker: str = Field("", description="cross-encoder: a folder, or a Hub name (required)")
        depth: int = Field(30, ge=1, description="number of base results to rerank (m)")
        backend: Backend = Field("torch", description="inference backend of the cross-encoder")
        mix: float | None = Field(
            None, description="weight of the base's score beside the logit; none: as the reranker was trained, else 0"
        )

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._base = context.build(parameters.base)
        self._scorer = self.include(
            CrossEncoder(parameters.reranker, backend=parameters.backend, progress=context.progress)
        )
        self._scores = CorrectedScores(self._base, self._scorer, parameters.mix)

    def preflight(self, library: Library, history: History) -> None:
        self._scores.weight  # noqa: B018 - or says why it cannot be had

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._texts = library.texts
        self._base.index(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        pool = self.parameters.depth
        base = self._base.rank(queries, max(pool, depth))
        row, column = np.nonzero(base.tools[:, :pool] != PAD)
        candidates = base.tools[row, column]
        pairs = [(queries.texts[i], self._texts[tool]) for i, tool in zip(row, candidates, strict=True)]
        scores = np.full(base.tools.shape, -np.inf)
        known = np.zeros(base.tools.shape) if base.scores is None else base.scores
        scores[row, column] = self._scores.score(pairs, np.asarray(known[row, column], dtype=np.float64))
        place = np.arange(base.tools.shape[1])
        head = scores[:, :pool]
        lowest = np.min(head, axis=1, where=np.isfinite(head), initial=0.0)
        below = lowest[:, None] - 1 - place
        scores[:, pool:] = np.where(base.tools[:, pool:] != PAD, below[:, pool:], -np.inf)
        order = np.lexsort((base.tools, -scores), axis=1)[:, :depth]
        tools, scores = np.take_along_axis(base.tools, order, 1), np.take_along_axis(scores, order, 1)
        return Ranking(tools, scores, base.failed, base.tied_beyond if depth > pool else None)

    def explain(self, case: Case) -> Explanation:
        """The base rank of a tool, and the parts of its score if it was reranked."""
        answer, depth, name = case.answer(self._base), self.parameters.depth, self._base.name
        weight = self._scores.weight
        ranks = {tool: answer.positions[tool].rank for tool in case.tools}
        taken = [tool for tool, rank in ranks.items() if rank is not None and rank <= depth]
        scored = self._scorer.score([(case.text, self._texts[tool]) for tool in taken])
        logits: dict[int, float] = dict(zip(taken, scored.tolist(), strict=True))
        known = {tool: weight * (answer.positions[tool].score or 0.0) for tool in taken}
        reasons = {}
        for tool, rank in ranks.items():
            logit, rival = logits.get(tool), case.rivals.get(tool)
            because = ""
            if rival is not None and logit is None:
                because = f"{name} puts it at rank {rank or '-'}, and only the first {depth} are reranked"
            elif rival is not None and logit is not None:
                others = f"{number(logits[rival])} ({name} rank {ranks[rival]})" if rival in logits else "less"
                because = (
                    f"{name} puts it at rank {rank}; the cross-encoder gives it {number(logit)}, and "
                    f"{case.id_of(rival)} {others}"
                )
                if weight and rival in logits:
                    because += f"; {name} adds {number(known[tool])} and {number(known[rival])}"
            score = None if logit is None else known[tool] + logit
            relevance = None if score is None else float(probability(np.array(score)))
            note = "reranked" if logit is not None else f"below the first {depth}: in the base's order"
            parts = (known.get(tool), logit) if weight else ()
            reasons[tool] = Reason(score, (), (rank, *parts, relevance), note, because)
        parts_named = (f"{name}'s part", "logit") if weight else ()
        columns = ("base rank", *parts_named, "relevance")
        return Explanation("whether it was reranked", columns, reasons, bases=(answer,))
