"""`bench train`: train models for methods."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

import click

from bench.base.bars import progress
from bench.base.errors import UsageError
from bench.base.spec import Spec
from bench.cli.executors import join_cluster
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_datasets, settings_options
from bench.cli.output import console, print_json
from bench.cli.run import read_settings
from bench.data.template import Template
from bench.lab.training.train import KINDS, plain_setting, train_model, trainer_class
from bench.models.trainingcard import Kind
from bench.registry import load_dataset
from bench.show.numbers import duration, format_fixed
from bench.show.tables import Table


@click.command("train", cls=VerbCommand, common=("source", "quiet", "json"))
@click.argument("kind", type=click.Choice(KINDS))
@click.option("-d", "--dataset", shell_complete=complete_datasets, help="Dataset whose train split is used.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the model.")
@click.option("--base", help="Initial model: `minilm`, a folder, or a Hub name [default: the kind's].")
@click.option("-s", "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Change a setting; repeatable.")
@more_option("--replace", is_flag=True, help="Replace an existing model.")
@more_option(
    "--ray",
    "address",
    metavar="ADDRESS",
    help="Mine negatives on the Ray cluster at this address; `local` starts one on this machine.",
)
@settings_options("template")
def command(
    kind: Kind,
    dataset: str | None,
    out: Path | None,
    base: str | None,
    settings: tuple[str, ...],
    replace: bool,
    address: str | None,
    template: Template | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a model of this KIND on a dataset's train split. Without --dataset and --out, list its settings.

    The same command resumes an interrupted training. To use the model, pass the folder as its name:
    `bench run --method 'dense(encoder=FOLDER)'`.
    """
    if not any((dataset, out, base, settings, replace, address, template)):
        _print_settings(kind, as_json)
        return
    if dataset is None or out is None:
        raise UsageError("training needs a dataset and a folder for the model: give --dataset and --out.")
    bars = progress(quiet)
    given = load_dataset(dataset, bars)
    with nullcontext() if address is None else join_cluster(address, load_dataset).helps(bars):
        card = train_model(
            kind,
            given,
            out,
            base=base,
            settings=Spec.of(kind, read_settings(settings)),
            template=template,
            command=shlex.join(["bench", *sys.argv[1:]]),
            replace=replace,
            progress=bars,
        )
    if as_json:
        print_json({"folder": str(out), **card.model_dump(mode="json", exclude={"queries", "tools"})})
        return
    table = Table(["step", "loss", card.measure], right=(0, 1, 2))
    for seen in card.evaluations:
        chosen = " best" if seen.step == card.best_step else ""
        table.add(str(seen.step), format_fixed(seen.loss, 4), f"{format_fixed(seen.value)}{chosen}")
    console().print(table)
    click.echo(f"{card.kind} trained on {card.examples} examples of {card.dataset} in {duration(card.seconds)}")
    click.echo(f"validated on {card.validation}; the model is in {out}")


def _print_settings(kind: Kind, as_json: bool) -> None:
    fields = trainer_class(kind).Parameters.model_fields
    if as_json:
        described = {
            name: {"default": plain_setting(field.get_default()), "description": field.description}
            for name, field in fields.items()
        }
        print_json(described)
        return
    table = Table(["setting", "default", "description"])
    for name, field in fields.items():
        table.add(name, str(field.get_default()), field.description or "")
    console().print(table)
