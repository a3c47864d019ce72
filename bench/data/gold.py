"""Gold sets as a compressed sparse row (CSR) matrix of relevance grades."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Gold:
    """Relevance judgements of `n` queries.

    Query i's gold tools are `tools[starts[i]:starts[i+1]]` (int32 codes, ascending, distinct) with
    relevance `grades[...]` (int32, at least 1).
    """

    starts: NDArray[np.int64]
    tools: NDArray[np.int32]
    grades: NDArray[np.int32]

    @staticmethod
    def of(rows: Iterable[Mapping[int, int]]) -> Gold:
        """From one {tool code: relevance} per query."""
        counts: list[int] = []
        tools: list[int] = []
        grades: list[int] = []
        for row in rows:
            counts.append(len(row))
            for tool in sorted(row):
                tools.append(tool)
                grades.append(row[tool])
        starts = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        return Gold(starts, np.array(tools, dtype=np.int32), np.array(grades, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of gold tools of each query, (queries,)."""
        return np.diff(self.starts)

    def row(self, query: int) -> NDArray[np.int32]:
        """The gold tools of one query."""
        return self.tools[self.starts[query] : self.starts[query + 1]]

    def take(self, queries: NDArray[np.int64]) -> Gold:
        """The judgements of the chosen queries, in the order given."""
        counts = self.counts[queries]
        starts = np.zeros(len(queries) + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        # Positions of all kept entries at once: each query's own start, counted up from 0.
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        entries = np.repeat(self.starts[queries], counts) + within
        return Gold(starts, self.tools[entries], self.grades[entries])

    def padded(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(queries, most gold of any query) arrays of tools (-1 padded) and relevance (0 padded)."""
        counts = self.counts
        width = int(counts.max(initial=0))
        tools = np.full((len(self), width), -1, dtype=np.int32)
        grades = np.zeros((len(self), width), dtype=np.int32)
        filled = np.arange(width) < counts[:, None]
        tools[filled] = self.tools
        grades[filled] = self.grades
        return tools, grades
