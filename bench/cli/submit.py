"""`bench submit`: pack a result into an archive, and verify submissions."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import click

from bench.cli.bars import progress
from bench.cli.options import complete_results, json_option, results_option, source_options, use_session
from bench.cli.output import print_json, whoever_reads
from bench.data.dataset import Dataset
from bench.data.sources import Sources
from bench.errors import BenchError, CheckFailed, ResultError, StorageError, UnavailableError
from bench.registry import load_dataset
from bench.results.store import find_result
from bench.storage.paths import replacing, results_folder
from bench.submit.archive import pack as packed
from bench.submit.check import CheckedSubmission
from bench.submit.check_path import archive_name, check_place
from bench.text import one_line

#: Datasets that are kept in memory while a folder is checked: its results lie side by side by dataset.
_KEPT = 2


@click.group("submit")
def command() -> None:
    """Pack a result for a leaderboard, or check submissions."""


@command.command("pack")
@click.argument("name", metavar="RESULT", shell_complete=complete_results)
@click.option(
    "--out", type=click.Path(path_type=Path), default=None, help="The archive [default: DATASET-METHOD-ID.zip]."
)
@results_option
@json_option
def pack(name: str, out: Path | None, results: Path | None, as_json: bool) -> None:
    """Pack RESULT into one archive: a folder, a result id or its prefix, or METHOD@DATASET.

    The same result gives a byte-identical archive. It contains ids and numbers, the command and the machine's
    description from the manifest, and no text of a query or tool.
    """
    result = find_result(results or results_folder(), name)
    data = packed(result)
    path = out or Path(archive_name(result.manifest))
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        # It would be replaced: /dev/stdout by a file of that name.
        raise StorageError(f"cannot write {path}: it is a folder, link or device; choose another --out.")
    with replacing(path) as temporary:
        temporary.write_bytes(data)
    if as_json:
        print_json({"archive": str(path), "bytes": len(data), "result_id": result.manifest.result_id})
        return
    click.echo(f"{one_line(result.label)}: {path} ({len(data) / 1024:.0f} KiB); verify it with `bench submit check`")


@command.command("check")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--without-runs", is_flag=True, help="Accept results without run.parquet; only their means are recomputed."
)
@source_options
@json_option
def check(path: Path, without_runs: bool, mirror: Path | None, offline: bool, as_json: bool) -> None:
    """Verify a submission: an archive, the folder of one result, or a folder of many.

    The check verifies hashes and schemas, and re-scores the ranking with this machine's data: every metric, interval
    and per-query value must agree. Nothing from an archive is written to disk. The check cannot verify that the named
    method produced the ranking.
    """
    use_session(offline=offline)
    sources = Sources.from_environment(mirror, offline, progress())

    @lru_cache(maxsize=_KEPT)
    def load(spec: str) -> Dataset:
        return load_dataset(spec, sources)

    found = []
    for verdict in check_place(path, load, without_runs):
        found.append(verdict)
        if not as_json:
            with whoever_reads():
                _print(verdict)
    if as_json:
        with whoever_reads():
            print_json([_json(verdict) for verdict in found])
    if error := _error(found):
        raise error


def _print(verdict: CheckedSubmission) -> None:
    label = f"  {one_line(verdict.label, 200)}" if verdict.label else ""
    click.echo(f"{verdict.outcome}  {one_line(str(verdict.place))}{label}")
    if verdict.note:
        click.echo(f"  ({one_line(verdict.note)})")
    for reason in verdict.reasons:
        click.echo(f"  - {one_line(reason)}")


def _json(verdict: CheckedSubmission) -> dict[str, Any]:
    found = {
        "submission": str(verdict.place),
        "outcome": verdict.outcome,
        "result_id": verdict.result_id,
        "label": verdict.label,
        "reasons": list(verdict.reasons),
        "note": verdict.note,
    }
    # Lone halves of surrogate pairs in a file's name cannot be printed.
    safe: dict[str, Any] = json.loads(json.dumps(found).encode("ascii"))
    return safe


def _error(found: list[CheckedSubmission]) -> BenchError | None:
    """What the exit code comes from: one that is refused weighs more than one that could not be read."""
    wrong = [verdict for verdict in found if verdict.outcome != "accepted"]
    if not wrong:
        return None
    outcomes = {verdict.outcome for verdict in wrong}
    what = "the submission is" if len(found) == 1 else f"{len(wrong)} of {len(found)} submissions are"
    if outcomes == {"unavailable"}:
        return UnavailableError(f"{what} not checked: the dataset is not available.")
    if outcomes == {"unreadable"}:
        return ResultError(f"{what} not readable; the reasons are above.")
    return CheckFailed(f"{what} not accepted; the reasons are above.")
