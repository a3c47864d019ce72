"""Near-duplicates within one collection of texts, by shared words. Audits and reports on tools call it.

Two texts are near-duplicates if the cosine of their TF-IDF vectors is at least `COSINE`, the limit and the weights of
`bench.data.nearcopies`: the weight of a word is its count times log(N / texts with it) + 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.data.nearcopies import COSINE
from bench.search.lexical import WordCounts
from bench.search.words import words

if TYPE_CHECKING:
    import scipy.sparse as sp

#: Texts that are compared with all others at once, and pairs whose cosines are computed at once; bound the memory.
_BLOCK, _PAIRS = 64, 1 << 16
#: The sums have few terms, so the last bits of a quotient do not matter.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class NearDuplicates:
    """The near-duplicates of each text.

    Attributes:
        count: (texts,) number of other texts that are near-duplicates.
        nearest: (texts,) the most similar of them, the first of equals; -1 if there is none.
        cosine: (texts,) the cosine with it; 0 if there is none.
    """

    count: NDArray[np.int64]
    nearest: NDArray[np.int64]
    cosine: NDArray[np.float64]


class TextVectors:
    """TF-IDF vectors of the texts of a collection.

    Args:
        texts: the collection.

    Attributes:
        texts: the collection.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        counts = WordCounts.of([words(text) for text in texts])
        frequency = np.maximum(counts.document_frequency, 1)
        matrix = counts.matrix.copy()
        matrix.data = matrix.data * (np.log(len(texts) / frequency) + 1.0)[matrix.indices]
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        matrix.data /= np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(matrix.indptr))
        matrix.sort_indices()
        self._rows: sp.csr_matrix = matrix
        self._frequency = frequency
        self._vocabulary = counts.vocabulary

    def frequency(self, word: str) -> int:
        """Number of texts that contain a word."""
        column = self._vocabulary.get(word)
        return 0 if column is None else int(self._frequency[column])

    def rarest_first(self, query_words: Iterable[str]) -> list[str]:
        """Words sorted from rare to common; equals, and unknown words at the end, in the given order."""
        return sorted(query_words, key=lambda word: self.frequency(word) or np.iinfo(np.int64).max)

    def cosines(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
        """(pairs,) cosines of pairs of texts, by position; 0 for a text without words."""
        cosines = np.empty(len(one))
        for start in range(0, len(one), _PAIRS):
            part = slice(start, start + _PAIRS)
            products = self._rows[one[part]].multiply(self._rows[other[part]])
            cosines[part] = np.asarray(products.sum(axis=1)).ravel()
        return np.minimum(cosines, 1.0)

    @cached_property
    def near_duplicates(self) -> NearDuplicates:
        """The near-duplicates of each text. A text without words has none.

        Texts with the same counts of words are compared once. Of the others, two can only be near-duplicates if they
        share one of the
        rarest words of either: those without which a vector is shorter than `COSINE` (prefix filtering, Bayardo et
            al. 2007). So the
        time does not grow with the square of the collection.
        """
        first, member = self._classes()
        sizes = np.bincount(member, minlength=len(first))
        one, other, cosine = self._near(first)
        # In both directions, and each class with itself if it has several members.
        several = np.flatnonzero((sizes > 1) & (np.diff(self._rows.indptr)[first] > 0))
        left = np.concatenate([one, other, several])
        right = np.concatenate([other, one, several])
        values = np.concatenate([cosine, cosine, np.ones(len(several))])
        near = np.bincount(left, weights=sizes[right] - (left == right), minlength=len(first)).astype(np.int64)
        order = np.lexsort((first[right], -values, left))
        heads = order[np.flatnonzero(np.diff(left[order], prepend=-1))]
        nearest, best = np.full(len(first), -1, dtype=np.int64), np.zeros(len(first))
        nearest[left[heads]], best[left[heads]] = right[heads], values[heads]
        codes = np.where(nearest >= 0, first[np.maximum(nearest, 0)], -1)[member]
        # The nearest of a text may be the first of its own class: for that first text it is the second.
        same = np.flatnonzero(codes == np.arange(len(member)))
        if len(same):
            ranked = np.argsort(member, kind="stable")
            starts = np.cumsum(sizes) - sizes
            codes[same] = ranked[starts[member[same]] + 1]
        return NearDuplicates(near[member], codes, best[member])

    def _classes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Texts with the same counts of words: (classes,) the first text of each, (texts,) the class of each text."""
        starts, columns, data = self._rows.indptr, self._rows.indices, self._rows.data
        known: dict[tuple[bytes, bytes], int] = {}
        first: list[int] = []
        member = np.empty(len(starts) - 1, dtype=np.int64)
        for text in range(len(member)):
            part = slice(starts[text], starts[text + 1])
            place = known.setdefault((columns[part].tobytes(), data[part].tobytes()), len(first))
            if place == len(first):
                first.append(text)
            member[text] = place
        return np.array(first, dtype=np.int64), member

    def _near(self, first: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Pairs of near-duplicates among some of the texts, by position in `first`, the lower first; with their
        cosines.
        """
        rows = self._rows[first]
        prefixes, rest = _prefixes(rows, self._frequency)
        turned = rows.T.tocsr()
        pairs: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
        for start in range(0, max(len(first), 1), _BLOCK):
            shared = (prefixes[start : start + _BLOCK] @ turned).tocoo()
            one, other = shared.row.astype(np.int64) + start, shared.col.astype(np.int64)
            # The other words add at most the length of the rest.
            chosen = (one != other) & (shared.data + rest[one] >= COSINE - _ROUNDING)
            one, other = one[chosen], other[chosen]
            cosine = self.cosines(first[one], first[other])
            near = cosine >= COSINE - _ROUNDING
            pairs.append((np.minimum(one, other)[near], np.maximum(one, other)[near], cosine[near]))
        left, right, cosine = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        # A pair may be found from either side.
        _, places = np.unique(left * len(first) + right, return_index=True)
        return left[places], right[places], cosine[places]


def _prefixes(rows: sp.csr_matrix, frequency: NDArray[np.int64]) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """The rarest words of each vector, without which it is shorter than `COSINE`; (texts,) the length of the rest."""
    import scipy.sparse as sp

    texts = rows.shape[0]
    owners = np.repeat(np.arange(texts), np.diff(rows.indptr))
    order = np.lexsort((rows.indices, frequency[rows.indices], owners))
    squares = rows.data[order] ** 2
    sums = np.cumsum(squares)
    starts = rows.indptr[:-1]
    before = np.concatenate([[0.0], sums])[starts]
    # The rest of a vector's square before each of its words, from the rarest on.
    total = np.concatenate([[0.0], sums])[rows.indptr[1:]] - before
    left = total[owners] - (sums - squares - before[owners])
    kept = left >= COSINE**2 - _ROUNDING
    rest = total - np.bincount(owners[kept], weights=squares[kept], minlength=texts)
    chosen = order[kept]
    prefixes = sp.csr_matrix((rows.data[chosen], (owners[chosen], rows.indices[chosen])), shape=rows.shape)
    return prefixes, np.sqrt(np.maximum(rest, 0.0))
