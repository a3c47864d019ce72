"""Grid search over a method's parameters on the dev split, or on a part of train if there is none."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import BenchError, UsageError
from bench.base.progress import QUIET, Progress
from bench.base.spec import Spec, Value, format_value, parse
from bench.data.dataset import Dataset
from bench.data.devsplit import HeldOut, hold_out_dev
from bench.data.template import Template
from bench.evaluation.ask import ask, prepare
from bench.evaluation.executors import Executor, side_by_side
from bench.evaluation.method_errors import check, metric_errors
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import History, Library, Method
from bench.interface.parts import is_oracle, needs_history
from bench.metrics import Metric
from bench.metrics.evaluate import Scores, evaluate
from bench.results.intervals import means_and_intervals
from bench.results.manifest import MetricValue
from bench.results.units import number_units, sample, unit_counts
from bench.show.numbers import estimate, format_fixed, p_value, several
from bench.show.objects import Displayable, frame
from bench.show.tables import Table, table_of
from bench.stats.best_of_many import best_of_many
from bench.stats.bounded import Span
from bench.stats.noninferiority import PairVerdict, enough_units, pair_verdict
from bench.stats.paired import compare

if TYPE_CHECKING:
    import pandas

#: More points than this are probably a mistake.
_MOST_POINTS = 10_000
#: Maximum number of points in a printed table; `Tuning.table` has all of them.
_SHOWN = 10


@dataclass(frozen=True)
class GridPoint:
    """One point of a grid: its values, and the metric's mean over the dev queries.

    Attributes:
        method: spec of the method at the point, with the parameters that differ from their defaults.
        queries: (queries,) the metric on each query; NaN if it is not taken on it.
    """

    values: Mapping[str, Value]
    score: float
    method: Spec = field(compare=False, repr=False)
    queries: NDArray[np.float64] = field(compare=False, repr=False)


@dataclass(frozen=True)
class AgainstDefault:
    """The difference of the best point from the method with the defaults of the grid's parameters, on the same queries.

    Attributes:
        method: the spec of the default.
        mean: the mean of the default.
        difference, low, high: with its 95% interval, not corrected.
        p: two-sided, corrected for the choice among the points (`bench.stats.best_of_many`).
        verdict: the conclusion from p.
    """

    method: str
    mean: float
    difference: float
    low: float | None
    high: float | None
    p: float
    verdict: PairVerdict


@dataclass(frozen=True, repr=False)
class Tuning(Displayable):
    """All points of a grid, best first.

    Attributes:
        method: the method, with its fixed parameters.
        dataset: spec of the dataset whose dev queries were used.
        metric: the maximised metric.
        points: the points.
        value: the metric of the best point, with its 95% interval and number of queries.
        units, effective: their units of independence, and their effective number of independent queries.
        default: the best against the default; None for a method that cannot run without a value from the grid.
        held_out: the train queries used in place of dev; None if the dataset has a dev split.
    """

    method: Spec
    dataset: str
    metric: str
    points: tuple[GridPoint, ...]
    value: MetricValue
    units: int
    effective: float
    default: AgainstDefault | None
    held_out: HeldOut | None = None

    @property
    def best(self) -> str:
        """Spec of the method at the best point, for `bench run`."""
        return str(self.method.with_arguments(self.points[0].values))

    @property
    def notes(self) -> list[str]:
        """What a reader must know: which queries were used, and among how many variants the first is the best."""
        asked = [] if self.held_out is None else [f"queries: {self.held_out}"]
        if len(self.points) == 1:
            return asked
        chosen = f"best of {len(self.points)} variants on {self._split_name}"
        return [*asked, f"{chosen}: the choice makes its mean there too high; `bench run` measures it on test"]

    @property
    def findings(self) -> list[str]:
        """The interval of the best mean, and whether the best is shown to be better than the default."""
        value = self.value
        size = sample(value.n, self.units, self.effective)
        found = [f"best {self.metric}: {estimate(value.mean, value.low, value.high)}, {size}"]
        default = self.default
        if default is None:
            return [*found, "there is no default to compare with: the method needs a value from the grid"]
        if default.method == str(self.points[0].method):
            return [*found, "the default is the best point"]
        verdict = default.verdict if default.verdict in {"better", "worse"} else "not shown to be better"
        told = estimate(default.difference, default.low, default.high, sign=True)
        p = f"p {p_value(default.p)} for the best of {several(len(self.points), 'point')}"
        few = ", too few groups for conclusions" if default.verdict == "too few groups" else ""
        return [*found, f"{verdict} than the default, {default.method}: {told}, {p}{few}"]

    @cached_property
    def table(self) -> pandas.DataFrame:
        """One row per point, best first: a column for each parameter, and the metric.

        Raises:
            UnavailableError: pandas is not installed.
        """
        rows: list[dict[str, object]] = [{**point.values, self.metric: point.score} for point in self.points]
        return frame(rows, (*self.points[0].values, self.metric))

    def to_dict(self) -> dict[str, Any]:
        """The whole tuning, as `bench tune --json` prints it."""
        rows = [{"values": dict(point.values), self.metric: point.score} for point in self.points]
        held, default = (None if part is None else dataclasses.asdict(part) for part in (self.held_out, self.default))
        return {
            "method": self.best,
            "dataset": self.dataset,
            "split": "dev",
            "held_out": held,
            **self.value.model_dump(include={"n", "mean", "low", "high"}),
            "units": self.units,
            "effective": self.effective,
            "default": default,
            "points": rows,
        }

    def _line(self) -> str:
        best = f"{self.metric} {format_fixed(self.points[0].score)}, the best of {len(self.points)} points"
        return f"{self.best} on {self.dataset} ({self._split_name}): {best}"

    @property
    def _split_name(self) -> str:
        return "dev" if self.held_out is None else "held out of train"

    def _tables(self) -> list[Table]:
        names = list(self.points[0].values)
        rows = [
            [*(format_value(point.values[name]) for name in names), format_fixed(point.score)]
            for point in self.points[:_SHOWN]
        ]
        left = len(self.points) - len(rows)
        title = f"{self.method.name} on {self.dataset} ({self._split_name})"
        left_out = [f"and {left} more"] if left else []
        return [table_of((*names, self.metric), rows, title, [*left_out, *self.findings, *self.notes])]


def tune_method(
    build: Callable[[Spec], Method],
    spec: Spec,
    grid: Mapping[str, Sequence[Value]],
    dataset: Dataset,
    metric: Metric,
    *,
    seed: int = 0,
    **more: Any,
) -> Tuning:
    """Run `tune` on the dev queries, or on a part of train held out by the seed."""
    derived, held_out = hold_out_dev(dataset, seed)
    points = tune(build, spec, grid, derived, metric, held_out=held_out, **more)
    rows = derived.rows("dev")
    units, gold = derived.units[rows], derived.gold.counts[rows]
    taken = ~np.isnan(points[0].queries)
    value = means_and_intervals(Scores((metric,), points[0].queries[:, None]), units, gold)[str(metric)]
    default = _default_point(build, spec, points, derived, metric, held_out=held_out, **more)
    numbered = number_units(units[taken])
    against = None if default is None else _compare_with(default, points, metric.span(gold), taken, numbered)
    return Tuning(spec, dataset.spec, str(metric), tuple(points), value, *unit_counts(units[taken]), against, held_out)


def _default_point(
    build: Callable[[Spec], Method],
    spec: Spec,
    points: Sequence[GridPoint],
    dataset: Dataset,
    metric: Metric,
    **more: Any,
) -> GridPoint | None:
    """The method with the defaults of the grid's parameters, which runs unless it is a point; None if it cannot run."""
    try:
        method = build(spec)
        for point in points:
            if point.method == method.spec:
                return point
        grid = {name: [value] for name, value in method.full_spec.arguments if name in points[0].values}
        # In this process: an executor can run only once.
        return tune(build, spec, grid, dataset, metric, **{**more, "executor": None})[0]
    except UsageError:
        return None


