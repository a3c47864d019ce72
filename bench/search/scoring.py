"""Methods that score every tool for a query: base classes, and how methods that wrap others recognise them."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from bench.interface.method import Method, Similarity
from bench.interface.ranking import Ranking
from bench.interface.views import Queries
from bench.search.dense import similarities
from bench.search.topk import top_k


class ScoringMethod(Method):
    """A method that scores every tool for a query, so that others can mix or smooth its scores.

    Write `index` and `score`; the ranking follows from the scores. Any method with a `score` counts as one, whatever
    its base class: `isinstance(method, ScoringMethod)`.

        class Loud(ScoringMethod):
            def index(self, library):
                self.loudness = np.array([text.count("!") for text in library.texts], dtype=np.float64)

            def score(self, queries):
                return np.tile(self.loudness, (len(queries), 1))
    """

    @abstractmethod
    def score(self, queries: Queries) -> NDArray[np.float64]:
        """(queries, tools) scores; higher is better, -inf leaves a tool out."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(self.score(queries), depth)

    @classmethod
    def __subclasshook__(cls, other: type, /) -> bool:
        return _has(other, "score") if cls is ScoringMethod else NotImplemented


class EmbeddingMethod(ScoringMethod):
    """A method whose scores are similarities of vectors.

    Write `index`, `tool_vectors` and `query_vectors`. Any method with both counts as one, whatever its base class.

    Attributes:
        similarity: `cosine`, `dot`, or the negated distance `l1` or `l2`.
    """

    similarity: Similarity = "cosine"

    @abstractmethod
    def tool_vectors(self) -> NDArray[np.float32]:
        """(tools, dimensions), in code order."""

    @abstractmethod
    def query_vectors(self, queries: Queries) -> NDArray[np.float32]:
        """(queries, dimensions)."""

    def score(self, queries: Queries) -> NDArray[np.float64]:
        return similarities(self.query_vectors(queries), self.tool_vectors(), self.similarity)

    @classmethod
    def __subclasshook__(cls, other: type, /) -> bool:
        return _has(other, "tool_vectors", "query_vectors") if cls is EmbeddingMethod else NotImplemented


def _has(kind: type, *members: str) -> bool:
    # By its bases and not by `issubclass`, which would ask the classes below `Method`, including these.
    return Method in kind.__mro__ and all(callable(getattr(kind, member, None)) for member in members)
