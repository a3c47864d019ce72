"""Comparing results: is one better than another, by how much, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bench.api.arguments import check_choices, names, whole_number
from bench.api.results import Result, opened
from bench.base.config import config_context
from bench.base.errors import BenchError, UsageError
from bench.base.tables import frame
from bench.base.text import one_line
from bench.comparison import render
from bench.comparison.compare import Question, compared
from bench.comparison.report import Comparison as Report
from bench.comparison.report import Correction
from bench.comparison.systems import across_catalogues, by_dataset
from bench.comparison.tables import metric_table
from bench.data.dataset import Dataset
from bench.metrics import parse_metrics
from bench.registry import load_dataset
from bench.registry.versions import load_version
from bench.results.manifest import DatasetIdentity
from bench.results.units import sample
from bench.show.tables import Table, html, text

if TYPE_CHECKING:
    import pandas


class Comparison:
    """What `bench.compare` found.

    Examples:
        >>> comparison = bench.compare(bench.run("bm25"), bench.run("random"), metrics=["recall@5"])
        >>> comparison.table[["system", "metric", "tier"]].values.tolist()
        [['bm25', 'recall@5', 1], ['random', 'recall@5', 2]]
    """

    def __init__(self, report: Report) -> None:
        #: Everything that was found, as a pydantic model; `report.model_dump_json()` is the JSON of `bench compare`.
        self.report = report

    @cached_property
    def table(self) -> pandas.DataFrame:
        """One row a dataset, metric and system.

        Columns: `dataset`, `split`, `metric`, `n`, `units`, `system`, `result_id`; `mean`, `low`, `high` with the 95%
        interval; `tier` and the 95% interval of the rank, `rank_low` and `rank_high`; `baseline`, and the `difference`
        to it with its interval, `p` (paired randomisation test), `corrected` (for the family), `p_t`, `p_wilcoxon`,
        `dz`, `wins`, `ties`, `losses`, `detectable` and `needed`, all NaN for the baseline itself; `lenient`, the mean
        if tools that read like a gold tool count as found, NaN if the result has none.

        Raises:
            UnavailableError: pandas is not installed.
        """
        return frame(
            [dict(zip(render.COLUMNS, row, strict=True)) for row in render.flat_rows(self.report)], render.COLUMNS
        )

    def to_markdown(self) -> str:
        """The whole comparison as Markdown."""
        return render.markdown(self.report)

    def to_latex(self) -> str:
        """A LaTeX table for a paper; needs the package booktabs."""
        return render.latex(self.report)

    def __repr__(self) -> str:
        return "\n\n".join([*map(text, self._tables()), one_line(render.legend(self.report))])

    def _repr_html_(self) -> str:
        return "".join(map(html, [*self._tables(), Table((), notes=[render.legend(self.report)])]))

    def _tables(self) -> list[Table]:
        tables = []
        for dataset in self.report.datasets:
            for metric in dataset.metrics:
                size = sample(metric.n, metric.units)
                tables.append(metric_table(metric, self.report.baseline))
                tables[-1].title = f"{metric.metric} on {dataset.dataset} ({dataset.split}), {size}"
        return tables


def compare(
    baseline: Result | str | Path,
    *others: Result | str | Path,
    metrics: Sequence[str] = (),
    slices: Sequence[str] = (),
    moved: int = 5,
    correction: Correction = "holm",
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
        correction: of the p-values of everything that is compared with the baseline: `holm` (familywise error rate) or
            `benjamini-hochberg` (false discovery rate).
        across: `catalogues` compares results on the same queries whose tools were edited, added or removed;
            `report.datasets[0].catalogues` says how.
        results: the folder in which names are looked up; `$BENCH_RESULTS` or `results` if None.

    Returns:
        Differences with 95% intervals and paired randomisation tests, both by the dataset's units of independence, and
        tiers from the tests of all pairs, corrected by Holm for each metric.

    Raises:
        ResultError: two results are not on the same queries, data or protocol, or one is damaged.
        UsageError: fewer than two results, the same result twice, or an unknown metric or slice.

    Examples:
        >>> comparison = bench.compare(bench.run("bm25"), bench.run("random"))
        >>> comparison.report.baseline
        'bm25'
    """

    check_choices(correction=correction)
    if across not in {None, "catalogues"}:
        raise UsageError(f"across is {across!r}; it must be catalogues or None.")
    wanted = tuple(str(metric) for metric in parse_metrics(names("metrics", metrics)))
    question = Question(wanted, names("slices", slices), whole_number("moved", moved, least=0), correction)

    def load(spec: str) -> Dataset | None:
        try:
            # Slices need the dataset; the texts of queries alone are not worth a download.
            with config_context(offline=None if slices else True):
                return load_dataset(spec)
        except BenchError:
            if slices:
                raise
            return None

    def version(data: DatasetIdentity) -> Dataset:
        return load_version(data.spec, data.content_hash)

    found = [opened(item, results) for item in (baseline, *others)]
    fields = [across_catalogues(found, version)] if across else by_dataset(found)
    return Comparison(compared(fields, question, load))
