"""What an explanation of a ranking is made of: for each tool shown, where it stood, its score, and out of what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.data.tables import Tool
from bench.protocol import History, Library, Method, Queries, Ranking
from bench.protocol.ranking import PAD

#: A value in a column of an explainer's own.
Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Part:
    """One thing that makes up a tool's score: a shared word, a neighbour in the graph, a past query.

    Attributes:
        name: what it is, as it may be printed in a list.
        value: what it adds to the score.
    """

    name: str
    value: float


@dataclass(frozen=True)
class Reason:
    """Why one tool has its place.

    Attributes:
        score: what the explanation makes its score; None where it only lists facts. It must be the method's.
        parts: what the score is the sum of, the greatest first; empty where it is no sum.
        cells: the values of the explanation's columns.
        note: what there is to say beside.
        because: gold tools alone: in words, why it does not stand higher.
    """

    score: float | None = None
    parts: tuple[Part, ...] = ()
    cells: tuple[Cell, ...] = ()
    note: str = ""
    because: str = ""


@dataclass(frozen=True)
class Place:
    """Where a tool stands: its rank from 1 (None: not in the ranking) and its score (None: the method gives none)."""

    rank: int | None
    score: float | None = None


@dataclass(frozen=True)
class Explanation:
    """Why the tools of a case have their places, as far as one explainer can tell.

    Attributes:
        title: what the parts and notes are.
        columns: names of the values that every reason has.
        reasons: tool code -> reason; one for each tool of the case, or none at all.
        order: the tools of the case in the order that the explanation makes of them; None where scores say it.
        notes: what is to be said of the query as a whole, in sentences.
        bases: the methods this one is built on, and why they ranked as they did.
    """

    title: str = ""
    columns: tuple[str, ...] = ()
    reasons: Mapping[int, Reason] = field(default_factory=dict)
    order: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    bases: tuple[Told, ...] = ()


@dataclass(frozen=True)
class Told:
    """A method's answer to a case, and why.

    Attributes:
        label: the method's spec.
        places: tool code -> where the method puts it in a ranking of the whole library.
        explanation: why.
    """

    label: str
    places: Mapping[int, Place]
    explanation: Explanation


@dataclass(frozen=True)
class Case:
    """One query and the tools whose places are to be explained.

    Attributes:
        library, history: what the method was given.
        query: the query, alone.
        gold: its gold tools.
        tools: the codes that are shown, distinct, best first; gold tools that were not ranked stand last.
        rivals: gold tool -> the best tool above it that is not gold; gold tools that have none are missing.
        prepare: makes a method (or the method of a spec) ready on library and history.
    """

    library: Library
    history: History
    query: Queries
    gold: frozenset[int]
    tools: tuple[int, ...]
    rivals: Mapping[int, int]
    prepare: Callable[[str], Method]

    @property
    def text(self) -> str:
        """The query's text."""
        return self.query.texts[0]

    def id_of(self, tool: int) -> str:
        """What a tool is called in a sentence."""
        return called(self.library.tools[tool])


#: Explains the answer of a method that is ready to rank.
Explainer = Callable[[Method, Case], Explanation]


def called(tool: Tool) -> str:
    """A tool's id; with its name where the id is only a number."""
    return tool.tool_id if any(map(str.isalpha, tool.tool_id)) else f"{tool.tool_id} {tool.name}".strip()


def places_of(ranking: Ranking, tools: Iterable[int]) -> dict[int, Place]:
    """Where tools stand in the ranking of one query.

    Args:
        ranking: of one query, in the protocol's order.
        tools: codes.
    """
    row = ranking.tools[0]
    ranks = {int(tool): place for place, tool in enumerate(row) if tool != PAD}
    scores = None if ranking.scores is None else ranking.scores[0]
    found = {}
    for tool in tools:
        place = ranks.get(int(tool))
        score = None if place is None or scores is None else float(scores[place])
        found[int(tool)] = Place(None if place is None else place + 1, score)
    return found


def parts_of_sum(names: Sequence[str], values: NDArray[np.float64], shown: NDArray[np.bool_]) -> tuple[Part, ...]:
    """The parts that `shown` is true for, the greatest first; equals in the order given."""
    order = np.argsort(-np.abs(values), kind="stable")
    return tuple(Part(names[i], float(values[i])) for i in order if shown[i])


def excerpt(text: str, most: int = 60) -> str:
    """The beginning of a text, in one line."""
    plain = " ".join(text.split())
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def number(value: float) -> str:
    """A score in a sentence: three decimals, or as many digits for a small one."""
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.1 else f"{value:.3g}"


def listed(parts: Iterable[Part], most: int = 3) -> str:
    """`schedule 2.310, title 1.920`: the first few parts in a sentence."""
    return ", ".join(f"{part.name} {number(part.value)}" for part in list(parts)[:most])


def differing(own: Reason, others: Reason) -> list[Part]:
    """What others' parts add that one's own do not, the greatest difference first; parts are matched by name."""
    mine = {part.name: part.value for part in own.parts}
    gaps = [Part(part.name, part.value - mine.get(part.name, 0.0)) for part in others.parts]
    return sorted((gap for gap in gaps if gap.value > 1e-9), key=lambda gap: -gap.value)
