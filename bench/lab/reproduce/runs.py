"""Run methods for a reproduction, and read their per-query values. `reproduction` calls it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import BenchError, MethodError, UnavailableError, UsageError
from bench.base.progress import QUIET, Progress
from bench.base.spec import Spec, parse
from bench.data.dataset import Dataset
from bench.evaluation.executors import Executor, side_by_side
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import Method
from bench.interface.parts import needs_llm
from bench.lab.reproduce.artefacts import folder_of, is_there, names_in, resolve_references
from bench.lab.reproduce.recipes import FACT, RecipeQuestion
from bench.metrics import Metric, parse_metric
from bench.results.store import StoredResult
from bench.results.units import number_units

K = TypeVar("K")
V = TypeVar("V")

#: Methods report the connected share rounded to four digits, so it may be off by half of the last.
_SHARE_ROUNDING = 0.00005


def fact(result: StoredResult, name: str) -> float:
    """`tools` (of the library), `connected_tools` (of a dependency graph), or `fact:NAME`, a fact of the method.

    Raises:
        UsageError: the method did not report it.
    """
    manifest = result.manifest
    if name == "tools":
        return manifest.dataset.tools
    if name == "connected_tools":
        return round(fact(result, "fact:connected_share") * manifest.dataset.tools)
    value = manifest.facts.get(name.removeprefix(FACT))
    if not isinstance(value, int | float):
        raise UsageError(f"the method {manifest.method.spec} does not state its {name.removeprefix(FACT)}.")
    return float(value)


def count_range(result: StoredResult, name: str) -> tuple[float, float]:
    """The smallest and the largest possible count.

    They differ only for `connected_tools`, which is derived from a rounded share: any whole number of tools whose share
    rounds to the reported one is possible. In a library of more than 10,000 tools there may be two.

    Raises:
        UsageError: the method did not report it.
    """
    count = fact(result, name)
    if name != "connected_tools":
        return count, count
    share, tools = fact(result, "fact:connected_share"), result.manifest.dataset.tools
    # Binary fractions: a share at the very edge of the range is inside.
    least = math.ceil((share - _SHARE_ROUNDING) * tools - 1e-6)
    most = math.floor((share + _SHARE_ROUNDING) * tools + 1e-6)
    return min(count, least), max(count, most)


@dataclass(frozen=True)
class MethodValues:
    """Per-query values of one method.

    Attributes:
        results: the stored results, one per dataset.
        values: (queries, metrics), without the queries that a metric does not apply to.
        groups: (queries,) the dataset of each query, as a code from 0, or the slice value that the mean is taken
            over; zeros if all are pooled.
        units: (queries,) the unit of independence of each query, as a code from 0; each is within a dataset.
        kept: for each result, (queries,) which of its queries these are.
        failed: number of these queries that failed or were not answered; they score 0.
    """

    results: tuple[StoredResult, ...]
    values: NDArray[np.float64]
    groups: NDArray[np.int64]
    units: NDArray[np.int64]
    kept: tuple[NDArray[np.bool_], ...]
    failed: int


@dataclass(frozen=True)
class StoredRun:
    """Whether a stored result replaces a run, and whether the run calls a language model."""

    kept: bool
    calls: bool


@dataclass
class MethodRuns:
    """Runs the methods of recipes, once each, and caches errors as well as results.

    Attributes:
        results: the folder of results; existing results are not run again.
        load, build: as for the runner.
        models: role -> the language model named by the user in place of the paper's.
        checked: findings about the plans from `possible`.
    """

    results: Path
    load: Callable[[Spec], Dataset]
    build: Callable[[Spec], Method]
    metrics: Sequence[str] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    progress: Progress = QUIET
    checked: dict[Plan, StoredRun] = field(default_factory=dict)
    _done: dict[Plan, StoredResult | BenchError] = field(default_factory=dict)
    _datasets: dict[Spec, Dataset | BenchError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        metrics: list[Metric] = []
        for name in self.metrics:
            with suppress(UsageError):  # an unknown metric is reported when it is requested
                metrics.append(parse_metric(name))
        self._runner = Runner(
            self.results,
            load=self.dataset,
            build=self.build,
            progress=_WithoutNotes(self.progress),
            metrics=metrics,
        )

    def ask(self, method: str, question: RecipeQuestion, metrics: Sequence[str]) -> MethodValues:
        """Values of some metrics, one column each.

        Raises:
            BenchError: something is missing, or the run failed.
        """
        results, tables, units, rows = [], [], [], []
        groups: list[str] = []
        first = 0
        failed = 0
        for plan in plans(method, question):
            result = self.result(plan)
            table = np.column_stack([result.values(str(parse_metric(metric))) for metric in metrics])
            kept = self._in_slices(plan, result, question.slices) & ~np.isnan(table).any(axis=1)
            if not kept.any():
                wanted = ", ".join(f"{name}={value}" for name, value in question.slices.items()) or "gold"
                raise UsageError(f"{plan.dataset} has no judged query with {wanted}.")
            results.append(result)
            tables.append(table[kept])
            rows.append(kept)
            # Through a list: pyarrow imports pandas to make an array of truth values.
            failed += int(np.count_nonzero(np.array(result.per_query["failed"].to_pylist(), dtype=np.bool_)[kept]))
            plan_units = number_units(result.units[kept])
            units.append(plan_units + first)
            first += int(plan_units.max()) + 1
            groups += [
                label for label, keep in zip(self._groups(plan, result, question.pool), kept, strict=True) if keep
            ]
        return MethodValues(
            tuple(results),
            np.concatenate(tables),
            np.unique(groups, return_inverse=True)[1].astype(np.int64),
            np.concatenate(units),
            tuple(rows),
            failed,
        )

    def possible(self, methods: Sequence[str], question: RecipeQuestion) -> list[Plan] | None:
        """The plans of methods on a question; None if one of them cannot run here."""
        try:
            planned = [plan for method in methods for plan in plans(method, question)]
            fresh = [plan for plan in dict.fromkeys(planned) if plan not in self.checked]
            for plan, item in zip(fresh, self._runner.check(fresh), strict=True):
                self.checked[plan] = StoredRun(self._runner.keeps(item), needs_llm(item.method))
        except BenchError:
            return None
        return planned

    def run_ahead(self, planned: Sequence[Plan], executor: Executor) -> None:
        """Run plans from `possible`, so that `ask` finds their results; a failed one fails again when requested."""
        for _ in side_by_side(self._runner, planned, executor):
            pass

    def result(self, plan: Plan) -> StoredResult:
        """The stored result of a plan, run if it is missing; the same outcome on every call.

        Raises:
            BenchError: the run is not possible here, or it failed.
        """
        return _make_once(self._done, plan, lambda: self._run(plan))

    def _run(self, plan: Plan) -> StoredResult | BenchError:
        with self.progress.stage(f"{plan.method} @ {plan.dataset}"):
            return next(self._runner.run([plan]))

    def dataset(self, spec: Spec) -> Dataset:
        """A dataset, loaded once; raises `BenchError`."""
        return _make_once(self._datasets, spec, lambda: self.load(spec))

    def _in_slices(self, plan: Plan, result: StoredResult, slices: dict[str, str]) -> NDArray[np.bool_]:
        """(queries,) which rows of a result have these slices."""
        ids: list[str] = result.per_query["query_id"].to_pylist()
        if not slices:
            return np.ones(len(ids), dtype=np.bool_)
        wanted = slices.items()
        queries = self.dataset(plan.dataset).queries
        inside = {query.query_id for query in queries if wanted <= query.slices.items()}
        return np.array([name in inside for name in ids], dtype=np.bool_)

    def _groups(self, plan: Plan, result: StoredResult, pool: str) -> list[str]:
        """The label of each query of a result; the mean is over the means of the labels."""
        ids: list[str] = result.per_query["query_id"].to_pylist()
        if pool in ("datasets", "queries"):
            return [str(plan.dataset) if pool == "datasets" else ""] * len(ids)
        labels = {query.query_id: query.slices.get(pool, "") for query in self.dataset(plan.dataset).queries}
        if not any(labels.values()):
            raise UsageError(f"{plan.dataset} has no slice {pool!r} to take the mean over.")
        return [labels[name] for name in ids]


def as_bench_error(error: Exception) -> BenchError:
    """An error as reported; a bug is reported as one."""
    if isinstance(error, BenchError):
        return error
    return MethodError(f"an error of bench itself ({type(error).__name__}: {error}).")


def _make_once(made: dict[K, V | BenchError], key: K, make: Callable[[], V | BenchError]) -> V:
    """The cached value of a key, made on first use; an error is raised again each time."""
    if key not in made:
        try:
            made[key] = make()
        except Exception as error:  # a bug must not affect the other cells
            made[key] = as_bench_error(error)
    outcome = made[key]
    if isinstance(outcome, BenchError):
        raise outcome
    return outcome


def plans(method: str, question: RecipeQuestion) -> list[Plan]:
    """One plan per dataset; artefacts named in the method must exist.

    Raises:
        UnavailableError: the method names an artefact that does not exist yet.
        UsageError: the method is not a spec, or names an unknown artefact.
    """
    for name in names_in(method):
        if not is_there(name):
            raise UnavailableError(f"the model {name} is not trained: {folder_of(name)} does not exist.")
    spec = parse(resolve_references(method))
    return [
        Plan(parse(dataset), spec, template=question.template, split=question.split)
        for dataset in map(resolve_references, question.on)
    ]


class _WithoutNotes:
    """Stages alone, where a note for each of a hundred results would bury a report."""

    def __init__(self, progress: Progress) -> None:
        self.stage = progress.stage

    def note(self, message: str) -> None:
        pass
