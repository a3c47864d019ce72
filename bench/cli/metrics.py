"""`bench metrics`: metric definitions."""

from __future__ import annotations

import click

from bench.cli.help import VerbCommand
from bench.cli.options import json_option
from bench.cli.output import console, print_field, print_json
from bench.metrics import get_measure, measures
from bench.metrics.catalogue import describe_measure, forms
from bench.metrics.measure import measure_name
from bench.show.tables import Table


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in measures() if name.startswith(incomplete)]


@click.command("metrics", cls=VerbCommand)
@click.argument("name", required=False, shell_complete=_complete)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """Explain one metric, or list all of them."""
    if name is not None:
        measure = get_measure(measure_name(name))
        if as_json:
            print_json(describe_measure(measure))
            return
        for key, value in describe_measure(measure).items():
            if key != "parameters":
                print_field(key.replace("_", " "), str(value))
        for key, field in measure.parameters.model_fields.items():
            print_field(f"parameter {key}", f"{field.description} (default {field.get_default()})")
        return
    if as_json:
        print_json([describe_measure(measure) for measure in measures().values()])
        return
    table = Table(["metric", "definition"])
    for measure in measures().values():
        mark = " (for reproduction only)" if measure.reproduction_only else ""
        table.add(", ".join(forms(measure)), measure.definition + mark)
    console().print(table)
