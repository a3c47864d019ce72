"""Near copies between two collections of texts. Audits and checks of training data use them.

Two criteria, after the contamination studies of language models (Brown et al. 2020, appendix C; Touvron et al. 2023,
appendix A.6), adapted to short texts:

- n-grams: at least a share `SHARED` of a text's runs of `RUN` words is in one text of the other collection. This is not
  applied to texts of fewer than `FEWEST` runs: an ordinary opening ("I'm planning a picnic in") is most of them.
- cosine: the TF-IDF cosine with one text of the other collection is at least `COSINE`, whatever the order of the words.

Words are those of `bench.base.words` after case folding. The limits were set by reading pairs of ToolLens, whose test
and train queries share templates: above them most pairs ask the same about the same places, names and dates, below them
many ask for something else in the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.base.words import words as split

if TYPE_CHECKING:
    from scipy.sparse import csr_array

RUN, FEWEST, SHARED, COSINE = 4, 10, 0.8, 0.9

#: Number of texts compared with the whole other collection at once; bounds the memory.
_BLOCK = 256


def near_copies(texts: Sequence[str], others: Sequence[str]) -> NDArray[np.bool_]:
    """Find texts that have a near or exact copy in another collection.

    Args:
        texts: texts to check.
        others: the other collection.

    Returns:
        (texts,) bool. A text without words has no copy.
    """
    shared, cosine = likeness(texts, others)
    # The sums have few terms, so the last bits of a quotient do not matter.
    return (shared >= SHARED - 1e-9) | (cosine >= COSINE - 1e-9)


def likeness(texts: Sequence[str], others: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Similarity to the nearest text of another collection, by both criteria.

    Returns:
        (texts,) the largest share of a text's distinct runs that one other text has, 0 for a text with few runs, and
        (texts,) the largest TF-IDF cosine. The weight of a word is its count times log(N / texts with it) + 1, where N
        is the number of texts of both collections.
    """
    if not texts or not others:
        return np.zeros(len(texts)), np.zeros(len(texts))
    words, other_words = _words(texts), _words(others)
    runs, other_runs = _counts(
        [_runs(text_words) for text_words in words], [_runs(text_words) for text_words in other_words]
    )
    runs.data[:], other_runs.data[:] = 1.0, 1.0
    distinct = np.diff(runs.indptr)
    shared = np.where(distinct >= FEWEST, _largest(runs, other_runs) / np.maximum(distinct, 1), 0.0)
    return shared, _largest(*_weigh(words, other_words))


def similar_pairs(
    words: Sequence[Sequence[str]], others: Sequence[Sequence[str]], least: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of texts from two collections with a large TF-IDF cosine, weighted as in `likeness`.

    Args:
        words, others: the words of the texts of each collection.
        least: minimum cosine, above 0.

    Returns:
        (pairs,) positions in one collection, positions in the other, and cosines; by position.
    """
    rows, columns = _weigh(words, others)
    turned = columns.T.tocsr()
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    for start in range(0, rows.shape[0], _BLOCK):
        part = (rows[start : start + _BLOCK] @ turned).tocoo()
        # The sums have few terms, so the last bits of a cosine do not matter.
        large = part.data >= least - 1e-9
        parts.append((part.row[large].astype(np.int64) + start, part.col[large].astype(np.int64), part.data[large]))
    i, j, cosine = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((j, i))
    return i[order], j[order], cosine[order]


def _words(texts: Sequence[str]) -> list[list[str]]:
    return [split(text.casefold()) for text in texts]


def _weigh(words: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> tuple[csr_array, csr_array]:
    """The TF-IDF vectors of two collections, normalised to length 1."""
    counts, other_counts = _counts(words, others)
    having = np.concatenate([counts.indices, other_counts.indices])
    documents = np.bincount(having, minlength=counts.shape[1])
    weights = np.log((len(words) + len(others)) / np.maximum(documents, 1)) + 1.0
    return _unit(counts, weights), _unit(other_counts, weights)


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1)]


def _counts(one: Sequence[Sequence[object]], other: Sequence[Sequence[object]]) -> tuple[csr_array, csr_array]:
    """How often each text of two collections has each item, over their common items."""
    from scipy.sparse import csr_array  # takes a tenth of a second to import, and most runs do not check for copies

    columns: dict[object, int] = {}
    coded = [[columns.setdefault(item, len(columns)) for items in part for item in items] for part in (one, other)]
    matrices = []
    for codes, part in zip(coded, (one, other), strict=True):
        pointers = np.cumsum([0, *map(len, part)])
        shape = (len(part), len(columns))
        matrix = csr_array((np.ones(len(codes)), np.array(codes, dtype=np.int64), pointers), shape=shape)
        matrix.sum_duplicates()
        matrices.append(matrix)
    return matrices[0], matrices[1]


def _unit(counts: csr_array, weights: NDArray[np.float64]) -> csr_array:
    """Weighted rows of length 1; an empty row stays empty."""
    rows = counts.copy()
    rows.data *= weights[rows.indices]
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)))
    rows.data /= np.repeat(np.maximum(lengths, 1e-300), np.diff(rows.indptr))
    return rows


def _largest(rows: csr_array, others: csr_array) -> NDArray[np.float64]:
    """(rows,) the largest product of a row with one of the others; no value is negative."""
    turned = others.T.tocsr()
    parts = [(rows[i : i + _BLOCK] @ turned).max(axis=1).toarray().ravel() for i in range(0, rows.shape[0], _BLOCK)]
    return np.concatenate(parts)
