"""Where large work is done: in this process, or partly in other processes and machines.

A spreader (`bench.cluster.shards`) enters itself for a block. It has its own context variable and is not part of a
session, because threads that a method starts do their work themselves. Models and searches call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.base.progress import Progress

Index = TypeVar("Index")
Part = TypeVar("Part")
PartAnswer = TypeVar("PartAnswer")


class RowModel(Protocol):
    """Anything that returns rows of numbers for inputs: the part of a `CachedModel` that a spreader needs."""

    name: str

    @property
    def identity(self) -> str:
        """Everything that a row depends on besides the input."""
        ...

    def again(self) -> Callable[[], RowModel] | None:
        """A picklable recipe for the same model in another process; None if it is only computed in this one."""
        ...

    def compute(self, missing: dict[bytes, Any], progress: Progress) -> Iterator[dict[bytes, NDArray[np.float32]]]:
        """The rows of inputs, computed here, part by part."""
        ...


class Spreader(Protocol):
    """Distributes work among machines; what no other machine does is done here."""

    def rows(
        self, model: RowModel, inputs: Mapping[bytes, Any], progress: Progress
    ) -> Iterator[dict[bytes, NDArray[np.float32]]]:
        """The rows of a model for all inputs, by their keys, part by part."""
        ...

    def searched(
        self, search: Callable[[Index, Part], PartAnswer], index: Index, parts: Sequence[Part]
    ) -> list[PartAnswer]:
        """The answers of an index to each part of the queries, in order.

        Args:
            search: a function of a module, or a partial one; this and the following are pickled.
            index: sent to each machine once.
            parts: the queries.
        """
        ...


_ACTIVE: ContextVar[Spreader | None] = ContextVar("bench_spreader", default=None)


def active_spreader() -> Spreader | None:
    """The active spreader, if there is one."""
    return _ACTIVE.get()


@contextmanager
def spread_by(spreader: Spreader) -> Iterator[None]:
    """Let models and searches spread their work for a block."""
    token = _ACTIVE.set(spreader)
    try:
        yield
    finally:
        _ACTIVE.reset(token)
