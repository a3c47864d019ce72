"""Comparing systems: paired with the baseline, all pairs by tiers, and across datasets by ranks."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.base.config import config_context
from bench.base.errors import BenchError, UsageError
from bench.base.progress import QUIET, Progress
from bench.comparison.report import (
    Comparison,
    Correction,
    DatasetReport,
    Independent,
    MacroReport,
    MacroStanding,
    MetricReport,
    Move,
    QueryMoves,
    SliceReport,
    Standing,
    System,
    SystemCatalogue,
    SystemDifference,
)
from bench.comparison.systems import Field, across_catalogues, by_dataset
from bench.data.dataset import Dataset
from bench.metrics import parse_metric
from bench.registry import load_dataset
from bench.registry.versions import load_version
from bench.results.across_catalogues import MovedTool, Ranked, moved_tools, ranks_of
from bench.results.comparability import ORDER_DEPENDS_ON_GOLD, competes, lenient_mean, marks, reversals, usual
from bench.results.intervals import difference_span
from bench.results.manifest import DatasetIdentity
from bench.results.slices import values_of
from bench.results.store import StoredResult
from bench.results.units import unit_counts
from bench.stats.bootstrap import bca_intervals
from bench.stats.classical import paired_t, wilcoxon
from bench.stats.friedman import average_ranks, friedman, nemenyi_difference
from bench.stats.macro import macro_intervals
from bench.stats.multiple import benjamini_hochberg, holm
from bench.stats.noninferiority import FEWEST_UNITS, LEVEL
from bench.stats.paired import Paired, compare
from bench.stats.power import needed_units, queries_needed
from bench.stats.tiers import pairwise_tests, rank_intervals, tiers
from bench.stats.units import robust_mean, singletons

Tested = TypeVar("Tested", MetricReport, SliceReport)

#: Metrics compared by default.
USUAL = ("recall@5", "ndcg@5", "pass@5", "recall@10", "ndcg@10", "pass@10")
_CORRECTIONS: dict[Correction, Callable[[Sequence[float]], NDArray[np.float64]]] = {
    "holm": holm,
    "benjamini-hochberg": benjamini_hochberg,
}


@dataclass(frozen=True)
class ComparisonQuestion:
    """What a comparison is asked.

    Attributes:
        metrics: by their canonical strings; none for the usual ones that all results have.
        slices: names of slices by which the first metric is split, too.
        moved: how many of the queries that moved most are listed, each way.
        correction: how the family is corrected.
        independent: whether differences are also shown as if queries were independent.
    """

    metrics: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    moved: int = 5
    correction: Correction = "holm"
    independent: bool = False


def compare_results(
    results: Sequence[StoredResult], question: ComparisonQuestion, *, across: bool = False, progress: Progress = QUIET
) -> Comparison:
    """Compare stored results with the first one.

    Args:
        results: all on the same queries; the same methods on several datasets are compared over all of them as well.
        question: what is asked.
        across: whether tools may have been edited, added or removed.
        progress: where downloads report to.

    Raises:
        ResultError: two results are not on the same queries, data or protocol, or one is damaged.
        UsageError: fewer than two results, the same result twice, or an unknown metric or slice.
    """

    def load(spec: str) -> Dataset | None:
        try:
            # Slices need the dataset; the mere texts of queries are not worth a download.
            with config_context(offline=None if question.slices else True):
                return load_dataset(spec, progress)
        except BenchError:
            if question.slices:
                raise
            return None

    def version(data: DatasetIdentity) -> Dataset:
        return load_version(data.spec, data.content_hash, progress)

    members = list(results)
    return compare_fields([across_catalogues(members, version)] if across else by_dataset(members), question, load)


def compare_fields(
    fields: Sequence[Field], question: ComparisonQuestion, load: Callable[[str], Dataset | None]
) -> Comparison:
    """Compare systems on one dataset or several; the first system is the baseline.

    Args:
        fields: one for each dataset. Of several, each has the same systems in the same order.
        question: what is asked.
        load: returns the dataset of a spec, for query texts and slices; None if it is not available.

    Raises:
        UsageError: fewer than two systems; systems that differ between datasets; no metric that all have; a slice of
            a dataset that is not available, or that it does not have.
    """
    names = fields[0].names
    for field in fields[1:]:
        if field.names != names:
            raise UsageError(
                f"{field.dataset} has {', '.join(field.names)}, and {fields[0].dataset} has {', '.join(names)}: "
                "name the same methods on each dataset, in the same order."
            )
    if len(names) < 2:
        if len(fields) > 1:
            named = ", ".join(field.dataset for field in fields)
            raise UsageError(
                f"the results are of different datasets ({named}), and a comparison needs two or more on one: name "
                "another one on each, or give --across catalogues if only their tools differ."
            )
        raise UsageError("a comparison needs two results or more on a dataset: name another one.")
    metrics = list(question.metrics) or fields[0].shared_metrics(USUAL)
    if not metrics:
        raise UsageError("the results share none of the default metrics: name one with --metric.")
    correct = _CORRECTIONS[question.correction]
    reports = [_on_dataset(field, metrics, question, load) for field in fields]
    # One family over everything that is tested against the baseline: any of it may mislead a reader.
    every = [difference for report in reports for metric in report.metrics for difference in metric.differences]
    corrected = iter(correct([difference.p for difference in every]).tolist())
    reports = [
        report.model_copy(update={"metrics": [_with_corrected(metric, corrected) for metric in report.metrics]})
        for report in reports
    ]
    others = len(names) - 1
    parts = [_count(others, "system"), _count(len(metrics), "metric")]
    parts += [_count(len(fields), "dataset")] if len(fields) > 1 else []
    return Comparison(
        baseline=names[0],
        correction=question.correction,
        family=f"{_count(len(every), 'comparison')} with {names[0]}: {' x '.join(parts)}",
        level=LEVEL,
        datasets=reports,
        macro=_over_datasets(fields, metrics) if len(fields) > 1 else [],
    )


def _with_corrected(report: Tested, corrected: Iterator[float]) -> Tested:
    """The report with the next of the family's corrected p-values in its differences."""
    differences = [item.model_copy(update={"corrected": next(corrected)}) for item in report.differences]
    return report.model_copy(update={"differences": differences})


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _on_dataset(
    field: Field,
    metrics: Sequence[str],
    question: ComparisonQuestion,
    load: Callable[[str], Dataset | None],
) -> DatasetReport:
    identity = field.results[0].manifest.dataset
    units, effective = unit_counts(field.units[field.judged])
    dataset = load(identity.spec) if (question.slices or question.moved) and not field.catalogues else None
    if field.catalogues:
        dataset = field.catalogues[0].dataset
    if question.slices and dataset is None:
        raise UsageError(f"{identity.spec} is not available, so its slices are unknown; see `bench data info`.")
    if dataset is not None and dataset.content_hash != identity.content_hash:
        if question.slices:
            raise UsageError(f"the results are of {identity.spec} as it was before it changed: run them again.")
        dataset = None
    if dataset is not None and not field.catalogues:
        for result in field.results:
            result.check_ids(dataset, ranking=False)
    most = usual(field.results)
    reports = [_on_metric(field, metric, question) for metric in metrics]
    turned = {name for report in reports for pair in report.reversed for name in pair}
    return DatasetReport(
        dataset=identity.spec,
        split=identity.split,
        limit=identity.limit,
        n=int(field.judged.sum()),
        unit=identity.unit,
        units=units,
        effective=effective,
        systems=[
            System(
                name=name,
                result_id=result.manifest.result_id,
                marks=[
                    *(mark.text for mark in marks(result, most)),
                    *([ORDER_DEPENDS_ON_GOLD] if name in turned else []),
                    *_other_catalogue(field, name),
                ],
                n_failed=result.metrics.n_failed,
                answer_tokens=result.metrics.tokens.get("answer"),
            )
            for name, result in zip(field.names, field.results, strict=True)
        ],
        metrics=reports,
        slices=[item for name in question.slices for item in _by_slice(field, metrics[0], name, question, dataset)],
        moves=_moves(field, metrics[0], question.moved, dataset),
        warnings=sorted({warning for result in field.results for warning in result.manifest.notes}),
        catalogues=[
            SystemCatalogue(system=name, change=catalogue.change)
            for name, catalogue in zip(field.names[1:], field.catalogues[1:], strict=False)
        ],
        origin=sorted(
            {f"{mark.text}: {mark.why}" for result in field.results for mark in result.manifest.dataset.marks}
        ),
    )


