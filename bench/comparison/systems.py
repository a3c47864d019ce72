"""The systems of a comparison, side by side on the same queries, also across catalogues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import ResultError, UsageError
from bench.data.dataset import Dataset
from bench.metrics import parse_metric
from bench.results.across_catalogues import (
    CatalogueChange,
    Snapshot,
    change,
    match_queries,
    take_snapshot,
    values_as_asked,
)
from bench.results.choices import choice_label, is_choice
from bench.results.comparability import differences, metric_difference
from bench.results.manifest import DatasetIdentity
from bench.results.store import StoredResult, span_of
from bench.results.units import number_units
from bench.stats.bounded import Span


@dataclass(frozen=True)
class ContestantCatalogue:
    """The tools that a result searched.

    Attributes:
        dataset: the dataset with the tools.
        snapshot: its queries and the tools they need.
        change: how it differs from the catalogue of the first result.
    """

    dataset: Dataset
    snapshot: Snapshot
    change: CatalogueChange


@dataclass(frozen=True, eq=False)
class MetricValues:
    """A metric of several systems on the same queries.

    Attributes:
        metric: its canonical string.
        sign: 1 if higher is better, else -1.
        rows: (queries,) positions of the queries in the field.
        values: (queries, systems) values of the metric.
        units: (queries,) the unit of independence of each query, as codes from 0 without gaps.
        span: the range of a mean.
    """

    metric: str
    sign: float
    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    units: NDArray[np.int64]
    span: Span

    @property
    def n_units(self) -> int:
        """The number of units."""
        return int(self.units.max()) + 1

    def take(self, queries: NDArray[np.bool_]) -> MetricValues:
        """The values on some of the queries."""
        units = number_units(self.units[queries])
        return replace(self, rows=self.rows[queries], values=self.values[queries], units=units)


@dataclass(frozen=True)
class Field:
    """Results on the same queries.

    Attributes:
        results: (systems,) the results.
        names: (systems,) their names in tables: the method, with the id if two methods are the same.
        query_ids: (queries,) sorted.
        judged: (queries,) whether a query has gold.
        units: (queries,) the unit of independence of each query, as codes.
        catalogues: (systems,) the catalogue of each, if they are compared across catalogues; else empty.
    """

    results: tuple[StoredResult, ...]
    names: tuple[str, ...]
    query_ids: tuple[str, ...]
    judged: NDArray[np.bool_]
    units: NDArray[np.int64]
    catalogues: tuple[ContestantCatalogue, ...] = ()

    @property
    def dataset(self) -> str:
        """The spec of the dataset."""
        return self.results[0].manifest.dataset.spec

    def values(self, metric: str) -> MetricValues:
        """A metric on the queries that it is taken on in every result.

        Raises:
            UsageError: a result lacks the metric, or it is taken on none of the queries.
            ResultError: different code computed it in one of them.
        """
        for result in self.results:
            if metric not in result.metrics.metrics:
                raise UsageError(
                    f"{result.label} has no metric {metric!r}; `bench show {result.manifest.result_id} --all` "
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
        if not len(rows):
            raise UsageError(f"{metric} covers none of the queries of {self.dataset}, so there is nothing to compare.")
        sign = 1.0 if parse_metric(metric).measure.higher_is_better else -1.0
        return MetricValues(
            metric, sign, rows, table[rows], number_units(self.units[rows]), span_of(metric, self.results)
        )

    def shared_metrics(self, wanted: Sequence[str]) -> list[str]:
        """The metrics that every result has, computed by the same code."""
        first = self.results[0].manifest
        return [
            name
            for name in wanted
            if all(
                name in result.metrics.metrics and metric_difference(first, result.manifest, name) is None
                for result in self.results
            )
        ]


def on_same_queries(results: Sequence[StoredResult]) -> Field:
    """Put results side by side.

    Raises:
        ResultError: they are not comparable; the sentence says what differs.
    """
    first = results[0]
    _check(results, across=False)
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


def across_catalogues(results: Sequence[StoredResult], load: Callable[[DatasetIdentity], Dataset]) -> Field:
    """Put results on the same queries but different catalogues side by side.

    A requirement of a query whose tools were all removed since the first result counts as missed. Units of independence
    are those of the first result.

    Args:
        results: the first one is on the reference catalogue.
        load: loads the dataset of an identity, with the same content.

    Raises:
        ResultError: their queries disagree, or they do not compare for another reason; the sentence says what differs.
    """
    first = results[0]
    _check(results, across=True)
    ids = first.per_query["query_id"].to_pylist()
    data = first.manifest.dataset
    catalogues: list[ContestantCatalogue] = []
    brought: list[StoredResult] = []
    for result in results:
        dataset = load(result.manifest.dataset)
        query_ids = result.per_query["query_id"].to_pylist()
        snapshot = take_snapshot(dataset, query_ids)
        then = catalogues[0].snapshot if catalogues else snapshot
        match = match_queries(then, ids, snapshot, query_ids)
        if match.change.size or any(place is not None and query_ids[place] != ids[at] for at, place in match.pairs):
            differing = match.change.words or "the ids of queries differ"
            raise ResultError(
                f"{first.label} and {result.label} cannot be compared across catalogues: {differing} in {result.label}."
            )
        catalogue_change = change(data.spec, data.content_hash, then, snapshot)
        catalogues.append(ContestantCatalogue(dataset, snapshot, catalogue_change))
        brought.append(_as_asked(result, then, ids) if catalogue_change.gold_removed or query_ids != ids else result)
    counts = np.array(first.per_query["n_gold"].to_pylist(), dtype=np.int64)
    return Field(tuple(brought), _names(results), tuple(ids), counts > 0, first.units, tuple(catalogues))


def _as_asked(result: StoredResult, then: Snapshot, ids: Sequence[str]) -> StoredResult:
    """A result with its values for the queries as asked before tools were removed."""
    if not result.has_run or result.manifest.repeats > 1:
        raise ResultError(
            f"tools that queries need were removed from the catalogue of {result.label}, and it cannot be scored as "
            "missing them: that takes the ranking of a run without repeats."
        )
    table = values_as_asked(result.run, result.per_query, then, ids, list(result.metrics.metrics))
    one = StoredResult(result.folder, result.manifest, result.metrics.model_copy(update={"lenient": None}))
    # Cached properties read this first.
    vars(one).update(per_query=table, run=result.run)
    return one


def _check(results: Sequence[StoredResult], *, across: bool) -> None:
    """Raise unless the results are distinct and answer the same question."""
    first = results[0]
    seen: set[str] = set()
    for result in results:
        if result.manifest.result_id in seen:
            raise UsageError(f"{result.label} ({result.manifest.result_id}) is named twice.")
        seen.add(result.manifest.result_id)
        for difference in differences(first.manifest, result.manifest, across=across):
            other = first.manifest.dataset.content_hash != result.manifest.dataset.content_hash
            hint = " If only tools were edited: `--across catalogues`." if other and not across else ""
            raise ResultError(
                f"{first.label} and {result.label} cannot be compared: "
                f"{difference.sentence(first.label, result.label)}.{hint}"
            )


def by_dataset(results: Sequence[StoredResult]) -> list[Field]:
    """Put results side by side, dataset by dataset, in their order.

    Raises:
        ResultError: two on the same dataset are not comparable; the sentence says what differs.
    """
    groups: dict[str, list[StoredResult]] = {}
    for result in results:
        groups.setdefault(result.manifest.dataset.spec, []).append(result)
    return [on_same_queries(members) for members in groups.values()]


def _names(results: Sequence[StoredResult]) -> tuple[str, ...]:
    """The shortest names that distinguish the systems."""
    methods = [result.manifest.method for result in results]
    choices = [is_choice(result) and not result.manifest.method.alias for result in results]
    plain = [choice_label(method) if choice else method.label for method, choice in zip(methods, choices, strict=True)]
    labels = [result.label for result in results]
    if len(set(plain)) < len(plain) and len(set(labels)) == len(labels):
        # The same method on several catalogues.
        plain = labels
    return tuple(
        f"{name} [{result.manifest.result_id[:6]}]" if plain.count(name) > 1 else name
        for name, result in zip(plain, results, strict=True)
    )
