"""Re-score a submission's ranking and report every number that differs. `check` calls it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.base.errors import ResultError, UsageError
from bench.evaluation.lenient import alternative_counts, lenient_gold
from bench.evaluation.rescore import repeated_answers, repeated_values, score_values
from bench.evaluation.scoring import score
from bench.leaderboard.submit.archive import quote
from bench.leaderboard.submit.tables import MOST_CELLS, EvaluatedQueries
from bench.metrics import FURTHER_METRICS, Metric, parse_metric
from bench.results.code_versions import lenient_hash, scoring_code
from bench.results.manifest import Lenient, Manifest, Metrics, MetricValue, Repeats, Ties
from bench.results.scoring_code import current_code, has_same_code
from bench.results.stated import check_counts, check_values
from bench.results.store import METRICS, PER_QUERY, REPEATS, REPEATS_SCHEMA, RUN, StoredResult
from bench.stats.repeats import repeat_means

#: Tolerance: processors and library versions round the last digits differently.
TOLERANCE = 1e-9
#: Token counts that older results lack, and the one that does not follow from a ranking.
_DEFINITIONS, _ANSWER = frozenset({"definitions", "definitions_top_5"}), "answer"
_MOST_METRICS = 300
_MOST_FAULTS = 200


def wanted_metrics(metrics: Metrics) -> list[Metric]:
    """The metrics of a result; this bench must know all of them.

    Raises:
        ResultError: one is unknown or not in its canonical form, or there are too many.
    """
    if len(metrics.metrics) > _MOST_METRICS:
        raise ResultError(f"{METRICS} has {len(metrics.metrics)} metrics; {_MOST_METRICS} are allowed.")
    parsed = []
    for name in metrics.metrics:
        try:
            metric = parse_metric(name)
        except UsageError:
            raise ResultError(f"{METRICS} has the metric {quote(name)}, which this bench does not know.") from None
        if str(metric) != name:
            raise ResultError(f"{METRICS} has the metric {quote(name)}, whose name is {metric}.")
        parsed.append(metric)
    return parsed


def number_faults(
    manifest: Manifest,
    metrics: Metrics,
    run: pa.Table,
    per_query: pa.Table,
    repeats: pa.Table | None,
    evaluated: EvaluatedQueries,
    wanted: Sequence[Metric],
) -> list[str]:
    """Every number of a submission that does not follow from its ranking; its rows are valid.

    Args:
        manifest, metrics: as submitted.
        run, per_query, repeats: tables with plain strings; repeats only if there are several.
        evaluated: data and queries.
        wanted: the submission's metrics; the usual ones are computed too.
    """
    width = int(pc.max(run["rank"]).as_py() or 0)
    if manifest.repeats * len(evaluated.rows) * width > MOST_CELLS:
        times = "" if repeats is None else f"{manifest.repeats} repeats of "
        queries = f"{times}{len(evaluated.rows)} queries"
        return [f"{queries} with up to {width} tools exceed the limit of the check ({MOST_CELLS})."]
    if manifest.method.run_file is not None and manifest.depth != max(1, width):
        return [f"the manifest has the depth {manifest.depth}, but the longest ranking has {width} tools."]
    rows, answers = repeated_answers(in_memory(manifest, metrics, per_query, repeats, run), evaluated.dataset)
    depth = None if manifest.method.run_file is not None else manifest.depth
    scored = score(manifest.result_id, evaluated.dataset, rows, answers, manifest.dataset.template, wanted, depth)
    faults = [*value_faults(per_query, scored.per_query, PER_QUERY), *_metric_faults(metrics, scored.metrics)]
    if repeats is not None and scored.repeats is not None:
        faults += value_faults(repeats, scored.repeats, REPEATS)
        faults += _variation_faults(metrics.repeats, scored.metrics.repeats)
    if not run.equals(scored.run):
        faults.append(f"{RUN} is not in the form in which bench writes its rankings.")
    faults += code_faults(manifest, metrics)
    if len(faults) > _MOST_FAULTS:
        faults[_MOST_FAULTS:] = [f"and {len(faults) - _MOST_FAULTS} more numbers."]
    return faults


def in_memory(
    manifest: Manifest,
    metrics: Metrics,
    per_query: pa.Table,
    repeats: pa.Table | None,
    run: pa.Table | None = None,
) -> StoredResult:
    """A result made of tables that were read under limits; it reads no file."""
    stored = StoredResult(Path(), manifest, metrics)
    # A cached property is looked up here first.
    vars(stored).update(per_query=per_query, repeats=repeats)
    if run is not None:
        vars(stored).update(run=run)
    return stored


def code_faults(manifest: Manifest, metrics: Metrics) -> list[str]:
    """Whether the manifest names other scoring code than that of this bench.

    This counts even if the numbers are right: the code decides which rows of a board are comparable with the newest
    one.
    """
    if has_same_code(manifest.scoring, scoring_code(metrics.metrics), metrics.metrics):
        return []
    return [
        "its numbers were made by another version of the scoring code: `bench run` with this one scores the stored "
        "ranking again."
    ]


def mean_faults(
    manifest: Manifest,
    metrics: Metrics,
    per_query: pa.Table,
    repeats: pa.Table | None,
    evaluated: EvaluatedQueries,
    wanted: Sequence[Metric],
) -> list[str]:
    """Check what follows from the data and the per-query values, if there is no ranking to score again."""
    gold = evaluated.dataset.gold.take(evaluated.rows)
    faults = code_faults(manifest, metrics)
    if per_query["n_gold"].to_pylist() != gold.counts.tolist():
        faults.append(f"{PER_QUERY} has another n_gold than the data.")
    if metrics.lenient is not None:
        queries, judgements = alternative_counts(lenient_gold(evaluated.dataset, evaluated.rows), gold)
        counted = {"code": lenient_hash(), "queries": queries, "judgements": judgements}
        faults += _lenient_faults(metrics.lenient, metrics.lenient.model_copy(update=counted))
    lacking = [str(metric) for metric in wanted if str(metric) not in per_query.column_names]
    if lacking:
        return [*faults, f"{PER_QUERY} lacks the values of {lacking[0]}."]
    if repeats is not None and {*repeats.column_names} != {"repeat", *per_query.column_names}:
        return [*faults, f"{REPEATS} does not have the columns of {PER_QUERY}."]
    if faults:
        return faults
    stored = in_memory(manifest, metrics, per_query, repeats)
    try:
        check_counts(manifest, metrics, per_query, PER_QUERY)
        if repeats is not None:
            for name in map(str, wanted):
                check_values(repeats[name].to_numpy(), name, REPEATS)
            varied = repeated_values(stored, [str(metric) for metric in wanted])
            values = np.column_stack([stored.values(str(metric)) for metric in wanted])
            if (np.isnan(varied) != np.isnan(values)).any():
                return [f"{REPEATS} has values for other queries than {PER_QUERY}."]
        made, table, _ = score_values(stored, evaluated.dataset)
        faults += [*value_faults(per_query, table, PER_QUERY), *_metric_faults(metrics, made)]
        if repeats is not None:
            same = np.isclose(values, repeat_means(varied), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True).all(axis=0)
            others = np.flatnonzero(~same).tolist()
            faults += [f"{PER_QUERY} has values of {wanted[i]} that are not the means of the repeats." for i in others]
            flags = np.array(repeats["failed"].to_pylist(), dtype=np.bool_).reshape(manifest.repeats, -1)
            assert made.repeats is not None
            n_failed = (flags & (gold.counts > 0)).sum(axis=1).tolist()
            faults += _variation_faults(metrics.repeats, made.repeats.model_copy(update={"n_failed": n_failed}))
    except ResultError as error:
        return [*faults, str(error)]
    return faults


def _variation_faults(stored: Repeats | None, made: Repeats | None) -> list[str]:
    """Differences in the variance within and between queries."""
    assert stored is not None
    assert made is not None
    faults = []
    if stored.n_failed != made.n_failed:
        faults.append(f"{METRICS} has other failed queries in the repeats than scored again.")
    for name, variation in stored.metrics.items():
        again = made.metrics.get(name)
        if again is None:
            continue  # reported for the metric itself
        pairs = [*zip(variation.means, again.means, strict=True)]
        pairs += [
            (getattr(variation, field), getattr(again, field)) for field in ("within", "between", "error", "share")
        ]
        if not all(_same(one, other) for one, other in pairs):
            faults.append(f"{METRICS} has another variation of {name} over the repeats than scored again.")
    return faults


def _metric_faults(stored: Metrics, made: Metrics) -> list[str]:
    faults = [
        f"{METRICS} has {name} {getattr(stored, name)}; scored again it is {getattr(made, name)}."
        for name in ("n", "n_no_gold", "n_failed", "n_tied")
        if getattr(stored, name) != getattr(made, name)
    ]
    older = made.ties is not None and (stored.ties is None or not _same_code("ties", stored.ties, made.ties))
    if older:
        faults.append(f"{METRICS} has tie bands of other code than this bench's: `bench rescore` computes them again.")
    elif stored.ties is not None and (made.ties is None or stored.ties.draws != made.ties.draws):
        faults.append(f"{METRICS} has other draws of its tie bands than scored again.")
    lacking = [name for name in made.metrics if name not in stored.metrics and not _may_lack(name)]
    faults += [f"{METRICS} lacks the metric {name}." for name in lacking]
    for name, value in stored.metrics.items():
        if name not in made.metrics:
            faults.append(f"{METRICS} has the metric {quote(name)}, which its ranking cannot have.")
        else:
            # One sentence is enough for expected values that were sampled by older versions.
            update = {"tie_expected": value.tie_expected} if older else {}
            faults += _fields(name, value, made.metrics[name].model_copy(update=update))
    if stored.lenient is not None and made.lenient is not None:
        faults += _lenient_faults(stored.lenient, made.lenient)
    uncounted = {_ANSWER, *(_DEFINITIONS - stored.tokens.keys())}
    for name in sorted({*stored.tokens, *made.tokens} - uncounted if stored.tokens and made.tokens else ()):
        stored_count, again = stored.tokens.get(name), made.tokens.get(name)
        if not _same(stored_count, again):
            faults.append(f"{METRICS} has {_show(stored_count)} tokens of {quote(name)}; counted again {_show(again)}.")
    if stored.tokens.get(_ANSWER, 0) < 0:
        faults.append(f"{METRICS} has fewer than 0 tokens.")
    return faults


def _lenient_faults(stored: Lenient, made: Lenient) -> list[str]:
    """Differences between lenient means and those computed again; older results have none."""
    if not _same_code("lenient", stored, made):
        return [f"{METRICS} has lenient means of other code than this bench's: `bench rescore` computes them again."]
    faults = [
        f"{METRICS} has lenient {name} {getattr(stored, name)}; counted again it is {getattr(made, name)}."
        for name in ("queries", "judgements")
        if getattr(stored, name) != getattr(made, name)
    ]
    for name in sorted({*stored.means, *made.means}):
        stored_mean, again = stored.means.get(name), made.means.get(name)
        if not _same(stored_mean, again):
            faults.append(
                f"{METRICS} has the lenient {quote(name)} {_show(stored_mean)}; scored again it is {_show(again)}."
            )
    return faults


def _same_code(kind: Literal["lenient", "ties"], stored: Lenient | Ties, made: Lenient | Ties) -> bool:
    """Whether two versions of code give the same numbers; what was not scored again keeps its code."""
    return current_code(kind, stored.code) == current_code(kind, made.code)


def _fields(name: str, stored: MetricValue, made: MetricValue) -> list[str]:
    """One sentence for a metric, with every field that differs."""
    other = [
        f"{field} {_show(value)} (scored again {_show(getattr(made, field))})"
        for field, value in stored
        if not _same(value, getattr(made, field))
    ]
    return [f"{METRICS} has for {name} {', '.join(other)}."] if other else []


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _show(value: float | None) -> str:
    return "none" if value is None else f"{value:.10g}"


def _may_lack(name: str) -> bool:
    """Whether results of older versions lack a metric that is now computed; all have those of forbidden tools."""
    return name in FURTHER_METRICS and not name.startswith("forbidden")


def value_faults(stored: pa.Table, made: pa.Table, table: str, than: str = "scored again") -> list[str]:
    """Differences between two tables of the same queries; `than` names the other one."""
    lacking = [name for name in made.column_names if name not in stored.column_names and not _may_lack(name)]
    faults = [f"{table} lacks the values of {name}." for name in lacking]
    ids = made["query_id"].to_pylist()
    for name in stored.column_names:
        if name not in made.column_names:
            faults.append(f"{table} has values of {quote(name)}, which {METRICS} does not have.")
            continue
        stored_column, again = stored[name], made[name]
        if name in REPEATS_SCHEMA.names:
            pairs = zip(stored_column.to_pylist(), again.to_pylist(), strict=True)
            wrong = [i for i, (one, other) in enumerate(pairs) if one != other]
        else:
            same = np.isclose(stored_column, again, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
            wrong = np.flatnonzero(~same).tolist()
        if wrong:
            i = wrong[0]
            faults.append(
                f"{table} has another {name} than {than} on {len(wrong)} of {len(ids)} queries, first "
                f"{quote(ids[i])}: {quote(str(stored_column[i].as_py()))} instead of {quote(str(again[i].as_py()))}."
            )
    return faults
