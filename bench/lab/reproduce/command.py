"""`bench reproduce`: reproduce the papers' tables and claims."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from bench.base.bars import progress
from bench.base.config import current_session
from bench.base.errors import CheckFailed, UsageError
from bench.base.parameters import suggestion
from bench.base.paths import write_text
from bench.cli.common import format_option
from bench.cli.executors import chosen_executor, executor_options
from bench.cli.help import VerbCommand, more_option
from bench.cli.output import print_json
from bench.lab.reproduce.artefacts import adding_command, artefact, artefacts, folder_of, is_there, with_needed
from bench.lab.reproduce.artefacts import command as training_command
from bench.lab.reproduce.cells import paper_of, papers, table_cells, table_info, table_names
from bench.lab.reproduce.claims import Claim, claims
from bench.lab.reproduce.estimate import estimate_runs, estimate_text
from bench.lab.reproduce.parts import (
    Part,
    block_parts,
    claim_parts,
    drawn_part,
    markdown,
    paper_table,
    print_parts,
    side_by_side,
    summary_parts,
)
from bench.lab.reproduce.recipes import read_roles
from bench.lab.reproduce.reproduction import look_ahead, metrics_of, plan_runs, reproduce
from bench.lab.reproduce.runs import MethodRuns
from bench.registry import build_method, load_dataset
from bench.results.store import to_json
from bench.show.tables import Table

_WORDS = ("list", "all", "claims", "train")


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _names() if name.startswith(incomplete)]


def _names() -> list[str]:
    """Everything that can be reproduced or trained, by name."""
    return [*_WORDS, *papers(), *table_names(), *(claim.id for claim in claims()), *artefacts()]


@click.command("reproduce", cls=VerbCommand, common=("results", "source", "quiet", "json"))
@click.argument("what", nargs=-1, shell_complete=_complete)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for Markdown and JSON files.")
@click.option(
    "--model",
    "named",
    multiple=True,
    metavar="ROLE=MODEL",
    help="A language model in the place of a paper's; repeatable.",
)
@format_option("markdown")
@more_option("--download", is_flag=True, help="Download missing encoders of the papers (some gigabytes).")
@executor_options
def command(
    what: tuple[str, ...],
    out: Path | None,
    named: tuple[str, ...],
    layout: str,
    download: bool,
    jobs: int,
    address: str | None,
    results: Path,
    quiet: bool,
) -> None:
    """Reproduce the papers' tables and claims.

    \b
    bench reproduce list            list tables, claims, and the models they need
    bench reproduce tgr-2           one table; several tables or a whole paper (tgr) work, too
    bench reproduce tgr-words       one claim
    bench reproduce claims          only the claims; the claims of a paper are part of it
    bench reproduce all             everything that can run on this machine
    bench reproduce train [NAME]    train the models that recipes need, or the named ones

    Measurements are stored as results, so a second run is quick. No language model or network is needed: a cell that
    needs one is not run, and says what is missing.
    """
    bars = progress(quiet)
    if not what:
        raise UsageError("say what to reproduce: list, all, claims, a table (tgr-2), a claim or a paper (tgr).")
    training = what[0] == "train" or what[0] in artefacts()
    if (training or what[0] == "list") and (jobs > 1 or address is not None or named):
        raise UsageError(f"bench reproduce {what[0]} runs no cells: give no --jobs, --ray or --model with it.")
    if training:
        _train(what[what[0] == "train" :], quiet)
        return
    if what == ("list",):
        _list(layout == "json")
        return
    models = read_roles(named)
    tables, chosen = _chosen(what)
    # Encoders of gigabytes are only downloaded on request; datasets are downloaded and endpoints called as everywhere.
    if not download and "HF_HUB_OFFLINE" not in os.environ:
        os.environ["HF_HUB_OFFLINE"] = "1"
        click.get_current_context().call_on_close(lambda: os.environ.pop("HF_HUB_OFFLINE", None))

    runs = MethodRuns(
        results,
        load=lambda spec: load_dataset(spec, bars),
        build=lambda spec: build_method(spec, progress=bars),
        metrics=metrics_of(tables, chosen, models),
        models=models,
        progress=bars,
    )
    executor = chosen_executor(jobs, address, runs.load)
    with bars.stage("look what is here"):
        asked = look_ahead(tables, chosen, runs)
        estimate = estimate_runs(asked, runs)
    for sentence in estimate_text(estimate):
        bars.note(sentence)
    if executor is not None:
        runs.run_ahead(plan_runs(asked), executor)
    command_line = shlex.join(["bench", "reproduce", *what, *(word for text in named for word in ("--model", text))])
    parts_of = side_by_side if what == ("all",) else block_parts
    show = None if layout != "table" else lambda *judged: print_parts(parts_of(*judged))
    try:
        report = reproduce(tables, chosen, runs, command_line, bars, show, estimate)
    except KeyboardInterrupt:
        bars.note("what was measured is kept: the same command goes on from there")
        raise
    if out is not None:
        write_text(out / "reproduction.json", to_json(report))
        write_text(out / "reproduction.md", markdown(report))
        bars.note(f"written: {out / 'reproduction.md'} and {out / 'reproduction.json'}")
    if layout == "json":
        print_json(report.model_dump(mode="json"))
    elif layout == "markdown":
        click.echo(markdown(report), nl=False)
    elif what == ("all",):
        print_parts(summary_parts(report))
    else:
        print_parts([*claim_parts(report.claims), Part(table=paper_table(report))])


def _chosen(what: Sequence[str]) -> tuple[list[str], list[Claim]]:
    """The tables and claims that the words name, each once, in the order of the papers."""
    for word in what:
        if word not in _names():
            near = suggestion(word, _names())
            raise UsageError(f"there is no table or claim {word!r}{near}; `bench reproduce list` lists them.")
        if word in {"list", "train", *artefacts()}:
            raise UsageError(f"`bench reproduce {word}` goes with no table or claim.")
    words = set(what)
    tables = [table for table in table_names() if words & {"all", table, paper_of(table)}]
    return tables, [claim for claim in claims() if words & {"all", "claims", claim.id, claim.paper}]


def _list(as_json: bool) -> None:
    """Tables with their cells, claims, and artefacts with whether they exist."""
    if as_json:
        cells = {name: {"cells": len(table_cells(name)), **table_info(name).model_dump()} for name in table_names()}
        statements = [claim.model_dump(mode="json") for claim in claims()]
        made = {
            name: {**item.model_dump(), "folder": str(folder_of(name)), "there": is_there(name)}
            for name, item in artefacts().items()
        }
        drawn = {name: paper.drawn for name, paper in papers().items()}
        print_json({"tables": cells, "claims": statements, "artefacts": made, "drawn": drawn})
        return
    tables = Table(["table", "cells", "description"], right=(1,))
    for name in table_names():
        tables.add(name, str(len(table_cells(name))), table_info(name).title)
    claimed = Table(["claim", "paper", "statement"])
    for claim in claims():
        claimed.add(claim.id, claim.paper, claim.claim)
    models = Table(["model", "available", "description"])
    for name, item in artefacts().items():
        models.add(name, "yes" if is_there(name) else "no", item.summary)
    training = Part(table=models, notes=["`bench reproduce train NAME` trains a model"])
    print_parts([Part(table=tables), Part(table=claimed), training, drawn_part(papers())])


def _train(names: Sequence[str], quiet: bool) -> None:
    """Train artefacts, each by its own command in its own process; existing ones are kept."""
    here = current_session()
    for name in names:
        artefact(name)
    failed = []
    for name in with_needed(list(names or artefacts())):
        if is_there(name):
            click.echo(f"{name}: available in {folder_of(name)}")
            continue
        missing = [needed for needed in artefact(name).needs() if not is_there(needed)]
        if not names and (adding := adding_command(artefact(name).dataset)):
            click.echo(f"{name}: skipped, because it needs data that you provide: {adding}")
            continue
        if missing:
            failed.append(name)
            click.echo(f"{name}: not trained, because {missing[0]} is missing")
            continue
        words = training_command(name)
        click.echo(shlex.join(["bench", *words]))
        more = ["--mirror", str(here.mirror)] if here.mirror else []
        more += [*(["--offline"] if here.offline else []), *(["--quiet"] if quiet else [])]
        if subprocess.run([sys.executable, "-m", "bench", *words, *more]).returncode:
            failed.append(name)
    if failed:
        raise CheckFailed(f"not trained: {', '.join(failed)}; the reasons are above.")
