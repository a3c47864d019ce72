"""ToolRerank: adaptive truncation and hierarchy-aware reranking.

Zheng et al. 2024, "ToolRerank: Adaptive and Hierarchy-Aware Reranking for Tool Retrieval".
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UnavailableError, UsageError
from bench.data.parents import parent_codes
from bench.data.tables import SPLITS
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation
from bench.interface.ranking import PAD
from bench.methods.toolrerank.hierarchy import (
    Codes,
    Reranking,
    Scored,
    Split,
    by_relevance,
    concentrated,
    diversified,
    truncated,
)
from bench.methods.toolrerank.parameters import ToolRerankParameters
from bench.models.classifiers import SequenceModel
from bench.models.crossencoders import CrossEncoder, probability
from bench.search.corrected import CorrectedScores
from bench.search.dense import normalize
from bench.search.scoring import EmbeddingMethod


class HierarchyAwareReranker(Method):
    """ToolRerank without the decision which queries need a single parent."""

    parameters: ToolRerankParameters

    def __init__(self, parameters: ToolRerankParameters, context: Context) -> None:
        super().__init__(parameters, context)
        base = context.build(parameters.base)
        if not isinstance(base, EmbeddingMethod):
            raise UsageError(f"toolrerank cannot use base={parameters.base}: it compares tools by vectors.")
        self._base = base
        self._scorer = self.include(
            CrossEncoder(parameters.reranker, backend=parameters.backend, progress=context.progress)
        )
        self._scores = CorrectedScores(base, self._scorer)
        self._used: NDArray[np.int32] = np.empty(0, dtype=np.int32)

    def preflight(self, library: Library, history: History) -> None:
        self._scores.weight  # noqa: B018 - or says why it cannot be had

    @abstractmethod
    def single(self, queries: Queries) -> NDArray[np.bool_] | None:
        """(queries,) whether a query needs a single parent; None to ignore the hierarchy."""

    def fit(self, history: History) -> None:
        train = np.flatnonzero(history.split == SPLITS.index("train"))
        self._used = np.unique(history.gold.take(train).tools)
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._texts = library.texts
        self._parents = parent_codes(library.tools)
        #: (tools,) whether a tool's parent is seen.
        self._seen = np.isin(self._parents, self._parents[self._used])
        self._base.index(library)
        self._vectors = normalize(self._base.tool_vectors())

    def rank(self, queries: Queries, depth: int) -> Ranking:
        chosen = self.parameters
        base = self._base.rank(queries, max(chosen.seen_depth, chosen.unseen_depth, depth))
        rows = [stages.order[:depth].tolist() for stages in self.stages(queries, base)]
        return Ranking.of_lists(rows, None if base.failed is None else base.failed.tolist())

    def stages(self, queries: Queries, base: Ranking) -> list[Reranking]:
        """The results of each stage on what the base retrieved for each query."""
        chosen = self.parameters
        retrieved: list[Codes] = [row[row != PAD].astype(np.int64) for row in base.tools]
        kept = [row[truncated(self._seen[row], chosen.seen_depth, chosen.unseen_depth)] for row in retrieved]
        reranked = self._scored(queries, kept)
        single = self.single(queries)
        algorithms = [None] * len(queries) if single is None else [bool(one) for one in single]
        splits = [
            self._split(tools, logits, algorithm)
            for (tools, logits), algorithm in zip(reranked, algorithms, strict=True)
        ]
        brought = [
            self._brought(tools[split.first]) if algorithm else tools[:0]
            for (tools, _), algorithm, split in zip(reranked, algorithms, splits, strict=True)
        ]
        return [
            Reranking(row, *ranked, algorithm, split, *more)
            for row, ranked, algorithm, split, more in zip(
                retrieved, reranked, algorithms, splits, self._scored(queries, brought), strict=True
            )
        ]

    def _split(self, tools: Codes, logits: NDArray[np.float64], single: bool | None) -> Split:
        """F₁ and F₂ of a reranked list."""
        chosen = self.parameters
        if single is None:
            return Split(np.arange(len(tools)), np.arange(0))
        if single:
            return concentrated(self._parents[tools], probability(logits), chosen.single_threshold)
        vectors = self._vectors[tools]
        return diversified(self._parents[tools], vectors @ vectors.T, chosen.multi_threshold, chosen.group_size)

    def _brought(self, first: Codes) -> Codes:
        """The tools that the parents of F₁ add to it: all their other tools (the end of section 3.3's first half)."""
        brings = np.where(self._seen, self.parameters.extend_seen, self.parameters.extend_unseen)
        return np.setdiff1d(np.flatnonzero(brings & np.isin(self._parents, self._parents[first])), first)

    def _scored(self, queries: Queries, tools: list[Codes]) -> list[Scored]:
        """Each query's tools, the most relevant first, and their logits, with the retriever's part if it has one."""
        pairs = [(text, self._texts[code]) for text, row in zip(queries.texts, tools, strict=True) for code in row]
        ends = np.cumsum([len(row) for row in tools])[:-1]
        known = np.zeros(len(pairs))
        if self._scores.weight:
            matrix = self._base.score(queries)
            known = np.concatenate([matrix[i, row] for i, row in enumerate(tools)])
        scores = np.split(self._scores.score(pairs, known), ends)
        return [by_relevance(row, values) for row, values in zip(tools, scores, strict=True)]

    def facts(self) -> dict[str, str | int | float | bool]:
        seen = round(float(self._seen.mean()), 4)
        return {"tools_of_seen_parents": seen}

    def explain(self, case: Case) -> Explanation:
        from bench.methods.toolrerank.explain import explain_stages

        (stages,) = self.stages(case.query, self._base.rank(case.query, len(case.library)))
        return explain_stages(case, stages, self._seen, self.parameters, case.answer(self._base))


class ToolRerank(HierarchyAwareReranker):
    """Retrieves, truncates by seen and unseen parents, reranks with a cross-encoder, then by the library's hierarchy.

    Queries with one parent use Algorithm 1 (likely parents first; unseen ones add all their tools). Queries with
    several parents use Algorithm 2 (the best few tools of each connected component first). A parent is seen if one of
    its tools is gold for a train query. All other tools follow in the retriever's order. The result is an order
    without scores.
    """

    class Parameters(ToolRerankParameters):
        classification: Literal["model", "none", "single", "multi"] = Field(
            "model",
            description="number of parents per query: predicted by the classifier, or the same for all queries; "
            "none: no hierarchy-aware step",
        )
        classifier: str = Field("", description="classification=model: classifier folder")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._classifier: SequenceModel | None = None
        if parameters.classification == "model" and parameters.classifier:
            model = SequenceModel(parameters.classifier, progress=context.progress, unit="queries")
            self._classifier = self.include(model)

    def preflight(self, library: Library, history: History) -> None:
        super().preflight(library, history)
        if self.parameters.classification != "model":
            return
        if self._classifier is None:
            raise UsageError(
                "set classifier=FOLDER (`bench train classifier --dataset NAME --out FOLDER` trains "
                "one), or set classification to none, single or multi."
            )
        if "single" not in self._classifier.labels:
            raise UnavailableError(
                f"{self._classifier.name} does not say which queries take a single parent (its labels: "
                f"{', '.join(self._classifier.labels)}); `bench train classifier` makes a model that does."
            )

    def single(self, queries: Queries) -> NDArray[np.bool_] | None:
        if self.parameters.classification == "none":
            return None
        if self.parameters.classification != "model":
            return np.full(len(queries), self.parameters.classification == "single")
        assert self._classifier is not None
        predicted = self._classifier.logits([(text,) for text in queries.texts]).argmax(axis=1)
        return np.asarray(predicted == self._classifier.labels.index("single"))
