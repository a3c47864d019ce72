"""`bench stress`: measure what breaks methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bench.base.bars import progress
from bench.base.config import config_context
from bench.base.text import terminal_text
from bench.cli.common import format_option
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_datasets, complete_methods, settings_options
from bench.cli.output import console, print_json, say


@click.command("stress", cls=VerbCommand, common=("results", "source", "budget", "quiet", "json"))
@click.argument("methods", nargs=-1, required=True, metavar="METHOD...", shell_complete=complete_methods)
@click.option(
    "-d", "--dataset", default="starter", show_default=True, shell_complete=complete_datasets, help="Dataset."
)
@click.option(
    "-p",
    "--perturbation",
    "perturbations",
    multiple=True,
    metavar="NAME",
    help="Perturbation, with parameters in parentheses; a kind (request, library, attack, absence, growth); or "
    "module:function. Repeatable.  [default: all]",
)
@click.option("-m", "--metric", default="recall@5", show_default=True, help="Metric with a cut-off.")
@more_option("--seed", type=int, default=0, metavar="N", help="Another seed is another draw.  [default: 0]")
@settings_options("split", "limit", "template")
@format_option("markdown")
def command(
    methods: tuple[str, ...],
    dataset: str,
    perturbations: tuple[str, ...],
    metric: str,
    seed: int,
    layout: str,
    results: Path,
    quiet: bool,
    **settings: Any,
) -> None:
    """Measure what breaks methods: requests and libraries in other words, attackers, missing tools, and growth.

    Each method is asked on the dataset as it is and as perturbed; the gold of the perturbed case follows from the old
    one. Losses are paired, query by query. What built-in perturbations do by recall@5 with seed 0 is stored beside the
    results, where `bench gate` (`max_capture`) and the site find it.
    """
    from bench.robustness.api import stress
    from bench.show.tables import markdown

    given = {name: value for name, value in settings.items() if value is not None}
    with config_context(progress=progress(quiet)):
        made = stress(list(methods), dataset, perturbations, metric=metric, seed=seed, results=results, **given)
    if layout == "json":
        print_json(made.to_dict())
        return
    tables = made._tables()
    if layout == "markdown":
        click.echo("\n\n".join(map(markdown, tables)))
        return
    out = console()
    for table in tables:
        click.echo(terminal_text(table.title) + "\n" * bool(table.title), nl=False)
        out.print(table)
        for note in table.notes:
            click.echo(terminal_text(note))
    if len(methods) == 1 and made.worst_queries:
        click.echo("\nThe query that loses most")
        for sentence in made.worst_queries:
            click.echo(terminal_text(sentence))
    for sentence in () if quiet else made.notes:
        say(sentence)
