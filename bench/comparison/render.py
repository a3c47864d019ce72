"""A comparison as Markdown, CSV and LaTeX for `bench compare` and the API. Each format escapes untrusted names."""

from __future__ import annotations

from bench.base.text import one_line
from bench.comparison.report import ComparisonRecord, DatasetReport, MacroReport
from bench.comparison.tables import (
    grid,
    macro_table,
    margin_table,
    metric_table,
    moved_tables,
    slice_tables,
    standings,
    verdict,
)
from bench.comparison.tried import tried_sentences
from bench.results.units import sample
from bench.show import tables
from bench.show.numbers import SAME, count, format_fixed
from bench.show.tables import Table, latex_text, markdown_text
from bench.show.tables import markdown as markdown_table
from bench.stats.macro import FEWEST_SOURCES
from bench.stats.noninferiority import FEWEST_UNITS, LEVEL

#: Measured by `benchmarks/calibration.py`.
FEW_SOURCES = (
    f"With fewer than {FEWEST_SOURCES} sources, intervals over datasets are too narrow for other datasets: if datasets "
    "differ much, nominal 95% intervals cover the true value in about 78% and 90% of cases for two and three."
)
#: Maximum characters of a name in a caption, which has at most three lines.
_CAPTION_NAME = 36
PLACED = "In parentheses: floors and oracles, each as if it alone were added to the others."
SLICE_SIGNS = "Signs in a table of slices are corrected within that table, which is a family of its own."


def signs(report: ComparisonRecord) -> str:
    """The meaning of the signs, and the pairs corrected together, on which all statements about pairs rest."""
    correction = "Benjamini-Hochberg" if report.correction == "benjamini-hochberg" else "Holm"
    metrics = [metric.metric for metric in report.datasets[0].metrics]
    several = len(metrics) > 1 and report.correction != "holm-all"
    standings = (item for dataset in report.datasets for metric in dataset.metrics for item in metric.standings)
    placed = "" if all(item.reference for item in standings) else f" {PLACED}"
    same = ""
    if report.margin is not None:
        same = (
            f" {SAME}: the same as {report.baseline} within {report.margin:g} (two one-sided tests at 5% each, not "
            "corrected: the 90% interval of the difference lies inside the margin)."
        )
    primary = f"; {metrics[0]} is primary, the others are secondary" if several else ""
    return (
        f"†, ‡: p < {LEVEL}, 0.01. p, ranks, intervals of differences: {report.family}, corrected by "
        f"{correction}{primary}.{placed}{same}"
    )


def legend(report: ComparisonRecord) -> str:
    """The legend of the tables."""
    return f"{signs(report)} Tests are paired randomisation tests; they and intervals use groups of dependent queries."


def reversed_orders(dataset: DatasetReport) -> list[str]:
    """A sentence for each pair of systems whose order depends on tools that read like a gold tool."""
    sentences = []
    for metric in dataset.metrics:
        standings = {item.system: item for item in metric.standings}
        for first, second in metric.reversed:
            means = [format_fixed(standings[name].mean) for name in (first, second)]
            lenient = [number for name in (first, second) if (number := standings[name].lenient) is not None]
            sentences.append(
                f"{metric.metric}: the order of {first} and {second} depends on gold: {means[0]} and {means[1]}, but "
                f"{format_fixed(lenient[0])} and {format_fixed(lenient[1])} if tools that read like a gold tool count"
            )
    return sentences


def catalogue_lines(dataset: DatasetReport) -> list[str]:
    """A line for each of the first tools that differ between a system and the baseline."""
    all_lines = []
    for item in dataset.catalogues:
        shown = item.change.lines()
        lines = [f"{what} {one_line(tool)}{f': {one_line(more)}' if more else ''}" for what, tool, more in shown]
        lines += [f"{item.change.size - len(shown)} more"] if item.change.size > len(shown) else []
        all_lines += [f"{item.system}: {line}" for line in [*lines, *item.change.notes]]
    return all_lines


def few_units(dataset: DatasetReport) -> list[str]:
    """A warning if there are too few units for conclusions."""
    few = {metric.units for metric in dataset.metrics if not all(item.decided for item in metric.differences)}
    if not few:
        return []
    return [
        f"{min(few)} {'group' if few == {1} else 'groups'} of dependent queries are too few for conclusions (they must "
        f"be worth at least {FEWEST_UNITS} independent queries): nothing is marked as different, and intervals are "
        "approximate"
    ]


def answer_tokens(dataset: DatasetReport) -> list[str]:
    """A sentence with the tokens of the answers of each external search; empty if unknown."""
    known = [f"{item.name} {count(item.answer_tokens)}" for item in dataset.systems if item.answer_tokens is not None]
    return [f"mean tokens of an answer, as the search sent it: {', '.join(known)}"] if known else []


def title(dataset: DatasetReport) -> str:
    """`apibank (test; 269 judged queries, 82 groups (effective 55))`."""
    limit = "" if dataset.limit is None else f", limit {dataset.limit}"
    size = sample(dataset.n, dataset.units, dataset.effective, "judged query")
    return f"{dataset.dataset} ({dataset.split}{limit}; {size})"


def few_sources(macro: MacroReport) -> list[str]:
    """A warning if intervals over datasets are too narrow."""
    return [FEW_SOURCES] if len(set(macro.sources)) < FEWEST_SOURCES else []


