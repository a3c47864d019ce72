"""Re-scores a stored result for new metrics, changed scoring code or a newer protocol, in `bench run` and `rescore`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.errors import ResultError
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.novelty import repeated_gold
from bench.data.origins import count_origins
from bench.evaluation.ask import Answers
from bench.evaluation.lenient import lenient_gold, lenient_mean
from bench.evaluation.scoring import ScoredAnswers, score, with_bands
from bench.evaluation.up_to_date import has_lenient, has_ties, known_metrics, same_numbers
from bench.interface import Ranking, ToolSets, version_for
from bench.metrics import Metric, Scores
from bench.metrics.ties import UnseenTies, tie_band
from bench.results.code_versions import scoring_code
from bench.results.intervals import means_and_intervals
from bench.results.manifest import DatasetIdentity, Metrics
from bench.results.repeats import variations
from bench.results.scoring_code import code_of, current_code
from bench.results.store import PER_QUERY_SCHEMA, StoredResult, replace_metrics, write_result
from bench.results.units import unit_counts, unit_names

#: Metrics of the scores of rankings, which per-query values lack.
_BANDS = ("tie_low", "tie_expected", "tie_high")


def rescore(result: StoredResult, dataset: Dataset, metrics: Sequence[Metric]) -> StoredResult:
    """Score a stored result again with the default metrics, its other metrics and these, and replace it.

    Without its ranking (a folder of results may keep large ones elsewhere) its per-query values are kept, and means and
    intervals are computed again. The caller holds the result's lock.

    Raises:
        ResultError: it was made on other data; or a number cannot be computed because its ranking is missing.
    """
    manifest = result.manifest
    if manifest.dataset.content_hash != dataset.content_hash:
        raise ResultError(f"{result.label} is of {dataset.spec} as it was before it changed; run it again.")
    if (result.has_run or has_lenient(result)) and same_numbers(result, dataset, metrics):
        # Only lenient means, tie bands or repeated gold sets are missing or of older code: everything else stays.
        new_metrics = result.metrics if has_lenient(result) else _with_lenient(result, dataset)
        if not has_ties(result):
            new_metrics = _with_ties(result, dataset, new_metrics)
        return replace_metrics(result, new_metrics, _with_repeated_gold(manifest.dataset, result, dataset))
    run: pa.Table | None = None
    if result.has_run:
        scored = score_again(result, dataset, metrics)
        if current_code("tokens", manifest.scoring.tokens) != current_code(
            "tokens", scoring_code(scored.metrics.metrics).tokens
        ):
            # Replies are not stored, so that today's code cannot count their tokens.
            kept = {name: value for name, value in scored.metrics.tokens.items() if name != "answer"}
            scored = replace(scored, metrics=scored.metrics.model_copy(update={"tokens": kept}))
        new_metrics, per_query, run, repeats = scored.metrics, scored.per_query, scored.run, scored.repeats
    else:
        new_metrics, per_query, repeats = score_values(result, dataset, metrics)
    judged = np.array(per_query["n_gold"].to_pylist()) > 0
    rows = np.array([dataset.query_codes[name] for name in per_query["query_id"].to_pylist()], dtype=np.int64)
    count, effective = unit_counts(dataset.units[rows[judged]])
    origins = count_origins(dataset.queries[row] for row in rows)
    told = {"unit": dataset.unit, "units": count, "effective": effective, "source": dataset.source, "origins": origins}
    fresh = manifest.model_copy(
        update={
            "protocol": version_for(dataset.gold),
            "dataset": _with_repeated_gold(manifest.dataset.model_copy(update=told), result, dataset),
            "scoring": scoring_code(new_metrics.metrics),
        }
    )
    return write_result(result.folder, fresh, new_metrics, run, per_query, repeats)


def _with_repeated_gold(data: DatasetIdentity, result: StoredResult, dataset: Dataset) -> DatasetIdentity:
    if not data.history:
        return data
    rows = np.array([dataset.query_codes[name] for name in result.per_query["query_id"].to_pylist()], dtype=np.int64)
    return data.model_copy(update={"repeated_gold": repeated_gold(dataset, rows, dataset.rows(data.split))})


def score_values(
    result: StoredResult, dataset: Dataset, metrics: Sequence[Metric] = ()
) -> tuple[Metrics, pa.Table, pa.Table | None]:
    """Means and intervals of the stored per-query values, and the values with today's units."""
    had, scoring = known_metrics(result), result.manifest.scoring
    now = scoring_code(map(str, had))
    changed = [str(metric) for metric in had if code_of(scoring, str(metric)) != code_of(now, str(metric))]
    lacking = [str(metric) for metric in metrics if str(metric) not in result.metrics.metrics]
    if changed or lacking or len(had) != len(result.metrics.metrics):
        raise ResultError(
            f"{result.label} cannot be scored again: its ranking is not in {result.folder}; run it again."
        )
    result.check_ids(dataset)
    table = result.per_query
    rows = np.array([dataset.query_codes[name] for name in table["query_id"].to_pylist()], dtype=np.int64)
    values = np.column_stack([result.values(str(metric)) for metric in had])
    stored, gold = result.metrics.metrics, table["n_gold"].to_numpy()
    made = {
        name: value.model_copy(update={band: getattr(stored[name], band) for band in _BANDS})
        for name, value in means_and_intervals(Scores(tuple(had), values), dataset.units[rows], gold).items()
    }
    new_metrics = result.metrics.model_copy(update={"metrics": made})
    units, repeats = unit_names(dataset, rows), result.repeats
    if repeats is not None and new_metrics.repeats is not None:
        split = variations(repeated_values(result, [str(metric) for metric in had]), had, dataset.units[rows])
        new_metrics = new_metrics.model_copy(
            update={"repeats": new_metrics.repeats.model_copy(update={"metrics": split})}
        )
        repeats = _with_units(repeats, pa.concat_arrays([units] * result.manifest.repeats))
    return new_metrics, _with_units(table, units), repeats


