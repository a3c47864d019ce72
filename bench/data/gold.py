"""Gold sets as a compressed sparse row (CSR) matrix of relevance grades, with alternatives and forbidden tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.data.goldgroups import GoldGroups

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Gold:
    """Relevance judgements of `n` queries.

    Query i's gold tools are `tools[starts[i]:starts[i+1]]` (int32 codes, ascending, distinct) with
    relevance `grades[...]` (int32, at least 1).

    Each gold tool is a requirement. `groups` lists, in the same order, the tools that meet it, the gold tool first;
    None if every requirement is met only by its gold tool. `forbidden` has the tools that look right but do harm (with
    relevance 1); None if no query has any.

    Examples:
        >>> gold = bench.Gold.of([{7: 1, 2: 3}, {}, {5: 1}])
        >>> gold.counts.tolist(), gold.row(0).tolist()
        ([2, 0, 1], [2, 7])
        >>> gold.tools.tolist(), gold.starts.tolist(), gold.grades.tolist()
        ([2, 7, 5], [0, 2, 2, 3], [3, 1, 1])
    """

    starts: NDArray[np.int64]
    tools: NDArray[np.int32]
    grades: NDArray[np.int32]
    groups: GoldGroups | None = None
    forbidden: Gold | None = None

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
        # Positions of all kept entries at once: each query's start, counted up from 0.
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        entries = np.repeat(self.starts[queries], counts) + within
        return Gold(
            starts,
            self.tools[entries],
            self.grades[entries],
            None if self.groups is None else self.groups.take(queries),
            None if self.forbidden is None else self.forbidden.take(queries),
        )

    def judgements(self) -> Iterator[tuple[int, list[int], int]]:
        """(query, codes of the tools that meet it, relevance) of each requirement, in order."""
        if self.groups is not None:
            yield from self.groups.judgements()
            return
        owners = np.repeat(np.arange(len(self)), self.counts).tolist()
        for query, tool, grade in zip(owners, self.tools.tolist(), self.grades.tolist(), strict=True):
            yield query, [tool], grade

    def members(self) -> Gold:
        """All tools that meet a requirement, with the largest relevance among those they meet; not grouped."""
        if self.groups is None:
            return self
        rows: list[dict[int, int]] = [{} for _ in range(len(self))]
        for query, group, grade in self.groups.judgements():
            for tool in group:
                rows[query][tool] = max(grade, rows[query].get(tool, 0))
        return Gold.of(rows)

    def matrix(self, tools: int) -> csr_array:
        """(queries, tools) the relevance of each gold tool, as a sparse matrix of int32.

        Args:
            tools: the size of the library: `history.gold.matrix(len(library.tools))`.

        Examples:
            >>> bench.Gold.of([{7: 1, 2: 3}, {}]).matrix(8).toarray().tolist()
            [[0, 0, 3, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 0]]
        """
        from scipy.sparse import csr_array  # takes half a second, and few methods need it

        return csr_array((self.grades, self.tools, self.starts), shape=(len(self), tools))

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
