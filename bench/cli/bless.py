"""`bench bless`: store a result as a baseline for the regression gate."""

from __future__ import annotations

from pathlib import Path

import click

from bench.base.bars import progress
from bench.base.text import one_line
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_results
from bench.cli.output import print_json
from bench.evaluation.opening import open_result
from bench.gating.bless import Blessed, bless
from bench.lookup.folder import ResultsFolder
from bench.metrics import parse_metrics
from bench.show.numbers import format_fixed, format_signed, several
from bench.show.numbers import size as octets


@click.command("bless", cls=VerbCommand, common=("results", "json"))
@click.argument("names", metavar="RESULT...", nargs=-1, required=True, shell_complete=complete_results)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="FILE.json for one result, or a folder for DATASET-METHOD.json files.",
)
@click.option("--reason", default="", help="Why the baseline changes; required to replace one, and stored in the file.")
@more_option("--by", default="", help="Who approves it [default: git user.name, or the login].")
@click.option("--metric", "metrics", multiple=True, help="Additional metric; repeatable.")
def command(
    names: tuple[str, ...],
    out: Path,
    reason: str,
    by: str,
    metrics: tuple[str, ...],
    results: Path,
    as_json: bool,
) -> None:
    """Store each RESULT as a baseline for `bench gate`: one small file to commit.

    RESULT is a folder, a result id or its prefix, METHOD@DATASET, or RUN_FILE@DATASET. A baseline contains ids and
    numbers (per-query values, hashes, who, when, why), and no text. An existing baseline with the same evidence stays
    unchanged, unless you give a reason and timings changed.
    """
    extra = [str(metric) for metric in parse_metrics(metrics)]
    folder = ResultsFolder(results)
    stored = [open_result(name, folder, progress=progress()) for name in names]
    done = bless(stored, out, reason, by, extra, progress())
    if as_json:
        print_json([item.to_dict() for item in done])
        return
    for item in done:
        for line in _lines(item):
            click.echo(line)


def _lines(item: Blessed) -> list[str]:
    """The outcome for one result: the file, its size, and each mean that changed."""
    label = one_line(item.baseline.label)
    if not item.written:
        return [f"{label}: {item.path} already has the same evidence and is unchanged"]
    size = octets(item.path.stat().st_size)
    if item.before is None:
        return [f"{label}: blessed in {item.path} ({size}, {several(len(item.baseline.query_ids), 'query')})"]
    lines = [f"{label}: {item.path} replaced ({size})"]
    for name in item.baseline.values:
        now = item.baseline.mean(name)
        then = item.before.mean(name) if name in item.before.values else None
        if then is None:
            lines.append(f"  {name}: new, {format_fixed(now)}")
        elif abs(now - then) > 1e-9:
            lines.append(f"  {name}: {format_fixed(then)} to {format_fixed(now)} ({format_signed(now - then)})")
    gone = [name for name in item.before.values if name not in item.baseline.values]
    return [*lines, *(f"  {name}: removed" for name in gone)]