def _other_catalogue(field: Field, name: str) -> list[str]:
    """The mark of a system on another catalogue than the baseline's."""
    catalogue = dict(zip(field.names, field.catalogues, strict=False)).get(name)
    return [f"another catalogue: {catalogue.change.words}"] if catalogue is not None and catalogue.change.size else []


def _direction(metric: str) -> float:
    return 1.0 if parse_metric(metric).measure.higher_is_better else -1.0


def _on_metric(field: Field, metric: str, question: ComparisonQuestion) -> MetricReport:
    rows, values = field.values(metric)
    if not len(rows):
        raise UsageError(f"{metric} covers none of the queries, so there is nothing to compare.")
    sign, units = _direction(metric), field.units_of(rows)
    systems = values.shape[1]
    # Whoever names systems chooses the family; floors and oracles are placed among the others.
    references = np.array([competes(result) for result in field.results])
    references |= not references.any()
    pairs = np.ones((systems, systems))
    if _enough(units):
        pairs = pairwise_tests(values, units=units, references=references)
    means = values.mean(axis=0)
    groups = tiers(sign * means, pairs, LEVEL, references)
    ranks = rank_intervals(sign * values, units=units, references=references)
    ends = bca_intervals(values, units=units, span=parse_metric(metric).measure.span)
    standings = [
        Standing(
            system=name,
            mean=float(means[i]),
            low=_finite(ends[i, 0]),
            high=_finite(ends[i, 1]),
            tier=int(groups[i]),
            rank_low=int(ranks[i, 0]),
            rank_high=int(ranks[i, 1]),
            reference=bool(references[i]),
            lenient=lenient_mean(field.results[i], metric),
        )
        for i, name in enumerate(field.names)
    ]
    return MetricReport(
        metric=metric,
        higher_is_better=sign > 0,
        n=len(rows),
        units=_count_of(units),
        standings=sorted(standings, key=lambda item: (-sign * item.mean, item.system)),
        differences=_differences(field.names, values, units, metric, question.independent),
        pairs=pairs.tolist(),
        reversed=[
            (field.names[i], field.names[j]) if sign > 0 else (field.names[j], field.names[i])
            for i, j in reversals(field.results, metric)
        ],
    )


