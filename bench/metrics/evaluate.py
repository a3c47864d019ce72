"""Per-query values of metrics from integer arrays. Scoring calls it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.interface.ranking import ToolSets
from bench.metrics.goldranks import MISSING, GoldRanks, any_of
from bench.metrics.measure import (
    Confidence,
    ConfidenceMeasure,
    ForbiddenMeasure,
    Metric,
    RankingMeasure,
    SetMeasure,
    SetSizes,
)


@dataclass(frozen=True)
class Scores:
    """Per-query values.

    Attributes:
        metrics: (metrics,) the columns.
        values: (queries, metrics) float64; NaN if a metric does not apply to a query (rule 3).
    """

    metrics: tuple[Metric, ...]
    values: NDArray[np.float64]

    def column(self, metric: Metric | str) -> NDArray[np.float64]:
        """(queries,) values of one metric."""
        names = [str(known) for known in self.metrics]
        return self.values[:, names.index(str(metric))]

    def means(self) -> dict[str, float]:
        """Mean of each metric over the queries it applies to; metrics that apply to none are left out."""
        means = {}
        for i, metric in enumerate(self.metrics):
            column = self.values[:, i]
            taken = column[~np.isnan(column)]
            if len(taken):
                means[str(metric)] = float(taken.mean())
        return means


def evaluate(
    tools: NDArray[np.int32],
    gold: Gold,
    metrics: Sequence[Metric],
    sets: ToolSets | None = None,
    unanswered: NDArray[np.bool_] | None = None,
    confidence: NDArray[np.float64] | None = None,
) -> Scores:
    """Score rankings (and tool sets) against gold.

    Args:
        tools: (queries, depth) int32 ranked tool codes in the protocol's order, padded with -1.
        gold: judgements of the same queries.
        metrics: metrics to compute; those on recommended sets need `sets` and those of confidence `confidence`,
            else they are NaN. Those of destructive tools are NaN too: `bench.metrics.destructive` fills them in.
        sets: recommended sets of the same queries.
        unanswered: (queries,) True if the query failed. It gets the worst value (rule 2): no gold was found and,
            for a query without gold and for forbidden tools, everything wrong was returned. A query with gold and an
            empty answer has always failed.
        confidence: (queries,) the score of the first tool, -inf if there is none.

    Returns:
        The values, (queries, metrics).
    """
    values = np.full((len(gold), len(metrics)), np.nan)
    judged = gold.counts > 0
    rows = np.flatnonzero(judged)
    hits = GoldRanks.of(*_at(rows, tools, gold)) if len(rows) else None
    failed = np.zeros(len(gold), dtype=np.bool_) if unanswered is None else unanswered
    empty = tools[:, 0] == -1 if tools.shape[1] else np.ones(len(gold), dtype=np.bool_)
    chosen = None
    if sets is not None:
        sizes = set_sizes(sets, gold, len(gold))
        # Sets returned with a failure do not count.
        chosen = SetSizes(np.where(failed, 0, sizes.size)[rows], np.where(failed, 0, sizes.hits)[rows], sizes.n[rows])
    # A query with gold and without an answer has failed (rule 2), as the stored result will say.
    nothing = empty if sets is None else empty & (np.diff(sets.starts) == 0)
    silent = failed | (nothing & judged)
    for column, metric in enumerate(metrics):
        measure = metric.measure
        taken = np.flatnonzero(measure.taken(gold))
        if not len(taken) or (metric.needs_sets and sets is None):
            continue
        if isinstance(measure, ConfidenceMeasure):
            if confidence is not None:
                first = np.full(len(gold), MISSING, dtype=np.int64)
                first[rows] = MISSING if hits is None else hits.ranks[:, 0]
                answers = Confidence(confidence, judged, np.where(silent, MISSING, first), silent)
                values[:, column] = measure.function(answers, metric.depths(gold.counts))
        elif isinstance(measure, ForbiddenMeasure) or (isinstance(measure, SetMeasure) and measure.queries != "gold"):
            values[taken, column] = measure.function(_wrong(tools, gold, metric, sets, silent, taken))
        elif metric.needs_sets:
            values[rows, column] = measure.function(chosen)
        elif hits is not None:
            values[rows, column] = np.where((failed | empty)[rows], 0.0, _on_ranking(hits, metric))
    return Scores(tuple(metrics), values)


def _at(rows: NDArray[np.int64], tools: NDArray[np.int32], gold: Gold) -> tuple[NDArray[np.int32], Gold]:
    """Rankings and gold of some queries; without a copy if these are all."""
    return (tools, gold) if len(rows) == len(gold) else (tools[rows], gold.take(rows))


def _wrong(
    tools: NDArray[np.int32],
    gold: Gold,
    metric: Metric,
    sets: ToolSets | None,
    failed: NDArray[np.bool_],
    taken: NDArray[np.int64],
) -> SetSizes:
    """Sizes for measures of tools that should not be returned, for the queries at `taken`.

    These are any tools if no tool fits, or forbidden tools. A failed query counts as one that returned as many as
    possible.
    """
    target = gold.forbidden if isinstance(metric.measure, ForbiddenMeasure) else gold
    assert target is not None
    if metric.needs_sets:
        assert sets is not None
        sizes = set_sizes(sets, target, len(gold))
        size, hits, n = sizes.size[taken], sizes.hits[taken], sizes.n[taken]
        most = metric.depths(n)
    else:
        ranks = GoldRanks.of(*_at(taken, tools, target))
        n, most = ranks.n, metric.depths(ranks.n)
        size = np.minimum(ranks.returned, most)
        hits = np.count_nonzero(ranks.ranks <= most[:, None], axis=1)
    return SetSizes(np.where(failed[taken], most, size), np.where(failed[taken], n, hits), n)


def evaluate_groups(
    tools: NDArray[np.int32],
    groups: GoldGroups,
    metrics: Sequence[Metric],
    unanswered: NDArray[np.bool_] | None = None,
) -> Scores:
    """Score rankings against judgements that any tool of a group satisfies; a judgement counts like a gold tool.

    Args:
        tools: (queries, depth) int32 ranked tool codes in the protocol's order, padded with -1.
        groups: judgements of the same queries.
        metrics: metrics on rankings.
        unanswered: as in `evaluate`.

    Returns:
        The values, (queries, metrics); those of `evaluate` if every group is a single tool.
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
    """The mean of (queries,) values from their exact sum: the same in any order of the queries."""
    return math.fsum(values) / len(values)


