"""A comparison as an SVG chart: means with intervals and ranks, or critical differences over datasets.

Names come from outside: they are escaped, and what XML cannot hold is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.base.paths import expand_path, write_text
from bench.base.text import one_line, shorten
from bench.comparison.report import Comparison, MacroReport, MacroStanding, MetricReport
from bench.results.units import sample
from bench.show.figures import columns, document, linear, pad_range, text, ticks, tip
from bench.show.numbers import estimate, format_fixed, placed, ranks

_STYLE = """
.whisker { stroke: #2b5f8a; stroke-width: 2; } .dot { fill: #2b5f8a; }
.group { stroke: #1a1a1a; stroke-width: 4; stroke-linecap: round; }
.lead { stroke: #5b6770; fill: none; }
"""
_WIDTH = 820
_ROW = 28
_LABEL = 300
_LONGEST = 40


@dataclass(frozen=True, repr=False)
class Figure:
    """A chart as SVG text, which a notebook draws.

    Attributes:
        title: what it shows.
        svg: the drawing.
    """

    title: str
    svg: str

    @staticmethod
    def of(report: Comparison) -> Figure:
        """The first metric of a comparison (see `draw`)."""
        metric = report.macro[0].metric if report.macro else report.datasets[0].metrics[0].metric
        return Figure(f"{metric}: {report._line()}", draw(report))

    def save(self, path: str | Path) -> Path:
        """Write the SVG file.

        Raises:
            StorageError: it cannot be written.
        """
        place = expand_path(path)
        write_text(place, self.svg)
        return place

    def __repr__(self) -> str:
        return f"<Figure {one_line(self.title, 200)}>"

    def _repr_svg_(self) -> str:
        return self.svg


def draw(report: Comparison) -> str:
    """The first metric of a comparison as SVG text.

    On one dataset: a row for each system, best first, its rank, mean and 95% interval.
    Over several datasets: mean ranks on an axis (Demšar 2006, figure 1); a bar joins systems whose mean ranks lie
    within Nemenyi's critical difference.
    """
    if report.macro:
        return _critical_differences(report.macro[0])
    dataset = report.datasets[0]
    return _means(dataset.metrics[0], f"{dataset.metrics[0].metric} on {dataset.dataset}")


def _means(metric: MetricReport, title: str) -> str:
    rows = metric.standings
    ends = [end for row in rows for end in (row.low, row.high, row.mean) if end is not None]
    low, high = pad_range(min(ends), max(ends), 0.08)
    left, right, top = _LABEL, _WIDTH - 30, 64
    x = linear(low, high, left, right)
    height = top + _ROW * len(rows) + 60
    parts = []
    for i, row in enumerate(rows):
        y = top + _ROW * i
        parts.append(text(12, y + 19, placed(ranks(row.rank_low, row.rank_high), row.reference), "note"))
    bottom = top + _ROW * len(rows)
    parts += columns(ticks(low, high), x, top, bottom)
    parts.append(f'<line class="axis" x1="{left}" y1="{bottom}" x2="{right}" y2="{bottom}"/>')
    for i, row in enumerate(rows):
        y = top + _ROW * i + _ROW // 2
        parts.append(text(left - 12, y + 5, shorten(row.system, 34), "end"))
        hint = tip(f"{row.system}: {estimate(row.mean, row.low, row.high)}")
        if row.low is not None and row.high is not None:
            parts.append(f'<line class="whisker" x1="{x(row.low):.1f}" y1="{y}" x2="{x(row.high):.1f}" y2="{y}"/>')
        parts.append(f'<circle class="dot" cx="{x(row.mean):.1f}" cy="{y}" r="5">{hint}</circle>')
    size = sample(metric.n, metric.units)
    note = f"mean and 95% interval over {size}; left: the ranks that tests of all pairs leave open (5%)"
    parts.append(text(12, bottom + 44, note, "note"))
    return document(title, parts, _WIDTH, height, _STYLE)


def _critical_differences(macro: MacroReport) -> str:
    rows = sorted(macro.standings, key=lambda item: item.rank)
    count = len(rows)
    left, right, top = 60, _WIDTH - 60, 96
    x = linear(1, max(count, 2), left, right)
    parts = [f'<line class="axis" x1="{left}" y1="{top}" x2="{right}" y2="{top}"/>']
    for rank in range(1, count + 1):
        parts.append(f'<line class="axis" x1="{x(rank):.1f}" y1="{top - 6}" x2="{x(rank):.1f}" y2="{top}"/>')
        parts.append(text(x(rank), top - 12, str(rank), "note middle"))
    width = min(x(1 + macro.critical) - x(1), right - left)
    parts.append(f'<line class="group" x1="{left}" y1="56" x2="{left + width:.1f}" y2="56"/>')
    parts.append(text(left + width + 10, 61, f"critical difference {format_fixed(macro.critical, 2)}", "note"))
    groups = _groups(rows, macro.critical)
    for i, (best, worst) in enumerate(groups):
        y = top + 12 + 10 * i
        ends = f'x1="{x(best) - 4:.1f}" y1="{y}" x2="{x(worst) + 4:.1f}" y2="{y}"'
        parts.append(f'<line class="group" {ends}/>')
    below = top + 12 + 10 * len(groups) + 16
    half = (count + 1) // 2
    for i, row in enumerate(rows):
        # The better half is named on the left, from the best down; the others on the right, from the worst down.
        on_left = i < half
        y = below + _ROW * (i if on_left else count - 1 - i)
        edge = left if on_left else right
        parts.append(f'<path class="lead" d="M{x(row.rank):.1f},{top} V{y} H{edge}"/>')
        # Above its line: next to it there is no room for a long name.
        label = f"{format_fixed(row.rank, 2)} {shorten(row.system, _LONGEST)}"
        parts.append(text(edge, y - 5, label, "" if on_left else "end"))
    bottom = below + _ROW * half
    note = (
        f"{macro.metric}: mean ranks over {len(macro.datasets)} datasets; a bar joins what Nemenyi's test does not part"
    )
    parts.append(text(left, bottom + 20, note, "note"))
    title = f"{macro.metric} over {', '.join(macro.datasets)}"
    return document(title, parts, _WIDTH, bottom + 40, _STYLE)


def _groups(rows: Sequence[MacroStanding], critical: float) -> list[tuple[float, float]]:
    """Best and worst mean rank of each largest set of two or more systems within the critical difference."""
    groups: list[tuple[int, int]] = []
    for i, first in enumerate(rows):
        last = max(j for j, other in enumerate(rows) if other.rank - first.rank < critical)
        if last > i and (not groups or last > groups[-1][1]):
            groups.append((i, last))
    return [(rows[i].rank, rows[j].rank) for i, j in groups]
