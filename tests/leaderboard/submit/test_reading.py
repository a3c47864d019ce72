"""The readers of untrusted tables: each alone, whatever becomes of the one before, and nothing of bench in any."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.base.errors import ResultError
from bench.leaderboard.submit import reading, tables
from bench.leaderboard.submit.reading import READ, REFUSED, read_apart
from bench.results.store import PER_QUERY, PER_QUERY_SCHEMA, RUN

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each table has a process that is started")

ALL, MEMORY = 10**6, 4 << 30


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """No process from tests before, and none for those after."""
    reading._end()
    yield
    reading._end()


@pytest.fixture
def table(made: Any) -> bytes:
    """The parts of a table in Parquet."""
    parts: bytes = made.parts[PER_QUERY]
    return parts


def forking() -> int:
    """The process that forks."""
    return reading._forking[os.getpid()]._process.pid


def read(table: bytes) -> tuple[int, bytes, str]:
    return read_apart(table, ALL, ALL, MEMORY, ["query_id"], 60.0)


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Readers of which those of a table of at most 7 rows do something else, before or after their limits are set."""

    def faulty(line: str, before: bool = False) -> None:
        source = Path(reading._COMMAND[2]).read_text()
        known = "    _limit(size)\n"
        assert known in source
        fault = f"    if rows == 7:\n        {line}\n"
        changed = source.replace(known, fault + known if before else known + fault).replace("= 120", "= 1")
        (tmp_path / "reader.py").write_text(changed)
        monkeypatch.setattr(reading, "_COMMAND", (*reading._COMMAND[:2], str(tmp_path / "reader.py")))

    return faulty


def test_a_forked_reader_reads_what_a_started_one_does(
    made: Any, table: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = ("query_id", "recommended.list.element")
    requests = [(table, ALL, ALL, lists), (made.parts[RUN], ALL, ALL, ("tool_id",))]
    requests += [(table[:-9], ALL, ALL, ()), (table, 3, ALL, lists), (table, ALL, 3, lists)]

    def answers() -> list[tuple[int, bytes, str]]:
        return [read_apart(data, rows, cells, MEMORY, columns, 60.0) for data, rows, cells, columns in requests]

    by_fork = answers()
    assert reading._forking
    assert [code for code, _, _ in by_fork] == [READ, READ, REFUSED, REFUSED, REFUSED]
    assert len(pa.ipc.open_stream(by_fork[0][1]).read_all()) == 134
    reading._end()
    monkeypatch.setattr(reading, "_can_fork", lambda: False)
    assert answers() == by_fork
    assert not reading._forking


def test_one_process_serves_many_tables_has_one_thread_and_nothing_of_bench(table: bytes) -> None:
    assert read(table)[0] == READ
    first = forking()
    assert read(b"PAR1")[0] == REFUSED
    assert read(table)[0] == READ
    assert forking() == first
    assert len(os.listdir(f"/proc/{first}/task")) == 1
    opened = Path(f"/proc/{first}/maps").read_text()
    assert "arrow" in opened
    look = f"import runpy, sys; runpy.run_path({reading._COMMAND[2]!r}); import pyarrow.parquet; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", look], capture_output=True, text=True, check=True)
    assert "bench" not in {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("os.abort()", {-signal.SIGABRT}),
        ("os._exit(1)", {1}),
        ("while True: pass", {-signal.SIGXCPU, -signal.SIGKILL}),
        ("bytes(size)", {1}),
    ],
    ids=["crash", "end", "time", "memory"],
)
def test_a_reader_that_is_brought_down_is_the_last_of_its_parent(
    table: bytes, faulty: Callable[..., None], line: str, codes: set[int]
) -> None:
    faulty(line)
    whole = read(table)
    assert whole[0] == READ
    first = forking()
    assert read_apart(table, 7, ALL, MEMORY, [], 60.0)[0] in codes
    assert not Path(f"/proc/{first}").exists()
    assert read(table) == whole
    assert forking() != first


def test_an_answer_larger_than_its_memory_is_not_taken(table: bytes, faulty: Callable[..., None]) -> None:
    # As by a reader that has lifted its limits.
    faulty("os.ftruncate(1, size + 1); os._exit(0)", before=True)
    assert read_apart(table, 7, ALL, MEMORY, [], 60.0) == (-1, b"", "")
    reading._end()
    faulty("os.ftruncate(1, size + 1)")
    code, answer, _ = read_apart(table, 7, ALL, MEMORY, [], 60.0)
    assert code not in {READ, REFUSED}
    assert answer == b""


def test_a_process_that_ended_between_two_tables_changes_no_verdict(table: bytes) -> None:
    content = read(table)
    first = forking()
    os.kill(first, signal.SIGKILL)
    assert read(table) == content
    assert read(table) == content
    assert forking() != first


def test_a_reader_that_hangs_ends_when_its_time_is_over(table: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(table)[0] == READ
    first = forking()
    os.kill(first, signal.SIGSTOP)
    monkeypatch.setattr(tables, "_SECONDS", 0.2)
    with pytest.raises(ResultError, match="cannot be read in 0 seconds"):
        tables.read_table(table, PER_QUERY, PER_QUERY_SCHEMA, ALL)
    assert not Path(f"/proc/{first}").exists()
    monkeypatch.undo()
    assert read(table)[0] == READ


def test_threads_are_answered_each_its_own_table(made: Any) -> None:
    wanted = {name: read(made.parts[name]) for name in (RUN, PER_QUERY)}
    wrong: list[str] = []

    def ask(name: str) -> None:
        wrong.extend(name for _ in range(5) if read(made.parts[name]) != wanted[name])

    threads = [threading.Thread(target=ask, args=(name,)) for name in (RUN, PER_QUERY) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_forks_ends_with_bench(table: bytes, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(table)
    program = (
        "import os, sys; from pathlib import Path; from bench.leaderboard.submit import reading\n"
        "data = Path(sys.argv[1]).read_bytes()\n"
        "code = reading.read_apart(data, 10**6, 10**6, 4 << 30, [], 60.0)[0]\n"
        "print(code, reading._forking[os.getpid()]._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "table"], capture_output=True, text=True)
    code, process = map(int, done.stdout.split())
    assert code == READ
    end = time.monotonic() + 30
    while Path(f"/proc/{process}/exe").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{process}/exe").exists()
