"""Turns answers into the tables and numbers of a result. Runs, run files and re-scoring use it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base import arrow
from bench.data.dataset import Dataset
from bench.data.hints import destructive_tools
from bench.data.template import NamedTemplate, Template
from bench.evaluation.ask import Answers
from bench.evaluation.lenient import lenient_gold, lenient_mean
from bench.evaluation.method_errors import metric_errors
from bench.evaluation.tool_cache import per_tool
from bench.interface import Ranking
from bench.metrics import DEFAULT_METRICS, FURTHER_METRICS, Metric, Scores, evaluate, parse_metrics
from bench.metrics.chance import with_chance
from bench.metrics.destructive import with_destructive
from bench.metrics.ties import TieBand, tie_band
from bench.models.tokens import can_count_tokens, count_tokens, tokeniser
from bench.results.code_versions import template_hash, ties_hash, token_hash
from bench.results.intervals import means_and_intervals
from bench.results.manifest import Metrics, Repeats, Ties
from bench.results.repeats import variations
from bench.results.store import PER_QUERY_SCHEMA, RUN_SCHEMA
from bench.results.units import unit_names
from bench.stats.repeats import repeat_means

#: A tool in the form of a model's API, with its schema: its tokens are the cost of showing it to a model.
DEFINITION: NamedTemplate = "full"


@dataclass(frozen=True)
class ScoredAnswers:
    """The parts of a result that come from its answers; `repeats` only if queries have several answers."""

    metrics: Metrics
    run: pa.Table
    per_query: pa.Table
    repeats: pa.Table | None = None
    notes: pa.Table | None = None


def score(
    result_id: str,
    dataset: Dataset,
    rows: NDArray[np.int64],
    repeats: Sequence[Answers],
    template: Template,
    wanted: Sequence[Metric] = (),
    depth: int | None = None,
) -> ScoredAnswers:
    """Score the answers of one or several repeats of a run against the dataset's gold.

    A query's value is the mean of its values in the repeats, and so are tie bands and token counts. A query failed if
    it failed in any repeat.

    Args:
        result_id: written into the metrics.
        dataset: the data.
        rows: (queries,) the queries that were asked, in the order of the answers.
        repeats: rankings and sets of each repeat; a run without repeats has one.
        template: the template of the texts whose tokens are counted.
        wanted: metrics beyond the default ones.
        depth: where the ranking was cut; metrics with a deeper cut-off are left out for larger libraries. None for the
            ranking of an external system, however long.
    """
    gold = dataset.gold.take(rows)
    judged = gold.counts > 0
    scored = all(answers.ranking.scores is not None for answers in repeats)
    destructive = destructive_tools(dataset.tools)
    # A method that always returns something never abstains, so non-empty rankings tell nothing.
    silent_at_times = any((answers.ranking.tools < 0).all(axis=1).any() for answers in repeats)
    further = [
        metric
        for metric in parse_metrics(FURTHER_METRICS)
        if (destructive is not None if metric.measure.kind == "destructive" else metric.measure.taken(gold).any())
        and (silent_at_times or str(metric) != "abstained@5")
    ]
    requested = tuple(dict.fromkeys([*parse_metrics(DEFAULT_METRICS), *further, *wanted]))
    cut_short = depth is not None and depth < len(dataset.tools)
    has_sets = all(answers.sets is not None for answers in repeats)
    metrics = [
        metric
        for metric in requested
        if (not metric.needs_sets or has_sets)
        and (metric.measure.kind != "confidence" or scored)
        and not (cut_short and isinstance(metric.cutoff, int) and metric.cutoff > (depth or 0))
    ]
    counts = _ToolTokens.of(dataset, template) if can_count_tokens() else None
    with metric_errors(metrics):
        parts = [_part(dataset, rows, answers, counts, metrics, destructive) for answers in repeats]
    silent = np.logical_or.reduce([part.silent for part in parts])
    scores, of_chance = parts[0].scores, None
    if len(parts) > 1:
        varied = np.stack([part.scores.values for part in parts])
        scores = Scores(scores.metrics, repeat_means(varied))
        of_chance = Repeats(
            n_failed=[int((part.silent & judged).sum()) for part in parts],
            metrics=variations(varied, scores.metrics, dataset.units[rows]),
        )
    values = means_and_intervals(scores, dataset.units[rows], gold.counts)
    bands = [part.band for part in parts if part.band is not None]
    has_bands = len(bands) == len(parts)
    with metric_errors(metrics):
        rankings = [answers.ranking for answers in repeats]
        lenient = lenient_mean(rankings, lenient_gold(dataset, rows), gold, metrics)
    result_metrics = Metrics(
        result_id=result_id,
        n=int(judged.sum()),
        n_no_gold=int((~judged).sum()),
        n_failed=int((silent & judged).sum()),
        n_tied=None,
        metrics=values,
        tokens={
            name: _average([part.tokens[name] for part in parts])
            for name in parts[0].tokens
            if all(name in part.tokens for part in parts)
        },
        lenient=lenient,
        repeats=of_chance,
    )
    if has_bands:
        result_metrics = with_bands(result_metrics, bands)
    tables = [
        _per_query_table(dataset, rows, answers, part.scores, part.silent)
        for answers, part in zip(repeats, parts, strict=True)
    ]
    runs = [_run_table(dataset, rows, answers, has_scores=has_bands) for answers in repeats]
    notes = _notes_table(dataset, rows, rankings)
    if len(parts) == 1:
        return ScoredAnswers(result_metrics, runs[0], tables[0], notes=notes)
    per_query = _per_query_table(dataset, rows, repeats[0], scores, silent)
    return ScoredAnswers(result_metrics, _stack(runs), per_query, _stack(tables), notes)


def with_bands(metrics: Metrics, bands: Sequence[TieBand]) -> Metrics:
    """The metrics with the mean of the tie bands of all repeats."""
    values, draws = dict(metrics.metrics), {}
    for i, metric in enumerate(bands[0].metrics):
        name = str(metric)
        if name not in values:
            continue
        low, expected, high = (
            _average([float(end[i]) for end in of_repeats])
            for of_repeats in zip(*((band.low, band.expected, band.high) for band in bands), strict=True)
        )
        ends = {"tie_low": low, "tie_expected": expected, "tie_high": high}
        values[name] = values[name].model_copy(update=ends)
        if drawn := max(int(band.draws[i]) for band in bands):
            draws[name] = drawn
    n_tied = max(band.tied_queries for band in bands)
    ties = Ties(code=ties_hash(), draws=draws) if n_tied else None
    return metrics.model_copy(update={"metrics": values, "n_tied": n_tied, "ties": ties})


@dataclass(frozen=True)
class _Part:
    """The scores of one repeat; `silent` are the queries that failed or got no answer."""

    scores: Scores
    band: TieBand | None
    silent: NDArray[np.bool_]
    tokens: dict[str, float]


def _part(
    dataset: Dataset,
    rows: NDArray[np.int64],
    answers: Answers,
    counts: _ToolTokens | None,
    metrics: Sequence[Metric],
    destructive: NDArray[np.bool_] | None,
) -> _Part:
    gold, ranking = dataset.gold.take(rows), answers.ranking
    failed = np.zeros(len(rows), dtype=np.bool_) if ranking.failed is None else ranking.failed
    scores = evaluate(ranking.tools, gold, metrics, answers.sets, failed, _confidence(ranking))
    if destructive is not None:
        scores = with_destructive(scores, ranking.tools, gold, destructive, answers.sets, failed)
    scores = with_chance(scores, ranking.tools, gold, len(dataset.tools), failed)
    band = None
    if ranking.scores is not None:
        band = tie_band(ranking.tools, ranking.scores, gold, answers.beyond, metrics)
    nothing = (ranking.tools >= 0).sum(axis=1) == 0
    if answers.sets is not None:
        nothing &= np.diff(answers.sets.starts) == 0
    # An empty answer to a query without gold is correct, not a failure.
    silent = failed | (nothing & (gold.counts > 0))
    return _Part(scores, band, silent, _tokens(counts, answers))


def _confidence(ranking: Ranking) -> NDArray[np.float64] | None:
    """(queries,) the score of the first tool, -inf for an empty answer; None for rankings without scores."""
    if ranking.scores is None:
        return None
    if not ranking.tools.shape[1]:
        return np.full(len(ranking), -np.inf)
    return np.where(ranking.tools[:, 0] >= 0, ranking.scores[:, 0], -np.inf).astype(np.float64)


# Renaming `_confidence` itself would change the hash of the scoring code, which stored results have.
first_scores = _confidence


def _average(values: Sequence[float]) -> float:
    """Their mean; for equal values exactly that value."""
    return values[0] if len(set(values)) == 1 else math.fsum(values) / len(values)


def _stack(tables: Sequence[pa.Table]) -> pa.Table:
    """The tables of all repeats, concatenated, with the number of the repeat."""
    numbered = [
        table.add_column(0, "repeat", arrow.numbers(np.full(len(table), number, dtype=np.int32)))
        for number, table in enumerate(tables, start=1)
    ]
    return pa.concat_tables(numbered).combine_chunks()


@dataclass(frozen=True)
class _ToolTokens:
    """(tools,) tokens of each tool: of its text in the run, and of its definition in a model's API."""

    texts: NDArray[np.int64]
    definitions: NDArray[np.int64]

    @staticmethod
    def of(dataset: Dataset, template: Template) -> _ToolTokens:
        def count(chosen: Template) -> NDArray[np.int64]:
            code = f"{token_hash()} {template_hash(chosen)} {tokeniser()}"
            texts = (tool.text(chosen) for tool in dataset.tools)
            return per_tool(dataset, f"tokens {chosen}", code, lambda: count_tokens(texts))

        texts = count(template)
        return _ToolTokens(texts, texts if template == DEFINITION else count(DEFINITION))


