"""Tie bands: the value of each metric with ties broken worst, at random, and best. Scoring calls it.

The protocol breaks ties by tool id (rule 1), which is fair but arbitrary. A gain smaller than the band may be due to
that rule alone. Only the ranks of gold tools matter, so the band is computed on them: a gold tool that ties with others
may be anywhere in its group.

The random value is the mean over all orders that the ties allow: in closed form if there is one
(`bench.metrics.expected`), else over all orders, or over a sample if there are too many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.interface.ranking import Scores
from bench.metrics.evaluate import score_ranks
from bench.metrics.expected import TiedRanks, expected_values
from bench.metrics.goldranks import MISSING, GoldRanks, locate, satisfied_ranks
from bench.metrics.measure import Metric

#: Without a closed form, enumerate all orders of a query's gold tools up to this number.
MOST_ORDERS = 1000
#: Otherwise sample so many orders, and more if the standard error of the metric's mean would exceed `_ERROR`: three
#: decimals are shown.
LEAST_DRAWS = 1000
_ERROR = 0.00025
#: Maximum samples. Metrics that are shares never need more.
_MOST_DRAWN = 1 << 22
_ROUNDING = 1e-12
_SEED = 0
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class TieBand:
    """Band of each metric's mean over the judged queries.

    Attributes:
        metrics: the rows; only monotone metrics on rankings have a band.
        low, expected, high: (metrics,) means with ties broken worst, at random, best.
        draws: (metrics,) number of seeded orders that `expected` is the mean of; 0 if it is exact.
        tied_queries: judged queries with a tie between a gold tool and another tool.
    """

    metrics: tuple[Metric, ...]
    low: NDArray[np.float64]
    expected: NDArray[np.float64]
    high: NDArray[np.float64]
    draws: NDArray[np.int64]
    tied_queries: int


@dataclass(frozen=True)
class UnseenTies:
    """Tools beyond the depth that tie with the last returned one.

    Attributes:
        counts: (queries,) their number.
        gold: judgements of those among them that meet a requirement.
    """

    counts: NDArray[np.int64]
    gold: Gold

    @staticmethod
    def none(queries: int) -> UnseenTies:
        """No tool is known to tie beyond the ranking."""
        return UnseenTies(np.zeros(queries, dtype=np.int64), Gold.of({} for _ in range(queries)))


@dataclass(frozen=True)
class _Groups:
    """Tie group of each gold tool: it may take any of the ranks first .. first + size - 1.

    Arrays are (queries, width), gold sorted by relevance descending; `first` is MISSING for padding and
    for gold that was not returned. `tools` are the codes, -1 for padding.
    """

    first: NDArray[np.int64]
    size: NDArray[np.int64]
    grades: NDArray[np.int32]
    tools: NDArray[np.int32]

    def arrange(self, order: NDArray[np.int64]) -> _Groups:
        """The same, with the gold of each query in another order, (queries, width)."""
        return _Groups(
            np.take_along_axis(self.first, order, 1),
            np.take_along_axis(self.size, order, 1),
            np.take_along_axis(self.grades, order, 1),
            np.take_along_axis(self.tools, order, 1),
        )


def tie_band(
    tools: NDArray[np.int32],
    scores: Scores,
    gold: Gold,
    beyond: UnseenTies,
    metrics: Sequence[Metric],
) -> TieBand:
    """The band of every metric that reads rankings.

    Args:
        tools: (queries, depth) in the protocol's order, -1 padded.
        scores: (queries, depth) scores of these tools.
        gold: judgements of the same queries; those without gold are left out.
        beyond: tools beyond the depth that tie with the last returned one.
        metrics: any metrics; those on recommended sets and non-monotone ones are left out.
    """
    wanted = tuple(metric for metric in metrics if metric.has_tie_band)
    rows = np.flatnonzero((gold.counts > 0) & (tools[:, 0] >= 0 if tools.shape[1] else False))
    judged = max(1, int((gold.counts > 0).sum()))
    if not len(rows):
        nothing = np.zeros(len(wanted))
        return TieBand(wanted, nothing, nothing, nothing, np.zeros(len(wanted), dtype=np.int64), 0)
    tools, scores, gold = tools[rows], scores[rows], gold.take(rows)
    beyond = UnseenTies(beyond.counts[rows], beyond.gold.take(rows))
    depth = tools.shape[1]
    returned = np.count_nonzero(tools >= 0, axis=1)
    groups = _groups(tools, scores, gold.members(), beyond, returned)
    members = _same_group(groups)
    # A tie matters if a group has other tools besides gold tools, or gold of different relevance; with alternatives,
    # any tie matters.
    mixed = (members & (groups.grades[:, :, None] != groups.grades[:, None, :])).any(axis=2)
    matters = (groups.size > members.sum(axis=2)) | mixed | (groups.size > 1 if gold.groups is not None else False)
    tied = ((groups.first < MISSING) & matters).any(axis=1)
    at = np.flatnonzero(tied)

    def measured(
        ranks: NDArray[np.int64],
        which: NDArray[np.int64],
        of: _Groups = groups,
        chosen: Sequence[Metric] = wanted,
    ) -> NDArray[np.float64]:
        # A rank beyond the depth means that the tool was not returned.
        kept = np.where(ranks <= depth, ranks, MISSING).astype(np.int32)
        if gold.groups is not None:
            return score_ranks(
                _satisfied_ranks(kept, of.tools[which], gold.groups.take(which), returned[which]), chosen
            )
        gold_ranks = GoldRanks.sorted(kept, of.grades[which], gold.counts[which], returned[which])
        return score_ranks(gold_ranks, chosen)

    everyone = np.arange(len(rows))
    if gold.groups is None:
        foremost = hindmost = groups
    else:
        foremost, hindmost = (groups.arrange(order) for order in _orders(groups, gold.groups))
    base = measured(_place_gold(foremost, _same_group(foremost), best=True), everyone, foremost)
    best = base[at]
    worst = measured(_place_gold(hindmost, _same_group(hindmost), best=False)[at], at, hindmost) if len(at) else best
    mean, draws = best, np.zeros(len(wanted), dtype=np.int64)
    if len(at):
        mean = _closed_forms(groups, at, gold, returned, depth, wanted)
        lacking = np.isnan(mean)
        if lacking.any():
            columns = np.flatnonzero(lacking.any(axis=0))
            chosen = [wanted[column] for column in columns]
            over = at[lacking.any(axis=1)]
            found, drawn, number = _over_orders(
                lambda ranks, which: measured(ranks, which, chosen=chosen), groups, members, over, judged
            )
            by_orders = np.full((len(rows), len(wanted)), np.nan)
            by_orders[np.ix_(over, columns)] = found
            mean = np.where(lacking, by_orders[at], mean)
            draws[(lacking & np.isin(at, over[drawn])[:, None]).any(axis=0)] = number
    # If all orders have one value, use it to the last bit: rounding must not make a band.
    inside = np.clip(mean, np.minimum(worst, best), np.maximum(worst, best))
    mean = np.where(np.abs(mean - inside) < _ROUNDING, inside, mean)

    def average(tied_values: NDArray[np.float64]) -> NDArray[np.float64]:
        values = base.copy()
        values[at] = tied_values
        # Exact sums, as for the means: a band without ties equals the mean to the last bit.
        return np.array([math.fsum(column) / judged for column in values.T])

    return TieBand(wanted, average(worst), average(mean), average(best), draws, len(at))


def _closed_forms(
    groups: _Groups,
    at: NDArray[np.int64],
    gold: Gold,
    returned: NDArray[np.int64],
    depth: int,
    metrics: Sequence[Metric],
) -> NDArray[np.float64]:
    """(queries `at`, metrics) expected values; NaN without a closed form, or if a tool meets two requirements."""
    if gold.groups is None:
        one = np.ones_like(groups.first)
        tied = TiedRanks(groups.first, groups.size, one, groups.grades, gold.counts, returned, depth)
        return expected_values(tied.take(at), metrics)
    requirements = gold.groups
    owners, places = _tool_places(groups.tools, requirements)
    first, size = groups.first[owners, places], groups.size[owners, places]
    best = np.minimum.reduceat(first, requirements.members[:-1])
    foremost = first == np.repeat(best, np.diff(requirements.members))
    filled = np.arange(int(gold.counts.max())) < gold.counts[:, None]

    def padded(values: NDArray[np.int64], padding: int) -> NDArray[np.int64]:
        cells = np.full(filled.shape, padding, dtype=np.int64)
        cells[filled] = values
        return cells

    tied = TiedRanks(
        padded(best, int(MISSING)),
        padded(np.maximum.reduceat(np.where(foremost, size, 0), requirements.members[:-1]), 1),
        padded(np.add.reduceat(foremost.astype(np.int64), requirements.members[:-1]), 1),
        padded(requirements.grades.astype(np.int64), 0).astype(np.int32),
        gold.counts,
        returned,
        depth,
    )
    values = expected_values(tied.take(at), metrics)
    pairs = np.column_stack([owners, requirements.tools])[first < MISSING]
    several, times = np.unique(pairs, axis=0, return_counts=True)
    values[np.isin(at, several[times > 1, 0])] = np.nan
    return values


def _over_orders(
    measured: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]],
    groups: _Groups,
    members: NDArray[np.bool_],
    rows: NDArray[np.int64],
    judged: int,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """Means over the orders of ties, over all of them if they are few.

    Args:
        measured: values (rows, metrics) of ranks (rows, width) of the queries (rows,).
        groups: the ties of all queries, and `members` which of their gold tools share a group.
        rows: the queries to compute.
        judged: number of queries in a metric's mean.

    Returns:
        (rows, metrics) means, (rows,) whether orders were sampled, and the number of samples.
    """
    earlier = np.tril(np.ones(members.shape[1:], dtype=np.bool_), -1)
    free = np.where(groups.first < MISSING, groups.size - (members & earlier).sum(axis=2), 1)[rows]
    orders = free.astype(np.float64).prod(axis=1)
    drawn = orders > MOST_ORDERS
    few, some = np.flatnonzero(~drawn), np.flatnonzero(drawn)
    means: NDArray[np.float64] | None = None
    for start in range(0, len(few), _ROWS_AT_ONCE // MOST_ORDERS):
        part = few[start : start + _ROWS_AT_ONCE // MOST_ORDERS]
        times = orders[part].astype(np.int64)
        starts = np.cumsum(times) - times
        repeated, choices = np.repeat(rows[part], times), np.repeat(free[part], times, axis=0)
        # Orders as numbers: each choice of a place is a digit.
        number = np.arange(len(repeated)) - np.repeat(starts, times)
        places = np.empty_like(choices)
        for slot in range(choices.shape[1]):
            number, places[:, slot] = np.divmod(number, choices[:, slot])
        values = measured(_ranks_of(groups, members, repeated, places), repeated)
        means = np.empty((len(rows), values.shape[1])) if means is None else means
        means[part] = np.add.reduceat(values, starts) / times[:, None]
    if not len(some):
        assert means is not None
        return means, drawn, 0
    random = np.random.default_rng(_SEED)

    def draw(times: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of values and of their squares over a number of orders of each query."""
        sums, squares = [], []
        step = max(1, _ROWS_AT_ONCE // times)
        for start in range(0, len(some), step):
            part = some[start : start + step]
            repeated, choices = np.repeat(rows[part], times), np.repeat(free[part], times, axis=0)
            places = (random.random(choices.shape) * choices).astype(np.int64)
            values = measured(_ranks_of(groups, members, repeated, places), repeated).reshape(len(part), times, -1)
            sums.append(values.sum(axis=1))
            squares.append(np.square(values).sum(axis=1))
        return np.concatenate(sums), np.concatenate(squares)

    draws = LEAST_DRAWS
    total, squares = draw(draws)
    variance = np.maximum(squares / draws - np.square(total / draws), 0.0).sum(axis=0).max() / judged**2
    wanted = min(math.ceil(variance / _ERROR**2 / LEAST_DRAWS) * LEAST_DRAWS, _MOST_DRAWN // len(some))
    while draws < wanted:
        total += draw(LEAST_DRAWS)[0]
        draws += LEAST_DRAWS
    means = np.empty((len(rows), total.shape[1])) if means is None else means
    means[some] = total / draws
    return means, drawn, draws


def _groups(
    tools: NDArray[np.int32],
    scores: Scores,
    gold: Gold,
    beyond: UnseenTies,
    returned: NDArray[np.int64],
) -> _Groups:
    wanted, grades = gold.padded()
    order = np.argsort(-grades, axis=1, kind="stable")
    wanted, grades = np.take_along_axis(wanted, order, 1), np.take_along_axis(grades, order, 1)
    ranks = locate(tools, wanted).astype(np.int64)
    depth = tools.shape[1]
    positions = np.arange(depth)
    starts_group = np.ones(tools.shape, dtype=np.bool_)
    starts_group[:, 1:] = scores[:, 1:] != scores[:, :-1]
    first_of = np.maximum.accumulate(np.where(starts_group, positions, 0), axis=1)
    ends_group = np.ones(tools.shape, dtype=np.bool_)
    ends_group[:, :-1] = starts_group[:, 1:]
    last_of = np.minimum.accumulate(np.where(ends_group, positions, depth)[:, ::-1], axis=1)[:, ::-1]
    # Padding has the score -inf and would form its own group; it never contains gold.
    there = ranks < MISSING
    at = np.where(there, ranks - 1, 0)
    first = np.take_along_axis(first_of, at, 1) + 1
    last = np.take_along_axis(last_of, at, 1) + 1
    rows = np.arange(len(tools))
    final_first = first_of[rows, returned - 1] + 1
    size = last - first + 1 + np.where(last == returned[:, None], beyond.counts[:, None], 0)
    first = np.where(there, first, MISSING)
    # Gold beyond the depth that ties with the last returned tool belongs to that tool's group.
    for slot in range(wanted.shape[1]):
        outside = _contains(beyond.gold, wanted[:, slot])
        first[outside, slot] = final_first[outside]
        size[outside, slot] = (returned - final_first + 1 + beyond.counts)[outside]
    return _Groups(first, size, grades, wanted)


def _satisfied_ranks(
    ranks: NDArray[np.int32], tools: NDArray[np.int32], groups: GoldGroups, returned: NDArray[np.int64]
) -> GoldRanks:
    """Ranks of requirements from those of the tools that meet them, (queries, width) with their codes."""
    return satisfied_ranks(ranks[_tool_places(tools, groups)], groups, returned)


def _tool_places(tools: NDArray[np.int32], groups: GoldGroups) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column in `tools`, (queries, width), of each tool of each requirement; (tools of all groups,) both."""
    owners = np.repeat(np.arange(len(groups)), groups.sizes)
    return owners, (tools[owners] == groups.tools[:, None]).argmax(axis=1)


def _orders(groups: _Groups, gold: GoldGroups) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Orders that place the tools that meet requirements first, and last, among those they tie with.

    A requirement is met in the best tie group with one of its tools; its tools in other groups do not matter. The best
    order puts one tool of each requirement first. The worst order puts last all tools of the most relevant requirement
    in its group and, among equally relevant ones, those of the requirement with the fewest tools. If no tool meets two
    requirements and all are equally relevant, no order of the ties is better, or worse.

    Returns:
        Two (queries, width) arrays of places in the rows of `groups`.
    """
    best = np.tile(np.arange(groups.tools.shape[1]), (len(groups.tools), 1))
    worst = best.copy()
    by_query: list[list[tuple[list[int], int]]] = [[] for _ in range(len(gold))]
    for query, tools, grade in gold.judgements():
        by_query[query].append((tools, grade))
    for query, judgements in enumerate(by_query):
        at = {tool: place for place, tool in enumerate(groups.tools[query].tolist()) if tool >= 0}
        first = groups.first[query]
        met_by = []
        for tools, grade in judgements:
            group = min(int(first[at[tool]]) for tool in tools)
            met_by.append(([at[tool] for tool in tools if first[at[tool]] == group], grade))
        primary: list[int] = []
        for places, _ in sorted(met_by, key=lambda item: -item[1]):
            primary += [place for place in places if place not in primary][:1]
        late = [place for places, _ in sorted(met_by, key=lambda item: (-item[1], len(item[0]))) for place in places]
        for order, leading in ((best, primary), (worst, late)):
            leading = list(dict.fromkeys(leading))
            rest = [place for place in order[query].tolist() if place not in leading]
            order[query] = leading + rest
    return best, worst


def _contains(gold: Gold, tools: NDArray[np.int32]) -> NDArray[np.bool_]:
    """(queries,) whether tool i is among the gold of query i."""
    owner = np.repeat(np.arange(len(gold)), gold.counts)
    contained = np.zeros(len(gold), dtype=np.bool_)
    contained[owner[gold.tools == tools[owner]]] = True
    return contained


def _same_group(groups: _Groups) -> NDArray[np.bool_]:
    """(queries, width, width) whether two gold tools share a tie group."""
    first = groups.first
    shared: NDArray[np.bool_] = (first[:, :, None] == first[:, None, :]) & (first < MISSING)[:, :, None]
    return shared


def _place_gold(groups: _Groups, members: NDArray[np.bool_], *, best: bool) -> NDArray[np.int64]:
    """Ranks with each group's gold tools first, most relevant foremost; or last, most relevant hindmost."""
    earlier = np.tril(np.ones(members.shape[1:], dtype=np.bool_), -1)
    before = (members & earlier).sum(axis=2)
    offset = before if best else groups.size - 1 - before
    return np.where(groups.first < MISSING, groups.first + offset, MISSING)


def _ranks_of(
    groups: _Groups, members: NDArray[np.bool_], rows: NDArray[np.int64], choices: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Ranks of the gold tools of the chosen rows, (rows, width), distinct within each group.

    A choice counts the places in the group that earlier gold tools have left free.
    """
    first, shared = groups.first[rows], members[rows]
    places = np.full(first.shape, -1, dtype=np.int64)
    for slot in range(first.shape[1]):
        taken = np.where(shared[:, slot, :slot], places[:, :slot], MISSING)
        place = choices[:, slot].copy()
        # Skip the taken places in ascending order.
        for occupied in np.sort(taken, axis=1).T:
            place += place >= occupied
        places[:, slot] = place
    return np.where(first < MISSING, first + places, MISSING)
