"""`bench run --ray ADDRESS`: the same results as in one process, on a cluster whose nodes and workers may die."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.clusters import VARIABLES, Cluster, cluster, lean
from kit.grids import alive, files, manifests, soon
from kit.searchservice import Service

from bench.base.errors import BenchError, MethodError, UsageError
from bench.base.progress import Progress
from bench.base.spec import parse
from bench.cluster.cluster import run_cell
from bench.cluster.shards import Shards
from bench.evaluation.executors import side_by_side
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.evaluation.worker import RunCell
from bench.registry import build_method, load_dataset
from bench.results.store import StoredResult, find_results

Bench = Callable[..., Any]
#: Nothing is given away.
HERE = Shards({"num_cpus": 1}, ahead=0, offline=True)

#: Methods beside whose file the tests see what they do, wherever they run.
ODD = """
import os, signal, time
from pathlib import Path
import numpy as np
from bench.interface import Method
from bench.search.topk import top_k

HERE = Path(__file__).parent

class Plain(Method):
    def index(self, library):
        self.size = len(library)

    def rank(self, queries, depth):
        codes = np.arange(self.size)
        return top_k(np.array([(row * codes) % 7 for row in queries.rows], dtype=float), depth)

class Waits(Plain):
    resources = {"num_cpus": 1, "spare": 1}

    def rank(self, queries, depth):
        # By a pattern: a file that the code names is a part of what the method is, which may not change meanwhile.
        if not any(HERE.glob("go-*")):
            (HERE / f"waiting-{os.getpid()}").touch()
            time.sleep(60)
        return super().rank(queries, depth)

class WaitsAnywhere(Waits):
    resources = {}

class Dies(Plain):
    def rank(self, queries, depth):
        os.kill(os.getpid(), signal.SIGKILL)

class Raises(Plain):
    def rank(self, queries, depth):
        raise ConnectionError("the service is away")

class Large(Plain):
    resources = {"num_cpus": 1, "num_gpus": 8}

class Unclear(Plain):
    resources = {"num_cpus": "many"}
"""

#: As `python -m bench`, with fewer of Ray's helpers.
LEAN = """
import sys
from bench.__main__ import main
from kit.clusters import lean
with lean():
    sys.exit(main())
