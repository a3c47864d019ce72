"""Compares systems: tests of all pairs on each dataset and over datasets, with the ranks that follow from them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.config import config_context
from bench.base.errors import BenchError, UsageError
from bench.base.progress import QUIET, Progress
from bench.comparison.best import best_over_datasets, best_sentence, worse_on
from bench.comparison.comparison import Comparison
from bench.comparison.report import (
    BestOverDatasets,
    Correction,
    DatasetReport,
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
from bench.comparison.rows import ORDER_DEPENDS_ON_GOLD, competes, lenient_mean, marks, reversals, usual
from bench.comparison.systems import Field, MetricValues, across_catalogues, by_dataset
from bench.comparison.tried import Variants, add_tried
from bench.comparison.variants import stored_variants
from bench.data.dataset import Dataset
from bench.lookup.folder import ResultsFolder
from bench.lookup.unfinished import unfinished_marks
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
from bench.results.manifest import DatasetIdentity
from bench.results.store import StoredResult, span_of
from bench.results.units import unit_counts
from bench.show.numbers import number_or_none, several
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import ANY, Span
from bench.stats.classical import paired_t, wilcoxon
from bench.stats.friedman import average_ranks, friedman, nemenyi_difference
from bench.stats.macro import lead_intervals, macro_intervals_of_tables, macro_values, source_means
from bench.stats.multiple import benjamini_hochberg, holm
from bench.stats.noninferiority import FEWEST_UNITS, LEVEL, enough_units, judge_interval, non_inferiority, pair_verdict
from bench.stats.paired import Paired, compare_pairs
from bench.stats.power import queries_for_equivalence
from bench.stats.ranking import PairTests, correct_pairs, p_of_tables, rank_order, rank_ranges, reference_mask
from bench.stats.stacks import stack_tables
from bench.stats.units import effective_units, robust_mean

#: Metrics compared by default.
USUAL = ("recall@5", "ndcg@5", "pass@5", "recall@10", "ndcg@10", "pass@10")
_CORRECTIONS: dict[Correction, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "holm": holm,
    "benjamini-hochberg": benjamini_hochberg,
    "holm-all": holm,
}


@dataclass(frozen=True)
class ComparisonQuestion:
    """The question of a comparison.

    Attributes:
        metrics: canonical names; empty for the default metrics that all results have.
        slices: names of slices by which the first metric is also split.
        moved: number of queries with the largest changes to list, in each direction.
        correction: the correction within a family. A family is all pairs of systems for one metric on one dataset; with
            `holm-all`, for all metrics and datasets together.
        margin: the smallest difference that matters: systems count as the same if their difference is shown to be
            smaller.

    Raises:
        UsageError: the margin is not a number above 0.
    """

    metrics: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    moved: int = 5
    correction: Correction = "holm"
    margin: float | None = None

    def __post_init__(self) -> None:
        known = isinstance(self.margin, int | float) and 0 < self.margin < math.inf
        if self.margin is not None and not known:
            raise UsageError(f"margin is {self.margin!r}; it must be a number above 0, such as 0.01.")


def compare_results(
    results: Sequence[StoredResult],
    question: ComparisonQuestion,
    *,
    across: bool = False,
    progress: Progress = QUIET,
    folder: ResultsFolder | None = None,
) -> Comparison:
    """Compare stored results with the first one.

    Args:
        results: on the same queries; the same methods on several datasets are also compared over all datasets.
        question: what is asked.
        across: whether tools may have been edited, added or removed.
        progress: receives reports of downloads.
        folder: the folder of the results, already listed, where variants of their methods are found too; None to list
            the folder of each result.

    Raises:
        ResultError: two results are not on the same queries, data or protocol, or one is damaged.
        UsageError: fewer than two results, the same result twice, or an unknown metric or slice.
    """

    def load(spec: str) -> Dataset | None:

        try:
            # Slices need the dataset; the texts of queries alone do not justify a download.
            with config_context(offline=None if question.slices else True):
                return load_dataset(spec, progress)
        except BenchError:
            if question.slices:
                raise
            return None

    def version(data: DatasetIdentity) -> Dataset:

        return load_version(data.spec, data.content_hash, progress)

    members = list(results)
    fields = [across_catalogues(members, version)] if across else by_dataset(members)
    return compare_fields(fields, question, load, folder)


def compare_fields(
    fields: Sequence[Field],
    question: ComparisonQuestion,
    load: Callable[[str], Dataset | None],
    folder: ResultsFolder | None = None,
) -> Comparison:
    """Compare systems on one dataset or several; the first system is the baseline.

    Args:
        fields: one for each dataset, all with the same systems in the same order.
        question: what is asked.
        load: returns the dataset of a spec, for query texts and slices; None if it is not available.
        folder: as in `compare_results`.

    Raises:
        UsageError: fewer than two systems; systems that differ between datasets; no metric that all have; or a slice
            that a dataset lacks, or whose dataset is unavailable.
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
    # Across catalogues, the other systems searched other tools.
    here = [result for field in fields if not field.catalogues for result in field.results]
    variants = stored_variants(here, folder)
    references, correction = _references(fields[0]), question.correction
    values = [field.values(metric) for field in fields for metric in metrics]
    p = _p_of_pairs(values, *np.triu_indices(len(names), 1))
    together = [slice(None)] if correction == "holm-all" else [slice(i, i + 1) for i in range(len(values))]
    tests = [one for family in together for one in _correct(values[family], p[family], references, correction)]
    # The pairs with the first system come first.
    tested = [
        _Tested(one, alone[: len(names) - 1], corrected) for one, alone, corrected in zip(values, p, tests, strict=True)
    ]
    reports = [
        _on_dataset(field, tested[i * len(metrics) : (i + 1) * len(metrics)], question, load, variants)
        for i, field in enumerate(fields)
    ]
    macro = []
    if len(fields) > 1:
        on_each = [{report.dataset: report.metrics[i] for report in reports} for i in range(len(metrics))]
        macro = _over_datasets(fields, [values[i :: len(metrics)] for i in range(len(metrics))], on_each, correction)
    return Comparison(
        baseline=names[0],
        correction=correction,
        family=_name_family(int(references.sum()), len(metrics), len(fields), correction),
        level=LEVEL,
        margin=question.margin,
        datasets=reports,
        macro=macro,
    )


