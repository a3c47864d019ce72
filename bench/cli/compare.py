"""`bench compare`: differences between systems, with intervals and corrected tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.text import Text

from bench.base.bars import progress
from bench.base.paths import results_folder
from bench.base.text import one_line
from bench.cli.options import complete_datasets, complete_results, results_option, source_options
from bench.cli.output import console, plain_table, print_json
from bench.comparison.compare import Question, compare_results
from bench.comparison.figures import Figure
from bench.comparison.render import (
    FEW_DATASETS,
    INDEPENDENT,
    LONGEST_TEXT,
    SLICE_SIGNS,
    answer_tokens,
    catalogue_lines,
    csv_text,
    dagger,
    difference_cells,
    few_units,
    interval,
    latex,
    legend,
    markdown,
    p_text,
    ranks,
    reversed_orders,
    tool_lines,
)
from bench.comparison.report import Comparison, Correction, DatasetReport, Difference, MetricReport
from bench.comparison.systems import open_result
from bench.metrics import parse_metrics
from bench.results.units import sample

_FORMS = ("table", "markdown", "json", "csv", "latex")


@click.command("compare")
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
    default=5,
    show_default=True,
    help="Number of queries to list with the largest change.",
)
@click.option(
    "--unit",
    type=click.Choice(["none"]),
    help="none: also show what differences look like if queries are taken as independent.",
)
@click.option(
    "--correction", type=click.Choice(["holm", "benjamini-hochberg"]), default="holm", show_default=True,
    help="Multiple-testing correction of the p-values.",
)  # fmt: skip
@click.option(
    "--across",
    type=click.Choice(["catalogues"]),
    help="catalogues: compare results on the same queries whose tools were edited, added or removed.",
)
@click.option("--format", "form", type=click.Choice(_FORMS), default="table", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a chart of the first metric to this SVG file.",
)
@results_option
@source_options
def command(
    names: tuple[str, ...],
    datasets: tuple[str, ...],
    metrics: tuple[str, ...],
    slices: tuple[str, ...],
    moved: int,
    unit: str | None,
    correction: Correction,
    across: str | None,
    form: str,
    as_json: bool,
    picture: Path | None,
    results: Path | None,
) -> None:
    """Compare stored results with a baseline, the first one named.

    A name is METHOD@DATASET, a result id, a folder, or a run file (RUN.trec@DATASET). With -d, names can be methods
    alone. Over several datasets, mean ranks and macro means are added:

      bench compare tgr@apibank dense@apibank bm25@apibank

      bench compare tgr dense bm25 -d apibank -d starter

    Every difference has a 95% interval, a paired randomisation test, and the minimum detectable effect (MDE). Queries
    that share a gold set, a dialogue or a template are resampled together, as their dataset's unit of independence says
    (`bench data info`). Results on different queries are refused, and on different tools, unless you say so:

      bench compare bm25@mytools bm25@mytools-edited --across catalogues
    """
    folder = results or results_folder()
    bars = progress()

    found = [open_result(name, folder, dataset, bars) for dataset in datasets or (None,) for name in names]
    wanted = tuple(str(metric) for metric in parse_metrics(metrics))
    question = Question(wanted, slices, moved, correction, unit == "none")
    report = compare_results(found, question, across=across is not None, progress=bars)
    if picture is not None:
        Figure.of(report).save(picture)
    if as_json or form == "json":
        print_json(report.to_dict())
    elif form == "table":
        _print(_printable(report))
    else:
        click.echo({"markdown": markdown, "csv": csv_text, "latex": latex}[form](report), nl=False)


def _printable(report: Comparison) -> Comparison:
    """The report without signs that steer a terminal: names and texts come from run files and datasets."""

    def clean(value: object) -> object:
        if isinstance(value, str):
            return one_line(value)
        if isinstance(value, list):
            return [clean(item) for item in value]
        return {clean(key): clean(item) for key, item in value.items()} if isinstance(value, dict) else value

    return Comparison.model_validate(clean(report.model_dump()))


def _print(report: Comparison) -> None:
    out = console()
    for dataset in report.datasets:
        _print_dataset(dataset, report.baseline)
    for macro in report.macro:
        test = "" if macro.friedman is None else f"Friedman p = {p_text(macro.friedman)}; "
        out.print(f"{macro.metric} over {', '.join(macro.datasets)}: {test}critical difference {macro.critical:.2f}")
        table = plain_table("system", "mean rank", "mean of means", right=(1,))
        for standing in macro.standings:
            ends = interval(standing.mean, standing.low, standing.high)
            table.add_row(standing.system, f"{standing.rank:.2f}", ends)
        out.print(table)
    if report.macro:
        out.print(FEW_DATASETS, style="dim")
    if any(dataset.slices for dataset in report.datasets):
        out.print(SLICE_SIGNS, style="dim")
    out.print(legend(report), style="dim")
    doubtful = [
        (item.system, metric.metric, abs(item.difference), item.needed, metric.units)
        for dataset in report.datasets
        for metric in dataset.metrics
        for item in metric.differences
        if not dagger(item) and item.needed is not None and item.needed > metric.units
    ]
    for system, name, size, needed, units in doubtful[:_MOST_HINTS]:
        hint = f"detecting a difference of {size:.3f} takes about {needed - units} more groups of queries"
        out.print(f"{system}, {name}: {hint}", style="dim")


#: More would bury the tables.
_MOST_HINTS = 3


def _print_dataset(dataset: DatasetReport, baseline: str) -> None:
    out = console()
    limit = "" if dataset.limit is None else f", limit {dataset.limit}"
    size = sample(dataset.n, dataset.units, dataset.effective, "judged queries")
    title = f"{dataset.dataset} ({dataset.split}{limit}; {size}), differences from {baseline}"
    out.print(Text(title, style="bold"))
    for system in dataset.systems:
        notes = [*system.marks, *([f"{system.n_failed} queries failed"] if system.n_failed else [])]
        if notes:
            out.print(Text(f"{system.name}: {', '.join(notes)}", style="yellow"))
    for sentence in answer_tokens(dataset):
        out.print(sentence)
    for warning in [*dataset.warnings, *few_units(dataset), *reversed_orders(dataset)]:
        out.print(Text(f"note: {warning}", style="yellow"))
    for told in catalogue_lines(dataset):
        out.print(told, no_wrap=True, overflow="ellipsis")
    _print_metrics(dataset.metrics, dataset.n)
    _print_independent(dataset.metrics)
    for name in dict.fromkeys(item.slice for item in dataset.slices):
        own = [item for item in dataset.slices if item.slice == name]
        systems = [item.name for item in dataset.systems]
        heads = (f"{own[0].metric} by {name}", "n", "groups", *systems)
        table = plain_table(*heads, right=tuple(range(1, len(heads))))
        for item in own:
            signs = {difference.system: dagger(difference) for difference in item.differences}
            means = [f"{item.means[system]:.3f}{signs.get(system, '')}" for system in systems]
            table.add_row(item.value, str(item.n), str(item.units), *means)
        out.print(table)
    for moves in dataset.moves:
        for title, found in (("gained", moves.gained), ("lost", moves.lost)):
            if found:
                out.print(Text(f"{moves.system} {title} most on {moves.metric}", style="bold"))
            for move in found:
                text = one_line(move.text or "", LONGEST_TEXT)
                line = f"  {move.baseline:.2f} → {move.system:.2f}  {move.query_id}  {text}"
                out.print(line, no_wrap=True, overflow="ellipsis")
                for told in tool_lines(move):
                    out.print(f"               {told}", no_wrap=True, overflow="ellipsis")


def _print_metrics(metrics: Sequence[MetricReport], n: int) -> None:
    heads = ("system", "mean", "tier", "rank", "difference", "p, corr.", "dz", "W/T/L", "MDE")
    table = plain_table(*heads, right=(1, 2, 3, 4, 5, 6, 7, 8))
    for column in table.columns[1:]:
        column.no_wrap = True
    for metric in metrics:
        found = {item.system: item for item in metric.differences}
        table.add_section()
        name = metric.metric if metric.n == n else f"{metric.metric} (n={metric.n})"
        table.add_row(Text(name, style="bold"))
        for standing in metric.standings:
            difference = found.get(standing.system)
            mean = f"{standing.mean:.3f}{dagger(difference) or ' '}"
            rank = ranks(standing.rank_low, standing.rank_high)
            table.add_row(standing.system, mean, str(standing.tier), rank, *_narrow_cells(difference))
    console().print(table)


def _print_independent(metrics: Sequence[MetricReport]) -> None:
    """What differences look like without units, where it was asked for."""
    rows = [(item.system, metric.metric, item) for metric in metrics for item in metric.differences]
    if not any(item.independent for _, _, item in rows):
        return
    table = plain_table("as if queries were independent", "metric", "difference", "p", right=(2, 3))
    for system, name, item in rows:
        if item.independent is not None:
            found = item.independent
            table.add_row(system, name, interval(item.difference, found.low, found.high), p_text(found.p))
    out = console()
    out.print(table)
    out.print(INDEPENDENT, style="yellow")


def _narrow_cells(difference: Difference | None) -> list[str]:
    """As `difference_cells`, with intervals and corrected p-values on a second line."""
    signed, p, corrected, dz, counts, detectable = difference_cells(difference)
    mean, _, ends = signed.partition(" ")
    return [f"{mean}\n{ends}".strip(), f"{p}\n{corrected}".strip(), dz, counts, detectable]
