"""`bench data audit`: what is wrong with a dataset, and what it can show."""

from __future__ import annotations

from pathlib import Path

import click

from bench.base.bars import progress
from bench.base.errors import CheckFailed
from bench.cli.help import VerbCommand
from bench.cli.options import complete_datasets
from bench.cli.output import console, print_json, whoever_reads
from bench.registry import load_dataset
from bench.validation.audit import Audit, check_kinds


@click.command("audit", cls=VerbCommand, common=("results", "source", "json"))
@click.argument("dataset", shell_complete=complete_datasets)
@click.option(
    "--against",
    metavar="DATASET",
    multiple=True,
    shell_complete=complete_datasets,
    help="Another dataset: which queries and tools are in both. May be given several times.",
)
@click.option(
    "--fail-on",
    metavar="CHECK",
    multiple=True,
    help="Exit with code 1 if this check counts something, such as confusable. May be given several times.",
)
def command(dataset: str, against: tuple[str, ...], fail_on: tuple[str, ...], results: Path, as_json: bool) -> None:
    """Report problems of a dataset, and what it can show.

    Duplicates, leaks, contradictions, scripts that methods cannot read, how many queries show a difference, ceilings,
    and which queries are dependent.
    """
    check_kinds(fail_on, bool(against))
    bars = progress()
    loaded = load_dataset(dataset, bars)
    shared = Audit.of(loaded, [load_dataset(other, bars) for other in against], results)
    failed = shared.failed(fail_on)
    with whoever_reads():
        if as_json:
            print_json({**shared.to_dict(), **({"failed": [finding.check for finding in failed]} if fail_on else {})})
        for table in () if as_json else shared.tables():
            console().print(table.title)
            if table.heads:
                console().print(table)
            for note in table.notes:
                console().print(note)
    if failed:
        told = ", ".join(f"{finding.check} {finding.count} of {finding.total}" for finding in failed)
        raise CheckFailed(f"the audit of {loaded.spec} found what --fail-on names: {told}.")
