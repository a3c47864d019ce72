"""`bench check`: run conformance tests on a method."""

from __future__ import annotations

import dataclasses

import click

from bench.base.bars import progress
from bench.base.errors import CheckFailed
from bench.base.text import terminal_text
from bench.cli.help import Group
from bench.cli.options import complete_datasets, complete_methods
from bench.cli.output import print_json, whoever_reads
from bench.registry import build_method, load_dataset
from bench.validation.method import check_method


@click.group("check", cls=Group)
def command() -> None:
    """Run conformance tests on a method."""


@command.command("method", common=("source", "json"))
@click.argument("method", shell_complete=complete_methods)
@click.option(
    "-d",
    "--dataset",
    default="starter",
    show_default=True,
    shell_complete=complete_datasets,
    help="Dataset that provides natural texts.",
)
def method(method: str, dataset: str, as_json: bool) -> None:
    """Run the conformance tests on METHOD, a name or package.module:Class.

    The tests cover determinism, independence of query order and batches, depth, unusual queries and libraries, and
    leaks between datasets.
    """
    bars = progress()
    loaded = load_dataset(dataset, bars)
    build_method(method)
    checks = []
    for check in check_method(lambda: build_method(method, progress=bars), loaded):
        checks.append(check)
        if not as_json:
            mark = "skip" if check.skipped else "FAIL" if check.problem else "ok"
            detail = terminal_text(check.problem or check.skipped)
            with whoever_reads():
                click.echo(f"{mark:4}  {check.name}" + (f"\n      {detail}" if detail else ""))
    if as_json:
        with whoever_reads():
            print_json([dataclasses.asdict(check) for check in checks])
    failed = [check for check in checks if check.problem]
    if failed:
        raise CheckFailed(f"{method} fails {len(failed)} of {len(checks)} checks.")