def _count_of(units: NDArray[np.int64]) -> int:
    return int(units.max()) + 1


def _enough(units: NDArray[np.int64]) -> bool:
    return _count_of(units) >= FEWEST_UNITS


def _differences(
    names: Sequence[str], values: NDArray[np.float64], units: NDArray[np.int64], metric: str, independent: bool
) -> list[SystemDifference]:
    """Every system less the first; p-values not yet corrected."""
    sign, span = _direction(metric), difference_span(parse_metric(metric))
    d = values[:, 1:] - values[:, :1]
    t, signed_rank = paired_t(d, units=units), wilcoxon(d, units=units)
    plain: Sequence[Independent | None] = [None] * d.shape[1]
    if independent:
        plain = [Independent(low=pair.low, high=pair.high, p=pair.p) for pair in compare(d, span=span)]
    needed = _needed_units(d, units)
    return [
        _difference(name, pair, sign, float(t[i]), float(signed_rank[i]), needed[i], plain[i])
        for i, (name, pair) in enumerate(zip(names[1:], compare(d, units=units, span=span), strict=True))
    ]


def _needed_units(differences: NDArray[np.float64], units: NDArray[np.int64]) -> list[int | None]:
    """How many units would show each of the mean differences that were found."""
    count = _count_of(units)
    if count < 2:
        return [None] * differences.shape[1]
    if singletons(units):
        spread = differences.std(axis=0, ddof=1)
        return [queries_needed(float(d), float(sd)) for d, sd in zip(differences.mean(axis=0), spread, strict=True)]
    means, errors, _ = robust_mean(differences, units)
    return [needed_units(float(d), float(error), count) for d, error in zip(means, errors, strict=True)]


def _difference(
    name: str,
    pair: Paired,
    sign: float,
    t: float,
    signed_rank: float,
    needed: int | None,
    independent: Independent | None,
) -> SystemDifference:
    wins, losses = (pair.wins, pair.losses) if sign > 0 else (pair.losses, pair.wins)
    return SystemDifference(
        system=name,
        difference=pair.difference,
        low=pair.low,
        high=pair.high,
        p=pair.p,
        corrected=pair.p,
        p_t=t,
        p_wilcoxon=signed_rank,
        dz=pair.dz,
        wins=wins,
        ties=pair.ties,
        losses=losses,
        detectable=pair.detectable,
        needed=needed,
        decided=pair.units >= FEWEST_UNITS,
        independent=independent,
    )


