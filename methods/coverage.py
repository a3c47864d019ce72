"""Adds tools until they cover the words of the query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.interface import Context, History, Library, Method, Queries, Ranking, ToolSets
from bench.interface.explanation import Case, Explanation, Reason, number
from bench.search.lexical import WordCounts
from bench.search.words import words


class Coverage(Method):
    """Adds tools until their texts cover the words of the query: the greedy algorithm for weighted set cover.

    The distinct query words in a tool's text have the weight ln(1 + (N - df + 0.5) / (df + 0.5)), the IDF of `bm25`.
    Each step adds the tool with the greatest weight of words that no earlier tool has; of equals, the first by `base`.
    The steps end when the tools cover `share` of the weight: they form the recommended set, and the ranking begins with
    them. All other tools from `base` follow in its order. A query that shares no word with any tool has an empty set.
    Of 0.3, 0.4, 0.5, 0.6, 0.8 and 1, the default of `share` has the best F1 on past queries of starter, metatool and
    rectools.

    The greedy cover weighs at least 1 - (1 - 1/k)^k of the heaviest that k tools can have (Nemhauser, Wolsey & Fisher
    1978). The order has no scores: what a tool adds depends on the tools before it.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("bm25"), description="method that breaks ties and orders the other tools")
        share: float = Field(0.8, gt=0, le=1, description="share of the query's weight at which the set is complete")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._base = context.build(parameters.base)

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._size = len(library)
        self._base.index(library)
        counts = WordCounts.of([words(text) for text in library.texts])
        self._vocabulary = counts.vocabulary
        self._columns = counts.matrix.tocsc()
        df = counts.document_frequency
        self._idf = np.log1p((len(library) - df + 0.5) / (df + 0.5))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        ranking, covers = self._covered(queries)
        rows = []
        for ranked, cover in zip(ranking.tools, covers, strict=True):
            chosen = list(cover)
            rest = [int(tool) for tool in ranked if tool >= 0 and int(tool) not in cover]
            rows.append((chosen + rest)[:depth])
        failed = np.zeros(len(queries), dtype=np.bool_) if ranking.failed is None else ranking.failed
        return Ranking.of_lists(rows, failed.tolist())

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([list(cover) for cover in self._covered(queries)[1]])

    def _covered(self, queries: Queries) -> tuple[Ranking, list[dict[int, list[str]]]]:
        """The base's ranking of the library, and for each query the tools of the set with the words that each adds."""
        ranking = self._base.rank(queries, self._size)
        return ranking, [self._cover(text, ranking.tools[row]) for row, text in enumerate(queries.texts)]

    def _cover(self, text: str, ranked: NDArray[np.int32]) -> dict[int, list[str]]:
        query_words = [word for word in dict.fromkeys(words(text)) if word in self._vocabulary]
        columns = np.array([self._vocabulary[word] for word in query_words], dtype=np.int64)
        weights = self._idf[columns]
        contained = self._columns[:, columns].toarray() > 0
        places = np.full(self._size, self._size, dtype=np.int64)
        order = ranked[ranked >= 0]
        places[order] = np.arange(len(order))
        missing = np.ones(len(query_words), dtype=np.bool_)
        cover: dict[int, list[str]] = {}
        # A sum of all weights minus itself is not always zero, so the covered weight is summed anew at each step.
        while missing.any() and weights[~missing].sum() < self.parameters.share * weights.sum():
            gains = (contained * np.where(missing, weights, 0.0)).sum(axis=1).astype(np.float32)
            # The greatest gain, then the base's order, then the code.
            tool = int(np.lexsort((places, -gains))[0])
            added = contained[tool] & missing
            cover[tool] = [word for word, adds in zip(query_words, added, strict=True) if adds]
            missing &= ~added
        return cover

    def explain(self, case: Case) -> Explanation:
        """The step that adds a tool, and the words it covers that no earlier tool has."""
        answer = case.answer(self._base)
        ranking, covers = self._covered(case.query)
        cover = covers[0]
        steps = {tool: step + 1 for step, tool in enumerate(cover)}
        order = [*cover, *(int(tool) for tool in ranking.tools[0] if tool >= 0 and int(tool) not in cover)]
        reasons = {}
        for tool in case.tools:
            because = ""
            if tool in case.gold and tool not in cover:
                because = f"not in the set of {len(cover)}: other tools cover its words; {answer.label} rank "
                because += str(answer.positions[tool].rank or "-")
            elif tool in case.gold:
                because = f"step {steps[tool]} adds it"
            adds = self._weight(cover.get(tool, []))
            covers_words = ", ".join(cover[tool]) if tool in cover else ""
            reasons[tool] = Reason(None, (), (steps.get(tool), adds), covers_words, because)
        whole = self._weight([word for word in dict.fromkeys(words(case.text)) if word in self._vocabulary])
        notes = (f"The words of the query that tools have weigh {number(whole)}; the set has {len(cover)} tools.",)
        return Explanation(
            "words that no earlier tool covers",
            ("step", "adds"),
            reasons,
            order=case.in_order(order),
            notes=notes,
            bases=(answer,),
        )

    def _weight(self, of: list[str]) -> float:
        return float(sum(self._idf[self._vocabulary[word]] for word in of))
