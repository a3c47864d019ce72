"""Lenient means: how much a result depends on incomplete gold. Scoring computes them.

For each mean on rankings, a result has a second one, for which a gold tool counts as found at the best rank among
itself and its alternatives (`bench.data.alternatives`). It shows how much too low the number could be, not what it
should be: two tools that read the same may do different things.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.data.alternatives import readings, with_alternatives
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.evaluation.tool_cache import per_tool
from bench.interface import Ranking
from bench.metrics import Metric
from bench.metrics.evaluate import evaluate_groups, mean
from bench.results.code_versions import lenient_hash
from bench.results.manifest import Lenient
from bench.stats.repeats import repeat_means


def lenient_metrics(metrics: Iterable[Metric]) -> list[Metric]:
    """The metrics that have a lenient mean: those on gold in rankings, except metrics for reproduction only."""
    return [metric for metric in metrics if metric.on_gold_ranks and not metric.measure.reproduction_only]


def lenient_gold(dataset: Dataset, rows: NDArray[np.int64]) -> GoldGroups:
    """The gold of the queries at `rows`, each gold tool with its alternatives."""
    read = per_tool(dataset, "readings", lenient_hash(), lambda: readings(dataset.tools))
    return with_alternatives(dataset.gold.take(rows), dataset.tools, read)


def alternative_counts(groups: GoldGroups, gold: Gold) -> tuple[int, int]:
    """How many queries have a judgement with alternatives that gold does not name, and how many judgements have any."""
    return len(touched_queries(groups, gold)), int(_larger(groups, gold).sum())


def touched_queries(groups: GoldGroups, gold: Gold) -> NDArray[np.int64]:
    """Positions of the queries that have a judgement with alternatives that gold does not name, ascending."""
    owners = np.repeat(np.arange(len(groups)), groups.counts)
    return np.unique(owners[_larger(groups, gold)])


def _larger(groups: GoldGroups, gold: Gold) -> NDArray[np.bool_]:
    """(judgements,) whether more tools satisfy each judgement than the gold itself names."""
    sizes = 1 if gold.groups is None else np.diff(gold.groups.members)
    larger: NDArray[np.bool_] = np.diff(groups.members) > sizes
    return larger


def lenient_mean(rankings: Sequence[Ranking], groups: GoldGroups, gold: Gold, metrics: Sequence[Metric]) -> Lenient:
    """The lenient means of rankings over their judged queries, and over the repeats of a run.

    Args:
        rankings: one for each repeat, in the protocol's order; a run without repeats has one.
        groups: the result of `lenient_gold` for the queries.
        gold: the gold of the queries.
        metrics: any metrics; those without a lenient mean are left out.
    """
    wanted = lenient_metrics(metrics)
    judged = np.flatnonzero(groups.counts)
    queries, judgements = alternative_counts(groups, gold)
    means: dict[str, float] = {}
    if len(judged):
        values = [evaluate_groups(item.tools, groups, wanted, item.failed).values[judged] for item in rankings]
        varied = np.array([[[mean(part[:, i]) for i in range(len(wanted))]] for part in values])
        means = dict(zip(map(str, wanted), repeat_means(varied)[0].tolist(), strict=True))
    return Lenient(code=lenient_hash(), queries=queries, judgements=judgements, means=means)
