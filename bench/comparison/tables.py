"""The tables of a comparison, for the terminal and every file format.

`metric_table` has all numbers of one metric on one dataset, `short_table` the most important numbers of several
metrics, and `grid` only means, with signs of significance, over datasets or metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bench.base.text import one_line
from bench.comparison.report import (
    ComparisonRecord,
    DatasetReport,
    MacroReport,
    MacroStanding,
    MetricReport,
    Move,
    Standing,
    SystemDifference,
)
from bench.show import numbers
from bench.show.numbers import estimate, format_fixed, format_rank, format_signed, interval, p_value, ranks
from bench.show.tables import Cell, Emphasis, Table

#: Maximum characters of a query in a report.
LONGEST_TEXT = 160
#: Maximum number of moved tools of one query in a report.
_MOST_TOOLS = 5
#: Widths of the columns of `grid`, and of the names of systems, in a terminal.
_NARROWEST, _WIDEST, _LABEL = 6, 12, 24
#: Width of the two columns over all datasets with the margins, and the space between columns.
_OVERALL, _BETWEEN = 15, 2


def dagger(difference: SystemDifference | None) -> str:
    """The sign of a corrected p-value; empty for the baseline, and with too few units for a conclusion."""
    return "" if difference is None or not difference.decided else numbers.dagger(difference.corrected)


def sign(difference: SystemDifference | None) -> str:
    """The dagger, and the sign for "the same as the baseline within the margin"."""
    margin = None if difference is None else difference.margin
    return dagger(difference) + (numbers.SAME if margin is not None and margin.verdict == "within" else "")


def verdict(difference: SystemDifference, units: int) -> str:
    """The conclusion about a difference, in words.

    For an undecided difference, it says how many units would decide it, if more are needed.
    """
    margin = difference.margin
    within = "" if margin is None or margin.verdict != "within" else f"{margin.margin:g}"
    if difference.verdict in {"better", "worse"}:
        return f"{difference.verdict}, by less than {within}" if within else difference.verdict
    if within:
        return f"the same within {within}"
    if not difference.decided:
        return "not decided: too few groups"
    wanted = [difference.needed, None if margin is None else margin.needed]
    needed = min((number for number in wanted if number is not None), default=0)
    return f"not decided; about {numbers.count(needed)} groups would decide" if needed > units else "not decided"


def differences(metric: MetricReport) -> dict[str, SystemDifference]:
    """System -> its difference from the baseline."""
    return {item.system: item for item in metric.differences}


# One dataset -------------------------------------------------------------------------------------------------------


def metric_table(metric: MetricReport, baseline: str) -> Table:
    """All numbers of one metric, best first; the baseline has no difference."""
    heads = ["system", "mean", "rank", f"less {baseline}", "p", "dz", "W/T/L", "MDE"]
    table = Table(heads, right=range(2, len(heads)))
    for standing, d in standings(metric):
        mean = Cell(estimate(standing.mean, standing.low, standing.high), mark=sign(d))
        table.add(standing.system, mean, _rank(standing))
        if d is not None:
            table.extend(
                estimate(d.difference, d.low, d.high, sign=True),
                p_value(d.corrected),
                format_signed(d.dz, 2),
                _counts(d),
                format_fixed(d.detectable),
            )
    return table


def full_table(metrics: Sequence[MetricReport], n: int) -> Table:
    """All numbers of several metrics, narrow: intervals and uncorrected p-values have separate lines."""
    heads = ["system", "mean", "rank", "difference", "p, alone", "dz", "W/T/L", "MDE"]
    table = Table(heads, right=range(1, len(heads)), whole=range(1, len(heads)))
    for metric in metrics:
        table.add(_name_metric(metric, n), style="title", rule=True)
        for standing, d in standings(metric):
            mean = Cell(format_fixed(standing.mean), mark=sign(d), below=_ends(standing))
            table.add(standing.system, mean, _rank(standing))
            if d is not None:
                ends = interval(d.low, d.high, "brackets", sign=True, none="")
                table.extend(
                    Cell(format_signed(d.difference), below=(ends,) if ends else ()),
                    Cell(p_value(d.corrected), below=(p_value(d.p),)),
                    format_signed(d.dz, 2),
                    _counts(d),
                    format_fixed(d.detectable),
                )
    return table


def short_table(metrics: Sequence[MetricReport], n: int) -> Table:
    """A line for each metric and system: mean and difference with their intervals, rank, and corrected p-value."""
    heads = ["system", "mean", "95% interval", "rank", "difference", "95% interval", "p"]
    table = Table(heads, right=(1, 3, 4, 6), whole=range(1, len(heads)), tight=True)
    for metric in metrics:
        table.add(_name_metric(metric, n), style="title", rule=True)
        for standing, d in standings(metric):
            mean = Cell(format_fixed(standing.mean), mark=sign(d))
            table.add(standing.system, mean, interval(standing.low, standing.high), _rank(standing))
            if d is not None:
                table.extend(format_signed(d.difference), interval(d.low, d.high, sign=True), p_value(d.corrected))
    return table


def standings(metric: MetricReport) -> Iterator[tuple[Standing, SystemDifference | None]]:
    """Each standing with its difference from the baseline; the baseline has none."""
    difference_by_system = differences(metric)
    yield from ((standing, difference_by_system.get(standing.system)) for standing in metric.standings)


def _name_metric(metric: MetricReport, n: int) -> str:
    return metric.metric if metric.n == n else f"{metric.metric} (n={metric.n})"


def _rank(standing: Standing | MacroStanding) -> str:
    return format_rank(ranks(standing.rank_low, standing.rank_high), standing.reference)


def _ends(standing: Standing | MacroStanding) -> tuple[str, ...]:
    ends = interval(standing.low, standing.high, "short", none="")
    return (ends,) if ends else ()


def _counts(difference: SystemDifference) -> str:
    return f"{difference.wins}/{difference.ties}/{difference.losses}"


def margin_table(metrics: Sequence[MetricReport]) -> Table:
    """The conclusion about each difference and the margin; without rows if no margin is set."""
    table = Table(["system", "metric", "difference", "90% interval", "verdict"], right=(2,), whole=(2, 3))
    for metric in metrics:
        for d in metric.differences:
            if d.margin is not None:
                table.title = f"With a margin of {d.margin.margin:g}"
                ends = interval(d.margin.low, d.margin.high, sign=True)
                table.add(d.system, metric.metric, format_signed(d.difference), ends, verdict(d, metric.units))
    return table


def slice_tables(dataset: DatasetReport) -> list[Table]:
    """Means by the values of each slice, a column for each system."""
    systems = [item.name for item in dataset.systems]
    tables = []
    for name in dict.fromkeys(item.slice for item in dataset.slices):
        slice_rows = [item for item in dataset.slices if item.slice == name]
        table = Table([name, "n", "groups", *systems], right=range(1, len(systems) + 3))
        table.title = f"{slice_rows[0].metric} by {name}"
        for item in slice_rows:
            by_system = {difference.system: difference for difference in item.differences}
            means = [Cell(format_fixed(item.means[system]), mark=sign(by_system.get(system))) for system in systems]
            table.add(item.value, str(item.n), str(item.units), *means)
        tables.append(table)
    return tables


def moved_tables(dataset: DatasetReport, baseline: str) -> list[Table]:
    """The queries with the largest gains and losses of each system."""
    tables = []
    for moves in dataset.moves:
        for word, moved in (("gained", moves.gained), ("lost", moves.lost)):
            more = ["tools"] if dataset.catalogues else []
            table = Table([f"{baseline} → {moves.system}", "query", "text", *more])
            table.title = f"Queries that {moves.system} {word} most on {moves.metric}"
            for move in moved:
                change = f"{format_fixed(move.baseline, 2)} → {format_fixed(move.system, 2)}"
                tools = ["; ".join(tool_lines(move))] if more else []
                table.add(change, move.query_id, one_line(move.text or "", LONGEST_TEXT), *tools)
            if table.rows:
                tables.append(table)
    return tables


def tool_lines(move: Move) -> list[str]:
    """The first few gold tools of a query: old rank, new rank, and the tool that has the old rank now."""
    lines = [f"{one_line(tool.tool_id)}: {tool.words}" for tool in move.tools[:_MOST_TOOLS]]
    return [*lines, *([f"and {len(move.tools) - len(lines)} more"] if len(move.tools) > len(lines) else [])]


# Several datasets --------------------------------------------------------------------------------------------------


def macro_table(macro: MacroReport) -> Table:
    """Ranks and means of one metric over all datasets."""
    table = Table(["system", "rank", "mean of the datasets' means"], right=(1,))
    for standing in macro.standings:
        mean = estimate(standing.mean, standing.low, standing.high)
        table.add(standing.system, _rank(standing), mean)
    return table


def grid(
    report: ComparisonRecord, metrics: Sequence[str], width: int | None = None, intervals: bool = False
) -> list[Table]:
    """Means with signs of significance, the best and the second best of each column marked.

    On one dataset a column is a metric. On several it is a dataset, a metric has rows of its own, and the mean over all
    datasets and the rank follow.

    Args:
        report: the comparison.
        metrics: the metrics to show.
        width: the width of the terminal; datasets that do not fit go into further tables. None for a single table.
        intervals: whether to show the 95% intervals of means.
    """
    first = report.datasets[0]
    systems = [item.name for item in first.systems]
    if len(report.datasets) == 1:
        shown_metrics = [metric for metric in first.metrics if metric.metric in metrics]
        table = Table(["Method", *(metric.metric for metric in shown_metrics)], right=range(1, len(shown_metrics) + 1))
        columns = [_means(metric, _oracles(first), intervals) for metric in shown_metrics]
        for name in systems:
            table.add(name, *(column[name] for column in columns))
        return [table]
    room = len(report.datasets)
    if width is not None:
        # The columns of datasets.
        width -= min(_LABEL, max(map(len, [*systems, *metrics]))) + _OVERALL
        room = max(1, width // (_NARROWEST + _BETWEEN))
    parts = [report.datasets[i : i + room] for i in range(0, len(report.datasets), room)]
    return [_grid_of(report, part, metrics, part is parts[-1], width, intervals) for part in parts]


def _grid_of(
    report: ComparisonRecord,
    datasets: Sequence[DatasetReport],
    metrics: Sequence[str],
    last: bool,
    width: int | None,
    intervals: bool,
) -> Table:
    macros = {macro.metric: macro for macro in report.macro} if last else {}
    systems = [item.name for item in report.datasets[0].systems]
    heads = ["Method", *(dataset.dataset for dataset in datasets), *(["mean", "rank"] if macros else [])]
    table = Table(heads, right=range(1, len(heads)), whole=range(1, len(heads)))
    if width is not None:
        each = max(_NARROWEST, min(_WIDEST, width // len(datasets) - _BETWEEN))
        table.tight, table.widths = True, dict.fromkeys(range(1, len(datasets) + 1), each)
    for name in metrics:
        reports = [(dataset, metric) for dataset in datasets for metric in dataset.metrics if metric.metric == name]
        if len(reports) < len(datasets):
            continue
        columns = [_means(metric, _oracles(dataset), intervals) for dataset, metric in reports]
        higher = reports[0][1].higher_is_better
        table.add(name, style="title", rule=True)
        macro = {item.system: item for item in macros[name].standings} if name in macros else {}
        means = _mark_best({item.system: item.mean for item in macro.values()}, higher, _oracles(datasets[0]))
        if intervals:
            means = {name: replace(cell, below=_ends(macro[name])) for name, cell in means.items()}
        for system in systems:
            over: list[str | Cell] = [means[system], _rank(macro[system])] if system in macro else []
            table.add(system, *(column[system] for column in columns), *over)
    return table


def _oracles(dataset: DatasetReport) -> set[str]:
    return {item.name for item in dataset.systems if "oracle" in item.marks}


def _means(metric: MetricReport, oracles: set[str], intervals: bool) -> dict[str, Cell]:
    """System -> its mean on a metric, with the sign of its difference from the baseline, and its interval if wanted."""
    difference_by_system = differences(metric)
    means = _mark_best({item.system: item.mean for item in metric.standings}, metric.higher_is_better, oracles)
    ends = {item.system: _ends(item) if intervals else () for item in metric.standings}
    return {
        name: replace(cell, mark=sign(difference_by_system.get(name)), below=ends[name]) for name, cell in means.items()
    }


def _mark_best(means: Mapping[str, float], higher_is_better: bool, oracles: set[str]) -> dict[str, Cell]:
    """Mark the best and the second best mean; oracles do not compete.

    Printed values count: two that look the same are both best.
    """
    texts = {name: format_fixed(mean) for name, mean in means.items()}
    order = sorted({float(texts[name]) for name in means if name not in oracles}, reverse=higher_is_better)
    places: dict[float, Emphasis] = dict(zip(order, ("best", "second"), strict=False))
    return {
        name: Cell(text, emphasis="" if name in oracles else places.get(float(text), ""))
        for name, text in texts.items()
    }
