"""The cache of vectors: what is put is got, the first answer stays, and damage costs a computation, not a result."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.interpreter import Interpreter
from numpy.typing import NDArray

from bench.base.errors import StorageError
from bench.models.vectorcache import VectorCache, text_key

ROOT = Path(__file__).resolve().parents[2]

Vectors = dict[bytes, NDArray[np.float32]]


def some(count: int, dimensions: int = 64, seed: int = 0) -> Vectors:
    numbers = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return {text_key(f"text {i}"): row for i, row in enumerate(numbers)}


def same(result: Vectors, expected: Vectors) -> bool:
    return result.keys() == expected.keys() and all(np.array_equal(result[key], expected[key]) for key in expected)


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    """An empty cache of one model."""
    return VectorCache("model", tmp_path)


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1203])
def test_what_is_put_is_got_bit_for_bit(cache: VectorCache, tmp_path: Path, count: int) -> None:
    vectors = some(count)
    cache.put(vectors)
    keys = list(vectors)
    assert same(cache.get(keys), vectors)
    # Again from a new connection, in another order, with repeats and keys that are not there.
    cache.close()
    again = VectorCache("model", tmp_path)
    assert same(again.get([*reversed(keys), *keys, text_key("nothing")]), vectors)
    assert again.get([]) == {}


@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
@settings(deadline=None, max_examples=50)
def test_any_float32_comes_back_with_its_bits(tmp_path_factory: pytest.TempPathFactory, numbers: list[float]) -> None:
    cache = VectorCache("model", tmp_path_factory.mktemp("vectors"))
    vector = np.array(numbers, dtype=np.float32)
    cache.put({text_key("x"): vector})
    (result,) = cache.get([text_key("x")]).values()
    assert result.dtype == np.float32
    assert result.tobytes() == vector.tobytes()
    cache.close()


@pytest.mark.parametrize("kind", ["float64", "float16", ">f4"])
def test_other_kinds_of_numbers_and_strided_rows_are_stored_as_float32(cache: VectorCache, kind: str) -> None:
    rows = np.arange(12, dtype=kind).reshape(3, 4)
    cache.put({text_key("x"): rows[:, 1]})
    assert cache.get([text_key("x")])[text_key("x")].tolist() == [1.0, 5.0, 9.0]


def test_the_first_answer_stays(cache: VectorCache, tmp_path: Path) -> None:
    first = some(10, seed=1)
    cache.put(first)
    cache.put(some(20, seed=2))
    entry = cache.get(list(some(20)))
    assert same({key: entry[key] for key in first}, first)
    assert len(entry) == 20
    assert same(VectorCache("model", tmp_path).get(list(first)), first)


def test_the_key_of_a_text_is_its_sha256_even_of_half_a_surrogate_pair() -> None:
    assert text_key("é").hex() == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    assert len(text_key("\ud83d")) == 32
    assert len({text_key(text) for text in ("", "\ud83d", "\ude00", "?", "\ud83d\ude00", "😀")}) == 6


@pytest.mark.parametrize(
    "identity",
    ["", "m" * 100_000, "größe 工具", "../../etc", "/abs", "a\nb", "a\0b", "'; DROP TABLE vectors; --", "\udcff.bin"],
    ids=["empty", "long", "non-ascii", "dots", "absolute", "line end", "nul", "sql", "undecodable file name"],
)
def test_an_identity_may_be_any_text_and_has_its_own_file(tmp_path: Path, identity: str) -> None:
    vectors = some(3)
    plain = VectorCache("model", tmp_path)
    plain.put(some(3, seed=9))
    cache = VectorCache(identity, tmp_path)
    assert cache.path.parent == tmp_path
    assert cache.path != plain.path
    assert cache.get(list(vectors)) == {}
    cache.put(vectors)
    cache.close()
    assert same(VectorCache(identity, tmp_path).get(list(vectors)), vectors)


def test_the_cache_lies_in_the_users_cache_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "not there yet"))
    assert VectorCache("model").path.parent == tmp_path / "not there yet" / "vectors"


# Several processes --------------------------------------------------------------------------------------------------

WRITER = """
import json, sys
from pathlib import Path
import numpy as np
from bench.models.vectorcache import VectorCache, text_key

