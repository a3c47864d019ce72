"""A metric against the size of the library: the results of one experiment, as curves and as a picture.

The points of a curve are results of one method on `DATASET(..., tools=N)`. Draws of one seed are nested and ask the
same queries, so only the library changes along a curve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from bench.base.errors import UsageError
from bench.base.records import Record
from bench.base.spec import Spec, parse
from bench.evaluation.plan import Plan
from bench.lookup.finding import latest
from bench.registry.datasets import resolve
from bench.registry.methods import check_spec
from bench.results.manifest import Manifest, MetricValue
from bench.results.store import StoredResult
from bench.results.units import sample
from bench.show import tables
from bench.show.figures import MOST_SERIES, Sized, document, size_lines, text
from bench.show.numbers import NONE, count, estimate
from bench.show.tables import Cell, Table, mean_cell


class SizePoint(Record):
    """A method on one library: the mean over queries with its 95% interval over units of independence."""

    tools: int
    value: MetricValue
    failed: int
    result: str


class SizeCurve(Record):
    """A method, and its points by size."""

    method: str
    points: list[SizePoint]


class LibrarySizes(Record):
    """Curves over the same queries.

    Attributes:
        dataset: the dataset without the option `tools`.
        n, units: judged queries, and units of independence among them.
    """

    dataset: str
    metric: str
    n: int
    units: int | None
    curves: list[SizeCurve]
    schema_name: Literal["library-sizes"] = "library-sizes"
    schema_version: Literal[1] = 1


def library_sizes(plans: Sequence[Plan], results: Iterable[StoredResult], metric: str) -> LibrarySizes:
    """The curves of an experiment.

    Args:
        plans: every method on libraries of several sizes; all of one dataset.
        results: stored results, among which the latest one of each plan is taken.
        metric: its name.

    Raises:
        UsageError: the plans are on several datasets or on one size, a result is not there, or one lacks the metric.
    """
    wanted = [(resolve(plan.dataset)[2], str(check_spec(plan.method)), plan) for plan in plans]
    families = list(dict.fromkeys(_without_size(dataset) for dataset, _, _ in wanted))
    if len(families) > 1:
        raise UsageError(
            f"a curve is of one dataset, and the experiment has {len(families)}: {', '.join(families[:3])}. Sizes are "
            "the option tools=N; other options must agree."
        )
    stored = list(results)
    curves: dict[str, dict[int, SizePoint]] = {}
    lacking: list[str] = []
    last_result = None
    for dataset, method, plan in wanted:
        fitting = [item for item in stored if _answers(item.manifest, dataset, method, plan)]
        if not fitting:
            lacking.append(f"{method}@{dataset}")
            continue
        result = latest(fitting)[-1]
        if metric not in result.metrics.metrics:
            raise UsageError(f"{result.label} has no metric {metric!r}; `bench list metrics` lists them.")
        manifest, metrics = result.manifest, result.metrics
        tools, value = manifest.dataset.tools, metrics.metrics[metric]
        point = SizePoint(tools=tools, value=value, failed=metrics.n_failed, result=manifest.result_id)
        curves.setdefault(method, {})[tools] = point
        last_result = result
    if lacking or last_result is None:
        raise UsageError(
            f"{len(lacking)} of {len(wanted)} results are not there, first {lacking[0]}; `bench run` with the same "
            "file makes them."
        )
    if max(map(len, curves.values())) < 2:
        raise UsageError("a curve needs libraries of at least two sizes; add datasets with tools=N.")
    return LibrarySizes(
        dataset=families[0],
        metric=metric,
        n=last_result.metrics.metrics[metric].n,
        units=last_result.manifest.dataset.units,
        curves=[
            SizeCurve(method=method, points=[points[size] for size in sorted(points)])
            for method, points in curves.items()
        ],
    )


def _without_size(dataset: str) -> str:
    """A dataset's spec without the size of its library."""
    spec = parse(dataset)
    return str(Spec.of(spec.name, {key: value for key, value in spec.arguments if key != "tools"}))


def _answers(manifest: Manifest, dataset: str, method: str, plan: Plan) -> bool:
    """Whether a result is one of a plan; what the plan leaves to the dataset's card is as the result has it."""
    data = manifest.dataset
    return (
        (data.spec, manifest.method.spec) == (dataset, method)
        and (plan.split is None or data.split == plan.split)
        and (plan.template is None or data.template == plan.template)
        and data.limit == plan.limit
        and (manifest.depth, manifest.repeats) == (plan.depth, plan.repeats)
        and (manifest.method.cut is None) == (plan.cut == "none")
    )


def sizes_table(sizes: LibrarySizes, cell: Callable[[MetricValue], str | Cell] = mean_cell, none: str = NONE) -> Table:
    """A row for each method, a column for each size; `none` stands where a method lacks one."""
    columns = sorted({point.tools for curve in sizes.curves for point in curve.points})
    table = Table([sizes.metric, *map(count, columns)], right=range(1, len(columns) + 1))
    for curve in sizes.curves:
        value_by_size = {point.tools: point.value for point in curve.points}
        table.add(curve.method, *(cell(value_by_size[size]) if size in value_by_size else none for size in columns))
    return table


def markdown(sizes: LibrarySizes) -> str:
    """The table as Markdown, with whole intervals."""
    whole = sizes_table(sizes, lambda value: estimate(value.mean, value.low, value.high), "")
    return tables.markdown(whole) + "\n"


_COLOURS = ("#1b6ca8", "#c1440e", "#2e7d32", "#7b3fa0", "#8a6d00", "#00796b", "#ad1457", "#455a64")
_STYLE = """
.line, .reach { fill: none; stroke: currentColor; stroke-width: 2; } .reach { stroke-opacity: 0.5; }
.knot, .name { fill: currentColor; } .leader { fill: none; stroke: #b0b0b0; }
""" + "".join(f".s{i} {{ color: {colour}; }}\n" for i, colour in enumerate(_COLOURS))


def draw(sizes: LibrarySizes) -> str:
    """The curves as SVG text: a logarithmic axis of tools, and an interval at each mean.

    Names stand at the ends of their curves, moved apart where they would overlap.

    Raises:
        UsageError: there are more than `MOST_SERIES` methods.
    """
    if len(sizes.curves) > MOST_SERIES:
        raise UsageError(f"a picture shows at most {MOST_SERIES} methods, and the experiment has {len(sizes.curves)}.")
    lines = [
        Sized(curve.method, tuple((p.tools, p.value.mean, p.value.low, p.value.high) for p in curve.points))
        for curve in sizes.curves
    ]
    parts = size_lines(lines, sizes.metric, "tools in the library", (60, 620, 60, 440), 26)
    size = sample(sizes.n, sizes.units)
    parts.append(text(12, 504, f"mean and 95% interval over {size}; a larger library holds the smaller ones", "note"))
    return document(f"{sizes.metric} on {sizes.dataset}", parts, 860, 520, _STYLE)
