"""What changed on a board since a commit or a date: rows that came and went, and ranks that moved.

`bench submit changes` prints it. The earlier board comes from version control: results that the commit has and the
folder lacks are read from git. Both boards are ranked by the same code, so that a change is one of results.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UsageError
from bench.leaderboard.boards.board import RANKED, Board, References, Row, make_board, read_results, slug_of
from bench.leaderboard.boards.decisions import FOLDER
from bench.leaderboard.boards.ledger import ask_git
from bench.results.choices import is_choice
from bench.results.store import MANIFEST, StoredResult

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Change:
    """One row of one board that differs from the earlier board.

    Attributes:
        board, title: the board's name, and the row's display name.
        result_id: of the row now or, if it went, then.
        before, after: its best and worst rank; None if it had or has no row, or no rank.
        what: `in`, `out`, or `moved`.
    """

    board: str
    title: str
    result_id: str
    what: str
    before: tuple[int, int] | None = None
    after: tuple[int, int] | None = None


@dataclass(frozen=True)
class Changes:
    """All changes since a commit.

    Attributes:
        commit: the whole id of the commit.
        metric: what ranks are by.
        changes: by board, rows that came first, then those that went, then those that moved.
        unread: results that could not be read, with reasons.
    """

    commit: str
    metric: str
    changes: tuple[Change, ...]
    unread: tuple[tuple[str, str], ...]


def changes_since(results: Path, since: str, references: References) -> Changes:
    """Compare the board of a folder of results with what it was.

    Args:
        results: the folder, in a git repository.
        since: a commit, or a date `YYYY-MM-DD`, whose beginning (UTC) counts.
        references: the reference systems of both boards.

    Raises:
        UsageError: the folder is in no repository, or has no such commit.
    """
    commit = _commit(results, since)
    blobs = _blobs(_told(results, "ls-tree", "-r", "-z", commit, "--", "."))
    with tempfile.TemporaryDirectory() as temporary:
        earlier = Path(temporary)
        now, unread = read_results(results, references)
        changed = _changed_datasets(results, blobs)
        _extract(results, commit, {FOLDER, *changed} & {path.partition("/")[0] for path in blobs}, earlier)
        then, damaged = read_results(earlier, references)
        boards = [_ranked(groups, folder, references, changed) for groups, folder in ((then, earlier), (now, results))]
    found = [change for slug in sorted(boards[0].keys() | boards[1].keys()) for change in _compare(slug, *boards)]
    bad = {(item.where, item.reason) for item in [*unread, *damaged]}
    return Changes(commit, RANKED[0], tuple(found), tuple(sorted(bad)))


def _commit(results: Path, since: str) -> str:
    if ask_git(results, "rev-parse", "--git-dir") is None:
        raise UsageError(f"{results} is in no git repository, so its earlier results are unknown.")
    if _DATE.fullmatch(since):
        told = ask_git(results, "log", "-1", "--format=%H", f"--before={since}T00:00:00+00:00", "--", ".")
        if not (told or b"").strip():
            raise UsageError(f"{results} has no commit before {since}; name a later date or a commit.")
    else:
        told = ask_git(results, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{since}^{{commit}}")
        if told is None:
            raise UsageError(f"{results} has no commit {since!r}; name a commit or a date YYYY-MM-DD.")
    return (told or b"").decode("ascii").strip()


def _told(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Git's output; raises `UsageError` if it fails, because a result that was not read is not a new one."""
    told = ask_git(folder, *arguments, given=given)
    if told is None:
        raise UsageError(f"`git {arguments[0]}` failed in {folder}, so its earlier results are unknown.")
    return told


def _blobs(listing: bytes) -> dict[str, str]:
    """Path below the folder -> blob, of each file of a tree."""
    lines = (line.partition(b"\t") for line in listing.split(b"\0") if line)
    return {os.fsdecode(path): about.split()[2].decode("ascii") for about, _, path in lines}


def _changed_datasets(results: Path, before: Mapping[str, str]) -> set[str]:
    """Folders of datasets in which a manifest was added, removed or changed."""
    paths = sorted(path.relative_to(results).as_posix() for path in results.glob(f"*/*/{MANIFEST}"))
    files = "".join(f"{(results / path).resolve()}\n" for path in paths)
    hashes = _told(results, "hash-object", "--stdin-paths", given=os.fsencode(files))
    now = dict(zip(paths, hashes.decode("ascii").split(), strict=True))
    then = {path: blob for path, blob in before.items() if path.endswith(f"/{MANIFEST}")}
    return {path.partition("/")[0] for path in now.keys() | then.keys() if now.get(path) != then.get(path)}


def _extract(results: Path, commit: str, folders: Iterable[str], place: Path) -> None:
    """Write these folders of the results as a commit has them."""
    # An archive of a part of a tree is only made from the top of the working tree.
    top, _, inside = _told(results, "rev-parse", "--show-toplevel", "--show-prefix").partition(b"\n")
    root, prefix = Path(os.fsdecode(top)), os.fsdecode(inside).rstrip("\n")
    for name in sorted(folders):
        data = _told(root, "archive", "--format=tar", f"{commit}:{prefix}{name}")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(place / name, filter="data")


def _ranked(
    groups: Sequence[Sequence[StoredResult]], folder: Path, references: References, datasets: set[str]
) -> dict[str, Board]:
    boards = {}
    for group in groups:
        # Choices of language models are on no board.
        members = [item for item in group if not is_choice(item)]
        if members and members[0].folder.parent.name in datasets:
            board, _ = make_board(members, folder, False, references=references)
            if board is not None:
                boards[slug_of(members[0])] = board
    return boards


def _compare(slug: str, before: Mapping[str, Board], after: Mapping[str, Board]) -> list[Change]:
    then, now = before.get(slug), after.get(slug)
    name = next(board.name for board in (now, then) if board is not None)
    old, new = _by_key(then), _by_key(now)
    came = [Change(name, row.title, row.id, "in", None, _ranks(now, row)) for key, row in new.items() if key not in old]
    went = [Change(name, row.title, row.id, "out", _ranks(then, row)) for key, row in old.items() if key not in new]
    moved = [
        Change(name, row.title, row.id, "moved", first, second)
        for key, row in new.items()
        if key in old and (first := _ranks(then, old[key])) != (second := _ranks(now, row))
    ]
    return [*came, *went, *moved]


def _by_key(board: Board | None) -> dict[str, Row]:
    return {} if board is None else {row.key: row for row in board.rows}


def _ranks(board: Board | None, row: Row) -> tuple[int, int] | None:
    standing = None if board is None else board.standings.get(RANKED[0])
    place = None if standing is None else standing.position(row.id)
    if standing is None or place is None:
        return None
    return int(standing.ranks[place, 0]), int(standing.ranks[place, 1])
