"""Re-scoring a submission's ranking, and reporting every number that differs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.errors import ResultError, UsageError
from bench.evaluation.lenient import alternative_counts, lenient_gold, lenient_metrics
from bench.evaluation.rescore import repeated_answers
from bench.evaluation.scoring import score_repeats, scoring_code, unit_names
from bench.identity.versions import lenient_hash
from bench.metrics import DEFAULT_METRICS, FURTHER_METRICS, Metric, Scores, evaluate, parse_metric, parse_metrics
from bench.metrics.measures import MEASURES
from bench.results.comparing import code_of, interval_code, lenient_code, token_code
from bench.results.intervals import means_and_intervals
from bench.results.manifest import Lenient, Manifest, Metrics, MetricValue, Repeats
from bench.results.repeats import variations
from bench.results.store import METRICS, PER_QUERY, PER_QUERY_SCHEMA, REPEATS, REPEATS_SCHEMA, RUN, Result
from bench.stats.repeats import repeat_means
from bench.submit.archive import quoted
from bench.submit.tables import MOST_CELLS, Asked

#: Numbers that differ by less are the same: processors and versions of libraries round the last digits differently.
TOLERANCE = 1e-9
#: Token counts that older results do not have, and the one that does not follow from a ranking.
_DEFINITIONS, _ANSWER = frozenset({"definitions", "definitions_top_5"}), "answer"
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
    manifest: Manifest,
    metrics: Metrics,
    run: pa.Table,
    per_query: pa.Table,
    repeats: pa.Table | None,
    asked: Asked,
    wanted: Sequence[Metric],
) -> list[str]:
    """Every number of a submission that does not follow from its ranking; its rows are sound.

    Args:
        manifest, metrics: as submitted.
        run, per_query, repeats: with plain strings; repeats only if there are several.
        asked: data and queries.
        wanted: the submission's metrics; the usual ones are computed as well.
    """
    width = int(pc.max(run["rank"]).as_py() or 0)
    if manifest.repeats * len(asked.rows) * width > MOST_CELLS:
        times = "" if repeats is None else f"{manifest.repeats} repeats of "
        queries = f"{times}{len(asked.rows)} queries"
        return [f"{queries} with up to {width} tools exceed the limit of the check ({MOST_CELLS})."]
    if manifest.method.run_file is not None and manifest.depth != max(1, width):
        return [f"the manifest has the depth {manifest.depth}, and the longest ranking {width} tools."]
    rows, answers = repeated_answers(in_memory(manifest, metrics, per_query, repeats, run), asked.dataset)
    depth = None if manifest.method.run_file is not None else manifest.depth
    scored = score_repeats(manifest.result_id, asked.dataset, rows, answers, manifest.dataset.template, wanted, depth)
    faults = [*_value_faults(per_query, scored.per_query, PER_QUERY), *_metric_faults(metrics, scored.metrics)]
    if repeats is not None and scored.repeats is not None:
        faults += _value_faults(repeats, scored.repeats, REPEATS)
        faults += _variation_faults(metrics.repeats, scored.metrics.repeats)
    if not run.equals(scored.run):
        faults.append(f"{RUN} is not in the form in which bench writes its rankings.")
    faults += code_faults(manifest, metrics)
    if len(faults) > _MOST_FAULTS:
        faults[_MOST_FAULTS:] = [f"and {len(faults) - _MOST_FAULTS} numbers more."]
    return faults


def in_memory(
    manifest: Manifest,
    metrics: Metrics,
    per_query: pa.Table,
    repeats: pa.Table | None,
    run: pa.Table | None = None,
) -> Result:
    """A result of tables that were read under limits; no file is read for it."""
    stored = Result(Path(), manifest, metrics)
    # A cached property looks there first.
    vars(stored).update(per_query=per_query, repeats=repeats)
    if run is not None:
        vars(stored).update(run=run)
    return stored


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
    manifest: Manifest,
    metrics: Metrics,
    per_query: pa.Table,
    repeats: pa.Table | None,
    asked: Asked,
    wanted: Sequence[Metric],
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
    if repeats is not None:
        lacking = [name for name in per_query.column_names if name not in repeats.column_names]
        if lacking or repeats.num_columns != per_query.num_columns + 1:
            return [*faults, f"{REPEATS} has not the columns of {PER_QUERY}."]
    gold = asked.dataset.gold.take(asked.rows)
    faults += _set_faults(manifest, metrics, per_query, asked, gold)
    values = np.array([_floats(per_query[str(metric)]) for metric in wanted])
    values = values.reshape(len(wanted), len(asked.rows)).T
    # Not 1: with more gold than the cut-off a ranking that holds nothing else has more by some measures.
    most = np.fmax(1.0, evaluate(gold.padded()[0], gold, wanted).values)
    parts = [(PER_QUERY, values, failed)]
    if repeats is not None:
        stored = in_memory(manifest, metrics, per_query, repeats)
        # Not by `Result.values`, which raises where a value is out of range: here that is a fault among others.
        varied = np.array([_floats(repeats[str(metric)]) for metric in wanted])
        varied = varied.reshape(len(wanted), manifest.repeats, len(asked.rows)).transpose(1, 2, 0)
        flags = np.array(repeats["failed"].to_pylist(), dtype=np.bool_).reshape(manifest.repeats, -1)
        parts = [(f"repeat {i + 1} in {REPEATS}", varied[i], flags[i]) for i in range(manifest.repeats)]
    impossible = [
        fault
        for name, own, silent in parts
        for i, metric in enumerate(wanted)
        if (fault := _impossible(name, metric, own[:, i], most[:, i], gold, silent))
    ]
    if impossible:
        return [*faults, *impossible]
    if repeats is not None:
        faults += _mean_of_repeats_faults(metrics, stored, varied, flags, values, asked, wanted)
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
    return faults + _impossible_lenient(metrics, asked)


def _set_faults(manifest: Manifest, metrics: Metrics, per_query: pa.Table, asked: Asked, gold: Gold) -> list[str]:
    """Metrics that are left out, although the ranking must have them, or there, although it cannot; so for counts."""
    shallow = manifest.method.run_file is None and manifest.depth < len(asked.dataset.tools)
    sets = not per_query["recommended"].null_count

    def possible(metric: Metric) -> bool:
        deeper = shallow and isinstance(metric.cutoff, int) and metric.cutoff > manifest.depth
        scored = metric.measure.kind != "confidence" or metrics.n_tied is not None
        return bool(metric.measure.taken(gold).any()) and not deeper and scored and (sets or not metric.needs_sets)

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
        and not np.isnan(_floats(per_query[name])).all()
    ]
    if metrics.n_tied is not None and not 0 <= metrics.n_tied <= metrics.n:
        faults.append(f"{METRICS} has n_tied {metrics.n_tied} of {metrics.n} queries.")
    # None at all where the tokenizer was not installed.
    counted = metrics.tokens.keys() - _DEFINITIONS - {_ANSWER}
    if metrics.tokens and counted != {"library", "top_5", "top_10", *(["recommended"] if sets else [])}:
        faults.append(
            f"{METRICS} has tokens of other things than the library, the first tools, the sets, definitions and "
            "answers."
        )
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


def _mean_of_repeats_faults(
    metrics: Metrics,
    stored: Result,
    varied: NDArray[np.float64],
    flags: NDArray[np.bool_],
    values: NDArray[np.float64],
    asked: Asked,
    wanted: Sequence[Metric],
) -> list[str]:
    """What of the values of all repeats does not follow from those of each.

    Args:
        metrics: as submitted.
        stored: the submission.
        varied: (repeats, queries, metrics) values of each repeat.
        flags: (repeats, queries) which queries failed.
        values: (queries, metrics) values of all repeats.
        asked: data and queries.
        wanted: the submission's metrics.
    """
    judged = asked.dataset.gold.take(asked.rows).counts > 0
    first = stored.of_repeat().per_query
    faults = [
        f"{PER_QUERY} has another {name} than the first repeat."
        for name in PER_QUERY_SCHEMA.names
        if name != "failed" and stored.per_query[name].to_pylist() != first[name].to_pylist()
    ]
    if stored.per_query["failed"].to_pylist() != flags.any(axis=0).tolist():
        faults.append(f"{PER_QUERY} has failed queries other than those that failed in some repeat.")
    same = np.isclose(values, repeat_means(varied), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True).all(axis=0)
    others = np.flatnonzero(~same).tolist()
    faults += [f"{PER_QUERY} has values of {wanted[i]} that are not the means of the repeats." for i in others]
    made = Repeats(
        n_failed=(flags & judged).sum(axis=1).tolist(),
        metrics=variations(varied, wanted, asked.dataset.units[asked.rows]),
    )
    return faults + _variation_faults(metrics.repeats, made)


def _variation_faults(stored: Repeats | None, made: Repeats | None) -> list[str]:
    """What is said of the variance within and between queries, and is another."""
    assert stored is not None
    assert made is not None
    faults = []
    if stored.n_failed != made.n_failed:
        faults.append(f"{METRICS} has other failed queries in the repeats than scored again.")
    for name, own in stored.metrics.items():
        again = made.metrics.get(name)
        if again is None:
            continue  # told of the metric itself
        pairs = [*zip(own.means, again.means, strict=True)]
        pairs += [(getattr(own, field), getattr(again, field)) for field in ("within", "between", "error", "share")]
        if not all(_same(one, other) for one, other in pairs):
            faults.append(f"{METRICS} has another variation of {name} over the repeats than scored again.")
    return faults


def _impossible(
    table: str,
    metric: Metric,
    values: NDArray[np.float64],
    most: NDArray[np.float64],
    gold: Gold,
    failed: NDArray[np.bool_],
) -> str:
    """Why no ranking has these values of a metric; nothing where one may."""
    taken = metric.measure.taken(gold)
    if (np.isnan(values) == taken).any():
        return f"{table} has values of {metric} for other queries than those that are judged by it."
    if metric.measure.kind == "confidence":
        # Single values are influences, which have no bounds.
        inside = not taken.any() or 0 <= float(values[taken].mean()) <= 1
        return "" if inside else f"{table} has values of {metric} whose mean is not between 0 and 1."
    if metric.measure.kind == "abstention" and metric.measure.on_no_gold and metric.measure in MEASURES:
        worst_of = metric.depths(gold.counts) if not metric.measure.higher_is_better else np.zeros(len(values))
        if np.any(values[taken & failed] != worst_of[taken & failed]):
            return f"{table} has values of {metric} other than the worst for queries that failed."
    worst = 1.0 if metric.measure.kind == "forbidden" else 0.0
    if (metric.on_gold_ranks or worst) and np.any(values[taken & failed] != worst):
        return f"{table} has values of {metric} other than {worst:g} for queries that failed."
    most = most if metric.measure.higher_is_better else np.full(len(most), np.inf)
    if metric.measure in MEASURES and ((values[taken] < 0) | (values[taken] > most[taken] + TOLERANCE)).any():
        return f"{table} has values of {metric} that are below 0 or above those of a perfect ranking."
    return ""


def _metric_faults(stored: Metrics, made: Metrics) -> list[str]:
    faults = [
        f"{METRICS} has {name} {getattr(stored, name)}; scored again it is {getattr(made, name)}."
        for name in ("n", "n_no_gold", "n_failed", "n_tied")
        if getattr(stored, name) != getattr(made, name)
    ]
    lacking = [name for name in made.metrics if name not in stored.metrics and not _may_lack(name)]
    faults += [f"{METRICS} lacks the metric {name}." for name in lacking]
    for name, value in stored.metrics.items():
        if name not in made.metrics:
            faults.append(f"{METRICS} has the metric {quoted(name)}, which its ranking cannot have.")
        else:
            faults += _fields(name, value, made.metrics[name])
    if stored.lenient is not None and made.lenient is not None:
        faults += _lenient_faults(stored.lenient, made.lenient)
    uncounted = {_ANSWER, *(_DEFINITIONS - stored.tokens.keys())}
    for name in sorted({*stored.tokens, *made.tokens} - uncounted if stored.tokens and made.tokens else ()):
        own, again = stored.tokens.get(name), made.tokens.get(name)
        if not _same(own, again):
            faults.append(f"{METRICS} has {_shown(own)} tokens of {quoted(name)}; counted again {_shown(again)}.")
    if stored.tokens.get(_ANSWER, 0) < 0:
        faults.append(f"{METRICS} has fewer than 0 tokens.")
    return faults


def _lenient_faults(stored: Lenient, made: Lenient) -> list[str]:
    """What differs between lenient means and those computed again; older results have none."""
    if lenient_code(stored) != made.code:
        return [f"{METRICS} has lenient means of other code than this bench's: `bench rescore` computes them again."]
    faults = [
        f"{METRICS} has lenient {name} {getattr(stored, name)}; counted again it is {getattr(made, name)}."
        for name in ("queries", "judgements")
        if getattr(stored, name) != getattr(made, name)
    ]
    for name in sorted({*stored.means, *made.means}):
        own, again = stored.means.get(name), made.means.get(name)
        if not _same(own, again):
            faults.append(
                f"{METRICS} has the lenient {quoted(name)} {_shown(own)}; scored again it is {_shown(again)}."
            )
    return faults


def _impossible_lenient(metrics: Metrics, asked: Asked) -> list[str]:
    """What no ranking with these means has, where there is no ranking to make lenient means again from."""
    lenient = metrics.lenient
    if lenient is None:
        return []
    counts = alternative_counts(lenient_gold(asked.dataset, asked.rows), asked.dataset.gold.take(asked.rows))
    wanted = {str(metric): metric for metric in lenient_metrics(map(parse_metric, metrics.metrics))}
    if lenient_code(lenient) != lenient_hash() or lenient.means.keys() != wanted.keys():
        return [f"{METRICS} has lenient means of other code, or of other metrics, than this bench's."]
    if (lenient.queries, lenient.judgements) != counts:
        return [f"{METRICS} has other counts of gold tools with alternatives than the data."]
    faults = []
    for name, metric in wanted.items():
        usual, found = metrics.metrics[name].mean, lenient.means[name]
        most = usual if not lenient.judgements else math.inf if metric.measure.span is None else metric.measure.span[1]
        if metric.measure in MEASURES and not usual - TOLERANCE <= found <= most + TOLERANCE:
            faults.append(f"{METRICS} has the lenient {name} {_shown(found)}, which cannot be beside {_shown(usual)}.")
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


def _may_lack(name: str) -> bool:
    """Whether results of older versions lack a metric that is computed today; all have those of forbidden tools."""
    return name in FURTHER_METRICS and not name.startswith("forbidden")


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """The values of a column of numbers, NaN for null."""
    found: NDArray[np.float64] = column.to_numpy()
    return found


def _value_faults(stored: pa.Table, made: pa.Table, table: str) -> list[str]:
    lacking = [name for name in made.column_names if name not in stored.column_names and not _may_lack(name)]
    faults = [f"{table} lacks the values of {name}." for name in lacking]
    ids = made["query_id"].to_pylist()
    for name in stored.column_names:
        if name not in made.column_names:
            faults.append(f"{table} has values of {quoted(name)}, which {METRICS} does not have.")
            continue
        own, again = stored[name], made[name]
        if name in REPEATS_SCHEMA.names:
            pairs = zip(own.to_pylist(), again.to_pylist(), strict=True)
            wrong = [i for i, (one, other) in enumerate(pairs) if one != other]
        else:
            same = np.isclose(_floats(own), _floats(again), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
            wrong = np.flatnonzero(~same).tolist()
        if wrong:
            i = wrong[0]
            faults.append(
                f"{table} has another {name} than scored again on {len(wrong)} of {len(ids)} queries, first "
                f"{quoted(ids[i])}: {quoted(str(own[i].as_py()))} instead of {quoted(str(again[i].as_py()))}."
            )
    return faults
