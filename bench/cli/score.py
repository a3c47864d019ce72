"""`bench score`: score the run file of any system and store it as a result."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from bench.base.bars import progress
from bench.cli.help import VerbCommand
from bench.cli.options import complete_datasets, settings_options
from bench.cli.output import print_json
from bench.cli.results import print_result, tell_names
from bench.data.template import Template
from bench.evaluation.external import score_run_file
from bench.evaluation.run_files import read_run_file
from bench.metrics import parse_metrics
from bench.registry import load_dataset
from bench.results.failures import result_to_dict
from bench.results.settings import EvaluatedSplit


@click.command("score", cls=VerbCommand, common=("results", "source", "json"))
@click.argument("run_file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "-d", "--dataset", required=True, shell_complete=complete_datasets, help="Dataset that the system ran on."
)
@click.option("--name", help="Name of the system [default: the file's name].")
@settings_options("split", "template")
@click.option("--metric", "metrics", multiple=True, help="Additional metric; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Show all metrics and costs.")
def command(
    run_file: Path,
    dataset: str,
    name: str | None,
    split: EvaluatedSplit | None,
    template: Template | None,
    metrics: tuple[str, ...],
    everything: bool,
    results: Path,
    as_json: bool,
) -> None:
    """Score RUN_FILE, a TREC run or JSON lines (`-` for standard input), and store it as a result.

    A JSON line is {"query_id": "...", "tools": ["best", "next", ...]}, optionally with "scores", "recommended" (a tool
    set) and "failed". Queries missing from the file count as failed.
    """
    extra = parse_metrics(metrics)
    data, file = _read(run_file)
    name = name or ("stdin" if file == "-" else Path(file).stem)
    loaded = load_dataset(dataset, progress())
    result = score_run_file(
        data,
        file,
        loaded,
        results,
        name=name,
        split=split,
        template=template,
        metrics=extra,
    )
    tell_names([result])
    if as_json:
        print_json(result_to_dict(result))
    else:
        print_result(result, [str(metric) for metric in extra], everything)


def _read(path: Path) -> tuple[bytes, str]:
    """Read a run file or standard input once: its bytes, and a file name that can be stored."""
    data = sys.stdin.buffer.read() if str(path) == "-" else read_run_file(path)
    return data, os.fsencode(path.name).decode("utf-8", "replace")
