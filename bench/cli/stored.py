"""`bench results`: rename and remove stored results."""

from __future__ import annotations

from pathlib import Path

import click

from bench.base.errors import UsageError
from bench.base.text import one_line
from bench.cli.help import Group
from bench.cli.options import complete_results


@click.group("results", cls=Group)
def command() -> None:
    """Rename and remove stored results."""


@command.command("mv", common=("results",))
@click.argument("result", shell_complete=complete_results)
@click.argument("name")
def rename(result: str, name: str, results: Path) -> None:
    """Give RESULT the display name NAME in all tables and commands, as `bench run --name` does.

    Its id, numbers and digests stay. The method's spec as NAME removes the display name.
    """
    from bench.lookup.aliases import read_alias, set_alias
    from bench.lookup.finding import name_result

    stored = name_result(results, result, older=True)
    method = stored.manifest.method
    named = set_alias(stored, None if name in {method.spec, method.spec_label} else read_alias(name))
    click.echo(f"{named.manifest.result_id} is {named.label}")


@command.command("rm", common=("results",))
@click.argument("names", nargs=-1, required=True, metavar="RESULT...", shell_complete=complete_results)
@click.option("--yes", is_flag=True, help="Remove them; otherwise only list them and what depends on them.")
@click.option("--ranking", is_flag=True, help="Remove only run.parquet and note it in the manifest; the numbers stay.")
def remove(names: tuple[str, ...], yes: bool, ranking: bool, results: Path) -> None:
    """Remove stored results. The only way to restore them is to run them again.

    First, bench lists what refers to them: aliases, and baselines, submissions and reports below the working folder.
    These files stay. A baseline keeps its numbers, but loses the evidence behind them.
    """
    from bench.lookup.finding import name_result
    from bench.lookup.folder import ResultsFolder
    from bench.lookup.removal import find_dependants, find_removable, remove_result
    from bench.results.store import RUN, omit_ranking

    stored = ResultsFolder(results)
    if ranking:
        for result in [name_result(stored, name, older=True) for name in names]:
            click.echo(f"{'removed ' if yes else ''}{one_line(str(result.folder / RUN))}")
            if yes:
                omit_ranking(result)
        if not yes:
            raise UsageError("nothing was removed: --yes removes what is listed above.")
        return
    items = list({item.folder: item for item in (find_removable(stored, name) for name in names)}.values())
    dependants, whole = find_dependants({item.result_id for item in items}, Path(), results)
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
