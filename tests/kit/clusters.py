"""Where tests of `--ray` run: a cluster of Ray on this machine, or a stand-in for Ray that needs none.

With the stand-in, each task is a process forked from this one, on nodes that are only a size. It knows what
`bench.evaluation.cluster` and `.shards` call. What they do is tried with it in no time; on a cluster, that Ray does as
it does.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from multiprocessing import connection, get_context
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Workers find bench and the tests, and ask no network; none is started before there is something to do.
VARIABLES = {
    "BENCH_OFFLINE": "1",
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests"))),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}
_FORK = get_context("fork")
_NAMES = {"num_cpus": "CPU", "num_gpus": "GPU"}


@contextmanager
def cluster(shared_cache: Path, *nodes: dict[str, float]) -> Iterator[RealCluster]:
    """A cluster of Ray with a node of each size."""
    made = RealCluster(shared_cache)
    try:
        for node in nodes:
            made.add(node)
        yield made
    finally:
        made.shutdown()


class RealCluster:
    """A cluster whose nodes can be lost, without those of Ray's helpers that no task needs."""

    def __init__(self, shared_cache: Path) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster()
        self._variables = VARIABLES | {"BENCH_CACHE": str(shared_cache)}

    @property
    def address(self) -> str:
        """As `--ray` takes it."""
        return str(self._cluster.address)

    def add(self, size: dict[str, float]) -> None:
        """Start a node; `size` in the names of `ray.nodes()`."""
        first = self._cluster.head_node is None
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._variables.items():
                patch.setenv(name, value)
            # Workers begin where their node did.
            patch.chdir(ROOT)
            self._cluster.add_node(
                num_cpus=size["CPU"],
                resources={name: value for name, value in size.items() if name != "CPU"},
                object_store_memory=80_000_000,
                include_log_monitor=False,
                **({"include_dashboard": False, "no_monitor": True} if first else {}),
            )

    def lose(self, worker: int) -> None:
        """Kill the node that a process works on."""
        raylet = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
        (node,) = [node for node in self._cluster.worker_nodes if node.all_processes["raylet"][0].process.pid == raylet]
        self._cluster.remove_node(node, allow_graceful=False)

    def lose_all(self, resource: str) -> None:
        """Kill all nodes that have a resource."""
        for node in self.having(resource):
            self._cluster.remove_node(node, allow_graceful=False)

    def having(self, resource: str) -> list[Any]:
        """The nodes that have a resource."""
        nodes = list(self._cluster.worker_nodes)
        return [node for node in nodes if resource in node.get_resource_and_label_spec().resources]

    def shutdown(self) -> None:
        """End it."""
        self._cluster.shutdown()


class RayError(Exception):
    """Something that Ray reports."""


