"""`bench submit`: pack a result into an archive, verify submissions, and keep a board of them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable
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
from bench.gating.bless import who
from bench.leaderboard.boards.changes import changes_since
from bench.leaderboard.boards.rankingset import DECLARED, read_ranking_set
from bench.leaderboard.submit.archive import pack as packed
from bench.leaderboard.submit.beside import BoardResults, read_board
from bench.leaderboard.submit.check import CheckedSubmission, Load
from bench.leaderboard.submit.check_path import archive_name, check_place
from bench.leaderboard.submit.code import source_files
from bench.leaderboard.submit.decide import accept, withdraw
from bench.leaderboard.submit.sandbox import Limits, check_sandbox
from bench.lookup.finding import find_result
from bench.lookup.removal import find_dependants
from bench.registry import load_dataset
from bench.show.numbers import ranks, several
from bench.show.numbers import size as octets

#: Maximum datasets in memory while a folder is checked; results are sorted by dataset.
_KEPT = 2

_rerun = click.option(
    "--rerun", is_flag=True, help="Also run the method again, in a sandbox, and compare (needs bubblewrap)."
)
_timeout = more_option(
    "--timeout",
    type=click.IntRange(min=1),
    default=None,
    metavar="SECONDS",
    help=f"Stop a re-run after this time [default: {Limits().seconds:g}].",
)
_board = click.option(
    "--board",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    metavar="FOLDER",
    help="The board's folder of results.",
)
_by = more_option("--by", default="", help="Who decides [default: git user.name, or the login].")
_why = click.option("--why", required=True, metavar="TEXT", help="The reason, for readers of the site.")


@click.group("submit", cls=Group)
def command() -> None:
    """Submit results to a board: pack and check them, accept and withdraw them."""


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
@_rerun
@_timeout
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
    limits = _limits(rerun, timeout)
    known = BoardResults() if board is None else read_board(board)
    if board is not None and not known.results:
        raise UsageError(f"{board} has no results to compare a submission with; --board is a folder of results.")
    if board is None:
        say("not checked (needs --board): whether a board has these results, their ids or their rankings")
    if not rerun:
        say("not checked (needs --rerun): whether the named methods make these rankings")
    _tell(check_place(path, _loader(), without_runs, limits, known), as_json)


@command.command("accept", common=("json",))
@click.argument("paths", metavar="ARCHIVE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@_board
@_rerun
@_timeout
@_by
def accept_archives(
    paths: tuple[Path, ...], board: Path, rerun: bool, timeout: int | None, by: str, as_json: bool
) -> None:
    """Check archives as `bench submit check --board` does, and write those that are accepted into the board.

    The check's report is kept in the board's `_decisions`. Without --rerun, the site shows a submission as checked,
    and recommends it nowhere. Commit what is written; nothing changes if the board has a result already.
    """
    limits, load, name = _limits(rerun, timeout), _loader(), by or who()
    known = list(read_board(board).results)
    _tell((accept(path, board, known, load, limits, name) for path in paths), as_json)


@command.command("retract")
@click.argument("name", metavar="RESULT")
@_board
@_why
@_by
def retract(name: str, board: Path, why: str, by: str) -> None:
    """Withdraw RESULT from a board.

    Its files are removed, its id is never used again, and its page on the site says what was withdrawn, when and why.
    """
    _withdraw(board, name, why, by)


@command.command("supersede")
@click.argument("name", metavar="RESULT")
@click.argument("newer", metavar="NEWER")
@_board
@_why
@_by
def supersede(name: str, newer: str, board: Path, why: str, by: str) -> None:
    """Withdraw RESULT from a board in favour of NEWER, a result of the board.

    As `bench submit retract`; its page on the site leads to the newer result.
    """
    _withdraw(board, name, why, by, newer)


@command.command("changes", common=("json",))
@click.option(
    "--since", required=True, metavar="COMMIT|DATE", help="A commit, or a date YYYY-MM-DD (its beginning, UTC)."
)
@_board
@more_option(
    "--ranking-set",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="As of `bench leaderboard build`.",
)
def list_changes(since: str, board: Path, ranking_set: Path | None, as_json: bool) -> None:
    """List what changed on a board since a commit or a date: rows in and out, and ranks moved.

    The folder of results must be in a git repository. Ranks are by recall@5, with the reference systems of today.
    """
    found = changes_since(board, since, read_ranking_set(ranking_set or DECLARED).references)
    if as_json:
        print_json(dataclasses.asdict(found))
        return
    for where, reason in found.unread:
        say(f"not compared: {one_line(where, 200)}: {one_line(reason, 500)}")
    last = ""
    for item in found.changes:
        if item.board != last:
            click.echo(item.board)
            last = item.board
        shown = {"in": [item.after], "out": [item.before]}.get(item.what, [item.before, item.after])
        click.echo(f"  {item.what:5}  {' -> '.join(map(_ranks, shown))}  {item.title} ({item.result_id})")
    counts = Counter(item.what for item in found.changes)
    parts = f"{counts['in']} in, {counts['out']} out, {counts['moved']} moved"
    click.echo(f"since {found.commit[:12]}: {parts} (ranks by {found.metric})")


def _ranks(ends: tuple[int, int] | None) -> str:
    return "no rank" if ends is None else f"rank {ranks(*ends)}"


def _withdraw(board: Path, name: str, why: str, by: str, newer: str = "") -> None:
    if not why.strip():
        raise UsageError("--why is empty: say why the result is withdrawn.")
    decision, new = withdraw(board, name, why, by or who(), newer)
    click.echo(f"{decision.result_id} {decision.label}: {decision.sentence}")
    if not new:
        click.echo("  (this was decided before)")
    dependants, whole = find_dependants({decision.result_id}, Path(), board)
    for item in dependants:
        click.echo(f"  {item.kind} {one_line(str(item.path))} names it: renew it")
    if not whole:
        click.echo("  (there are too many files below the working folder to look through all of them)")


def _limits(rerun: bool, timeout: int | None) -> Limits | None:
    """The limits of a re-run; None without one."""
    if not rerun:
        if timeout is not None:
            raise UsageError("--timeout needs --rerun.")
        return None
    check_sandbox()
    return Limits() if timeout is None else Limits(seconds=timeout)


def _loader() -> Load:
    """Loads datasets, and keeps the last ones."""
    bars = progress()

    @lru_cache(maxsize=_KEPT)
    def load(spec: str) -> Dataset:
        return load_dataset(spec, bars)

    return load


def _tell(outcomes: Iterable[CheckedSubmission], as_json: bool) -> None:
    """Print each outcome as it comes; raises the error that sets the exit code."""
    verdicts = []
    for verdict in outcomes:
        verdicts.append(verdict)
        if not as_json:
            with whoever_reads():
                _print(verdict)
    if as_json:
        with whoever_reads():
            print_json([_json(verdict) for verdict in verdicts])
    if error := _error(verdicts):
        raise error


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
