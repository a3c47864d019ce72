"""Cosine similarity of TF-IDF vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.interface import Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation
from bench.search.lexical import LexicalIndex, WordCounts
from bench.search.words import whitespace, words

if TYPE_CHECKING:
    import scipy.sparse as sp


class TfIdf(Method):
    """Cosine similarity of TF-IDF vectors with idf = ln((1 + N) / (1 + df)) + 1, scikit-learn's smoothed form.

    Tools that share no word with the query are not returned.
    """

    class Parameters(ParameterSet):
        tokens: Literal["words", "whitespace"] = Field("words", description="tokenisation")
        sublinear: bool = Field(False, description="sublinear term frequency: 1 + ln(tf) instead of tf")

    parameters: Parameters

    def index(self, library: Library) -> None:
        self._split = words if self.parameters.tokens == "words" else whitespace
        counts = WordCounts.of(map(self._split, library.texts))
        self._idf = np.log((1 + len(library)) / (1 + counts.document_frequency)) + 1
        self._index = LexicalIndex(counts.vocabulary, self._weighted(counts.matrix))

    def _weighted(self, counts: sp.csr_matrix) -> sp.csr_matrix:
        """tf · idf, rows scaled to length 1."""
        import scipy.sparse as sp

        weights = counts.copy()
        tf = 1 + np.log(weights.data) if self.parameters.sublinear else weights.data
        weights.data = tf * self._idf[weights.indices]
        lengths = np.sqrt(weights.multiply(weights).sum(axis=1)).A1
        scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return sp.csr_matrix(sp.diags_array(scale) @ weights)

    def score(self, queries: Queries) -> NDArray[np.float64]:
        return self._index.score(self._asked(queries))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return self._index.rank(self._asked(queries), depth, shared=True)

    def _asked(self, queries: Queries) -> sp.csr_matrix:
        return self._weighted(self._index.counts(map(self._split, queries.texts)))

    def explain(self, case: Case) -> Explanation:
        from bench.search.explanation import explain_words

        query = self._weighted(self._index.counts([self._split(case.text)]))
        weights = dict(zip(query.indices.tolist(), query.data.tolist(), strict=True))
        words = {word: weights[column] for word, column in self._index.vocabulary.items() if column in weights}
        return explain_words(self, case, self._split, words)