folder, number = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
seen = {}
for start in range(0, 400, 20):
    cache = VectorCache("model", folder)
    # Half of the keys are the other's too, in its order or against it.
    order = range(start, start + 20) if number else range(400 - start - 20, 400 - start)
    cache.put({text_key(str(i)): np.full(64, number, dtype=np.float32) for i in order})
    cache.put({text_key(f"{number}:{i}"): np.full(64, i, dtype=np.float32) for i in order})
    seen.update({i: float(cache.get([text_key(str(i))])[text_key(str(i))][0]) for i in order})
    cache.close()
print(json.dumps(seen))
"""


def test_two_processes_that_write_at_once_lose_nothing_and_agree(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in (0, 1)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    seen = []
    for process in processes:
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        seen.append(json.loads(printed))
    cache = VectorCache("model", tmp_path)
    shared = cache.get([text_key(str(i)) for i in range(400)])
    assert len(shared) == 400
    for i in range(400):
        vector = shared[text_key(str(i))]
        # One of the two answers, whole, and the one that both saw.
        assert vector.tolist() in ([0.0] * 64, [1.0] * 64)
        assert seen[0][str(i)] == seen[1][str(i)] == vector[0]
    for number in (0, 1):
        entry = cache.get([text_key(f"{number}:{i}") for i in range(400)])
        assert [entry[text_key(f"{number}:{i}")][0] for i in range(400)] == list(range(400))


OPENER = """
import sys
from pathlib import Path
import numpy as np
from bench.models.vectorcache import VectorCache, text_key

print("ready", flush=True)
for line in sys.stdin:
    try:
        cache = VectorCache(line, Path(sys.argv[1]))
        cache.put({text_key("x"): np.full(64, float(sys.argv[2]), dtype=np.float32)})
        print(cache.get([text_key("x")])[text_key("x")][0], flush=True)
        cache.close()
    except Exception as error:
        print(error, flush=True)
"""


def test_processes_that_make_the_same_cache_at_the_same_moment_agree(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for number in range(4)
    ]
    streams = [(process.stdin, process.stdout) for process in processes if process.stdin and process.stdout]
    assert {out.readline() for _, out in streams} == {"ready\n"}
    for attempt in range(60):
        for into, _ in streams:
            into.write(f"model {attempt}\n")
        said = {out.readline() for _, out in streams}
        assert len(said) == 1
        assert said <= {"0.0\n", "1.0\n", "2.0\n", "3.0\n"}
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0


# Damage -------------------------------------------------------------------------------------------------------------


def overwritten(data: bytes, start: int, stop: int) -> bytes:
    return data[:start] + b"\xa5" * (stop - start) + data[stop:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"not a database",
        lambda data: data[:10],
        lambda data: data[:4096],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-4096],
        lambda data: data[:-10],
        lambda data: data[:-1000],
        lambda data: overwritten(data, 0, 16),
        lambda data: overwritten(data, 100, 4096),
        lambda data: overwritten(data, 3 * 4096, 4 * 4096),
        lambda data: overwritten(data, len(data) // 2, len(data)),
        lambda data: b"\0" * len(data),
    ],
    ids=[
        "emptied",
        "text",
        "10 bytes",
        "one page",
        "half",
        "a page short",
        "10 bytes short",
        "1000 bytes short",
        "no header",
        "no schema",
        "a page overwritten",
        "half overwritten",
        "zeros",
    ],
)
def test_a_damaged_file_gives_no_wrong_vector_and_takes_new_ones(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    vectors = some(2000)
    cache = VectorCache("model", tmp_path)
    cache.put(vectors)
    cache.close()
    cache.path.write_bytes(damage(cache.path.read_bytes()))
    cache = VectorCache("model", tmp_path)
    entry = cache.get(list(vectors))
    # Fewer are fine, others are not.
    assert same(entry, {key: vectors[key] for key in entry})
    cache.put(vectors)
    assert same(cache.get(list(vectors)), vectors)
    cache.close()
    assert same(VectorCache("model", tmp_path).get(list(vectors)), vectors)


def test_leftovers_of_a_killed_process_beside_a_damaged_file_do_no_harm(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    vectors = some(50)
    path = VectorCache("model", tmp_path).path
    VectorCache("model", tmp_path).put({text_key("old"): np.zeros(64, dtype=np.float32)})
    # Killed in the middle of a transaction: the pages that it had changed lie in the journal, to be rolled back.
    killed = f"""
