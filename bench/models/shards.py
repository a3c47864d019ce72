"""Where the inputs of a model are computed: here, or in part by other processes and machines.

What spreads the work (`bench.evaluation.cluster`) enters itself for a block. It is a context variable of its own and
no part of a session, because threads that a method starts compute what they need themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.progress import Progress

if TYPE_CHECKING:
    from bench.models.cache import CachedModel


class Spreader(Protocol):
    """Computes rows of a model on several machines."""

    def rows(
        self, model: CachedModel[Any], inputs: Mapping[bytes, Any], progress: Progress
    ) -> Iterator[dict[bytes, NDArray[np.float32]]]:
        """The rows of all inputs by their keys, part by part; what nobody else computes, the model does."""
        ...


_ACTIVE: ContextVar[Spreader | None] = ContextVar("bench_spreader", default=None)


def active_spreader() -> Spreader | None:
    """What spreads the work of models here, if anything."""
    return _ACTIVE.get()


@contextmanager
def spread_by(spreader: Spreader) -> Iterator[None]:
    """Let models spread their work for a block."""
    token = _ACTIVE.set(spreader)
    try:
        yield
    finally:
        _ACTIVE.reset(token)