def _with_units(table: pa.Table, units: pa.Array) -> pa.Table:
    if "unit" in table.column_names:
        table = table.drop_columns(["unit"])
    place = table.column_names.index("query_id") + 1
    return table.add_column(place, PER_QUERY_SCHEMA.field("unit"), units)


def repeated_values(result: StoredResult, metrics: Sequence[str]) -> NDArray[np.float64]:
    """(repeats, queries, metrics) values of a result with repeats."""
    parts = [result.of_repeat(number) for number in range(1, result.manifest.repeats + 1)]
    return np.stack([[part.values(name) for name in metrics] for part in parts]).swapaxes(1, 2)


def _with_lenient(result: StoredResult, dataset: Dataset) -> Metrics:
    rows, repeats = repeated_answers(result, dataset)
    rankings = [answers.ranking for answers in repeats]
    lenient = lenient_mean(rankings, lenient_gold(dataset, rows), dataset.gold.take(rows), known_metrics(result))
    return result.metrics.model_copy(update={"lenient": lenient})


def _with_ties(result: StoredResult, dataset: Dataset, metrics: Metrics) -> Metrics:
    rows, repeats = repeated_answers(result, dataset)
    gold, had, bands = dataset.gold.take(rows), known_metrics(result), []
    for answers in repeats:
        assert answers.ranking.scores is not None
        bands.append(tie_band(answers.ranking.tools, answers.ranking.scores, gold, answers.beyond, had))
    return with_bands(metrics, bands)


def score_again(result: StoredResult, dataset: Dataset, metrics: Sequence[Metric]) -> ScoredAnswers:
    """The numbers that today's code gives for a stored ranking; nothing is written."""
    manifest = result.manifest
    rows, repeats = repeated_answers(result, dataset)
    depth = None if manifest.method.run_file else manifest.depth
    wanted = list(dict.fromkeys([*known_metrics(result), *metrics]))
    scored = score(manifest.result_id, dataset, rows, repeats, manifest.dataset.template, wanted, depth)
    # If tokens cannot be counted, the stored counts remain valid: the answers are the same. Those of replies can never
    # be counted again.
    had = result.metrics.tokens
    tokens = scored.metrics.tokens or had
    if "answer" in had:
        tokens = {**tokens, "answer": had["answer"]}
    return replace(scored, metrics=scored.metrics.model_copy(update={"tokens": tokens}))


def repeated_answers(result: StoredResult, dataset: Dataset) -> tuple[NDArray[np.int64], list[Answers]]:
    """The queries of a stored result as rows of its dataset, and the answers of each repeat.

    Raises:
        ResultError: it has queries or tools that the dataset lacks.
    """
    result.check_ids(dataset)
    repeats = [stored_answers(result.of_repeat(i), dataset) for i in range(1, result.manifest.repeats + 1)]
    return repeats[0][0], [answers for _, answers in repeats]


def stored_answers(result: StoredResult, dataset: Dataset) -> tuple[NDArray[np.int64], Answers]:
    """The queries of a stored result as rows of its dataset, and their answers."""
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
    # None means that the ranking has no scores, even if it is empty.
    if result.metrics.n_tied is not None:
        scores = np.full((len(ids), width), -np.inf)
        scores[query, rank] = result.run["score"].to_numpy()
    failed = np.array(table["failed"].to_pylist(), dtype=np.bool_)
    meeting = dataset.gold.take(rows).members()
    tied = []
    for i, names in enumerate(table["tied_beyond_gold"].to_pylist()):
        start, end = meeting.starts[i : i + 2]
        grades = dict(zip(meeting.tools[start:end].tolist(), meeting.grades[start:end].tolist(), strict=True))
        tied.append({code: grades[code] for code in (dataset.tool_codes[tool] for tool in names)})
    recommended = table["recommended"].to_pylist()
    sets = None
    if not any(names is None for names in recommended):
        sets = ToolSets.of([[dataset.tool_codes[name] for name in names] for names in recommended])
    beyond = UnseenTies(np.array(table["tied_beyond"].to_pylist(), dtype=np.int64), Gold.of(tied))
    return rows, Answers(Ranking(tools, scores, failed), beyond, sets)