import os, sqlite3
connection = sqlite3.connect({str(path)!r}, isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
for i in range(2000):
    connection.execute("INSERT INTO vectors VALUES (?, ?)", (i.to_bytes(32, "big"), bytes(260)))
os._exit(9)
"""
    interpreter(killed, folder=tmp_path, code=9)
    assert path.with_name(path.name + "-journal").stat().st_size > 0
    path.write_bytes(b"not a database")
    cache = VectorCache("model", tmp_path)
    cache.put(vectors)
    assert same(cache.get(list(vectors)), vectors)


def test_what_a_killed_process_had_put_is_there(interpreter: Interpreter, tmp_path: Path) -> None:
    killed = f"""
import os, numpy as np
from pathlib import Path
from bench.models.vectorcache import VectorCache, text_key
VectorCache("model", Path({str(tmp_path)!r})).put({{text_key("x"): np.arange(3, dtype=np.float32)}})
os._exit(9)
"""
    interpreter(killed, folder=tmp_path, path=(ROOT,), code=9)
    assert VectorCache("model", tmp_path).get([text_key("x")])[text_key("x")].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("record", ["7", "0.5", "'text'", "''", "x''", "CAST(x'ff8061' AS TEXT)"])
def test_a_record_that_is_no_vector_is_as_good_as_none(tmp_path: Path, record: str) -> None:
    vectors = some(5)
    cache = VectorCache("model", tmp_path)
    cache.put(vectors)
    cache.close()
    first, *others = vectors
    with closing(sqlite3.connect(cache.path)) as connection:
        connection.execute(f"UPDATE vectors SET vector = {record} WHERE key = ?", (first,))
        connection.commit()
    cache = VectorCache("model", tmp_path)
    entry = cache.get(list(vectors))
    assert first not in entry
    assert same(entry, {key: vectors[key] for key in entry})
    cache.put(vectors)
    assert same(cache.get([first, *others]), vectors)


# Many at once -----------------------------------------------------------------------------------------------------


def test_the_first_answer_stays_of_many_and_of_few(cache: VectorCache, tmp_path: Path) -> None:
    few, many = some(20, seed=1), some(400, seed=2)
    cache.put(few)
    cache.put(many)
    cache.put(some(600, seed=3))
    cache.put(some(100, seed=4))
    expected = {**some(600, seed=3), **many, **few}
    assert same(cache.get(list(expected)), expected)
    assert same(VectorCache("model", tmp_path).get(list(expected)), expected)


def test_rows_of_several_lengths_are_kept(cache: VectorCache) -> None:
    vectors = {text_key(str(i)): np.full(i % 7, i, dtype=np.float32) for i in range(700)}
    cache.put(vectors)
    assert same(cache.get(list(vectors)), vectors)


def test_tables_of_another_version_in_the_file_do_no_harm(tmp_path: Path) -> None:
    old, new = some(20), some(500, seed=1)
    path = VectorCache("model", tmp_path / "elsewhere").path
    with closing(sqlite3.connect(tmp_path / path.name)) as connection:
        connection.execute("CREATE TABLE vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID")
        connection.execute("CREATE TABLE blocks (block INTEGER PRIMARY KEY, vectors BLOB NOT NULL)")
        for key, row in old.items():
            record = zlib.crc32(row.tobytes(), zlib.crc32(key)).to_bytes(4, "big") + row.tobytes()
            connection.execute("INSERT INTO vectors VALUES (?, ?)", (key, record))
        connection.commit()
    cache = VectorCache("model", tmp_path)
    assert same(cache.get(list(old)), old)
    cache.put(new)
    assert same(cache.get(list(new)), {**new, **old})


def test_what_a_killed_process_had_put_of_many_is_there_and_nothing_else(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    killed = f"""
import os, numpy as np
from pathlib import Path
from bench.models.vectorcache import VectorCache, text_key
cache = VectorCache("model", Path({str(tmp_path)!r}))
put = lambda i: cache.put({{text_key(f"{{i}} {{j}}"): np.full(64, i, dtype=np.float32) for j in range(300)}})
for i in range(20):
    put(i)
os.kill(os.getpid(), 9)
"""
    interpreter(killed, folder=tmp_path, path=(ROOT,), code=-9)
    cache = VectorCache("model", tmp_path)
    for i in range(20):
        found = cache.get([text_key(f"{i} {j}") for j in range(300)])
        assert len(found) == 300
        assert all((row == i).all() for row in found.values())


# What the machine refuses -------------------------------------------------------------------------------------------


def test_a_device_that_refuses_to_write_does_not_cost_what_is_there(interpreter: Interpreter, tmp_path: Path) -> None:
    pytest.importorskip("resource")
    vectors = some(200)
    cache = VectorCache("model", tmp_path)
    cache.put(vectors)
    cache.close()
    before = cache.path.stat()
    refused = f"""
import resource
from pathlib import Path
import numpy as np
from bench.base.errors import StorageError
from bench.models.vectorcache import VectorCache, text_key

cache = VectorCache("model", Path({str(tmp_path)!r}))
# No file may grow beyond this: SQLite sees an error of the device.
resource.setrlimit(resource.RLIMIT_FSIZE, ({before.st_size}, {before.st_size}))
try:
    cache.put({{text_key(f"more {{i}}"): np.ones(64, dtype=np.float32) for i in range(5000)}})
except StorageError as error:
    print(error)
"""
    said = interpreter(refused, folder=tmp_path, path=(ROOT,)).stdout
    assert said.startswith(f"cannot use the cache {cache.path}: ")
    assert said.endswith("Free some space, or name another place in BENCH_CACHE.\n")
    # The same file, and all that was in it.
    assert cache.path.stat().st_ino == before.st_ino
    assert same(VectorCache("model", tmp_path).get(list(vectors)), vectors)


def test_a_cache_that_another_process_holds_is_waited_for_and_not_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = some(20)
    cache = VectorCache("model", tmp_path)
    cache.put(vectors)
    before = cache.path.stat().st_ino
    connect = sqlite3.connect
    # A minute is long for a test.
    monkeypatch.setattr(sqlite3, "connect", lambda path, **given: connect(path, **{**given, "timeout": 0.05}))
    with closing(connect(cache.path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageError, match=r"cannot use the cache .*: database is locked\."):
            VectorCache("model", tmp_path)
        holder.execute("ROLLBACK")
    assert cache.path.stat().st_ino == before
    assert same(VectorCache("model", tmp_path).get(list(vectors)), vectors)


def test_a_database_of_something_else_is_rebuilt_or_told(tmp_path: Path) -> None:
    path = VectorCache("model", tmp_path / "elsewhere").path
    path = tmp_path / path.name
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE vectors (something TEXT, else_ TEXT)")
    connection.commit()
    connection.close()
    vectors = some(3)
    with suppress(StorageError):
        cache = VectorCache("model", tmp_path)
        cache.put(vectors)
        assert same(cache.get(list(vectors)), vectors)


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="cannot write"):
        VectorCache("model", tmp_path / place)


def test_a_folder_in_the_place_of_the_file_is_a_storage_error(tmp_path: Path) -> None:
    path = VectorCache("model", tmp_path / "elsewhere").path
    (tmp_path / path.name).mkdir()
    with pytest.raises(StorageError, match=r"cannot use the cache .*BENCH_CACHE"):
        VectorCache("model", tmp_path)
