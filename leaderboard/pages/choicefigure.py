"""A picture of what predicts a choice: small panels of a retrieval metric against the accuracy of choices."""

from __future__ import annotations

from collections.abc import Sequence

from bench.comparison.prediction import BITS, RECALL, ChoicePoint, Prediction
from bench.leaderboard.pages.charts import MOST_SERIES, WIDTH, fit_names
from bench.show.figures import dash_attribute, linear, pad_range, path, rows, text, ticks, tip, within_page
from bench.show.numbers import estimate, format_fixed

#: Of each panel, in the order of reading.
PANELS = (RECALL, "ndcg@k", BITS, "precision@k")
#: Right of each panel there is room for the numbers of its last marks.
_LEFT, _RIGHT, _GAP, _HEIGHT, _TOP = 40, 18, 58, 190, 24
_NAME_ROW, _LETTERS = 18, 23


def choice_figure(prediction: Prediction) -> str:
    """The value of a metric (x) against the accuracy of choices (y), a mark for each method and number of tools.

    A line joins the numbers of a method, which stand beside their marks; whiskers are 95% intervals. All panels have
    one scale of accuracy. Of more than `MOST_SERIES` methods, those with the best accuracy are drawn.

    Returns:
        SVG for a page, whose style sheet gives it its colours; empty where no metric of a panel is known.
    """
    by_base: dict[str, list[ChoicePoint]] = {}
    for point in prediction.points:
        by_base.setdefault(point.base, []).append(point)
    best = {base: max(point.accuracy.value or 0.0 for point in points) for base, points in by_base.items()}
    bases = sorted(best, key=lambda base: -best[base])[:MOST_SERIES]
    known = {item.metric for item in prediction.predictors}
    panels = [metric for metric in PANELS if metric in known]
    if not panels:
        return ""
    drawn = [point for base in bases for point in by_base[base]]
    ends = [end for point in drawn for end in _ends(point)]
    # Accuracy is no less than nothing.
    low, high = pad_range(min(ends), max(ends))
    low = max(low, 0.0) if min(ends) > 0 else low
    width = (WIDTH - _LEFT - _GAP - _RIGHT) / 2
    parts = ['<g class="large">']
    for i, (base, name) in enumerate(zip(bases, fit_names(bases, _LETTERS), strict=True)):
        x, y = _LEFT + (i % 2) * (width + _GAP), 14 + _NAME_ROW * (i // 2)
        parts.append(f'<g class="s{i}"><path class="line" d="M{x:.1f},{y - 4}h22"{dash_attribute(i)}/>')
        parts.append(f'<circle class="knot" cx="{x + 11:.1f}" cy="{y - 4}" r="3.5">{tip(base)}</circle>')
        parts.append(text(x + 28, y, name, "name") + "</g>")
    start = 14 + _NAME_ROW * ((len(bases) + 1) // 2) + _TOP
    for number, metric in enumerate(panels):
        left = _LEFT + (number % 2) * (width + _GAP)
        top = start + (number // 2) * (_HEIGHT + _TOP + 46)
        parts += _panel(
            metric, [by_base[base] for base in bases], (left, left + width), (top, top + _HEIGHT), (low, high)
        )
    bottom = start + ((len(panels) + 1) // 2) * (_HEIGHT + _TOP + 46) - _TOP
    title = f"Retrieval metrics and right choices on {prediction.dataset} ({prediction.picker})"
    return within_page(title, [*parts, "</g>"], WIDTH, bottom)


def _panel(
    metric: str,
    lines: Sequence[Sequence[ChoicePoint]],
    across: tuple[float, float],
    up: tuple[float, float],
    accuracies: tuple[float, float],
) -> list[str]:
    """One metric: axes, and for each method its points by the number of tools."""
    (left, right), (top, bottom) = across, up
    values = [value for line in lines for point in line if (value := point.metrics[metric]) is not None]
    low, high = pad_range(min(values, default=0.0), max(values, default=1.0))
    x, y = linear(low, high, left, right), linear(*accuracies, bottom, top)
    parts = rows(ticks(*accuracies), y, left, right, gap=6)
    marks = ticks(low, high)
    # Half as wide as other pictures: every second number has room.
    for value in marks[:: 2 if len(marks) > 5 else 1]:
        parts.append(f'<path class="grid" d="M{x(value):.1f},{top}V{bottom}"/>')
        parts.append(text(x(value), bottom + 16, f"{value:g}", "note middle"))
    parts.append(text(left, top - 8, "right choices", "note"))
    parts.append(text((left + right) / 2, bottom + 34, metric, "middle"))
    spots = [
        [
            (x(value), y(point.accuracy.value or 0.0), point)
            for point in line
            if (value := point.metrics[metric]) is not None
        ]
        for line in lines
    ]
    # No number may cover a mark.
    taken = [(at - 4, at + 4, height + 4) for line in spots for at, height, _ in line]
    for i, line in enumerate(spots):
        if not line:
            continue
        parts.append(f'<g class="s{i}">')
        parts.append(f'<path class="line" d="{path((at, height) for at, height, _ in line)}"{dash_attribute(i)}/>')
        for at, height, point in line:
            accuracy = point.accuracy
            if accuracy.low is not None and accuracy.high is not None:
                parts.append(f'<path class="reach" d="M{at:.1f},{y(accuracy.low):.1f}V{y(accuracy.high):.1f}"/>')
            hint = tip(
                f"{point.base}, {point.shown} shown: {estimate(accuracy.value, accuracy.low, accuracy.high)}, "
                f"{metric} {format_fixed(point.metrics[metric])}"
            )
            parts.append(f'<circle class="knot" cx="{at:.1f}" cy="{height:.1f}" r="3.5">{hint}</circle>')
            parts.append(_number(point.shown, at, height, taken))
        parts.append("</g>")
    return parts


def _number(shown: int, x: float, y: float, taken: list[tuple[float, float, float]]) -> str:
    """The number of tools beside a mark, where no other number or mark stands; none where there is no room."""
    width = 7.0 * len(str(shown))
    for at, height in ((x + 6, y - 5), (x + 6, y + 14), (x - 6 - width, y - 5), (x - 6 - width, y + 14)):
        if all(at > end or at + width < start or abs(height - other) > 10 for start, end, other in taken):
            taken.append((at, at + width, height))
            return text(at, height, str(shown), "name")
    return ""


def _ends(point: ChoicePoint) -> list[float]:
    """Of the accuracy and its interval."""
    accuracy = point.accuracy
    return [end for end in (accuracy.value, accuracy.low, accuracy.high) if end is not None]