@dataclass(frozen=True, eq=False)
class _Tested:
    """A metric of several systems with its tests.

    Attributes:
        values: the values.
        p: (systems - 1,) uncorrected p-values of the pairs with the first system.
        tests: the corrected tests of all pairs.
    """

    values: MetricValues
    p: NDArray[np.float64]
    tests: PairTests


def _p_of_pairs(
    metrics: Sequence[MetricValues], first: NDArray[np.intp], second: NDArray[np.intp]
) -> list[NDArray[np.float64]]:
    """For each metric, (pairs,) the uncorrected p-values of pairs of systems."""
    tables, units = [one.values for one in metrics], [one.units for one in metrics]
    spans = [one.span.of_differences() for one in metrics]
    return p_of_tables(tables, [first] * len(metrics), [second] * len(metrics), units, spans)


def _correct(
    family: Sequence[MetricValues],
    p: Sequence[NDArray[np.float64]],
    references: NDArray[np.bool_],
    correction: Correction,
) -> list[PairTests]:
    """Correct the p-values of all pairs by metrics of one family; with too few units, no pair differs."""
    decided = [alone if enough_units(one.units) else np.ones_like(alone) for one, alone in zip(family, p, strict=True)]
    return correct_pairs(decided, [one.values for one in family], references, _CORRECTIONS[correction])


def _references(field: Field) -> NDArray[np.bool_]:
    """(systems,) the references: all named systems except floors and oracles."""
    return reference_mask(np.array([competes(result) for result in field.results]), len(field.results))


def _name_family(references: int, metrics: int, datasets: int, correction: Correction) -> str:
    """The pairs that are corrected together, in words."""
    count = references * (references - 1) // 2
    pairs = "one pair" if count < 2 else f"all {count} pairs"
    if correction == "holm-all":
        return f"{pairs}, {several(metrics, 'metric')} and {several(datasets, 'dataset')} together"
    return f"{pairs} for each metric{' and dataset' if datasets > 1 else ''}"


