"""Runs the cells of a grid on a Ray cluster (https://docs.ray.io), which schedules, retries and moves data.

Each cell is one task. Its dataset goes through Ray's object store once, its result comes back as the bytes of its
files, and this process stores it among the results: the nodes need no shared folder. The inputs of a cell's models, and
its large searches, are distributed over the nodes (`bench.cluster.shards`). A node builds the method from its spec, so
bench, the method and the models it names must be installed there; the identity of the result shows whether they are the
same as here.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import socket
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.base.config import current_session
from bench.base.errors import BenchError, MethodError, UnavailableError, UsageError, install_command, is_installed
from bench.base.locks import replace_folder
from bench.base.paths import env_flag
from bench.base.progress import Forwarding, Progress, Report
from bench.base.spec import Spec
from bench.base.text import clean
from bench.cluster.shards import Shards, task_options
from bench.data.dataset import Dataset
from bench.evaluation.checkpoints import forget
from bench.evaluation.executors import Processes
from bench.evaluation.machine import cores
from bench.evaluation.worker import RunCell, work
from bench.models.shards import spread_by
from bench.results.store import MANIFEST, StoredResult, result_lock

#: Number of further tries if a node or a cell's process dies.
_RETRIES = 3
#: Seconds without a finished cell after which the nodes are checked.
_PATIENCE = 10.0
#: Resources whose name in a task differs from the name in nodes.
_NAMES = {"num_cpus": "CPU", "num_gpus": "GPU"}
#: The start of an HTTP/2 connection by a client, with empty settings (RFC 9113, section 3.4).
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
#: More cores hardly make an encoder faster.
_CORES_OF_A_MODEL = 4


@dataclass(frozen=True)
class Returned:
    """The reply of a node: the files of the result, or the error that ended the cell, and its notes."""

    outcome: dict[str, bytes] | BenchError
    notes: tuple[str, ...]


@dataclass
class Cluster:
    """Runs each cell as a task of a Ray cluster.

    A task requires the resources that its method states, or defaults (`_demand`); as many run at a time as fit. If a
    node dies, Ray gives its cells to others. Cells that pay for their answers or call a service run on this machine,
    one after the other: the journal and the spending limit are here, and the service may be.

    Attributes:
        address: of the cluster, as for `ray.init`; `local` starts one on this machine for the duration of the run.
        load: loads the dataset of a spec.

    Raises:
        UnavailableError: Ray is not installed.
    """

    address: str
    load: Callable[[Spec], Dataset]

    def __post_init__(self) -> None:
        # Not `bench.base.errors.require`: its table belongs to the identity of every method, and no method uses Ray.
        if not is_installed("ray"):
            raise UnavailableError(
                f"--ray needs the package ray, which is not installed; install it with `{install_command('ray')}`."
            )

    def run(self, cells: Sequence[RunCell], progress: Progress) -> Generator[Path | BenchError]:
        """See `Executor.run`.

        Raises:
            UnavailableError: there is no cluster at the address.
            UsageError: no node has what a method needs.
        """
        import ray

        outcomes: dict[int, Path | BenchError] = {}
        with self._connect(progress), progress.stage("run", len(cells), "cells") as done:
            nodes = _nodes()
            datasets: dict[Spec, Any] = {}
            waiting: dict[Any, int] = {}
            try:
                demands = {number: _demand(cell, nodes) for number, cell in enumerate(cells) if not _stays(cell)}
                for number, demand in demands.items():
                    spec = cells[number].plan.dataset
                    if spec not in datasets:
                        datasets[spec] = ray.put(self.load(spec))
                    cell = replace(cells[number], mirror=None, jobs=_beside(demand, nodes))
                    shards = Shards(demand, _places(demand, nodes) - 1, cell.offline)
                    waiting[_task(demand).remote(cell, datasets[spec], shards)] = number
                datasets.clear()
                staying = [cell for cell in cells if _stays(cell)]
                with closing(Processes(1).run(staying, progress)) as here:
                    for number, cell in enumerate(cells):
                        # Results are stored in the order in which they finish, so that finished work is never lost.
                        while waiting and (_stays(cell) or number not in outcomes):
                            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=_PATIENCE)
                            for reference in ready or _hopeless(waiting, demands):
                                ended = waiting.pop(reference)
                                outcomes[ended] = _store(cells[ended], _fetch(reference, cells[ended]), progress)
                                done.advance()
                        if _stays(cell):
                            outcomes[number] = next(here)
                            done.advance()
                        yield outcomes.pop(number)
            finally:
                for reference in waiting:
                    ray.cancel(reference, force=True)

    @contextmanager
    def helps(self, progress: Progress) -> Iterator[None]:
        """Let the models and searches of this process share their work with the cluster for a block.

        Raises:
            UnavailableError: as in `run`.
        """
        with self._connect(progress):
            nodes = _nodes()
            demand = _usual(True, nodes)
            with spread_by(Shards(demand, _places(demand, nodes), current_session().offline)):
                yield

    @contextmanager
    def _connect(self, progress: Progress) -> Iterator[None]:
        import ray

        # A cluster runs any code it receives, so that a cluster started here accepts only this machine.
        started: dict[str, Any] = (
            {"address": "local", "num_cpus": cores(), "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            if self.address == "local"
            else {"address": self.address}
        )
        # Ray prints events of nodes and tasks to standard output, where the command's own output belongs.
        with contextlib.redirect_stdout(_RayOutput(progress)):
            try:
                _knock(self.address)
                ray.init(**started, log_to_driver=False, logging_level=logging.CRITICAL)
            except (OSError, OverflowError, RuntimeError, ValueError) as error:
                first = clean(str(error)).splitlines() or [type(error).__name__]
                raise UnavailableError(
                    f"cannot join the Ray cluster at {clean(self.address)!r} ({first[0][:200]}); start one with "
                    "`ray start --head`, or let bench start one with --ray local."
                ) from None
            try:
                yield
            finally:
                ray.shutdown()


def _knock(address: str) -> None:
    """Check that a gRPC server listens at the cluster's address; Ray would try for minutes, or wait forever.

    Raises:
        OSError: nothing listens, or the reply is missing or unexpected.
        OverflowError: there is no such port.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE) as line:
        # With TLS, the server waits for a handshake, which is left to Ray.
        if not env_flag("RAY_USE_TLS"):
            line.sendall(_PREFACE)
            frame = line.makefile("rb").read(4)
            # Each side of an HTTP/2 connection starts with a settings frame, which is type 4.
            if len(frame) < 4 or frame[3] != 4:
                raise OSError("what listens there is no cluster")


