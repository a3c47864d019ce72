"""BM25 with lower-cased word tokens and Lucene's IDF, which is always positive."""

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


class BM25(Method):
    """BM25 over the tools' texts (Robertson & Zaragoza 2009, with the IDF of Lucene).

    score = Σ over query words of ln(1 + (N - df + 0.5) / (df + 0.5)) · tf / (tf + k1 (1 - b + b · len / mean len)).
    Tools that share no word with the query are not returned.
    """

    class Parameters(ParameterSet):
        k1: float = Field(1.2, ge=0, description="term-frequency saturation (k1)")
        b: float = Field(0.75, ge=0, le=1, description="document-length normalisation (b)")
        tokens: Literal["words", "whitespace"] = Field("words", description="tokenisation")

    parameters: Parameters

    def index(self, library: Library) -> None:
        self._split = words if self.parameters.tokens == "words" else whitespace
        counts = WordCounts.of(map(self._split, library.texts))
        self._index = LexicalIndex(counts.vocabulary, bm25_weights(counts, self.parameters.k1, self.parameters.b))

    def score(self, queries: Queries) -> NDArray[np.float64]:
        return self._index.score(self._index.counts(map(self._split, queries.texts)))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        # Every weight is positive: a score of zero means that no word is shared.
        return self._index.rank(self._index.counts(map(self._split, queries.texts)), depth, shared=True)

    def explain(self, case: Case) -> Explanation:
        from bench.search.explanation import explain_words

        return explain_words(self, case, self._split)


def bm25_weights(counts: WordCounts, k1: float, b: float) -> sp.csr_matrix:
    """(documents, words) BM25 weight of each word in each document."""
    import scipy.sparse as sp

    documents = len(counts.lengths)
    df = counts.document_frequency
    idf = np.log1p((documents - df + 0.5) / (df + 0.5))
    mean = counts.lengths.mean() or 1.0
    held_back = k1 * (1 - b + b * counts.lengths / mean)
    tf = counts.matrix
    # In place: a million tools have tens of millions of entries.
    below = np.repeat(held_back, np.diff(tf.indptr))
    below += tf.data
    data = idf[tf.indices]
    data *= tf.data
    data /= below
    return sp.csr_matrix((data, tf.indices, tf.indptr), shape=tf.shape)
