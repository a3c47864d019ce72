"""Stored results with metrics and per-query values as DataFrames: part of `import bench`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from bench.base.errors import BenchError, UsageError
from bench.base.paths import expand_path, results_folder
from bench.base.plugins import function
from bench.evaluation.opening import open_result
from bench.lookup.folder import ResultsFolder
from bench.results.failures import result_to_dict
from bench.results.manifest import Metrics
from bench.results.repeats import chance_sentence, repeats_line
from bench.results.store import StoredResult
from bench.results.units import judged_sample
from bench.show.numbers import format_fixed, interval, several
from bench.show.objects import SHOWN, Displayable, frame, pandas_module
from bench.show.tables import Table, table_of

if TYPE_CHECKING:
    import pandas

_COLUMNS = ("mean", "low", "high", "n", "tie_low", "tie_expected", "tie_high", "tie_draws")
_PARTS = ("within", "between", "error", "share")


class Result(Displayable):
    """A stored result of one method on one dataset.

    `bench.run`, `bench.score` and `bench.load_result` return one. Its values are read from its files, which are checked
    against their sha256.

    Examples:
        >>> result = bench.run("bm25", "starter")
        >>> list(result.metrics.columns)
        ['mean', 'low', 'high', 'n', 'tie_low', 'tie_expected', 'tie_high', 'tie_draws']
        >>> list(result.per_query.columns)[:4]
        ['query_id', 'unit', 'n_gold', 'failed']
    """

    def __init__(self, stored: StoredResult) -> None:
        #: The underlying record: `manifest`, `metrics` and Arrow tables.
        self.stored = stored

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits, which `bench show ID` accepts."""
        return self.stored.manifest.result_id

    @property
    def method(self) -> str:
        """Spec of the method, or the name of the system whose run was scored."""
        return self.stored.manifest.method.spec

    @property
    def dataset(self) -> str:
        """Spec of the dataset."""
        return self.stored.manifest.dataset.spec

    @property
    def folder(self) -> Path:
        """The folder of the result."""
        return self.stored.folder

    @property
    def n(self) -> int:
        """Number of judged queries: queries with gold tools."""
        return self.stored.metrics.n

    @property
    def n_failed(self) -> int:
        """Judged queries that failed or were not answered; they score 0."""
        return self.stored.metrics.n_failed

    @property
    def repeats(self) -> int:
        """How often the method answered each query; values are means over the repeats."""
        return self.stored.manifest.repeats

    @property
    def warnings(self) -> list[str]:
        """Sentences to know before comparing the result."""
        return self.stored.manifest.notes

    def mean(self, metric: str) -> float:
        """Mean of one metric over the queries on which it is defined.

        Raises:
            UsageError: the result does not have the metric.
        """
        values = self.stored.metrics.metrics
        if metric not in values:
            raise UsageError(
                f"{self.stored.label} has no metric {metric!r}; it has {', '.join(values)}. "
                "bench.run(..., metrics=[...]) adds one."
            )
        return values[metric].mean

    @cached_property
    def metrics(self) -> pandas.DataFrame:
        """One row per metric, indexed by its name.

        Columns: `mean`; `low` and `high`, the 95% bootstrap interval over groups of dependent queries; `n`, the number
        of queries on which it is defined; `tie_low`, `tie_expected` and `tie_high`, the mean with ties broken against
        the method, at random and for it; `tie_draws`, the number of random orders averaged in `tie_expected`, 0 if it
        is exact. Missing values are NaN.

        Raises:
            UnavailableError: pandas is not installed.
        """
        metrics = self.stored.metrics
        rows = [{"metric": name, **_fields(metrics, name)} for name in metrics.metrics]
        return frame(rows, ("metric", *_COLUMNS)).set_index("metric")

    @cached_property
    def variation(self) -> pandas.DataFrame:
        """How each metric varies over the repeats of a run, indexed by its name; empty for a run without repeats.

        Columns: `within`, the variance of a query over repeats; `between`, the variance between queries; `error`, the
        standard error of the mean; `share`, the part of the squared error that is due to chance; and the means of the
        repeats, `repeat 1`, `repeat 2`, ... Missing values are NaN.

        Raises:
            UnavailableError: pandas is not installed.
        """
        repeats = self.stored.metrics.repeats
        varied = {} if repeats is None else repeats.metrics
        rows = [
            {"metric": name, **variance.model_dump(include=set(_PARTS))}
            | {f"repeat {number}": mean for number, mean in enumerate(variance.means, start=1)}
            for name, variance in varied.items()
        ]
        means = [f"repeat {number}" for number in range(1, self.repeats + 1)] if varied else []
        return frame(rows, ("metric", *_PARTS, *means)).set_index("metric")

    @cached_property
    def per_query(self) -> pandas.DataFrame:
        """One row per evaluated query, in the order of their ids.

        Columns: `query_id`, `n_gold`, `failed`, `tied_beyond` and `tied_beyond_gold` (tools that tie with the last
        ranked one but exceed the depth), `recommended` (the tool set, or None), and one column per metric, NaN if the
        metric is not defined for the query. For a run with repeats, metrics are means over the repeats, `failed` is
        true if the query failed in any repeat, and the other columns come from the first repeat.

        Raises:
            UnavailableError: pandas is not installed.
            ResultError: the file is missing or damaged.
        """
        pandas_module()
        table: pandas.DataFrame = self.stored.per_query.to_pandas()
        return table

    @cached_property
    def ranking(self) -> pandas.DataFrame:
        """The ranked tools: `query_id`, `rank` (from 1), `tool_id`, `score` (NaN if the method gives none).

        For a run with repeats, the column `repeat` counts them from 1.

        Raises:
            UnavailableError: pandas is not installed.
            ResultError: the file is missing or damaged.
        """
        pandas_module()
        table: pandas.DataFrame = self.stored.run.to_pandas()
        return table

    def tools(self, k: int = 5, *, repeat: int = 1) -> Any:
        """Report per tool: how often it is found when wanted, shown when not wanted, and ranked behind which others.

        The same as `bench tools`: a `bench.ToolsReport`. The method is built again to explain why the worst tools rank
        behind others.

        Args:
            k: number of tools at the top of each ranking that count as shown.
            repeat: the repeat to use, if the result has several.

        Raises:
            ResultError: the dataset has changed since, or the ranking is missing or damaged.
            UsageError: there is no such repeat, or rankings are shorter than k.
            UnavailableError: `bench.diagnosis` is not installed.

        Examples:
            >>> report = bench.run("bm25", "starter").tools(k=5)
            >>> worst = report.table.iloc[0]
            >>> print(worst.tool_id, worst.found, "of", worst.wanted)
            rolobox.find_contact 0 of 14
            >>> pair = report.pairs.iloc[0]
            >>> print(pair.missed, "behind", pair.shown, "in", pair.queries)
            rolobox.find_contact behind larderly.find_recipes in 5
        """
        return function("report-tools", "there is no report of tools")(self.stored, k, repeat)

    def to_dict(self) -> dict[str, Any]:
        """Manifest and metrics, as `bench run --json` prints them."""
        return result_to_dict(self.stored)

    def _line(self) -> str:
        data, values = self.stored.manifest.dataset, self.stored.metrics.metrics
        means = [f", {name} {format_fixed(values[name].mean)}" for name in SHOWN[:1] if name in values]
        return f"{self.stored.label} ({data.split}): {judged_sample(data)}{''.join(means)}"

    def _tables(self) -> list[Table]:
        data = self.stored.manifest.dataset
        values = self.stored.metrics.metrics
        rows = [
            [name, format_fixed(values[name].mean), interval(values[name].low, values[name].high)]
            for name in SHOWN
            if name in values
        ]
        title = f"{self.stored.label} ({data.split}): {judged_sample(data)}, {self.n_failed} failed"
        varied = [repeats_line(self.stored.metrics), chance_sentence(self.stored.metrics, rows[0][0] if rows else "")]
        notes = [*filter(None, varied), *(f"note: {warning}" for warning in self.warnings)]
        return [table_of(("metric", "mean", "95% interval"), rows, title, [*notes, f"stored in {self.folder}"])]


