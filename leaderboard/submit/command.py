"""`bench submit`: pack a result into an archive, and verify submissions."""

from __future__ import annotations

import dataclasses
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import click

from bench.base.bars import progress
from bench.base.errors import BenchError, CheckFailed, ResultError, StorageError, UnavailableError, UsageError
from bench.base.paths import replacing
from bench.base.spec import parse
from bench.base.text import one_line
from bench.cli.help import Group, more_option
from bench.cli.options import complete_results
from bench.cli.output import print_json, say, whoever_reads
from bench.data.dataset import Dataset
from bench.leaderboard.submit.archive import pack as packed
from bench.leaderboard.submit.check import CheckedSubmission
from bench.leaderboard.submit.check_path import archive_name, check_place
from bench.leaderboard.submit.code import source_files
from bench.leaderboard.submit.sandbox import Limits, check_sandbox
from bench.lookup.finding import find_result
from bench.registry import load_dataset
from bench.results.store import StoredResult, find_results
from bench.show.numbers import several
from bench.show.numbers import size as octets

#: Maximum datasets in memory while a folder is checked; results are sorted by dataset.
_KEPT = 2


@click.group("submit", cls=Group)
def command() -> None:
    """Pack a result for a leaderboard, or check submissions."""


@command.command("pack", common=("results", "json"))
@click.argument("name", metavar="RESULT", shell_complete=complete_results)
@click.option(
    "--out", type=click.Path(path_type=Path), default=None, help="The archive [default: DATASET-METHOD-ID.zip]."
)
@click.option(
    "--code",
    type=click.Path(path_type=Path, exists=True),
    default=None,
    help="Add the Python files of a plug-in method: its file or its folder.",
)
def pack(name: str, out: Path | None, code: Path | None, results: Path, as_json: bool) -> None:
    """Pack RESULT into one archive: a folder, a result id or its prefix, or METHOD@DATASET.

    The same result gives a byte-identical archive. It contains ids and numbers, the command and the machine's
    description from the manifest, and no text of a query or tool. With --code it also contains the source files of a
    plug-in method, so that `bench submit check --rerun` can run it again.
    """
    from bench.leaderboard.submit.numbers import wanted_metrics

    result = find_result(results, name)
    method = result.manifest.method
    if code is not None and method.run_file is not None:
        raise UsageError(f"{one_line(result.label)} is a scored run file, which has no code; leave out --code.")
    # What the check would refuse, such as a metric of a package that is not installed.
    wanted_metrics(result.metrics)
    files = {} if code is None else source_files(code, parse(method.full_spec))
    data = packed(result, files)
    path = out or Path(archive_name(result.manifest))
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        # The file would be replaced, even /dev/stdout.
        raise StorageError(f"cannot write {path}: it is a folder, link or device; choose another --out.")
    with replacing(path) as temporary:
        temporary.write_bytes(data)
    if as_json:
        about = {"archive": str(path), "bytes": len(data), "result_id": result.manifest.result_id}
        print_json(about | {"code": sorted(files)})
        return
    added = f", {several(len(files), 'file')} of code" if files else ""
    size = f"{octets(len(data))}{added}"
    click.echo(f"{one_line(result.label)}: {path} ({size}); verify it with `bench submit check`")