def _demand(cell: RunCell, nodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The resources of a task, by Ray's names, checked against those of the nodes.

    Raises:
        UsageError: no node has all of them, so that the task would wait forever.
    """
    demand = _usual(cell.models, nodes) | dict(cell.resources)
    if not _fits(demand, nodes):
        stated = ", ".join(f"{name} {value:g}" for name, value in demand.items())
        raise UsageError(
            f"{cell.label} needs {stated}, and no node of the cluster has that; `resources` of the method states it."
        )
    return demand


def _usual(models: bool, nodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The default resources of a task, with or without models."""
    if not models:
        return {"num_cpus": 1.0}
    if any(node.get("GPU", 0) >= 1 for node in nodes):
        return {"num_cpus": 1.0, "num_gpus": 1.0}
    largest = max((node.get("CPU", 0) for node in nodes), default=0)
    return {"num_cpus": float(max(1, min(_CORES_OF_A_MODEL, largest)))}


def _nodes() -> list[Mapping[str, float]]:
    """The resources of each live node."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _fits(demand: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> bool:
    """Whether a node has all resources of a task, free or not."""
    return any(all(node.get(_NAMES.get(name, name), 0) >= value for name, value in demand.items()) for node in nodes)


def _hopeless(waiting: Mapping[Any, int], demands: Mapping[int, Mapping[str, float]]) -> list[Any]:
    """Cancel tasks that no remaining node can run, and return them; Ray itself would wait forever."""
    import ray

    nodes = _nodes()
    hopeless = [reference for reference, number in waiting.items() if not _fits(demands[number], nodes)]
    for reference in hopeless:
        ray.cancel(reference, force=True)
    return hopeless


def _stays(cell: RunCell) -> bool:
    return cell.pays or cell.asks


def _beside(demand: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> int:
    """The number of such tasks that a node can run at a time."""
    return max(1, int(max(node.get("CPU", 0) for node in nodes) // max(demand["num_cpus"], 1)))


def _places(demand: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> int:
    """The number of such tasks that fit on an otherwise idle cluster."""
    names = {_NAMES.get(name, name): value for name, value in demand.items() if value > 0}
    return sum(int(min(node.get(name, 0) // value for name, value in names.items())) for node in nodes if names)


def _task(demand: Mapping[str, float]) -> Any:
    """The remote function, with the resources of a cell."""
    import ray

    return ray.remote(**task_options(demand, _RETRIES))(run_cell)


class _RayOutput(io.TextIOBase):
    """What Ray prints, as notes: the first line of each message."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def write(self, text: str) -> int:
        first = clean(text).strip().partition("\n")[0]
        if first:
            self._progress.note(f"Ray: {first[:300]}")
        return len(text)


def run_cell(cell: RunCell, dataset: Dataset, shards: Shards) -> Returned:
    """Run a cell on a node, in a temporary folder."""
    reports: list[Report] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, spread_by(shards):
        outcome = work(replace(cell, results=Path(folder)), Forwarding(reports.append), {cell.plan.dataset: dataset})
        # Progress bars of a node are not drawn: of its reports, only notes are sent back.
        notes = tuple(report.text for report in reports if report.verb == "note")
        if isinstance(outcome, BenchError):
            return Returned(outcome, notes)
        files = {path.name: path.read_bytes() for path in sorted(outcome.iterdir())}
    return Returned(files, notes)


def _fetch(reference: Any, cell: RunCell) -> Returned:
    """What a task returned; if Ray gave up on it, an error of the cell."""
    import ray

    try:
        returned: Returned = ray.get(reference)
    except ray.exceptions.RayError as error:
        lines = clean(str(error)).strip().splitlines() or [""]
        # The cause is in the last line of a traceback, but in the first sentence of Ray's own messages.
        said = lines[-1] if isinstance(error, ray.exceptions.RayTaskError) else lines[0]
        return Returned(
            MethodError(
                f"the cluster has no result of {cell.label} ({type(error).__name__}: {said.strip()[:300]}); the other "
                "cells are not affected, and the same command runs this one again."
            ),
            (),
        )
    return returned


def _store(cell: RunCell, returned: Returned, progress: Progress) -> Path | BenchError:
    """Store a result in its folder."""
    for line in returned.notes:
        progress.note(line)
    if isinstance(returned.outcome, BenchError):
        return returned.outcome
    # The id covers what a user's code has used, which is known only after the run.
    told = json.loads(returned.outcome[MANIFEST])["result_id"]
    folder = cell.folder.with_name(f"{cell.folder.name.rpartition('-')[0]}-{told}")
    try:
        with result_lock(cell.results, folder, progress):
            with replace_folder(folder) as fresh:
                for name, content in returned.outcome.items():
                    (fresh / name).write_bytes(content)
            forget(cell.folder.with_name(f".{cell.folder.name}.partial"))
        StoredResult.read(folder).verify()
    except BenchError as error:
        return error
    return folder
