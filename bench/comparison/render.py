"""A comparison as Markdown, CSV and LaTeX. Names are untrusted, and each format escapes them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from bench.base.tables import Table
from bench.base.text import one_line
from bench.comparison.report import Comparison, DatasetReport, Difference, MetricReport, Move
from bench.results.units import sample
from bench.stats.noninferiority import FEWEST_UNITS, LEVEL

#: Characters of a query that a report shows.
LONGEST_TEXT = 160
#: Moved tools of one query that a report names.
_MOST_TOOLS = 5
#: Measured by `benchmarks/calibration.py`.
FEW_DATASETS = (
    "These intervals resample datasets, and are too narrow for few datasets: if datasets "
    "differ much, nominal 95% intervals cover the true value in about 60%, 80% and 87% of "
    "cases for two, three and five datasets."
)
#: Of `bench compare --unit none`.
INDEPENDENT = (
    "These numbers take queries as independent. Where queries share a group they are wrong: intervals are too narrow "
    "and p-values too small."
)
SLICE_SIGNS = "Signs in a table of slices are corrected within that table, which is a family of its own."
#: p-values below these get these signs.
DAGGERS = ((0.01, "‡"), (LEVEL, "†"))
_LATEX_DAGGERS = {"‡": r"\ddagger", "†": r"\dagger", "": ""}


def dagger(difference: Difference | None) -> str:
    """The sign of a corrected p-value; none for the baseline, and where there are too few units for a conclusion."""
    if difference is None or not difference.decided:
        return ""
    return next((sign for level, sign in DAGGERS if difference.corrected < level), "")


def signs(report: Comparison) -> str:
    """What the daggers mean, and which comparisons were corrected together."""
    correction = {"holm": "Holm", "benjamini-hochberg": "Benjamini-Hochberg"}[report.correction]
    return (
        f"† and ‡: differs from {report.baseline} with p < {LEVEL} and p < 0.01 (paired randomisation test, corrected "
        f"by {correction} over a family of {report.family})."
    )


def legend(report: Comparison) -> str:
    """What is in the tables."""
    return (
        f"{signs(report)} Intervals are 95% intervals over groups of dependent queries, not corrected. No two "
        "systems of a tier differ in paired randomisation tests of all pairs, corrected by Holm for each metric."
    )


def reversed_orders(dataset: DatasetReport) -> list[str]:
    """A sentence for each pair of systems whose order depends on tools that read like a gold tool."""
    found = []
    for metric in dataset.metrics:
        own = {item.system: item for item in metric.standings}
        for first, second in metric.reversed:
            means = [f"{own[name].mean:.3f}" for name in (first, second)]
            lenient = [number for name in (first, second) if (number := own[name].lenient) is not None]
            found.append(
                f"{metric.metric}: the order of {first} and {second} depends on gold: {means[0]} and {means[1]}, but "
                f"{lenient[0]:.3f} and {lenient[1]:.3f} if tools that read like a gold tool count"
            )
    return found


def catalogue_lines(dataset: DatasetReport) -> list[str]:
    """A line for each of the first tools that a system has otherwise than the baseline."""
    found = []
    for item in dataset.catalogues:
        shown = item.change.lines()
        lines = [f"{what} {one_line(tool)}{f': {one_line(more)}' if more else ''}" for what, tool, more in shown]
        lines += [f"{item.change.size - len(shown)} more"] if item.change.size > len(shown) else []
        found += [f"{item.system}: {line}" for line in [*lines, *item.change.notes]]
    return found


def tool_lines(move: Move) -> list[str]:
    """Where each gold tool of a query was, where it is, and what is in its place; the first few."""
    found = [f"{one_line(tool.tool_id)}: {tool.words}" for tool in move.tools[:_MOST_TOOLS]]
    return [*found, *([f"and {len(move.tools) - len(found)} more"] if len(move.tools) > len(found) else [])]


def few_units(dataset: DatasetReport) -> list[str]:
    """What to say where there are too few units for conclusions."""
    few = {metric.units for metric in dataset.metrics if metric.units < FEWEST_UNITS}
    if not few:
        return []
    return [
        f"{min(few)} {'group' if few == {1} else 'groups'} of dependent queries are too few for conclusions (at least "
        f"{FEWEST_UNITS} are needed): nothing is marked as different, and intervals are approximate"
    ]


def answer_tokens(dataset: DatasetReport) -> list[str]:
    """What an agent pays for the answers of each search outside of bench, in a sentence; none where nobody knows it."""
    known = [f"{item.name} {item.answer_tokens:.0f}" for item in dataset.systems if item.answer_tokens is not None]
    return [f"mean tokens of an answer, as the search sent it: {', '.join(known)}"] if known else []


def markdown(report: Comparison) -> str:
    """The whole comparison as GitHub's Markdown."""
    parts = [f"# Compared with {_cell(report.baseline)}", _cell(legend(report))]
    for dataset in report.datasets:
        limit = "" if dataset.limit is None else f", limit {dataset.limit}"
        parts.append(f"## {_cell(dataset.dataset)} ({dataset.split}{limit}; {_size(dataset)})")
        notes = [f"{item.name}: {', '.join(item.marks)}" for item in dataset.systems if item.marks]
        notes += [f"{item.name}: {item.n_failed} queries failed" for item in dataset.systems if item.n_failed]
        notes += catalogue_lines(dataset)
        notes += [*dataset.origin, *answer_tokens(dataset), *few_units(dataset), *reversed_orders(dataset)]
        if notes:
            parts.append("\n".join(f"- {_cell(note)}" for note in notes))
        for metric in dataset.metrics:
            parts.append(f"### {metric.metric}" + ("" if metric.n == dataset.n else f" (n = {metric.n})"))
            parts.append(_markdown_metric(metric, report.baseline))
        parts += _markdown_independent(dataset)
        parts += _markdown_slices(dataset)
        parts += _markdown_moves(dataset, report.baseline)
    if report.macro:
        parts.append("## Over all datasets")
        for macro in report.macro:
            test = "" if macro.friedman is None else f"Friedman p = {p_text(macro.friedman)}; "
            parts.append(f"### {macro.metric}")
            parts.append(
                f"{test}mean ranks that differ by {macro.critical:.2f} or more differ (Nemenyi, 5%). {FEW_DATASETS}"
            )
            rows = [
                [item.system, f"{item.rank:.2f}", interval(item.mean, item.low, item.high)] for item in macro.standings
            ]
            parts.append(_grid(["system", "mean rank", "mean of the datasets' means"], rows))
    return "\n\n".join(parts) + "\n"


