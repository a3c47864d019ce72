"""A cluster of Ray on this machine, for tests of `--ray`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
STARTS = Path(__file__).with_name("raystarts.py")
#: Workers find bench and the tests, and ask no network; none is started before there is something to do, nor ended
#: because it has nothing to do for a second: another takes three to begin.
VARIABLES = {
    "BENCH_OFFLINE": "1",
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests"))),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_idle_worker_killing_time_threshold_ms": "600000",
    "RAY_prestart_worker_first_driver": "0",
}


@contextmanager
def lean() -> Iterator[None]:
    """Nodes that start in the block do without those of Ray's helpers that no task needs.

    Those are the log monitor, the autoscaler and the dashboard. Each takes a second of a core to start, as does what
    Ray runs before each worker; `raystarts` does that, and stands for the dashboard's agent, which a node must have.
    """
    from ray._private import services
    from ray._private.node import Node

    start = services.start_ray_process
    ray = Path(services.RAY_PATH)
    replaced = [str(ray / place) for place in ("_private/workers/setup_worker.py", "dashboard/agent.py")]

    def light(command: list[str], process_type: str, **options: Any) -> Any:
        if process_type == "raylet":
            for program in replaced:
                assert any(program in word for word in command), f"Ray's nodes start no {program} any more"
                command = [word.replace(program, str(STARTS)) for word in command]
        return start(command, process_type, **options)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("start_log_monitor", "start_monitor", "start_api_server"):
            patch.setattr(Node, name, lambda self, **_: None)
        patch.setattr(services, "start_ray_process", light)
        yield


@contextmanager
def cluster(shared_cache: Path, *nodes: dict[str, float]) -> Iterator[Cluster]:
    """A cluster of Ray with a node of each size."""
    made = Cluster(shared_cache)
    try:
        for node in nodes:
            made.add(node)
        yield made
    finally:
        made.shutdown()


class Cluster:
    """A cluster whose nodes can be lost, without those of Ray's helpers that no task needs."""

    def __init__(self, shared_cache: Path) -> None:
        from ray import cluster_utils

        self._cluster = cluster_utils.Cluster()
        self._variables = VARIABLES | {"BENCH_CACHE": str(shared_cache)}

    @property
    def address(self) -> str:
        """As `--ray` takes it."""
        return str(self._cluster.address)

    def add(self, size: dict[str, float]) -> None:
        """Start a node; `size` in the names of `ray.nodes()`."""
        with pytest.MonkeyPatch.context() as patch, lean():
            for name, value in self._variables.items():
                patch.setenv(name, value)
            # Workers begin where their node did.
            patch.chdir(ROOT)
            self._cluster.add_node(
                num_cpus=size["CPU"],
                resources={name: value for name, value in size.items() if name != "CPU"},
                object_store_memory=80_000_000,
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
