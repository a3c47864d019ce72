"""The ranks of each query's gold tools: the input of every metric on rankings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups

#: The rank of a gold tool that was not returned, and of padding.
MISSING = np.int32(1 << 30)

_BLOCK = 1 << 19  # cells compared at once: small enough for the processor's cache


@dataclass(frozen=True)
class GoldRanks:
    """Ranks of gold tools, for `queries` queries with at most `width` gold tools each.

    Attributes:
        ranks: (queries, width) int32, 1 = first, ascending; `MISSING` if not returned, and for padding.
        grades: (queries, width) int32 relevance of the tool at that rank; 0 for padding.
        ideal: (queries, width) int32 relevance of all gold tools, descending; 0 for padding.
        n: (queries,) int64 number of gold tools.
        returned: (queries,) int64 number of tools returned.
    """

    ranks: NDArray[np.int32]
    grades: NDArray[np.int32]
    ideal: NDArray[np.int32]
    n: NDArray[np.int64]
    returned: NDArray[np.int64]

    @staticmethod
    def of(tools: NDArray[np.int32], gold: Gold) -> GoldRanks:
        """Locate the gold tools in (queries, depth) ranked tool codes, padded with -1.

        If gold has alternatives, a requirement has the rank of the tool that meets it (`any_of`).
        """
        if gold.groups is not None:
            return any_of(tools, gold.groups)
        wanted, grades = gold.padded()
        ranks = locate(tools, wanted)
        return GoldRanks.sorted(ranks, grades, gold.counts, returned_counts(tools))

    @staticmethod
    def sorted(
        ranks: NDArray[np.int32],
        grades: NDArray[np.int32],
        n: NDArray[np.int64],
        returned: NDArray[np.int64],
    ) -> GoldRanks:
        """From ranks and grades in any order; sorts both by rank."""
        order = np.argsort(ranks, axis=1, kind="stable")
        return GoldRanks(
            np.take_along_axis(ranks, order, 1),
            np.take_along_axis(grades, order, 1),
            -np.sort(-grades, axis=1),
            n,
            returned.astype(np.int64),
        )


def returned_counts(tools: NDArray[np.int32]) -> NDArray[np.int64]:
    """(queries,) number of tools in each row; padding is at the end, so most rows need one comparison."""
    queries, depth = tools.shape
    counts = np.full(queries, depth, dtype=np.int64)
    short = np.flatnonzero(tools[:, -1] == -1) if depth else np.arange(0)
    counts[short] = np.count_nonzero(tools[short] != -1, axis=1)
    return counts


def locate(tools: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.int32]:
    """1-based rank of each wanted tool in its row of `tools`, or `MISSING`.

    Args:
        tools: (queries, depth) codes, -1 padded at the end.
        wanted: (queries, width) codes, -1 padded at the end.
    """
    queries, depth = tools.shape
    ranks = np.full(wanted.shape, MISSING, dtype=np.int32)
    if not depth:
        return ranks
    step = max(1, _BLOCK // depth)
    for start in range(0, queries, step):
        rows = slice(start, start + step)
        block, targets = tools[rows], wanted[rows]
        for slot in range(wanted.shape[1]):
            some = np.flatnonzero(targets[:, slot] >= 0)
            if not len(some):
                break
            # Most queries have few gold tools: compare only the rows that have this many.
            part = block if len(some) == len(block) else block[some]
            matches = part == targets[some, slot, None]
            position = matches.argmax(axis=1)
            hit = matches[np.arange(len(some)), position]
            ranks[start + some, slot] = np.where(hit, position + 1, MISSING)
    return ranks


def any_of(tools: NDArray[np.int32], groups: GoldGroups) -> GoldRanks:
    """Locate judgements that any tool of a group satisfies.

    A ranked tool satisfies at most one judgement of its query. If groups share tools, ranked tools and judgements are
    matched: at every depth, the satisfied judgements are those with the largest total relevance that the tools so far
    can satisfy together. A satisfied judgement stays satisfied at greater depths, and its rank is the depth at which it
    is first satisfied (sets of judgements that some tools can satisfy together are the independent sets of a
    transversal matroid, Edmonds and Fulkerson 1965, so augmenting paths in the order of the ranking are optimal). No
    other choice gives a higher value of a metric at any cut-off.

    Args:
        tools: (queries, depth) ranked tool codes, padded with -1.
        groups: judgements of the same queries.

    Returns:
        The ranks, with judgements in place of gold tools; `GoldRanks.of` for groups of one.
    """
    filled = groups.cell_mask()
    wanted = np.full(filled.shape, -1, dtype=np.int32)
    wanted[filled] = groups.tools
    return satisfied_ranks(locate(tools, wanted)[filled], groups, returned_counts(tools))


def satisfied_ranks(tool_ranks: NDArray[np.int32], groups: GoldGroups, returned: NDArray[np.int64]) -> GoldRanks:
    """The ranks at which judgements are satisfied, by the rule of `any_of`.

    Args:
        tool_ranks: (tools of all groups,) the rank of each tool; `MISSING` if it was not returned.
        groups: the judgements.
        returned: (queries,) number of tools returned.
    """
    best = np.minimum.reduceat(tool_ranks, groups.members[:-1]) if len(tool_ranks) else tool_ranks.copy()
    for query in _sharing(np.repeat(np.arange(len(groups)), groups.sizes), groups.tools, tool_ranks):
        first, last = groups.starts[query], groups.starts[query + 1]
        best[first:last] = _match(tool_ranks, groups, int(first), int(last))
    counts = groups.counts
    places = np.arange(int(counts.max(initial=0))) < counts[:, None]
    ranks = np.full(places.shape, MISSING, dtype=np.int32)
    grades = np.zeros(places.shape, dtype=np.int32)
    ranks[places], grades[places] = best, groups.grades
    return GoldRanks.sorted(ranks, grades, counts, returned)


def _sharing(owners: NDArray[np.int64], tools: NDArray[np.int32], ranks: NDArray[np.int32]) -> list[int]:
    """Queries in which a ranked tool is in several groups; arrays are (tools of all groups,)."""
    ranked = ranks < MISSING
    pairs = np.column_stack([owners[ranked], tools[ranked]])
    several, times = np.unique(pairs, axis=0, return_counts=True)
    queries: list[int] = np.unique(several[times > 1, 0]).tolist()
    return queries


def _match(ranks: NDArray[np.int32], groups: GoldGroups, first: int, last: int) -> list[int]:
    """The ranks of the judgements `first` to `last` of one query, by augmenting paths in the order of the ranking.

    Args:
        ranks: (tools of all groups,) the rank of each tool.
    """
    could: dict[int, list[int]] = {}
    for judgement in range(first, last):
        for rank in ranks[groups.members[judgement] : groups.members[judgement + 1]].tolist():
            if rank < MISSING:
                could.setdefault(rank, []).append(judgement)
    holder: dict[int, int] = {}
    satisfied = dict.fromkeys(range(first, last), int(MISSING))
    for rank in sorted(could):
        # Judgements that become satisfied if earlier ones on a path move to another tool.
        came_from: dict[int, int | None] = {}
        pending: list[tuple[int, int | None]] = [(rank, None)]
        while pending:
            tool, before = pending.pop()
            for judgement in could[tool]:
                if judgement not in came_from:
                    came_from[judgement] = before
                    if judgement in holder:
                        pending.append((holder[judgement], judgement))
        free = [judgement for judgement in came_from if judgement not in holder]
        if not free:
            continue
        step = max(free, key=lambda judgement: (groups.grades[judgement], -judgement))
        satisfied[step] = rank
        while (before := came_from[step]) is not None:
            holder[step] = holder[before]
            step = before
        holder[step] = rank
    return list(satisfied.values())
