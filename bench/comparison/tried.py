"""Statements of a comparison on systems with several stored variants: their number, and p-values corrected for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import ResultError
from bench.comparison.report import DatasetReport, MetricReport, Tried
from bench.comparison.systems import Field, MetricValues
from bench.comparison.variants import best_by, number_families, words_of
from bench.results.comparability import metric_difference
from bench.results.store import StoredResult
from bench.show.numbers import format_fixed, p_value
from bench.stats.best_of_many import best_of_tables, mean_without_choice
from bench.stats.noninferiority import enough_units

#: Stored results by result id: the result, and the other variants of its family.
Variants = Mapping[str, Sequence[StoredResult]]


def add_tried(
    reports: Sequence[MetricReport], field: Field, values: Sequence[MetricValues], variants: Variants
) -> list[MetricReport]:
    """The reports of metrics, with the variants of their systems added.

    Args:
        reports: the reports on a dataset.
        field: its systems.
        values: for each metric, their values.
        variants: the variants of each system, from `bench.comparison.variants.stored_variants`.
    """
    families = [variants[result.manifest.result_id] for result in field.results]
    if all(len(family) < 2 for family in families):
        return list(reports)
    results = {item.manifest.result_id: item for family in families for item in family}
    columns = [_columns(one, field, results) for one in values]
    ids = [
        [[item.manifest.result_id for item in family if item.manifest.result_id in known] for family in families]
        for known in columns
    ]
    p = _p_values(ids, results, columns, [one.units for one in values])
    return [
        report.model_copy(update={"tried": _tried(report, field, *found)})
        for report, *found in zip(reports, values, [families] * len(reports), ids, columns, p, strict=True)
    ]


def _tried(
    report: MetricReport,
    field: Field,
    values: MetricValues,
    families: Sequence[Sequence[StoredResult]],
    ids: Sequence[Sequence[str]],
    columns: Mapping[str, NDArray[np.float64]],
    p: Mapping[str, float],
) -> list[Tried]:
    """What is said of the variants of each system by one metric; arguments as in `_p_values`, for this metric."""
    units = values.units
    decided = enough_units(units)
    alone = {item.system: item.p for item in report.differences}
    tried = []
    for system, family, names in zip(field.names, families, ids, strict=True):
        best = bool(best_by(family, [report.metric]))
        elsewhere = None
        if best and decided and len(names) > 1:
            table = np.column_stack([columns[name] for name in sorted(names)])
            elsewhere = values.sign * mean_without_choice(values.sign * table, units=units)
        if len(family) > 1 or names[0] in p:
            # Never below the p-value of the pair alone, which the range of the metric may have raised.
            corrected = max(p[names[0]], alone[system]) if names[0] in p else None
            tried.append(Tried(system=system, variants=len(family), best=best, p=corrected, elsewhere=elsewhere))
    return tried


def _columns(values: MetricValues, field: Field, results: Mapping[str, StoredResult]) -> dict[str, NDArray[np.float64]]:
    """Result id -> (queries,) values of a metric: of the systems, and of their variants that compare."""
    columns = {item.manifest.result_id: values.values[:, i] for i, item in enumerate(field.results)}
    for name in sorted(results.keys() - columns.keys()):
        if (column := _column(results[name], field, values.metric, values.rows)) is not None:
            columns[name] = column
    return columns


def _column(item: StoredResult, field: Field, metric: str, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """(rows,) the values of a variant on the queries that a metric is taken on; None if they do not compare."""
    try:
        if metric not in item.metrics.metrics or metric_difference(field.results[0].manifest, item.manifest, metric):
            return None
        if tuple(item.per_query["query_id"].to_pylist()) != field.query_ids:
            return None
        column = item.values(metric)[rows]
    except ResultError:
        return None
    return column if np.isfinite(column).all() else None


def _p_values(
    ids: Sequence[Sequence[Sequence[str]]],
    results: Mapping[str, StoredResult],
    columns: Sequence[Mapping[str, NDArray[np.float64]]],
    units: Sequence[NDArray[np.int64]],
) -> list[dict[str, float]]:
    """For each metric, result id -> p of its difference from the first system, corrected for the variants of both.

    Args:
        ids: for each metric and each system, its result and its other variants.
        results: the results by id.
        columns: for each metric, result id -> (queries,) values.
        units: for each metric, (queries,) unit of each query, as codes from 0.
    """
    found = [dict[str, float]() for _ in ids]
    contests: defaultdict[bytes, list[tuple[int, _Columns]]] = defaultdict(list)
    for i, codes in enumerate(units):
        contest = _contest(ids[i][0][0], columns[i], results) if enough_units(codes) else None
        if contest is not None:
            contests[codes.tobytes()].append((i, contest))
    for members in contests.values():
        tables, families = [one.table for _, one in members], [one.families for _, one in members]
        p = best_of_tables(tables, families, 0, units=units[members[0][0]])
        for (i, one), values in zip(members, p, strict=True):
            found[i] = {
                name: value
                for name, value, tested in zip(one.names, values.tolist(), one.tested, strict=True)
                if tested
            }
    return found


class _Columns(NamedTuple):
    """The systems and variants that one metric tests against the first system, which comes first.

    Attributes:
        names: (columns,) their ids.
        table: (queries, columns) their values.
        families: (columns,) the family of each, by code.
        tested: (columns,) whether its p-value is reported.
    """

    names: list[str]
    table: NDArray[np.float64]
    families: NDArray[np.int64]
    tested: list[bool]


def _contest(
    baseline: str, columns: Mapping[str, NDArray[np.float64]], results: Mapping[str, StoredResult]
) -> _Columns | None:
    """None if no system has variants to correct for."""
    names = [baseline, *(name for name in columns if name != baseline)]
    families = number_families([results[name] for name in names])
    sizes = np.bincount(families)
    # A single system against another has the p-value of that pair's test; so has a system against its only variant.
    related = families == families[0]
    tested = np.where(related, sizes[families] > 2, (sizes[families] > 1) | (sizes[families[0]] > 1))
    tested[0] = False
    if not tested.any():
        return None
    taken = np.flatnonzero(tested | related)
    table = np.column_stack([columns[names[i]] for i in taken])
    return _Columns([names[i] for i in taken], table, families[taken], tested[taken].tolist())


def tried_sentences(dataset: DatasetReport, metrics: Collection[str] | None = None, details: bool = False) -> list[str]:
    """A sentence for each system with several variants; with details, also for systems compared with one.

    Args:
        dataset: the report on the dataset.
        metrics: those that are shown; None for all.
        details: whether to add p-values corrected for variants, and expected means.
    """
    shown = [metric for metric in dataset.metrics if metrics is None or metric.metric in metrics]
    sentences = []
    for system in dataset.systems:
        found = [(metric, item) for metric in shown for item in metric.tried if item.system == system.name]
        if not found:
            continue
        plain = {metric.metric: item.p for metric in shown for item in metric.differences if item.system == system.name}
        p = [
            f"{metric.metric} {p_value(item.p)} ({p_value(plain[metric.metric])})"
            for metric, item in found
            if item.p is not None
        ]
        means = [
            f"{metric.metric} {format_fixed(item.elsewhere)} ({format_fixed(standing.mean)})"
            for metric, item in found
            for standing in metric.standings
            if standing.system == system.name and item.elsewhere is not None
        ]
        best = [metric.metric for metric, item in found if item.best]
        parts = [words_of(found[0][1].variants, dataset.split, [metric.metric for metric, _ in found], best)]
        parts += [f"p corrected for variants (and alone): {', '.join(p)}"] if p and details else []
        parts += [f"mean to expect on other queries (and here): {', '.join(means)}"] if means and details else []
        sentences += [f"{system.name}: {'; '.join(filter(None, parts))}"] if any(parts) else []
    return sentences
