"""A content-addressed cache of vectors: one SQLite file per model revision and settings.

SQLite provides what a cache needs and files lack: many small records, and several processes at once. A record has its
own checksum, and a file that is no longer a database is recreated: a damaged cache costs time but never gives a wrong
vector.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import StorageError
from bench.base.paths import cache_folder, storage_errors

T = TypeVar("T")

_CHUNK = 500  # below SQLite's limit of variables per statement
_CHECKSUM = 4  # bytes of CRC-32 before each vector

#: Errors of the file itself, after which it is recreated. For any other error (no space, no permission, a lock, a
#: device error) the file is unchanged.
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH})


def text_key(text: str) -> bytes:
    """The key of a text: its sha256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class VectorCache:
    """Vectors of float32 by 32-byte keys; safe for several threads and processes.

    Args:
        identity: everything that the vectors depend on besides the key: model revision and settings. Two identities
            never share a file.
        folder: folder of the cache files; the user's cache by default.

    Raises (all methods):
        StorageError: the disk is full, or the file cannot be opened or written.
    """

    def __init__(self, identity: str, folder: Path | None = None) -> None:
        folder = folder if folder is not None else cache_folder() / "vectors"
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
        self.path = folder / f"{digest[:32]}.sqlite"
        with storage_errors(str(self.path)):
            folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Lock()
        self._connection = self._mend(self._connect)

    def _mend(self, work: Callable[[], T]) -> T:
        """Run an operation; if the file is damaged, recreate it and run the operation again."""
        try:
            return work()
        except sqlite3.DatabaseError as error:
            # The low byte is the primary code; the rest gives details.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
                raise self._cache_error(error) from error
        try:
            # With SQLite's files next to it: an old journal would be rolled into the new file.
            for suffix in ("", "-journal", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            self._connection = self._connect()
            return work()
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._cache_error(error) from error

    def _cache_error(self, error: Exception) -> StorageError:
        return StorageError(
            f"cannot use the cache {self.path}: {error}. Free some space, or name another place in BENCH_CACHE."
        )

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
        # A record that is not a blob is returned as it is, to be discarded below, not as an error.
        connection.text_factory = bytes
        # A lost entry costs a computation, not a result: no need to wait for the disk on each write.
        connection.execute("PRAGMA synchronous=OFF")
        # IMMEDIATE: two processes that both read first and then write would wait for each other.
        connection.execute("BEGIN IMMEDIATE")
        columns = "key BLOB PRIMARY KEY, vector BLOB NOT NULL"
        connection.execute(f"CREATE TABLE IF NOT EXISTS vectors ({columns}) WITHOUT ROWID")
        connection.execute("SELECT key, vector FROM vectors LIMIT 0")
        # This reads the first page of the table: if it is damaged, start anew now.
        connection.execute("SELECT key FROM vectors LIMIT 1").fetchall()
        connection.execute("COMMIT")
        return connection

    def get(self, keys: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The stored vectors, by key."""
        with self._thread:
            return self._mend(lambda: self._get(list(dict.fromkeys(keys))))

    def _get(self, keys: list[bytes]) -> dict[bytes, NDArray[np.float32]]:
        vectors: dict[bytes, NDArray[np.float32]] = {}
        broken: list[bytes] = []
        for start in range(0, len(keys), _CHUNK):
            part = keys[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            statement = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"
            for key, record in self._connection.execute(statement, part):
                data = record[_CHECKSUM:] if isinstance(record, bytes) else b"?"
                if data != b"?" and record[:_CHECKSUM] == _checksum(key, data) and len(data) % 4 == 0:
                    vectors[key] = np.frombuffer(data, dtype="<f4")
                else:
                    broken.append(key)
        if broken:
            self._write("DELETE FROM vectors WHERE key = ?", [(key,) for key in broken])
        return vectors

    def put(self, vectors: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Store vectors; an existing key keeps its vector, so the first answer counts."""
        if not vectors:
            return
        data = {key: np.ascontiguousarray(vector, dtype="<f4").tobytes() for key, vector in vectors.items()}
        # In the order of the table, which is then written page by page.
        records = sorted((key, _checksum(key, each) + each) for key, each in data.items())
        with self._thread:
            self._mend(lambda: self._write("INSERT OR IGNORE INTO vectors VALUES (?, ?)", records))

    def _write(self, statement: str, rows: Sequence[tuple[bytes, ...]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(statement, rows)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file; the cache must not be used afterwards."""
        self._connection.close()


def _checksum(key: bytes, data: bytes) -> bytes:
    return zlib.crc32(data, zlib.crc32(key)).to_bytes(_CHECKSUM, "big")
