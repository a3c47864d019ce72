"""The inputs of a cell's models as tasks of a Ray cluster: an encoding of many texts is shared among the nodes.

A shard is computed as the whole would be, in the same batches, so equal machines give equal vectors. The cell computes
shards itself, too. So it never waits for resources that it holds: what no node has begun, it takes back.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.errors import BenchError, UnavailableError
from bench.evaluation.executors import thread_settings
from bench.models.cache import CachedModel, Row
from bench.progress import QUIET, Progress
from bench.session import Session, session

#: Another node is tried so often when one dies with a shard.
_RETRIES = 3
#: A shard is taken back when none has ended for so many seconds, and for so many times as long as one takes here.
_PATIENCE = 10.0
_PATIENCE_FACTOR = 3

#: Keeps the models of this process in memory from one shard to the next.
_LOADED: dict[Any, Any] = {}


def task_options(asked: Mapping[str, float], retries: int) -> dict[str, Any]:
    """What a task takes, as the arguments of `ray.remote`."""
    options: dict[str, Any] = {name: asked[name] for name in ("num_cpus", "num_gpus", "memory") if name in asked}
    options["resources"] = {name: value for name, value in asked.items() if name not in options}
    options["runtime_env"] = {"env_vars": thread_settings(max(1, int(asked["num_cpus"])))}
    return options | {"max_retries": retries}


@dataclass
class Shards:
    """Spreads the inputs of models over the nodes of the cluster that this process is a worker of.

    Attributes:
        asked: what a shard takes, in Ray's names: as much as the cell.
        ahead: shards that are given away at a time.
        offline: as of `Session`.
        size: inputs in a shard; by default what encoders sort into batches at once.
        given: shards that others computed, so far.
    """

    asked: Mapping[str, float]
    ahead: int
    offline: bool
    size: int = 2048
    given: int = 0

    def rows(
        self, model: CachedModel[Any], inputs: Mapping[bytes, Any], progress: Progress
    ) -> Iterator[dict[bytes, Row]]:
        """As of `Spreader`."""
        again = model.again()
        if again is None or len(inputs) <= self.size or self.ahead < 1:
            yield from model.compute(dict(inputs), progress)
            return
        import ray

        # The order in which models sort what they compute; the longest shards come first and stay here.
        order = sorted(inputs, key=lambda key: (-_size(inputs[key]), key))
        shards = deque(
            {key: inputs[key] for key in order[start : start + self.size]} for start in range(0, len(order), self.size)
        )
        pending: dict[Any, dict[bytes, Any]] = {}
        longest = 0.0
        try:
            with progress.stage("compute on the cluster", len(order), "inputs") as stage:
                while shards or pending:
                    while shards and len(pending) < self.ahead:
                        shard = shards.pop()
                        pending[self._task.remote(again, model.identity, shard, self.offline)] = shard
                    mine = shards.popleft() if shards else None
                    waits = 0.0 if mine else max(_PATIENCE, _PATIENCE_FACTOR * longest)
                    ready: list[Any] = []
                    if pending:
                        ready, _ = ray.wait(list(pending), num_returns=len(pending) if mine else 1, timeout=waits)
                    for reference in ready:
                        shard = pending.pop(reference)
                        found = _answer(reference)
                        if found is None:
                            shards.append(shard)
                            self.ahead -= 1
                            continue
                        self.given += 1
                        yield found
                        stage.advance(len(shard))
                    if mine is None and not ready and pending:
                        reference, mine = pending.popitem()
                        with suppress(ray.exceptions.RayError):
                            ray.cancel(reference)
                    if mine:
                        begun = time.monotonic()
                        yield from model.compute(mine, QUIET)
                        longest = max(longest, time.monotonic() - begun)
                        stage.advance(len(mine))
        finally:
            for reference in pending:
                ray.cancel(reference)

    @cached_property
    def _task(self) -> Any:
        import ray

        return ray.remote(**task_options(self.asked, _RETRIES))(compute_shard)


def compute_shard(
    again: Callable[[], CachedModel[Any]], identity: str, inputs: dict[bytes, Any], offline: bool
) -> dict[bytes, Row]:
    """The rows of a shard, computed by a node.

    Raises:
        UnavailableError: the model is missing on this node, or another one than where the shard comes from.
    """
    above = Session(offline, False, None, loaded=_LOADED)
    with session(above):
        model = again()
        if model.identity != identity:
            raise UnavailableError(f"the model {model.name} of this node is another one.")
        return {key: row for part in model.compute(inputs, QUIET) for key, row in part.items()}


def _answer(reference: Any) -> dict[bytes, Row] | None:
    """The rows that a task returned; None if it failed, so that its shard is computed here."""
    import ray

    try:
        found: dict[bytes, Row] = ray.get(reference)
    except (ray.exceptions.RayError, BenchError):
        return None
    return found


def _size(given: Any) -> int:
    """Characters of an input, a text or several that are read together."""
    return len(given) if isinstance(given, str) else sum(map(len, given))
