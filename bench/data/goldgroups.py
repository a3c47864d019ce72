"""Gold in which a judgement may be satisfied by any tool of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class GoldGroups:
    """Relevance judgements of `n` queries; any tool of a judgement's group satisfies it.

    Query i's judgements are `starts[i]` to `starts[i+1]`. Judgement j is satisfied by the tools
    `tools[members[j]:members[j+1]]` (int32 codes, distinct, at least one) and has the relevance `grades[j]` (int32, at
    least 1). Groups of one query may share tools. Gold with single alternatives is the case of groups of one.
    """

    starts: NDArray[np.int64]
    members: NDArray[np.int64]
    tools: NDArray[np.int32]
    grades: NDArray[np.int32]

    @staticmethod
    def of(rows: Iterable[Iterable[tuple[Sequence[int], int]]]) -> GoldGroups:
        """From the judgements of each query, as (codes of the tools, relevance)."""
        starts, members, tools, grades = [0], [0], list[int](), list[int]()
        for row in rows:
            for group, grade in row:
                tools += group
                members.append(len(tools))
                grades.append(grade)
            starts.append(len(grades))
        return GoldGroups(
            np.array(starts, dtype=np.int64),
            np.array(members, dtype=np.int64),
            np.array(tools, dtype=np.int32),
            np.array(grades, dtype=np.int32),
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of judgements of each query, (queries,)."""
        return np.diff(self.starts)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of tools in all groups of each query, (queries,); a tool in two groups counts twice."""
        return self.members[self.starts[1:]] - self.members[self.starts[:-1]]

    def cell_mask(self) -> NDArray[np.bool_]:
        """(queries, maximum per query): which cells of a padded array are in use."""
        sizes = self.sizes
        return np.arange(int(sizes.max(initial=0))) < sizes[:, None]

    def judgements(self) -> Iterator[tuple[int, list[int], int]]:
        """(query, codes of the tools, relevance) of each judgement, in order."""
        owners = np.repeat(np.arange(len(self)), self.counts).tolist()
        tools, ends, grades = self.tools.tolist(), self.members.tolist(), self.grades.tolist()
        for number, (query, grade) in enumerate(zip(owners, grades, strict=True)):
            yield query, tools[ends[number] : ends[number + 1]], grade

    def take(self, queries: NDArray[np.int64]) -> GoldGroups:
        """The judgements of the chosen queries, in the order given."""
        starts, judgements = _ranges(self.starts, queries)
        members, tools = _ranges(self.members, judgements)
        return GoldGroups(starts, members, self.tools[tools], self.grades[judgements])


def _ranges(starts: NDArray[np.int64], chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The starts of the chosen parts when concatenated, and their entries."""
    counts = starts[chosen + 1] - starts[chosen]
    offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    return offsets, np.repeat(starts[chosen], counts) + within
