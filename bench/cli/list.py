"""`bench list`: list methods, datasets, metrics and results."""

from __future__ import annotations

from pathlib import Path

import click

from bench.base.paths import results_folder
from bench.cli.help import Group
from bench.cli.options import json_option, results_option
from bench.cli.output import console, print_json, say
from bench.show.numbers import format_fixed
from bench.show.tables import Table, lines


@click.group("list", cls=Group)
def command() -> None:
    """List methods, datasets, metrics or stored results."""


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


@command.command("results")
@results_option
@click.option(
    "--stale",
    is_flag=True,
    help="Results of older code of their methods, and how to make them anew.",
)
@json_option
def results(results: Path | None, stale: bool, as_json: bool) -> None:
    """List stored results."""
    from bench.results.comparability import usual_template
    from bench.results.current import Built, command, is_of_today
    from bench.results.finding import latest, settings
    from bench.results.store import StoredResult, find_results

    folder = results or results_folder()
    stored = list(find_results(folder))
    readable = [item for item in stored if isinstance(item, StoredResult)]
    broken = [str(item) for item in stored if not isinstance(item, StoredResult)]
    built: Built = {}
    current = {item.folder for item in latest(readable) if is_of_today(item.manifest, built=built) is not False}
    older = {item.folder for item in readable} - current
    shown = [item for item in readable if (item.folder in older) == stale]
    if as_json:
        rows = [
            {
                "id": item.manifest.result_id,
                "method": item.manifest.method.spec,
                "cut": item.manifest.method.cut,
                "dataset": item.manifest.dataset.spec,
                "split": item.manifest.dataset.split,
                "limit": item.manifest.dataset.limit,
                "template": item.manifest.dataset.template,
                "depth": item.manifest.depth,
                "repeats": item.manifest.repeats,
                "n": item.metrics.n,
                "n_failed": item.metrics.n_failed,
                "created": item.manifest.environment.created,
                "stale": item.folder in older,
                "folder": str(item.folder),
                "metrics": {name: value.mean for name, value in item.metrics.metrics.items()},
            }
            for item in (shown if stale else readable)
        ]
        print_json({"results": rows, "unreadable": broken})
        return
    table = Table(["id", "method", "dataset", "n", "failed", "recall@5", "pass@10", "made"], right=(3, 4, 5, 6))
    table.whole = (0, 3, 4, 5, 6, 7)
    for item in sorted(shown, key=lambda r: (r.manifest.dataset.spec, r.manifest.method.spec)):
        values = item.metrics.metrics
        means = [format_fixed(values[name].mean if name in values else None) for name in ("recall@5", "pass@10")]
        alike = [other for other in shown if other.manifest.dataset.spec == item.manifest.dataset.spec]
        conditions = settings(item.manifest, usual_template(alike))
        table.add(
            item.manifest.result_id,
            item.label.rpartition(" @ ")[0],
            item.manifest.dataset.spec + (f" ({conditions})" if conditions else ""),
            str(item.metrics.n),
            str(item.metrics.n_failed),
            *means,
            item.manifest.environment.created[:10],
        )
    out = console()
    if shown:
        out.print(table)
    if stale:
        for words in dict.fromkeys(command(item.manifest) for item in shown):
            out.print(words, soft_wrap=True)
        if not shown:
            out.print(f"no results of older code in {folder}.")
    elif older:
        what = "results of older code are" if len(older) > 1 else "result of older code is"
        out.print(f"{len(older)} {what} not shown; `bench list results --stale` lists them", soft_wrap=True)
    elif not readable:
        out.print(f"no results in {folder}; create one with `bench run`.")
    for problem in broken:
        say(f"unreadable: {problem}")
