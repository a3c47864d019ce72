"""`bench curve`: show a metric against the size of the library."""

from __future__ import annotations

from pathlib import Path

import click

from bench.base.text import one_line
from bench.cli.common import format_option
from bench.cli.help import VerbCommand
from bench.cli.output import console, print_json
from bench.diagnosis.library_sizes import draw, library_sizes, markdown, sizes_table
from bench.evaluation.experiment import read_experiment
from bench.metrics import parse_metrics
from bench.results.store import StoredResult, find_results
from bench.results.units import sample
from bench.show.figures import check_picture, write_picture


@click.command("curve", cls=VerbCommand, common=("results", "json"))
@click.argument("experiment", type=click.Path(path_type=Path, dir_okay=False))
@click.option("-m", "--metric", default="recall@5", show_default=True, help="What is drawn.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the curves to this file: .svg, .png or .pdf.",
)
@format_option("markdown")
def command(experiment: Path, metric: str, picture: Path | None, layout: str, results: Path) -> None:
    """Show a metric against the size of the library.

    EXPERIMENT is a TOML file with methods and with datasets that differ in the option tools=N:

      methods = ["bm25", "dense"]
      datasets = ["livemcpbench(distractors=toucan, tools=1000)", "livemcpbench(distractors=toucan)"]

    `bench run EXPERIMENT` makes the results, and this command reads them. Intervals are 95% intervals over groups of
    dependent queries.
    """
    if picture is not None:
        check_picture(picture)
    (name,) = (str(each) for each in parse_metrics([metric]))
    plans = read_experiment(experiment).plans()
    stored = [item for item in find_results(results) if isinstance(item, StoredResult)]
    sizes = library_sizes(plans, stored, name)
    if picture is not None:
        write_picture(picture, draw(sizes))
    if layout == "json":
        print_json(sizes.model_dump(mode="json"))
        return
    if layout == "markdown":
        click.echo(markdown(sizes), nl=False)
        return
    out = console()
    out.print(f"{one_line(sizes.dataset)}, {sample(sizes.n, sizes.units)}", soft_wrap=True, markup=False)
    out.print(sizes_table(sizes))
    out.print("columns: tools in the library; below each mean: its 95% interval", style="dim")
    failed = sum(point.failed for curve in sizes.curves for point in curve.points)
    if failed:
        out.print(f"queries without an answer, over all points: {failed}")
    if picture is not None:
        out.print(f"written to {picture}", soft_wrap=True, markup=False)
