"""Runs that stop half way: by an error, by SIGKILL, by Ctrl-C; and two of the same at once. Nothing is asked twice."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.__main__ import run as bench
from bench.base.errors import MethodError
from bench.base.progress import Quiet, Stage
from bench.data.dataset import Dataset
from bench.data.parquet import write_dataset
from bench.interface import Library, Method, Queries, Ranking
from bench.results.store import StoredResult
from bench.search.topk import top_k

Run = Callable[..., StoredResult]


class Halting(Method):
    """Four queries a batch; raises when it comes to the query numbered `halt`. Single queries are those being timed."""

    batch_size: ClassVar[int] = 4
    halt: ClassVar[int | None] = None
    asked: ClassVar[list[list[int]]] = []

    def index(self, library: Library) -> None:
        self._size = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        if len(queries) > 1:
            if self.halt in queries.rows.tolist():
                raise ConnectionError("the service is away")
            self.asked.append(queries.rows.tolist())
        return top_k(np.array([[float((row * code) % 7) for code in range(self._size)] for row in queries.rows]), depth)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins with a method that was never asked."""
    monkeypatch.setattr(Halting, "asked", [])


def partial(result_or_root: Path) -> list[Path]:
    return sorted(result_or_root.rglob("from-*.npz"))


def test_after_an_error_only_the_rest_is_asked(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Halting, "halt", 9)
    with pytest.raises(MethodError, match="method halting failed while ranking the batch of 4 queries from q13: Conn"):
        run(Halting)
    assert Halting.asked == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(partial(tmp_path)) == 2
    monkeypatch.setattr(Halting, "halt", None)
    Halting.asked.clear()
    result = run(Halting)
    assert Halting.asked == [[8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19], [20, 21]]
    assert result.manifest.resumed
    assert partial(tmp_path) == []
    # The same as a run that was never stopped.
    stored = (result.folder / "run.parquet").read_bytes(), (result.folder / "per_query.parquet").read_bytes()
    whole = run(Halting, overwrite="always")
    assert not whole.manifest.resumed
    assert stored == ((whole.folder / "run.parquet").read_bytes(), (whole.folder / "per_query.parquet").read_bytes())


class Replying(Halting):
    """Gets a reply of as many words as the query's number says; every fifth query fails."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        ranking = super().rank(queries, depth)
        failed = queries.rows % 5 == 4
        said = (None if row % 5 == 4 else "word " * int(row) + "\ud800" for row in queries.rows)
        return replace(ranking, failed=failed, replies=tuple(said))


def test_the_tokens_of_replies_are_those_of_all_queries_after_a_crash_too(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Halting, "halt", 9)
    with pytest.raises(MethodError):
        run(Replying)
    monkeypatch.setattr(Halting, "halt", None)
    result = run(Replying)
    assert result.manifest.resumed
    # Half a surrogate pair becomes a question mark, a token.
    expected = np.mean([row + 1 for row in range(22) if row % 5 != 4])
    assert result.metrics.tokens["answer"] == expected
    assert run(Replying, overwrite="always").metrics.tokens["answer"] == expected
    # A batch of a version that did not count: the mean of the others is not that of all.
    stopped(run, monkeypatch, 9, method=Replying, overwrite="always")
    first = partial(tmp_path)[0]
    with np.load(first) as stored:
        arrays = {name: array for name, array in stored.items() if name != "reply_tokens"}
    np.savez(first, **arrays)
    assert "answer" not in run(Replying, overwrite="always").metrics.tokens


class Loose(Halting):
    """Has a reply too many."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return replace(super().rank(queries, depth), replies=("one",) * (len(queries) + 1))


def test_a_reply_for_each_query_or_none(run: Run) -> None:
    with pytest.raises(MethodError, match="one text or None per query"):
        run(Loose)


