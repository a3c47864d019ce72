"""A metric against the size of the library: the results of one experiment, as curves and as a picture.

The points of a curve are results of one method on `DATASET(..., tools=N)`. Draws of one seed are nested and ask the
same queries, so only the library changes along a curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from bench.base.errors import UsageError
from bench.base.records import Record
from bench.base.spec import Spec, parse
from bench.base.text import one_line, shorten
from bench.evaluation.plan import Plan
from bench.registry.datasets import resolve
from bench.registry.methods import check_spec
from bench.results.finding import latest
from bench.results.manifest import Manifest, MetricValue
from bench.results.store import StoredResult
from bench.results.units import sample
from bench.show import tables
from bench.show.figures import Scale, apart, dash_attribute, document, escape_text, linear, logarithmic, path, text, tip
from bench.show.numbers import count, estimate, format_fixed
from bench.show.tables import Table, mean_cell

#: Curves of one picture: as many as there are colours and dashes that can be told apart.
MOST_CURVES = 8


class SizePoint(Record):
    """A method on one library: the mean over queries with its 95% interval over units of independence."""

    tools: int
    value: MetricValue
    failed: int
    result: str

    @staticmethod
    def of(result: StoredResult, metric: str) -> SizePoint:
        """The point of a result that has the metric."""
        return SizePoint(
            tools=result.manifest.dataset.tools,
            value=result.metrics.metrics[metric],
            failed=result.metrics.n_failed,
            result=result.manifest.result_id,
        )


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
    wanted = [(_canonical(plan.dataset), str(check_spec(plan.method)), plan) for plan in plans]
    families = list(dict.fromkeys(without_size(dataset) for dataset, _, _ in wanted))
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
        result = _result(stored, dataset, method, plan)
        if result is None:
            lacking.append(f"{method}@{dataset}")
            continue
        if metric not in result.metrics.metrics:
            raise UsageError(f"{result.label} has no metric {metric!r}; `bench metrics` lists them.")
        point = SizePoint.of(result, metric)
        curves.setdefault(method, {})[point.tools] = point
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


def _canonical(dataset: Spec) -> str:
    return resolve(dataset)[2]


def without_size(dataset: str) -> str:
    """A dataset's spec without the size of its library."""
    spec = parse(dataset)
    return str(Spec.of(spec.name, {key: value for key, value in spec.arguments if key != "tools"}))


def _result(stored: Sequence[StoredResult], dataset: str, method: str, plan: Plan) -> StoredResult | None:
    fitting = [item for item in stored if _answers(item.manifest, dataset, method, plan)]
    return latest(fitting)[-1] if fitting else None


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


def sizes_table(sizes: LibrarySizes) -> Table:
    """A row for each method, a column for each size."""
    columns = sorted({point.tools for curve in sizes.curves for point in curve.points})
    table = Table([sizes.metric, *map(count, columns)], right=range(1, len(columns) + 1))
    for curve in sizes.curves:
        value_by_size = {point.tools: point.value for point in curve.points}
        table.add(curve.method, *(mean_cell(value_by_size[size]) if size in value_by_size else "-" for size in columns))
    return table


def markdown(sizes: LibrarySizes) -> str:
    """The table as Markdown, with whole intervals."""
    columns = sorted({point.tools for curve in sizes.curves for point in curve.points})
    table = Table([sizes.metric, *map(count, columns)], right=range(1, len(columns) + 1))
    for curve in sizes.curves:
        cells = {point.tools: _interval(point) for point in curve.points}
        table.add(curve.method, *(cells.get(size, "") for size in columns))
    return tables.markdown(table) + "\n"


_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 860, 60, 640, 60, 440
_COLOURS = ("#1b6ca8", "#c1440e", "#2e7d32", "#7b3fa0", "#8a6d00", "#00796b", "#ad1457", "#455a64")
_STYLE = """
.band { fill-opacity: 0.1; stroke: none; } .line { fill: none; stroke-width: 2; }
.leader { fill: none; stroke: #b0b0b0; }
"""


