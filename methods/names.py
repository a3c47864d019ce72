"""Matches the query's words with the parts of tool names, and reads nothing else of a tool."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.interface import Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Contribution, Explanation, Reason, list_parts, number
from bench.search.lexical import WordCounts
from bench.search.names import name_parts, singular
from bench.search.topk import top_k

#: Shorter prefixes match by chance: `in`, `to`, `a`.
_LEAST_PREFIX = 3


class Names(Method):
    """Matches the query's words with the parts of tool names, as the tool search of many products does.

    A name is split at camelCase, underscores, hyphens and dots; plurals become singular (Harman's S stemmer). With P
    the distinct parts of a name and Q the distinct words of the query,

        score = Σ over P of match / sqrt(|P| · |Q|) + exact.

    `match` is 1 for a part that is a word of the query, `prefix` for a part that is a prefix of a query word or has one
    as its prefix (at least three letters, as in `repo` and `repository`), else 0: with whole words alone, the sum is
    the cosine of the two sets. `exact` is 1 if the query contains the whole name, that is, its parts in a row and in
    order; a single-part name must be the whole query, because `search` in a sentence does not name a tool. Tools
    without a matching part are not returned.
    """

    class Parameters(ParameterSet):
        prefix: float = Field(0.5, ge=0, le=1, description="score of a common prefix, relative to 1 for a whole word")

    parameters: Parameters

    def index(self, library: Library) -> None:
        import scipy.sparse as sp

        names = [_parts(tool.name) for tool in library.tools]
        counts = WordCounts.of([list(dict.fromkeys(parts)) for parts in names])
        self._vocabulary = counts.vocabulary
        self._sorted = sorted(counts.vocabulary)
        scale = 1 / np.sqrt(np.maximum(counts.lengths, 1.0))
        self._weights = sp.csr_matrix(sp.diags_array(scale) @ counts.matrix)
        self._whole: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for code, parts in enumerate(names):
            self._whole[tuple(parts)].append(code)
        self._lengths = sorted({len(parts) for parts in names} - {0, 1})

    def score(self, queries: Queries) -> NDArray[np.float64]:
        matches = np.zeros((len(queries), len(self._vocabulary)))
        split = [_parts(text) for text in queries.texts]
        for row, query_parts in enumerate(split):
            for part, match in self._matches(query_parts).items():
                matches[row, self._vocabulary[part]] = match / np.sqrt(len(set(query_parts)))
        scores: NDArray[np.float64] = (self._weights @ matches.T).T
        for row, query_parts in enumerate(split):
            scores[row, self._named(query_parts)] += 1
        return scores

    def _matches(self, query_parts: list[str]) -> dict[str, float]:
        """Part of a name -> how well it matches a word of the query; parts that do not match are missing."""
        matches: dict[str, float] = {}
        for word in dict.fromkeys(query_parts) if self.parameters.prefix else ():
            if len(word) < _LEAST_PREFIX:
                continue
            for end in range(_LEAST_PREFIX, len(word)):
                if word[:end] in self._vocabulary:
                    matches[word[:end]] = self.parameters.prefix
            place = bisect_left(self._sorted, word)
            while place < len(self._sorted) and self._sorted[place].startswith(word):
                matches[self._sorted[place]] = self.parameters.prefix
                place += 1
        matches.update({word: 1.0 for word in query_parts if word in self._vocabulary})
        return matches

    def _named(self, query_parts: list[str]) -> list[int]:
        """Codes of the tools whose whole name is in the query."""
        runs = {tuple(query_parts)} if query_parts else set()
        for length in self._lengths:
            runs.update(tuple(query_parts[start : start + length]) for start in range(len(query_parts) - length + 1))
        return sorted(code for run in runs for code in self._whole.get(run, ()))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        scores = self.score(queries)
        scores[scores == 0] = -np.inf
        return top_k(scores, depth)

    def explain(self, case: Case) -> Explanation:
        """What each matching part of a name adds, and the whole name."""
        query_parts = _parts(case.text)
        matches, named = self._matches(query_parts), set(self._named(query_parts))
        by_tool = {}
        for tool in case.tools:
            parts = list(dict.fromkeys(_parts(case.library.tools[tool].name)))
            scale = np.sqrt(max(1, len(parts)) * max(1, len(set(query_parts))))
            adds = [Contribution(part, float(matches[part] / scale)) for part in parts if part in matches]
            if tool in named:
                adds.append(Contribution("the whole name", 1.0))
            adds.sort(key=lambda part: -part.value)
            cells = (sum(part in matches for part in parts), len(parts))
            by_tool[tool] = Reason(sum(part.value for part in adds), tuple(adds), cells)
        reasons = {
            tool: replace(reason, because=_in_words(tool, case, by_tool)) if tool in case.gold else reason
            for tool, reason in by_tool.items()
        }
        return Explanation("parts of its name that the query has, and what each adds", ("matching", "parts"), reasons)


def _parts(text: str) -> list[str]:
    return [singular(part) for part in name_parts(text)]


def _in_words(tool: int, case: Case, reasons: dict[int, Reason]) -> str:
    """Why a gold tool does not rank higher."""
    parts = reasons[tool].parts
    has = f"the query has {list_parts(parts)} of its name" if parts else "the query has no part of its name"
    rival = case.rivals.get(tool)
    if rival is None:
        return has
    other = reasons[rival]
    return f"{has}; of {case.id_of(rival)} ({number(other.score or 0.0)}): {list_parts(other.parts)}"