def test_another_plan_does_not_take_the_batches(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Halting, "halt", 9)
    with pytest.raises(MethodError):
        run(Halting)
    monkeypatch.setattr(Halting, "halt", None)
    Halting.asked.clear()
    assert not run(Halting, depth=3).manifest.resumed
    assert len(Halting.asked) == 6


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.9, 0.999])
def test_a_batch_that_was_cut_short_is_asked_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: float
) -> None:
    monkeypatch.setattr(Halting, "halt", 13)
    with pytest.raises(MethodError):
        run(Halting)
    second = partial(tmp_path)[1]
    data = second.read_bytes()
    second.write_bytes(data[: min(len(data) - 1, int(len(data) * share))])
    monkeypatch.setattr(Halting, "halt", None)
    Halting.asked.clear()
    result = run(Halting)
    assert [rows[0] for rows in Halting.asked] == [4, 12, 16, 20]
    (result.folder / "run.parquet").rename(tmp_path / "resumed.parquet")
    whole = run(Halting, overwrite="always")
    assert (tmp_path / "resumed.parquet").read_bytes() == (whole.folder / "run.parquet").read_bytes()


def stopped(
    run: Run, monkeypatch: pytest.MonkeyPatch, halt: int, method: type[Method] = Halting, **options: Any
) -> None:
    """A run that an error ended when it came to a query; the next one will not be ended."""
    monkeypatch.setattr(Halting, "halt", halt)
    with pytest.raises(MethodError):
        run(method, **options)
    monkeypatch.setattr(Halting, "halt", None)
    Halting.asked.clear()


def tables(result: StoredResult) -> list[bytes]:
    return [(result.folder / name).read_bytes() for name in ("run.parquet", "per_query.parquet", "metrics.json")]


def test_only_queries_without_an_answer_are_asked_whatever_the_batches_were(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stopped(run, monkeypatch, 13)
    partial(tmp_path)[1].unlink()
    # Answered are 0 to 3 and 8 to 11. Batches of six now: the size is no part of a result's identity.
    monkeypatch.setattr(Halting, "batch_size", 6)
    result = run(Halting)
    assert Halting.asked == [[4, 5, 6, 7, 12, 13], [14, 15, 16, 17, 18, 19], [20, 21]]
    assert result.manifest.resumed
    stored = tables(result)
    assert stored == tables(run(Halting, overwrite="always"))


def test_a_run_that_stops_again_and_again_asks_each_query_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Any] = []
    for halt in (5, 9, 18, 21):
        stopped_at = len(requests)
        monkeypatch.setattr(Halting, "halt", halt)
        with pytest.raises(MethodError):
            run(Halting)
        requests += Halting.asked
        Halting.asked.clear()
        assert len(requests) > stopped_at
    monkeypatch.setattr(Halting, "halt", None)
    run(Halting)
    assert sorted(row for rows in requests + Halting.asked for row in rows) == list(range(22))


def edited(path: Path, target: Path, **changes: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    """A copy of a batch with some arrays changed."""
    with np.load(path) as stored:
        arrays = dict(stored.items())
    np.savez(target, **{**arrays, **{name: change(arrays[name]) for name, change in changes.items()}})


def test_a_batch_that_does_not_fit_is_asked_again(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stopped(run, monkeypatch, 13)
    first, second, third = partial(tmp_path)
    # Overlaps the first; speaks of queries that there are not, or of one; has fewer answers than queries.
    edited(first, second, positions=lambda numbers: numbers + 2)
    edited(first, first.with_name("from-00000019.npz"), positions=lambda numbers: numbers + 19)
    edited(first, first.with_name("from-00000020.npz"), positions=lambda numbers: np.array([20, 21, 16, 22]))
    edited(first, first.with_name("from-00000090.npz"), positions=lambda numbers: numbers + 90)
    edited(third, third, tools=lambda tools: tools[:3])
    result = run(Halting)
    assert Halting.asked == [[4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19], [20, 21]]
    stored = tables(result)
    assert stored == tables(run(Halting, overwrite="always"))


class Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self._path), "w")


