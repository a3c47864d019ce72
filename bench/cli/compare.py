"""`bench compare`: compare systems: differences, intervals, corrected tests, ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.bars import progress
from bench.base.text import one_line
from bench.cli.common import format_option
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_datasets, complete_results
from bench.cli.output import console, print_json
from bench.comparison.compare import ComparisonQuestion, compare_results
from bench.comparison.comparison import Comparison
from bench.comparison.render import (
    SLICE_SIGNS,
    answer_tokens,
    catalogue_lines,
    csv_text,
    few_sources,
    few_units,
    latex,
    legend,
    markdown,
    reversed_orders,
    signs,
    title,
)
from bench.comparison.report import Correction, DatasetReport, MetricReport
from bench.comparison.tables import (
    LONGEST_TEXT,
    dagger,
    full_table,
    grid,
    macro_table,
    margin_table,
    short_table,
    slice_tables,
    tool_lines,
)
from bench.comparison.tried import tried_sentences
from bench.evaluation.opening import open_result
from bench.lookup.folder import ResultsFolder
from bench.metrics import parse_metrics
from bench.show.numbers import format_fixed, p_value, several

if TYPE_CHECKING:
    from rich.console import Console


@click.command("compare", cls=VerbCommand, common=("results", "source", "json"))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_results)
@click.option(
    "-d",
    "--dataset",
    "datasets",
    multiple=True,
    shell_complete=complete_datasets,
    help="Dataset for names without one; repeatable.",
)
@click.option("-m", "--metric", "metrics", multiple=True, help="Compare only this metric; repeatable.")
@click.option("--by", "slices", multiple=True, metavar="SLICE", help="Split the first metric by a slice; repeatable.")
@click.option(
    "--moved",
    type=click.IntRange(0, 1000),
    help="Number of queries to list with the largest change [default: 5, of two systems on one dataset].",
)
@click.option("--margin", type=float, help="Also test which systems are equivalent within this margin, such as 0.01.")
@more_option(
    "--correction", type=click.Choice(["holm", "benjamini-hochberg", "holm-all"]), default="holm", show_default=True,
    help="Correction of the p-values of all pairs, per metric; holm-all: over all metrics and datasets.",
)  # fmt: skip
@more_option(
    "--across",
    type=click.Choice(["catalogues"]),
    help="catalogues: compare results on the same queries whose tools were edited, added or removed.",
)
@format_option("markdown", "csv", "latex", note="latex: one table, ready to paste.")
@click.option("--details", is_flag=True, help="All metrics and all their numbers; in LaTeX, 95% intervals.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a chart of the first metric to this file: .svg, .png or .pdf.",
)
def command(
    names: tuple[str, ...],
    datasets: tuple[str, ...],
    metrics: tuple[str, ...],
    slices: tuple[str, ...],
    moved: int | None,
    margin: float | None,
    correction: Correction,
    across: str | None,
    layout: str,
    details: bool,
    picture: Path | None,
    results: Path,
) -> None:
    """Compare stored results with a baseline, the first one named.

    A name is METHOD@DATASET, a result id, a folder, or a run file (RUN.trec@DATASET). With -d, a name can be just a
    method. Over several datasets, the output adds macro means, ranks and a sentence about the best system:

      bench compare tgr@apibank dense@apibank bm25@apibank

      bench compare tgr dense bm25 -d apibank -d starter

    Every difference has a 95% interval, a paired randomisation test, and the minimum detectable effect (MDE). Queries
    that share a gold set, a dialogue or a template are resampled together, as their dataset's unit of independence says
    (`bench data info`). Failing to find a difference does not show equivalence: --margin tests that. Results on
    different queries are refused. Results on different tools are refused, unless you ask for them:

      bench compare bm25@mytools bm25@mytools-edited --across catalogues
    """
    bars = progress()
    if picture is not None:
        from bench.comparison.figures import Figure
        from bench.show.figures import check_picture

        check_picture(picture)
    wanted = tuple(str(metric) for metric in parse_metrics(metrics))
    # The texts of moved queries take the dataset, so it is only loaded for what prints them.
    pair = len(names) * max(1, len(datasets)) <= _PAIR
    printed = layout in {"json", "markdown"} or (layout == "table" and (details or pair))
    listed = (_MOVED if printed else 0) if moved is None else moved
    question = ComparisonQuestion(wanted, slices, listed, correction, margin)
    stored = ResultsFolder(results)
    contestants = [open_result(name, stored, dataset, bars) for dataset in datasets or (None,) for name in names]
    report = compare_results(contestants, question, across=across is not None, progress=bars, folder=stored)
    if picture is not None:
        Figure.of(report).save(picture)
    if layout == "json":
        print_json(report.to_dict())
    elif layout == "table":
        if details:
            _print_all(report)
        else:
            _print_short(report, wanted, moved is not None)
    else:
        texts: dict[str, Callable[[Comparison], str]] = {
            "markdown": markdown,
            "csv": csv_text,
            "latex": partial(latex, details=details),
        }
        click.echo(texts[layout](report), nl=False)


#: Metrics shown by default, and the number of systems up to which moved queries are shown by default.
_FIRST, _PAIR = 3, 2
#: Moved queries listed in each direction by default.
_MOVED = 5
#: More would bury the tables.
_MOST_HINTS = 3


def _print_short(report: Comparison, metrics: Sequence[str], moved: bool) -> None:
    """Print the tables that a reader wants first.

    Args:
        report: the comparison.
        metrics: the metrics named by the user; if empty, the first few of the report.
        moved: whether to show the queries that moved most for any number of systems.
    """
    out = console()
    every = list(dict.fromkeys(metric.metric for dataset in report.datasets for metric in dataset.metrics))
    shown = list(metrics) or every[:_FIRST]
    if len(report.datasets) == 1:
        (dataset,) = report.datasets
        _print_head(out, dataset, report.baseline, _notes(dataset, shown))
        metrics_shown = [metric for metric in dataset.metrics if metric.metric in shown]
        out.print(short_table(metrics_shown, dataset.n))
        _print_margins(out, metrics_shown)
        _print_more(out, dataset)
        if moved or len(dataset.systems) <= _PAIR:
            _print_moves(out, dataset)
    else:
        datasets = ", ".join(f"{one_line(item.dataset)} {item.n}" for item in report.datasets)
        out.print(f"{several(len(report.datasets), 'dataset')}, with their judged queries: {datasets}")
        _print_shared(out, report, shown)
        for table in grid(report, shown, out.width):
            out.print(table)
        for dataset in report.datasets:
            metrics_shown = [metric for metric in dataset.metrics if metric.metric in shown]
            _print_margins(out, metrics_shown, f" on {one_line(dataset.dataset)}")
            _print_more(out, dataset)
            if moved:
                _print_moves(out, dataset)
        for macro in report.macro:
            if macro.metric in shown and macro.statement:
                out.print(f"{macro.metric}: {one_line(macro.statement)}")
    _print_below(out, report)
    out.print(signs(report), style="dim")
    left = [name for name in every if name not in shown]
    more = f"{', '.join(left)}, and " if left else ""
    out.print(f"--details: {more}all other numbers", style="dim")


def _print_shared(out: Console, report: Comparison, metrics: Sequence[str]) -> None:
    """Print the notes of all datasets, each once, with the datasets it applies to."""
    notes: dict[str, list[str]] = {}
    for dataset in report.datasets:
        for note in _notes(dataset, metrics):
            notes.setdefault(note, []).append(one_line(dataset.dataset))
    for note, datasets in notes.items():
        where = "" if len(datasets) == len(report.datasets) else f" ({', '.join(datasets)})"
        out.print(f"{note}{where}", style="yellow")


def _notes(dataset: DatasetReport, metrics: Sequence[str] | None = None, details: bool = False) -> list[str]:
    """What a reader must know about the results of a dataset. A mark shared by all of them is about the dataset.

    Args:
        dataset: its report.
        metrics, details: as in `tried_sentences`.
    """
    common = [mark for mark in dataset.systems[0].marks if all(mark in item.marks for item in dataset.systems)]
    # A warning that begins with a mark includes it.
    shared = [mark for mark in common if not any(text.startswith(mark) for text in dataset.warnings)]
    notes = [f"note: {', '.join(shared)}"] if shared else []
    for system in dataset.systems:
        remarks = [mark for mark in system.marks if mark not in common]
        remarks += [f"failed queries: {system.n_failed}"] if system.n_failed else []
        notes += [f"{system.name}: {', '.join(remarks)}"] if remarks else []
    notes += [f"note: {text}" for text in (*dataset.warnings, *few_units(dataset), *reversed_orders(dataset))]
    return [one_line(note) for note in (*notes, *tried_sentences(dataset, metrics, details))]


def _print_all(report: Comparison) -> None:
    """Print every number, dataset by dataset."""
    out = console()
    for dataset in report.datasets:
        _print_head(out, dataset, report.baseline, _notes(dataset, details=True))
        out.print(full_table(dataset.metrics, dataset.n))
        _print_margins(out, dataset.metrics)
        _print_more(out, dataset)
        _print_moves(out, dataset)
    for macro in report.macro:
        out.print(f"{macro.metric} over {', '.join(map(one_line, macro.datasets))}")
        if macro.statement:
            out.print(one_line(macro.statement))
        out.print(macro_table(macro))
        alike = "" if macro.friedman is None else f"Friedman p = {p_value(macro.friedman)}; "
        out.print(f"{alike}Nemenyi's critical difference of mean ranks {format_fixed(macro.critical, 2)}", style="dim")
    if report.macro:
        for sentence in few_sources(report.macro[0]):
            out.print(sentence, style="dim")
    _print_below(out, report)
    out.print(legend(report), style="dim")
    doubtful = [
        (item.system, metric.metric, abs(item.difference), item.needed, metric.units)
        for dataset in report.datasets
        for metric in dataset.metrics
        for item in metric.differences
        if not dagger(item) and item.needed is not None and item.needed > metric.units
    ]
    for system, name, size, needed, units in doubtful[:_MOST_HINTS]:
        hint = f"detecting a difference of {format_fixed(size)} takes about {needed - units} more groups of queries"
        out.print(f"{one_line(system)}, {name}: {hint}", style="dim")


def _print_below(out: Console, report: Comparison) -> None:
    if any(dataset.slices for dataset in report.datasets):
        out.print(SLICE_SIGNS, style="dim")


def _print_head(out: Console, dataset: DatasetReport, baseline: str, notes: Sequence[str]) -> None:
    out.print(f"{one_line(title(dataset))}, differences from {one_line(baseline)}", style="bold")
    for note in notes:
        out.print(note, style="yellow")
    for sentence in answer_tokens(dataset):
        out.print(one_line(sentence))
    for line in catalogue_lines(dataset):
        out.print(one_line(line), no_wrap=True, overflow="ellipsis")


def _print_more(out: Console, dataset: DatasetReport) -> None:
    """Print the tables by slice."""
    for table in slice_tables(dataset):
        out.print(one_line(table.title), style="bold")
        out.print(table)


def _print_margins(out: Console, metrics: Sequence[MetricReport], where: str = "") -> None:
    """Print the conclusion about each difference for the given margin."""
    table = margin_table(metrics)
    if table.rows:
        out.print(f"{table.title}{where}", style="bold")
        out.print(table)


def _print_moves(out: Console, dataset: DatasetReport) -> None:
    for moves in dataset.moves:
        for word, moved in (("gained", moves.gained), ("lost", moves.lost)):
            if moved:
                out.print(f"{one_line(moves.system)} {word} most on {moves.metric}", style="bold")
            for move in moved:
                change = f"{format_fixed(move.baseline, 2)} → {format_fixed(move.system, 2)}"
                text = one_line(move.text or "", LONGEST_TEXT)
                line = f"  {change}  {one_line(move.query_id)}  {text}"
                out.print(line, no_wrap=True, overflow="ellipsis")
                for tools in tool_lines(move):
                    out.print(f"               {tools}", no_wrap=True, overflow="ellipsis")
