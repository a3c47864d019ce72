"""How a method explains its answer to one query: the case it is asked about, and the reasons it gives.

A method overrides `Method.explain`. `bench explain` shows the reasons next to the stored ranks and scores, and only if
they agree with what the method answers:

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

#: Stored scores went through single precision, and embeddings differ in their last bits from batch to batch.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Contribution:
    """One term of a tool's score: a shared word, a neighbour in the graph, a past query.

    Attributes:
        name: what it is, as it is printed in a list.
        value: what it adds to the score.
    """

    name: str
    value: float


@dataclass(frozen=True)
class Reason:
    """Why one tool has its rank.

    Attributes:
        score: the score that the explanation arrives at, which must be the method's; None where it only lists facts.
        parts: terms that sum to the score, the greatest first; empty where the score is no sum.
        cells: the values of the explanation's columns.
        note: what else there is to say.
        because: for gold tools alone: why the tool does not rank higher, in words.
    """

    score: float | None = None
    parts: tuple[Contribution, ...] = ()
    cells: tuple[Cell, ...] = ()
    note: str = ""
    because: str = ""


@dataclass(frozen=True)
class Position:
    """A tool's rank from 1 (None: not in the ranking) and its score (None: the method gives none)."""

    rank: int | None
    score: float | None = None


@dataclass(frozen=True)
class Explanation:
    """Why the tools of a case have their ranks.

    Attributes:
        title: what the parts and notes are.
        columns: names of the values that every reason has.
        reasons: tool code -> reason; one for each tool of the case, or none.
        order: the tools of the case in the order that the explanation arrives at; None where scores give it.
        notes: sentences about the query as a whole.
        bases: answers of the methods this one is built on (`Case.answer`).
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
        positions: tool code -> its position when the method ranks the whole library.
        explanation: why.
    """

    label: str
    positions: Mapping[int, Position]
    explanation: Explanation


class Explainable(Protocol):
    """The part of a method that an explanation uses."""

    name: str

    @property
    def spec(self) -> Spec: ...

    def rank(self, queries: Queries, depth: int) -> Ranking: ...

    def explain(self, case: Case) -> Explanation | None: ...


@dataclass(frozen=True)
class Case:
    """One query, and the tools whose ranks are to be explained.

    Attributes:
        library, history: what the method was given.
        query: the query, alone.
        gold: its gold tools.
        tools: the codes that are shown, distinct, best first; gold tools that were not ranked come last.
        rivals: gold tool -> the best tool above it that is not gold; gold tools that have none are missing.
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
        """What a tool is called in a sentence."""
        return name_with_id(self.library.tools[tool])

    def in_order(self, ranked: Iterable[int]) -> tuple[int, ...]:
        """The tools that are shown, in the order of a ranking; those that it lacks come last."""
        place = {int(tool): number for number, tool in enumerate(ranked)}
        return tuple(sorted(self.tools, key=lambda tool: place.get(tool, len(self.library))))

    def answer(self, method: Explainable) -> ExplainedAnswer:
        """A method's answer to this case, with its explanation where that agrees with the answer.

        Args:
            method: fitted and indexed; a method built on others asks the ones that it holds.

        Raises:
            Violation: the method's ranking breaks the protocol.
        """
        library = len(self.library)
        ranking = validate(method.rank(self.query, library), 1, library, library)
        positions = positions_of(ranking, self.tools)
        explanation = method.explain(self)
        if explanation is None:
            note = f"How {method.name} ranks is not taken apart here: ranks and scores alone."
            return ExplainedAnswer(str(method.spec), positions, Explanation(notes=(note,)))
        fault = _form_fault(explanation, self.tools) or _contradiction(explanation, positions)
        if fault:
            note = f"What is known of how {method.name} scores {fault}: ranks and scores alone."
            bases = explanation.bases if isinstance(explanation, Explanation) else ()
            explanation = Explanation(notes=(note,), bases=bases)
        return ExplainedAnswer(str(method.spec), positions, explanation)


def _form_fault(explanation: object, tools: Sequence[int]) -> str:
    """What is wrong with the form of an explanation; empty when nothing is."""
    if not isinstance(explanation, Explanation):
        return f"is a {type(explanation).__name__} and no Explanation"
    if explanation.reasons and set(explanation.reasons) != set(tools):
        return "has not one reason for each tool that is shown"
    if any(len(reason.cells) != len(explanation.columns) for reason in explanation.reasons.values()):
        return "has not one value for each of its columns"
    if explanation.order is not None and set(explanation.order) != set(tools):
        return "has not each tool that is shown in its order"
    return ""


def _contradiction(explanation: Explanation, positions: Mapping[int, Position]) -> str:
    """How an explanation disagrees with the scores, or the order, that the method gives; empty where it agrees."""
    fault = "does not add up to its scores"
    if explanation.order is not None:
        ranks = [positions[tool].rank for tool in explanation.order]
        given = [rank for rank in ranks if rank is not None]
        if given != sorted(given):
            return fault
    reasons = explanation.reasons.items()
    return "" if all(agrees(positions[tool], reason.score) for tool, reason in reasons) else fault


def agrees(position: Position, score: float | None) -> bool:
    """Whether a score is the position's, up to rounding; a score that is missing on either side agrees."""
    if position.score is None or score is None:
        return True
    return abs(position.score - score) <= _TOLERANCE * max(1.0, abs(position.score))


def name_with_id(tool: Tool) -> str:
    """A tool's id; with its name where the id is only a number."""
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
    """The parts that `shown` is true for, the greatest first; equals in the order given."""
    order = np.argsort(-np.abs(values), kind="stable")
    return tuple(Contribution(names[i], float(values[i])) for i in order if shown[i])


def excerpt(text: str, most: int = 60) -> str:
    """The beginning of a text, in one line."""
    plain = " ".join(text.split())
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def number(value: float) -> str:
    """A score in a sentence: three decimals, or as many digits for a small one."""
    return score(value)


def list_parts(parts: Iterable[Contribution], most: int = 3) -> str:
    """`schedule 2.310, title 1.920`: the first few parts in a sentence."""
    return ", ".join(f"{part.name} {number(part.value)}" for part in list(parts)[:most])


def differing(reason: Reason, others: Reason) -> list[Contribution]:
    """What others' parts add that one's own do not, the greatest difference first; parts are matched by name."""
    mine = {part.name: part.value for part in reason.parts}
    gaps = [Contribution(part.name, part.value - mine.get(part.name, 0.0)) for part in others.parts]
    return sorted((gap for gap in gaps if gap.value > 1e-9), key=lambda gap: -gap.value)
