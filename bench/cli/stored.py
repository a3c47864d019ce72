"""`bench results`: list, name and remove stored results."""

from __future__ import annotations

from pathlib import Path

import click

from bench.base.errors import UsageError
from bench.base.paths import results_folder
from bench.base.text import one_line
from bench.cli.help import Group
from bench.cli.options import complete_results, json_option, results_option
from bench.cli.output import console, print_json, say
from bench.show.numbers import format_fixed
from bench.show.tables import Table


@click.group("results", cls=Group)
def command() -> None:
    """List, name and remove stored results."""


@command.command("list")
@results_option
@click.option(
    "--stale",
    is_flag=True,
    help="Results of older code of their methods, and how to make them anew.",
)
@json_option
def list_results(results: Path | None, stale: bool, as_json: bool) -> None:
    """List stored results."""
    from bench.results.commands import command as command_of
    from bench.results.comparability import usual_template
    from bench.results.current import Built, is_of_today
    from bench.results.finding import latest, settings
    from bench.results.store import StoredResult, find_results
    from bench.results.tries import variants_of

    folder = results or results_folder()
    stored = list(find_results(folder))
    readable = [item for item in stored if isinstance(item, StoredResult)]
    broken = [str(item) for item in stored if not isinstance(item, StoredResult)]
    built: Built = {}
    current = {item.folder for item in latest(readable) if is_of_today(item.manifest, built=built) is not False}
    older = {item.folder for item in readable} - current
    shown = [item for item in readable if (item.folder in older) == stale]
    if as_json:
        variants = variants_of(readable)
        rows = [
            {
                "id": item.manifest.result_id,
                "alias": item.manifest.method.alias,
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
                "variants": len(variants[item.manifest.result_id]),
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
            item.manifest.method.label,
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
        for words in dict.fromkeys(command_of(item.manifest) for item in shown):
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


@command.command("mv")
@click.argument("result", shell_complete=complete_results)
@click.argument("name")
@results_option
def rename(result: str, name: str, results: Path | None) -> None:
    """Call RESULT by NAME from now on, in every table and command, as `bench run --as` does.

    Its id, numbers and digests stay. The method's own spec as NAME takes the name away.
    """
    from bench.results.aliases import read_alias, set_alias
    from bench.results.finding import name_result

    stored = name_result(results or results_folder(), result, older=True)
    method = stored.manifest.method
    named = set_alias(stored, None if name in {method.spec, method.spec_label} else read_alias(name))
    click.echo(f"{named.manifest.result_id} is {named.label}")


@command.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="RESULT...", shell_complete=complete_results)
@click.option("--yes", is_flag=True, help="Remove them; else say what would be removed, and what depends on it.")
@click.option("--ranking", is_flag=True, help="Remove run.parquet alone, and say so in the manifest; the numbers stay.")
@results_option
def remove(names: tuple[str, ...], yes: bool, ranking: bool, results: Path | None) -> None:
    """Remove stored results. They cannot be had back but by running them again.

    What names one of them is named first: its alias, and below the working folder baselines, submissions and reports.
    Those stay. A baseline keeps its numbers; what goes is the evidence behind it.
    """
    from bench.results.finding import name_result
    from bench.results.removal import find_dependants, find_removable, remove_result
    from bench.results.store import RUN, omit_ranking

    folder = results or results_folder()
    if ranking:
        for result in [name_result(folder, name, older=True) for name in names]:
            click.echo(f"{'removed ' if yes else ''}{one_line(str(result.folder / RUN))}")
            if yes:
                omit_ranking(result)
        if not yes:
            raise UsageError("nothing was removed: --yes removes what is listed above.")
        return
    items = list({item.folder: item for item in (find_removable(folder, name) for name in names)}.values())
    dependants, whole = find_dependants({item.result_id for item in items}, Path(), folder)
    for item in items:
        click.echo(f"{item.result_id} {item.label or '(cannot be read)'} in {one_line(str(item.folder))}")
        if item.alias is not None:
            click.echo(f"  its name {item.alias} goes with it")
        for dependant in dependants:
            if dependant.result_id == item.result_id:
                click.echo(f"  {dependant.kind} {one_line(str(dependant.path))} names it, and stays")
    if not whole:
        click.echo("  (there are too many files below the working folder to look through all of them)")
    if not yes:
        raise UsageError("nothing was removed: --yes removes what is listed above.")
    for item in items:
        click.echo(f"removed {item.result_id}" if remove_result(item) else f"{item.result_id} was gone already")