"""


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods from the working folder are forgotten after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "odd", raising=False)


@pytest.fixture(scope="module")
def ray_cluster(shared_cache: Path) -> Iterator[Cluster]:
    """A cluster with one node; tests add what they need, and take it away."""
    with cluster(shared_cache, {"CPU": 1}) as made:
        yield made


def with_spares(made: Cluster, number: int) -> Cluster:
    """The cluster with so many more nodes, which have a resource `spare`; one that is there already counts."""
    for _ in range(len(made.having("spare")), number):
        made.add({"CPU": 1, "spare": 1})
    return made


def waiting() -> int:
    """The process of a method that waits."""
    return int(soon(lambda: [path.name for path in Path().glob("waiting-*")])[0].removeprefix("waiting-"))


def ended(process: int) -> bool:
    return not alive(process)


@pytest.mark.slow("a Ray cluster")
def test_a_cluster_gives_the_bytes_of_one_process_though_a_node_is_killed(
    bench: Bench, tmp_path: Path, ray_cluster: Cluster
) -> None:
    spares = with_spares(ray_cluster, 2)
    Path("odd.py").write_text(ODD)
    Path("grid.toml").write_text(
        'methods = ["bm25", "odd:Waits", "tfidf", "random"]\ndatasets = ["starter"]\nlimit = 20\n'
    )

    def kill() -> None:
        spares.lose(waiting())
        Path("go-on").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    many = bench("run", "grid.toml", "--results", tmp_path / "many", "--ray", spares.address)
    killer.join()
    # The other node with the resource that the method states took the cell.
    assert "retries remaining" in many.err
    assert [line.split(":")[0] for line in many.err.splitlines() if "/4 " in line] == [
        "1/4 bm25 @ starter",
        "2/4 odd",
        "3/4 tfidf @ starter",
        "4/4 random @ starter",
    ]
    alone = bench("run", "grid.toml", "--results", tmp_path / "one")
    assert many.out == alone.out
    assert files(tmp_path / "one") == files(tmp_path / "many")
    assert len(files(tmp_path / "one")) == 12
    assert manifests(tmp_path / "one") == manifests(tmp_path / "many")
    for result in find_results(tmp_path / "many"):
        assert isinstance(result, StoredResult)
        result.verify()


@pytest.mark.slow("a Ray cluster")
def test_cells_that_fail_or_die_or_that_no_node_can_take_end_no_other_and_what_is_done_is_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, ray_cluster: Cluster
) -> None:
    # On the only one, no other cell runs beside the one that waits, so that the end of the node ends no other.
    spares = with_spares(ray_cluster, 1)
    Path("odd.py").write_text(ODD)
    monkeypatch.setattr("bench.cluster.cluster._PATIENCE", 1.0)
    # Each retry takes another process seconds to begin and die.
    monkeypatch.setattr("bench.cluster.cluster._RETRIES", 1)

    def kill() -> None:
        waiting()
        spares.lose_all("spare")

    killer = threading.Thread(target=kill)
    killer.start()
    methods = [word for name in ("odd:Raises", "odd:Dies", "odd:Waits", "random") for word in ("-m", name)]
    grid = [*methods, "-d", "starter", "--limit", 8, "--ray", spares.address]
    said = bench("run", *grid, "--json", code=5)
    killer.join()
    assert "1/4 failed: method odd:Raises failed while ranking the batch of 8 queries" in said.err
    assert "2/4 failed: the cluster has no result of odd:Dies @ starter (WorkerCrashedError: " in said.err
    assert "the same command runs this one again." in said.err
    assert "3/4 failed: the cluster has no result of odd:Waits @ starter (" in said.err
    assert "4/4 random @ starter" in said.err
    (stored,) = said.json
    assert stored["manifest"]["method"]["spec"] == "random"
    again = bench("run", "-m", "random", "-d", "starter", "--limit", 8, "--ray", spares.address)
    assert "random @ starter: kept from" in again.err


@pytest.mark.slow("a Ray cluster")
def test_a_service_is_asked_from_this_machine_and_asked_again_by_a_worker(
    bench: Bench, service: Service, ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_dataset("starter").tools[0].tool_id
    service.answer = lambda request: request.reply([first])
    monkeypatch.setattr("bench.cluster.cluster._task", lambda demand: pytest.fail("a node would ask"))
    grid = ["-m", f'http(url="{service.url}")', "-d", "starter", "--limit", 4, "--results", "results", "--json"]
    bench("run", *grid, "--ray", ray_cluster.address)
    count = len(service.seen)
    assert count >= 4
    again = bench("run", *grid, "--jobs", 2)
    assert "run again, as its service may have changed" in again.err
    assert len(service.seen) > count
    # By a worker, beside others, and not by this process.
    assert again.json[0]["manifest"]["environment"]["hardware"]["jobs"] == 2


@pytest.mark.slow("a Ray cluster")
def test_what_no_node_can_run_is_told(bench: Bench, ray_cluster: Cluster) -> None:
    Path("odd.py").write_text(ODD)
    said = bench("run", "-m", "odd:Large", "-m", "random", "-d", "starter", "--ray", ray_cluster.address, code=2)
    assert "odd:Large @ starter needs num_cpus 1, num_gpus 8, and no node of the cluster has that" in said.err
    assert not list(Path().glob("results/*/*/manifest.json"))


def test_what_cannot_run_is_told_in_a_sentence_before_a_cluster_is_joined(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("odd.py").write_text(ODD)
    said = bench("run", "-m", "odd:Unclear", "-d", "starter", "--ray", "127.0.0.1:1", code=5)
    assert "`resources` is not a mapping of names to numbers" in said.err
    run = ["run", "-m", "random", "-d", "starter", "--ray"]
    said = bench(*run, "127.0.0.1:1", "--jobs", 2, code=2)
    assert "as the cluster has room for: remove --jobs" in said.err
    # Ray alone would try for minutes.
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999", "nowhere"):
        said = bench(*run, address, code=4)
        assert f"cannot join the Ray cluster at {address!r}" in said.err
    monkeypatch.setattr("bench.cluster.cluster.is_installed", lambda module: False)
    said = bench(*run, "local", code=4)
    assert '--ray needs the package ray, which is not installed; install it with `pip install "' in said.err
    assert not list(Path().glob("results/*/*/manifest.json"))


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["nothing", "another protocol"])
def test_what_listens_and_is_no_cluster_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch, says: bytes) -> None:
    monkeypatch.setattr("bench.cluster.cluster._PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines: list[socket.socket] = []

        def answer() -> None:
            lines.append(server.accept()[0])
            lines[0].sendall(says)

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        said = bench("run", "-m", "random", "-d", "starter", "--ray", address, code=4)
        assert f"cannot join the Ray cluster at {address!r}" in said.err
        lines[0].close()


@dataclass
class Recording:
    """An executor that only takes down the cells."""

    cells: list[RunCell] = field(default_factory=list)

    def run(self, cells: Sequence[RunCell], progress: Progress) -> Generator[Path | BenchError]:
        self.cells += cells
        yield from (UsageError("not run") for _ in cells)


def test_a_node_with_other_code_makes_no_result(tmp_path: Path) -> None:
    runner = Runner(tmp_path / "results", load=load_dataset, build=build_method)
    plan = Plan(dataset=parse("starter"), method=parse("bm25"), limit=8)
    recording = Recording()
    assert [str(outcome) for outcome in side_by_side(runner, [plan], recording)] == ["not run"]
    (cell,) = recording.cells
    dataset = load_dataset(parse("starter"))
    same = run_cell(cell, dataset, HERE).outcome
    assert isinstance(same, dict)
    assert sorted(same) == ["manifest.json", "metrics.json", "per_query.parquet", "run.parquet"]
    other = run_cell(replace(cell, identifier="0" * 12), dataset, HERE).outcome
    assert isinstance(other, MethodError)
    assert "bm25 @ starter would be another result on" in str(other)
    assert not list(tmp_path.glob("results/*/*/manifest.json"))


@pytest.mark.slow("a Ray cluster")
def test_workers_end_with_the_command_and_the_same_one_goes_on(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    Path("odd.py").write_text(ODD)
    grid = ["run", "-m", "random", "-m", "odd:WaitsAnywhere", "-d", "starter", "--limit", "8", "--ray", "local"]
    grid += ["--results", str(tmp_path / "results")]
    # What goes on after the one is ended by the other: a cluster takes long to begin, and longest as users begin it.
    for sent, program in ((signal.SIGKILL, ("-m", "bench")), (signal.SIGINT, ("-c", LEAN))):
        process = subprocess.Popen(
            [sys.executable, *program, *grid],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A shell in the background has its children ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        worker = waiting()
        soon(lambda: list(tmp_path.glob("results/starter/random-*/manifest.json")))
        assert alive(worker)
        process.send_signal(sent)
        started = time.monotonic()
        assert process.wait(60) in (130, -sent)
        soon(partial(ended, worker), 60)
        assert time.monotonic() - started < 60
        Path(f"waiting-{worker}").unlink()
    Path("go-on").touch()
    with lean():
        first, second = bench(*grid, "--json").json
    assert first["manifest"]["method"]["spec"] == "random"
    assert second["manifest"]["method"]["spec"] == "odd:WaitsAnywhere"
