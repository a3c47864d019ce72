"""Why ToolRerank ranked as it did: truncation, the cross-encoder's scores, and the split by hierarchy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.interface import Case, Explanation, Reason
from bench.interface.explanation import Cell, ExplainedAnswer, number
from bench.methods.toolrerank.hierarchy import Reranking
from bench.methods.toolrerank.parameters import ToolRerankParameters
from bench.models.crossencoders import probability

_MOST_NAMED = 4


def explain_stages(
    case: Case, stages: Reranking, seen: NDArray[np.bool_], chosen: ToolRerankParameters, base: ExplainedAnswer
) -> Explanation:
    """Where a tool was truncated, its cross-encoder score, and its part of the answer.

    `first` and `rest` are the paper's F₁ and F₂; `brought`: its parent is likely and adds all its tools; `cut`: below
    the depth of Adaptive Truncation, so it follows in the retriever's order.

    Args:
        case: the query and the displayed tools.
        stages: the stages' results for the query.
        seen: (tools,) whether a tool's parent is seen.
        chosen: the method's parameters.
        base: the retriever's answer.
    """
    paths = _Paths(case, stages, seen, chosen)
    reasons = {}
    for tool in case.tools:
        path, rival = paths[tool], case.rivals.get(tool)
        kind = "seen" if seen[tool] else "unseen"
        cells: tuple[Cell, ...] = (base.positions[tool].rank, kind, path.relevance, path.part)
        because = "" if rival is None else f"{path.in_words}; {case.id_of(rival)}: {paths[rival].in_words}"
        reasons[tool] = Reason(None, (), cells, path.note, because)
    order, columns = case.in_order(stages.order), ("base rank", "parent", "relevance", "part")
    return Explanation("how it got there", columns, reasons, order, _notes(stages, chosen), (base,))


@dataclass(frozen=True)
class _Path:
    """How one tool went through the stages.

    Attributes:
        part: `first`, `rest`, `brought` by its parent, or `cut` before reranking.
        relevance: from the cross-encoder, if it was asked.
        note: in words.
    """

    part: str
    relevance: float | None
    note: str

    @property
    def in_words(self) -> str:
        """All fields in a sentence."""
        return self.note if self.relevance is None else f"relevance {number(self.relevance)}, {self.part}: {self.note}"


class _Paths:
    """The path of each tool."""

    def __init__(self, case: Case, stages: Reranking, seen: NDArray[np.bool_], chosen: ToolRerankParameters) -> None:
        self._case, self._found, self._seen, self._chosen = case, stages, seen, chosen
        tools = np.append(stages.reranked, stages.brought)
        relevance = probability(np.append(stages.logits, stages.brought_logits))
        self._relevance: dict[int, float] = dict(zip(tools.tolist(), relevance.tolist(), strict=True))
        self._first = frozenset(stages.reranked[stages.split.first].tolist())

    def __getitem__(self, tool: int) -> _Path:
        stages, relevance = self._found, self._relevance.get(tool)
        if tool in stages.brought:
            return _Path("brought", relevance, "by its parent, which is likely")
        if tool not in stages.reranked:
            ranks = stages.retrieved.tolist()
            rank = str(ranks.index(tool) + 1) if tool in ranks else "-"
            seen = self._seen[tool]
            kind, depth = ("seen", self._chosen.seen_depth) if seen else ("unseen", self._chosen.unseen_depth)
            return _Path("cut", None, f"rank {rank}: {kind} parents are cut after {depth}")
        part = "first" if tool in self._first else "rest"
        if stages.single:
            return _Path(part, relevance, f"its parent is {'likely' if part == 'first' else 'not likely'}")
        if stages.single is None:
            return _Path(part, relevance, "reranked")
        return _Path(part, relevance, self._group(tool))

    def _group(self, tool: int) -> str:
        """The tools similar to a tool, and its position among them."""
        groups, tools = self._found.split.groups, self._found.reranked
        assert groups is not None
        alike = tools[groups == groups[tools == tool]].tolist()
        others = [self._case.id_of(other) for other in alike if other != tool]
        if not others:
            return "alone"
        named = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "")
        return f"number {alike.index(tool) + 1} of {len(alike)} in the group with {named}"


def _notes(stages: Reranking, chosen: ToolRerankParameters) -> tuple[str, ...]:
    """The decisions for the query as a whole."""
    cut = f"Tools of seen parents are reranked to rank {chosen.seen_depth}, of unseen ones to {chosen.unseen_depth}."
    if stages.single is None:
        return (cut, "The hierarchy is left alone (classification=none).")
    if stages.single:
        return (
            cut,
            f"Algorithm 1, for queries of one parent: parents of a tool more relevant than {chosen.single_threshold} "
            f"come first, {len(stages.brought)} more of their tools with them.",
        )
    return (
        cut,
        f"Algorithm 2, for queries of several parents: of each group of like tools (one parent, or a cosine above "
        f"{chosen.multi_threshold}) the best {chosen.group_size} come first.",
    )
