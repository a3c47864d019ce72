"""A cache of vectors keyed by content: one SQLite file per model revision and settings.

SQLite gives what a cache needs and files do not: many small records, several processes at once, and
no damage from a crash in mid-write.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.errors import StorageError
from bench.paths import cache_folder, storage_errors

_CHUNK = 500  # below SQLite's limit of variables in one statement


def text_key(text: str) -> bytes:
    """The key of a text: its sha256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class VectorCache:
    """Vectors of float32 by 32-byte keys.

    Args:
        identity: all that the vectors depend on besides the key: model revision and settings. Two
            identities never share a file.
        folder: where cache files lie; the user's cache by default.
    """

    def __init__(self, identity: str, folder: Path | None = None) -> None:
        folder = folder if folder is not None else cache_folder() / "vectors"
        self.path = folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.sqlite"
        with storage_errors(str(self.path)):
            folder.mkdir(parents=True, exist_ok=True)
        self._connection = self._open(identity)

    def _open(self, identity: str) -> sqlite3.Connection:
        try:
            return self._connect(identity)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise _storage(self.path, error) from error
            # Not a database any more (cut short, overwritten): a cache can be made again.
            self.path.unlink(missing_ok=True)
            return self._connect(identity)

    def _connect(self, identity: str) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=60)
        # A lost cache entry costs a computation, not a result: no need to wait for the disk on each write.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
        )
        connection.execute("CREATE TABLE IF NOT EXISTS about (identity TEXT PRIMARY KEY)")
        connection.execute("INSERT OR IGNORE INTO about VALUES (?)", (identity,))
        connection.commit()
        return connection

    def get(self, keys: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The vectors that are there, by key."""
        found: dict[bytes, NDArray[np.float32]] = {}
        distinct = list(dict.fromkeys(keys))
        for start in range(0, len(distinct), _CHUNK):
            part = distinct[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            rows = self._connection.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
            found.update((key, np.frombuffer(vector, dtype="<f4")) for key, vector in rows)
        return found

    def put(self, vectors: dict[bytes, NDArray[np.float32]]) -> None:
        """Store vectors; a key that is there already keeps its vector, so the first answer stays the answer."""
        rows = [(key, np.ascontiguousarray(vector, dtype="<f4").tobytes()) for key, vector in vectors.items()]
        try:
            with self._connection:
                self._connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
        except sqlite3.OperationalError as error:
            raise _storage(self.path, error) from error

    def close(self) -> None:
        self._connection.close()


def _storage(path: Path, error: sqlite3.Error) -> StorageError:
    return StorageError(
        f"cannot write the cache {path}: {error}. Free some space, or name another place in BENCH_CACHE."
    )
