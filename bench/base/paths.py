"""Paths of results, caches and data, and atomic file writes."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import select
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from bench.base.errors import StorageError


def env_flag(name: str) -> bool:
    """Whether an environment variable says yes: set, and not `0`, `false` or `no`."""
    return os.environ.get(name, "").strip().lower() not in {"", "0", "false", "no"}


def expand_path(path: str | Path) -> Path:
    """A path with `~` put in full.

    Raises:
        StorageError: it begins with `~`, and this user has no home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise StorageError(f"this user has no home folder for {path}; name the place in full.") from None


def _user_folder(kind: str, variable: str) -> Path:
    """A folder of the user's by the system's custom, or what the variable names.

    Raises:
        StorageError: the system knows no home folder.
    """
    if named := os.environ.get(variable):
        return expand_path(named)
    import platformdirs

    find = platformdirs.user_cache_dir if kind == "cache" else platformdirs.user_data_dir
    try:
        return Path(find("tool-retrieval-bench", appauthor=False))
    except (RuntimeError, KeyError):
        raise StorageError(f"this user has no home folder; name a place in {variable}.") from None


def cache_folder() -> Path:
    """Downloads, normalised datasets and embeddings: all of it can be made again.

    `BENCH_CACHE` names another place.
    """
    return _user_folder("cache", "BENCH_CACHE")


def data_folder() -> Path:
    """Datasets that the user added: not a cache. `BENCH_DATA` names another place."""
    return _user_folder("data", "BENCH_DATA")


#: The folder of results of a block of `bench.config_context`.
RESULTS: ContextVar[Path | None] = ContextVar("bench_results", default=None)


def results_folder() -> Path:
    """Results of runs: `results/` in the working folder, or what the block or `BENCH_RESULTS` names."""
    return RESULTS.get() or expand_path(os.environ.get("BENCH_RESULTS") or "results")


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn the operating system's refusals (disk full, no permission) into a sentence."""
    try:
        yield
    except OSError as error:
        reasons = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the disk quota is used up",
            errno.EACCES: "permission denied",
            errno.EPERM: "permission denied",
            errno.EROFS: "the file system is read-only",
            errno.EEXIST: "a part of the path is a file, not a folder",
            errno.ENOTDIR: "a part of the path is a file, not a folder",
            errno.EISDIR: "the path is a folder, not a file",
            errno.ENAMETOOLONG: "the name is too long",
        }
        reason = reasons.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"cannot write {what}: {reason}. Existing files are unchanged.") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success it is flushed to disk and renamed into place.

    A reader sees the old file or the new one, whole; a crash leaves the old one.

    Raises:
        StorageError: the disk is full, the place cannot be written, or a device or a pipe is there.
    """
    with storage_errors(str(path)):
        if path.exists() and not path.is_file() and not path.is_dir():
            # `--out /dev/stdout`: the device itself would be replaced by a file.
            raise StorageError(f"cannot write {path}: it is a device or a pipe, and no file; choose another place.")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{os.getpid()}-{secrets.token_hex(8)}.tmp")
        try:
            yield temporary
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, with "\\n" line ends."""
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


#: Bytes of the largest file of text that is read whole: BEIR files of millions of documents have a few gigabytes.
LARGEST_TEXT = 4 << 30
#: Seconds without a byte after which a pipe is given up.
PATIENCE = 60.0


def read_regular(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """The bytes of a regular file; links are followed.

    Args:
        path: the file.
        most: bytes it may have.

    Raises:
        OSError: it cannot be read, is larger, or is a pipe, a device or a folder. Reading a pipe waits for somebody to
            write to it, and some devices never end. Its `strerror` completes `cannot read FILE: …`.
    """
    # Without O_NONBLOCK, to open a named pipe is to wait.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", str(path))
        data = file.read(min(about.st_size, most) + 1)
        # What a file system says of a file's size may be wrong, as in /proc.
        if len(data) > about.st_size:
            data += file.read(most + 1 - len(data))
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {_size(most)}", str(path))
    return data


def read_once(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """The bytes of a regular file, or of a pipe such as a shell's `<(command)`.

    A pipe to which nothing is written for `PATIENCE` seconds is given up.

    Raises:
        OSError: as `read_regular`, but for pipes.
    """
    if not path.is_fifo():
        return read_regular(path, most)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        parts: list[bytes] = []
        count = 0
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        # A pipe that nobody has opened to write has no event; one that all writers have closed has one, and is at end.
        while waiting.poll(PATIENCE * 1000):
            part = os.read(handle, 1 << 20)
            if not part:
                return b"".join(parts)
            count += len(part)
            if count > most:
                raise OSError(errno.EFBIG, f"it is larger than {_size(most)}", str(path))
            parts.append(part)
        raise OSError(errno.ETIMEDOUT, f"nothing was written to this pipe for {PATIENCE:g} seconds", str(path))
    finally:
        os.close(handle)


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered_sha256(path: Path) -> str:
    """sha256 of a file's bytes, taken once as long as size, times and inode stay (see `remembered_digest`)."""
    return remembered_digest(path, sha256_of)


def remembered_digest(path: Path, digest: Callable[[Path], str], above: int = 1 << 20) -> str:
    """What `digest` says of a file, once as long as size, times and inode stay: in this process; of large ones, ever.

    Args:
        path: the file.
        digest: gives 64 hexadecimal digits.
        above: files of so many bytes are remembered in the cache.
    """
    status = path.stat()
    stamp = status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    return _digest_as_of(path, digest, stamp, stamp[0] >= above)


@cache
def _digest_as_of(path: Path, digest: Callable[[Path], str], stamp: tuple[int, int, int, int], keep: bool) -> str:
    # Times have steps: of what was changed a moment ago, another change may not show.
    if not keep or max(stamp[1:3]) > time.time_ns() - 2_000_000_000:
        return digest(path)
    token = hashlib.sha256(f"{digest.__name__} {path.resolve()} {stamp}".encode("utf-8", "surrogatepass")).hexdigest()
    note = cache_folder() / "hashes" / token
    if note.is_file() and len(text := note.read_text("utf-8").strip()) == 64:
        return text
    found = digest(path)
    write_text(note, found + "\n")
    return found
