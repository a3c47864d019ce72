"""Sparse retrieval: weighted bags of words. Lexical methods call it.

`LexicalIndex.rank` walks the postings of each query's words with a compiled loop (numba, the extra `scale`): it is
faster for every library, and memory does not grow with the number of queries. Loading it takes most of a second, so
the first queries are ranked by matrix products, block by block; so are all of them without numba. Both ways add the
same float64 products, in different orders, and round to float32 before comparing.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import is_installed
from bench.interface.ranking import Ranking
from bench.search.topk import blocks, join_blocks, top_k

if TYPE_CHECKING:
    import scipy.sparse as sp

#: Words in more documents than this share are scored by one dense product, the rest sparsely: a few dozen frequent
#: words have most of the entries of the sparse matrix (measured in benchmarks/lexical.py).
_FREQUENT = 96
#: Matrix products compute this many scores in the time in which numba is loaded; a call takes as long as this many more
#: queries (measured in benchmarks/lexical.py).
_LOADING, _CALL = 20_000_000, 5
#: From this many tools on, products are not used at all if numba is there: their frequent words take 768 bytes a tool.
_LARGE = 20_000
_COMPILED = "bench.search.postings"


@dataclass(frozen=True)
class WordCounts:
    """Word counts of a collection.

    Attributes:
        vocabulary: word -> column.
        matrix: (documents, words) counts, float64.
        lengths: (documents,) number of tokens.
    """

    vocabulary: dict[str, int]
    matrix: sp.csr_matrix
    lengths: NDArray[np.float64]

    @staticmethod
    def of(documents: Iterable[Sequence[str]]) -> WordCounts:
        """Count the words of documents, which are read once and not kept."""
        vocabulary: defaultdict[str, int] = defaultdict()
        # A new word gets the next column.
        vocabulary.default_factory = vocabulary.__len__
        codes, starts = array("i"), array("q", [0])
        for document in documents:
            codes.extend(map(vocabulary.__getitem__, document))
            starts.append(len(codes))
        matrix = _count_codes(codes, starts, len(vocabulary))
        return WordCounts(dict(vocabulary), matrix, np.diff(np.frombuffer(starts, dtype=np.int64)).astype(np.float64))

    @property
    def document_frequency(self) -> NDArray[np.int64]:
        """(words,) number of documents that contain each word."""
        return np.bincount(self.matrix.indices, minlength=self.matrix.shape[1])


def count_matrix(documents: Iterable[Sequence[str]], vocabulary: Mapping[str, int]) -> sp.csr_matrix:
    """(documents, words) counts of the known words; others are ignored."""
    codes, starts = array("i"), array("q", [0])
    for document in documents:
        codes.extend(vocabulary[word] for word in document if word in vocabulary)
        starts.append(len(codes))
    return _count_codes(codes, starts, len(vocabulary))


def _count_codes(codes: array[int], starts: array[int], words: int) -> sp.csr_matrix:
    """(documents, words) how often each code occurs between two starts."""
    import scipy.sparse as sp

    columns, rows = np.frombuffer(codes, dtype=np.int32), np.frombuffer(starts, dtype=np.int64)
    counts = sp.csr_matrix((np.ones(len(columns)), columns.copy(), rows.copy()), shape=(len(rows) - 1, words))
    counts.sum_duplicates()
    return counts


class LexicalIndex:
    """Scores every document for a batch of queries: score = Σ over words of (query weight x document weight).

    Args:
        vocabulary: word -> column.
        weights: (documents, words) weights.
    """

    def __init__(self, vocabulary: dict[str, int], weights: sp.csr_matrix) -> None:
        self.vocabulary = vocabulary
        self._documents = weights.shape[0]
        self._by_word = weights.T.tocsr()
        self._work = Work()

    def counts(self, queries: Iterable[Sequence[str]]) -> sp.csr_matrix:
        """(queries, words) how often each known word occurs in each query."""
        return count_matrix(queries, self.vocabulary)

    def score(self, queries: sp.csr_matrix) -> NDArray[np.float64]:
        """(queries, documents) scores, float64."""
        frequent, dense, sparse = self._products
        scores: NDArray[np.float64] = queries[:, frequent].toarray() @ dense
        scores += (queries @ sparse).toarray()
        return scores

    def rank(self, queries: sp.csr_matrix, depth: int, *, shared: bool) -> Ranking:
        """The best `depth` documents of each query, as from `top_k`.

        Args:
            queries: (queries, words) weights.
            depth: at least 1.
            shared: leave out documents with a score of exactly 0: if all weights are positive, those that share no
                word with the query.
        """
        if self._work.compile(queries.shape[0], self._documents):
            from bench.search.postings import rank_postings

            return rank_postings(self._by_word, queries, depth, shared=shared)
        parts = []
        for block in blocks(queries.shape[0], self._documents):
            scores = self.score(queries[block])
            if shared:
                scores[scores == 0] = -np.inf
            parts.append(top_k(scores, depth))
        return join_blocks(parts, self._documents, depth)

    @cached_property
    def _products(self) -> tuple[NDArray[np.int64], NDArray[np.float64], sp.csr_matrix]:
        """Columns of frequent words, their (words, documents) weights, and the matrix of all others."""
        import scipy.sparse as sp

        by_word = self._by_word
        frequency = np.diff(by_word.indptr)
        frequent = np.sort(np.argsort(-frequency, kind="stable")[:_FREQUENT])
        rare = np.ones(len(frequency))
        rare[frequent] = 0.0
        sparse = (sp.diags_array(rare) @ by_word).tocsr()
        sparse.eliminate_zeros()
        return frequent, by_word[frequent].toarray(), sparse


class Work:
    """Decides when to load compiled code: once matrix products have taken as long as loading it takes.

    No ranking depends on the decision, so it does not count for the identity of methods.
    """

    def __init__(self) -> None:
        self._scores = 0

    def compile(self, queries: int, documents: int) -> bool:
        """Whether to rank the queries of a call by compiled code; it is used in any case once it is in memory."""
        self._scores += (queries + _CALL) * documents
        worth = documents >= _LARGE or self._scores >= _LOADING
        return _COMPILED in sys.modules or (worth and is_installed("numba"))
