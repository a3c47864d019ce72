"""`bench data build-rectools`: build a dataset with a language model, as RecTools was built."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.base.bars import progress
from bench.base.errors import UsageError
from bench.base.paths import storage_errors
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_datasets
from bench.cli.output import console, print_json, say
from bench.show.tables import Table

if TYPE_CHECKING:
    from bench.data.card import Card
    from bench.data.tables import Tool
    from bench.data.template import NamedTemplate

_LARGEST = 50
#: The default tool text, RecTools' own.
_TEMPLATE: NamedTemplate = "name_description"


def _sizes(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """Read `1-10`, `2`, or `1,2,5-8`."""
    sizes: set[int] = set()
    for part in value.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,4})(?:-([0-9]{1,4}))?\s*", part)
        if match is None:
            raise click.BadParameter(f"{value!r} is not a list of sizes; give one such as 1-10 or 1,2,5-8.", ctx, param)
        start, end = int(match[1]), int(match[2] or match[1])
        if not 1 <= start <= end <= _LARGEST:
            raise click.BadParameter(f"{part!r} is not between 1 and {_LARGEST}.", ctx, param)
        sizes.update(range(start, end + 1))
    return tuple(sorted(sizes))


@click.command("build-rectools", cls=VerbCommand, common=("source", "budget", "json"))
@click.argument("library", shell_complete=complete_datasets)
@click.option("--llm", "model", required=True, help="Language model that writes and judges the requests.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write.")
@click.option(
    "--sizes", callback=_sizes, default="1-10", show_default=True, help="Bundle sizes, such as 1-10 or 1,2,5-8."
)
@click.option("--bundles", type=click.IntRange(1), default=20, show_default=True, help="Bundles per size.")
@more_option("--requests", type=click.IntRange(1), default=5, show_default=True, help="Requests per bundle.")
@more_option("--seed", type=int, default=0, show_default=True, help="Random seed of bundles and splits.")
@more_option(
    "--split",
    type=click.Choice(["bundle-disjoint", "random"]),
    default="bundle-disjoint",
    show_default=True,
    help="Whether a bundle may occur in both train and test.",
)
@more_option(
    "--test-share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.2,
    show_default=True,
    help="Proportion of requests in the test split.",
)
def command(
    library: str,
    model: str,
    out: Path,
    sizes: tuple[int, ...],
    bundles: int,
    requests: int,
    seed: int,
    split: str,
    test_share: float,
    as_json: bool,
) -> None:
    """Build a dataset from the tools of LIBRARY with a language model, as RecTools was built.

    LIBRARY is a dataset or a corpus.jsonl in BEIR format. The model writes requests for randomly sampled bundles. A
    request is kept only if the full bundle solves it and removing one tool breaks it. Every reply is journalled, so the
    same command resumes an interrupted build. Register the result with `bench data add`.
    """
    if model == "rules":
        raise UsageError("rules cannot write requests: name a language model, as in --llm gpt-4o-mini.")
    with storage_errors(str(out)):
        if out.is_dir() and any(out.iterdir()):
            raise UsageError(f"the folder {out} is not empty; name a new one.")

    from bench.base.locks import replace_folder
    from bench.data.beir import export_beir
    from bench.data.derive import SplitOptions
    from bench.lab.building.rectools import DROPPED, BuildSettings, build_dataset
    from bench.models.llm.client import LanguageModel

    bars = progress()
    tools, card = _library(library)
    writer = LanguageModel(model, progress=bars)
    options = SplitOptions.model_validate({"split": split, "seed": seed, "test_share": test_share})
    made, built = build_dataset(tools, card, BuildSettings(sizes, bundles, requests, seed), options, writer, bars)
    with replace_folder(Path(os.path.abspath(out))) as fresh:
        export_beir(made, fresh, made.card.template)
    if as_json:
        sums = {"asked": built.requested, "kept": len(built.queries), "dropped": built.dropped}
        print_json({"folder": str(out), **sums, **writer.usage.to_dict(), "known_issues": made.card.known_issues})
        return
    table = Table(["requests", ""], right=(1,))
    table.add("asked for", str(built.requested))
    for reason, text in DROPPED.items():
        table.add(f"dropped: {text}", str(built.dropped[reason]))
    table.add("kept", str(len(built.queries)))
    console().print(table)
    click.echo(str(writer.usage))
    click.echo(f"written to {out}; next: bench data add NAME --from {out}")


def _library(library: str) -> tuple[list[Tool], Card]:
    """The tools, and the card of the new dataset."""
    from bench.data.beir import CORPUS, read_corpus
    from bench.data.card import Card
    from bench.registry import load_dataset

    path = Path(library).expanduser()
    with storage_errors(library):
        corpus = next((place for place in (path, path / CORPUS) if place.is_file()), None)
    if corpus is not None:
        notes: list[str] = []
        tools, title = read_corpus(corpus, notes), f"Requests for {path.name}"
        terms: dict[str, Any] = {"licence": "not stated", "redistribution": False, "template": _TEMPLATE}
        for note in notes:
            say(f"{corpus}: {note}")
    else:
        loaded = load_dataset(library, progress())
        tools, title = list(loaded.tools), f"Requests for the tools of {loaded.card.title}"
        terms = loaded.card.model_dump(include={"licence", "redistribution", "template"})
    summary = "Requests written by a language model for bundles of tools drawn at random."
    return tools, Card(id="built", title=title, summary=summary, **terms)