class Results(Displayable, Sequence[Result]):
    """The return value of `bench.run` for a list of methods or datasets: a sequence of `Result`.

    Examples:
        >>> results = bench.run(["bm25", "random"], "starter")
        >>> len(results), results.errors
        (2, {})
        >>> results.means["recall@5"].round(3).to_dict()
        {('starter', 'bm25'): 0.193, ('starter', 'random'): 0.042}
    """

    def __init__(self, results: Sequence[Result], errors: Mapping[tuple[str, str], BenchError] | None = None) -> None:
        self._results = tuple(results)
        #: (dataset, method) -> the error, for runs that failed.
        self.errors = dict(errors or {})

    @overload
    def __getitem__(self, place: int) -> Result: ...
    @overload
    def __getitem__(self, place: slice) -> Results: ...
    def __getitem__(self, place: int | slice) -> Result | Results:
        return Results(self._results[place], self.errors) if isinstance(place, slice) else self._results[place]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    @cached_property
    def metrics(self) -> pandas.DataFrame:
        """One row per dataset, method and metric: `dataset`, `method`, `metric`, and the columns of `Result.metrics`.

        Raises:
            UnavailableError: pandas is not installed.
        """
        rows = [
            {"dataset": result.dataset, "method": result.method, "metric": name, **_fields(result.stored.metrics, name)}
            for result in self
            for name in result.stored.metrics.metrics
        ]
        return frame(rows, ("dataset", "method", "metric", *_COLUMNS))

    @cached_property
    def means(self) -> pandas.DataFrame:
        """One row per result, indexed by dataset and method, and one column per metric with its mean; NaN if missing.

        Raises:
            UnavailableError: pandas is not installed.
        """
        rows: list[dict[str, object]] = [
            {"dataset": result.dataset, "method": result.method}
            | {name: value.mean for name, value in result.stored.metrics.metrics.items()}
            for result in self
        ]
        columns = dict.fromkeys(["dataset", "method", *(name for row in rows for name in row)])
        table = frame(rows, tuple(columns)).set_index(["dataset", "method"])
        table.columns.name = "metric"
        return table

    def _line(self) -> str:
        failed = f", {len(self.errors)} failed" if self.errors else ""
        return f"of {len(self)} runs{failed}: {', '.join(result.stored.label for result in self)}"

    def _tables(self) -> list[Table]:
        names = [name for name in SHOWN if any(name in result.stored.metrics.metrics for result in self)]
        table = Table(
            ["result", *names, "failed"], right=range(1, len(names) + 2), title=f"{several(len(self), 'result')}"
        )
        for result in self:
            values = result.stored.metrics.metrics
            means = [format_fixed(values[name].mean if name in values else None) for name in names]
            table.add(result.stored.label, *means, str(result.n_failed))
        table.notes = [f"failed: {method} @ {dataset}: {error}" for (dataset, method), error in self.errors.items()]
        return [table]


