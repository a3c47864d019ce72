"""Comparing results: is one better than another, by how much, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from bench.api.arguments import check_choice, names, whole_number
from bench.api.results import Result, open_stored_result
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
        *others: what is compared with it, given in the same way. Give the same methods on several datasets to compare
            them over all of them as well.
        metrics: metrics that are compared; six usual ones if none is named.
        slices: names of slices of the dataset by which the first metric is split.
        moved: how many of the queries that moved most are listed, each way.
        correction: of the p-values of all pairs of systems, for each metric on each dataset: `holm` (familywise error
            rate) or `benjamini-hochberg` (false discovery rate); `holm-all` for all metrics and datasets together.
        margin: the smallest difference that matters, such as 0.01. Each difference then also says whether the two are
            shown to be the same within it, by two one-sided tests. None tests differences alone: one that is not
            significant is not decided.
        across: `catalogues` compares results on the same queries whose tools were edited, added or removed;
            `comparison.datasets[0].catalogues` says how.
        results: the folder in which names are looked up; `$BENCH_RESULTS` or `results` if None.

    Returns:
        Differences with 95% intervals and paired randomisation tests, both by the dataset's units of independence, and
        the ranks that the corrected tests of all pairs leave open.

    Raises:
        ResultError: two results are not on the same queries, data or protocol, or one is damaged.
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
    contestants = [open_stored_result(item, results) for item in (baseline, *others)]
    return compare_results(contestants, question, across=across is not None, progress=current_session().progress)


def plot(
    comparison: Comparison | Result | str | Path,
    *others: Result | str | Path,
    metric: str = "recall@5",
    results: str | Path | None = None,
) -> Figure:
    """Draw a comparison: means with intervals and ranks.

    The same as `bench compare --picture`. A notebook shows the figure; `save` writes it as SVG, PNG or PDF.

    Args:
        comparison: what `bench.compare` gave, of which the first metric is drawn; or a result or its name.
        *others: what such a result is compared with.
        metric: the metric that is drawn, if results are given.
        results: the folder in which names are looked up; `$BENCH_RESULTS` or `results` if None.

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
            raise UsageError("give bench.plot a comparison, or results; not both.")
        return Figure.of(comparison)
    return Figure.of(compare(comparison, *others, metrics=[metric], moved=0, results=results))
