"""Where large work is done: in this process, or in part by other processes and machines.

What spreads the work (`bench.cluster.shards`) enters itself for a block. It is a context variable of its own and
no part of a session, because threads that a method starts do their work themselves.
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
    """What gives rows of numbers for inputs: a `CachedModel`, as far as a spreader needs it."""

    name: str

    @property
    def identity(self) -> str:
        """All that a row depends on besides the input."""
        ...

    def again(self) -> Callable[[], RowModel] | None:
        """What makes the same model in another process, to be pickled; None if it is computed in this one only."""
        ...

    def compute(self, missing: dict[bytes, Any], progress: Progress) -> Iterator[dict[bytes, NDArray[np.float32]]]:
        """The rows of inputs, computed here, part by part."""
        ...


class Spreader(Protocol):
    """Shares work among machines; what nobody else does is done here."""

    def rows(
        self, model: RowModel, inputs: Mapping[bytes, Any], progress: Progress
    ) -> Iterator[dict[bytes, NDArray[np.float32]]]:
        """The rows of a model for all inputs, by their keys, part by part."""
        ...

    def searched(
        self, search: Callable[[Index, Part], PartAnswer], index: Index, parts: Sequence[Part]
    ) -> list[PartAnswer]:
        """The answers of an index to each part of the queries, in their order.

        Args:
            search: a function of a module, or a partial one, to be pickled; as is all that follows.
            index: goes to each machine once.
            parts: the queries.
        """
        ...


_ACTIVE: ContextVar[Spreader | None] = ContextVar("bench_spreader", default=None)


def active_spreader() -> Spreader | None:
    """What spreads large work here, if anything."""
    return _ACTIVE.get()


@contextmanager
def spread_by(spreader: Spreader) -> Iterator[None]:
    """Let models and searches spread their work for a block."""
    token = _ACTIVE.set(spreader)
    try:
        yield
    finally:
        _ACTIVE.reset(token)
