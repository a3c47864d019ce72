"""Options that most commands share. Each is defined once, and a command lists the ones it supports.

`VerbCommand` (`bench.cli.help`) adds them: `@click.command("show", cls=VerbCommand, common=("results", "json"))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from bench.base.config import config_context
from bench.base.errors import UsageError
from bench.base.paths import results_folder

F = TypeVar("F", bound=Callable[..., Any])

FOLDER = click.Path(path_type=Path, file_okay=False)

#: Name -> its options, in the order of help. A command receives the parameters `results` (a folder), `quiet` and
#: `as_json`; `source` and `budget` apply to everything that runs until the command ends.
COMMON: dict[str, tuple[click.Option, ...]] = {
    "results": (click.Option(["--results"], type=FOLDER, help="Results folder [default: $BENCH_RESULTS or results]."),),
    "source": (
        click.Option(["--mirror"], type=FOLDER, help="Read upstream files from this local mirror."),
        click.Option(["--offline"], is_flag=True, help="Never use the network; fail if a file is missing."),
    ),
    "budget": (
        click.Option(
            ["--budget"],
            type=click.FloatRange(0, min_open=True),
            metavar="AMOUNT",
            help="Spending limit over all journalled calls; requires BENCH_LLM_PRICE [default: $BENCH_LLM_LIMIT].",
        ),
    ),
    "quiet": (click.Option(["-q", "--quiet"], is_flag=True, help="No progress bars and no notes."),),
    "json": (click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),),
}


def format_option(*layouts: str, note: str = "How the output looks.") -> Callable[[F], F]:
    """`--format`, passed as `layout`: `table`, one of these, or `json`, for which `--json` is short."""
    kind = click.Choice(["table", *layouts, "json"])
    return click.option("--format", "layout", type=kind, default="table", show_default=True, help=note)


def common_options(names: Sequence[str]) -> Iterator[click.Option]:
    """The options with these names, in the order of help."""
    assert set(names) <= COMMON.keys(), names
    for name, options in COMMON.items():
        if name in names:
            yield from options


def use_common(context: click.Context, names: Sequence[str]) -> None:
    """Apply the common options until the command ends, and find the results folder."""
    values = context.params
    if "results" in names:
        values["results"] = values["results"] or results_folder()
    if "source" in names:
        use_session(context, offline=values.pop("offline") or None, mirror=values.pop("mirror"))
    if "budget" in names:
        use_session(context, budget=values.pop("budget"))
    if "json" in names and "layout" in values and values.pop("as_json"):
        if values["layout"] not in {"table", "json"}:
            raise UsageError(f"--json is short for --format json, and --format {values['layout']} is given.")
        values["layout"] = "json"


def use_session(
    context: click.Context,
    *,
    offline: bool | None = None,
    cache: bool | None = None,
    mirror: Path | None = None,
    budget: float | None = None,
) -> None:
    """Apply settings of `session` until the command ends, to the models of methods too."""
    context.with_resource(config_context(offline=offline, cache=cache, mirror=mirror, budget=budget))
