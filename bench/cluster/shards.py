"""Large computations of a cell as tasks of a Ray cluster: encoding many texts, and vector search in large libraries.

A shard is computed in the same batches as the whole would be, so equal machines give equal numbers. The cell also works
on shards itself, so that it never waits for resources that it holds: it takes back shards that no node has started.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bench.base.config import Session, config_context
from bench.base.errors import BenchError, UnavailableError
from bench.base.progress import QUIET, Progress
from bench.evaluation.executors import thread_settings
from bench.models.cache import Row
from bench.models.shards import Index, Part, PartAnswer, RowModel

#: Number of further tries if a node dies with a shard.
_RETRIES = 3
#: A shard is taken back if none has finished for this many seconds, and for this multiple of a shard's local time.
_PATIENCE = 10.0
_PATIENCE_FACTOR = 3

#: Keeps the models of this process in memory from one shard to the next.
_LOADED: dict[Any, Any] = {}


def task_options(demand: Mapping[str, float], retries: int) -> dict[str, Any]:
    """The resources of a task, as arguments of `ray.remote`."""
    options: dict[str, Any] = {name: demand[name] for name in ("num_cpus", "num_gpus", "memory") if name in demand}
    options["resources"] = {name: value for name, value in demand.items() if name not in options}
    options["runtime_env"] = {"env_vars": thread_settings(max(1, int(demand["num_cpus"])))}
    return options | {"max_retries": retries}


@dataclass
class Shards:
    """Distributes the work of a cell over the nodes of the cluster; this process is one of its workers.

    Attributes:
        demand: the resources of a shard, by Ray's names, the same as those of the cell.
        ahead: number of shards given to nodes at a time; reduced after each failure.
        offline: as in `Session`.
        size: number of model inputs in a shard; by default, as many as encoders sort into batches at once.
        given: number of shards computed by other nodes so far.
    """

    demand: Mapping[str, float]
    ahead: int
    offline: bool
    size: int = 2048
    given: int = 0
    #: The last index searched, and its reference in the object store.
    _stored: tuple[Any, Any] | None = None

    def rows(self, model: RowModel, inputs: Mapping[bytes, Any], progress: Progress) -> Iterator[dict[bytes, Row]]:
        """As of `Spreader`."""
        again = model.again()
        if again is None or len(inputs) <= self.size or self.ahead < 1:
            yield from model.compute(dict(inputs), progress)
            return
        identity = model.identity
        # The order in which models sort their inputs; the longest shards come first and stay here.
        order = sorted(inputs, key=lambda key: (-_size(inputs[key]), key))
        shards = [
            {key: inputs[key] for key in order[start : start + self.size]} for start in range(0, len(order), self.size)
        ]
        with progress.stage("compute on the cluster", len(order), "inputs") as stage:
            for number, rows in self._share(
                compute_shard,
                lambda shard: (again, identity, shard, self.offline),
                lambda shard: _gather(model, shard),
                shards,
            ):
                yield rows
                stage.advance(len(shards[number]))

    def searched(
        self, search: Callable[[Index, Part], PartAnswer], index: Index, parts: Sequence[Part]
    ) -> list[PartAnswer]:
        """As of `Spreader`."""
        if len(parts) < 2 or self.ahead < 1:
            return [search(index, part) for part in parts]
        import ray

        if self._stored is None or self._stored[0] is not index:
            try:
                self._stored = (index, ray.put(index))
            except ray.exceptions.RayError:  # it does not fit into the store
                self.ahead = 0
                return [search(index, part) for part in parts]
        place = self._stored[1]
        answers: dict[int, PartAnswer] = dict(
            self._share(search_shard, lambda part: (search, place, part), lambda part: search(index, part), parts)
        )
        return [answers[number] for number in range(len(parts))]

    def _share(
        self,
        elsewhere: Callable[..., PartAnswer],
        arguments: Callable[[Part], tuple[Any, ...]],
        here: Callable[[Part], PartAnswer],
        parts: Sequence[Part],
    ) -> Iterator[tuple[int, PartAnswer]]:
        """Yield the answers to parts with their numbers as they arrive: the first parts run here, the last on nodes."""
        import ray

        task = ray.remote(**task_options(self.demand, _RETRIES))(elsewhere)
        waiting = deque(range(len(parts)))
        pending: dict[Any, int] = {}
        longest = 0.0
        try:
            while waiting or pending:
                while waiting and len(pending) < self.ahead:
                    number = waiting.pop()
                    pending[task.remote(*arguments(parts[number]))] = number
                mine = waiting.popleft() if waiting else None
                ready: list[Any] = []
                if pending:
                    patience = 0.0 if mine is not None else max(_PATIENCE, _PATIENCE_FACTOR * longest)
                    wanted = 1 if mine is None else len(pending)
                    ready, _ = ray.wait(list(pending), num_returns=wanted, timeout=patience)
                for reference in ready:
                    number = pending.pop(reference)
                    try:
                        outcome = ray.get(reference)
                    except (ray.exceptions.RayError, BenchError):
                        waiting.append(number)
                        self.ahead -= 1
                    else:
                        self.given += 1
                        yield number, outcome
                if mine is None and not ready and pending:
                    reference, mine = pending.popitem()
                    with suppress(ray.exceptions.RayError):
                        ray.cancel(reference)
                if mine is not None:
                    begun = time.monotonic()
                    answer = here(parts[mine])
                    longest = max(longest, time.monotonic() - begun)
                    yield mine, answer
        finally:
            for reference in pending:
                ray.cancel(reference)


def compute_shard(
    again: Callable[[], RowModel], identity: str, inputs: dict[bytes, Any], offline: bool
) -> dict[bytes, Row]:
    """Compute the rows of a shard on a node.

    Raises:
        UnavailableError: the model is missing on this node, or differs from the sender's.
    """
    with config_context(Session(offline, False, None, loaded=_LOADED)):
        model = again()
        if model.identity != identity:
            raise UnavailableError(f"the model {model.name} of this node is another one.")
        return _gather(model, inputs)


def search_shard(search: Callable[[Index, Part], PartAnswer], index: Index, part: Part) -> PartAnswer:
    """Search an index for a part of the queries on a node."""
    return search(index, part)


def _gather(model: RowModel, inputs: dict[bytes, Any]) -> dict[bytes, Row]:
    return {key: row for part in model.compute(inputs, QUIET) for key, row in part.items()}


def _size(given: Any) -> int:
    """The number of characters of an input: a text, or several that are read together."""
    return len(given) if isinstance(given, str) else sum(map(len, given))
