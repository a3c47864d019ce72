"""How a method explains its answer to one query: the case to explain, and the reasons it gives.

A method overrides `Method.explain`. `bench explain` shows the reasons next to the stored ranks and scores, but only if
they agree with the method's answer:

    def explain(self, case):
        counts = {tool: float(self.loudness[tool]) for tool in case.tools}
        return Explanation(
            "exclamation marks in its text",
            reasons={tool: Reason(score, (Contribution("!", score),)) for tool, score in counts.items()},
        )
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.base.spec import Spec
from bench.data.tables import Tool
from bench.interface.ranking import PAD, Ranking, validate
from bench.interface.views import History, Library, Queries
from bench.show.numbers import score

#: A value in a column that an explanation adds to the table of tools.
Cell = str | int | float | bool | None

#: Tolerance: stored scores went through single precision, and embeddings differ in their last bits between batches.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Contribution:
    """One term of a tool's score: a shared word, a neighbour in the graph, a past query.

    Attributes:
        name: its name in a list.
        value: its part of the score.
    """

    name: str
    value: float


@dataclass(frozen=True)
class Reason:
    """Why a tool has its rank.

    Attributes:
        score: the score from the explanation, which must equal the method's; None if it only lists facts.
        parts: terms that sum to the score, greatest first; empty if the score is not a sum.
        cells: the values of the explanation's columns.
        note: a further remark.
        because: for gold tools: why the tool does not rank higher, in words.
    """

    score: float | None = None
    parts: tuple[Contribution, ...] = ()
    cells: tuple[Cell, ...] = ()
    note: str = ""
    because: str = ""


@dataclass(frozen=True)
class Position:
    """A tool's rank from 1 (None: not in the ranking) and its score (None: the method returns none)."""

    rank: int | None
    score: float | None = None


@dataclass(frozen=True)
class Explanation:
    """Why the tools of a case have their ranks.

    Attributes:
        title: title of the parts and notes.
        columns: names of the values that every reason has.
        reasons: tool code -> reason; for every tool of the case, or empty.
        order: the tools of the case in the order of the explanation; None if scores give the order.
        notes: sentences about the query as a whole.
        bases: answers of the methods that this one is built on (`Case.answer`).
    """

    title: str = ""
    columns: tuple[str, ...] = ()
    reasons: Mapping[int, Reason] = field(default_factory=dict)
    order: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    bases: tuple[ExplainedAnswer, ...] = ()


@dataclass(frozen=True)
class ExplainedAnswer:
    """A method's answer to a case, and why.

    Attributes:
        label: the method's spec.
        positions: tool code -> its position in the method's ranking of the whole library.
        explanation: why.
    """

    label: str
    positions: Mapping[int, Position]
    explanation: Explanation


class Explainable(Protocol):
    """The part of a method that explanations use."""

    name: str

    @property
    def spec(self) -> Spec: ...

    def rank(self, queries: Queries, depth: int) -> Ranking: ...

    def explain(self, case: Case) -> Explanation | None: ...


@dataclass(frozen=True)
class Case:
    """One query, and the tools whose ranks are to be explained.

    Attributes:
        library, history: the method's input.
        query: the query as a batch of one.
        gold: its gold tools.
        tools: the displayed codes, distinct, best first; unranked gold tools come last.
        rivals: gold tool -> the best other tool above it; gold tools without one are missing.
    """

    library: Library
    history: History
    query: Queries
    gold: frozenset[int]
    tools: tuple[int, ...]
    rivals: Mapping[int, int]

    @property
    def text(self) -> str:
        """The query's text."""
        return self.query.texts[0]

    def id_of(self, tool: int) -> str:
        """The name of a tool in a sentence."""
        return name_with_id(self.library.tools[tool])

    def in_order(self, ranked: Iterable[int]) -> tuple[int, ...]:
        """The displayed tools in the order of a ranking; tools outside it come last."""
        place = {int(tool): number for number, tool in enumerate(ranked)}
        return tuple(sorted(self.tools, key=lambda tool: place.get(tool, len(self.library))))

    def answer(self, method: Explainable) -> ExplainedAnswer:
        """A method's answer to this case, with its explanation if it agrees with the answer.

        Args:
            method: fitted and indexed; a method built on others passes those that it contains.

        Raises:
            Violation: the method's ranking breaks the protocol.
        """
        library = len(self.library)
        ranking = validate(method.rank(self.query, library), 1, library, library)
        positions = positions_of(ranking, self.tools)
        explanation = method.explain(self)
        if explanation is None:
            note = f"{method.name} does not explain its ranking: ranks and scores only."
            return ExplainedAnswer(str(method.spec), positions, Explanation(notes=(note,)))
        fault = _form_fault(explanation, self.tools) or _contradiction(explanation, positions)
        if fault:
            note = f"The explanation of {method.name} {fault}: ranks and scores only."
            bases = explanation.bases if isinstance(explanation, Explanation) else ()
            explanation = Explanation(notes=(note,), bases=bases)
        return ExplainedAnswer(str(method.spec), positions, explanation)