def draw(sizes: LibrarySizes) -> str:
    """The curves as SVG text: a logarithmic axis of tools, and intervals as bands.

    Names stand at the ends of their curves, moved apart where they would overlap.

    Raises:
        UsageError: there are more than `MOST_CURVES` methods.
    """
    curves = sizes.curves
    if len(curves) > MOST_CURVES:
        raise UsageError(f"a picture shows at most {MOST_CURVES} methods, and the experiment has {len(curves)}.")
    points = [point for curve in curves for point in curve.points]
    sizes_shown = sorted({point.tools for point in points})
    ends = [end for point in points for end in (point.value.mean, *_ends(point))]
    step = next(
        step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 1e300) if max(ends) - min(ends) <= 8 * step
    )
    low, high = math.floor(min(ends) / step) * step, math.ceil(max(ends) / step) * step
    high = max(high, low + step)
    x = logarithmic(sizes_shown[0], sizes_shown[-1], _LEFT, _RIGHT)
    y = linear(low, high, _BOTTOM, _TOP)
    parts = []
    for i in range(round((high - low) / step) + 1):
        place = y(low + i * step)
        parts.append(f'<path class="grid" d="M{_LEFT},{place:.1f}H{_RIGHT}"/>')
        parts.append(text(_LEFT - 8, place + 4, format_fixed(low + i * step, 2), "note end"))
    free = 0.0
    for tools in sizes_shown:
        parts.append(f'<path class="grid" d="M{x(tools):.1f},{_TOP}V{_BOTTOM}"/>')
        label = count(tools)
        # A size too near to the one before has a line and no number.
        if x(tools) - 4 * len(label) >= free:
            parts.append(text(x(tools), _BOTTOM + 18, label, "note middle"))
            free = x(tools) + 4 * len(label) + 6
    parts.append(f'<path class="axis" d="M{_LEFT},{_TOP}V{_BOTTOM}H{_RIGHT}"/>')
    parts += [_band(curve, _COLOURS[i], x, y) for i, curve in enumerate(curves)]
    order = sorted(range(len(curves)), key=lambda i: y(curves[i].points[-1].value.mean))
    names = apart([y(curves[i].points[-1].value.mean) for i in order], 18.0, _TOP, _BOTTOM)
    for i, place in zip(order, names, strict=True):
        parts += _line(curves[i], _COLOURS[i], dash_attribute(i), place, x, y)
    parts.append(text((_LEFT + _RIGHT) / 2, _BOTTOM + 40, "tools in the library (logarithmic)", "note middle"))
    size = sample(sizes.n, sizes.units)
    parts.append(
        text(12, _BOTTOM + 64, f"mean and 95% interval over {size}; a larger library holds the smaller ones", "note")
    )
    title = f"{sizes.metric} on {sizes.dataset}"
    return document(title, parts, _WIDTH, _BOTTOM + 80, _STYLE)


def _ends(point: SizePoint) -> tuple[float, float]:
    """The ends of an interval; where there is none, twice the mean."""
    value = point.value
    return (
        value.mean if value.low is None else value.low,
        value.mean if value.high is None else value.high,
    )


def _interval(point: SizePoint) -> str:
    return estimate(point.value.mean, point.value.low, point.value.high)


def _band(curve: SizeCurve, colour: str, x: Scale, y: Scale) -> str:
    """The intervals of a curve."""
    upper = [(x(p.tools), y(_ends(p)[1])) for p in curve.points]
    lower = [(x(p.tools), y(_ends(p)[0])) for p in curve.points]
    return f'<path class="band" fill="{colour}" d="{path([*upper, *reversed(lower)])}Z"/>'


def _line(curve: SizeCurve, colour: str, dash: str, place: float, x: Scale, y: Scale) -> list[str]:
    """A curve with its dots and its name, which stands at `place`."""
    end = curve.points[-1]
    right = x(end.tools)
    line = path((x(p.tools), y(p.value.mean)) for p in curve.points)
    parts = [f'<path class="line" stroke="{colour}"{dash} d="{line}"/>']
    for p in curve.points:
        hint = tip(f"{curve.method}, {count(p.tools)} tools: {_interval(p)}")
        dot = f'<circle fill="{colour}" cx="{x(p.tools):.1f}" cy="{y(p.value.mean):.1f}" r="4">'
        parts.append(f"{dot}{hint}</circle>")
    parts.append(f'<path class="leader" d="M{right + 6:.1f},{y(end.value.mean):.1f}L{_RIGHT + 20},{place:.1f}"/>')
    name = escape_text(shorten(one_line(curve.method), 26))
    parts.append(f'<text x="{_RIGHT + 24}" y="{place + 4:.1f}" style="fill: {colour}">{name}</text>')
    return parts
