"""Paths of results, caches and data, bounded reads and atomic writes, for all layers."""

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
    """Whether an environment variable is set, and not to `0`, `false` or `no`."""
    return os.environ.get(name, "").strip().lower() not in {"", "0", "false", "no"}


def expand_path(path: str | Path) -> Path:
    """Expand `~` in a path.

    Raises:
        StorageError: it begins with `~`, and the user has no home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise StorageError(f"this user has no home folder for {path}; name the place in full.") from None


def _user_folder(kind: str, variable: str) -> Path:
    """The folder named by the variable, or else the system's default folder for the user.

    Raises:
        StorageError: the user has no home folder.
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
    """The folder of downloads, normalised datasets and embeddings, which can all be made again.

    `BENCH_CACHE` overrides it.
    """
    return _user_folder("cache", "BENCH_CACHE")


def data_folder() -> Path:
    """The folder of datasets that the user added, which is not a cache. `BENCH_DATA` overrides it."""
    return _user_folder("data", "BENCH_DATA")


#: The results folder set by a block of `bench.config_context`.
RESULTS: ContextVar[Path | None] = ContextVar("bench_results", default=None)


def results_folder() -> Path:
    """The results folder: set by the block or by `BENCH_RESULTS`, else `results/` in the working folder."""
    return RESULTS.get() or expand_path(os.environ.get("BENCH_RESULTS") or "results")


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn errors of the operating system (disk full, no permission) into a `StorageError`."""
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
    """Yield a temporary path next to `path`; on success it is flushed to disk and renamed to `path`.

    Readers see either the complete old file or the complete new one; a crash leaves the old one.

    Raises:
        StorageError: the disk is full, the folder cannot be written, or `path` is a device or a pipe.
    """
    with storage_errors(str(path)):
        if path.exists() and not path.is_file() and not path.is_dir():
            # With `--out /dev/stdout`, a file would replace the device itself.
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


#: Maximum bytes of a text file that is read whole: BEIR files with millions of documents have a few gigabytes.
LARGEST_TEXT = 4 << 30
#: Seconds without a byte after which reading a pipe fails.
PATIENCE = 60.0


def read_regular(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """The bytes of a regular file; links are followed.

    Args:
        path: the file.
        most: maximum size in bytes.

    Raises:
        OSError: it cannot be read, is larger, or is a pipe, a device or a folder. Reading a pipe waits for a writer,
            and some devices never end. Its `strerror` completes `cannot read FILE: …`.
    """
    # Without O_NONBLOCK, opening a named pipe waits for a writer.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", str(path))
        data = file.read(min(about.st_size, most) + 1)
        # The size reported by the file system may be wrong, as in /proc.
        if len(data) > about.st_size:
            data += file.read(most + 1 - len(data))
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {_size(most)}", str(path))
    return data


def read_once(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """The bytes of a regular file, or of a pipe such as a shell's `<(command)`.

    Reading a pipe fails after `PATIENCE` seconds without data.

    Raises:
        OSError: as `read_regular`, except for pipes.
    """
    if not path.is_fifo():
        return read_regular(path, most)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        parts: list[bytes] = []
        count = 0
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        # A pipe without a writer so far has no event; a pipe closed by all writers has one and is at its end.
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
    """sha256 of a file's bytes, computed once while size, times and inode stay the same (see `remembered_digest`)."""
    return remembered_digest(path, sha256_of)


def remembered_digest(path: Path, digest: Callable[[Path], str], above: int = 1 << 20) -> str:
    """The digest of a file, computed again only if size, times or inode change.

    Digests are remembered in this process, and for large files in the cache.

    Args:
        path: the file.
        digest: returns 64 hexadecimal digits.
        above: minimum bytes of a file whose digest is stored in the cache.
    """
    status = path.stat()
    stamp = status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    return _digest_as_of(path, digest, stamp, stamp[0] >= above)


@cache
def _digest_as_of(path: Path, digest: Callable[[Path], str], stamp: tuple[int, int, int, int], keep: bool) -> str:
    # File times are coarse: a second change shortly after the first may not show.
    if not keep or max(stamp[1:3]) > time.time_ns() - 2_000_000_000:
        return digest(path)
    token = hashlib.sha256(f"{digest.__name__} {path.resolve()} {stamp}".encode("utf-8", "surrogatepass")).hexdigest()
    note = cache_folder() / "hashes" / token
    if note.is_file() and len(text := note.read_text("utf-8").strip()) == 64:
        return text
    found = digest(path)
    write_text(note, found + "\n")
    return found
