"""The systems of a comparison: stored results, folders, run files and `method@dataset` names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.data.sources import Sources
from bench.errors import ResultError, UsageError
from bench.evaluation.external import score_command, score_run_file
from bench.progress import QUIET, Progress
from bench.registry import load_dataset
from bench.results.comparing import differences, metric_difference
from bench.results.store import Result, find_result
from bench.results.units import numbered


@dataclass(frozen=True)
class Field:
    """Results on the same queries, and their values.

    Attributes:
        results: (systems,) the results.
        names: (systems,) what each is called in a table: its method, and its id where two methods are the same.
        query_ids: (queries,) sorted.
        judged: (queries,) whether a query has gold.
        units: (queries,) the unit of independence of each query, by code.
    """

    results: tuple[Result, ...]
    names: tuple[str, ...]
    query_ids: tuple[str, ...]
    judged: NDArray[np.bool_]
    units: NDArray[np.int64]

    @property
    def dataset(self) -> str:
        """The spec of the dataset."""
        return self.results[0].manifest.dataset.spec

    def values(self, metric: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(rows,) the queries that a metric is taken on in every result, and their (rows, systems) values.

        Raises:
            UsageError: a result does not have the metric.
            ResultError: other code computed it in one of them.
        """
        for result in self.results:
            if metric not in result.metrics.metrics:
                raise UsageError(
                    f"{result.label} has no metric {metric!r}; `bench show {result.manifest.result_id} --format all` "
                    "lists what it has, and `bench run --metric` adds one."
                )
            difference = metric_difference(self.results[0].manifest, result.manifest, metric)
            if difference is not None:
                raise ResultError(
                    f"{metric} of {self.results[0].label} and {result.label} cannot be compared: "
                    f"{difference.sentence(self.results[0].label, result.label)}."
                )
        table = np.column_stack([result.values(metric) for result in self.results])
        rows = np.flatnonzero(~np.isnan(table).any(axis=1))
        return rows, table[rows]

    def units_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """(rows,) the units of some of the queries, by codes from 0 without gaps."""
        return numbered(self.units[rows])

    def shared_metrics(self, wanted: Sequence[str]) -> list[str]:
        """Those of the metrics that every result has, computed by the same code."""
        first = self.results[0].manifest
        return [
            name
            for name in wanted
            if all(
                name in result.metrics.metrics and metric_difference(first, result.manifest, name) is None
                for result in self.results
            )
        ]


def open_result(name: str, results: Path, dataset: str | None = None, progress: Progress = QUIET) -> Result:
    """A result by its folder, id or `method@dataset`; or a run file, which is scored and stored like any other.

    Args:
        name: the name. A run file may be followed by `@dataset`.
        results: the folder of results.
        dataset: what a run file without `@dataset` ran on; what is added to a method's name without one.
        progress: where downloads report to.

    Raises:
        UsageError: nothing has that name, or several have; or nobody says what a run file ran on.
        ResultError: it cannot be read, or does not fit the dataset.
    """
    head, _, tail = name.rpartition("@")
    for path, on in ((Path(name), dataset), (Path(head), tail.strip())):
        if _is_file(path):
            return _scored(path, on, results, progress)
    try:
        return find_result(results, name)
    except UsageError:
        if dataset is None or "@" in name:
            raise
    return find_result(results, f"{name}@{dataset}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a long spec is no name of a file
        return False


def _scored(path: Path, dataset: str | None, results: Path, progress: Progress) -> Result:
    if dataset is None:
        raise UsageError(f"{path} is a run file: name its dataset, as in {path.name}@apibank.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ResultError(f"cannot read the run file {path}: {error.strerror}.") from None
    loaded = load_dataset(dataset, Sources.from_environment(progress=progress))
    command = score_command(path.name, loaded.spec, path.stem, None, None)
    return score_run_file(data, path.name, loaded, results, name=path.stem, command=command)


def on_same_queries(results: Sequence[Result]) -> Field:
    """Results side by side.

    Raises:
        ResultError: they are not comparable; says what differs.
    """
    first = results[0]
    seen: set[str] = set()
    for result in results:
        if result.manifest.result_id in seen:
            raise UsageError(f"{result.label} ({result.manifest.result_id}) is named twice.")
        seen.add(result.manifest.result_id)
        for difference in differences(first.manifest, result.manifest):
            raise ResultError(
                f"{first.label} and {result.label} cannot be compared: "
                f"{difference.sentence(first.label, result.label)}."
            )
    ids = first.per_query["query_id"].to_pylist()
    counts = first.per_query["n_gold"].to_pylist()
    units = first.units
    for result in results[1:]:
        if result.per_query["query_id"].to_pylist() != ids or result.per_query["n_gold"].to_pylist() != counts:
            raise ResultError(f"{first.label} and {result.label} cannot be compared: they are not on the same queries.")
        if not np.array_equal(result.units, units):
            raise ResultError(
                f"{first.label} and {result.label} cannot be compared: their queries are in other units of "
                "independence; `bench rescore` computes them again."
            )
    return Field(tuple(results), _names(results), tuple(ids), np.array(counts, dtype=np.int64) > 0, units)


def by_dataset(results: Sequence[Result]) -> list[Field]:
    """Results side by side, dataset by dataset, in the order in which they come.

    Raises:
        ResultError: two on the same dataset are not comparable; says what differs.
    """
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.manifest.dataset.spec, []).append(result)
    return [on_same_queries(members) for members in groups.values()]


def _names(results: Sequence[Result]) -> tuple[str, ...]:
    """What tells the systems apart, as short as it can be."""
    plain = [_method(result) for result in results]
    return tuple(
        f"{name} [{result.manifest.result_id[:6]}]" if plain.count(name) > 1 else name
        for name, result in zip(plain, results, strict=True)
    )


def _method(result: Result) -> str:
    method = result.manifest.method
    return method.spec + (f" + {method.cut}" if method.cut else "")
