"""Running methods for a reproduction, and reading their per-query values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import BenchError, MethodError, UnavailableError, UsageError
from bench.base.progress import QUIET, Progress, WithoutNotes
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

#: Methods state the connected share rounded to four digits: it may be off by half of the last.
_SHARE_ROUNDING = 0.00005


def fact(result: StoredResult, name: str) -> float:
    """`tools` (of the library), `connected_tools` (of a dependency graph), or `fact:NAME`, as the method states it.

    Raises:
        UsageError: the method did not state it.
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
    """The least and the most that a count of a result can be.

    They are the same number but for `connected_tools`, which is worked out from a share that was rounded: every whole
    number of tools whose share rounds to the stated one can be it. In a library of more than 10,000 tools there may be
    two.

    Raises:
        UsageError: the method did not state it.
    """
    count = fact(result, name)
    if name != "connected_tools":
        return count, count
    share, tools = fact(result, "fact:connected_share"), result.manifest.dataset.tools
    # Binary fractions: a share on the very edge of the range is within it.
    least = math.ceil((share - _SHARE_ROUNDING) * tools - 1e-6)
    most = math.floor((share + _SHARE_ROUNDING) * tools + 1e-6)
    return min(count, least), max(count, most)


@dataclass(frozen=True)
class MethodValues:
    """Per-query values of one method.

    Attributes:
        results: the stored results they come from, one for each dataset.
        values: (queries, metrics), without the queries that a metric is not taken on.
        groups: (queries,) the dataset of each query, by code from 0, or the value of the slice over which the mean is
            taken; zeros where all are pooled.
        units: (queries,) the unit of independence of each query, by code from 0; each lies within a dataset.
        kept: of each result, (queries,) which of its queries these are.
        failed: how many of these queries failed or were not answered; they score 0.
    """

    results: tuple[StoredResult, ...]
    values: NDArray[np.float64]
    groups: NDArray[np.int64]
    units: NDArray[np.int64]
    kept: tuple[NDArray[np.bool_], ...]
    failed: int


@dataclass(frozen=True)
class StoredRun:
    """Whether a stored result takes the place of a run, and whether the run calls a language model."""

    kept: bool
    calls: bool


@dataclass
class MethodRuns:
    """Runs what recipes ask, once each, and keeps errors as well as results.

    Attributes:
        results: the folder of results; what is there is not run again.
        load, build: as the runner has them.
        metrics: metrics that recipes ask for, by their strings.
        models: role -> the language model that the user names in the place of the paper's.
        progress: where runs report to.
        checked: what was found of the plans that `possible` gave.
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
        self._runner = Runner(
            self.results,
            load=self.dataset,
            build=self.build,
            progress=WithoutNotes(self.progress),
            metrics=[metric for metric in map(_known_metric, self.metrics) if metric is not None],
        )

    def ask(self, method: str, question: RecipeQuestion, metrics: Sequence[str]) -> MethodValues:
        """Values of some metrics, one column each.

        Raises:
            BenchError: something it needs is not here, or the run failed.
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
            # By way of a list: pyarrow imports pandas to make an array of truth values.
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
        """Run plans by an executor, so that `ask` finds their results; one that fails does so again when asked for.

        Args:
            planned: plans that `possible` gave.
            executor: where they run.
        """
        for _ in side_by_side(self._runner, planned, executor):
            pass

    def result(self, plan: Plan) -> StoredResult:
        """The stored result of a plan, run if it is not there; the same outcome however often it is asked for.

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
        """The label of each query of a result; the mean is taken over the means of those with the same one."""
        ids: list[str] = result.per_query["query_id"].to_pylist()
        if pool in ("datasets", "queries"):
            return [str(plan.dataset) if pool == "datasets" else ""] * len(ids)
        labels = {query.query_id: query.slices.get(pool, "") for query in self.dataset(plan.dataset).queries}
        if not any(labels.values()):
            raise UsageError(f"{plan.dataset} has no slice {pool!r} to take the mean over.")
        return [labels[name] for name in ids]


def as_bench_error(error: Exception) -> BenchError:
    """An error as it is reported; a fault of ours is reported as one."""
    if isinstance(error, BenchError):
        return error
    return MethodError(f"an error of bench itself ({type(error).__name__}: {error}).")


def _make_once(made: dict[K, V | BenchError], key: K, make: Callable[[], V | BenchError]) -> V:
    """The value of a key, made when it is first asked for; an error is raised again each time."""
    if key not in made:
        try:
            made[key] = make()
        except Exception as error:  # a fault of ours must not take the other cells with it
            made[key] = as_bench_error(error)
    outcome = made[key]
    if isinstance(outcome, BenchError):
        raise outcome
    return outcome


def plans(method: str, question: RecipeQuestion) -> list[Plan]:
    """One plan for each dataset; artefacts named in the method must be there.

    Raises:
        UnavailableError: the method names an artefact that does not exist yet.
        UsageError: the method is no spec, or names an artefact that is not known.
    """
    for name in names_in(method):
        if not is_there(name):
            raise UnavailableError(f"the model {name} is not trained: {folder_of(name)} does not exist.")
    spec = parse(resolve_references(method))
    return [
        Plan(parse(dataset), spec, template=question.template, split=question.split)
        for dataset in map(resolve_references, question.on)
    ]


def _known_metric(text: str) -> Metric | None:
    """The metric of a string; None for one that does not exist, which is reported when it is requested."""
    try:
        return parse_metric(text)
    except UsageError:
        return None
