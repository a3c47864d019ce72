"""`bench data check-exact`: how many requests of a dataset their gold solves exactly, by a language model."""

from __future__ import annotations

from dataclasses import asdict

import click

from bench.base.bars import progress
from bench.base.errors import UsageError
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_datasets
from bench.cli.output import console, print_json
from bench.show.numbers import estimate
from bench.show.tables import Table


@click.command("check-exact", cls=VerbCommand, common=("source", "budget", "json"))
@click.argument("dataset", shell_complete=complete_datasets)
@click.option("--llm", "model", required=True, help="Language model that judges the requests.")
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="Ask about N requests.", metavar="N"
)
@more_option("--seed", type=int, default=0, show_default=True, help="Random seed of the sample and the tools left out.")
def command(dataset: str, model: str, limit: int, seed: int, as_json: bool) -> None:
    """Ask a language model how many requests of DATASET are solved exactly by their gold tools.

    A request passes if its tools do everything it asks for, and no longer do if one of them is left out (table 1 of the
    PTR paper). Every reply is journalled, so the same command resumes an interrupted check.
    """
    if model == "rules":
        raise UsageError("rules cannot judge requests: name a language model, as in --llm gpt-4o-mini.")

    from bench.lab.building.exact import check_exact
    from bench.lab.building.rectools import DROPPED
    from bench.models.llm.client import LanguageModel
    from bench.registry import load_dataset

    bars = progress()
    loaded = load_dataset(dataset, bars)
    judge = LanguageModel(model, progress=bars)
    found = check_exact(loaded, limit, seed, judge, bars)
    if as_json:
        by_size = {str(size): asdict(share) for size, share in found.by_size.items()}
        asked = {"dataset": loaded.spec, "model": judge.identity, "seed": seed}
        sums = {**asdict(found.every), "by_size": by_size, "dropped": dict(found.dropped)}
        print_json({**asked, **sums, **judge.usage.to_dict()})
        return
    table = Table(["gold tools", "requests", "groups", "solved exactly"], right=(1, 2, 3))
    for name, share in [("any number", found.every), *((str(size), share) for size, share in found.by_size.items())]:
        table.add(name, str(share.requests), str(share.units), estimate(share.share, share.low, share.high))
    console().print(table)
    for reason, text in DROPPED.items():
        if found.dropped.get(reason):
            click.echo(f"{found.dropped[reason]} {text}")
    click.echo(f"judged by {judge.identity}: {judge.usage}")
