"""Models whose numbers are cached by content: looked up, else computed, kept, counted and timed, the same for all."""

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

# The readers of models change settings of their libraries while they read: one at a time, in whatever session.
_LOADING = threading.Lock()


class CachedModel(ABC, Generic[Input]):
    """Turns inputs into rows of numbers, through the cache.

    While latencies are measured (`bench.base.config.uncached_queries`), a loaded model does not use the cache, and
    nothing is counted.

    Attributes:
        name: what errors call it.
        from_cache, computed: different inputs so far.
    """

    #: True when a call costs money: then numbers are kept with or without the cache, and never computed for a timing.
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
        """All that a row depends on besides the input: it names the file of the cache."""

    @property
    def loaded(self) -> bool:
        """Whether it can compute at once, at no cost but time."""
        return False

    def again(self) -> Callable[[], CachedModel[Input]] | None:
        """What makes the same model in another process, to be pickled; None if it is computed in this one only."""
        return None

    def compute(self, missing: dict[bytes, Input], progress: Progress) -> Iterator[dict[bytes, Row]]:
        """The rows of inputs, computed here, part by part."""
        return self._compute(missing, progress)

    @abstractmethod
    def _key(self, given: Input) -> bytes:
        """32 bytes that tell inputs apart."""

    @abstractmethod
    def _compute(self, missing: dict[bytes, Input], progress: Progress) -> Iterator[dict[bytes, Row]]:
        """The rows of inputs, part by part; each part is kept before the next is computed."""

    def _rows(self, inputs: Sequence[Input]) -> list[Row]:
        """A row for each input; equal inputs are one.

        Raises:
            UnavailableError: the model cannot be loaded or asked; or it costs money, and latencies are measured.
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
                    f"{self.name} has not encoded {len(missing)} of the texts; timing spends no money."
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
    """A model in memory, loaded once in a session however many objects use it."""
    if key not in session.loaded:
        with _LOADING:
            # Another thread may have loaded it meanwhile.
            if key not in session.loaded:
                session.loaded[key] = load()
    model: Loaded = session.loaded[key]
    return model


def token_batches(lengths: Sequence[int] | NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Positions of texts, longest first, in batches of at most `budget` tokens once padded to their longest.

    Texts of about the same length are together, so that hardly any padding is computed. A text longer than the
    budget is a batch of its own. Texts of equal length keep their order.

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