def _form_fault(explanation: object, tools: Sequence[int]) -> str:
    """What is wrong with the form of an explanation; empty if nothing is."""
    if not isinstance(explanation, Explanation):
        return f"is a {type(explanation).__name__} and not an Explanation"
    if explanation.reasons and set(explanation.reasons) != set(tools):
        return "does not have one reason for each tool"
    if any(len(reason.cells) != len(explanation.columns) for reason in explanation.reasons.values()):
        return "does not have one value for each column"
    if explanation.order is not None and set(explanation.order) != set(tools):
        return "does not order all tools"
    return ""


def _contradiction(explanation: Explanation, positions: Mapping[int, Position]) -> str:
    """How an explanation disagrees with the method's scores or order; empty if it agrees."""
    fault = "does not add up to its scores"
    if explanation.order is not None:
        ranks = [positions[tool].rank for tool in explanation.order]
        given = [rank for rank in ranks if rank is not None]
        if given != sorted(given):
            return fault
    reasons = explanation.reasons.items()
    return "" if all(agrees(positions[tool], reason.score) for tool, reason in reasons) else fault


def agrees(position: Position, score: float | None) -> bool:
    """Whether a score equals the position's up to rounding; a missing score agrees with any."""
    if position.score is None or score is None:
        return True
    return abs(position.score - score) <= _TOLERANCE * max(1.0, abs(position.score))


def name_with_id(tool: Tool) -> str:
    """A tool's id, with its name if the id is only a number."""
    return tool.tool_id if any(map(str.isalpha, tool.tool_id)) else f"{tool.tool_id} {tool.name}".strip()


def positions_of(ranking: Ranking, tools: Iterable[int]) -> dict[int, Position]:
    """The positions of tools in the ranking of one query.

    Args:
        ranking: of one query, in the protocol's order.
        tools: codes.
    """
    row = ranking.tools[0]
    columns = {int(tool): column for column, tool in enumerate(row) if tool != PAD}
    scores = None if ranking.scores is None else ranking.scores[0]
    positions = {}
    for tool in tools:
        column = columns.get(int(tool))
        score = None if column is None or scores is None else float(scores[column])
        positions[int(tool)] = Position(None if column is None else column + 1, score)
    return positions


def parts_of_sum(
    names: Sequence[str], values: NDArray[np.float64], shown: NDArray[np.bool_]
) -> tuple[Contribution, ...]:
    """The parts for which `shown` is true, greatest first; equal ones in the given order."""
    order = np.argsort(-np.abs(values), kind="stable")
    return tuple(Contribution(names[i], float(values[i])) for i in order if shown[i])


def excerpt(text: str, most: int = 60) -> str:
    """The beginning of a text, on one line."""
    plain = " ".join(text.split())
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def number(value: float) -> str:
    """A score in a sentence: three decimals, or as many digits for a small one."""
    return score(value)


def list_parts(parts: Iterable[Contribution], most: int = 3) -> str:
    """`schedule 2.310, title 1.920`: the first few parts in a sentence."""
    return ", ".join(f"{part.name} {number(part.value)}" for part in list(parts)[:most])


def differing(reason: Reason, others: Reason) -> list[Contribution]:
    """What others' parts add that one's own do not, greatest difference first; parts are matched by name."""
    mine = {part.name: part.value for part in reason.parts}
    gaps = [Contribution(part.name, part.value - mine.get(part.name, 0.0)) for part in others.parts]
    return sorted((gap for gap in gaps if gap.value > 1e-9), key=lambda gap: -gap.value)
