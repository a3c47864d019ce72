"""From answers to a result's tables and numbers, for methods and run files alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.tables import Template
from bench.evaluation.answers import Answers
from bench.evaluation.lenient import lenient_gold, lenient_means
from bench.identity.measures import interval_hash, measure_hash, token_hash
from bench.metrics import DEFAULT_METRICS, Metric, Scores, evaluate, parse_metrics
from bench.metrics.ties import tie_band
from bench.models.tokens import can_count_tokens, count_tokens
from bench.protocol import ToolSets
from bench.results.intervals import means_and_intervals
from bench.results.manifest import Metrics, ScoringCode
from bench.results.store import PER_QUERY_SCHEMA, RUN_SCHEMA
from bench.storage import arrow


@dataclass(frozen=True)
class Scored:
    """The parts of a result that come from its answers."""

    metrics: Metrics
    run: pa.Table
    per_query: pa.Table


def score(
    result_id: str,
    dataset: Dataset,
    rows: NDArray[np.int64],
    answers: Answers,
    template: Template,
    wanted: Sequence[Metric] = (),
    depth: int | None = None,
) -> Scored:
    """Score answers against the dataset's gold.

    Args:
        result_id: written into the metrics.
        dataset: the data.
        rows: (queries,) which queries were asked, in the answers' order.
        answers: rankings and sets.
        template: the text whose tokens are counted.
        wanted: metrics in addition to the default ones.
        depth: where the ranking was cut; metrics that look deeper into a larger library are left out. None for a
            system's own ranking, however long.
    """
    gold = dataset.gold.take(rows)
    judged = gold.counts > 0
    asked = tuple(dict.fromkeys([*parse_metrics(DEFAULT_METRICS), *wanted]))
    cut_short = depth is not None and depth < len(dataset.tools)
    metrics = [
        metric
        for metric in asked
        if (not metric.needs_sets or answers.sets is not None)
        and not (cut_short and isinstance(metric.cutoff, int) and metric.cutoff > (depth or 0))
    ]
    ranking = answers.ranking
    failed = np.zeros(len(rows), dtype=np.bool_) if ranking.failed is None else ranking.failed
    scores = evaluate(ranking.tools, gold, metrics, answers.sets, failed)
    band = None
    if ranking.scores is not None:
        band = tie_band(ranking.tools, ranking.scores, gold, answers.beyond, metrics)
    values = means_and_intervals(scores, dataset.units[rows])
    if band is not None:
        for i, metric in enumerate(band.metrics):
            ends = {"tie_low": band.low[i], "tie_expected": band.expected[i], "tie_high": band.high[i]}
            if str(metric) in values:
                values[str(metric)] = values[str(metric)].model_copy(update={k: float(v) for k, v in ends.items()})
    nothing = (ranking.tools >= 0).sum(axis=1) == 0
    if answers.sets is not None:
        nothing &= np.diff(answers.sets.starts) == 0
    # To answer a query that has no gold with nothing is right, not a failure.
    silent = failed | (nothing & judged)
    return Scored(
        Metrics(
            result_id=result_id,
            n=int(judged.sum()),
            n_no_gold=int((~judged).sum()),
            n_failed=int((silent & judged).sum()),
            n_tied=None if band is None else band.tied_queries,
            metrics=values,
            tokens=_tokens(dataset, ranking.tools, answers.sets, template),
            lenient=lenient_means(ranking.tools, lenient_gold(dataset, rows), metrics, failed),
        ),
        _run_table(dataset, rows, answers),
        _per_query_table(dataset, rows, answers, scores, silent),
    )


def scoring_code(metrics: Iterable[str]) -> ScoringCode:
    """The code of this process that makes such numbers; `metrics` are canonical names."""
    measures = {metric.measure.name: measure_hash(metric.measure) for metric in parse_metrics(metrics)}
    return ScoringCode(measures=dict(sorted(measures.items())), intervals=interval_hash(), tokens=token_hash())


def _tokens(dataset: Dataset, tools: NDArray[np.int32], sets: ToolSets | None, template: Template) -> dict[str, float]:
    """Mean tokens of the text a query would put before the agent, against the whole library.

    Nothing where the tokeniser is not installed.
    """
    if not can_count_tokens():
        return {}
    counts = count_tokens([tool.text(template) for tool in dataset.tools])
    found = {"library": float(counts.sum())}
    for k in (5, 10):
        head = tools[:, :k]
        found[f"top_{k}"] = float(np.where(head >= 0, counts[head], 0).sum(axis=1).mean()) if head.size else 0.0
    if sets is not None:
        found["recommended"] = float(counts[sets.tools].sum() / len(sets))
    return found


def _run_table(dataset: Dataset, rows: NDArray[np.int64], answers: Answers) -> pa.Table:
    tools, scores = answers.ranking.tools, answers.ranking.scores
    query, place = np.nonzero(tools >= 0)
    columns = {
        "query_id": arrow.strings(_query_ids(dataset, rows)).take(arrow.numbers(query)),
        "rank": arrow.numbers((place + 1).astype(np.int32)),
        "tool_id": _tool_ids(dataset, tools[query, place]),
        "score": pa.nulls(len(query), pa.float64())
        if scores is None
        else arrow.numbers(scores[query, place].astype(np.float64)),
    }
    return pa.table(columns, RUN_SCHEMA)


def unit_names(dataset: Dataset, rows: NDArray[np.int64]) -> pa.Array:
    """The unit of independence of each query, called by the first of its queries."""
    _, first = np.unique(dataset.units, return_index=True)
    return arrow.strings(_query_ids(dataset, first)).take(arrow.numbers(dataset.units[rows]))


def _per_query_table(
    dataset: Dataset, rows: NDArray[np.int64], answers: Answers, scores: Scores, silent: NDArray[np.bool_]
) -> pa.Table:
    beyond, sets = answers.beyond, answers.sets
    columns = {
        "query_id": arrow.strings(_query_ids(dataset, rows)),
        "unit": unit_names(dataset, rows),
        "n_gold": arrow.numbers(dataset.gold.take(rows).counts.astype(np.int32)),
        "failed": arrow.booleans(silent),
        "tied_beyond": arrow.numbers(beyond.counts.astype(np.int32)),
        "tied_beyond_gold": arrow.lists(beyond.gold.starts, _tool_ids(dataset, beyond.gold.tools)),
        "recommended": pa.nulls(len(rows), pa.list_(pa.string()))
        if sets is None
        else arrow.lists(sets.starts, _tool_ids(dataset, sets.tools)),
    }
    table = pa.table(columns, PER_QUERY_SCHEMA)
    for i, metric in enumerate(scores.metrics):
        table = table.append_column(str(metric), arrow.numbers(scores.values[:, i]))
    return table


def _query_ids(dataset: Dataset, rows: NDArray[np.int64]) -> list[str]:
    return [dataset.queries[row].query_id for row in rows]


def _tool_ids(dataset: Dataset, codes: NDArray[np.int32]) -> pa.Array:
    return arrow.strings([tool.tool_id for tool in dataset.tools]).take(arrow.numbers(codes))
