"""`bench show`: a stored result, as a table or in another form."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bench.cli.options import complete_results, json_option, results_option
from bench.cli.output import console, plain_table, print_json, print_result, result_json
from bench.errors import UsageError
from bench.paths import results_folder
from bench.run.result import find_result, settings


@click.command("show")
@click.argument("result", shell_complete=complete_results)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "all", "json", "trec", "jsonl"]),
    default="table",
    show_default=True,
    help="`all` lists every metric; `trec` and `jsonl` write the run to standard output.",
)
@click.option("--metric", "metrics", multiple=True, help="A metric beside the usual ones.")
@results_option
@json_option
def command(result: str, form: str, metrics: tuple[str, ...], results: Path | None, as_json: bool) -> None:
    """Show a stored result.

    RESULT is a folder, an id (or its beginning), or METHOD@DATASET.
    """
    found = find_result(results or results_folder(), result)
    for name in metrics:
        if name not in found.metrics.metrics:
            raise UsageError(
                f"{found.label} has no metric {name!r}; `bench show {found.manifest.result_id} --format all` lists "
                "what it has, and `bench run --metric` adds one."
            )
    if as_json or form == "json":
        print_json(result_json(found))
    elif form in {"trec", "jsonl"}:
        from bench.run.runfile import write_jsonl, write_trec

        sys.stdout.writelines(write_trec(found) if form == "trec" else write_jsonl(found))
    elif form == "all":
        table = plain_table("metric", "mean", "low", "high", "n", right=(1, 2, 3, 4))
        for name, value in found.metrics.metrics.items():
            ends = ["-" if end is None else f"{end:.4f}" for end in (value.low, value.high)]
            table.add_row(name, f"{value.mean:.4f}", *ends, str(value.n))
        out = console()
        out.print(f"{found.label}: n {found.metrics.n}, failed {found.metrics.n_failed}, {settings(found.manifest)}")
        out.print(table)
    else:
        print_result(found, metrics)
