"""File locks and atomic folder replacement, for results, datasets and exports."""

from __future__ import annotations

import glob
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.base.errors import StorageError
from bench.base.paths import cache_folder, storage_errors
from bench.base.progress import QUIET, Progress

_LONGEST_WAIT = 3600.0


@contextmanager
def lock(path: Path, what: str, progress: Progress = QUIET, longest: float = _LONGEST_WAIT) -> Iterator[None]:
    """Hold a lock file; wait, with a note, while another process holds it.

    The lock file stays, because removing it would let a third process in.

    Args:
        path: the lock file.
        what: what the other process is doing, for the note: `making tgr-0123`.
        progress: receives the note.
        longest: maximum seconds to wait.

    Raises:
        StorageError: another process holds the lock too long, or the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    with storage_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0.1)
        except Timeout:
            progress.note(f"another process is {what}; waiting for it")
            try:
                lock.acquire(timeout=longest)
            except Timeout:
                raise StorageError(f"another process has held {path} for {longest:.0f} seconds; end it.") from None
    try:
        yield
    finally:
        lock.release()


def lock_in_cache(folder: Path, work: str) -> Path:
    """The lock of a user's folder. It is in the cache, so that no lock file appears beside the folder."""
    name = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return cache_folder() / ".locks" / f"{work}-{name}.lock"


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder next to `folder`; on success it replaces `folder`, which is unchanged until then.

    The caller holds the lock of `folder`.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the previous content stays.
    """
    with storage_errors(str(folder)):
        # Left by a killed process: the caller holds the lock, so no other process is writing it.
        for left in folder.parent.glob(f".new-{glob.escape(folder.name)}-????????"):
            shutil.rmtree(left, ignore_errors=True)
        recover(folder)
        fresh = folder.with_name(f".new-{folder.name}-{secrets.token_hex(4)}")
        try:
            fresh.mkdir(parents=True)
            yield fresh
            for path in fresh.rglob("*"):
                if path.is_file():
                    with path.open("rb+") as written:
                        os.fsync(written.fileno())
            if folder.exists():
                os.rename(folder, _aside(folder))
            os.rename(fresh, folder)
            shutil.rmtree(_aside(folder), ignore_errors=True)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def recover(folder: Path) -> None:
    """Finish a replacement that was killed between its two renames. The caller holds the lock."""
    if _aside(folder).is_dir():
        if folder.exists():
            shutil.rmtree(_aside(folder), ignore_errors=True)
        else:
            os.rename(_aside(folder), folder)


def standing(folders: list[Path]) -> list[Path]:
    """The complete folders among those found below a parent; a set-aside folder counts if nothing replaced it."""
    return sorted(
        folder
        for folder in folders
        if not folder.name.startswith(".")
        or (folder.name.startswith(".old-") and not folder.with_name(folder.name.removeprefix(".old-")).exists())
    )


def _aside(folder: Path) -> Path:
    return folder.with_name(f".old-{folder.name}")
