"""A comparison as an SVG chart: means with intervals and ranks. `bench compare --picture` and notebooks draw it.

Names are untrusted: they are escaped, and characters that XML does not allow are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.base.paths import expand_path
from bench.base.text import one_line, shorten
from bench.comparison.comparison import Comparison
from bench.comparison.report import MacroStanding, Standing
from bench.results.units import sample
from bench.show.figures import columns, document, linear, pad_range, text, ticks, tip, write_picture
from bench.show.numbers import estimate, format_rank, ranks

_STYLE = """
.whisker { stroke: #2b5f8a; stroke-width: 2; } .dot { fill: #2b5f8a; }
"""
_WIDTH = 820
_ROW = 28
_LABEL = 300


@dataclass(frozen=True, repr=False)
class Figure:
    """A chart as SVG text, which a notebook draws.

    Attributes:
        title: a description of the content.
        svg: the drawing.
    """

    title: str
    svg: str

    @staticmethod
    def of(report: Comparison) -> Figure:
        """The first metric of a comparison (see `draw`)."""
        return Figure(f"{report.datasets[0].metrics[0].metric}: {report._line()}", draw(report))

    def save(self, path: str | Path) -> Path:
        """Write it as SVG, PNG or PDF, by the suffix of the name.

        Raises:
            UsageError: the name has another suffix.
            UnavailableError: PNG or PDF needs an extra that is not installed.
            StorageError: it cannot be written.
        """
        place = expand_path(path)
        write_picture(place, self.svg)
        return place

    def __repr__(self) -> str:
        return f"<Figure {one_line(self.title, 200)}>"

    def _repr_svg_(self) -> str:
        return self.svg


def draw(report: Comparison) -> str:
    """The first metric of a comparison as SVG text.

    A row for each system, best first: its rank, mean and 95% interval, on one dataset or over several.
    """
    if report.macro:
        macro = report.macro[0]
        where = f"{macro.metric} over {', '.join(macro.datasets)}"
        return _means(macro.standings, where, f"over {len(macro.datasets)} datasets")
    dataset = report.datasets[0]
    metric = dataset.metrics[0]
    return _means(metric.standings, f"{metric.metric} on {dataset.dataset}", f"over {sample(metric.n, metric.units)}")


def _means(rows: Sequence[Standing | MacroStanding], title: str, size: str) -> str:
    ends = [end for row in rows for end in (row.low, row.high, row.mean) if end is not None]
    low, high = pad_range(min(ends), max(ends), 0.08)
    left, right, top = _LABEL, _WIDTH - 30, 64
    x = linear(low, high, left, right)
    height = top + _ROW * len(rows) + 60
    bottom = top + _ROW * len(rows)
    parts = [*columns(ticks(low, high), x, top, bottom)]
    parts.append(f'<line class="axis" x1="{left}" y1="{bottom}" x2="{right}" y2="{bottom}"/>')
    for i, row in enumerate(rows):
        y = top + _ROW * i + _ROW // 2
        parts.append(text(12, y + 5, format_rank(ranks(row.rank_low, row.rank_high), row.reference), "note"))
        parts.append(text(left - 12, y + 5, shorten(row.system, 34), "end"))
        hint = tip(f"{row.system}: {estimate(row.mean, row.low, row.high)}")
        if row.low is not None and row.high is not None:
            parts.append(f'<line class="whisker" x1="{x(row.low):.1f}" y1="{y}" x2="{x(row.high):.1f}" y2="{y}"/>')
        parts.append(f'<circle class="dot" cx="{x(row.mean):.1f}" cy="{y}" r="5">{hint}</circle>')
    note = f"mean and 95% interval {size}; left: the ranks that tests of all pairs leave open (5%)"
    parts.append(text(12, bottom + 44, note, "note"))
    return document(title, parts, _WIDTH, height, _STYLE)
