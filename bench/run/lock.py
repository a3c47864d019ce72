"""One process makes a result at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import StorageError
from bench.paths import cache_folder, storage_errors
from bench.progress import QUIET, Progress

_LONGEST_WAIT = 3600.0


@contextmanager
def result_lock(folder: Path, progress: Progress = QUIET) -> Iterator[None]:
    """Hold the lock of a result's folder; wait, with a note, while another process has it.

    The lock file lies in the cache, where nobody minds that it stays: to remove one is to let a third process in.

    Raises:
        StorageError: another process has held it for an hour, or the cache cannot be written.
    """
    from filelock import FileLock, Timeout

    token = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogatepass")).hexdigest()
    locks = cache_folder() / "locks"
    with storage_errors(str(locks)):
        locks.mkdir(parents=True, exist_ok=True)
        lock = FileLock(locks / f"{token[:32]}.lock")
        try:
            lock.acquire(timeout=0.1)
        except Timeout:
            progress.note(f"another process is making {folder.name}; waiting for it")
            try:
                lock.acquire(timeout=_LONGEST_WAIT)
            except Timeout:
                raise StorageError(f"another process has held {lock.lock_file} for an hour; end it.") from None
    try:
        yield
    finally:
        lock.release()