def _compare_with(
    default: GridPoint,
    points: Sequence[GridPoint],
    span: Span,
    taken: NDArray[np.bool_],
    units: NDArray[np.int64],
) -> AgainstDefault:
    """Compare the first point with the default, on the queries that the metric is taken on."""
    values = np.column_stack([point.queries[taken] for point in (default, *points)])
    (pair,) = compare(values[:, [1]] - values[:, [0]], units=units, span=span.of_differences())
    families = np.array([0, *(1 for _ in points)])
    # p is never below that of the pair alone, which the range of the metric may have raised.
    p = max(pair.p, float(best_of_many(values, families, 0, units=units)[1]))
    verdict = pair_verdict(pair.difference, p, enough_units(units))
    return AgainstDefault(str(default.method), default.score, pair.difference, pair.low, pair.high, p, verdict)


def tune(
    build: Callable[[Spec], Method],
    spec: Spec,
    grid: Mapping[str, Sequence[Value]],
    dataset: Dataset,
    metric: Metric,
    *,
    template: Template | None = None,
    progress: Progress = QUIET,
    executor: Executor | None = None,
    held_out: HeldOut | None = None,
) -> list[GridPoint]:
    """Try every point of a grid on the dev queries; methods learn from train only.

    Content that methods cache (embeddings, scores of cross-encoders) is computed once for all points.

    Args:
        build: builds a method from its spec.
        spec: the method, with its fixed parameters.
        grid: parameter -> values to try, in order; among equal points, the first wins.
        dataset: must have a dev split.
        metric: the metric to maximise.
        template: the text of a tool; the dataset's default if None.
        progress: shows a bar with the points.
        executor: runs the points; if None, they run one after the other in this process.
        held_out: how the dev split was made, if the dataset of the spec has none.

    Returns:
        All points, best first.

    Raises:
        UsageError: no dev split, no past queries for a method that learns from them, an empty or huge grid, a metric on
            sets, an oracle, or an invalid parameter.
    """
    rows = dataset.rows("dev")
    if not dataset.gold.counts[rows].any():
        raise UsageError(f"{dataset.spec} has no dev queries for tuning, and test queries must not be used.")
    size = math.prod(len(values) for values in grid.values())
    if not grid or not size or size > _MOST_POINTS:
        raise UsageError(f"the grid has {size if grid else 0} points; it takes between 1 and {_MOST_POINTS}.")
    if not metric.on_gold_ranks:
        raise UsageError(f"{metric} is not a ranking metric; choose one with a cut-off, such as recall@5.")
    library = Library.of(dataset, template or dataset.card.template)
    history = History.of(dataset, library, rows)
    gold = dataset.gold.take(rows)
    # Every spec is checked before the first expensive step.
    candidates = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    methods = [build(spec.with_arguments(values)) for values in candidates]
    if is_oracle(methods[0]):
        raise UsageError(f"{spec.name} is an oracle, which cannot be tuned.")
    for method in methods:
        if needs_history(method) and not history.gold.counts.any():
            raise UsageError(f"method {method.spec} needs past queries, and {dataset.spec} has none except dev.")
        check(method, library, history)
    depth = min(len(library), metric.cutoff if isinstance(metric.cutoff, int) else int(gold.counts.max()))
    if executor is not None:
        data = parse(dataset.spec)
        plans = [Plan(data, method.spec, split="dev", depth=depth, template=template) for method in methods]
        columns = _by_executor(plans, metric, dataset, build, executor, progress, held_out)
        return _points(candidates, methods, columns)
    columns = []
    with progress.stage("tune", len(methods), "points") as bar:
        for method in methods:
            prepare(method, library, history, checked=True)
            ranking = ask(method, dataset, rows, depth).ranking
            with metric_errors([metric]):
                columns.append(evaluate(ranking.tools, gold, [metric], unanswered=ranking.failed).column(metric))
            bar.advance()
    return _points(candidates, methods, columns)


def _points(
    candidates: Sequence[Mapping[str, Value]], methods: Sequence[Method], columns: Sequence[NDArray[np.float64]]
) -> list[GridPoint]:
    """The points of a grid, best first; equal points keep their order."""
    points = [
        GridPoint(values, float(np.nanmean(column)), method.spec, column)
        for values, method, column in zip(candidates, methods, columns, strict=True)
    ]
    return sorted(points, key=lambda point: -point.score)


def _by_executor(
    plans: Sequence[Plan],
    metric: Metric,
    dataset: Dataset,
    build: Callable[[Spec], Method],
    executor: Executor,
    progress: Progress,
    held_out: HeldOut | None,
) -> list[NDArray[np.float64]]:
    """(queries,) the metric for each plan, from results in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="bench-tune-") as folder:
        runner = Runner(Path(folder), load=lambda _: dataset, build=build, progress=progress, metrics=[metric])
        columns = []
        for outcome in side_by_side(runner, plans, executor, hold_out=None if held_out is None else held_out.seed):
            if isinstance(outcome, BenchError):
                raise outcome
            columns.append(outcome.values(str(metric)))
    return columns
