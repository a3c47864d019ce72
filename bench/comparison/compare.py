"""Comparing systems: tests of all pairs on each dataset, with ranks that follow from them, and over datasets."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.base.config import config_context
from bench.base.errors import BenchError, UsageError
from bench.base.progress import QUIET, Progress
from bench.comparison.best import DatasetTests, best_over_datasets, best_sentence
from bench.comparison.report import (
    BestOverDatasets,
    Comparison,
    Correction,
    DatasetReport,
    Independent,
    MacroReport,
    MacroStanding,
    MarginReport,
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
from bench.comparison.tried import Variants, add_tried
from bench.data.dataset import Dataset
from bench.metrics import parse_metric
from bench.registry import load_dataset
from bench.registry.versions import load_version
from bench.results.across_catalogues import (
    MovedTool,
    Ranked,
    moved_tools,
    ranks_of,
    unreached_sentence,
    why_not_given,
)
from bench.results.comparability import ORDER_DEPENDS_ON_GOLD, competes, lenient_mean, marks, reversals, usual
from bench.results.intervals import span_of
from bench.results.manifest import DatasetIdentity
from bench.results.slices import values_of
from bench.results.store import StoredResult
from bench.results.tries import stored_variants
from bench.results.unfinished import unfinished_marks
from bench.results.units import unit_counts
from bench.show.numbers import number_or_none, several
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import ANY, Span
from bench.stats.classical import paired_t, wilcoxon
from bench.stats.friedman import average_ranks, friedman, nemenyi_difference
from bench.stats.macro import lead_intervals, macro_intervals, macro_values
from bench.stats.multiple import benjamini_hochberg, holm
from bench.stats.noninferiority import FEWEST_UNITS, LEVEL, enough_units, judge_interval, non_inferiority, pair_verdict
from bench.stats.paired import compare, compare_pairs
from bench.stats.power import needed_units, queries_for_equivalence, queries_needed
from bench.stats.ranking import PairTests, correct_pairs, p_of_pairs, rank_order, rank_ranges
from bench.stats.units import effective_units, robust_mean, singletons

#: Metrics compared by default.
USUAL = ("recall@5", "ndcg@5", "pass@5", "recall@10", "ndcg@10", "pass@10")
_CORRECTIONS: dict[Correction, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "holm": holm,
    "benjamini-hochberg": benjamini_hochberg,
    "holm-all": holm,
}


@dataclass(frozen=True)
class ComparisonQuestion:
    """What a comparison is asked.

    Attributes:
        metrics: by their canonical strings; none for the usual ones that all results have.
        slices: names of slices by which the first metric is split, too.
        moved: how many of the queries that moved most are listed, each way.
        correction: how a family is corrected. A family is all pairs of systems for one metric on one dataset; with
            `holm-all`, for all metrics and datasets together.
        independent: whether differences are also shown as if queries were independent.
        margin: the smallest difference that matters: systems are then called the same within it, where that is shown.

    Raises:
        UsageError: the margin is not a number above 0.
    """

    metrics: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    moved: int = 5
    correction: Correction = "holm"
    independent: bool = False
    margin: float | None = None

    def __post_init__(self) -> None:
        known = isinstance(self.margin, int | float) and 0 < self.margin < math.inf
        if self.margin is not None and not known:
            raise UsageError(f"margin is {self.margin!r}; it must be a number above 0, such as 0.01.")


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
    # Across catalogues, others were asked of other tools.
    variants = stored_variants([result for field in fields if not field.catalogues for result in field.results])
    tests = _test_pairs(fields, metrics, question.correction)
    reports = [
        _on_dataset(field, dict(zip(metrics, tested, strict=True)), question, load, variants)
        for field, tested in zip(fields, tests, strict=True)
    ]
    return Comparison(
        baseline=names[0],
        correction=question.correction,
        family=_name_family(int(_references(fields[0]).sum()), len(metrics), len(fields), question.correction),
        level=LEVEL,
        margin=question.margin,
        datasets=reports,
        macro=_over_datasets(fields, metrics, reports, question.correction) if len(fields) > 1 else [],
    )


def _test_pairs(fields: Sequence[Field], metrics: Sequence[str], correction: Correction) -> list[list[PairTests]]:
    """For each dataset and metric, the tests of all pairs of systems; with too few units, no pair differs."""
    tables = [(field, metric, *field.values(metric)) for field in fields for metric in metrics]
    for field, metric, rows, _ in tables:
        if not len(rows):
            raise UsageError(f"{metric} covers none of the queries of {field.dataset}, so there is nothing to compare.")
    p = [
        _p_of_pairs(values, field.units_of(rows), span_of(metric, field.results).of_differences())
        for field, metric, rows, values in tables
    ]
    families = [range(len(tables))] if correction == "holm-all" else [[i] for i in range(len(tables))]
    tests: list[PairTests] = []
    for family in families:
        values = [tables[i][3] for i in family]
        tests += correct_pairs([p[i] for i in family], values, _references(fields[0]), _CORRECTIONS[correction])
    return [tests[i : i + len(metrics)] for i in range(0, len(tests), len(metrics))]


def _p_of_pairs(values: NDArray[np.float64], units: NDArray[np.int64], span: Span = ANY) -> NDArray[np.float64]:
    """(pairs,) p-values of all pairs of systems; 1 where there are too few units for a conclusion."""
    first, second = np.triu_indices(values.shape[1], 1)
    return p_of_pairs(values, first, second, units, span=span) if enough_units(units) else np.ones(len(first))


def _references(field: Field) -> NDArray[np.bool_]:
    """(systems,) the references: all that were named but floors and oracles."""
    references = np.array([competes(result) for result in field.results])
    return references if references.any() else ~references


def _name_family(references: int, metrics: int, datasets: int, correction: Correction) -> str:
    """Which pairs are corrected together, in words."""
    count = references * (references - 1) // 2
    pairs = "one pair" if count < 2 else f"all {count} pairs"
    if correction == "holm-all":
        return f"{pairs}, {several(metrics, 'metric')} and {several(datasets, 'dataset')} together"
    return f"{pairs} for each metric{' and dataset' if datasets > 1 else ''}"


def _on_dataset(
    field: Field,
    tests: Mapping[str, PairTests],
    question: ComparisonQuestion,
    load: Callable[[str], Dataset | None],
    variants: Variants,
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
    first, *_ = tests
    reports = [_on_metric(field, metric, tested, question) for metric, tested in tests.items()]
    if not field.catalogues:
        reports = [add_tried(report, field, variants) for report in reports]
    turned = {name for report in reports for pair in report.reversed for name in pair}
    warnings = {note for result in field.results for note in result.manifest.notes}
    warnings |= {f"{mark.text}: {mark.why}" for result in field.results for mark in unfinished_marks(result)}
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
                    *(mark.text for mark in unfinished_marks(result)),
                ],
                n_failed=result.metrics.n_failed,
                answer_tokens=result.metrics.tokens.get("answer"),
            )
            for name, result in zip(field.names, field.results, strict=True)
        ],
        metrics=reports,
        slices=[item for name in question.slices for item in _by_slice(field, first, name, question, dataset)],
        moves=_moves(field, first, question.moved, dataset),
        warnings=_unreached(field) + sorted(warnings),
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


def _unreached(field: Field) -> list[str]:
    """Which systems the edited tools never reached, each in a sentence."""
    systems = zip(field.names, field.results, field.catalogues, strict=False)
    sentences = [
        unreached_sentence(name, why_not_given(result.manifest.method), catalogue.change)
        for name, result, catalogue in systems
    ]
    return [sentence for sentence in sentences if sentence]


def _direction(metric: str) -> float:
    return 1.0 if parse_metric(metric).measure.higher_is_better else -1.0


def _on_metric(field: Field, metric: str, tests: PairTests, question: ComparisonQuestion) -> MetricReport:
    rows, values = field.values(metric)
    sign, units = _direction(metric), field.units_of(rows)
    references, means = _references(field), values.mean(axis=0)
    ranks = rank_ranges(sign * values, tests.p, references)
    ends = bca_intervals(values, units=units, span=span_of(metric, field.results))
    standings = [
        Standing(
            system=name,
            mean=float(means[i]),
            low=number_or_none(ends[i, 0]),
            high=number_or_none(ends[i, 1]),
            tier=int(ranks[i, 0]),
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
        standings=[standings[i] for i in rank_order(ranks, sign * means)],
        differences=_differences(field, values, units, metric, question, tests.p[0, 1:], tests.sizes[0, 1:]),
        pairs=tests.p.tolist(),
        reversed=[
            (field.names[i], field.names[j]) if sign > 0 else (field.names[j], field.names[i])
            for i, j in reversals(field.results, metric)
        ],
    )


def _count_of(units: NDArray[np.int64]) -> int:
    return int(units.max()) + 1


def _differences(
    field: Field,
    values: NDArray[np.float64],
    units: NDArray[np.int64],
    metric: str,
    question: ComparisonQuestion,
    corrected: NDArray[np.float64],
    sizes: NDArray[np.int64],
) -> list[SystemDifference]:
    """Every system less the first.

    Args:
        field: the systems.
        values: (queries, systems).
        units: (queries,).
        metric, question: what is asked.
        corrected: (systems less one,) p-values of the pairs with the first.
        sizes: (systems less one,) how many pairs each is corrected over.
    """
    sign, span = _direction(metric), span_of(metric, field.results).of_differences()
    d = values[:, 1:] - values[:, :1]
    others = np.arange(1, values.shape[1])
    pairs = compare_pairs(values, others, np.zeros_like(others), corrected, sizes, units=units, span=span)
    t, signed_rank = paired_t(d, units=units), wilcoxon(d, units=units)
    plain: Sequence[Independent | None] = [None] * d.shape[1]
    if question.independent:
        plain = [Independent(low=pair.low, high=pair.high, p=pair.p) for pair in compare(d, span=span)]
    needed = _needed_units(d, units)
    margins: Sequence[MarginReport | None] = [None] * d.shape[1]
    if question.margin is not None:
        margins = _against_margin(d, units, question.margin, span)
    return [
        SystemDifference(
            system=name,
            **{part: getattr(pair, part) for part in ("difference", "low", "high", "p", "dz", "ties", "detectable")},
            corrected=float(corrected[i]),
            p_t=float(t[i]),
            p_wilcoxon=float(signed_rank[i]),
            wins=pair.wins if sign > 0 else pair.losses,
            losses=pair.losses if sign > 0 else pair.wins,
            needed=needed[i],
            decided=pair.effective >= FEWEST_UNITS,
            verdict=pair_verdict(sign * pair.difference, float(corrected[i]), pair.effective >= FEWEST_UNITS),
            margin=margins[i],
            independent=plain[i],
        )
        for i, (name, pair) in enumerate(zip(field.names[1:], pairs, strict=True))
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


def _against_margin(
    differences: NDArray[np.float64], units: NDArray[np.int64], margin: float, span: Span
) -> list[MarginReport]:
    """Whether each of the mean differences is within a margin."""
    count = _count_of(units)
    means, errors, _ = robust_mean(differences, units)
    reports = []
    for i, item in enumerate(non_inferiority(differences, margin, units=units, span=span)):
        verdict = judge_interval(item.lower, item.upper, margin, enough_units(units))
        needed = None
        if count > 1 and verdict == "undecided":
            # A unit is an observation with such a standard deviation that the mean has its error.
            needed = queries_for_equivalence(float(means[i]), float(errors[i]) * math.sqrt(count), margin)
        # Nor do fewer decide than are worth enough.
        needed = None if needed is None else max(needed, math.ceil(FEWEST_UNITS * count / effective_units(units)))
        reports.append(MarginReport(margin=margin, low=item.lower, high=item.upper, verdict=verdict, needed=needed))
    return reports


def _by_slice(
    field: Field,
    metric: str,
    name: str,
    question: ComparisonQuestion,
    dataset: Dataset | None,
) -> list[SliceReport]:
    assert dataset is not None
    rows, values = field.values(metric)
    groups = values_of(dataset, name, [field.query_ids[row] for row in rows])
    others, span = np.arange(1, values.shape[1]), span_of(metric, field.results).of_differences()
    p = [
        p_of_pairs(values[members], others, np.zeros_like(others), field.units_of(rows[members]), span=span)
        for members in groups.values()
    ]
    corrected = _CORRECTIONS[question.correction](np.concatenate(p)).reshape(len(p), -1)
    sizes = np.full(len(others), corrected.size)
    reports = []
    for (value, members), part in zip(groups.items(), corrected, strict=True):
        inside, units = values[members], field.units_of(rows[members])
        reports.append(
            SliceReport(
                slice=name,
                value=value,
                metric=metric,
                n=len(inside),
                units=_count_of(units),
                means=dict(zip(field.names, inside.mean(axis=0).tolist(), strict=True)),
                differences=_differences(field, inside, units, metric, question, part, sizes),
            )
        )
    return reports


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


def _over_datasets(
    fields: Sequence[Field], metrics: Sequence[str], datasets: Sequence[DatasetReport], correction: Correction
) -> list[MacroReport]:
    names, references = fields[0].names, _references(fields[0])
    sources = [field.results[0].manifest.dataset.source for field in fields]
    reports = []
    for place, metric in enumerate(metrics):
        sign = _direction(metric)
        taken = [field.values(metric) for field in fields]
        values = [table for _, table in taken]
        units = [field.units_of(rows) for field, (rows, _) in zip(fields, taken, strict=True)]
        span = span_of(metric, [result for field in fields for result in field.results])
        intervals = macro_intervals(values, units=units, sources=sources, span=span)
        # The tests are about these very datasets, whatever others there may be.
        table, codes = macro_values([sign * part for part in values], units, sources)
        p = _p_of_pairs(table, codes)
        (tests,) = correct_pairs([p], [table], references, _CORRECTIONS[correction])
        ranks = rank_ranges(table, tests.p, references)
        by_source = {source: [i for i, other in enumerate(sources) if other == source] for source in sources}
        means = np.array([np.mean([values[i].mean(axis=0) for i in members], axis=0) for members in by_source.values()])
        mean_ranks = average_ranks(sign * means)
        standings = [
            MacroStanding(
                system=name,
                mean=float(intervals[i, 0]),
                low=number_or_none(intervals[i, 1]),
                high=number_or_none(intervals[i, 2]),
                rank=float(mean_ranks[i]),
                rank_low=int(ranks[i, 0]),
                rank_high=int(ranks[i, 1]),
                reference=bool(references[i]),
            )
            for i, name in enumerate(names)
        ]
        on_each = [(item.dataset, item.metrics[place]) for item in datasets]
        best = _best(fields[0], metric, values, units, sources, tests.p, on_each, span)
        reports.append(
            MacroReport(
                metric=metric,
                datasets=[field.results[0].manifest.dataset.spec for field in fields],
                sources=sources,
                standings=[standings[i] for i in rank_order(ranks, sign * intervals[:, 0])],
                friedman=friedman(means) if len(names) > 2 else None,
                critical=nemenyi_difference(len(names), len(by_source)),
                best=best,
                statement="" if best is None else best_sentence(best),
            )
        )
    return reports


def _best(
    field: Field,
    metric: str,
    values: Sequence[NDArray[np.float64]],
    units: Sequence[NDArray[np.int64]],
    sources: Sequence[str],
    p: NDArray[np.float64],
    reports: Sequence[tuple[str, MetricReport]],
    span: Span,
) -> BestOverDatasets | None:
    """Who is best over the datasets; None for fewer than two systems that compete.

    Args:
        field: of any dataset: its systems.
        metric: by which.
        values, units, sources: for each dataset.
        p: (systems, systems) corrected p-values over the datasets.
        reports: of each dataset: its name and what was found.
        span: the range of the metric's mean on all of them.
    """
    sign = _direction(metric)
    ranked = [i for i, result in enumerate(field.results) if not result.manifest.method.oracle]
    contenders = [i for i in ranked if competes(field.results[i])]
    if len(contenders) < 2:
        return None
    contending = [sign * part[:, contenders] for part in values]
    means = np.round(macro_values(contending, units, sources)[0].mean(axis=0), 12)
    chosen = [field.names[i] for i in contenders]
    best = min(range(len(chosen)), key=lambda i: (-means[i], chosen[i]))
    leads = lead_intervals(contending, best, units, sources, span.of_differences())
    tests = [
        DatasetTests(
            dataset=name,
            systems=[field.names[i] for i in ranked],
            scores=sign * part[:, ranked].mean(axis=0),
            pairs=np.array(report.pairs)[np.ix_(ranked, ranked)],
        )
        for (name, report), part in zip(reports, values, strict=True)
    ]
    return best_over_datasets(chosen, best, leads, p[contenders[best], contenders], len(set(sources)), tests)
