"""`bench metrics`: metric definitions."""

from __future__ import annotations

import click

from bench.cli.help import Command
from bench.cli.options import json_option
from bench.cli.output import console, print_field, print_json
from bench.metrics import get_measure, measures
from bench.metrics.measure import Measure
from bench.show.tables import Table


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in measures() if name.startswith(incomplete)]


@click.command("metrics", cls=Command)
@click.argument("name", required=False, shell_complete=_complete)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """Explain one metric, or list all of them."""
    if name is not None:
        measure = get_measure(name.partition("@")[0])
        if as_json:
            print_json(_fields(measure))
            return
        for key, value in _fields(measure).items():
            print_field(key.replace("_", " "), str(value))
        return
    if as_json:
        print_json([_fields(measure) for measure in measures().values()])
        return
    table = Table(["metric", "definition"])
    for measure in measures().values():
        mark = " (for reproduction only)" if measure.reproduction_only else ""
        table.add(", ".join(_forms(measure)), measure.definition + mark)
    console().print(table)


def _forms(measure: Measure) -> list[str]:
    forms = {"k": f"{measure.name}@k", "gold": f"{measure.name}@gold", "none": measure.name}
    return [forms[form] for form in ("none", "k", "gold") if form in measure.cutoffs]


def _fields(measure: Measure) -> dict[str, object]:
    return {
        "metric": ", ".join(_forms(measure)),
        "definition": measure.definition,
        "edge_cases": measure.edge_cases,
        "source": measure.source,
        "kind": measure.kind,
        "higher_is_better": measure.higher_is_better,
        "reproduction_only": measure.reproduction_only,
    }
