"""Whether today's rules and code would give the numbers of a stored result. The runner and re-scoring ask."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.origins import count_origins
from bench.interface import version_for
from bench.metrics import Metric, parse_metric
from bench.results.code_versions import lenient_hash, scoring_code, ties_hash
from bench.results.scoring_code import current_code, has_same_code
from bench.results.store import StoredResult
from bench.results.units import unit_names


def up_to_date(result: StoredResult, dataset: Dataset, metrics: Sequence[Metric] = ()) -> bool:
    """Whether a result has these metrics, and all its numbers follow the rules, units and code of today.

    Older code that is known to give the same numbers counts as today's.
    """
    return (
        has_lenient(result)
        and has_ties(result)
        and _has_repeated_gold(result)
        and same_numbers(result, dataset, metrics)
    )


def has_lenient(result: StoredResult) -> bool:
    """Whether lenient means are those of today, or cannot be computed because the ranking is missing."""
    lenient = result.metrics.lenient
    return not result.has_run or (lenient is not None and current_code("lenient", lenient.code) == lenient_hash())


def has_ties(result: StoredResult) -> bool:
    """Whether tie bands are those of today, or cannot be computed because the ranking is missing."""
    ties = result.metrics.ties
    return (
        not result.has_run
        or not result.metrics.n_tied
        or (ties is not None and current_code("ties", ties.code) == ties_hash())
    )


def _has_repeated_gold(result: StoredResult) -> bool:
    """Whether a result with past queries records how many of their gold sets are asked for again."""
    data = result.manifest.dataset
    return not data.history or data.repeated_gold is not None


def same_numbers(result: StoredResult, dataset: Dataset, metrics: Sequence[Metric]) -> bool:
    """Whether everything else is as today."""
    if result.manifest.protocol != version_for(dataset.gold) or result.manifest.dataset.unit != dataset.unit:
        return False
    result.check_ids(dataset)
    rows = np.array([dataset.query_codes[name] for name in result.per_query["query_id"].to_pylist()], dtype=np.int64)
    if result.per_query["unit"].to_pylist() != unit_names(dataset, rows).to_pylist():
        return False
    if result.manifest.dataset.origins != count_origins(dataset.queries[row] for row in rows):
        return False
    known = result.per_query.column_names
    has_sets = not result.per_query["recommended"].null_count
    if not all(str(metric) in known for metric in metrics if has_sets or not metric.needs_sets):
        return False
    if not result.metrics.tokens:
        from bench.models.tokens import can_count_tokens

        if can_count_tokens():
            return False
    had = [str(metric) for metric in known_metrics(result)]
    return has_same_code(result.manifest.scoring, scoring_code(had), had)


def known_metrics(result: StoredResult) -> list[Metric]:
    """The metrics of a result that bench knows; those of a missing plug-in cannot be computed again."""
    metrics: list[Metric] = []
    for name in result.metrics.metrics:
        with suppress(UsageError):
            metrics.append(parse_metric(name))
    return metrics
