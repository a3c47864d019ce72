"""`bench data write-queries`: have a language model write queries for the tools of a dataset."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.bars import progress
from bench.base.errors import BenchError, DataError, UsageError
from bench.base.paths import storage_errors, write_text
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_datasets
from bench.cli.output import console, print_json, say
from bench.importing.reading import open_regular
from bench.show.numbers import several
from bench.show.tables import Table

if TYPE_CHECKING:
    from bench.data.tables import Query
    from bench.lab.synthesis.targets import Kind
    from bench.lab.synthesis.writer import QueryWriter
    from bench.models.llm.messages import Usage

#: The method for neighbours: it needs no model and no past queries.
_LEXICAL = "tfidf"
#: Maximum queries of a kind: each may cost two calls.
_MOST = 10_000

_NUMBER = click.IntRange(0, _MOST)


@click.command("write-queries", cls=VerbCommand, common=("source", "json"))
@click.argument("name", shell_complete=complete_datasets)
@click.option("--llm", "model", required=True, help="Language model that writes the queries and checks them.")
@click.option(
    "--out", "output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="JSON Lines file to write."
)
@click.option("--single", type=_NUMBER, help="Queries for one tool [default: one per tool, at most 100].")
@click.option("--pairs", type=_NUMBER, help="Queries for one of two confusable tools [default: at most 50].")
@click.option("--chains", type=_NUMBER, help="Queries for two or three tools used in turn [default: at most 50].")
@click.option("--no-tool", type=_NUMBER, help="Queries that no tool answers [default: one per 5 tools, at most 20].")
@more_option("--seed", type=int, default=0, show_default=True, help="Random seed of the drawn tools.")
def command(
    name: str,
    model: str,
    output: Path,
    single: int | None,
    pairs: int | None,
    chains: int | None,
    no_tool: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Have a language model write queries for the tools of the dataset NAME.

    A query is kept only if a second call, given the query and a shuffled list of similar tools, picks the tools that it
    was written for. Every reply is journalled, so the same command continues where it stopped. Queries kept so far are
    in the output file. To use it, import the tools again: `bench data import NAME SOURCE --queries FILE`.
    """
    if model == "rules":
        raise UsageError("rules cannot write queries: name a language model, as in --llm gpt-4o-mini.")

    from bench.data.origins import written_by
    from bench.interface import Library
    from bench.lab.synthesis.neighbours import Neighbours
    from bench.lab.synthesis.targets import draw_targets
    from bench.lab.synthesis.writer import QueryWriter
    from bench.methods.tgr.rules import rule_edges
    from bench.models.llm.client import LanguageModel
    from bench.registry import build_method, load_dataset

    _check_output(output, written_by(model))
    bars = progress()
    dataset = load_dataset(name, bars)
    writer_model = LanguageModel(model, progress=bars)
    writer_model.preflight()
    library = Library.of(dataset, dataset.card.template)
    neighbours = Neighbours(library, build_method(_LEXICAL))
    numbers: dict[Kind, int | None] = {"single": single, "pair": pairs, "chain": chains, "no-tool": no_tool}
    targets = draw_targets(library, neighbours, rule_edges(library.tools), numbers, seed)
    if not targets:
        raise UsageError("there is nothing to write: ask for queries of at least one kind, as in --single 20.")
    writer = QueryWriter(library, neighbours, writer_model, seed, bars)
    try:
        writer.write(targets)
    except (BenchError, KeyboardInterrupt):
        if writer.queries:
            _write(output, writer.queries)
            say(f"{several(len(writer.queries), 'query')} that were kept so far are in {output}")
        raise
    if not writer.queries:
        raise DataError(f"none of the {len(targets)} queries passed the checks: {_reasons(writer)}.")
    _write(output, writer.queries)
    _report(writer, writer_model.usage, output, as_json)


def _check_output(output: Path, origin: str) -> None:
    """Refuse to replace a file unless this command wrote it with the same model."""
    with storage_errors(str(output)):
        if not output.exists():
            return
        with open_regular(output) as file:
            origins = {_is_of(line, origin) for line in iter(lambda: file.readline(1_000_000), b"")}
    if origins != {True}:
        raise UsageError(f"the file {output} exists and holds something else; name a new one.")


def _is_of(line: bytes, origin: str) -> bool:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.get("origin") == origin


def _write(output: Path, queries: Sequence[Query]) -> None:
    """Write the queries as `bench data import --queries` reads them: a JSON object on each line."""
    rows = [
        {
            "id": query.query_id,
            "query": query.text,
            "tools": list(query.gold),
            "tags": dict(query.slices),
            "group": query.group,
            "origin": query.origin,
        }
        for query in queries
    ]
    write_text(output, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _reasons(writer: QueryWriter) -> str:
    """How many queries were dropped for each reason, in words."""
    from bench.lab.synthesis.writer import DROPPED

    dropped = sum((tally.dropped for tally in writer.tallies.values()), Counter[str]())
    return ", ".join(f"{text} {dropped[reason]}" for reason, text in DROPPED.items() if dropped[reason])


def _report(writer: QueryWriter, usage: Usage, output: Path, as_json: bool) -> None:
    from bench.lab.synthesis.writer import DROPPED

    tallies = {kind: tally for kind, tally in writer.tallies.items() if tally.asked}
    if as_json:
        kinds = {
            kind: {**vars(tally), "dropped": {reason: tally.dropped[reason] for reason in DROPPED}}
            for kind, tally in tallies.items()
        }
        print_json({"output": str(output), "kept": len(writer.queries), "kinds": kinds, **usage.to_dict()})
        return
    reasons = [reason for reason in DROPPED if any(tally.dropped[reason] for tally in tallies.values())]
    heads = ("queries", "asked for", "written", "kept", *(DROPPED[reason] for reason in reasons))
    table = Table([*heads], right=tuple(range(1, len(heads))))
    for kind, tally in tallies.items():
        counts = [tally.asked, tally.written, tally.kept, *(tally.dropped[reason] for reason in reasons)]
        table.add(kind, *map(str, counts))
    console().print(table)
    click.echo(str(usage))
    click.echo(
        f"written to {output}: {several(len(writer.queries), 'query')}; next: bench data import NAME SOURCE "
        f"--queries {output} --unit gold+group"
    )