def test_a_batch_that_holds_a_pickle_runs_nothing_and_is_asked_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stopped(run, monkeypatch, 9)
    _, second = partial(tmp_path)
    with np.load(second) as stored:
        arrays = dict(stored.items())
    np.savez(second, **arrays, more=np.array([Planted(tmp_path / "planted")], dtype=object))
    run(Halting)
    assert not (tmp_path / "planted").exists()
    assert [rows[0] for rows in Halting.asked] == [4, 8, 12, 16, 20]


class Counted(Quiet):
    """Adds up what stages say was done."""

    def __init__(self) -> None:
        self.totals: dict[str, int | None] = {}
        self.done: dict[str, list[int]] = {}

    @contextmanager
    def stage(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        self.totals[title] = total
        self.done[title] = []
        yield self

    def advance(self, amount: int = 1) -> None:
        self.done["rank"].append(amount)


def test_queries_that_have_their_answers_count_as_done(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(run, monkeypatch, 9)
    progress = Counted()
    run(Halting, progress=progress)
    assert progress.totals["rank"] == 22
    assert progress.done["rank"] == [8, 4, 4, 4, 2]


# From the beginning --------------------------------------------------------------------------------------------------


def test_always_forgets_the_batches_of_an_earlier_attempt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(run, monkeypatch, 9)
    assert not run(Halting, overwrite="always").manifest.resumed
    assert [rows[0] for rows in Halting.asked] == [0, 4, 8, 12, 16, 20]


def test_always_continues_what_always_began(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = run(Halting)
    stopped(run, monkeypatch, 9, overwrite="always")
    # Until the new one is complete, the old one remains.
    assert StoredResult.read(first.folder).manifest == first.manifest
    again = run(Halting, overwrite="always")
    assert [rows[0] for rows in Halting.asked] == [8, 12, 16, 20]
    assert again.manifest.resumed
    assert partial(tmp_path) == []
    # It is complete: the next run starts from the beginning.
    Halting.asked.clear()
    assert not run(Halting, overwrite="always").manifest.resumed
    assert [rows[0] for rows in Halting.asked] == [0, 4, 8, 12, 16, 20]


def test_what_always_began_is_no_reason_to_ask_when_the_old_result_will_do(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(Halting)
    stopped(run, monkeypatch, 9, overwrite="always")
    assert run(Halting).manifest == first.manifest
    assert Halting.asked == []


# Real processes -----------------------------------------------------------------------------------------------------
# A method that logs each batch that it has answered. At the query named in STOP_AT it says so through a pipe, and waits
# for a signal, or for a word through a second pipe.

SLOW = '''
import os
import threading

import numpy as np

from bench.interface import Method
from bench.search.topk import top_k


def log(line):
    with open(os.environ["LOG"], "a") as file:
        file.write(line + "\\n")


class Slow(Method):
    """Logs and waits."""

    batch_size = 4

    def index(self, library):
        self.size = len(library)
        log("index")

    def rank(self, queries, depth):
        rows = queries.rows.tolist()
        if len(rows) > 1:
            if str(rows[0]) == os.environ.get("STOP_AT"):
                with open(os.environ["HERE"], "w") as pipe:
                    pipe.write("here\\n")
                # In short turns: a signal just before one endless wait would be lost.
                while "GO" not in os.environ and not threading.Event().wait(0.05):
                    pass
                with open(os.environ["GO"]) as pipe:
                    pipe.read()
            log(f"batch {rows[0]}")
        return top_k(np.array([[float((row * code) % 7) for code in range(self.size)] for row in rows]), depth)
'''
COMMAND = ["run", "-m", "slow:Slow", "-d", "tiny"]
ALL = [f"batch {start}" for start in (0, 4, 8, 12, 16, 20)]


class Workshop:
    """A working folder with the method and the dataset, and runs in it: in processes, or in this one."""

    def __init__(self, folder: Path, dataset: Dataset) -> None:
        self.folder = folder
        (folder / "slow.py").write_text(SLOW)
        self.here, self.go, self.log = folder / "here", folder / "go", folder / "log.txt"
        os.mkfifo(self.here)
        os.mkfifo(self.go)
        write_dataset(dataset, folder / "data" / "datasets" / "tiny")
        self.started: list[subprocess.Popen[str]] = []

    def start(self, stop_at: int | None = None, wait: bool = False) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "HERE": str(self.here),
            **({} if stop_at is None else {"STOP_AT": str(stop_at)}),
            **({"GO": str(self.go)} if wait else {}),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "bench", *COMMAND],
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def wait_until_it_stops_at_the_query(self) -> None:
        with open(os.open(self.here, os.O_RDONLY | os.O_NONBLOCK)) as pipe:
            assert select.select([pipe], [], [], 60)[0], "the method did not come to the query"
            assert pipe.readline() == "here\n"

    def logged(self) -> list[str]:
        return self.log.read_text().splitlines()

    def result(self, results: str = "results") -> StoredResult:
        (manifest,) = (self.folder / results).glob("tiny/*/manifest.json")
        return StoredResult.read(manifest.parent)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Dataset) -> Iterator[Workshop]:
    """A working folder with a slow method; what the test has started ends with it."""
    shop = Workshop(tmp_path, tiny)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LOG", str(shop.log))
    # The method is forgotten after the test.
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "slow", raising=False)
    yield shop
    sys.modules.pop("slow", None)
    for process in shop.started:
        process.kill()
        process.communicate()


def finished(process: subprocess.Popen[str]) -> None:
    """Wait for a good end."""
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def test_a_killed_run_continues_where_it_stopped_and_ends_the_same_byte_for_byte(workshop: Workshop) -> None:
    killed = workshop.start(stop_at=8)
    workshop.wait_until_it_stops_at_the_query()
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(60) == -signal.SIGKILL
    assert workshop.logged() == ["index", *ALL[:2]]
    assert not list((workshop.folder / "results").glob("*/*/manifest.json"))
    assert bench(COMMAND) == 0
    # Its own index, and none of the finished batches a second time.
    assert workshop.logged() == ["index", *ALL[:2], "index", *ALL[2:]]
    assert bench([*COMMAND, "--results", "uninterrupted"]) == 0
    resumed, whole = workshop.result(), workshop.result("uninterrupted")
    assert resumed.manifest.resumed
    assert not whole.manifest.resumed
    assert resumed.manifest.result_id == whole.manifest.result_id
    for name in ("run.parquet", "per_query.parquet", "metrics.json"):
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_ctrl_c_is_told_in_a_sentence_and_the_same_command_continues(workshop: Workshop) -> None:
    stopped = workshop.start(stop_at=4)
    workshop.wait_until_it_stops_at_the_query()
    stopped.send_signal(signal.SIGINT)
    out, said = stopped.communicate(timeout=60)
    assert stopped.returncode == 130
    # After a line end of click's, for the terminal shows ^C.
    assert said.lstrip() == "bench: interrupted; the same command resumes the run.\n"
    assert out == ""
    assert bench(COMMAND) == 0
    assert workshop.logged() == ["index", ALL[0], "index", *ALL[1:]]


def test_two_processes_with_the_same_plan_share_one_run(workshop: Workshop) -> None:
    first = workshop.start(stop_at=4, wait=True)
    workshop.wait_until_it_stops_at_the_query()
    second = workshop.start()
    assert second.stderr is not None
    assert select.select([second.stderr], [], [], 60)[0]
    assert second.stderr.readline().startswith("another process is making slow-slow-")
    workshop.go.write_text("go\n")
    finished(first)
    finished(second)
    assert workshop.logged() == ["index", *ALL]
    result = workshop.result()
    assert [path.name for path in result.folder.parent.iterdir()] == [result.folder.name]