def _on_dataset(
    field: Field,
    tested: Sequence[_Tested],
    question: ComparisonQuestion,
    load: Callable[[str], Dataset | None],
    variants: Variants,
) -> DatasetReport:
    identity = field.results[0].manifest.dataset
    units, effective = unit_counts(field.units[field.judged])
    dataset = _dataset_of(field, question, load)
    most = usual(field.results)
    values = [one.values for one in tested]
    first = values[0]
    intervals = _intervals(values)
    pairs = _pairs_with_first(
        values, [one.p for one in tested], [(one.tests.p[0, 1:], one.tests.sizes[0, 1:]) for one in tested]
    )
    reports = [_on_metric(field, *found, question) for found in zip(tested, intervals, pairs, strict=True)]
    if not field.catalogues:
        reports = add_tried(reports, field, values, variants)
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
                    *(f"another catalogue: {on.change.words}" for on in field.catalogues[i : i + 1] if on.change.size),
                    *(mark.text for mark in unfinished_marks(result)),
                ],
                n_failed=result.metrics.n_failed,
                answer_tokens=result.metrics.tokens.get("answer"),
            )
            for i, (name, result) in enumerate(zip(field.names, field.results, strict=True))
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


def _dataset_of(field: Field, question: ComparisonQuestion, load: Callable[[str], Dataset | None]) -> Dataset | None:
    """The dataset, for slices and texts of queries; None if not needed, or if unavailable and needed only for texts."""
    if field.catalogues:
        return field.catalogues[0].dataset
    identity = field.results[0].manifest.dataset
    dataset = load(identity.spec) if question.slices or question.moved else None
    if dataset is not None and dataset.content_hash == identity.content_hash:
        for result in field.results:
            result.check_ids(dataset, ranking=False)
        return dataset
    if question.slices and dataset is None:
        raise UsageError(f"{identity.spec} is not available, so its slices are unknown; see `bench data info`.")
    if question.slices:
        raise UsageError(f"the results are of {identity.spec} as it was before it changed: run them again.")
    return None


def _unreached(field: Field) -> list[str]:
    """A sentence for each system that the edited tools never reached."""
    systems = zip(field.names, field.results, field.catalogues, strict=False)
    sentences = [
        unreached_sentence(name, why_not_given(result.manifest.method), catalogue.change)
        for name, result, catalogue in systems
    ]
    return [sentence for sentence in sentences if sentence]