def load_result(name: str | Path, *, results: str | Path | None = None) -> Result:
    """Load a stored result.

    Args:
        name: its folder, its id or a prefix of it, or `METHOD@DATASET`, the result that `bench run` would store today
            (`METHOD@DATASET#ID` names one of older code).
        results: the results folder; `$BENCH_RESULTS` or `results` in the working folder if None.

    Raises:
        UsageError: no result has this name, or several have it.
        ResultError: the result is damaged.

    Examples:
        >>> made = bench.run("bm25", "starter")
        >>> bench.load_result("bm25@starter").id == made.id
        True
    """
    return Result(open_stored_result(name, results))


def open_stored_result(
    result: Result | str | Path, results: str | Path | ResultsFolder | None = None, dataset: str | None = None
) -> StoredResult:
    """The stored result that an argument names; `dataset` is the dataset of a run file without `@DATASET`."""
    if isinstance(result, Result):
        return result.stored
    if isinstance(result, str | Path):
        return open_result(str(result), results if isinstance(results, ResultsFolder) else _folder(results), dataset)
    raise UsageError(f"a result is a bench.Result, or the name or folder of a stored one, not {type(result).__name__}.")


def folder_of(results: str | Path | None) -> ResultsFolder:
    """The results folder of an argument, for several `open_stored_result`."""
    return ResultsFolder(_folder(results))


def _folder(results: str | Path | None) -> Path:
    return results_folder() if results is None else expand_path(results)


def _fields(metrics: Metrics, name: str) -> dict[str, object]:
    value = metrics.metrics[name]
    draws = None if value.tie_expected is None else metrics.tie_draws(name)
    return {**value.model_dump(), "tie_draws": draws}
