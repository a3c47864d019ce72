"""The gold inserted in front of another method's ranking, or removed from it: the baseline of a choice."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.data.gold import Gold
from bench.interface import Context, History, Library, OracleMethod, Queries, Ranking
from bench.interface.ranking import PAD


class Planted(OracleMethod):
    """The ranking of `base` with the gold in front of it, or without it.

    With `gold=in`, the gold tools come first, the most relevant first, and the others follow in the order of the base:
    the first k contain the gold and the base's most likely mistakes (with `base=random`, any others). With `gold=out`,
    the gold tools and their alternatives are left out, so that no tool answers the request. The order has no scores.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="method whose ranking the other tools come from")
        gold: Literal["in", "out"] = Field("in", description="put the gold in front, or leave it out")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._base = context.build(parameters.base)

    def reveal(self, gold: Gold) -> None:
        tools, grades = gold.padded()
        best = np.take_along_axis(tools, np.argsort(-grades, axis=1, kind="stable"), axis=1)
        self._gold = [row[row >= 0].tolist() for row in best]
        # Tools that meet a requirement of the query, alternatives included.
        meeting = gold.members()
        self._meeting = [frozenset(meeting.row(row).tolist()) for row in range(len(self._gold))]

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._size = len(library)
        self._base.index(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        most = max(map(len, self._meeting), default=0)
        base = self._base.rank(queries, min(self._size, depth + most))
        rows = []
        for row, tools in zip(queries.rows.tolist(), base.tools, strict=True):
            first = self._gold[row] if self.parameters.gold == "in" else []
            others = [tool for tool in tools[tools != PAD].tolist() if tool not in self._meeting[row]]
            rows.append([*first, *others][:depth])
        return Ranking.of_lists(rows, None if base.failed is None else base.failed.tolist())
