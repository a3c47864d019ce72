"""What a ranking does with each tool, in arrays: found, shown without being wanted, and behind which others.

A **case** is a requirement of a query: a gold tool, together with the tools that also meet the requirement. It counts
as a case of the gold tool. A case is found at k if the ranking meets it among its first k tools, and missed otherwise.
A tool is shown in place of another if it is among the first k of a query that misses the other and does not want it.
`tool_report` calls it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.interface.ranking import PAD
from bench.metrics.goldranks import MISSING, any_of, locate
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import SHARE
from bench.stats.noninferiority import FEWEST_UNITS


@dataclass(frozen=True, eq=False)
class Confusions:
    """Pairs of a missed tool and one shown in its place, sorted by the missed tool.

    The pairs of a tool are sorted by number of queries, most first, then by the code of the other tool.

    Attributes:
        missed, shown: (pairs,) codes.
        queries: (pairs,) number of queries.
        example: (pairs,) the case in which the missed tool ranks best.
    """

    missed: NDArray[np.int64]
    shown: NDArray[np.int64]
    queries: NDArray[np.int64]
    example: NDArray[np.int64]

    def of(self, tool: int) -> NDArray[np.int64]:
        """The pairs with a missed tool, by position."""
        low, high = np.searchsorted(self.missed, [tool, tool + 1])
        return np.arange(low, high)


@dataclass(frozen=True, eq=False)
class ToolCounts:
    """What a ranking does with each tool of a library.

    Attributes:
        k: number of tools of each ranking that count as shown.
        first: (queries, k or less) codes of the first tools, -1 if there are fewer.
        right: (queries, k or less) whether the tool at a rank meets a requirement of the query.
        harmful: (queries, k or less) whether the query forbids it.
        query: (cases,) position of the query.
        tool: (cases,) code of the gold tool.
        rank: (cases,) int32 rank that meets the requirement, from 1; `MISSING` if none in the ranking does.
        units: (queries,) the unit of independence of each query.
        wanted: (tools,) number of cases.
        groups: (tools,) number of units of its cases.
        found: (tools,) cases found at k.
        by_other: (tools,) those of them with only another tool of the requirement among the first k.
        absent: (tools,) cases that the whole ranking does not meet.
        accepted: (tools,) queries in which it may replace a gold tool.
        shown: (tools,) occurrences among the first k.
        unwanted: (tools,) those of them in queries that do not want it.
        forbidden: (tools,) queries that forbid it; (tools,) `forbidden_shown`: its occurrences among the first k of
            these.
        mean_rank: (tools,) mean rank over the cases that the ranking meets; NaN if there are none.
        median_rank: (tools,) median rank over all cases; NaN if it is beyond the ranking, or if there are none.
    """

    k: int
    first: NDArray[np.int32]
    right: NDArray[np.bool_]
    harmful: NDArray[np.bool_]
    query: NDArray[np.int64]
    tool: NDArray[np.int64]
    rank: NDArray[np.int32]
    units: NDArray[np.int64]
    wanted: NDArray[np.int64]
    groups: NDArray[np.int64]
    found: NDArray[np.int64]
    by_other: NDArray[np.int64]
    absent: NDArray[np.int64]
    accepted: NDArray[np.int64]
    shown: NDArray[np.int64]
    unwanted: NDArray[np.int64]
    forbidden: NDArray[np.int64]
    forbidden_shown: NDArray[np.int64]
    mean_rank: NDArray[np.float64]
    median_rank: NDArray[np.float64]

    @property
    def missed(self) -> NDArray[np.int64]:
        """(tools,) cases that are not found at k."""
        return self.wanted - self.found

    def worst_first(self) -> NDArray[np.int64]:
        """Codes of all tools: most cases missed first, then most often shown unwanted, then by code."""
        return np.lexsort((np.arange(len(self.wanted)), -self.unwanted, -self.missed))

    def interval(self, tool: int) -> tuple[float, float] | None:
        """The 95% interval of the share of a tool's cases that are found; None with too few units.

        It is computed like that of recall: over units of independence, with the bounds for shares (`docs/protocol.md`).
        """
        if self.groups[tool] < FEWEST_UNITS:
            return None
        cases = self._cases_of(tool)
        values = (self.rank[cases] <= self.k).astype(np.float64)[:, None]
        units = number_units(self.units[self.query[cases]])
        low, high = bca_intervals(values, seed=BOOTSTRAP_SEED, units=units, span=SHARE)[0]
        return float(low), float(high)

    def missed_cases(self, tool: int) -> NDArray[np.int64]:
        """The missed cases of a tool, best ranks first, then by query."""
        cases = self._cases_of(tool)
        lost = cases[self.rank[cases] > self.k]
        return lost[np.lexsort((self.query[lost], self.rank[lost]))]

    def unwanted_places(self, tool: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The queries that show a tool without wanting it, with its ranks there; best ranks first."""
        query, column = np.nonzero((self.first == tool) & ~self.right)
        order = np.lexsort((query, column))
        return query[order], column[order] + 1

    def confusions(self) -> Confusions:
        """The pairs of missed and shown tools."""
        lost = np.flatnonzero(self.rank > self.k)
        lost = lost[np.lexsort((self.query[lost], self.rank[lost]))]
        tools = len(self.wanted)
        wrong = (self.first != PAD) & ~self.right
        case, column = np.nonzero(wrong[self.query[lost]])
        winner = self.first[self.query[lost[case]], column].astype(np.int64)
        # Cases are sorted by rank: the first of each pair is its example.
        keys, places, counts = np.unique(self.tool[lost[case]] * tools + winner, return_index=True, return_counts=True)
        missed, shown = keys // tools, keys % tools
        order = np.lexsort((shown, -counts, missed))
        return Confusions(missed[order], shown[order], counts[order], lost[case][places][order])

    def _cases_of(self, tool: int) -> NDArray[np.int64]:
        # Cases are sorted by tool.
        low, high = np.searchsorted(self.tool, [tool, tool + 1])
        return np.arange(low, high)


