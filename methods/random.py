"""A random order: the lower bound."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.config import repeat_seed
from bench.base.parameters import ParameterSet
from bench.interface import Library, Method, Queries, Ranking


class Random(Method):
    """A uniformly random order that depends only on the seed, the query text and the tool ids.

    Each repeat of a run has its own order.
    """

    class Parameters(ParameterSet):
        seed: int = Field(0, description="random seed")

    parameters: Parameters
    is_floor = True
    has_chance = True

    def index(self, library: Library) -> None:
        self._seed = ".".join(map(str, repeat_seed(self.parameters.seed)))
        self._tools = np.array([_number(tool.tool_id) for tool in library.tools], dtype=np.uint64)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        keys = np.array([_number(f"{self._seed}:{text}") for text in queries.texts], dtype=np.uint64)
        width = min(depth, len(self._tools))
        ranked = np.empty((len(keys), width), dtype=np.int32)
        for row, key in enumerate(keys):
            draws = _mixed(key ^ self._tools)
            first = np.arange(len(draws))
            if width < len(draws):
                # Equal draws would stay in the order of the codes, as in a stable sort of all.
                first = np.flatnonzero(draws <= np.partition(draws, width - 1)[width - 1])
            ranked[row] = first[np.argsort(draws[first], kind="stable")[:width]]
        return Ranking(ranked)


def _number(text: str) -> int:
    """64 bits of the text's sha256."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele et al. 2014): well-spread bits from any 64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