def _places(
    field: Field, numbers: NDArray[np.float64], ranks: NDArray[np.int64], references: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """The fields of a standing that one dataset and several share, for each system.

    Args:
        field: the systems.
        numbers: (systems, 3) means and the ends of their intervals.
        ranks, references: as in `rank_ranges`.
    """
    return [
        {
            "system": name,
            "mean": mean,
            "low": number_or_none(low),
            "high": number_or_none(high),
            "rank_low": best,
            "rank_high": worst,
            "reference": own,
        }
        for name, (mean, low, high), (best, worst), own in zip(
            field.names, numbers.tolist(), ranks.tolist(), references.tolist(), strict=True
        )
    ]


def _intervals(metrics: Sequence[MetricValues]) -> list[NDArray[np.float64]]:
    """For each metric, (systems, 2) the ends of the intervals of the systems' means."""
    tables, found = [one.values for one in metrics], [np.empty((0, 2))] * len(metrics)
    for stack in stack_tables(tables, [one.units for one in metrics], [one.span for one in metrics]):
        ends = bca_intervals(stack.values, units=stack.units, span=stack.span)
        for i, part in stack.parts([table.T for table in tables]):
            found[i] = ends[part]
    return found


def _pairs_with_first(
    metrics: Sequence[MetricValues],
    p: Sequence[NDArray[np.float64]],
    corrected: Sequence[tuple[NDArray[np.float64], NDArray[np.int64]]],
) -> list[list[Paired]]:
    """For each metric, the comparisons of every other system with the first.

    Args:
        metrics: the values of each metric, on all queries or on some.
        p: for each metric, (systems - 1,) uncorrected p-values.
        corrected: for each metric, (systems - 1,) corrected p-values, and numbers of pairs over which they are
            corrected.
    """
    spans = [one.span.of_differences() for one in metrics]
    others = [np.arange(1, one.values.shape[1]) for one in metrics]
    firsts, found = [np.zeros_like(one) for one in others], [list[Paired]()] * len(metrics)
    for stack in stack_tables([one.values for one in metrics], [one.units for one in metrics], spans):
        compared = compare_pairs(
            stack.values,
            stack.columns(others),
            stack.columns(firsts),
            np.concatenate([corrected[i][0] for i in stack.tables]),
            np.concatenate([corrected[i][1] for i in stack.tables]),
            units=stack.units,
            span=stack.span,
            p=np.concatenate([p[i] for i in stack.tables]),
        )
        for i, part in stack.parts(others):
            found[i] = compared[part]
    return found


def _on_metric(
    field: Field,
    tested: _Tested,
    ends: NDArray[np.float64],
    pairs: Sequence[Paired],
    question: ComparisonQuestion,
) -> MetricReport:
    """The report of a metric.

    Args:
        field: the systems.
        tested: their values and tests.
        ends: (systems, 2) the ends of the intervals of their means.
        pairs: (systems - 1,) comparisons with the first system.
        question: what is asked.
    """
    values, tests = tested.values, tested.tests
    references, metric, sign = _references(field), values.metric, values.sign
    means = values.values.mean(axis=0)
    ranks = rank_ranges(sign * values.values, tests.p, references)
    standings = [
        Standing(**place, tier=place["rank_low"], lenient=lenient_mean(result, metric))
        for place, result in zip(
            _places(field, np.column_stack([means, ends]), ranks, references), field.results, strict=True
        )
    ]
    return MetricReport(
        metric=metric,
        higher_is_better=sign > 0,
        n=len(values.rows),
        units=values.n_units,
        standings=[standings[i] for i in rank_order(ranks, sign * means)],
        differences=_differences(field, values, question, pairs, tests.p[0, 1:]),
        pairs=tests.p.tolist(),
        reversed=[
            (field.names[i], field.names[j]) if sign > 0 else (field.names[j], field.names[i])
            for i, j in reversals(field.results, metric)
        ],
    )


def _differences(
    field: Field,
    values: MetricValues,
    question: ComparisonQuestion,
    pairs: Sequence[Paired],
    corrected: NDArray[np.float64],
) -> list[SystemDifference]:
    """The differences of every system from the first.

    Args:
        field: the systems.
        values: the values of a metric, on all queries or on some.
        question: what is asked.
        pairs: (systems - 1,) comparisons with the first.
        corrected: (systems - 1,) their corrected p-values.
    """
    table, units = values.values, values.units
    d = table[:, 1:] - table[:, :1]
    t, signed_rank = paired_t(d, units=units), wilcoxon(d, units=units)
    margins: Sequence[MarginReport | None] = [None] * d.shape[1]
    if question.margin is not None:
        margins = _against_margin(d, units, question.margin, values.span.of_differences())
    same = ("difference", "low", "high", "p", "dz", "ties", "detectable", "needed", "decided")
    return [
        SystemDifference(
            system=name,
            **{part: getattr(pair, part) for part in same},
            corrected=float(corrected[i]),
            p_t=float(t[i]),
            p_wilcoxon=float(signed_rank[i]),
            wins=pair.wins if values.sign > 0 else pair.losses,
            losses=pair.losses if values.sign > 0 else pair.wins,
            verdict=pair_verdict(values.sign * pair.difference, float(corrected[i]), pair.decided),
            margin=margins[i],
        )
        for i, (name, pair) in enumerate(zip(field.names[1:], pairs, strict=True))
    ]


def _against_margin(
    differences: NDArray[np.float64], units: NDArray[np.int64], margin: float, span: Span
) -> list[MarginReport]:
    """Whether each of the mean differences is within a margin."""
    means, errors, _ = robust_mean(differences, units)
    reports = []
    for i, item in enumerate(non_inferiority(differences, margin, units=units, span=span)):
        verdict = judge_interval(item.lower, item.upper, margin, enough_units(units))
        needed = None
        if item.units > 1 and verdict == "undecided":
            # Each unit counts as one observation; its standard deviation is chosen to give the standard error of the
            # mean.
            needed = queries_for_equivalence(float(means[i]), float(errors[i]) * math.sqrt(item.units), margin)
        # Nor is the number below the minimum for a decision.
        needed = None if needed is None else max(needed, math.ceil(FEWEST_UNITS * item.units / effective_units(units)))
        reports.append(MarginReport(margin=margin, low=item.lower, high=item.upper, verdict=verdict, needed=needed))
    return reports


def _by_slice(
    field: Field,
    values: MetricValues,
    name: str,
    question: ComparisonQuestion,
    dataset: Dataset | None,
) -> list[SliceReport]:
    from bench.results.slices import values_of  # few comparisons have slices

    assert dataset is not None
    groups = values_of(dataset, name, [field.query_ids[row] for row in values.rows])
    parts = [values.take(members) for members in groups.values()]
    others = np.arange(1, len(field.names))
    p = _p_of_pairs(parts, others, np.zeros_like(others))
    corrected = _CORRECTIONS[question.correction](np.concatenate(p)).reshape(len(p), -1)
    pairs = _pairs_with_first(parts, p, [(of_part, np.full(len(others), corrected.size)) for of_part in corrected])
    return [
        SliceReport(
            slice=name,
            value=value,
            metric=values.metric,
            n=len(part.rows),
            units=part.n_units,
            means=dict(zip(field.names, part.values.mean(axis=0).tolist(), strict=True)),
            differences=_differences(field, part, question, compared, of_part),
        )
        for value, part, compared, of_part in zip(groups, parts, pairs, corrected, strict=True)
    ]


def _moves(field: Field, values: MetricValues, most: int, dataset: Dataset | None) -> list[QueryMoves]:
    if not most:
        return []
    ids, table = [field.query_ids[row] for row in values.rows], values.values
    texts = {} if dataset is None else {name: dataset.queries[dataset.query_codes[name]].text for name in ids}
    ranked = {}
    if field.catalogues:
        ranked = {i: Ranked(item.of_repeat().run) for i, item in enumerate(field.results) if item.has_run}
    moves = []
    for i, name in enumerate(field.names[1:], start=1):
        change = values.sign * (table[:, i] - table[:, 0])
        order = np.argsort(-change, kind="stable")

        def moved(places: NDArray[np.int64], column: int = i) -> list[Move]:
            return [
                Move(
                    query_id=ids[place],
                    text=texts.get(ids[place]),
                    system=float(table[place, column]),
                    baseline=float(table[place, 0]),
                    tools=_moved_tools(field, column, ids[place], ranked),
                )
                for place in places.tolist()
            ]

        gained = order[change[order] > 0][:most]
        lost = order[::-1][change[order[::-1]] < 0][:most]
        moves.append(QueryMoves(system=name, metric=values.metric, gained=moved(gained), lost=moved(lost)))
    return moves


def _moved_tools(field: Field, system: int, query: str, ranked: Mapping[int, Ranked]) -> list[MovedTool]:
    """Gold tools of a query whose rank differs from that of the first system, if both rankings exist."""
    if not {0, system} <= ranked.keys():
        return []
    snapshot = field.catalogues[0].snapshot
    place = bisect_left(field.query_ids, query)
    before = ranks_of(snapshot, place, query, ranked[0])
    removed = frozenset(field.catalogues[system].change.removed)
    return moved_tools(query, snapshot, place, before, ranked[system], removed)


def _over_datasets(
    fields: Sequence[Field],
    metrics: Sequence[Sequence[MetricValues]],
    on_each: Sequence[Mapping[str, MetricReport]],
    correction: Correction,
) -> list[MacroReport]:
    """Compare the systems on metrics over datasets.

    Args:
        fields: the systems on each dataset.
        metrics: for each metric, their values on each dataset.
        on_each: for each metric, what was found on each dataset, by its name.
        correction: of the family of all pairs.
    """
    sources = [field.results[0].manifest.dataset.source for field in fields]
    results = [result for field in fields for result in field.results]
    spans = [span_of(parts[0].metric, results) for parts in metrics]
    whole = []
    # The tests are about exactly these datasets.
    for parts in metrics:
        table, codes = macro_values([part.values for part in parts], [part.units for part in parts], sources)
        whole.append(MetricValues(parts[0].metric, parts[0].sign, np.arange(len(table)), table, codes, ANY))
    numbers = macro_intervals_of_tables(
        [[part.values for part in parts] for parts in metrics],
        [[part.units for part in parts] for parts in metrics],
        sources,
        spans,
    )
    p = _p_of_pairs(whole, *np.triu_indices(len(fields[0].names), 1))
    return [
        _macro_report(fields, sources, parts, one, alone, ends, span, reports, correction)
        for parts, one, alone, ends, span, reports in zip(metrics, whole, p, numbers, spans, on_each, strict=True)
    ]


def _macro_report(
    fields: Sequence[Field],
    sources: Sequence[str],
    parts: Sequence[MetricValues],
    whole: MetricValues,
    p: NDArray[np.float64],
    numbers: NDArray[np.float64],
    span: Span,
    on_each: Mapping[str, MetricReport],
    correction: Correction,
) -> MacroReport:
    """The report of a metric over datasets.

    Args:
        fields, parts, on_each, correction: as in `_over_datasets`, for this metric.
        sources: (datasets,) the source of each.
        whole: the values on all datasets as one table, from `macro_values`.
        p: (pairs,) uncorrected p-values of all pairs.
        numbers: (systems, 3) means and the ends of their intervals.
        span: the range of the metric's mean over all datasets.
    """
    references, metric, sign, table = _references(fields[0]), whole.metric, whole.sign, whole.values
    values = [part.values for part in parts]
    (tests,) = _correct([whole], [p], references, correction)
    ranks = rank_ranges(sign * table, tests.p, references)
    means = source_means(np.array([part.mean(axis=0) for part in values]), sources)
    standings = [
        MacroStanding(**item, mean_rank=mean_rank)
        for item, mean_rank in zip(
            _places(fields[0], numbers, ranks, references), average_ranks(sign * means).tolist(), strict=True
        )
    ]
    best = _best(fields[0], parts, sources, standings, tests.p, span, on_each)
    return MacroReport(
        metric=metric,
        datasets=[field.dataset for field in fields],
        sources=sources,
        standings=[standings[i] for i in rank_order(ranks, sign * numbers[:, 0])],
        friedman=friedman(means) if len(standings) > 2 else None,
        critical=nemenyi_difference(len(standings), len(means)),
        best=best,
        statement="" if best is None else best_sentence(best),
    )


def _best(
    field: Field,
    parts: Sequence[MetricValues],
    sources: Sequence[str],
    standings: Sequence[MacroStanding],
    p: NDArray[np.float64],
    span: Span,
    on_each: Mapping[str, MetricReport],
) -> BestOverDatasets | None:
    """The best system over the datasets; None for fewer than two competing systems.

    Args:
        field: that of any dataset, for its systems.
        parts, sources: their values on each dataset, and the source of its queries.
        standings: those over the datasets, in the order of the systems.
        p: (systems, systems) corrected p-values over the datasets.
        span: the range of the metric's mean over all datasets.
        on_each: what was found on each dataset, by its name.
    """
    sign, names = parts[0].sign, field.names
    contenders = [i for i, result in enumerate(field.results) if competes(result)]
    if len(contenders) < 2:
        return None
    contenders.sort(key=lambda i: (-round(sign * standings[i].mean, 12), names[i]))
    best = contenders[0]
    leads = lead_intervals(
        [sign * part.values[:, contenders] for part in parts],
        [part.units for part in parts],
        sources,
        span.of_differences(),
    )
    oracles = {name for name, result in zip(names, field.results, strict=True) if result.manifest.method.oracle}
    worse = []
    for dataset, report in on_each.items():
        means = {item.system: sign * item.mean for item in report.standings if item.system not in oracles}
        pairs = dict(zip(names, report.pairs[best], strict=True))
        worse += worse_on(dataset, means[names[best]], [(name, mean, pairs[name]) for name, mean in means.items()])
    return best_over_datasets(
        [names[i] for i in contenders], leads, p[best, contenders], list(on_each), len(set(sources)), worse
    )
