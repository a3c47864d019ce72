"""A LaTeX table per board: booktabs, best values in bold, oracles below a rule, marks in the caption.

`write` calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.base.errors import UsageError
from bench.base.text import label
from bench.metrics import parse_metric
from bench.results.store import StoredResult
from bench.show.numbers import format_fixed
from bench.show.tables import Cell, Table, latex, latex_text

#: Maximum characters of a mark or a name.
_MOST = 300


def board_latex(rows: Sequence[StoredResult], metrics: Sequence[str], marks: Mapping[str, Sequence[str]]) -> str:
    """The table of one board.

    Args:
        rows: comparable results, in the order of the lines, oracles last.
        metrics: columns; those that no row has are left out.
        marks: result id -> its marks.
    """
    shown = [metric for metric in metrics if any(metric in row.metrics.metrics for row in rows)]
    judged = [row for row in rows if not row.manifest.method.oracle]
    best = {metric: _best(judged, metric) for metric in shown}
    table = Table(["Method", *shown], right=range(1, len(shown) + 1))
    notes: dict[str, int] = {}
    for i, row in enumerate(rows):
        begins = row.manifest.method.oracle and i > 0 and not rows[i - 1].manifest.method.oracle
        table.add(_method(row, marks, notes), *(_cell(row, metric, best[metric]) for metric in shown), rule=begins)
    data = rows[0].manifest.dataset
    limit = "" if data.limit is None else f", limit {data.limit}"
    caption = f"{latex_text(label(data.spec), _MOST)} ({data.split}{limit}, $n={rows[0].metrics.n}$)."
    caption += "".join(f" $^{{{number}}}$ {latex_text(mark, _MOST)}." for mark, number in notes.items())
    return latex(table, caption)


def _method(row: StoredResult, marks: Mapping[str, Sequence[str]], notes: dict[str, int]) -> Cell:
    """The method's name with a number for each of its marks, which the caption explains."""
    numbers = [str(notes.setdefault(mark, len(notes) + 1)) for mark in marks.get(row.manifest.result_id, ())]
    return Cell(label(row.manifest.method.label), mark=",".join(numbers))


def _best(rows: Sequence[StoredResult], metric: str) -> str | None:
    """The best printed value of a column; None if the metric's direction is unknown."""
    means = [row.metrics.metrics[metric].mean for row in rows if metric in row.metrics.metrics]
    try:
        higher = parse_metric(metric).measure.higher_is_better
    except UsageError:
        return None
    return format_fixed(max(means) if higher else min(means)) if means else None


def _cell(row: StoredResult, metric: str, best: str | None) -> Cell:
    value = row.metrics.metrics.get(metric)
    if value is None:
        return Cell("-")
    text = format_fixed(value.mean)
    # Compare printed values: two that look the same are both best.
    return Cell(text, emphasis="best" if text == best and not row.manifest.method.oracle else "")
