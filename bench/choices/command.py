"""`bench choose`: does a language model, shown a method's first tools, call the right ones?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bench.base.bars import progress
from bench.base.config import config_context
from bench.base.errors import UsageError
from bench.base.paths import results_folder
from bench.base.text import terminal_text
from bench.cli.help import VerbCommand
from bench.cli.options import complete_results
from bench.cli.output import console, print_json

if TYPE_CHECKING:
    from bench.choices.runs import Form
    from bench.results.choices import Arm

_ARMS = ("retrieved", "gold", "library", "sample", "with-gold", "without-gold")


def _numbers(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1 or max(numbers) > 100:
        raise UsageError(f"--shown {text!r} is not a list of numbers from 1 to 100, such as 1,3,5,10.")
    return numbers


@click.command("choose", cls=VerbCommand, common=("results", "source", "budget", "quiet", "json"))
@click.argument("names", nargs=-1, required=True, metavar="RESULT...", shell_complete=complete_results)
@click.option("--model", required=True, metavar="SPEC", help="Language model that chooses, as in llm=SPEC.")
@click.option(
    "--shown", default="5", show_default=True, callback=_numbers, help="How many tools it is shown; several: 1,3,5."
)
@click.option(
    "--arm",
    "arms",
    multiple=True,
    type=click.Choice(_ARMS),
    default=["retrieved"],
    show_default=True,
    help="What it is shown: the first tools; the gold alone; the whole library, or a sample of it with the gold; the "
    "first tools with the gold put in, or without it. Repeatable.",
)
@click.option(
    "--form",
    type=click.Choice(["calls", "json", "names"]),
    default="calls",
    show_default=True,
    help="How it is asked: the provider's tool calls, a JSON object of names, or one name on each line.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Ask only N queries of each result.")
@click.option("--price", "priced", metavar="MODEL", help="Tell costs by this model's prices [default: its own].")
def command(
    names: tuple[str, ...],
    model: str,
    shown: tuple[int, ...],
    arms: tuple[str, ...],
    form: str,
    limit: int | None,
    priced: str | None,
    results: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Let a language model choose among the tools that stored results have ranked.

    Before any row, the model is calibrated on the same queries: it is shown the gold among random tools, among hard
    ones in two orders, and alone. Choices are results: `bench compare`, `bench gate` and the site take them like any
    other.
    """
    from bench.api.results import Result
    from bench.choices.api import choose
    from bench.lookup.finding import find_result
    from bench.lookup.folder import ResultsFolder

    folder = results or results_folder()
    stored = ResultsFolder(folder)
    with config_context(progress=progress(quiet)):
        chosen = choose(
            [Result(find_result(stored, name)) for name in names],
            model,
            shown=shown,
            arms=cast("tuple[Arm, ...]", arms),
            form=cast("Form", form),
            limit=limit,
            price=priced,
            results=folder,
        )
    if as_json:
        print_json(chosen.to_dict())
        return
    for title, table, sentences in chosen.parts():
        if title:
            click.echo(terminal_text(title))
        console().print(table)
        for sentence in sentences:
            click.echo(terminal_text(sentence))
