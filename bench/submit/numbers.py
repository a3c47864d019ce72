"""Re-scoring a submission's ranking, and reporting every number that differs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.errors import ResultError, UsageError
from bench.evaluation.answers import Answers
from bench.evaluation.rescore import stored_answers
from bench.evaluation.scoring import Scored, score, scoring_code, unit_names
from bench.metrics import DEFAULT_METRICS, Metric, Scores, evaluate, parse_metric, parse_metrics
from bench.metrics.measures import MEASURES
from bench.results.comparing import code_of, interval_code, token_code
from bench.results.intervals import means_and_intervals
from bench.results.manifest import Manifest, Metrics, MetricValue
from bench.results.store import METRICS, PER_QUERY, PER_QUERY_SCHEMA, RUN, Result
from bench.submit.archive import quoted
from bench.submit.tables import MOST_CELLS, Asked

#: Numbers that differ by less are the same: processors and versions of libraries round the last digits differently.
TOLERANCE = 1e-9
_MOST_METRICS = 300
_MOST_FAULTS = 200


def wanted_metrics(metrics: Metrics) -> list[Metric]:
    """The metrics of a result, all of which this bench must know.

    Raises:
        ResultError: it has one that is unknown or not in its canonical form, or too many.
    """
    if len(metrics.metrics) > _MOST_METRICS:
        raise ResultError(f"{METRICS} has {len(metrics.metrics)} metrics; {_MOST_METRICS} are allowed.")
    found = []
    for name in metrics.metrics:
        try:
            metric = parse_metric(name)
        except UsageError:
            raise ResultError(f"{METRICS} has the metric {quoted(name)}, which this bench does not know.") from None
        if str(metric) != name:
            raise ResultError(f"{METRICS} has the metric {quoted(name)}, whose name is {metric}.")
        found.append(metric)
    return found


def number_faults(
    manifest: Manifest, metrics: Metrics, run: pa.Table, per_query: pa.Table, asked: Asked, wanted: Sequence[Metric]
) -> list[str]:
    """Every number of a submission that does not follow from its ranking; its rows are sound.

    Args:
        manifest, metrics: as submitted.
        run, per_query: with plain strings.
        asked: data and queries.
        wanted: the submission's metrics; the usual ones are computed as well.
    """
    width = int(pc.max(run["rank"]).as_py() or 0)
    if len(asked.rows) * width > MOST_CELLS:
        return [f"{len(asked.rows)} queries with up to {width} tools exceed the limit of the check ({MOST_CELLS})."]
    if manifest.method.run_file is not None and manifest.depth != max(1, width):
        return [f"the manifest has the depth {manifest.depth}, and the longest ranking {width} tools."]
    rows, answers = submitted_answers(manifest, metrics, run, per_query, asked.dataset)
    depth = None if manifest.method.run_file is not None else manifest.depth
    scored = score(manifest.result_id, asked.dataset, rows, answers, manifest.dataset.template, wanted, depth)
    faults = [*_value_faults(per_query, scored), *_metric_faults(metrics, scored.metrics)]
    if not run.equals(scored.run):
        faults.append(f"{RUN} is not in the form in which bench writes its rankings.")
    faults += code_faults(manifest, metrics)
    if len(faults) > _MOST_FAULTS:
        faults[_MOST_FAULTS:] = [f"and {len(faults) - _MOST_FAULTS} numbers more."]
    return faults


def submitted_answers(
    manifest: Manifest, metrics: Metrics, run: pa.Table, per_query: pa.Table, dataset: Dataset
) -> tuple[NDArray[np.int64], Answers]:
    """The queries of a submission as rows of the dataset, and its answers to them; its tables are sound."""
    stored = Result(Path(), manifest, metrics)
    # A cached property looks there first: these tables were read under limits, and no file is.
    vars(stored).update(run=run, per_query=per_query)
    return stored_answers(stored, dataset)


def code_faults(manifest: Manifest, metrics: Metrics) -> list[str]:
    """Whether the manifest names other scoring code than this bench's.

    Also where the numbers are right: what it names decides which rows of a board compare with the newest one.
    """
    own, now = manifest.scoring, scoring_code(metrics.metrics)
    same = all(code_of(own, name) == code_of(now, name) for name in metrics.metrics)
    if same and interval_code(own) == interval_code(now) and token_code(own) == token_code(now):
        return []
    return [
        "its numbers were made by another version of the scoring code: `bench run` with this one scores the stored "
        "ranking again."
    ]


def mean_faults(
    manifest: Manifest, metrics: Metrics, per_query: pa.Table, asked: Asked, wanted: Sequence[Metric]
) -> list[str]:
    """What does not follow from the per-query values, where there is no ranking to make these again from.

    Nor may these be such as no ranking has: on other queries than those judged, above 1, above 0 for a failure.
    """
    counts = asked.dataset.gold.take(asked.rows).counts
    faults = code_faults(manifest, metrics)
    if per_query["n_gold"].to_pylist() != counts.tolist():
        faults.append(f"{PER_QUERY} has another n_gold than the data.")
    if per_query["unit"].to_pylist() != unit_names(asked.dataset, asked.rows).to_pylist():
        faults.append(f"{PER_QUERY} has other units of independence than the data.")
    failed = np.array(per_query["failed"].to_pylist(), dtype=np.bool_)
    own = {"n": (counts > 0).sum(), "n_no_gold": (counts == 0).sum(), "n_failed": (failed & (counts > 0)).sum()}
    for name, value in own.items():
        if getattr(metrics, name) != value:
            faults.append(f"{METRICS} has {name} {getattr(metrics, name)}; counted again it is {value}.")
    lacking = [str(metric) for metric in wanted if str(metric) not in per_query.column_names]
    if lacking:
        return [*faults, f"{PER_QUERY} lacks the values of {lacking[0]}."]
    faults += _set_faults(manifest, metrics, per_query, asked, counts > 0)
    values = np.array([per_query[str(metric)].to_pylist() for metric in wanted], dtype=np.float64)
    values = values.reshape(len(wanted), len(asked.rows)).T
    gold = asked.dataset.gold.take(asked.rows)
    # Not 1: with more gold than the cut-off a ranking that holds nothing else has more by some measures.
    most = np.fmax(1.0, evaluate(gold.padded()[0], gold, wanted).values)
    impossible = [
        fault
        for i, metric in enumerate(wanted)
        if (fault := _impossible(metric, values[:, i], most[:, i], counts > 0, failed))
    ]
    if impossible:
        return [*faults, *impossible]
    made = means_and_intervals(Scores(tuple(wanted), values), asked.dataset.units[asked.rows])
    for name, value in metrics.metrics.items():
        if name in made:
            # Tie bands come from scores, which are not there.
            bands = {field: getattr(value, field) for field in ("tie_low", "tie_expected", "tie_high")}
            faults += _fields(name, value, made[name].model_copy(update=bands))
            if not _within_band(value, parse_metric(name)):
                faults.append(f"{METRICS} has for {name} a tie band that does not contain its mean.")
        else:
            faults.append(f"{PER_QUERY} has no value of {name}, and {METRICS} a mean.")
    return faults


def _set_faults(
    manifest: Manifest, metrics: Metrics, per_query: pa.Table, asked: Asked, judged: NDArray[np.bool_]
) -> list[str]:
    """Metrics that are left out, although the ranking must have them, or there, although it cannot; so for counts."""
    shallow = manifest.method.run_file is None and manifest.depth < len(asked.dataset.tools)
    sets = not per_query["recommended"].null_count

    def possible(metric: Metric) -> bool:
        deeper = shallow and isinstance(metric.cutoff, int) and metric.cutoff > manifest.depth
        taken = ~judged if metric.measure.on_no_gold else judged
        return bool(taken.any()) and not deeper and (sets or not metric.needs_sets)

    usual = [str(metric) for metric in parse_metrics(DEFAULT_METRICS) if possible(metric)]
    faults = [f"{METRICS} lacks the metric {name}." for name in usual if name not in metrics.metrics]
    faults += [
        f"{METRICS} has the metric {quoted(name)}, which its ranking cannot have."
        for name in metrics.metrics
        if not possible(parse_metric(name))
    ]
    faults += [
        f"{PER_QUERY} has values of {quoted(name)}, which {METRICS} does not have."
        for name in per_query.column_names
        # A metric that is taken on none of the queries has a column, and no mean.
        if name not in PER_QUERY_SCHEMA.names
        and name not in metrics.metrics
        and not np.isnan(np.array(per_query[name].to_pylist(), dtype=np.float64)).all()
    ]
    if metrics.n_tied is not None and not 0 <= metrics.n_tied <= metrics.n:
        faults.append(f"{METRICS} has n_tied {metrics.n_tied} of {metrics.n} queries.")
    # None at all where the tokenizer was not installed.
    if metrics.tokens and metrics.tokens.keys() != {"library", "top_5", "top_10", *(["recommended"] if sets else [])}:
        faults.append(f"{METRICS} has tokens of other things than the library, the first tools and the sets.")
    if min(metrics.tokens.values(), default=0) < 0:
        faults.append(f"{METRICS} has fewer than 0 tokens.")
    return faults


def _within_band(value: MetricValue, metric: Metric) -> bool:
    """Whether the mean and the expected one lie between ties broken worst and best, where there is a band."""
    ends = [value.tie_low, value.tie_high] if metric.measure.higher_is_better else [value.tie_high, value.tie_low]
    if value.tie_expected is None or None in ends:
        return value.tie_expected is None and ends == [None, None]
    low, high = (end for end in ends if end is not None)
    return all(low - TOLERANCE <= mean <= high + TOLERANCE for mean in (value.mean, value.tie_expected))


def _impossible(
    metric: Metric,
    values: NDArray[np.float64],
    most: NDArray[np.float64],
    judged: NDArray[np.bool_],
    failed: NDArray[np.bool_],
) -> str:
    """Why no ranking has these values of a metric; nothing where one may."""
    taken = ~judged if metric.measure.on_no_gold else judged
    if (np.isnan(values) == taken).any():
        return f"{PER_QUERY} has values of {metric} for other queries than those that are judged by it."
    if not metric.needs_sets and np.any(values[taken & failed] != 0):
        return f"{PER_QUERY} has values of {metric} other than 0 for queries that failed."
    most = most if metric.measure.higher_is_better else np.full(len(most), np.inf)
    if metric.measure in MEASURES and ((values[taken] < 0) | (values[taken] > most[taken] + TOLERANCE)).any():
        return f"{PER_QUERY} has values of {metric} that are below 0 or above those of a perfect ranking."
    return ""


def _metric_faults(stored: Metrics, made: Metrics) -> list[str]:
    faults = [
        f"{METRICS} has {name} {getattr(stored, name)}; scored again it is {getattr(made, name)}."
        for name in ("n", "n_no_gold", "n_failed", "n_tied")
        if getattr(stored, name) != getattr(made, name)
    ]
    faults += [f"{METRICS} lacks the metric {name}." for name in made.metrics if name not in stored.metrics]
    for name, value in stored.metrics.items():
        if name not in made.metrics:
            faults.append(f"{METRICS} has the metric {quoted(name)}, which its ranking cannot have.")
        else:
            faults += _fields(name, value, made.metrics[name])
    for name in sorted({*stored.tokens, *made.tokens} if stored.tokens and made.tokens else ()):
        own, again = stored.tokens.get(name), made.tokens.get(name)
        if not _same(own, again):
            faults.append(f"{METRICS} has {_shown(own)} tokens of {quoted(name)}; counted again {_shown(again)}.")
    return faults


def _fields(name: str, stored: MetricValue, made: MetricValue) -> list[str]:
    """One sentence for a metric, with every field that is another."""
    other = [
        f"{field} {_shown(value)} (scored again {_shown(getattr(made, field))})"
        for field, value in stored
        if not _same(value, getattr(made, field))
    ]
    return [f"{METRICS} has for {name} {', '.join(other)}."] if other else []


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.10g}"


def _value_faults(stored: pa.Table, scored: Scored) -> list[str]:
    made = scored.per_query
    lacking = [name for name in made.column_names if name not in stored.column_names]
    faults = [f"{PER_QUERY} lacks the values of {name}." for name in lacking]
    ids = made["query_id"].to_pylist()
    for name in stored.column_names:
        if name not in made.column_names:
            faults.append(f"{PER_QUERY} has values of {quoted(name)}, which {METRICS} does not have.")
            continue
        own, again = stored[name].to_pylist(), made[name].to_pylist()
        if name in PER_QUERY_SCHEMA.names:
            wrong = [i for i, (one, other) in enumerate(zip(own, again, strict=True)) if one != other]
        else:
            one, other = np.array(own, dtype=np.float64), np.array(again, dtype=np.float64)
            same = np.isclose(one, other, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
            wrong = np.flatnonzero(~same).tolist()
        if wrong:
            i = wrong[0]
            faults.append(
                f"{PER_QUERY} has another {name} than scored again on {len(wrong)} of {len(ids)} queries, first "
                f"{quoted(ids[i])}: {quoted(str(own[i]))} instead of {quoted(str(again[i]))}."
            )
    return faults
