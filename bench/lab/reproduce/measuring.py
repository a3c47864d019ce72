"""Estimates and comparisons from measured answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import BenchError, UnavailableError, UsageError
from bench.lab.reproduce.artefacts import commands_for
from bench.lab.reproduce.outcomes import SAME, Outcome
from bench.lab.reproduce.recipes import Recipe, RecipeQuestion, is_fact
from bench.lab.reproduce.report import Estimate, Lacking, MeasuredData, Measurement, PairedComparison
from bench.lab.reproduce.runs import MethodRuns, MethodValues, as_bench_error, fact
from bench.lab.reproduce.verdicts import judge_direction
from bench.results.store import StoredResult, span_of
from bench.stats.noninferiority import FEWEST_UNITS, LEVEL
from bench.stats.paired import compare
from bench.stats.strata import centred_values, stratified_intervals

#: Tolerance of equal scores that are computed in different ways.
_ROUNDING = 1e-6


def estimates(
    method: str, question: RecipeQuestion, names: Sequence[str], runs: MethodRuns, minus: str | None = None
) -> tuple[MethodValues, list[Estimate]]:
    """Means and intervals of metrics and facts, in the given order; the method `minus` is subtracted query by query.

    Raises:
        BenchError: something is missing, or a run failed.
    """
    metrics = [name for name in names if not is_fact(name)]
    # A fact is read from the result; any metric says which queries it covers.
    answers = runs.ask(method, question, metrics or ["recall@5"])
    values = answers.values
    if minus is not None:
        values = values - runs.ask(minus, question, metrics).values
    centred = centred_values(values, answers.groups)
    spans = [span_of(name, answers.results) for name in metrics]
    if minus is not None:
        spans = [span.of_differences() for span in spans]
    intervals, tested = (
        stratified_intervals(values, answers.groups, answers.units, spans, level) for level in (0.95, 1 - 2 * LEVEL)
    )
    measured = []
    for name in names:
        if is_fact(name):
            if len(answers.results) > 1:
                raise UsageError(f"{name} is of one dataset, and the recipe asks {len(answers.results)}.")
            measured.append(Estimate(metric=name, mean=fact(answers.results[0], name), low=None, high=None))
            continue
        column = metrics.index(name)
        ends = [None if np.isnan(end) else float(end) for end in (*intervals[column], *tested[column])]
        low, high, low_90, high_90 = ends
        mean = float(centred[:, column].mean())
        measured.append(Estimate(metric=name, mean=mean, low=low, high=high, low_90=low_90, high_90=high_90))
    return answers, measured


def compare_methods(
    better: str, worse: str, question: RecipeQuestion, metrics: Sequence[str], runs: MethodRuns
) -> tuple[MethodValues, MethodValues, list[PairedComparison]]:
    """Two methods on the same queries: their answers, and one comparison per metric; raises as `estimates`.

    The comparisons are not yet corrected and decided, except if both give the same answers, which leaves nothing to
    decide.
    """
    first = runs.ask(better, question, metrics)
    second = runs.ask(worse, question, metrics)
    if any((one != other).any() for one, other in zip(first.kept, second.kept, strict=True)):
        raise UsageError(f"{better} and {worse} were not judged on the same queries.")
    outcome: Outcome = SAME if (first.values == second.values).all() and same_answers(first, second) else "undecided"
    comparisons = []
    for column, metric in enumerate(metrics):
        differences = (first.values - second.values)[:, [column]]
        span = span_of(metric, first.results).of_differences()
        (pair,) = compare(differences, first.groups, units=first.units, span=span)
        comparisons.append(PairedComparison(metric=metric, corrected=pair.p, outcome=outcome, **asdict(pair)))
    return first, second, comparisons


def same_answers(first: MethodValues, second: MethodValues) -> bool:
    """Whether two methods answer each query identically: with the same ranking and the same recommended set.

    Neighbours whose scores differ only by rounding, in both rankings, may be swapped. A result without a stored ranking
    cannot show it.
    """
    return all(map(_alike, first.results, second.results, first.kept))


def _alike(first: StoredResult, second: StoredResult, kept: NDArray[np.bool_]) -> bool:
    import pyarrow.compute as pc

    if not (first.has_run and second.has_run):
        return False
    rows, others = (result.per_query.filter(kept.tolist()) for result in (first, second))
    one, two = (result.run.filter(pc.is_in(result.run["query_id"], rows["query_id"])) for result in (first, second))
    if rows["recommended"] != others["recommended"] or one["query_id"] != two["query_id"]:
        return False
    scores = np.array([one["score"].to_pylist(), two["score"].to_pylist()], dtype=np.float64)
    apart = np.append(True, ~(np.abs(np.diff(scores)) <= _ROUNDING).all(axis=0))
    # Positions of one query without a gap between scores have one number.
    place = np.cumsum(apart | (np.array(one["rank"].to_pylist()) == 1)).tolist()
    mine, other = (sorted(zip(place, run["tool_id"].to_pylist(), strict=True)) for run in (one, two))
    return mine == other


def decide(comparison: PairedComparison, published: float, corrected: float) -> PairedComparison:
    """The comparison with its corrected p-value and verdict."""
    identical = comparison.wins == comparison.losses == 0
    decided = (comparison.effective or 0) >= FEWEST_UNITS
    outcome = judge_direction(published, comparison.difference, identical, corrected, decided)
    return comparison.model_copy(update={"corrected": corrected, "outcome": outcome})


def measurement_of(
    method: str, answers: MethodValues, question: RecipeQuestion, minus: str | None = None
) -> Measurement:
    """What these answers of a method, minus those of another one, were measured on."""
    manifests = [result.manifest for result in answers.results]
    data = [
        MeasuredData(
            dataset=manifest.dataset.spec,
            split=manifest.dataset.split,
            queries=int(kept.sum()),
            tools=manifest.dataset.tools,
            template=manifest.dataset.template,
            result=manifest.result_id,
        )
        for manifest, kept in zip(manifests, answers.kept, strict=True)
    ]
    return Measurement(
        method=method,
        minus=minus,
        data=data,
        pool=question.pool,
        slices=question.slices,
        queries=len(answers.values),
        failed=answers.failed,
        warnings=list(dict.fromkeys(warning for manifest in manifests for warning in manifest.notes)),
    )


def lacking_of(
    methods: Sequence[str], question: RecipeQuestion, metrics: Sequence[str], needs: Sequence[str], error: Exception
) -> Lacking:
    """Why the first of these methods cannot be measured, and the commands needed for all of them."""
    try:
        commands = commands_for(methods, question, metrics)
    except BenchError:  # a recipe that names no known artefact or spec; the reason says so
        commands = []
    return Lacking(
        method=methods[0],
        data=list(question.on),
        failed=not isinstance(error, UnavailableError),
        reason=str(as_bench_error(error)),
        needs=list(needs),
        commands=commands,
    )


def unrunnable(recipe: Recipe) -> Lacking:
    """What a recipe lacks that no run of bench can measure."""
    return Lacking(
        method=recipe.method,
        data=list(recipe.on),
        failed=False,
        reason=f"no run of bench measures it without {'; '.join(recipe.needs)}.",
        needs=list(recipe.needs),
        commands=list(recipe.commands),
    )
