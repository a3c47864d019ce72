"""`bench list`: list methods, datasets, metrics and results."""

from __future__ import annotations

import click

from bench.cli.help import Group
from bench.cli.options import json_option
from bench.cli.output import console, print_json
from bench.cli.stored import list_results
from bench.show.tables import Table, lines


@click.group("list", cls=Group)
def command() -> None:
    """List methods, datasets, metrics or stored results."""


command.add_command(list_results, "results")


@command.command("methods")
@json_option
def methods(as_json: bool) -> None:
    """List methods with parameters and defaults."""
    from bench.registry import method_class
    from bench.registry.listing import defaults, method_rows

    rows = method_rows()
    if as_json:
        print_json(rows)
        return
    table = Table(["method", "description", "parameters"])
    for row in rows:
        needs = " Needs past queries." if row["needs_history"] else ""
        table.add(row["name"], f"{row['summary']}{needs}", lines(defaults(method_class(row["name"]))))
    console().print(table)


@command.command("datasets")
@json_option
@click.pass_context
def datasets(ctx: click.Context, as_json: bool) -> None:
    """List datasets, like `bench data list`."""
    from bench.cli.data import list_datasets

    ctx.invoke(list_datasets, as_json=as_json)


@command.command("metrics")
@json_option
@click.pass_context
def metrics(ctx: click.Context, as_json: bool) -> None:
    """List metrics, like `bench metrics`."""
    from bench.cli.metrics import command as list_metrics

    ctx.invoke(list_metrics, name=None, as_json=as_json)
