"""Per-query values of metrics from integer arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.metrics.goldranks import GoldRanks, any_of
from bench.metrics.measure import Metric, SetSizes
from bench.protocol.ranking import ToolSets


@dataclass(frozen=True)
class Scores:
    """Per-query values.

    Attributes:
        metrics: (metrics,) what the columns are.
        values: (queries, metrics) float64; NaN where a metric is not taken on a query (rule 3).
    """

    metrics: tuple[Metric, ...]
    values: NDArray[np.float64]

    def column(self, metric: Metric | str) -> NDArray[np.float64]:
        """(queries,) values of one metric."""
        names = [str(known) for known in self.metrics]
        return self.values[:, names.index(str(metric))]

    def means(self) -> dict[str, float]:
        """Mean of each metric over the queries it is taken on; metrics taken on none are left out."""
        found = {}
        for i, metric in enumerate(self.metrics):
            column = self.values[:, i]
            taken = column[~np.isnan(column)]
            if len(taken):
                found[str(metric)] = float(taken.mean())
        return found


def evaluate(
    tools: NDArray[np.int32],
    gold: Gold,
    metrics: Sequence[Metric],
    sets: ToolSets | None = None,
    unanswered: NDArray[np.bool_] | None = None,
) -> Scores:
    """Score rankings (and tool sets) against gold.

    Args:
        tools: (queries, depth) int32 ranked tool codes in the protocol's order, padded with -1.
        gold: judgements of the same queries.
        metrics: what to compute; those on recommended sets need `sets` and are NaN without.
        sets: recommended sets of the same queries.
        unanswered: (queries,) True where the query failed; it scores 0 (rule 2), and its set is taken as empty. A query
            with an empty ranking scores 0 on rankings in any case.

    Returns:
        The values, (queries, metrics).
    """
    values = np.full((len(gold), len(metrics)), np.nan)
    judged = gold.counts > 0
    rows = np.flatnonzero(judged)
    if not len(rows):
        scored, hits = gold, None
    else:
        everything = len(rows) == len(gold)
        scored = gold if everything else gold.take(rows)
        hits = GoldRanks.of(tools if everything else tools[rows], scored)
    failed = np.zeros(len(gold), dtype=np.bool_) if unanswered is None else unanswered
    empty = tools[:, 0] == -1 if tools.shape[1] else np.ones(len(gold), dtype=np.bool_)
    chosen = None if sets is None else set_sizes(sets, gold, len(gold))
    if chosen is not None:
        # Whatever came with a failure is no recommendation.
        chosen = SetSizes(np.where(failed, 0, chosen.size), np.where(failed, 0, chosen.hits), chosen.n)
    for column, metric in enumerate(metrics):
        if metric.needs_sets:
            if chosen is not None and metric.measure.chosen is not None:
                taken = ~judged if metric.measure.on_no_gold else judged
                sizes = SetSizes(chosen.size[taken], chosen.hits[taken], chosen.n[taken])
                found = metric.measure.chosen(sizes)
                # Nor is a failure a decision to abstain.
                values[taken, column] = np.where(failed[taken], 0.0, found) if metric.measure.on_no_gold else found
        elif hits is not None:
            values[rows, column] = np.where((failed | empty)[rows], 0.0, _on_ranking(hits, metric))
    return Scores(tuple(metrics), values)


def evaluate_groups(
    tools: NDArray[np.int32],
    groups: GoldGroups,
    metrics: Sequence[Metric],
    unanswered: NDArray[np.bool_] | None = None,
) -> Scores:
    """Score rankings against judgements that any tool of a group satisfies; a judgement counts as a gold tool.

    Args:
        tools: (queries, depth) int32 ranked tool codes in the protocol's order, padded with -1.
        groups: judgements of the same queries.
        metrics: metrics on rankings.
        unanswered: as in `evaluate`.

    Returns:
        The values, (queries, metrics); those of `evaluate` where every group is a single tool.
    """
    values = np.full((len(groups), len(metrics)), np.nan)
    rows = np.flatnonzero(groups.counts)
    if len(rows):
        values[rows] = score_ranks(any_of(tools[rows], groups.take(rows)), metrics)
        empty = tools[:, 0] == -1 if tools.shape[1] else np.ones(len(groups), dtype=np.bool_)
        failed = empty if unanswered is None else empty | unanswered
        values[rows[failed[rows]]] = 0.0
    return Scores(tuple(metrics), values)


def mean(values: NDArray[np.float64]) -> float:
    """The mean of (queries,) values, from their exact sum: the same in any order of the queries."""
    return math.fsum(values) / len(values)


def score_ranks(hits: GoldRanks, metrics: Sequence[Metric]) -> NDArray[np.float64]:
    """(queries, metrics) values of metrics on rankings, for queries that all have gold and were answered."""
    values = np.empty((len(hits.n), len(metrics)))
    for column, metric in enumerate(metrics):
        values[:, column] = _on_ranking(hits, metric)
    return values


def _on_ranking(hits: GoldRanks, metric: Metric) -> NDArray[np.float64]:
    k = metric.depths(hits.n)
    if metric.measure.ranked is not None:
        return metric.measure.ranked(hits, k)
    assert metric.measure.chosen is not None
    # A set metric with a cut-off: the first k of the ranking are the recommended set.
    found = np.count_nonzero(hits.ranks <= k[:, None], axis=1)
    return metric.measure.chosen(SetSizes(np.minimum(hits.returned, k), found, hits.n))


def set_sizes(sets: ToolSets, gold: Gold, queries: int) -> SetSizes:
    """|R|, |R ∩ G| and n of each query."""
    size = np.diff(sets.starts)
    tools = 1 + max(int(sets.tools.max(initial=0)), int(gold.tools.max(initial=0)))
    recommended = np.repeat(np.arange(queries), size) * tools + sets.tools
    wanted = np.repeat(np.arange(queries), gold.counts) * tools + gold.tools
    both = np.intersect1d(recommended, wanted, assume_unique=True)
    return SetSizes(size, np.bincount(both // tools, minlength=queries), gold.counts)
