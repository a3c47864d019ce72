"""Re-scoring a stored ranking for new metrics or changed scoring code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.errors import UsageError
from bench.evaluation.answers import Answers
from bench.evaluation.scoring import Scored, score, scoring_code
from bench.metrics import Metric, parse_metric
from bench.metrics.ties import Beyond
from bench.models.tokens import can_count_tokens
from bench.protocol import Ranking, ToolSets
from bench.results.comparing import code_of, interval_code, token_code
from bench.results.store import Result, write_result


def up_to_date(result: Result, metrics: Sequence[Metric]) -> bool:
    """Whether a result has these metrics, and all its numbers by the code of today, or by code that gives the same."""
    known = result.per_query.column_names
    has_sets = not result.per_query["recommended"].null_count
    if not all(str(metric) in known for metric in metrics if has_sets or not metric.needs_sets):
        return False
    if not result.metrics.tokens and can_count_tokens():
        return False
    own, had = result.manifest.scoring, [str(metric) for metric in _had(result)]
    now = scoring_code(had)
    same = all(code_of(own, name) == code_of(now, name) for name in had)
    return same and interval_code(own) == interval_code(now) and token_code(own) == token_code(now)


def rescore(result: Result, dataset: Dataset, metrics: Sequence[Metric]) -> Result:
    """Score a stored result again with the default metrics, its other metrics and these, and replace it.

    The caller holds the result's lock.
    """
    scored, manifest = rescored(result, dataset, metrics), result.manifest
    fresh = manifest.model_copy(update={"scoring": scoring_code(scored.metrics.metrics)})
    return write_result(result.folder, fresh, scored.metrics, scored.run, scored.per_query)


def rescored(result: Result, dataset: Dataset, metrics: Sequence[Metric]) -> Scored:
    """The numbers of a stored ranking by the code of today; nothing is written."""
    rows, answers = stored_answers(result, dataset)
    manifest = result.manifest
    depth = None if manifest.method.run_file else manifest.depth
    wanted = list(dict.fromkeys([*_had(result), *metrics]))
    scored = score(manifest.result_id, dataset, rows, answers, manifest.dataset.template, wanted, depth)
    # Where tokens cannot be counted, the counts that the result had still hold: the answers are the same.
    tokens = scored.metrics.tokens or result.metrics.tokens
    return replace(scored, metrics=scored.metrics.model_copy(update={"tokens": tokens}))


def _had(result: Result) -> list[Metric]:
    """The metrics of a result that this bench knows; those of a plug-in that is gone cannot be made again."""
    found: list[Metric] = []
    for name in result.metrics.metrics:
        with suppress(UsageError):
            found.append(parse_metric(name))
    return found


def stored_answers(result: Result, dataset: Dataset) -> tuple[NDArray[np.int64], Answers]:
    """The queries of a stored result as rows of its dataset, and what was answered to them."""
    table = result.per_query
    ids = table["query_id"].to_pylist()
    rows = np.array([dataset.query_codes[name] for name in ids], dtype=np.int64)
    places = {name: i for i, name in enumerate(ids)}
    query = np.array([places[name] for name in result.run["query_id"].to_pylist()], dtype=np.int64)
    rank = result.run["rank"].to_numpy().astype(np.int64) - 1
    width = int(rank.max(initial=-1)) + 1
    tools = np.full((len(ids), width), -1, dtype=np.int32)
    tools[query, rank] = [dataset.tool_codes[name] for name in result.run["tool_id"].to_pylist()]
    scores = None
    # None says that the ranking came without scores, also where it is empty.
    if result.metrics.n_tied is not None:
        scores = np.full((len(ids), width), -np.inf)
        scores[query, rank] = result.run["score"].to_numpy()
    failed = np.array(table["failed"].to_pylist(), dtype=np.bool_)
    tied = [
        {dataset.tool_codes[tool]: dataset.queries[row].gold[tool] for tool in names}
        for row, names in zip(rows, table["tied_beyond_gold"].to_pylist(), strict=True)
    ]
    recommended = table["recommended"].to_pylist()
    sets = None
    if not any(names is None for names in recommended):
        sets = ToolSets.of([[dataset.tool_codes[name] for name in names] for names in recommended])
    beyond = Beyond(np.array(table["tied_beyond"].to_pylist(), dtype=np.int64), Gold.of(tied))
    return rows, Answers(Ranking(tools, scores, failed), beyond, sets)
