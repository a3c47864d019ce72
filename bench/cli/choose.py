"""`bench choose`: does a language model, shown a method's first tools, call the right ones?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bench.base.bars import progress
from bench.base.config import config_context
from bench.base.errors import UsageError
from bench.base.paths import results_folder
from bench.base.text import terminal_text
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_results, json_option, results_option, source_options
from bench.cli.output import console, print_json
from bench.results.choices import Outcome, read_choices
from bench.results.manifest import MetricValue
from bench.show.tables import Table, mean_cell

if TYPE_CHECKING:
    from bench.evaluation.choosing import Arm, Calibration, Choice, Form

#: Columns of the table -> the outcomes that they count.
_SPLIT: dict[str, tuple[Outcome, ...]] = {
    "right": ("right",),
    "not retrieved": ("not retrieved",),
    "not chosen": ("not all chosen", "abstained"),
    "wrong": ("wrong tools", "wrong tools too", "called without need"),
    "unreadable": ("unreadable", "failed"),
}
_ARMS = ("retrieved", "gold", "library", "with-gold", "without-gold")
_AMONG = {"random": "random tools", "hard": "hard tools", "reordered": "hard, reordered", "alone": "none"}


def _numbers(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1 or max(numbers) > 100:
        raise UsageError(f"--shown {text!r} is not a list of numbers from 1 to 100, such as 1,3,5,10.")
    return numbers


@click.command("choose", cls=VerbCommand)
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
    help="What it is shown: the first tools; the gold alone; the whole library; the first tools with the gold put in, "
    "or without it. Repeatable.",
)
@click.option(
    "--form",
    type=click.Choice(["calls", "json", "names"]),
    default="calls",
    show_default=True,
    help="How it is asked: the provider's tool calls, a JSON object of names, or one name on each line.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Ask only N queries of each result.")
@click.option("--budget", type=click.FloatRange(0, min_open=True), help="Most to spend, in the currency of the prices.")
@results_option
@source_options
@more_option("-q", "--quiet", is_flag=True, help="No progress bars and no notes.")
@json_option
def command(
    names: tuple[str, ...],
    model: str,
    shown: tuple[int, ...],
    arms: tuple[str, ...],
    form: str,
    limit: int | None,
    budget: float | None,
    results: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Let a language model choose among the tools that stored results have ranked.

    Before any row, the model is calibrated on the same queries: it is shown the gold among random tools, and among hard
    ones. Choices are results: `bench compare`, `bench gate` and the site take them like any other.
    """
    from bench.evaluation.choosing import Chooser, estimate, make_choices
    from bench.evaluation.runner import Runner
    from bench.registry import build_method, load_dataset
    from bench.results.finding import find_result

    bars = progress(quiet)
    folder = results or results_folder()
    runner = Runner(
        folder,
        load=lambda spec: load_dataset(spec, bars),
        build=lambda spec: build_method(spec, progress=bars),
        progress=bars,
        overwrite="missing",
    )
    with config_context(budget=budget):
        tested, chosen = make_choices(
            runner,
            [find_result(folder, name) for name in names],
            Chooser(model, cast("Form", form)),
            shown,
            cast("tuple[Arm, ...]", arms),
            limit,
            lambda runs, plans: bars.note(estimate(runs, plans)),
        )
    if as_json:
        calibration = {dataset: each.to_dict() for dataset, each in tested.items()}
        print_json({"calibration": calibration, "choices": [choice.to_dict() for choice in chosen]})
    else:
        _print(chosen, tested)


def _print(chosen: list[Choice], tested: Mapping[str, Calibration]) -> None:
    for dataset, calibration in tested.items():
        faults = calibration.faults
        verdict = f"NOT fit to judge: {'; '.join(faults)}" if faults else "fit to judge"
        table = Table(
            ["gold among", "n", "hit", "above chance", "by position", "same twice", "unknown", "unreadable"],
            right=(1, 2, 3, 5, 6, 7),
            whole=(0, 3),
        )
        for name, test in calibration.tests.items():
            above = MetricValue(mean=test.above_chance, low=test.low, high=test.high, n=test.n)
            p = "" if test.position_p is None else f" (p {test.position_p:.2g})"
            table.add(
                _AMONG[name],
                str(test.n),
                f"{test.hit:.3f}",
                mean_cell(above),
                " ".join(f"{share:.2f}" for share in test.positions) + p if name != "alone" else "",
                "" if test.same is None else f"{test.same:.2f}",
                str(test.unknown),
                str(test.unreadable),
            )
        click.echo(terminal_text(f"{dataset}: {verdict}"))
        console().print(table)
        click.echo(f"the same choice in another order of the hard tools: {calibration.same_reordered:.2f} of queries")
    right = Table(
        ["method", "shown", "queries", "right", "a gold tool called", "tokens in", "cached", "out"],
        right=range(1, 8),
        whole=(3, 4),
    )
    split = Table(["method", "shown", *_SPLIT], right=range(1, 8))
    for choice in chosen:
        choices = read_choices(choice.result)
        shown = str(choice.run.shown or "all")
        tokens = [f"{number:,.0f}" for number in choices.mean_tokens()]
        hit = choice.result.metrics.metrics.get("set_hit")
        label = choice.label
        right.add(label, shown, str(len(choices.queries)), mean_cell(choices.accuracy()), mean_cell(hit), *tokens)
        counts = choices.counts()
        split.add(label, shown, *(str(sum(counts[one] for one in outcomes)) for outcomes in _SPLIT.values()))
    console().print(right)
    console().print(split)