def markdown(report: ComparisonRecord) -> str:
    """The whole comparison as GitHub's Markdown."""
    parts = [f"# Compared with {markdown_text(report.baseline)}", markdown_text(legend(report))]
    for dataset in report.datasets:
        parts.append(f"## {markdown_text(title(dataset))}")
        notes = [f"{item.name}: {', '.join(item.marks)}" for item in dataset.systems if item.marks]
        notes += [f"{item.name}: failed queries: {item.n_failed}" for item in dataset.systems if item.n_failed]
        notes += catalogue_lines(dataset)
        notes += [*dataset.origin, *answer_tokens(dataset), *few_units(dataset), *reversed_orders(dataset)]
        notes += tried_sentences(dataset)
        if notes:
            parts.append("\n".join(f"- {markdown_text(note)}" for note in notes))
        for metric in dataset.metrics:
            parts.append(f"### {metric.metric}" + ("" if metric.n == dataset.n else f" (n = {metric.n})"))
            parts.append(markdown_table(metric_table(metric, report.baseline)))
        if report.margin is not None:
            margins = margin_table(dataset.metrics)
            parts += [f"### {margins.title}", markdown_table(margins)]
        for table in slice_tables(dataset):
            parts += [f"### {markdown_text(table.title)}", markdown_table(table), SLICE_SIGNS]
        for table in moved_tables(dataset, report.baseline):
            parts += [f"### {markdown_text(table.title)}", markdown_table(table)]
    if report.macro:
        parts.append("## Over all datasets")
        for macro in report.macro:
            parts.append(f"### {macro.metric}")
            parts += [markdown_text(macro.statement)] if macro.statement else []
            parts += [*few_sources(macro), markdown_table(macro_table(macro))]
    return "\n\n".join(parts) + "\n"


#: Columns of the flat table of a comparison.
COLUMNS = (
    "dataset split metric n units system result_id mean low high tier rank_low rank_high baseline difference "
    "difference_low difference_high p corrected p_t p_wilcoxon dz wins ties losses detectable needed verdict "
    "margin_low margin_high lenient variants best_variant p_variants"
).split()


def flat_rows(report: ComparisonRecord) -> list[list[object]]:
    """One row of `COLUMNS` for each dataset, metric and system; the baseline has None in columns of the difference."""
    rows: list[list[object]] = []
    for dataset in report.datasets:
        ids = {item.name: item.result_id for item in dataset.systems}
        for metric in dataset.metrics:
            tried = {item.system: item for item in metric.tried}
            for standing, d in standings(metric):
                row = {"dataset": dataset.dataset, "split": dataset.split, "baseline": report.baseline, "variants": 1}
                row |= vars(metric) | {"result_id": ids[standing.system]}
                if d is not None:
                    row |= vars(d) | {"difference_low": d.low, "difference_high": d.high}
                    row["verdict"] = verdict(d, metric.units)
                    row |= {} if d.margin is None else {"margin_low": d.margin.low, "margin_high": d.margin.high}
                if (item := tried.get(standing.system)) is not None:
                    row |= {"variants": item.variants, "best_variant": item.best, "p_variants": item.p}
                row |= vars(standing)
                rows.append([row.get(name) for name in COLUMNS])
    return rows


def csv_text(report: ComparisonRecord) -> str:
    """The flat table as CSV."""
    return tables.csv_text([COLUMNS, *flat_rows(report)])


def latex(report: ComparisonRecord, details: bool = False) -> str:
    """One table, ready to paste: the best of a column is bold, the second underlined, daggers mark differences.

    Args:
        report: the comparison.
        details: whether to show the 95% interval of each mean.
    """
    metrics = list(dict.fromkeys(metric.metric for dataset in report.datasets for metric in dataset.metrics))
    (table,) = grid(report, metrics, intervals=details)
    comments = [title(dataset) for dataset in report.datasets]
    for dataset in report.datasets:
        comments += [f"{dataset.dataset}: {said}" for said in (*dataset.origin, *tried_sentences(dataset))]
    comments += [f"{macro.metric}: {macro.statement}" for macro in report.macro if macro.statement]
    base, on = (one_line(name, _CAPTION_NAME) for name in (report.baseline, report.datasets[0].dataset))
    about = "by dataset and over all" if report.macro else f"on {on}"
    same = "" if report.margin is None else f" {SAME}: the same within {report.margin:g}."
    caption = latex_text(
        f"Means {'and 95% intervals ' if details else ''}{about}; the best is bold, the second underlined. "
        f"†, ‡: differs from {base} with corrected p < {LEVEL}, 0.01.{same}"
    )
    for sign, command in (("†", r"$\dagger$"), ("‡", r"$\ddagger$"), (SAME, r"$\approx$")):
        caption = caption.replace(sign, command)
    return tables.latex(table, caption, [*comments, signs(report)])


def metric_tables(report: ComparisonRecord) -> list[Table]:
    """A table for each metric on each dataset: its systems, best first."""
    made = []
    for dataset in report.datasets:
        for metric in dataset.metrics:
            made.append(metric_table(metric, report.baseline))
            made[-1].title = f"{metric.metric} on {dataset.dataset} ({dataset.split}), {sample(metric.n, metric.units)}"
    return made
