"""A method that remembers what the runner gave it. Tests get it emptied by the fixture `forget`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pytest

from bench.interface import History, Library, Method, Queries, Ranking
from bench.search.topk import top_k


class Watched(Method):
    """Remembers everything that any instance was given. Ranks by code."""

    calls: ClassVar[list[tuple[str, object]]] = []

    def fit(self, history: History) -> None:
        self.calls.append(("fit", history))

    def index(self, library: Library) -> None:
        self._size = len(library)
        self.calls.append(("index", library))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self.calls.append(("rank", queries))
        return top_k(np.tile(-np.arange(self._size, dtype=np.float64), (len(queries), 1)), depth)


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Empty what was remembered, before a test and after it."""
    Watched.calls.clear()
    yield
    Watched.calls.clear()


def given(what: str) -> list[object]:
    """What was given to `fit`, `index` or `rank`, in order."""
    return [value for name, value in Watched.calls if name == what]
