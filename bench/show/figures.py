"""The parts that SVG charts are made of: scales, grids, marks, and names that stay text.

A chart is a list of these parts with a head (`document`). Names are untrusted: `text` and `tip` escape them and remove
what XML does not allow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from bench.base.errors import UsageError, require
from bench.base.paths import replacing, write_text
from bench.base.text import clean, label, one_line
from bench.show.numbers import format_fixed, interval

#: Maximum series of a chart: the number of distinguishable colours and dashes.
MOST_SERIES = 8
#: Maps a value to its position on a scale.
Scale = Callable[[float], float]
#: Dashes of lines, one per colour.
DASHES = ("", "7 4", "2 3", "9 3 2 3", "", "7 4", "2 3", "9 3 2 3")
#: The style of a chart in a file of its own.
STYLE = """
text { font: 13px "DejaVu Sans", Verdana, Helvetica, Arial, sans-serif; fill: #1a1a1a; }
.title { font-size: 16px; font-weight: bold; }
.note { font-size: 12px; fill: #555; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.axis { stroke: #8a8a8a; fill: none; } .grid { stroke: #e4e4e4; }
"""
#: Resolution of a PNG: three pixels per unit of the drawing.
_PNG_DENSITY = 288
#: A Typst page with only the drawing.
_PAGE = '#set page(width: auto, height: auto, margin: 0pt)\n#image(bytes(sys.inputs.svg), format: "svg")'
#: Distances between ticks.
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


# Scales -----------------------------------------------------------------------------------------------------------


def linear(low: float, high: float, start: float, end: float) -> Scale:
    """A scale on which `low` is at `start` and `high` at `end`."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def logarithmic(low: float, high: float, start: float, end: float) -> Scale:
    """The same with equal distances for equal ratios; `low` and `high` are above zero."""
    first, last = math.log(low), math.log(high)
    return lambda value: start + (math.log(value) - first) / (last - first) * (end - start)


def pad_range(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    """A range with margins at both ends; the range of a single value is not empty."""
    room = (high - low) * share or 0.05
    return low - room, high + room


def ticks(low: float, high: float) -> list[float]:
    """Fewer than nine round numbers within a range."""
    for step in _STEPS:
        first = math.ceil(low / step)
        marks = [round((first + i) * step, 10) for i in range(9) if (first + i) * step <= high]
        if len(marks) < 9:
            return [mark + 0.0 for mark in marks]
    return []


def apart(places: Sequence[float], gap: float, top: float, bottom: float) -> list[float]:
    """Sorted positions, moved apart by a gap and kept within the borders if there is room."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap if moved else top))
    limit = bottom
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], limit)
        limit = moved[i] - gap
    return moved


# Parts ------------------------------------------------------------------------------------------------------------


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """A text; `kind` is its class."""
    name = f" class={quoteattr(kind)}" if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{name}>{escape_text(label(words, 120))}</text>'


def tip(words: str) -> str:
    """The tooltip of a mark."""
    return f"<title>{escape_text(label(words, 200))}</title>"


def escape_text(words: str) -> str:
    """A text within an element."""
    return escape(clean(words))


def columns(values: Iterable[float], x: Scale, top: float, bottom: float) -> list[str]:
    """A vertical line at each value, and the value below it."""
    parts = []
    for value in values:
        parts.append(f'<path class="grid" d="M{x(value):.1f},{top}V{bottom}"/>')
        parts.append(text(x(value), bottom + 18, f"{value:g}", "note middle"))
    return parts


def rows(values: Iterable[float], y: Scale, left: float, right: float, gap: float = 8) -> list[str]:
    """A horizontal line at each value, and the value in front of it."""
    parts = []
    for value in values:
        parts.append(f'<path class="grid" d="M{left},{y(value):.1f}H{right}"/>')
        parts.append(text(left - gap, y(value) + 4, f"{value:g}", "note end"))
    return parts


def path(points: Iterable[tuple[float, float]]) -> str:
    """The data of a line through points."""
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def dash_attribute(i: int) -> str:
    """The attribute for the dashes of the i-th line."""
    return f' stroke-dasharray="{DASHES[i]}"' if DASHES[i] else ""


def named_lines(
    names: Sequence[str], spots: Sequence[Sequence[tuple[float, float]]], right: float, top: float, bottom: float
) -> list[str]:
    """Lines through points, labelled to the right of the axes; labels are moved apart if they would overlap."""
    ends = sorted((line[-1][1], i) for i, line in enumerate(spots))
    places = apart([end for end, _ in ends], 17, top + 6, bottom)
    parts = []
    for (end, i), place in zip(ends, places, strict=True):
        parts.append(f'<g class="s{i}"><path class="line" d="{path(spots[i])}"{dash_attribute(i)}/>')
        parts.append(f'<path class="leader" d="M{spots[i][-1][0] + 2:g},{end:.1f}L{right + 14},{place:.1f}"/>')
        parts.append(text(right + 18, place + 4, names[i], "name") + "</g>")
    return parts


def fit_names(names: Sequence[str], most: int) -> list[str]:
    """Names of at most `most` characters; names with the same beginning keep their ends too."""
    shortened = [label(name, most) for name in names]
    alike = Counter(shortened)
    tail = most // 2
    return [
        short
        if alike[short] == 1 or len(name) <= most
        else f"{name[: most - tail - 1].rstrip()}…{name[-tail:].lstrip()}"
        for name, short in zip((label(name) for name in names), shortened, strict=True)
    ]


@dataclass(frozen=True)
class Sized:
    """A line through means with their intervals at numbers of tools."""

    name: str
    points: tuple[tuple[int, float, float | None, float | None], ...]


def size_lines(
    lines: Sequence[Sized], metric: str, across: str, box: tuple[float, float, float, float], most: int
) -> list[str]:
    """Means over the number of tools on a logarithmic scale, with intervals.

    Args:
        lines: at least one with two points.
        metric: the metric of the means.
        across: what the x axis counts.
        box: left, right, top and bottom of the axes; labels are to the right of them.
        most: maximum characters of a label.
    """
    left, right, top, bottom = box
    ends = [
        end for item in lines for _, *bounds in item.points for end in bounds if end is not None and math.isfinite(end)
    ]
    low, high = pad_range(min(ends), max(ends))
    marks = sorted({size for item in lines for size, *_ in item.points})
    x = logarithmic(marks[0], marks[-1], left, right)
    y = linear(low, high, bottom, top)
    parts = rows(ticks(low, high), y, left - 14, right + 14, gap=6)
    # The ends of the scale first: a size too close to another one gets a grid line but no number.
    taken: list[tuple[float, float]] = []
    for size in sorted(marks, key=lambda size: size not in (marks[0], marks[-1])):
        parts.append(f'<path class="grid" d="M{x(size):.1f},{top}V{bottom}"/>')
        name = f"{size / 1000:.3g}k" if size >= 1000 else str(size)
        half = 4.2 * len(name) + 2
        if all(x(size) + half <= start or x(size) - half >= end for start, end in taken):
            parts.append(text(x(size), bottom + 18, name, "note middle"))
            taken.append((x(size) - half, x(size) + half))
    # Side by side, so that intervals at one size do not overlap.
    spots = [
        [(x(size) + 4 * (i - (len(lines) - 1) / 2), y(mean)) for size, mean, *_ in item.points]
        for i, item in enumerate(lines)
    ]
    parts += named_lines(fit_names([item.name for item in lines], most), spots, right + 14, top, bottom)
    for i, item in enumerate(lines):
        for (at, height), (size, mean, a, b) in zip(spots[i], item.points, strict=True):
            ends_text = interval(a, b, "dash", none="")
            hint = tip(f"{item.name}, {size:,} tools: {format_fixed(mean)} ({ends_text})")
            reach = ""
            if ends_text and a is not None and b is not None:
                reach = f'<path class="reach" d="M{at:.1f},{y(a):.1f}V{y(b):.1f}"/>'
            parts.append(f'<g class="s{i}">{reach}<circle class="knot" cx="{at:.1f}" cy="{height:.1f}" r="3.5">{hint}')
            parts.append("</circle></g>")
    parts.append(text((left + right) / 2, bottom + 38, f"{across} (logarithmic)", "note middle"))
    return [*parts, text(left, top - 8, metric, "note")]


# Documents --------------------------------------------------------------------------------------------------------


def document(title: str, parts: Sequence[str], width: float, height: float, style: str = "") -> str:
    """A chart in a file of its own, with title and style."""
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(label(title, 200))}>'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    body = [f"<style>{STYLE}{style.lstrip()}</style>", ground, text(12, 28, title, "title")]
    return "\n".join([head, *body, *parts, "</svg>"]) + "\n"


def check_picture(path: Path) -> None:
    """Raise unless a picture can be written under this name.

    Raises:
        UsageError: it does not end with .svg, .png or .pdf.
        UnavailableError: what writes PNG and PDF is not installed.
    """
    form = path.suffix.lower()
    if form not in {".svg", ".png", ".pdf"}:
        raise UsageError(f"the picture {one_line(str(path))} has no name that ends with .svg, .png or .pdf.")
    if form != ".svg":
        require("typst", what=f"a picture as {form[1:].upper()}")


def write_picture(path: Path, svg: str) -> None:
    """Write a drawing as SVG, PNG or PDF, as its name ends; errors as of `check_picture`."""
    check_picture(path)
    if path.suffix.lower() == ".svg":
        write_text(path, svg)
        return
    import typst

    form: Literal["png", "pdf"] = "png" if path.suffix.lower() == ".png" else "pdf"
    with replacing(path) as temporary:
        made = typst.compile(_PAGE.encode(), format=form, ppi=_PNG_DENSITY, sys_inputs={"svg": svg})
        temporary.write_bytes(made)


def within_page(title: str, parts: Sequence[str], width: float, height: float) -> str:
    """A chart within a page, coloured by the page's style sheet."""
    size = f'viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}"'
    head = f'<svg class="chart" {size} role="img" aria-label={quoteattr(label(title, 200))}>'
    return "\n".join([head, *parts, "</svg>"])
