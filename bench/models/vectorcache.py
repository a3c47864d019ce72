"""A content-addressed cache of vectors: one SQLite file per model revision and settings.

SQLite gives what a cache needs and files do not: many small records, several processes at once. A record carries its
own checksum, and a file that is no longer a database is recreated: a damaged cache costs time, never a wrong vector.

Vectors come in two forms. A few are one record each. Many that are stored at once are one record together, a block,
with the place of each in a table of its own: SQLite then writes and reads megabytes in place of thousands of records.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import StorageError
from bench.base.paths import cache_folder, storage_errors

T = TypeVar("T")

_CHUNK = 500  # below SQLite's limit of variables in one statement
_CHECKSUM = 4  # bytes of CRC-32 before each vector
#: From so many vectors of one length on, they are stored as a block.
_BLOCK = 256
#: A block is read as a whole if at least one in so many of its vectors is wanted.
_SPARSE = 16

#: Errors of the file itself, after which it is recreated. Anything else (no space, no permission, a lock, an
#: error of the device) is the machine's refusal, and the file is left as it is.
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH})


def text_key(text: str) -> bytes:
    """The key of a text: its sha256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class VectorCache:
    """Vectors of float32 by 32-byte keys; safe for several threads and processes.

    Args:
        identity: all that the vectors depend on besides the key: model revision and settings. Two
            identities never share a file.
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
        self._connection = self._mended(self._connect)

    def _mended(self, work: Callable[[], T]) -> T:
        """Do the work; if the file turns out to be damaged, recreate it and do the work once more."""
        try:
            return work()
        except sqlite3.DatabaseError as error:
            # The low byte is the primary code; the rest says in what way.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
                raise self._refused(error) from error
        try:
            # With SQLite's files next to it: a journal of the old file would be rolled into the new one.
            for suffix in ("", "-journal", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            self._connection = self._connect()
            return work()
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> StorageError:
        return StorageError(
            f"cannot use the cache {self.path}: {error}. Free some space, or name another place in BENCH_CACHE."
        )

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
        # A record that is no blob comes as what it is, to be thrown away below, and not as an error.
        connection.text_factory = bytes
        # A lost entry costs a computation, not a result: no need to wait for the disk on each write.
        connection.execute("PRAGMA synchronous=OFF")
        # IMMEDIATE: two processes that both read first and write then would each wait for the other.
        connection.execute("BEGIN IMMEDIATE")
        columns = "key BLOB PRIMARY KEY, vector BLOB NOT NULL"
        connection.execute(f"CREATE TABLE IF NOT EXISTS vectors ({columns}) WITHOUT ROWID")
        connection.execute("SELECT key, vector FROM vectors LIMIT 0")
        columns = "block INTEGER PRIMARY KEY, width INTEGER NOT NULL, checksums BLOB NOT NULL, vectors BLOB NOT NULL"
        connection.execute(f"CREATE TABLE IF NOT EXISTS blocks ({columns})")
        columns = "key BLOB PRIMARY KEY, block INTEGER NOT NULL, place INTEGER NOT NULL"
        connection.execute(f"CREATE TABLE IF NOT EXISTS places ({columns}) WITHOUT ROWID")
        connection.execute("SELECT vectors, checksums FROM blocks LIMIT 0")
        # These read the first page of each table: where one is damaged, now is the time to begin anew.
        for statement in ("SELECT key FROM vectors", "SELECT width FROM blocks", "SELECT block, place FROM places"):
            connection.execute(f"{statement} LIMIT 1").fetchall()
        connection.execute("COMMIT")
        return connection

    def get(self, keys: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The vectors that are there, by key."""
        with self._thread:
            return self._mended(lambda: self._get(list(dict.fromkeys(keys))))

    def _get(self, keys: list[bytes]) -> dict[bytes, NDArray[np.float32]]:
        # A key that is in both forms was in a block first: see `_put_block`.
        found = self._from_blocks(keys)
        broken: list[bytes] = []
        for key, record in self._chosen("SELECT key, vector FROM vectors", [key for key in keys if key not in found]):
            data = record[_CHECKSUM:] if isinstance(record, bytes) else b"?"
            if data != b"?" and record[:_CHECKSUM] == _checksum(key, data) and len(data) % 4 == 0:
                found[key] = np.frombuffer(data, dtype="<f4")
            else:
                broken.append(key)
        if broken:
            self._write("DELETE FROM vectors WHERE key = ?", [(key,) for key in broken])
        return found

    def _from_blocks(self, keys: list[bytes]) -> dict[bytes, NDArray[np.float32]]:
        wanted: dict[int, list[tuple[bytes, int]]] = {}
        for key, block, place in self._chosen("SELECT key, block, place FROM places", keys):
            wanted.setdefault(block, []).append((key, place))
        found: dict[bytes, NDArray[np.float32]] = {}
        broken: list[bytes] = []
        for block, rows in wanted.items():
            good = self._from_block(block, rows)
            found.update(good)
            broken.extend(key for key, _ in rows if key not in good)
        if broken:
            self._write("DELETE FROM places WHERE key = ?", [(key,) for key in broken])
        return found

    def _from_block(self, block: int, rows: list[tuple[bytes, int]]) -> dict[bytes, NDArray[np.float32]]:
        """The vectors of a block whose checksums are right."""
        statement = "SELECT width, length(checksums), typeof(checksums), typeof(vectors), length(vectors) FROM blocks"
        described = self._connection.execute(f"{statement} WHERE block = ?", (block,)).fetchone()
        if described is None:
            return {}
        width, length, *kinds, size = described
        count = length // _CHECKSUM
        if kinds != [b"blob", b"blob"] or not isinstance(width, int) or size != 4 * width * count:
            return {}
        found: dict[bytes, NDArray[np.float32]] = {}
        right = [(key, place) for key, place in rows if isinstance(place, int) and 0 <= place < count]
        if len(rows) * _SPARSE < count:
            # Single vectors out of a large block: reading them one by one is faster than reading it.
            part = "SELECT substr(checksums, ? * 4 + 1, 4), substr(vectors, ? * ? + 1, ?) FROM blocks WHERE block = ?"
            for key, place in right:
                checksum, data = self._connection.execute(part, (place, place, 4 * width, 4 * width, block)).fetchone()
                if checksum == _checksum(key, data):
                    found[key] = np.frombuffer(data, dtype="<f4")
            return found
        query = "SELECT checksums, vectors FROM blocks WHERE block = ?"
        checksums, data = self._connection.execute(query, (block,)).fetchone()
        matrix = np.frombuffer(data, dtype="<f4").reshape(count, width)
        whole = memoryview(data)
        for key, place in right:
            start = 4 * width * place
            if checksums[_CHECKSUM * place : _CHECKSUM * (place + 1)] == _checksum(
                key, whole[start : start + 4 * width]
            ):
                found[key] = matrix[place]
        return found

    def _chosen(self, statement: str, keys: list[bytes]) -> Iterator[tuple[Any, ...]]:
        """The rows of a table that have one of the keys."""
        for start in range(0, len(keys), _CHUNK):
            part = keys[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            yield from self._connection.execute(f"{statement} WHERE key IN ({marks})", part)

    def put(self, vectors: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Store vectors; a key that is there already keeps its vector, so the first answer stays the answer."""
        if not vectors:
            return
        rows = [np.ascontiguousarray(vector, dtype="<f4") for vector in vectors.values()]
        keys = list(vectors)
        with self._thread:
            if len(rows) >= _BLOCK and len({row.shape for row in rows}) == 1:
                self._mended(lambda: self._put_block(keys, rows))
            else:
                data = [row.tobytes() for row in rows]
                records = [(key, _checksum(key, each) + each) for key, each in zip(keys, data, strict=True)]
                self._mended(lambda: self._write("INSERT OR IGNORE INTO vectors VALUES (?, ?)", records))

    def _put_block(self, keys: list[bytes], rows: list[NDArray[np.float32]]) -> None:
        with self._transaction():
            known = {
                key for table in ("vectors", "places") for (key,) in self._chosen(f"SELECT key FROM {table}", keys)
            }
            new = [i for i, key in enumerate(keys) if key not in known]
            if not new:
                return
            checksums = b"".join(_checksum(keys[i], rows[i].data) for i in new)
            data = np.concatenate([rows[i].ravel() for i in new])
            statement = "INSERT INTO blocks (width, checksums, vectors) VALUES (?, ?, ?)"
            block = self._connection.execute(statement, (rows[0].size, checksums, data.data)).lastrowid
            places = [(keys[i], block, place) for place, i in enumerate(new)]
            # In the order of the table, which is then written page by page.
            self._connection.executemany("INSERT INTO places VALUES (?, ?, ?)", sorted(places))

    def _write(self, statement: str, rows: Sequence[tuple[bytes, ...]]) -> None:
        with self._transaction():
            self._connection.executemany(statement, rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file; the cache is not used after."""
        self._connection.close()


def _checksum(key: bytes, data: bytes | memoryview) -> bytes:
    return zlib.crc32(data, zlib.crc32(key)).to_bytes(_CHECKSUM, "big")