@command.command("check", common=("source", "json"))
@click.argument("path", type=click.Path(path_type=Path))
@more_option(
    "--without-runs", is_flag=True, help="Accept results without run.parquet; only their means are recomputed."
)
@click.option(
    "--rerun",
    is_flag=True,
    help="Also run the method again, in a sandbox, and compare (needs bubblewrap).",
)
@more_option(
    "--timeout",
    type=click.IntRange(min=1),
    default=None,
    metavar="SECONDS",
    help=f"Stop a re-run after this time [default: {Limits().seconds:g}].",
)
@more_option(
    "--board",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=None,
    metavar="FOLDER",
    help="The board's results: refuse a submission that would replace one unless --rerun reproduced it.",
)
def check(
    path: Path,
    without_runs: bool,
    rerun: bool,
    timeout: int | None,
    board: Path | None,
    as_json: bool,
) -> None:
    """Verify a submission: an archive, the folder of one result, or a folder of many.

    The check verifies hashes and schemas, and re-scores the ranking with this machine's data: every metric, interval
    and per-query value must agree. It runs nothing of a submission and writes nothing of it to disk, and cannot
    verify that the named method produced the ranking.

    With --rerun it also runs the method in a sandbox without test gold, network, home folder or results. The verdict
    is `made again`, `differs` or `could not run`.
    """
    if timeout is not None and not rerun:
        raise UsageError("--timeout needs --rerun.")
    limits = None
    if rerun:
        check_sandbox()
        limits = Limits() if timeout is None else Limits(seconds=timeout)
    bars = progress()

    @lru_cache(maxsize=_KEPT)
    def load(spec: str) -> Dataset:
        return load_dataset(spec, bars)

    known = [] if board is None else _read_board(board)
    if board is None:
        say("not checked (needs --board): whether a board has these results, their ids or their rankings")
    if not rerun:
        say("not checked (needs --rerun): whether the named methods make these rankings")
    verdicts = []
    for verdict in check_place(path, load, without_runs, limits, known):
        verdicts.append(verdict)
        if not as_json:
            with whoever_reads():
                _print(verdict)
    if as_json:
        with whoever_reads():
            print_json([_json(verdict) for verdict in verdicts])
    if error := _error(verdicts):
        raise error


def _read_board(folder: Path) -> list[StoredResult]:
    """The board's results. Raises `ResultError` if one is damaged, because a submission could then replace it."""
    known = []
    for item in find_results(folder):
        if isinstance(item, ResultError):
            raise item
        known.append(item)
    if not known:
        raise UsageError(f"{folder} has no results to compare a submission with; --board is a folder of results.")
    return known


def _print(verdict: CheckedSubmission) -> None:
    label = f"  {one_line(verdict.label, 200)}" if verdict.label else ""
    click.echo(f"{verdict.outcome}  {one_line(str(verdict.place))}{label}")
    if verdict.note:
        click.echo(f"  ({one_line(verdict.note)})")
    again = verdict.rerun
    if again is not None:
        words = [f"identical rankings for {several(again.queries, 'query')}"] if again.verdict == "made again" else []
        words += [again.note] if again.note else []
        click.echo(f"  {again.verdict}" + (f": {one_line('; '.join(words))}" if words else ""))
    for reason in verdict.reasons:
        click.echo(f"  - {one_line(reason)}")


def _json(verdict: CheckedSubmission) -> dict[str, Any]:
    fields = {
        "submission": str(verdict.place),
        "outcome": verdict.outcome,
        "result_id": verdict.result_id,
        "label": verdict.label,
        "reasons": list(verdict.reasons),
        "note": verdict.note,
        "rerun": None if verdict.rerun is None else dataclasses.asdict(verdict.rerun),
    }
    # Unpaired surrogates in a file name cannot be printed.
    safe: dict[str, Any] = json.loads(json.dumps(fields).encode("ascii"))
    return safe


def _error(verdicts: list[CheckedSubmission]) -> BenchError | None:
    """The outcome that sets the exit code: a refused submission outweighs an unreadable one."""
    wrong = [verdict for verdict in verdicts if verdict.outcome != "accepted"]
    if not wrong:
        return None
    outcomes = {verdict.outcome for verdict in wrong}
    what = "the submission is" if len(verdicts) == 1 else f"{len(wrong)} of {len(verdicts)} submissions are"
    if outcomes == {"unavailable"} and any(verdict.rerun for verdict in wrong):
        return UnavailableError(f"{what} not verified: a method could not be run again; the reasons are above.")
    if outcomes == {"unavailable"}:
        return UnavailableError(f"{what} not checked: the dataset is not available.")
    if outcomes == {"unreadable"}:
        return ResultError(f"{what} not readable; the reasons are above.")
    return CheckFailed(f"{what} not accepted; the reasons are above.")