def _tokens(counts: _ToolTokens | None, answers: Answers) -> dict[str, float]:
    """Mean tokens that the agent reads per query, and those of the whole library; see `Metrics.tokens`.

    Empty if the tokeniser is not installed, so that tools have no counts.
    """
    if counts is None:
        return {}
    tools, sets, replies = answers.ranking.tools, answers.sets, answers.reply_tokens
    tokens = {"library": float(counts.texts.sum())}
    for k in (5, 10):
        tokens[f"top_{k}"] = _mean_of_first(k, counts.texts, tools)
    if sets is not None:
        tokens["recommended"] = float(counts.texts[sets.tools].sum() / len(sets))
    tokens["definitions"] = float(counts.definitions.sum())
    tokens["definitions_top_5"] = _mean_of_first(5, counts.definitions, tools)
    if replies is not None:
        failed = answers.ranking.failed
        answered = np.ones(len(replies), dtype=np.bool_) if failed is None else ~failed
        # A mean over a part of the answers would describe only that part.
        if answered.any() and (replies[answered] >= 0).all():
            tokens["answer"] = float(replies[answered].mean())
    return tokens


def _mean_of_first(k: int, counts: NDArray[np.int64], tools: NDArray[np.int32]) -> float:
    head = tools[:, :k]
    return float(np.where(head >= 0, counts[head], 0).sum(axis=1).mean()) if head.size else 0.0


def _run_table(dataset: Dataset, rows: NDArray[np.int64], answers: Answers, *, has_scores: bool) -> pa.Table:
    tools, scores = answers.ranking.tools, answers.ranking.scores
    query, place = np.nonzero(tools >= 0)
    columns = {
        "query_id": arrow.chosen(_query_ids(dataset, rows), query),
        "rank": arrow.numbers((place + 1).astype(np.int32)),
        "tool_id": _tool_ids(dataset, tools[query, place]),
        "score": pa.nulls(len(query), pa.float64())
        if scores is None or not has_scores
        else arrow.numbers(scores[query, place].astype(np.float64)),
    }
    return pa.table(columns, RUN_SCHEMA)


def _notes_table(dataset: Dataset, rows: NDArray[np.int64], rankings: Sequence[Ranking]) -> pa.Table | None:
    """The notes of all repeats, concatenated; None if a repeat has none."""
    ids = arrow.strings(_query_ids(dataset, rows))
    tables = [pa.table({"query_id": ids, "note": arrow.texts(ranking.notes)}) for ranking in rankings if ranking.notes]
    return _stack(tables) if len(tables) == len(rankings) else None


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
    return arrow.chosen([tool.tool_id for tool in dataset.tools], codes)
