"""Why a reranking method ranked as it did: what the base retrieved, and what the cross-encoder made of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data.parents import parent_codes
from bench.data.tables import SPLITS
from bench.evidence.explain_methods import tell
from bench.evidence.explain_vocabulary import Case, Cell, Explanation, Reason, number
from bench.methods.toolrerank.hierarchy import components, concentrated, diversified, truncated
from bench.models.crossencoders import CrossEncoder, probability
from bench.protocol import EmbeddingMethod, Method
from bench.protocol.ranking import PAD
from bench.search.dense import normalized

_MOST_NAMED = 4


def explain_rerank(method: Method, case: Case) -> Explanation:
    """rerank: the base's rank of a tool beside the cross-encoder's logit, which is its score where it was reranked."""
    chosen = method.parameters
    base = case.prepare(str(chosen.base))
    told = tell(base, case)
    taken = [tool for tool in case.tools if (told.places[tool].rank or chosen.depth + 1) <= chosen.depth]
    logits = dict(zip(taken, _logits(method, case, taken).tolist(), strict=True))
    reasons = {}
    for tool in case.tools:
        rank, logit = told.places[tool].rank, logits.get(tool)
        relevance = None if logit is None else float(probability(np.array(logit)))
        rival = case.rivals.get(tool)
        because = ""
        if rival is not None and logit is None:
            because = f"{base.name} puts it at rank {rank or '-'}, and only the first {chosen.depth} are reranked"
        elif rival is not None and logit is not None:
            others = (
                f"{number(logits[rival])} ({base.name} rank {told.places[rival].rank})" if rival in logits else "less"
            )
            because = (
                f"{base.name} puts it at rank {rank}; the cross-encoder gives it {number(logit)}, and "
                f"{case.id_of(rival)} {others}"
            )
        note = "reranked" if logit is not None else f"below the first {chosen.depth}: in the base's order"
        reasons[tool] = Reason(logit, (), (rank, relevance), note, because)
    return Explanation("whether it was reranked", ("base rank", "relevance"), reasons, bases=(told,))


def _logits(method: Method, case: Case, tools: list[int]) -> NDArray[np.float64]:
    scorer = CrossEncoder(
        method.parameters.reranker, backend=method.parameters.backend, progress=method.context.progress
    )
    return scorer.score([(case.text, case.library.texts[tool]) for tool in tools])


@dataclass(frozen=True)
class _Path:
    """How one tool went through ToolRerank.

    Attributes:
        part: `first`, `rest`, `brought` by its parent, or `cut` before reranking.
        relevance: of the cross-encoder, where it was asked.
        note: in words.
    """

    part: str
    relevance: float | None
    note: str

    @property
    def in_words(self) -> str:
        """All of it in a sentence."""
        return self.note if self.relevance is None else f"relevance {number(self.relevance)}, {self.part}: {self.note}"


def explain_hierarchy(method: Method, case: Case) -> Explanation:
    """toolrerank: where a tool was cut, what the cross-encoder said, and which part of the answer it fell into.

    `first` and `rest` are the paper's F₁ and F₂; `brought`: its parent is likely and brings all its tools; `cut`: below
    the depth of Adaptive Truncation, so that it follows in the retriever's order.
    """
    run = _Hierarchy(method, case)
    told = tell(run.base, case)
    reasons = {}
    for tool in case.tools:
        path = run.path(tool)
        seen = "seen" if run.seen[tool] else "unseen"
        cells: tuple[Cell, ...] = (told.places[tool].rank, seen, path.relevance, path.part)
        rival = case.rivals.get(tool)
        because = ""
        if rival is not None:
            because = f"{path.in_words}; {case.id_of(rival)}: {run.path(rival).in_words}"
        reasons[tool] = Reason(None, (), cells, path.note, because)
    columns = ("base rank", "parent", "relevance", "part")
    place = {tool: i for i, tool in enumerate(run.order)}
    order = tuple(sorted(case.tools, key=lambda tool: place.get(tool, len(place))))
    return Explanation("how it got there", columns, reasons, order, run.notes, (told,))


class _Hierarchy:
    """ToolRerank's stages on one query, each kept to be looked at."""

    def __init__(self, method: Method, case: Case) -> None:
        self.chosen = method.parameters
        self.case = case
        self.base = case.prepare(str(self.chosen.base))
        self.parents = parent_codes(case.library.tools)
        train = np.flatnonzero(case.history.split == SPLITS.index("train"))
        used = np.unique(case.history.gold.take(train).tools)
        self.seen = np.isin(self.parents, self.parents[used])
        row = self.base.rank(case.query, len(case.library)).tools[0]
        self.retrieved = row[row != PAD].astype(np.int64)
        kept = self.retrieved[truncated(self.seen[self.retrieved], self.chosen.seen_depth, self.chosen.unseen_depth)]
        self.relevance: dict[int, float] = {}
        self._method = method
        self.reranked = self._ordered(kept)
        single = method.single(case.query)  # type: ignore[attr-defined]
        self.single = None if single is None else bool(single[0])
        self.first, self.rest = self.reranked, self.reranked[:0]
        self.brought = self.reranked[:0]
        self.groups: dict[int, list[int]] = {}
        if self.single is not None:
            self._split()
        head = np.concatenate([self.first, self.rest])
        self.order = [*head.tolist(), *self.retrieved[~np.isin(self.retrieved, head)].tolist()]

    def _ordered(self, tools: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tools by the cross-encoder, the most relevant first, ties by code."""
        logits = _logits(self._method, self.case, tools.tolist())
        self.relevance |= dict(zip(tools.tolist(), probability(logits).tolist(), strict=True))
        return np.asarray(tools[np.lexsort((tools, -logits))], dtype=np.int64)

    def _split(self) -> None:
        tools, chosen = self.reranked, self.chosen
        parents = self.parents[tools]
        if self.single:
            relevance = np.array([self.relevance[tool] for tool in tools.tolist()])
            split = concentrated(parents, relevance, chosen.single_threshold)
            brings = np.where(self.seen, chosen.extend_seen, chosen.extend_unseen)
            fitting = np.flatnonzero(brings & np.isin(self.parents, parents[split.first]))
            self.brought = np.setdiff1d(fitting, tools[split.first])
        else:
            assert isinstance(self.base, EmbeddingMethod)
            vectors = normalized(self.base.tool_vectors())[tools]
            similarity = vectors @ vectors.T
            split = diversified(parents, similarity, chosen.multi_threshold, chosen.group_size)
            names = components((parents[:, None] == parents[None, :]) | (similarity > chosen.multi_threshold))
            self.groups = {int(tool): tools[names == names[i]].tolist() for i, tool in enumerate(tools)}
        first = np.append(tools[split.first], self.brought)
        self.first, self.rest = self._ordered(first), tools[split.rest]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided for the query as a whole."""
        chosen = self.chosen
        cut = (
            f"Tools of seen parents are reranked to rank {chosen.seen_depth}, of unseen ones to {chosen.unseen_depth}."
        )
        if self.single is None:
            return (cut, "The hierarchy is left alone (classification=none).")
        if self.single:
            return (
                cut,
                f"Algorithm 1, for queries of one parent: parents of a tool more relevant than "
                f"{chosen.single_threshold} come first, {len(self.brought)} more of their tools with them.",
            )
        return (
            cut,
            f"Algorithm 2, for queries of several parents: of each group of like tools (one parent, or a cosine above "
            f"{chosen.multi_threshold}) the best {chosen.group_size} come first.",
        )

    def path(self, tool: int) -> _Path:
        """How a tool came to its place."""
        relevance = self.relevance.get(tool)
        if tool in self.brought:
            return _Path("brought", relevance, "by its parent, which is likely")
        if tool not in self.reranked:
            ranks = self.retrieved.tolist()
            rank = str(ranks.index(tool) + 1) if tool in ranks else "-"
            kind, depth = ("seen", self.chosen.seen_depth) if self.seen[tool] else ("unseen", self.chosen.unseen_depth)
            return _Path("cut", None, f"rank {rank}: {kind} parents are cut after {depth}")
        part = "first" if tool in self.first else "rest"
        if self.single:
            return _Path(part, relevance, f"its parent is {'likely' if part == 'first' else 'not likely'}")
        if self.single is None:
            return _Path(part, relevance, "reranked")
        group = self.groups[tool]
        others = [self.case.id_of(other) for other in group if other != tool]
        named = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "")
        place = f"number {group.index(tool) + 1} of {len(group)} in the group with {named}" if others else "alone"
        return _Path(part, relevance, place)
