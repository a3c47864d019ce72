"""Weighted sum of the normalised scores of two methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.data.gold import Gold
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Contribution, Explanation, Reason
from bench.interface.parts import learns, methods_of
from bench.methods.rrf import fused_in_words
from bench.metrics.goldranks import GoldRanks
from bench.metrics.measures import ndcg
from bench.search.holdout import hold_out
from bench.search.topk import top_k

#: More past queries do not improve the weight, they only slow learning down.
_MOST_HELD_OUT = 300
#: Cut-off of the NDCG that a setting is chosen by.
_CUTOFF = 10
#: The weights to try: steps of 0.05.
_GRID = np.arange(21) / 20


class Hybrid(Method):
    """score = weight · first + (1 - weight) · second, each method's scores scaled to [0, 1] per query.

    The best of the first `pool` tools of a method gets 1, the last one 0 (min-max), and so do all tools that it does
    not return. Min-max is used and not z-scores, because a lexical method often returns few tools, or many with nearly
    equal scores, and then the deviation carries no information. Equal scores are all 1. A method without scores counts
    by ranks. Bruch et al. (2023, "An Analysis of Fusion Functions for Hybrid Retrieval") find that such a sum depends
    little on the normalisation, beats reciprocal ranks, and needs few queries to learn its weight.

    If the dataset has past queries, the weight is the one of 0, 0.05, ..., 1 with the best mean NDCG@10 on at most 300
    dev queries, or as many from a fifth of the train queries; of equals, the closest to `weight`. Methods that learn
    from past queries are fitted on the others for this. Without past queries, `weight` is used.
    """

    class Parameters(ParameterSet):
        methods: tuple[MethodSpec, ...] = Field(
            (Spec("bm25-fields"), Spec("dense")), description="the two methods, the first with the weight"
        )
        weight: float = Field(0.5, ge=0, le=1, description="weight of the first method if none is learnt")
        learn: bool = Field(True, description="learn the weight if there are past queries")
        pool: int = Field(100, ge=1, description="number of tools each method contributes")

    parameters: Parameters
    #: It learns a weight, whether or not its parts learn; except with `learn=false`.
    learns = True

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        if len(parameters.methods) != 2:
            raise UsageError("hybrid needs two methods, as in hybrid(methods=[bm25-fields, dense]).")
        self._parts = [context.build(spec) for spec in parameters.methods]
        self._history: History | None = None
        self._weight = parameters.weight
        self._learnt_on = 0
        self.learns = parameters.learn

    def fit(self, history: History) -> None:
        self._history = history if self.parameters.learn else None
        for part in self._parts:
            part.fit(history)

    def index(self, library: Library) -> None:
        self._tools = len(library)
        for part in self._parts:
            part.index(library)
        if self._history is not None:
            self._learn(self._history, library)
            self._history = None

    def _learn(self, history: History, library: Library) -> None:
        seen, held = hold_out(history, _MOST_HELD_OUT)
        if not len(held):
            return
        parts = self._parts
        if any(learns(type(method)) for part in parts for method in methods_of(part)):
            if not len(seen):
                return
            parts = [self.context.build(spec) for spec in self.parameters.methods]
            for part in parts:
                part.fit(history.take(seen))
                part.index(library)
        held_history = history.take(held)
        means = np.zeros((len(held), len(_GRID)))
        for start in range(0, len(held), self.batch_size):
            rows = np.arange(start, min(start + self.batch_size, len(held)))
            texts = tuple(held_history.texts[row] for row in rows)
            first, second = self._scaled(parts, Queries(texts, np.arange(len(rows))))
            for column, weight in enumerate(_GRID):
                means[rows, column] = ndcg_at_10(_sum(first, second, float(weight)), held_history.gold.take(rows))
        mean = means.mean(axis=0)
        # Means that differ only by rounding are equal; of equals take the closest to the default.
        best = np.flatnonzero(mean >= mean.max() - 1e-9)
        distance = np.abs(_GRID[best] - self.parameters.weight)
        self._weight = float(_GRID[best[np.argmin(distance)]])
        self._learnt_on = len(held)

    def _scaled(self, parts: list[Method], queries: Queries) -> tuple[_Scaled, _Scaled]:
        first, second = (_Scaled.of(part.rank(queries, self.parameters.pool), self._tools) for part in parts)
        return first, second

    def rank(self, queries: Queries, depth: int) -> Ranking:
        first, second = self._scaled(self._parts, queries)
        ranking = top_k(_sum(first, second, self._weight), depth)
        return Ranking(ranking.tools, ranking.scores, first.failed & second.failed, ranking.tied_beyond)

    def facts(self) -> dict[str, str | int | float | bool]:
        return {"weight_used": self._weight, "weight_learnt_on": self._learnt_on}

    def explain(self, case: Case) -> Explanation:
        """What each method adds, its weight times its scaled score, and the method's own reason."""
        answers = tuple(case.answer(part) for part in self._parts)
        scaled = self._scaled(self._parts, case.query)
        weights = (self._weight, 1 - self._weight)
        reasons = {}
        for tool in case.tools:
            parts = tuple(
                Contribution(f"{answer.label} rank {answer.positions[tool].rank}", weight * float(part.values[0, tool]))
                for answer, part, weight in zip(answers, scaled, weights, strict=True)
                if part.returned[0, tool]
            )
            because = fused_in_words(tool, case, answers, parts) if tool in case.gold else ""
            reasons[tool] = Reason(sum(part.value for part in parts), parts, (), "", because)
        learnt = f"learnt on {self._learnt_on} past queries" if self._learnt_on else "not learnt"
        notes = (f"Weights: {answers[0].label} {weights[0]:.2f}, {answers[1].label} {weights[1]:.2f} ({learnt}).",)
        return Explanation("what each method adds", (), reasons, notes=notes, bases=answers)


