"""Baselines over time: the versions of each file in version control, and the current file. The site's gates use it.

A baseline is replaced by a commit, so its history is that of the file. Git is only asked to list commits and read
files; no code of the repository runs.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import ResultError
from bench.gating.baseline import Baseline, is_ours, parse_baseline, read_baseline

#: Maximum versions of a file to read, the newest.
MOST_VERSIONS = 100
#: Bytes of a version.
_LARGEST = 64 << 20
#: Seconds for one answer of git.
_PATIENCE = 60


@dataclass(frozen=True)
class Version:
    """A version of a baseline.

    Attributes:
        commit: the commit that added it; empty for an uncommitted file.
    """

    baseline: Baseline
    commit: str = ""


@dataclass(frozen=True)
class Ledger:
    """A baseline file with its history.

    Attributes:
        name: the file's name.
        versions: oldest first; commits that did not change the baseline are left out.
        unreadable: number of damaged versions, or versions with a schema that this bench does not read.
        cut: whether the checkout is shallow, so that earlier versions may be missing.
    """

    name: str
    versions: tuple[Version, ...]
    unreadable: int
    cut: bool


def read_ledgers(place: Path) -> list[Ledger]:
    """The baselines of a folder, or that of a file, by name.

    JSON files that are not baselines are left out. If the folder is not under git, or git is not installed, a baseline
    has a single version.

    Raises:
        ResultError: the place does not exist, contains no baseline, or one of them cannot be read.
    """
    if place.is_dir():
        files = sorted(path for path in place.glob("*.json") if is_ours(path))
        if not files:
            raise ResultError(f"there is no baseline in {place}; `bench bless RESULT --out {place}` writes one.")
    else:
        files = [place]
    return [_ledger(path) for path in files]


def _ledger(path: Path) -> Ledger:
    now = read_baseline(path)
    versions: list[Version] = []
    unreadable = 0
    # Commits that changed the file, newest first; empty for a file that is not under git.
    said = ask_git(
        path.parent, "log", "--format=%H", "--no-show-signature", "-n", str(MOST_VERSIONS), "--", f"./{path.name}"
    )
    for commit in reversed((said or b"").decode("ascii", "replace").split()):
        size = ask_git(path.parent, "cat-file", "-s", f"{commit}:./{path.name}")
        if size is None:
            continue  # The file was removed by this commit.
        blob = ask_git(path.parent, "cat-file", "blob", f"{commit}:./{path.name}") if int(size) <= _LARGEST else None
        try:
            version = Version(parse_baseline(blob or b"", f"{path} of {commit}"), commit)
        except ResultError:
            unreadable += 1
            continue
        if not versions or versions[-1].baseline.sha256 != version.baseline.sha256:
            versions.append(version)
    if not versions or versions[-1].baseline.sha256 != now.sha256:
        versions.append(Version(now))
    shallow = ask_git(path.parent, "rev-parse", "--is-shallow-repository")
    return Ledger(path.name, tuple(versions), unreadable, shallow is not None and shallow.strip() == b"true")


def ask_git(folder: Path, *arguments: str, given: bytes = b"") -> bytes | None:
    """Git's output in a folder; None if it fails, as outside of a repository.

    Args:
        given: its standard input.
    """
    # A hook's variables would lead to another repository; no pager or prompt may wait for input.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    options = ("--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-C", str(folder))
    try:
        done = subprocess.run(
            ["git", *options, *arguments],
            capture_output=True,
            input=given,
            timeout=_PATIENCE,
            check=True,
            env=clean | {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
