"""SVG charts, rendered at build time without scripts; colours come from the style sheet. Pages call them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from bench.base.text import label
from bench.results.manifest import MetricValue
from bench.show.figures import (
    MOST_SERIES,
    Sized,
    columns,
    fit_names,
    linear,
    logarithmic,
    named_lines,
    pad_range,
    path,
    rows,
    size_lines,
    text,
    ticks,
    tip,
    within_page,
)
from bench.show.numbers import format_fixed, format_rank, interval, ranks

_span = partial(interval, style="dash", none="")
#: Sized so that two charts stand side by side on a laptop and the text of one is readable on a phone.
WIDTH = 520
_ROW = 24
#: Size of the names in front of rows, and of their characters.
_LABEL, _LETTERS = 205, 31
#: Patterns of the parts of a bar, as paths in a square of 8: full, empty, rising, dots, level, grid.
_HATCHES = ("M0,4H8M0,1H8M0,7H8", "", "M-2,2L2,-2M0,8L8,0M6,10L10,6", "M3,4H5", "M0,4H8", "M0,4H8M4,0V8")
#: Positions of a point's label, best first: offset to the right and below, and whether the text ends there. Positions
#: next to the point come before those that need a line.
_NEXT = [(9, 4, False), (-9, 4, True), (9, -10, False), (-9, 18, True), (9, 20, False), (-9, -10, True)]
_LED = [
    [
        (dx * side, 4 + 15 * step * turn, side < 0)
        for step in range(first, 30)
        for dx in distances
        for turn in (-1, 1)
        for side in (1, -1)
    ]
    for first, distances in ((2, (16, 48)), (0, (96, 160, 240, 340, 460)))
]
#: All positions, nearer ones first.
_PLACES = np.array([*_NEXT, *_LED[0], *_LED[1]])
#: Width of a character of a label.
_LETTER = 7.0


@dataclass(frozen=True)
class Bar:
    """A mean with its interval and its best and worst rank; those of a challenger are in parentheses."""

    name: str
    mean: float
    low: float | None
    high: float | None
    ranks: tuple[int, int] | None
    reference: bool = True


@dataclass(frozen=True)
class ChartPoint:
    """A point with a cost and a quality; less cost and more quality are better."""

    name: str
    cost: float
    quality: float


@dataclass(frozen=True)
class Series:
    """A line of values over cut-offs."""

    name: str
    values: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class DatedMean:
    """A mean with its interval at a point in time.

    Attributes:
        verdict: selects the marker from `MARKERS`; a dot for all others.
        ring: whether to draw a ring around the marker.
    """

    name: str
    value: MetricValue
    verdict: str
    ring: bool = False


#: Verdict -> its marker: a triangle that points up or down, an empty dot, a cross.
MARKERS = {
    "better": "up",
    "worse": "down",
    "regression": "down",
    "inconclusive": "empty",
    "not comparable": "cross",
    "not run": "cross",
}


def rank_picture(title: str, bars: Sequence[Bar]) -> str:
    """A row per method, best first: its possible ranks, mean and interval."""
    if not bars:
        return ""
    # A single group of queries has no interval: its ends are not numbers.
    bars = [bar if _finite(bar.low, bar.high) else replace(bar, low=None, high=None) for bar in bars]
    ends = [end for bar in bars for end in (bar.low, bar.high, bar.mean) if end is not None]
    low, high = pad_range(min(ends), max(ends))
    left, right, top = _LABEL + 62, WIDTH - 16, 14
    bottom = top + _ROW * len(bars)

    x = linear(low, high, left, right)
    parts = []
    for i, bar in enumerate(bars):
        y = top + _ROW * i
        if bar.ranks is not None:
            parts.append(text(4, y + 16, format_rank(ranks(*bar.ranks), bar.reference), "note"))
    parts += columns(ticks(low, high), x, top, bottom)
    names = fit_names([bar.name for bar in bars], _LETTERS)
    for i, bar in enumerate(bars):
        y = top + _ROW * i + _ROW // 2
        parts.append(text(left - 10, y + 4, names[i], "end"))
        if bar.low is not None and bar.high is not None:
            parts.append(f'<path class="whisker" d="M{x(bar.low):.1f},{y}H{x(bar.high):.1f}"/>')
        hint = tip(f"{bar.name}: {format_fixed(bar.mean)} ({_span(bar.low, bar.high)})")
        parts.append(f'<circle class="dot" cx="{x(bar.mean):.1f}" cy="{y}" r="4.5">{hint}</circle>')
    return within_page(title, parts, WIDTH, bottom + 26)


def front(points: Sequence[ChartPoint]) -> list[ChartPoint]:
    """The Pareto front, by cost: no other point costs the same or less and is better."""
    frontier: list[ChartPoint] = []
    for point in sorted(points, key=lambda item: (item.cost, -item.quality, item.name)):
        if not frontier or point.quality > frontier[-1].quality:
            frontier.append(point)
    return frontier


def cost_picture(
    title: str, points: Sequence[ChartPoint], cost: str, quality: str, unit: Callable[[float], str]
) -> str:
    """Quality against cost on a logarithmic scale, with the Pareto front.

    Points without cost are drawn left of the scale.
    """
    points = [point for point in points if point.cost >= 0 and math.isfinite(point.cost)]
    if not any(point.cost for point in points):
        return ""
    best = front(points)
    low, high = pad_range(min(point.quality for point in points), max(point.quality for point in points))
    logs = [math.log10(point.cost) for point in points if point.cost]
    # Leave room for dots and names; do not draw a narrow range as wide as an order of magnitude.
    room = max(0.02, 0.1 * (max(logs) - min(logs)))
    first, last = min(logs) - room, max(logs) + room
    # Make the chart higher if there are many names.
    left, right, top, bottom = 52, WIDTH - 16, 14, 330 + 9 * max(0, min(len(points), 40) - 14)
    start = left if len(logs) == len(points) else left + 90

    def x(value: float) -> float:
        return start + (math.log10(value) - first) / (last - first) * (right - start) if value else left + 30.0

    y = linear(low, high, bottom, top)
    parts = rows(ticks(low, high), y, left, right)
    free = 0.0
    for value in ([] if start == left else [0.0]) + _round(first, last):
        parts.append(f'<path class="grid" d="M{x(value):.1f},{top}V{bottom}"/>')
        half = _LETTER / 2 * len(unit(value))
        if x(value) - half >= free:
            parts.append(text(x(value), bottom + 18, unit(value), "note middle"))
            free = x(value) + half
    steps = "".join(f"H{x(point.cost):.1f}V{y(point.quality):.1f}" for point in best[1:])
    parts.append(f'<path class="front" d="M{x(best[0].cost):.1f},{y(best[0].quality):.1f}{steps}H{right}"/>')
    names = {point.name for point in best}
    # No name may cover a dot; the front is crossed only if there is no other room.
    taken = [(x(point.cost) - 6, x(point.cost) + 6, y(point.quality) + 4) for point in points]
    corners = [(x(point.cost), y(point.quality)) for point in best]
    corners.append((float(right), corners[-1][1]))
    lines = [
        spot for (x0, y0), (x1, y1) in pairwise(corners) for spot in (*_spots(x0, y0, x1, y0), *_spots(x1, y0, x1, y1))
    ]
    for point in sorted(points, key=lambda item: item.name not in names, reverse=True):
        hint = tip(f"{point.name}: {format_fixed(point.quality)} {quality}, {unit(point.cost)}")
        kind = "dot" if point.name in names else "dot other"
        parts.append(
            f'<circle class="{kind}" cx="{x(point.cost):.1f}" cy="{y(point.quality):.1f}" r="5">{hint}</circle>'
        )
    named = [*best, *(point for point in points if point.name not in names)]
    for point, name in zip(named, fit_names([point.name for point in named], 26), strict=True):
        parts.append(_place_label(name, x(point.cost), y(point.quality), right, bottom, taken, lines))
    parts.append(text((left + right) / 2, bottom + 38, cost, "note middle"))
    parts.append(text(left, top - 3, quality, "note"))
    return within_page(title, parts, WIDTH, bottom + 46)


def curves(title: str, series: Sequence[Series], metric: str) -> str:
    """Values over cut-offs, one line per method, labelled at its end.

    The chart ends where the methods still differ: at the last cut-off with at least half of the largest spread. With
    all tools of a library, every method finds everything.
    """
    series = [item for item in series if len(item.values) > 1][:MOST_SERIES]
    if not series:
        return ""
    cutoffs = _choose_cutoffs(series)
    series = [Series(item.name, tuple(pair for pair in item.values if pair[0] in cutoffs)) for item in series]
    values = [value for item in series for _, value in item.values]
    low, high = pad_range(min(values), max(values))
    left, right, top, bottom = 52, WIDTH - 200, 14, 330
    x = logarithmic(cutoffs[0], cutoffs[-1], left, right)
    y = linear(low, high, bottom, top)
    parts = rows(ticks(low, high), y, left, right)
    free = 0.0
    for k in cutoffs:
        parts.append(f'<path class="grid" d="M{x(k):.1f},{top}V{bottom}"/>')
        # A cut-off that only some recipe requests may be too close to another one to be labelled.
        if x(k) >= free:
            parts.append(text(x(k), bottom + 18, str(k), "note middle"))
            free = x(k) + 22
    spots = [[(x(k), y(value)) for k, value in item.values] for item in series]
    parts += named_lines(fit_names([item.name for item in series], 26), spots, right, top, bottom)
    parts.append(text((left + right) / 2, bottom + 38, "k (number of tools)", "note middle"))
    parts.append(text(left, top - 3, metric, "note"))
    return within_page(title, parts, WIDTH, bottom + 46)


def sizes(title: str, lines: Sequence[Sized], metric: str, across: str = "tools in the library") -> str:
    """Means over library size on a logarithmic scale, with intervals.

    Only lines with two or more points are drawn.
    """
    lines = [item for item in lines if len(item.points) > 1][:MOST_SERIES]
    if not lines:
        return ""
    bottom = 400
    parts = size_lines(lines, metric, across, (66, WIDTH - 204, 24, bottom), 19)
    return within_page(title, ['<g class="large">', *parts, "</g>"], WIDTH, bottom + 46)


def shares(title: str, bars: Sequence[tuple[str, Sequence[int]]], parts: Sequence[str], key: str) -> str:
    """A bar per row, divided by the shares of its counts: each part has its own pattern and its percentage.

    Args:
        title: of the chart.
        bars: names, and a count for each part.
        parts: their names; as many as there are patterns.
        key: unique on the page.
    """
    bars = [(name, counts) for name, counts in bars if sum(counts)]
    if not bars:
        return ""
    # Leave parts that no row has out of the legend.
    used = [i for i in range(len(parts)) if any(counts[i] for _, counts in bars)]
    left, right = _LABEL + 8, WIDTH - 16
    lines = [used[i : i + 3] for i in range(0, len(used), 3)]
    top = 8 + 22 * len(lines)
    patterns = "".join(
        f'<pattern id="{key}-{i}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<path class="hatch s{i}" d="{_HATCHES[i]}"/></pattern>'
        for i in used
    )
    drawn = [f"<defs>{patterns}</defs>"]

    def box(i: int, x: float, y: float, width: float, height: float, hint: str = "") -> str:
        return (
            f'<rect class="part" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" '
            f'fill="url(#{key}-{i})">{hint}</rect>'
        )

    for line, indices in enumerate(lines):
        for column, i in enumerate(indices):
            x, y = 12 + column * (WIDTH - 24) / 3, 4 + 22 * line
            drawn += [box(i, x, y, 22, 14), text(x + 29, y + 11.5, parts[i])]
    names = fit_names([name for name, _ in bars], _LETTERS)
    for row, (name, counts) in enumerate(bars):
        x, y, total = float(left), top + _ROW * row, sum(counts)
        drawn.append(text(left - 10, y + 16, names[row], "end"))
        for i in used:
            width = counts[i] / total * (right - left)
            if not counts[i]:
                continue
            hint = tip(f"{name}: {parts[i]} {counts[i]:,} of {total:,}")
            drawn.append(box(i, x, y + 3, width, _ROW - 6, hint))
            if width >= 24:
                drawn.append(text(x + width / 2, y + 16.5, f"{100 * counts[i] / total:.0f}", "middle"))
            x += width
    return within_page(title, drawn, WIDTH, top + _ROW * len(bars) + 6)


def steps(title: str, points: Sequence[tuple[float, float]], across: str, up: str) -> str:
    """A step function over [0, 1]: each point is the right end of a step and its height; both axes begin at 0.

    The shaded area is that under the function.
    """
    if not points:
        return ""
    left, right, top, bottom = 52, WIDTH - 24, 14, 290
    # Scale to the next tick above the highest step, so that small risks are visible.
    high = min(1.0, math.ceil(max(0.1, *(value for _, value in points)) * 10 - 1e-9) / 10)

    x, y = linear(0.0, 1.0, left, right), linear(0.0, high, bottom, top)
    parts = rows(ticks(0.0, high), y, left, right)
    parts += columns([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], x, top, bottom)
    line = "".join(f"V{y(value):.1f}H{x(end):.1f}" for end, value in points)
    start = f"M{left},{y(points[0][1]):.1f}"
    parts.append(f'<g class="s0"><path class="area" d="M{left},{bottom}{line}V{bottom}Z"/>')
    parts.append(f'<path class="line" d="{start}{line}"/></g>')
    parts.append(text((left + right) / 2, bottom + 38, across, "note middle"))
    parts.append(text(left, top - 3, up, "note"))
    return within_page(title, parts, WIDTH, bottom + 46)


def trend(title: str, stages: Sequence[DatedMean], metric: str) -> str:
    """Means with intervals in order of time, evenly spaced, each with the marker of its verdict."""
    if len(stages) < 2:
        return ""
    means = [item.value for item in stages]
    ends = [end for value in means for end in (value.low, value.high, value.mean) if end is not None]
    low, high = pad_range(min(ends), max(ends))
    left, right, top, bottom = 56, WIDTH - 24, 20, 256
    step = (right - left) / len(stages)

    y = linear(low, high, bottom, top)
    parts = ['<g class="large">']
    parts += rows(ticks(low, high), y, left, right)
    spots = [(left + step * (i + 0.5), y(value.mean)) for i, value in enumerate(means)]
    parts.append(f'<g class="s0"><path class="line" d="{path(spots)}"/></g>')
    free = 0.0
    for (x, at), item, value in zip(spots, stages, means, strict=True):
        if value.low is not None and value.high is not None:
            parts.append(f'<path class="whisker" d="M{x:.1f},{y(value.low):.1f}V{y(value.high):.1f}"/>')
        said = f", {item.verdict}" if item.verdict else ""
        hint = tip(f"{item.name}: {format_fixed(value.mean)} ({_span(value.low, value.high)}){said}")
        if item.ring:
            parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{at:.1f}" r="10"/>')
        parts.append(_marker(MARKERS.get(item.verdict, "dot"), x, at, hint))
        if x - 40 >= free:
            parts.append(text(x, bottom + 18, label(item.name, 10), "note middle"))
            free = x + 40
    parts.append(text(left, top - 6, metric, "note"))
    return within_page(title, [*parts, "</g>"], WIDTH, bottom + 26)


def _marker(kind: str, x: float, y: float, hint: str) -> str:
    if kind in ("up", "down"):
        step = -8 if kind == "up" else 8
        shape = f"M{x - 7:.1f},{y - step / 2:.1f}H{x + 7:.1f}L{x:.1f},{y + step:.1f}Z"
        return f'<path class="dot" d="{shape}">{hint}</path>'
    if kind == "cross":
        shape = f"M{x - 5:.1f},{y - 5:.1f}l10,10m0,-10l-10,10"
        return f'<path class="cross" d="{shape}">{hint}</path>'
    return f'<circle class="{"hollow" if kind == "empty" else "dot"}" cx="{x:.1f}" cy="{y:.1f}" r="4.5">{hint}</circle>'


def _choose_cutoffs(series: Sequence[Series]) -> list[int]:
    """The cut-offs to draw: two or more for each line."""
    by_cutoff: dict[int, list[float]] = {}
    for item in series:
        for k, value in item.values:
            by_cutoff.setdefault(k, []).append(value)
    cutoffs = sorted(by_cutoff)
    spread = [max(by_cutoff[k]) - min(by_cutoff[k]) for k in cutoffs]
    last = max(i for i, width in enumerate(spread) if width >= max(spread) / 2)
    # A line whose cut-offs differ from the others keeps two of its own.
    last = max(last, *(cutoffs.index(item.values[1][0]) for item in series))
    return cutoffs[: last + 1]


def _place_label(
    name: str,
    x: float,
    y: float,
    right: float,
    bottom: float,
    taken: list[tuple[float, float, float]],
    lines: list[tuple[float, float]],
) -> str:
    """Place a point's label where it overlaps no other: next to the point, or farther off with a line to it.

    Where there is room, it covers no line, and the line to it crosses no other label. The label is omitted if there is
    no room in the whole chart.

    Args:
        name: the label.
        x, y: the point.
        right, bottom: ends of the chart.
        taken: beginning, end and base line of each label and dot; the label is added.
        lines: spots of the drawn lines; those of the line to the label are added.
    """
    width = _LETTER * len(name)
    lows, highs, bases = np.array(taken).reshape(-1, 3).T
    across, down = np.array(lines).reshape(-1, 2).T
    places = _PLACES
    start = x + places[:, 0] - np.where(places[:, 2], width, 0)
    row = y + places[:, 1]
    inside = (start >= 56) & (start + width <= right) & (row >= 12) & (row <= bottom - 4)
    clear = (np.abs(row[:, None] - bases) > 14) | (start[:, None] > highs) | (start[:, None] + width < lows)
    free = np.flatnonzero(inside & clear.all(axis=1))
    if not len(free):
        return ""

    def is_clean(place: int) -> bool:
        """Whether the label covers no line, and the line to it no label."""
        covers = (
            (across > start[place])
            & (across < start[place] + width)
            & (down > row[place] - 11)
            & (down < row[place] + 4)
        )
        if covers.any() or place < len(_NEXT):
            return not covers.any()
        # Dots are crossed, or no label would be led to where dots are dense.
        spots = _spots(x, y, x + places[place, 0], row[place] - 4)[1:-1]
        names = highs - lows > 12
        return not any(
            ((lows < at) & (highs > at) & (bases - 11 < to) & (bases + 4 > to) & names).any() for at, to in spots
        )

    place = next((int(i) for i in free if is_clean(int(i))), int(free[0]))
    dx, dy, end = places[place].tolist()
    taken.append((float(start[place]), float(start[place]) + width, y + dy))
    lead = ""
    if place >= len(_NEXT):
        lead = f'<path class="lead" d="M{x:.1f},{y:.1f}L{x + dx:.1f},{y + dy - 4:.1f}"/>'
        lines += _spots(x, y, x + dx, y + dy - 4)
    return lead + text(x + dx, y + dy, name, "end" if end else "")


def _spots(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    """Points of a line, at most three pixels apart."""
    number = 2 + int(math.hypot(x1 - x0, y1 - y0) / 3)
    return list(zip(np.linspace(x0, x1, number).tolist(), np.linspace(y0, y1, number).tolist(), strict=True))


def _finite(*values: float | None) -> bool:
    return all(value is not None and math.isfinite(value) for value in values)


def _round(first: float, last: float) -> list[float]:
    """Round numbers between two powers of ten: 1, and 2 and 5 if there is room; even steps in a narrow range."""
    parts = (1,) if last - first > 3 else (1, 2, 5)
    values = [part * 10.0**power for power in range(math.floor(first), math.ceil(last) + 1) for part in parts]
    values = [value for value in values if first <= math.log10(value) <= last]
    if len(values) > 2:
        return values
    low, high = 10.0**first, 10.0**last
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step *= max(part for part in (1, 2, 5) if (high - low) / (part * step) >= 3)
    return [round(n * step, 12) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