class Task:
    """A call in a process of its own; or one that waits for a node."""

    def __init__(self, ray: StandIn, call: bytes, options: dict[str, Any]) -> None:
        self.ray = ray
        self.call = call
        self.retries = options["max_retries"]
        self.asked = {_NAMES.get(name, name): value for name, value in options["resources"].items()}
        self.asked |= {_NAMES[name]: options[name] for name in _NAMES if name in options}
        self.variables = options["runtime_env"]["env_vars"]
        self.outcome: tuple[bool, Any] | None = None
        self.start()

    def start(self) -> None:
        """Start where there is a node that is large enough."""
        fitting = (n for n in self.ray.sizes if all(n.get(name, 0) >= value for name, value in self.asked.items()))
        self.node = next(fitting, None)
        self.process = None
        if self.node is not None:
            self.answer, sender = _FORK.Pipe(duplex=False)
            self.process = _FORK.Process(target=_work, args=(self.call, self.variables, sender))
            self.process.start()
            sender.close()

    def ended(self) -> bool:
        """Whether there is an outcome; a process that died is started again if it may."""
        if self.outcome is None and self.process is not None and self.answer.poll():
            try:
                self.outcome = self.answer.recv()
            except EOFError:
                self.retries -= 1
                if self.retries >= 0:
                    self.start()
                else:
                    self.outcome = (False, self.ray.exceptions.WorkerCrashedError("the worker died"))
        return self.outcome is not None

    def kill(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()


def _work(call: bytes, variables: dict[str, str], sender: connection.Connection) -> None:
    os.environ.update(variables)
    function, arguments = pickle.loads(call)
    try:
        sender.send((True, function(*arguments)))
    except Exception as error:
        sender.send((False, error))


class StandIn(ModuleType):
    """The module `ray`, for nodes of these sizes."""

    def __init__(self, *sizes: dict[str, float]) -> None:
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None, origin="a stand-in")
        kinds = ("RayTaskError", "WorkerCrashedError", "TaskCancelledError", "ObjectStoreFullError")
        self.exceptions = SimpleNamespace(RayError=RayError, **{name: type(name, (RayError,), {}) for name in kinds})
        self.address = "stand-in"
        self.sizes = [dict(size) for size in sizes]
        self.tasks: list[Task] = []

    def lose(self, worker: int) -> None:
        """End the node that a process works on; its tasks go to others."""
        self._end([task.node for task in self.tasks if task.process is not None and task.process.pid == worker])

    def lose_all(self, resource: str) -> None:
        """End all nodes that have a resource."""
        self._end([node for node in self.sizes if resource in node])

    def _end(self, nodes: Sequence[dict[str, float] | None]) -> None:
        gone = set(map(id, nodes))
        self.sizes = [size for size in self.sizes if id(size) not in gone]
        for task in self.tasks:
            if id(task.node) in gone:
                task.kill()

    def init(self, **options: object) -> None:
        """Nothing is there to be joined."""

    def shutdown(self) -> None:
        """Leave no process behind."""
        for task in self.tasks:
            task.kill()

    def nodes(self) -> list[dict[str, Any]]:
        """As Ray tells them."""
        return [{"Alive": True, "Resources": size} for size in self.sizes]

    def put(self, value: Any) -> SimpleNamespace:
        """Nothing is sent anywhere."""
        return SimpleNamespace(stored=value)

    def remote(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        """What starts a function as tasks."""

        def task(function: Callable[..., Any], *arguments: Any) -> Task:
            values = [each.stored if isinstance(each, SimpleNamespace) else each for each in arguments]
            self.tasks.append(Task(self, pickle.dumps((function, values)), options))
            return self.tasks[-1]

        return lambda function: SimpleNamespace(remote=lambda *arguments: task(function, *arguments))

    def wait(self, tasks: Sequence[Task], *, num_returns: int, timeout: float) -> tuple[list[Task], list[Task]]:
        """Those that have ended, at most so many, and the others."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0 and sum(task.ended() for task in tasks) < num_returns:
            connection.wait([task.answer for task in tasks if task.process and not task.outcome], min(left, 0.05))
        ready = [task for task in tasks if task.ended()][:num_returns]
        return ready, [task for task in tasks if task not in ready]

    def get(self, task: Task) -> Any:
        """What a task returned."""
        assert task.outcome is not None
        well, answer = task.outcome
        if well:
            return answer
        raise answer if isinstance(answer, RayError) else self.exceptions.RayTaskError(str(answer))

    def cancel(self, task: Task, force: bool = False) -> None:
        """End a task that has not ended."""
        if task.outcome is None:
            task.outcome = (False, self.exceptions.TaskCancelledError("cancelled"))
            task.kill()


@contextmanager
def stand_in(*sizes: dict[str, float]) -> Iterator[StandIn]:
    """The stand-in in place of Ray."""
    with pytest.MonkeyPatch.context() as patch:
        made = StandIn(*sizes)
        patch.setitem(sys.modules, "ray", made)
        try:
            yield made
        finally:
            made.shutdown()
