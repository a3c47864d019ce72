"""Tools that are easily confused: neighbours by the words of their texts, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from bench.evaluation.ask import ask_queries, prepare
from bench.interface import Library, Method, Queries
from bench.search.words import words

#: Maximum neighbours per tool.
MOST_NEAREST = 9


class Neighbours:
    """Finds the tools that share most words with a text, or with another tool.

    The method scores tools by words; it is a fresh instance that does not learn from past queries.

    Raises:
        MethodError: the method fails.
    """

    def __init__(self, library: Library, method: Method) -> None:
        self._library = library
        self._method = method
        prepare(method, library)

    def of_texts(self, texts: Sequence[str], count: int) -> list[list[int]]:
        """At most `count` tools for each text, nearest first."""
        return [list(nearest) for nearest in self._find(texts, count)]

    @cached_property
    def of_tools(self) -> list[list[int]]:
        """(tools,) at most `MOST_NEAREST` other tools for each tool of the library, nearest first."""
        return [[other for other in nearest if other != tool][:MOST_NEAREST] for tool, nearest in enumerate(self._own)]

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of tools that are each other's nearest neighbour; a tool is in at most one. The most similar come
        first.

        Tools whose names and descriptions have the same words do not form a pair, because no request separates them.
        """
        nearest = [row[0] if row else -1 for row in self.of_tools]
        mutual = [
            (tool, other)
            for tool, other in enumerate(nearest)
            if tool < other and nearest[other] == tool and not self._same_words(tool, other)
        ]
        return sorted(mutual, key=lambda pair: (-self._own[pair[0]][pair[1]], pair))

    def _same_words(self, tool: int, other: int) -> bool:
        first, second = (self._library.tools[code].text("name_description") for code in (tool, other))
        return Counter(words(first)) == Counter(words(second))

    @cached_property
    def _own(self) -> list[dict[int, float]]:
        """The search results for each tool's own text; the tool itself is usually among them."""
        return self._find(self._library.texts, MOST_NEAREST + 1)

    def _find(self, texts: Sequence[str], depth: int) -> list[dict[int, float]]:
        """(texts,) tool -> score, best first."""
        queries, size = Queries(tuple(texts), np.arange(len(texts))), len(self._library)
        ranking, _ = ask_queries(self._method, queries, size, min(depth, size), "looking for neighbours")
        scores = np.zeros(ranking.tools.shape) if ranking.scores is None else ranking.scores
        return [
            {int(tool): float(score) for tool, score in zip(tools, row, strict=True) if tool >= 0}
            for tools, row in zip(ranking.tools, scores, strict=True)
        ]