def count_tools(
    ranked: NDArray[np.int32],
    wanted: GoldGroups,
    forbidden: Gold | None,
    units: NDArray[np.int64],
    tools: int,
    k: int,
) -> ToolCounts:
    """Count what a ranking did with each tool.

    Args:
        ranked: (queries, depth) tool codes, best first, -1 padded at the end.
        wanted: the requirements of the queries; the first tool of a group is the gold tool.
        forbidden: the tools that the queries forbid; None if there are none.
        units: (queries,) the unit of independence of each query.
        tools: number of tools in the library.
        k: number of tools of each ranking that count as shown, at least 1.
    """
    queries = np.repeat(np.arange(len(wanted)), wanted.counts)
    gold = wanted.tools[wanted.members[:-1]].astype(np.int64)
    rank = _ranks(ranked, wanted)
    own_ranks = _own_ranks(ranked, wanted, queries, gold)
    order = np.lexsort((queries, gold))
    query, tool, rank, own_ranks = queries[order], gold[order], rank[order], own_ranks[order]

    first = ranked[:, :k]
    there = first != PAD
    owners = np.repeat(queries, np.diff(wanted.members))
    right = there & _among(first, owners, wanted.tools.astype(np.int64), tools)
    banned = np.zeros(0, dtype=np.int64) if forbidden is None else forbidden.tools.astype(np.int64)
    banning = banned if forbidden is None else np.repeat(np.arange(len(forbidden)), forbidden.counts)
    harmful = there & _among(first, banning, banned, tools)

    def places(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(first[chosen], minlength=tools)

    def cases(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(tool[chosen], minlength=tools)

    every = np.bincount(tool, minlength=tools)
    pairs = np.unique(tool * (int(units.max(initial=0)) + 1) + units[query])
    stand_ins = np.unique(owners * tools + wanted.tools)
    met = rank < MISSING
    with np.errstate(invalid="ignore"):
        mean = np.bincount(tool[met], weights=rank[met], minlength=tools) / cases(met)
    return ToolCounts(
        k=k,
        first=first,
        right=right,
        harmful=harmful,
        query=query,
        tool=tool,
        rank=rank,
        units=units,
        wanted=every,
        groups=np.bincount(pairs // (int(units.max(initial=0)) + 1), minlength=tools),
        found=cases(rank <= k),
        by_other=cases((rank <= k) & (own_ranks > k)),
        absent=cases(~met),
        accepted=np.bincount(stand_ins % tools, minlength=tools) - every,
        shown=places(there),
        unwanted=places(there & ~right),
        forbidden=np.bincount(banned, minlength=tools),
        forbidden_shown=places(harmful),
        mean_rank=mean,
        median_rank=_medians(tool, rank, every),
    )


def _ranks(ranked: NDArray[np.int32], wanted: GoldGroups) -> NDArray[np.int32]:
    """(judgements,) the rank at which each is satisfied, as `any_of` finds them."""
    # `any_of` sorts a query's judgements by rank. Numbering them by relevance makes them distinguishable again.
    number = np.arange(len(wanted.grades)) - np.repeat(wanted.starts[:-1], wanted.counts)
    labels = (np.repeat(wanted.counts, wanted.counts) - number).astype(np.int32)
    satisfied = any_of(ranked, GoldGroups(wanted.starts, wanted.members, wanted.tools, labels))
    ranks = np.full(len(labels), MISSING, dtype=np.int32)
    query, column = np.nonzero(satisfied.grades)
    ranks[wanted.starts[query + 1] - satisfied.grades[query, column]] = satisfied.ranks[query, column]
    return ranks


def _own_ranks(
    ranked: NDArray[np.int32], wanted: GoldGroups, queries: NDArray[np.int64], gold: NDArray[np.int64]
) -> NDArray[np.int32]:
    """(judgements,) the rank of the gold tool itself."""
    filled = np.arange(int(wanted.counts.max(initial=0))) < wanted.counts[:, None]
    codes = np.full(filled.shape, PAD, dtype=np.int32)
    codes[filled] = gold
    return locate(ranked, codes)[filled]


def _among(
    first: NDArray[np.int32], owners: NDArray[np.int64], members: NDArray[np.int64], tools: int
) -> NDArray[np.bool_]:
    """(queries, k) whether a tool belongs to its query: `members[i]` belongs to `owners[i]`."""
    keys = np.arange(len(first))[:, None] * tools + first
    return np.isin(keys, owners * tools + members)


def _medians(tool: NDArray[np.int64], rank: NDArray[np.int32], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(tools,) the median rank over the cases of each tool; NaN if it is not a rank."""
    ordered = rank[np.lexsort((rank, tool))]
    starts = np.cumsum(counts) - counts
    known = np.flatnonzero(counts)
    low = ordered[starts[known] + (counts[known] - 1) // 2]
    high = ordered[starts[known] + counts[known] // 2]
    medians = np.full(len(counts), np.nan)
    medians[known] = np.where(high < MISSING, (low.astype(np.float64) + high) / 2, np.nan)
    return medians
