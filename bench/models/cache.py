"""Base class of models with a cache by content: rows are looked up, or computed, stored, counted and timed."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.base.config import Session, bound_session
from bench.base.errors import UnavailableError
from bench.base.progress import QUIET, Progress
from bench.models.shards import active_spreader
from bench.models.vectorcache import VectorCache

Input = TypeVar("Input")
Loaded = TypeVar("Loaded")
Row = NDArray[np.float32]

# Libraries that read models change global settings meanwhile: one at a time, in whatever session.
_LOADING = threading.Lock()


class CachedModel(ABC, Generic[Input]):
    """Turns inputs into rows of numbers, through the cache.

    While latencies are measured (`bench.base.config.time_without_cache`), a loaded model does not use the cache, and
    nothing is counted.

    Attributes:
        name: its name in errors.
        from_cache, computed: number of different inputs so far.
    """

    #: True if a call costs money: then numbers are stored with or without the cache, and never computed for a timing.
    paid: bool = False

    def __init__(self, name: str, *, progress: Progress = QUIET) -> None:
        self.name = name
        self.progress = progress
        self.from_cache = 0
        self.computed = 0
        self._cache: VectorCache | None = None
        self._session = bound_session()

    @property
    @abstractmethod
    def identity(self) -> str:
        """Everything that a row depends on besides the input: the name of the cache file."""

    @property
    def loaded(self) -> bool:
        """Whether it can compute at once, at no cost but time."""
        return False

    def again(self) -> Callable[[], CachedModel[Input]] | None:
        """A picklable recipe for the same model in another process; None if it is only computed in this one."""
        return None

    def compute(self, missing: dict[bytes, Input], progress: Progress) -> Iterator[dict[bytes, Row]]:
        """The rows of inputs, computed here, part by part."""
        return self._compute(missing, progress)

    @abstractmethod
    def _key(self, given: Input) -> bytes:
        """32 bytes that identify an input."""

    @abstractmethod
    def _compute(self, missing: dict[bytes, Input], progress: Progress) -> Iterator[dict[bytes, Row]]:
        """The rows of inputs, part by part; each part is stored before the next is computed."""

    def _rows(self, inputs: Sequence[Input]) -> list[Row]:
        """A row for each input; equal inputs are computed once.

        Raises:
            UnavailableError: the model cannot be loaded or called; or it costs money while latencies are measured.
        """
        session = self._session()
        keys = [self._key(given) for given in inputs]
        wanted = dict(zip(keys, inputs, strict=True))
        if session.timing is not None and self.loaded:
            rows = {key: row for part in self._compute(wanted, QUIET) for key, row in part.items()}
            return [rows[key] for key in keys]
        keep = self.paid or session.cache
        rows = self._open_cache().get(keys) if keep else {}
        missing = {key: given for key, given in wanted.items() if key not in rows}
        if session.timing is None:
            self.from_cache += len(wanted) - len(missing)
            self.computed += len(missing)
        else:
            session.timing.cached = session.timing.cached or bool(rows)
            if missing and self.paid:
                raise UnavailableError(
                    f"{self.name} has not encoded {len(missing)} of the texts, and timing must not spend money."
                )
        if missing:
            spreader = active_spreader() if session.timing is None else None
            parts = spreader.rows(self, missing, self.progress) if spreader else self._compute(missing, self.progress)
            for part in parts:
                if keep:
                    self._open_cache().put(part)
                rows.update(part)
        return [rows[key] for key in keys]

    def _open_cache(self) -> VectorCache:
        if self._cache is None:
            self._cache = VectorCache(self.identity)
        return self._cache


def load_once(session: Session, key: Hashable, load: Callable[[], Loaded]) -> Loaded:
    """A model in memory, loaded once per session however many objects use it."""
    if key not in session.loaded:
        with _LOADING:
            # Another thread may have loaded it meanwhile.
            if key not in session.loaded:
                session.loaded[key] = load()
    model: Loaded = session.loaded[key]
    return model


def token_batches(lengths: Sequence[int] | NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Positions of texts, longest first, in batches of at most `budget` tokens when padded to their longest.

    Texts of similar length are together, so little padding is computed. A text longer than the budget is a batch of its
    own. Texts of equal length keep their order.

    Args:
        lengths: tokens of each text.
        budget: at least 1.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        end = start + max(1, budget // longest)
        batches.append(order[start:end])
        start = end
    return batches
