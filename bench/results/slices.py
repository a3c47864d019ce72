"""Means and intervals of a stored result by slice, for `bench show --by`, comparisons and the site."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.novelty import NOVELTY, novelty
from bench.data.parents import parent_of
from bench.metrics import Scores, parse_metric, parse_metrics
from bench.results.comparability import check_content
from bench.results.intervals import means_and_intervals
from bench.results.manifest import MetricValue
from bench.results.store import StoredResult

#: Slices that every dataset has, without annotation.
GENERAL = ("category", "gold", "length", "parent", "tool")
#: Upper bounds, in words, of the classes of the slice `length`.
_LENGTHS = (10, 20, 40)
#: The value for queries without a value in the slice.
NO_VALUE = "-"


@dataclass(frozen=True)
class Slice:
    """The queries of a result that have one value of a slice.

    Attributes:
        value: the slice's value; `-` for the queries that have none.
        n: number of judged queries.
        n_no_gold: number of queries without gold.
        n_failed: number of judged queries that failed or got no answer; they score 0.
        metrics: name -> mean and 95% interval over the queries that the metric is taken on; metrics taken on no query
            are left out. There are no tie bands by slice.
    """

    value: str
    n: int
    n_no_gold: int
    n_failed: int
    metrics: Mapping[str, MetricValue]


def slice_names(dataset: Dataset) -> list[str]:
    """The slices of a dataset for `by_slice`: its own and the general ones, sorted."""
    return sorted({*dataset.slice_names, *GENERAL, *(["prerequisite"] if dataset.edges else [])})


def slice_values(dataset: Dataset, name: str) -> dict[str, str]:
    """query_id -> value of a slice; queries without a value are left out.

    A slice of the dataset is used unchanged. Among the general ones, `gold` is the number of gold tools, `parent` and
    `tool` say how new a query's gold is (see `bench.data.novelty`), `category` is that of the gold tools (`several` if
    they have more than one), `length` counts the query's words, and `prerequisite` says whether a gold tool depends on
    another one by the dataset's annotated edges.

    Raises:
        UsageError: the dataset has no such slice.
    """
    if name in dataset.slice_names:
        return {query.query_id: query.slices[name] for query in dataset.queries if name in query.slices}
    if name == "gold":
        return {query.query_id: str(len(query.gold)) for query in dataset.queries}
    if name == "category":
        return {query.query_id: _category(dataset, query.gold) for query in dataset.queries if query.gold}
    if name == "length":
        return {query.query_id: _length(len(query.text.split())) for query in dataset.queries}
    if name == "prerequisite" and dataset.edges:
        dependent = {edge.dependent for edge in dataset.edges}
        return {
            query.query_id: "no" if dependent.isdisjoint(query.gold) else "yes"
            for query in dataset.queries
            if query.gold
        }
    if name == "parent":
        return novelty(dataset.queries, {tool.tool_id: parent_of(tool) for tool in dataset.tools})
    if name == "tool":
        return novelty(dataset.queries, {tool.tool_id: tool.tool_id for tool in dataset.tools})
    raise UsageError(f"{dataset.spec} has no slice {name!r}; it has {', '.join(slice_names(dataset))}.")


def by_slice(result: StoredResult, dataset: Dataset, name: str, metrics: Sequence[str]) -> list[Slice]:
    """Means and intervals of a result for each value of a slice.

    The values partition the queries: those without a value come last, as `-`. An interval resamples the units of its
    slice with the seed of the result's own intervals, so that a slice with all queries has the numbers of the result.

    Args:
        result: a stored result.
        dataset: the data it was made on.
        name: a name from `slice_names`.
        metrics: metrics of the result.

    Raises:
        ResultError: the result was made on other data.
        UsageError: there is no such slice or metric.
    """
    check_content(result.manifest, dataset)
    members = values_of(dataset, name, result.per_query["query_id"].to_pylist())
    gold = result.per_query["n_gold"].to_numpy()
    judged = gold > 0
    failed = result.per_query["failed"].to_numpy(zero_copy_only=False) & judged
    if whole := [metric for metric in metrics if not parse_metric(metric).measure.averages]:
        raise UsageError(f"{whole[0]} compares queries of all slices with one another, so it has no value by slice.")
    values = np.column_stack([result.values(metric) for metric in metrics])
    slices = []
    for value, rows in members.items():
        scores = Scores(tuple(parse_metrics(metrics)), values[rows])
        n, n_no_gold, n_failed = (int(kind[rows].sum()) for kind in (judged, ~judged, failed))
        slices.append(Slice(value, n, n_no_gold, n_failed, means_and_intervals(scores, result.units[rows], gold[rows])))
    return slices


def values_of(dataset: Dataset, name: str, query_ids: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """Value of a slice -> (queries,) mask of its queries, in display order; queries without a value last, as `-`.

    Raises:
        UsageError: the dataset has no such slice.
    """
    known = slice_values(dataset, name)
    values = np.array([known.get(query, NO_VALUE) for query in query_ids], dtype=object)
    return {value: values == value for value in sorted(set(values), key=_order)}


def _category(dataset: Dataset, gold: Iterable[str]) -> str:
    categories = {dataset.tools[dataset.tool_codes[tool]].category for tool in gold}
    return categories.pop() if len(categories) == 1 else "several"


def _length(words: int) -> str:
    for low, high in itertools.pairwise((0, *_LENGTHS)):
        if words <= high:
            return f"{low + 1}-{high} words"
    return f"{_LENGTHS[-1] + 1} words or more"


def _order(value: str) -> tuple[bool, int, str]:
    """Numbers in numeric order, novelty from best known to newest, others by name; queries without a value last."""
    rank = NOVELTY.index(value) if value in NOVELTY else 0
    if value.isascii() and value.isdigit() and len(value) < 10:
        rank = int(value)
    return value == NO_VALUE, rank, value