@dataclass(frozen=True)
class _Scaled:
    """One method's scores of all tools, scaled to [0, 1] per query.

    Attributes:
        values: (queries, tools) scaled scores, 0 for tools that were not returned.
        returned: (queries, tools) whether the method returned the tool.
        failed: (queries,) whether the method failed.
    """

    values: NDArray[np.float64]
    returned: NDArray[np.bool_]
    failed: NDArray[np.bool_]

    @staticmethod
    def of(ranking: Ranking, tools: int) -> _Scaled:
        row, column = np.nonzero(ranking.tools >= 0)
        places = -np.broadcast_to(np.arange(ranking.tools.shape[1], dtype=np.float64), ranking.tools.shape)
        scores = (places if ranking.scores is None else ranking.scores)[row, column].astype(np.float64)
        low, high = np.full(len(ranking), np.inf), np.full(len(ranking), -np.inf)
        np.minimum.at(low, row, scores)
        np.maximum.at(high, row, scores)
        span = high[row] - low[row]
        values, returned = np.zeros((len(ranking), tools)), np.zeros((len(ranking), tools), dtype=np.bool_)
        values[row, ranking.tools[row, column]] = np.divide(
            scores - low[row], span, out=np.ones_like(scores), where=span > 0
        )
        returned[row, ranking.tools[row, column]] = True
        failed = np.zeros(len(ranking), dtype=np.bool_) if ranking.failed is None else ranking.failed
        return _Scaled(values, returned, failed)


def _sum(first: _Scaled, second: _Scaled, weight: float) -> NDArray[np.float64]:
    """(queries, tools) weighted sums, -inf if neither method returned the tool."""
    total = weight * first.values + (1 - weight) * second.values
    total[~(first.returned | second.returned)] = -np.inf
    return total


def ndcg_at_10(scores: NDArray[np.float64], gold: Gold) -> NDArray[np.float64]:
    """(queries,) NDCG@10 of (queries, tools) scores; a requirement is met by any of its tools."""
    return ndcg(GoldRanks.of(top_k(scores, _CUTOFF).tools, gold), np.full(len(scores), _CUTOFF))
