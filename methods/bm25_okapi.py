"""BM25 as in the papers: rank-bm25's Okapi variant over white-space tokens, case-sensitive."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.interface import Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation
from bench.search.lexical import LexicalIndex, count_matrix
from bench.search.topk import top_k
from bench.search.words import whitespace, words


class BM25Okapi(Method):
    """Okapi BM25 with the statistics of rank_bm25.BM25Okapi, scored for all queries at once.

    The IDF, ln((N - df + 0.5) / (df + 0.5)), is zero for a word in half of the tools. A negative IDF is replaced by
    epsilon times the mean IDF. On a small library, a perfect lexical match can therefore tie with noise. Tools that
    share no word with the query are returned in id order.
    """

    class Parameters(ParameterSet):
        k1: float = Field(1.5, ge=0, description="term-frequency saturation (k1)")
        b: float = Field(0.75, ge=0, le=1, description="document-length normalisation (b)")
        epsilon: float = Field(0.25, description="floor of negative IDF values, relative to the mean IDF")
        tokens: Literal["whitespace", "words"] = Field("whitespace", description="tokenisation")

    parameters: Parameters

    def index(self, library: Library) -> None:
        import scipy.sparse as sp
        from rank_bm25 import BM25Okapi as Reference

        self._split = words if self.parameters.tokens == "words" else whitespace
        documents = [self._split(text) for text in library.texts]
        # rank_bm25 divides by the number of words it has seen; a library without words has no statistics.
        self._empty = not any(documents)
        if self._empty:
            self._tools = len(documents)
            return
        k1, b = self.parameters.k1, self.parameters.b
        reference = Reference(documents, k1=k1, b=b, epsilon=self.parameters.epsilon)
        vocabulary = {word: column for column, word in enumerate(reference.idf)}
        idf = np.fromiter(reference.idf.values(), dtype=np.float64, count=len(vocabulary))
        lengths = np.array(reference.doc_len, dtype=np.float64)
        weights = count_matrix(documents, vocabulary)
        rows = np.repeat(np.arange(len(documents)), np.diff(weights.indptr))
        held_back = k1 * (1 - b + b * lengths / reference.avgdl)
        weights.data = idf[weights.indices] * (weights.data * (k1 + 1) / (weights.data + held_back[rows]))
        self._index = LexicalIndex(vocabulary, sp.csr_matrix(weights))

    def score(self, queries: Queries) -> NDArray[np.float64]:
        if self._empty:
            return np.zeros((len(queries), self._tools))
        return self._index.score(self._index.counts(map(self._split, queries.texts)))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        if self._empty:
            return top_k(self.score(queries), depth)
        return self._index.rank(self._index.counts(map(self._split, queries.texts)), depth, shared=False)

    def explain(self, case: Case) -> Explanation:
        from bench.search.explanation import explain_words

        return explain_words(self, case, self._split)