def _by_slice(
    field: Field,
    metric: str,
    name: str,
    question: ComparisonQuestion,
    dataset: Dataset | None,
) -> list[SliceReport]:
    assert dataset is not None
    correct = _CORRECTIONS[question.correction]
    rows, values = field.values(metric)
    reports = []
    groups = values_of(dataset, name, [field.query_ids[row] for row in rows])
    for value, members in groups.items():
        inside, units = values[members], field.units_of(rows[members])
        reports.append(
            SliceReport(
                slice=name,
                value=value,
                metric=metric,
                n=len(inside),
                units=_count_of(units),
                means=dict(zip(field.names, inside.mean(axis=0).tolist(), strict=True)),
                differences=_differences(field.names, inside, units, metric, question.independent),
            )
        )
    corrected = iter(correct([item.p for report in reports for item in report.differences]).tolist())
    return [_with_corrected(report, corrected) for report in reports]


def _moves(field: Field, metric: str, most: int, dataset: Dataset | None) -> list[QueryMoves]:
    if not most:
        return []
    rows, values = field.values(metric)
    ids = [field.query_ids[row] for row in rows]
    texts = {} if dataset is None else {name: dataset.queries[dataset.query_codes[name]].text for name in ids}
    sign = _direction(metric)
    ranked = {}
    if field.catalogues:
        ranked = {i: Ranked(item.of_repeat().run) for i, item in enumerate(field.results) if item.has_run}
    moves = []
    for i, name in enumerate(field.names[1:], start=1):
        change = sign * (values[:, i] - values[:, 0])
        order = np.argsort(-change, kind="stable")

        def moved(places: NDArray[np.int64], column: int = i) -> list[Move]:
            return [
                Move(
                    query_id=ids[place],
                    text=texts.get(ids[place]),
                    system=float(values[place, column]),
                    baseline=float(values[place, 0]),
                    tools=_moved_tools(field, column, ids[place], ranked),
                )
                for place in places.tolist()
            ]

        gained = order[change[order] > 0][:most]
        lost = order[::-1][change[order[::-1]] < 0][:most]
        moves.append(QueryMoves(system=name, metric=metric, gained=moved(gained), lost=moved(lost)))
    return moves


def _moved_tools(field: Field, system: int, query: str, ranked: Mapping[int, Ranked]) -> list[MovedTool]:
    """Gold tools of a query that a system ranks elsewhere than the first, where both rankings are there."""
    if not {0, system} <= ranked.keys():
        return []
    snapshot = field.catalogues[0].snapshot
    place = bisect_left(field.query_ids, query)
    before = ranks_of(snapshot, place, query, ranked[0])
    removed = frozenset(field.catalogues[system].change.removed)
    return moved_tools(query, snapshot, place, before, ranked[system], removed)


def _over_datasets(fields: Sequence[Field], metrics: Sequence[str]) -> list[MacroReport]:
    names = fields[0].names
    sources = [field.results[0].manifest.dataset.source for field in fields]
    by_source: dict[str, list[int]] = {}
    for i, source in enumerate(sources):
        by_source.setdefault(source, []).append(i)
    reports = []
    for metric in metrics:
        taken = [field.values(metric) for field in fields]
        values = [table for _, table in taken]
        units = [field.units_of(rows) for field, (rows, _) in zip(fields, taken, strict=True)]
        means = np.array([np.mean([values[i].mean(axis=0) for i in members], axis=0) for members in by_source.values()])
        sign = _direction(metric)
        intervals = macro_intervals(values, units=units, sources=sources)
        ranks = average_ranks(sign * means)
        standings = [
            MacroStanding(
                system=name,
                mean=float(intervals[i, 0]),
                low=float(intervals[i, 1]),
                high=float(intervals[i, 2]),
                rank=float(ranks[i]),
            )
            for i, name in enumerate(names)
        ]
        reports.append(
            MacroReport(
                metric=metric,
                datasets=[field.results[0].manifest.dataset.spec for field in fields],
                sources=sources,
                standings=sorted(standings, key=lambda item: (item.rank, item.system)),
                friedman=friedman(means) if len(names) > 2 else None,
                critical=nemenyi_difference(len(names), len(by_source)),
            )
        )
    return reports


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
