"""Sparse retrieval: weighted bags of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

#: The words that are in most documents are scored by one dense product, the rest sparsely: a few dozen
#: frequent words hold most of the entries of the sparse matrix (measured in benchmarks/lexical.py).
_FREQUENT = 96


@dataclass(frozen=True)
class Counts:
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
    def of(documents: Sequence[Sequence[str]]) -> Counts:
        vocabulary: dict[str, int] = {}
        for document in documents:
            for word in document:
                vocabulary.setdefault(word, len(vocabulary))
        matrix = count_matrix(documents, vocabulary)
        return Counts(vocabulary, matrix, np.array([len(document) for document in documents], dtype=np.float64))

    @property
    def document_frequency(self) -> NDArray[np.int64]:
        """(words,) number of documents that contain each word."""
        return np.bincount(self.matrix.indices, minlength=self.matrix.shape[1])


def count_matrix(documents: Sequence[Sequence[str]], vocabulary: dict[str, int]) -> sp.csr_matrix:
    """(documents, words) counts of the words that are in the vocabulary; others are ignored."""
    starts: list[int] = [0]
    columns: list[int] = []
    values: list[int] = []
    for document in documents:
        counts = Counter(word for word in document if word in vocabulary)
        columns.extend(vocabulary[word] for word in counts)
        values.extend(counts.values())
        starts.append(len(columns))
    shape = (len(documents), len(vocabulary))
    return sp.csr_matrix((np.array(values, dtype=np.float64), np.array(columns, dtype=np.int32), starts), shape=shape)


class LexicalIndex:
    """Scores every document for a batch of queries: score = Σ over words of (query weight x document weight).

    Args:
        vocabulary: word -> column.
        weights: (documents, words) weights.
    """

    def __init__(self, vocabulary: dict[str, int], weights: sp.csr_matrix) -> None:
        self.vocabulary = vocabulary
        by_word = weights.T.tocsr()
        frequency = np.diff(by_word.indptr)
        self._frequent = np.sort(np.argsort(-frequency, kind="stable")[:_FREQUENT])
        self._dense = by_word[self._frequent].toarray()
        rare = np.ones(len(frequency))
        rare[self._frequent] = 0.0
        sparse = (sp.diags_array(rare) @ by_word).tocsr()
        sparse.eliminate_zeros()
        self._sparse = sparse

    def counts(self, queries: Sequence[Sequence[str]]) -> sp.csr_matrix:
        """(queries, words) how often each known word occurs in each query."""
        return count_matrix(queries, self.vocabulary)

    def score(self, queries: sp.csr_matrix) -> NDArray[np.float64]:
        """(queries, documents) scores, float64."""
        scores: NDArray[np.float64] = queries[:, self._frequent].toarray() @ self._dense
        scores += (queries @ self._sparse).toarray()
        return scores
