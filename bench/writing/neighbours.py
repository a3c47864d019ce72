"""Tools that are easily confused: neighbours by the words of their texts, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from bench.evaluation.guard import method_errors
from bench.evaluation.tune import rank_in_batches
from bench.protocol import Library, Method, Queries, Ranking
from bench.search.words import words

#: Neighbours of a tool that are known.
MOST_NEAREST = 9


class Neighbours:
    """Finds the tools that share most words with a text, or with another tool.

    Args:
        library: the tools.
        method: ranks tools by words; a fresh instance that learns from no past queries.

    Raises:
        MethodError: the method fails.
    """

    def __init__(self, library: Library, method: Method) -> None:
        self._library = library
        self._method = method
        with method_errors(method, "indexing the library"):
            method.index(library)

    def of_texts(self, texts: Sequence[str], count: int) -> list[list[int]]:
        """At most `count` tools for each text, nearest first."""
        return [[int(tool) for tool in row if tool >= 0] for row in self._ranked(texts, count).tools]

    @cached_property
    def of_tools(self) -> list[list[int]]:
        """(tools,) at most `MOST_NEAREST` other tools for each tool of the library, nearest first."""
        return [
            [other for other in row if other not in {tool, -1}][:MOST_NEAREST]
            for tool, row in enumerate(self._own.tools.tolist())
        ]

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of tools that are each other's nearest neighbour; a tool is in one at most. The most alike come first.

        Tools whose texts have the same words are no pair: no request tells them apart.
        """
        nearest = [row[0] if row else -1 for row in self.of_tools]
        mutual = [
            (tool, other)
            for tool, other in enumerate(nearest)
            if tool < other and nearest[other] == tool and not self._same_words(tool, other)
        ]
        return sorted(mutual, key=lambda pair: (-self._likeness(*pair), pair))

    def _likeness(self, tool: int, other: int) -> float:
        found = self._own
        place = found.tools[tool].tolist().index(other)
        return 0.0 if found.scores is None else float(found.scores[tool, place])

    def _same_words(self, tool: int, other: int) -> bool:
        texts = self._library.texts
        return Counter(words(texts[tool])) == Counter(words(texts[other]))

    @cached_property
    def _own(self) -> Ranking:
        """What each tool's own text finds; the tool itself is usually among it."""
        return self._ranked(self._library.texts, MOST_NEAREST + 1)

    def _ranked(self, texts: Sequence[str], depth: int) -> Ranking:
        queries = Queries(tuple(texts), np.arange(len(texts)))
        depth = min(depth, len(self._library))
        with method_errors(self._method, "looking for neighbours"):
            return rank_in_batches(self._method, queries, depth, len(self._library))
