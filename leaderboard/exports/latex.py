"""A LaTeX table per board: booktabs, best values in bold, oracles below a rule, marks in the caption."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bench.base.errors import UsageError
from bench.base.text import label, one_line
from bench.metrics import parse_metric
from bench.results.store import StoredResult

_SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\symbol{34}",
}


def escaped(text: str) -> str:
    """A text that LaTeX sets as it is, and runs nothing of."""
    signs = "".join(_SIGNS.get(sign, sign) for sign in one_line(text, 300))
    # Two in a row would join: hyphens to a dash, quotes to one sign.
    return re.sub(r"([-'])(?=\1)", r"\1{}", signs)


def board_latex(rows: Sequence[StoredResult], metrics: Sequence[str], marks: Mapping[str, Sequence[str]]) -> str:
    """The table of one board.

    Args:
        rows: results that compare, in the order of the lines; oracles come last.
        metrics: columns; those that no row has are left out.
        marks: result id -> its marks.
    """
    shown = [metric for metric in metrics if any(metric in row.metrics.metrics for row in rows)]
    judged = [row for row in rows if not row.manifest.method.oracle]
    best = {metric: _best(judged, metric) for metric in shown}
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{l{'r' * len(shown)}}}",
        r"\toprule",
        " & ".join(["Method", *(escaped(metric) for metric in shown)]) + r" \\",
        r"\midrule",
    ]
    notes: dict[str, int] = {}
    for i, row in enumerate(rows):
        if row.manifest.method.oracle and i and not rows[i - 1].manifest.method.oracle:
            lines.append(r"\midrule")
        cells = [_method(row, marks, notes), *(_cell(row, metric, best[metric]) for metric in shown)]
        lines.append(" & ".join(cells) + r" \\")
    data = rows[0].manifest.dataset
    limit = "" if data.limit is None else f", limit {data.limit}"
    caption = f"{escaped(label(data.spec))} ({data.split}{limit}, $n={rows[0].metrics.n}$)."
    caption += "".join(f" $^{{{number}}}$ {escaped(mark)}." for mark, number in notes.items())
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _method(row: StoredResult, marks: Mapping[str, Sequence[str]], notes: dict[str, int]) -> str:
    """The method's name with a number for each of its marks, which the caption explains."""
    numbers = [str(notes.setdefault(mark, len(notes) + 1)) for mark in marks.get(row.manifest.result_id, ())]
    text = escaped(label(row.label.rpartition(" @ ")[0]))
    return f"{text}$^{{{','.join(numbers)}}}$" if numbers else text


def _best(rows: Sequence[StoredResult], metric: str) -> str | None:
    """The best printed value of a column; None if it is not known which direction is better."""
    means = [row.metrics.metrics[metric].mean for row in rows if metric in row.metrics.metrics]
    try:
        higher = parse_metric(metric).measure.higher_is_better
    except UsageError:
        return None
    return f"{max(means) if higher else min(means):.3f}" if means else None


def _cell(row: StoredResult, metric: str, best: str | None) -> str:
    value = row.metrics.metrics.get(metric)
    if value is None:
        return "--"
    text = f"{value.mean:.3f}"
    # By what is printed: two that look the same are both best.
    return rf"\textbf{{{text}}}" if text == best and not row.manifest.method.oracle else text
