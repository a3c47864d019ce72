"""`bench tune`: tune a method's parameters on dev or train queries."""

from __future__ import annotations

import click

from bench.base.bars import progress
from bench.base.errors import UsageError
from bench.base.spec import Value, parse, parse_value
from bench.cli.executors import chosen_executor, executor_options
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_datasets, complete_methods, settings_options
from bench.cli.output import console, print_json, say
from bench.data.devsplit import hold_out_dev
from bench.data.template import Template
from bench.metrics import parse_metrics
from bench.registry import build_method, load_dataset
from bench.tuning.tune import tune_method


@click.command("tune", cls=VerbCommand, common=("source", "quiet", "json"))
@click.option("-m", "--method", required=True, shell_complete=complete_methods, help="Method spec, as in bench run.")
@click.option(
    "-d",
    "--dataset",
    required=True,
    shell_complete=complete_datasets,
    help="Dataset whose dev split, or train split, is used.",
)
@click.option(
    "-g",
    "--grid",
    "axes",
    multiple=True,
    required=True,
    metavar="NAME=V1,V2,...",
    help="Values to try for a parameter; repeat for more parameters.",
)
@click.option("--metric", default="recall@5", show_default=True, help="Metric to maximise.")
@more_option("--seed", type=int, default=0, metavar="N", help="Which train queries are held out.  [default: 0]")
@settings_options("template")
@executor_options
def command(
    method: str,
    dataset: str,
    axes: tuple[str, ...],
    metric: str,
    seed: int,
    template: Template | None,
    jobs: int,
    address: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Evaluate every combination of values on the dev queries, and print the best as a spec for `bench run`.

    During tuning, methods learn from train only. Without a dev split, a fifth of train is held out, in whole groups of
    dependent queries. Test queries are never used. The best point is tested against the method's default, which runs
    too, with a p-value that accounts for the choice.
    """
    bars = progress(quiet)
    spec = parse(method)
    tuning = tune_method(
        lambda point: build_method(point, progress=bars),
        spec,
        _grid(axes),
        load_dataset(dataset, bars),
        parse_metrics([metric])[0],
        seed=seed,
        template=template,
        progress=bars,
        executor=chosen_executor(jobs, address, lambda spec: hold_out_dev(load_dataset(spec, bars), seed)[0]),
    )
    if as_json:
        print_json(tuning.to_dict())
        return
    (table,) = tuning._tables()
    console().print(table)
    for note in () if quiet else tuning.notes:
        say(note)
    for sentence in tuning.findings:
        click.echo(sentence)
    click.echo(tuning.best)


def _grid(axes: tuple[str, ...]) -> dict[str, list[Value]]:
    grid: dict[str, list[Value]] = {}
    for axis in axes:
        name, equals, values = axis.partition("=")
        name = name.strip()
        if not equals or not name or not values.strip():
            raise UsageError(f"--grid {axis!r} is not of the form NAME=V1,V2,...")
        if name in grid:
            raise UsageError(f"--grid names {name!r} twice.")
        grid[name] = [parse_value(value) for value in values.split(",")]
    return grid
