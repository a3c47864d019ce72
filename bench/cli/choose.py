"""`bench choose`: does a language model, shown a method's first tools, call the right ones?"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from bench.base.bars import progress
from bench.base.errors import BenchError, UsageError
from bench.base.paths import results_folder
from bench.base.text import terminal_text
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_results, json_option, results_option, source_options
from bench.cli.output import console, print_json
from bench.results.choices import Outcome, read_choices
from bench.results.manifest import MetricValue
from bench.show.tables import Table, mean_cell

if TYPE_CHECKING:
    from bench.comparison.prediction import Prediction
    from bench.evaluation.choosing import Arm, Form
    from bench.evaluation.plan import Plan
    from bench.results.picker import Fitness
    from bench.results.store import StoredResult

#: Columns of the table -> the outcomes that they count.
_SPLIT: dict[str, tuple[Outcome, ...]] = {
    "right": ("right",),
    "not retrieved": ("not retrieved",),
    "not chosen": ("not all chosen", "abstained"),
    "wrong": ("wrong tools", "wrong tools too", "called without need"),
    "unreadable": ("unreadable", "failed"),
}
_ARMS = ("retrieved", "gold", "library", "with-gold", "without-gold")


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
    from bench.evaluation.choosing import Chooser, calibration_plans, choice_plans
    from bench.evaluation.runner import Runner
    from bench.registry import build_method, load_dataset
    from bench.results.finding import find_result
    from bench.results.picker import fitness

    bars = progress(quiet)
    folder = results or results_folder()
    if budget is not None:
        # Methods make their models themselves, and these read the environment.
        os.environ["BENCH_LLM_LIMIT"] = repr(budget)
    chooser = Chooser(model, cast("Form", form))
    rows = [
        _Row(source, arm, k, plan)
        for source in (find_result(folder, name) for name in names)
        for (arm, k), plan in choice_plans(source, chooser, shown, cast("tuple[Arm, ...]", arms), limit).items()
    ]
    runner = Runner(
        folder,
        load=lambda spec: load_dataset(spec, bars),
        build=lambda spec: build_method(spec, progress=bars),
        progress=bars,
        overwrite="missing",
    )
    calibrations = {str(row.plan.dataset): calibration_plans(row.plan, chooser) for row in rows}
    plans = [*(plan for each in calibrations.values() for plan in each.values()), *(row.plan for row in rows)]
    # All is checked, and what it takes is told, before the first call.
    prepared = runner.check(plans)
    bars.note(_estimate(rows, [item.plan for item in prepared if not runner.keeps(item)]))
    made = deque(_one(outcome) for outcome in runner.run_checked(prepared))
    tested = {dataset: {name: fitness(made.popleft()) for name in each} for dataset, each in calibrations.items()}
    chosen = [(row, made.popleft()) for row in rows]
    if as_json:
        print_json(_to_dict(chosen, tested))
    else:
        _print(chosen, tested)


@dataclass(frozen=True)
class _Row:
    """One run of a choice: over which stored result, what is shown of it, and the plan."""

    source: StoredResult
    arm: Arm
    shown: int
    plan: Plan


def _one(outcome: StoredResult | BenchError) -> StoredResult:
    if isinstance(outcome, BenchError):
        raise outcome
    return outcome


def _estimate(rows: list[_Row], plans: list[Plan]) -> str:
    """What is about to be asked, at most: calls, tokens of the definitions, and their cost where prices are known."""
    from bench.models.llm.settings import chat_settings

    known = {str(row.plan.dataset): row.source for row in rows}
    calls = tokens = 0.0
    for plan in plans:
        source = known[str(plan.dataset)]
        queries = min(plan.limit or source.manifest.dataset.queries, source.manifest.dataset.queries) * plan.repeats
        each = source.metrics.tokens.get("definitions_top_5", 0.0) / 5
        arguments = dict(plan.method.arguments)
        shown = 1 if arguments["base"] == "oracle" else arguments["shown"] or source.manifest.dataset.tools
        calls += queries
        tokens += queries * each * min(float(str(shown)), source.manifest.dataset.tools)
    price = chat_settings().price
    cost = "" if price is None else f", about {price.of(round(tokens), round(calls * 40)):.2g} at today's prices"
    return f"at most {calls:,.0f} calls, with about {tokens:,.0f} tokens of tools{cost}; what the journal has is free"


def _print(chosen: list[tuple[_Row, StoredResult]], tested: Mapping[str, Mapping[str, Fitness]]) -> None:
    from bench.comparison.prediction import prediction_table

    for dataset, tests in tested.items():
        faults = tests["random"].faults
        verdict = f"NOT fit to judge: {'; '.join(faults)}" if faults else "fit to judge"
        table = Table(
            ["gold among", "n", "hit", "above chance", "by position", "same twice", "unknown", "unreadable"],
            right=(1, 2, 3, 5, 6, 7),
            whole=(0, 3),
        )
        for name, test in tests.items():
            above = MetricValue(mean=test.above_chance, low=test.low, high=test.high, n=test.n)
            p = "" if test.position_p is None else f" (p {test.position_p:.2g})"
            table.add(
                {"random": "random tools", "hard": "hard tools", "alone": "none"}[name],
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
    right = Table(
        ["method", "shown", "queries", "right", "a gold tool called", "tokens in", "cached", "out"],
        right=range(1, 8),
        whole=(3, 4),
    )
    split = Table(["method", "shown", *_SPLIT], right=range(1, 8))
    for row, result in chosen:
        choices = read_choices(result)
        label = row.source.manifest.method.label
        if row.arm != "retrieved":
            label = row.arm if row.arm in {"gold", "library"} else f"{label}, {row.arm}"
        shown = str(row.shown or "all")
        tokens = [f"{number:,.0f}" for number in choices.mean_tokens()]
        hit = result.metrics.metrics.get("set_hit")
        right.add(label, shown, str(len(choices.queries)), mean_cell(choices.accuracy()), mean_cell(hit), *tokens)
        counts = choices.counts()
        split.add(label, shown, *(str(sum(counts[one] for one in outcomes)) for outcomes in _SPLIT.values()))
    console().print(right)
    console().print(split)
    for prediction in _predictions(chosen):
        console().print(prediction_table(prediction))
        told = [prediction.verdict, prediction.conditional, prediction.advice, *prediction.left_out]
        click.echo(terminal_text("\n".join(filter(None, told))))


def _predictions(chosen: list[tuple[_Row, StoredResult]]) -> tuple[Prediction, ...]:
    from bench.comparison.prediction import predictions

    return predictions([result for _, result in chosen], [row.source for row, _ in chosen])


def _to_dict(chosen: list[tuple[_Row, StoredResult]], tested: Mapping[str, Mapping[str, Fitness]]) -> dict[str, Any]:
    return {
        "calibration": {
            dataset: {name: {**asdict(test), "faults": test.faults} for name, test in tests.items()}
            for dataset, tests in tested.items()
        },
        "choices": [
            {
                "of": row.source.manifest.result_id,
                "arm": row.arm,
                "shown": row.shown,
                "outcomes": read_choices(result).counts(),
                **result.to_dict(),
            }
            for row, result in chosen
        ],
        "prediction": [
            {**asdict(item), "verdict": item.verdict, "conditional": item.conditional, "advice": item.advice}
            for item in _predictions(chosen)
        ],
    }
