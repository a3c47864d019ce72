"""Find submissions under a path: an archive, the folder of a result, or a folder of results. `command` calls it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.base.errors import ResultError, UsageError
from bench.base.spec import parse
from bench.leaderboard.submit.archive import LARGEST, LARGEST_ARCHIVE, open_archive, quote, read_bytes
from bench.leaderboard.submit.beside import BoardResults
from bench.leaderboard.submit.check import CheckedSubmission, Load, check_members
from bench.leaderboard.submit.sandbox import Limits
from bench.leaderboard.submit.submission import PARTS
from bench.results.manifest import Manifest
from bench.results.store import MANIFEST, REPEATS, RUN, STRESS, result_folder

_FILES = (*PARTS, REPEATS)


def archive_name(manifest: Manifest) -> str:
    """Default name of a result's archive: `apibank-tgr-0123456789ab.zip`."""
    place = belongs(Path(), manifest)
    return f"{place.parent.name}-{place.name}.zip"


def belongs(results: Path, manifest: Manifest) -> Path:
    """Where a result is in a folder of results."""
    method = manifest.method
    name = method.spec if method.run_file is not None else parse(method.spec).name
    return result_folder(results, manifest.dataset.spec, name, manifest.result_id)


def check_place(
    path: Path,
    load: Load,
    without_runs: bool = False,
    limits: Limits | None = None,
    board: BoardResults | None = None,
) -> Iterator[CheckedSubmission]:
    """Check a path and, if it is a folder of results, everything below it.

    Of two submissions with the same result id, the later one by path is refused. Of two with the same ranking, the
    later one gets a note.

    Args:
        path: an archive or a folder.
        load: returns the dataset of a spec.
        without_runs: whether folders may lack their ranking, so that only means are recomputed.
        limits, board: as in `check_members`.

    Raises:
        UsageError: there is nothing to check.
        UnavailableError: a re-run was requested, and there is no sandbox here.
        ResultError: a folder cannot be listed.
    """
    if not os.path.isdir(path):
        yield check_archive(path, load, limits, board)
        return
    if os.path.lexists(path / MANIFEST):
        yield check_folder(path, load, None, without_runs, limits, board)
        return
    try:
        # `results/apibank` is part of a folder of results.
        part = any(os.path.lexists(item / MANIFEST) for item in path.iterdir())
        places = _inside(path) if part else _below(path)
    except OSError as error:
        raise ResultError(f"cannot list {error.filename}: {error.strerror}.") from None
    if not places:
        raise UsageError(f"there is nothing to check in {path}: neither DATASET/METHOD-ID/{MANIFEST} nor a .zip.")
    seen: dict[str, Path] = {}
    rankings: dict[str, tuple[Path, str]] = {}
    for place in places:
        if place.is_dir():
            root = Path(os.path.abspath(path)).parent if part else path
            verdict = check_folder(place, load, root, without_runs, limits, board)
        else:
            verdict = check_archive(place, load, limits, board)
        if verdict.outcome == "accepted" and verdict.result_id is not None:
            first = seen.setdefault(verdict.result_id, place)
            if first is not place:
                again = f"the result {verdict.result_id} already exists in {first}."
                verdict = dataclasses.replace(verdict, outcome="refused", reasons=(again,), note="")
        if verdict.outcome == "accepted" and verdict.ranking is not None:
            first, made = rankings.setdefault(verdict.ranking, (place, verdict.created))
            if first is not place:
                told = f"its ranking is byte for byte that of {first}"
                if verdict.created < made:
                    told += ", which is newer, so this one is the original"
                    rankings[verdict.ranking] = place, verdict.created
                verdict = dataclasses.replace(verdict, note="; ".join(filter(None, (verdict.note, told))))
        yield verdict


def _below(results: Path) -> list[Path]:
    """Folders of results and archives in a folder of results, sorted."""
    paths = []
    for item in sorted(results.iterdir()):
        if item.is_dir() and not item.is_symlink() and not item.name.startswith("."):
            paths += _inside(item)
        elif _archive(item) or item.is_symlink():
            paths.append(item)
    return paths


def _inside(folder: Path) -> list[Path]:
    """Folders, archives and links in a dataset's folder, sorted; hidden ones are still being written."""
    items = (item for item in sorted(folder.iterdir()) if not item.name.startswith("."))
    return [item for item in items if item.is_symlink() or item.is_dir() or _archive(item)]


def _archive(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def check_archive(
    path: Path, load: Load, limits: Limits | None = None, board: BoardResults | None = None
) -> CheckedSubmission:
    """Check one archive."""
    try:
        members, faults = open_archive(read_bytes(path, LARGEST_ARCHIVE))
    except ResultError as error:
        return CheckedSubmission(path, "unreadable", (str(error),))
    if not members:
        return CheckedSubmission(path, "refused", tuple(faults))
    # An archive with a wrong form is not run.
    return _with_faults(check_members(path, members, load, None if faults else limits, board), faults)


def _with_faults(verdict: CheckedSubmission, faults: Sequence[str]) -> CheckedSubmission:
    outcome = "refused" if faults and verdict.outcome == "accepted" else verdict.outcome
    return dataclasses.replace(verdict, outcome=outcome, reasons=(*faults, *verdict.reasons))


def check_folder(
    folder: Path,
    load: Load,
    results: Path | None = None,
    without_run: bool = False,
    limits: Limits | None = None,
    board: BoardResults | None = None,
) -> CheckedSubmission:
    """Check the folder of one result; in a folder of results it must also be in the right place."""
    if folder.is_symlink():
        return CheckedSubmission(folder, "refused", ("it is a link, not a folder.",))
    try:
        absent = {RUN} if without_run and not os.path.lexists(folder / RUN) else set()
        # The manifest says whether there must be a file of repeats.
        absent |= set() if os.path.lexists(folder / REPEATS) else {REPEATS}
        members = {name: read_bytes(folder / name, LARGEST[name]) for name in _FILES if name not in absent}
        there = sorted(item.name for item in folder.iterdir())
    except ResultError as error:
        return CheckedSubmission(folder, "unreadable", (str(error),))
    except OSError as error:
        return CheckedSubmission(folder, "unreadable", (f"cannot list {folder}: {error.strerror}.",))
    # What `bench stress` measured is no part of the result, and the site shows it of no submission.
    known = {*_FILES, STRESS}
    faults = [f"it contains {quote(name)}, which is not part of a result." for name in there if name not in known]
    verdict = check_members(folder, members, load, None if faults else limits, board)
    if results is not None and verdict.manifest is not None:
        place = belongs(results, verdict.manifest)
        if os.path.abspath(place) != os.path.abspath(folder):
            faults.append(f"it is in the wrong place; it belongs in {place}.")
    return _with_faults(verdict, faults)
