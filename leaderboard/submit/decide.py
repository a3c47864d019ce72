"""Accept a submission into a board, and withdraw a result from it. `bench submit` calls it.

What is written is what was checked: the bytes of the archive in memory. The decision is written before the result, and
withdrawn before the result is removed: a process that is killed in between leaves a decision that the next try
completes, and never a result that counts without its decision.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from contextlib import suppress
from pathlib import Path

import bench
from bench.base.errors import ResultError, UsageError
from bench.base.locks import replace_folder
from bench.base.text import one_line
from bench.leaderboard.boards.decisions import RESULT_ID, CheckReport, Decision, write_decision
from bench.leaderboard.submit.archive import LARGEST_ARCHIVE, open_archive, read_bytes
from bench.leaderboard.submit.beside import BoardResults, read_whole_decisions
from bench.leaderboard.submit.check import CheckedSubmission, Load, check_members
from bench.leaderboard.submit.check_path import belongs
from bench.leaderboard.submit.sandbox import Limits
from bench.leaderboard.submit.submission import parts_of
from bench.lookup.removal import find_removable, remove_result
from bench.results.manifest import Manifest
from bench.results.store import MANIFEST, StoredResult, result_lock


def accept(
    path: Path, folder: Path, known: list[StoredResult], load: Load, limits: Limits | None, by: str
) -> CheckedSubmission:
    """Check an archive and, if it is accepted, write its result and the decision into a board.

    Nothing changes if the board has both already.

    Args:
        path: the archive.
        folder: the board's folder of results.
        known: its results, to which the accepted one is added.
        load, limits: as of `check_members`.
        by: who accepts it.

    Raises:
        ResultError: a decision of the board cannot be read.
        StorageError: the board cannot be written.
    """
    board = BoardResults(known, read_whole_decisions(folder))
    try:
        data = read_bytes(path, LARGEST_ARCHIVE)
        members, faults = open_archive(data)
    except ResultError as error:
        return CheckedSubmission(path, "unreadable", (str(error),))
    if faults:
        return CheckedSubmission(path, "refused", tuple(faults))
    verdict = check_members(path, members, load, limits, board)
    manifest = verdict.manifest
    if verdict.outcome != "accepted" or manifest is None:
        return verdict
    there = next((item.manifest for item in board.results if item.manifest.result_id == manifest.result_id), None)
    before = board.decisions.accepted.get(manifest.result_id)
    report = _report(verdict)
    # A later re-run is new evidence; another check without one is not.
    proven = report.rerun is not None and board.decisions.evidence(manifest) == "checked"
    if there is not None and (there != manifest or not proven):
        whose = "the board's maintainers ran it" if before is None else "the board already has it"
        return dataclasses.replace(verdict, note=_and(verdict.note, f"{whose}; nothing changed"))
    if before is None or proven:
        decision = Decision(
            what="accepted",
            result_id=manifest.result_id,
            label=one_line(verdict.label or "", 200),
            dataset=manifest.dataset.spec,
            manifest=manifest.digest,
            made=_now(),
            by=one_line(by, 200),
            archive=hashlib.sha256(data).hexdigest(),
            report=report,
        )
        write_decision(folder, decision)
    elif before.manifest != manifest.digest:
        other = f"another submission of {manifest.result_id} was {before.sentence}"
        reason = f"{other}, and its files are missing: accept that one."
        return dataclasses.replace(verdict, outcome="refused", reasons=(reason,))
    if there is None:
        place = belongs(folder, manifest)
        with result_lock(folder, place), replace_folder(place) as fresh:
            for name in parts_of(manifest):
                (fresh / name).write_bytes(members[name])
        known.append(StoredResult.read(place))
    return verdict


def withdraw(board: Path, name: str, why: str, by: str, newer: str = "") -> tuple[Decision, bool]:
    """Withdraw a result: note the decision, then remove the result's folder.

    Args:
        board: the board's folder of results.
        name: the result, as `bench results rm` finds it.
        why: the reason, for readers of the site.
        by: who decides.
        newer: the result that supersedes it; empty for a retraction.

    Returns:
        The decision, and whether it is new; a killed withdrawal is completed.

    Raises:
        UsageError: no result or several have the name, a result would supersede itself, or it has no valid id.
        ResultError: a decision of the board cannot be read.
        StorageError: the board cannot be written.
    """
    last = read_whole_decisions(board).withdrawn.get(name)
    if last is not None and (last.what == "retracted" or newer):
        with suppress(UsageError):
            remove_result(find_removable(board, name))
        return last, False
    successor = _manifest(find_removable(board, newer).folder) if newer else None
    item = find_removable(board, name)
    if successor is not None and successor.result_id == item.result_id:
        raise UsageError(f"{name} cannot supersede itself; name the newer result second.")
    if not RESULT_ID.fullmatch(item.result_id):
        raise UsageError(f"{one_line(str(item.folder))} has no result id to withdraw; `bench results rm` removes it.")
    manifest = _manifest(item.folder)
    decision = Decision(
        what="retracted" if successor is None else "superseded",
        result_id=item.result_id,
        label=one_line(item.label, 200),
        dataset=one_line(item.folder.parent.name if manifest is None else manifest.dataset.spec, 200),
        manifest=None if manifest is None else manifest.digest or None,
        made=_now(),
        by=one_line(by, 200),
        why=one_line(why, 1_000),
        newer=None if successor is None else successor.result_id,
    )
    write_decision(board, decision)
    remove_result(item)
    return decision, True


def _manifest(folder: Path) -> Manifest | None:
    """The manifest of a result; None if it cannot be read."""
    try:
        return StoredResult.read(folder).manifest if (folder / MANIFEST).is_file() else None
    except ResultError:
        return None


def _report(verdict: CheckedSubmission) -> CheckReport:
    again = verdict.rerun
    return CheckReport(
        bench=bench.__version__,
        note=one_line(verdict.note, 1_000),
        rerun="made again" if again is not None and again.verdict == "made again" else None,
        queries=0 if again is None else again.queries,
        remark="" if again is None else one_line(again.note, 1_000),
    )


def _and(note: str, more: str) -> str:
    return "; ".join(filter(None, (note, more)))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()
