"""ToolRerank: adaptive truncation and hierarchy-aware reranking.

Zheng et al. 2024, "ToolRerank: Adaptive and Hierarchy-Aware Reranking for Tool Retrieval".
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.data.parents import parent_codes
from bench.data.tables import SPLITS
from bench.errors import UnavailableError, UsageError
from bench.methods.toolrerank.hierarchy import concentrated, diversified, truncated
from bench.models.classifiers import Backend, SequenceModel
from bench.models.crossencoders import CrossEncoder, probability
from bench.protocol import Context, EmbeddingMethod, History, Library, Method, OracleMethod, Queries, Ranking
from bench.protocol.ranking import PAD
from bench.search.dense import normalized
from bench.specs.parameters import MethodSpec, ParameterSet
from bench.specs.spec import Spec

Codes = NDArray[np.int64]
#: Tools of one query, the most relevant first, and their logits.
Scored = tuple[Codes, NDArray[np.float64]]


class ToolRerankParameters(ParameterSet):
    """Parameters of ToolRerank with any classification; numeric defaults are the paper's (Table 2)."""

    base: MethodSpec = Field(Spec("dense"), description="retrieval method with vectors")
    reranker: str = Field("", description="cross-encoder: a folder, or a Hub name (required)")
    backend: Backend = Field("torch", description="inference backend of the cross-encoder")
    seen_depth: int = Field(10, ge=1, description="truncation depth for tools of seen parents (m_s)")
    unseen_depth: int = Field(50, ge=1, description="truncation depth for tools of unseen parents (m_u)")
    single_threshold: float = Field(0.85, description="relevance threshold of likely parents in Algorithm 1 (τ_s)")
    multi_threshold: float = Field(0.7, description="similarity threshold for linking tools in Algorithm 2 (τ_m)")
    group_size: int = Field(3, ge=1, description="number of leading tools per connected component in Algorithm 2 (n)")
    extend_seen: bool = Field(False, description="likely seen parents add all their tools")
    extend_unseen: bool = Field(True, description="likely unseen parents add all their tools")


class HierarchyAwareReranker(Method):
    """ToolRerank without the decision which queries need a single parent."""

    parameters: ToolRerankParameters

    def __init__(self, parameters: ToolRerankParameters, context: Context) -> None:
        super().__init__(parameters, context)
        base = context.build(parameters.base)
        if not isinstance(base, EmbeddingMethod):
            raise UsageError(f"toolrerank cannot use base={parameters.base}: it compares tools by vectors.")
        self._base: Method = base
        self._scorer = CrossEncoder(parameters.reranker, backend=parameters.backend, progress=context.progress)
        self._used: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self.needs_history = base.needs_history
        self.needs_llm = base.needs_llm

    @abstractmethod
    def single(self, queries: Queries) -> NDArray[np.bool_] | None:
        """(queries,) whether a query takes a single parent; None to leave the hierarchy alone."""

    def revisions(self) -> dict[str, str]:
        return {**self._base.revisions(), **self._scorer.revisions()}

    def preflight(self, library: Library, history: History) -> None:
        if isinstance(self._base, OracleMethod):
            raise UsageError("toolrerank cannot rerank an oracle: the mark would be lost.")
        self._scorer.preflight()
        self._base.preflight(library, history)

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
        assert isinstance(self._base, EmbeddingMethod)
        self._vectors = normalized(self._base.tool_vectors())

    def rank(self, queries: Queries, depth: int) -> Ranking:
        chosen = self.parameters
        base = self._base.rank(queries, max(chosen.seen_depth, chosen.unseen_depth, depth))
        retrieved: list[Codes] = [row[row != PAD].astype(np.int64) for row in base.tools]
        kept = [row[truncated(self._seen[row], chosen.seen_depth, chosen.unseen_depth)] for row in retrieved]
        reranked = self._scored(queries, kept)
        single = self.single(queries)
        if single is not None:
            reranked = self._by_hierarchy(queries, reranked, single)
        rows = [
            np.concatenate([head, row[~np.isin(row, head)]])[:depth].tolist()
            for (head, _), row in zip(reranked, retrieved, strict=True)
        ]
        return Ranking.of_lists(rows, None if base.failed is None else base.failed.tolist())

    def _by_hierarchy(self, queries: Queries, reranked: list[Scored], single: NDArray[np.bool_]) -> list[Scored]:
        """F of each query: F₁ and then F₂."""
        chosen = self.parameters
        splits, more = [], []
        for (tools, scores), is_single in zip(reranked, single, strict=True):
            parents = self._parents[tools]
            if is_single:
                split = concentrated(parents, probability(scores), chosen.single_threshold)
                more.append(np.setdiff1d(self._brought(parents[split.first]), tools[split.first]))
            else:
                vectors = self._vectors[tools]
                split = diversified(parents, vectors @ vectors.T, chosen.multi_threshold, chosen.group_size)
                more.append(tools[:0])
            splits.append(split)
        final = []
        for split, (tools, scores), (new, new_scores) in zip(
            splits, reranked, self._scored(queries, more), strict=True
        ):
            first = _ordered(np.append(tools[split.first], new), np.append(scores[split.first], new_scores))
            final.append((np.append(first[0], tools[split.rest]), np.append(first[1], scores[split.rest])))
        return final

    def _brought(self, parents: Codes) -> Codes:
        """All tools of those of the likely parents that bring them (the end of section 3.3's first half)."""
        brings = np.where(self._seen, self.parameters.extend_seen, self.parameters.extend_unseen)
        return np.flatnonzero(brings & np.isin(self._parents, parents))

    def _scored(self, queries: Queries, tools: list[Codes]) -> list[Scored]:
        """Each query's tools, the most relevant first, and their logits."""
        pairs = [(text, self._texts[code]) for text, row in zip(queries.texts, tools, strict=True) for code in row]
        ends = np.cumsum([len(row) for row in tools])[:-1]
        scores = np.split(self._scorer.score(pairs), ends)
        return [_ordered(row, values) for row, values in zip(tools, scores, strict=True)]

    def facts(self) -> dict[str, str | int | float | bool]:
        seen = round(float(self._seen.mean()), 4)
        return {"tools_of_seen_parents": seen, **self._base.facts(), **self._scorer.facts()}


def _ordered(tools: Codes, scores: NDArray[np.float64]) -> Scored:
    """By score, ties by code."""
    order = np.lexsort((tools, -scores))
    return tools[order], scores[order]


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
        self._classifier = SequenceModel(parameters.classifier, progress=context.progress, unit="queries")

    def revisions(self) -> dict[str, str]:
        asked = self.parameters.classification == "model"
        return {**super().revisions(), **({self._classifier.name: self._classifier.revision} if asked else {})}

    def preflight(self, library: Library, history: History) -> None:
        super().preflight(library, history)
        if self.parameters.classification != "model":
            return
        if not self._classifier.name:
            raise UsageError(
                "set classifier=FOLDER (`bench train classifier --dataset NAME --out FOLDER` trains "
                "one), or set classification to none, single or multi."
            )
        self._classifier.preflight()
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
        found = self._classifier.logits([(text,) for text in queries.texts]).argmax(axis=1)
        return np.asarray(found == self._classifier.labels.index("single"))
