"""Each query its own number of tools: as deep as the scores of the first tools say that it is worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.parts import learns, methods_of
from bench.interface.ranking import PAD
from bench.metrics.goldranks import GoldRanks
from bench.metrics.measures import chance_of_hit
from bench.search.holdout import hold_out
from bench.stats.association import logistic_ridge, probability

_DEPTHS = (1, 3, 5, 10, 20)
#: The falls from the first score to those of these ranks are what a query's depth hangs on.
_RANKS = (2, 3, 5, 10, 20)
#: More past queries do not make the depths better, only slower to learn.
_MOST_HELD_OUT = 1000
#: Weight of the penalty on the squared coefficients.
_RIDGE = 1.0


class AdaptiveDepth(Method):
    """The ranking of `base`, cut for each query at a depth of its own: 1, 3, 5, 10 or 20.

    The depth is the one with the largest expected reward: the probability that a gold tool is among so many, times
    log2(1 / P_rand), where P_rand is the chance that as many tools drawn from the library hold one. So a depth is worth
    the bits over random that it earns (arXiv 2605.24660, "How Many Tools Should an LLM Agent See?", which trains a
    policy with that reward).

    The probability at each depth is a logistic regression with a ridge penalty on how far the score falls from the
    first tool to the 2nd, 3rd, 5th, 10th and 20th, as a share of the largest score. It is learnt on at most 1,000 dev
    queries, or as many of a fifth of the train queries; methods that learn from past queries are fitted on the others
    for this.
    """

    needs_history = True

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="method whose ranking is cut; it must give scores")
        most: int = Field(20, ge=1, le=20, description="largest number of tools of a query")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._base = context.build(parameters.base)
        self._depths = np.array([depth for depth in _DEPTHS if depth <= parameters.most])
        self._used: dict[tuple[str, int], int] = {}

    @property
    def _base_learns(self) -> bool:
        return any(learns(type(method)) for method in methods_of(self._base))

    def preflight(self, library: Library, history: History) -> None:
        self._held_out(history)

    def _held_out(self, history: History) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows to fit the base on, and rows to learn the depths on."""
        seen, held = hold_out(history, _MOST_HELD_OUT)
        if not len(held) or (self._base_learns and not len(seen)):
            raise UsageError(
                f"{self.spec} learns depths on dev queries, or on a fifth of the train queries, that its base is not "
                "fitted on, and this dataset has too few past queries for that; cut at a fixed depth."
            )
        return seen, held

    def fit(self, history: History) -> None:
        self._history = history
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._base.index(library)
        seen, held = self._held_out(self._history)
        base = self._base
        if self._base_learns:
            base = self.context.build(self.parameters.base)
            base.fit(self._history.take(seen))
            base.index(library)
        past = self._history.take(held)
        queries = Queries(past.texts, np.arange(len(held)))
        parts = [
            self._scored(base, queries.take(np.arange(start, min(start + self.batch_size, len(held)))))
            for start in range(0, len(held), self.batch_size)
        ]
        ranking = Ranking.join(parts)
        first = GoldRanks.of(ranking.tools, past.gold).ranks[:, 0]
        falls = _falls(ranking)
        self._center, spread = falls.mean(axis=0), falls.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        features = self._features(falls)
        # The penalty on the constant, too, keeps probabilities off 0 and 1 where all past queries agree.
        penalty = np.full(features.shape[1], _RIDGE)
        self._weights = np.stack(
            [logistic_ridge(features, (first <= depth).astype(np.float64), penalty) for depth in self._depths]
        )
        fitting = past.gold.members().counts
        chances = [chance_of_hit(fitting, np.full(len(held), depth), len(library)).mean() for depth in self._depths]
        self._bits = -np.log2(chances)
        self._learnt_on = len(held)

    def _scored(self, base: Method, queries: Queries) -> Ranking:
        """The first tools of the base, with scores."""
        ranking = base.rank(queries, self.parameters.most)
        if ranking.scores is None:
            raise UsageError(
                f"{self.spec} needs scores, but {base.name} returns an order without scores; choose another base."
            )
        return ranking

    def _features(self, falls: NDArray[np.float64]) -> NDArray[np.float64]:
        """(queries, features) a column of ones, and the falls by their mean and deviation among the past queries."""
        return np.column_stack([np.ones(len(falls)), (falls - self._center) / self._spread])

    def rank(self, queries: Queries, depth: int) -> Ranking:
        # The depth of a query does not hang on the one that is asked for.
        ranking = self._scored(self._base, queries)
        features = self._features(_falls(ranking))
        # Each query by itself: a product of matrices hangs, in the last bits, on the others of the batch.
        chances = probability((features[:, None, :] * self._weights).sum(axis=2))
        # What is found among the first is found among more.
        reward = np.maximum.accumulate(chances, axis=1) * self._bits
        cut = self._depths[reward.argmax(axis=1)]
        self._used.update(zip(zip(queries.texts, queries.rows.tolist(), strict=True), cut.tolist(), strict=True))
        kept = np.arange(ranking.tools.shape[1]) < cut[:, None]
        assert ranking.scores is not None
        return Ranking(np.where(kept, ranking.tools, PAD)[:, :depth], ranking.scores[:, :depth], ranking.failed)

    def facts(self) -> dict[str, str | int | float | bool]:
        used = list(self._used.values())
        told: dict[str, str | int | float | bool] = {"depth_learnt_on": self._learnt_on}
        if used:
            told["mean_depth"] = sum(used) / len(used)
        return told


def _falls(ranking: Ranking) -> NDArray[np.float64]:
    """(queries, ranks) how far the score falls from the first tool to those of `_RANKS`, over the largest of them.

    The scale of the scores plays no part. A tool that was not returned is as far as the largest score.
    """
    assert ranking.scores is not None
    width = max(_RANKS)
    scores, there = np.zeros((2, len(ranking), width))
    given = min(width, ranking.tools.shape[1])
    there[:, :given] = ranking.tools[:, :given] != PAD
    scores[:, :given] = np.where(there[:, :given] > 0, ranking.scores[:, :given], 0.0)
    largest = np.abs(scores).max(axis=1, keepdims=True)
    falls = (scores[:, :1] - scores) / np.where(largest > 0, largest, 1.0)
    return np.where(there > 0, falls, 1.0)[:, np.array(_RANKS) - 1]
