"""Exact ranking by the postings of a query's words, compiled by numba.

Term-at-a-time: one row of float64 scores per thread is added up, rounded to float32 and searched with a heap under
the tie rule, so that memory is that of the postings and of a row for each thread. The order of a query's terms is
fixed, and queries are independent: rankings do not depend on the number of threads. Skipping postings that cannot reach
the best (block-max pruning) is left out: the tie band needs every tool that ties with the last one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bench.protocol.ranking import PAD, Ranking, Violation
from bench.search.topk import threads


def rank_postings(by_word: sp.csr_matrix, queries: sp.csr_matrix, depth: int, *, shared: bool) -> Ranking:
    """The best `depth` documents of each query, as `bench.search.topk.top_k` has them.

    Args:
        by_word: (words, documents) weights.
        queries: (queries, words) weights.
        depth: at least 1.
        shared: leave out documents with a score of exactly 0.
    """
    documents, count = by_word.shape[1], queries.shape[0]
    width = min(depth, documents)
    tools = np.full((count, width), PAD, dtype=np.int32)
    scores = np.full((count, width), -np.inf, dtype=np.float32)
    tied = np.zeros((count, (documents + 7) // 8), dtype=np.uint8)
    postings = (by_word.indptr.astype(np.int64), by_word.indices.astype(np.int32, copy=False), by_word.data)
    asked = (queries.indptr.astype(np.int64), queries.indices.astype(np.int64), queries.data.astype(np.float64))

    def rank(part: NDArray[np.int64]) -> int:
        if not len(part):
            return -1
        rows = slice(int(part[0]), int(part[-1]) + 1)
        terms = (asked[0][part[0] : part[-1] + 2], *asked[1:])
        return int(_rank(*postings, *terms, documents, shared, tools[rows], scores[rows], tied[rows]))

    parts = np.array_split(np.arange(count), threads())
    with ThreadPoolExecutor(len(parts)) as pool:
        for part, bad in zip(parts, pool.map(rank, parts), strict=True):
            if bad >= 0:
                raise Violation("scored NaN", int(part[0]) + bad // documents, bad % documents)
    return Ranking(tools, scores, tied_beyond=tied if tied.any() else None)


@numba.njit(cache=True, nogil=True)
def _rank(  # type: ignore[no-untyped-def]
    starts, documents_of, weights, asked_starts, asked_words, asked_weights, documents, shared, tools, scores, tied
):
    """Fill the rows of `tools`, `scores` and `tied`; returns -1, or query x documents + document of the first NaN."""
    width = tools.shape[1]
    row = np.empty(documents, dtype=np.float64)
    values = np.empty(width, dtype=np.float32)
    codes = np.empty(width, dtype=np.int32)
    for query in range(tools.shape[0]):
        row[:] = 0.0
        for i in range(asked_starts[query], asked_starts[query + 1]):
            weight = asked_weights[i]
            word = asked_words[i]
            for j in range(starts[word], starts[word + 1]):
                row[documents_of[j]] += weight * weights[j]
        size = 0
        for code in range(documents):
            score = row[code]
            if shared and score == 0.0:
                continue
            if score != score:
                return query * documents + code
            value = np.float32(score)
            if size < width:
                # Sift up: the root is the worst, the lowest value and of these the highest code.
                place = size
                size += 1
                while place > 0:
                    above = (place - 1) // 2
                    if not value <= values[above]:
                        break
                    values[place], codes[place] = values[above], codes[above]
                    place = above
                values[place], codes[place] = value, code
            elif value > values[0]:
                # Codes ascend: one that only ties with the root is the worse of the two.
                _sift_down(values, codes, size, value, code)
        last = np.float32(0.0) if size < width else values[0]
        highest = -1 if size < width else codes[0]
        for place in range(size - 1, -1, -1):
            scores[query, place], tools[query, place] = values[0], codes[0]
            _sift_down(values, codes, place, values[place], codes[place])
        if size == width:
            for code in range(highest + 1, documents):
                score = row[code]
                if np.float32(score) == last and not (shared and score == 0.0):
                    tied[query, code >> 3] |= np.uint8(128 >> (code & 7))
    return -1


@numba.njit(cache=True, nogil=True)
def _sift_down(values, codes, size, value, code):  # type: ignore[no-untyped-def]
    """Put an entry in the place of the root of a heap of so many entries."""
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        right = below + 1
        if right < size and (
            values[right] < values[below] or (values[right] == values[below] and codes[right] > codes[below])
        ):
            below = right
        if values[below] > value or (values[below] == value and codes[below] < code):
            break
        values[place], codes[place] = values[below], codes[below]
        place = below
    if size > 0:
        values[place], codes[place] = value, code