def _markdown_metric(metric: MetricReport, baseline: str) -> str:
    found = {item.system: item for item in metric.differences}
    rows = []
    for standing in metric.standings:
        own = found.get(standing.system)
        rows.append(
            [
                standing.system,
                interval(standing.mean, standing.low, standing.high) + dagger(own),
                str(standing.tier),
                ranks(standing.rank_low, standing.rank_high),
                *difference_cells(own),
            ]
        )
    heads = ["system", "mean", "tier", "rank", f"less {baseline}", "p", "corrected", "dz", "W/T/L", "detectable"]
    return _grid(heads, rows)


def _size(dataset: DatasetReport) -> str:
    return sample(dataset.n, dataset.units, dataset.effective, "judged queries")


def _markdown_independent(dataset: DatasetReport) -> list[str]:
    rows = [
        [
            d.system,
            metric.metric,
            interval(d.difference, d.independent.low, d.independent.high),
            p_text(d.independent.p),
        ]
        for metric in dataset.metrics
        for d in metric.differences
        if d.independent is not None
    ]
    if not rows:
        return []
    head = ["system", "metric", "difference", "p"]
    return ["### As if queries were independent", INDEPENDENT, _grid(head, rows)]


def _markdown_slices(dataset: DatasetReport) -> list[str]:
    parts = []
    for name in dict.fromkeys(item.slice for item in dataset.slices):
        own = [item for item in dataset.slices if item.slice == name]
        systems = [item.name for item in dataset.systems]
        rows = []
        for item in own:
            by_system = {difference.system: difference for difference in item.differences}
            means = [f"{item.means[system]:.3f}{dagger(by_system.get(system))}" for system in systems]
            rows.append([item.value, str(item.n), str(item.units), *means])
        parts.append(f"### {own[0].metric} by {_cell(name)}")
        parts.append(_grid([name, "n", "groups", *systems], rows))
        parts.append(SLICE_SIGNS)
    return parts


def _markdown_moves(dataset: DatasetReport, baseline: str) -> list[str]:
    parts = []
    for moves in dataset.moves:
        for title, found in (("gained", moves.gained), ("lost", moves.lost)):
            if found:
                parts.append(f"### Queries that {_cell(moves.system)} {title} most on {moves.metric}")
                rows = [
                    [
                        f"{m.baseline:.2f} → {m.system:.2f}",
                        m.query_id,
                        one_line(m.text or "", LONGEST_TEXT),
                        *(["; ".join(tool_lines(m))] if dataset.catalogues else []),
                    ]
                    for m in found
                ]
                more = ["tools"] if dataset.catalogues else []
                parts.append(_grid([f"{baseline} → {moves.system}", "query", "text", *more], rows))
    return parts


def interval(mean: float, low: float | None, high: float | None) -> str:
    """A mean and its interval."""
    return f"{mean:.3f}" if low is None or high is None else f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def ranks(low: int, high: int) -> str:
    """A rank interval."""
    return str(low) if low == high else f"{low}-{high}"


def p_text(p: float) -> str:
    """A p-value to two digits."""
    return "<1e-4" if p < 1e-4 else f"{p:.2g}" if p < 0.995 else "1"


