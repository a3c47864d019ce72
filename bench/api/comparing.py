"""Compare and plot results: part of `import bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from bench.api.arguments import check_choice, names, whole_number
from bench.api.results import Result, folder_of, open_stored_result
from bench.base.config import current_session
from bench.base.errors import UsageError
from bench.comparison.compare import ComparisonQuestion, compare_results
from bench.comparison.comparison import Comparison
from bench.comparison.figures import Figure
from bench.comparison.report import Correction
from bench.metrics import parse_metrics


def compare(
    baseline: Result | str | Path,
    *others: Result | str | Path,
    metrics: Sequence[str] = (),
    slices: Sequence[str] = (),
    moved: int = 5,
    correction: Correction = "holm",
    margin: float | None = None,
    across: Literal["catalogues"] | None = None,
    results: str | Path | None = None,
) -> Comparison:
    """Compare results with the first one, on the same queries. The same as `bench compare`.

    Args:
        baseline: a result, or the name of a stored one: its folder, its id, `METHOD@DATASET`, or a run file followed by
            `@DATASET`.
        *others: the results to compare with it, in the same form. Give the same methods on several datasets to compare
            them over all of these as well.
        metrics: metrics to compare; six default ones if empty.
        slices: names of slices of the dataset by which to split the first metric.
        moved: number of queries with the largest change to list, in each direction.
        correction: of the p-values of all pairs of systems, for each metric on each dataset: `holm` (familywise error
            rate) or `benjamini-hochberg` (false discovery rate); `holm-all` for all metrics and datasets together.
        margin: the smallest difference that matters, such as 0.01. Two one-sided tests then also show whether two
            systems are equivalent within it. None tests only for differences: one that is not significant stays
            undecided.
        across: `catalogues` compares results on the same queries whose tools were edited, added or removed;
            `comparison.datasets[0].catalogues` describes the changes.
        results: the results folder in which to look up names; `$BENCH_RESULTS` or `results` if None.

    Returns:
        Differences with 95% intervals and paired randomisation tests, both by the dataset's units of independence, and
        the ranks that are possible after the corrected tests of all pairs.

    Raises:
        ResultError: two results differ in queries, data or protocol, or one is damaged.
        UsageError: fewer than two results, the same result twice, an unknown metric or slice, or a margin that is not
            above 0.

    Examples:
        >>> comparison = bench.compare(bench.run("bm25"), bench.run("random"))
        >>> comparison
        <Comparison random with bm25 on starter>
        >>> comparison.table[["system", "metric", "rank_low"]].values.tolist()[:2]
        [['bm25', 'recall@5', 1], ['random', 'recall@5', 2]]
    """
    check_choice("correction", correction, Correction)
    if across not in {None, "catalogues"}:
        raise UsageError(f"across is {across!r}; it must be catalogues or None.")
    wanted = tuple(str(metric) for metric in parse_metrics(names("metrics", metrics)))
    listed = whole_number("moved", moved, least=0)
    question = ComparisonQuestion(wanted, names("slices", slices), listed, correction, margin=margin)
    stored, progress = folder_of(results), current_session().progress
    contestants = [open_stored_result(item, stored) for item in (baseline, *others)]
    return compare_results(contestants, question, across=across is not None, progress=progress, folder=stored)


def plot(
    comparison: Comparison | Result | str | Path,
    *others: Result | str | Path,
    metric: str = "recall@5",
    results: str | Path | None = None,
) -> Figure:
    """Draw a comparison: means with intervals and ranks.

    The same as `bench compare --picture`. A notebook shows the figure; `save` writes it as SVG, PNG or PDF.

    Args:
        comparison: the return value of `bench.compare`, whose first metric is drawn; or a result or its name.
        *others: the results to compare with that result.
        metric: the metric to draw, if results are given.
        results: the results folder in which to look up names; `$BENCH_RESULTS` or `results` if None.

    Raises:
        ResultError, UsageError: as `bench.compare`.

    Examples:
        >>> figure = bench.plot(bench.run("bm25"), bench.run("random"))
        >>> figure
        <Figure recall@5: random with bm25 on starter>
        >>> figure.svg.startswith("<svg")
        True
    """
    if isinstance(comparison, Comparison):
        if others:
            raise UsageError("pass bench.plot either a comparison or results, not both.")
        return Figure.of(comparison)
    return Figure.of(compare(comparison, *others, metrics=[metric], moved=0, results=results))