def score_ranks(hits: GoldRanks, metrics: Sequence[Metric]) -> NDArray[np.float64]:
    """(queries, metrics) values of metrics on rankings, for answered queries with gold."""
    values = np.empty((len(hits.n), len(metrics)))
    for column, metric in enumerate(metrics):
        values[:, column] = _on_ranking(hits, metric)
    return values


def _on_ranking(hits: GoldRanks, metric: Metric) -> NDArray[np.float64]:
    k = metric.depths(hits.n)
    if isinstance(metric.measure, RankingMeasure):
        return metric.measure.function(hits, k)
    # For a set metric with a cut-off, the first k of the ranking are the recommended set.
    counts = np.count_nonzero(hits.ranks <= k[:, None], axis=1)
    return metric.measure.function(SetSizes(np.minimum(hits.returned, k), counts, hits.n))


def set_sizes(sets: ToolSets, gold: Gold, queries: int) -> SetSizes:
    """|R|, the requirements that R meets, and n of each query; a tool of R meets at most one requirement."""
    size = np.diff(sets.starts)
    if gold.groups is not None:
        places = np.arange(int(size.max(initial=0))) < size[:, None]
        recommended = np.full(places.shape, -1, dtype=np.int32)
        recommended[places] = sets.tools
        met = np.count_nonzero(any_of(recommended, gold.groups).ranks < MISSING, axis=1)
        return SetSizes(size, met, gold.counts)
    tools = 1 + max(int(sets.tools.max(initial=0)), int(gold.tools.max(initial=0)))
    owned = np.repeat(np.arange(queries), size) * tools + sets.tools
    wanted = np.repeat(np.arange(queries), gold.counts) * tools + gold.tools
    both = np.intersect1d(owned, wanted, assume_unique=True)
    return SetSizes(size, np.bincount(both // tools, minlength=queries), gold.counts)