def difference_cells(difference: Difference | None) -> list[str]:
    """Difference and interval, p, corrected p, dz, wins/ties/losses, detectable effect; blanks for the baseline."""
    if difference is None:
        return ["", "", "", "", "", ""]
    d = difference
    signed = f"{d.difference:+.3f}"
    if d.low is not None and d.high is not None:
        signed += f" [{d.low:+.3f}, {d.high:+.3f}]"
    dz = "-" if d.dz is None else f"{d.dz:+.2f}"
    detectable = "-" if d.detectable is None else f"{d.detectable:.3f}"
    return [signed, p_text(d.p), p_text(d.corrected), dz, f"{d.wins}/{d.ties}/{d.losses}", detectable]


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell if cell == "---" else _cell(cell) for cell in line) + " |" for line in lines
    )


_MARKUP = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;", **{sign: "\\" + sign for sign in "\\`*|"}})


def _cell(text: str) -> str:
    """A text that stays within its cell, and is no markup."""
    return " ".join(text.split()).translate(_MARKUP).replace("](", "]\\(")


#: Columns of a comparison as one flat table.
COLUMNS = (
    "dataset split metric n units system result_id mean low high tier rank_low rank_high baseline difference "
    "difference_low difference_high p corrected p_t p_wilcoxon dz wins ties losses detectable needed lenient"
).split()


def flat_rows(report: Comparison) -> list[list[object]]:
    """One row of `COLUMNS` for each dataset, metric and system; the baseline has None in those of the difference."""
    found: list[list[object]] = []
    for dataset in report.datasets:
        ids = {item.name: item.result_id for item in dataset.systems}
        for metric in dataset.metrics:
            differences = {item.system: item for item in metric.differences}
            for s in metric.standings:
                head: list[object] = [dataset.dataset, dataset.split, metric.metric, metric.n, metric.units]
                head += [s.system, ids[s.system]]
                head += [s.mean, s.low, s.high, s.tier, s.rank_low, s.rank_high, report.baseline]
                d = differences.get(s.system)
                tail: list[object] = [None] * 13
                if d is not None:
                    tail = [d.difference, d.low, d.high, d.p, d.corrected, d.p_t, d.p_wilcoxon, d.dz]
                    tail += [d.wins, d.ties, d.losses, d.detectable, d.needed]
                found.append([*head, *tail, s.lenient])
    return found


def csv_text(report: Comparison) -> str:
    """The flat table as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_csv_cell(value) for value in row] for row in flat_rows(report))
    return out.getvalue()


def _csv_cell(value: object) -> object:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@"} else value


def latex(report: Comparison) -> str:
    """A table for each dataset, ready to paste: the best of a metric is bold, daggers say what differs."""
    parts = []
    caption = _latex(signs(report))
    for dataset in report.datasets:
        names = [item.name for item in dataset.systems]
        origin = "".join(f"{_latex(sentence[:1].upper() + sentence[1:])}. " for sentence in dataset.origin)
        lines = [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{l{'r' * len(dataset.metrics)}}}",
            r"\toprule",
            " & ".join(["Method", *(_latex(metric.metric) for metric in dataset.metrics)]) + r" \\",
            r"\midrule",
        ]
        for name in names:
            cells = [_latex_value(metric, name) for metric in dataset.metrics]
            lines.append(" & ".join([_latex(name), *cells]) + r" \\")
        lines += [
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_latex(dataset.dataset)} ({dataset.split}; {_size(dataset)}). {origin}{caption}}}",
            r"\end{table}",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _latex_value(metric: MetricReport, name: str) -> str:
    means = {item.system: item.mean for item in metric.standings}
    best = max(means.values()) if metric.higher_is_better else min(means.values())
    value = f"{means[name]:.3f}"
    # By what is printed: two that look the same are both best.
    text = rf"\textbf{{{value}}}" if value == f"{best:.3f}" else value
    sign = _LATEX_DAGGERS[dagger(next((item for item in metric.differences if item.system == name), None))]
    return rf"{text}$^{{{sign}}}$" if sign else text


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


_HEAD = ("system", "mean", "tier", "rank", "difference", "p", "corrected", "dz", "W/T/L", "detectable")


def metric_tables(report: Comparison) -> list[Table]:
    """A table for each metric on each dataset: its systems, best first."""
    return [
        Table(
            f"{metric.metric} on {dataset.dataset} ({dataset.split}), {sample(metric.n, metric.units)}",
            _HEAD,
            _metric_rows(metric),
        )
        for dataset in report.datasets
        for metric in dataset.metrics
    ]


def _metric_rows(metric: MetricReport) -> list[list[str]]:
    found = {item.system: item for item in metric.differences}
    return [
        [
            item.system,
            interval(item.mean, item.low, item.high) + dagger(found.get(item.system)),
            str(item.tier),
            ranks(item.rank_low, item.rank_high),
            *difference_cells(found.get(item.system)),
        ]
        for item in metric.standings
    ]
