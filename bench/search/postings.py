"""Exact ranking by the postings of a query's words, compiled by numba. `lexical` calls it.

Block of documents by block, the postings of each query's words are added up in float64, rounded to float32, and kept in
a heap under the tie rule, with the documents that tie with its last: memory is that of the postings. The order of a
query's terms is fixed, and queries are independent, so rankings do not depend on the number of threads. There is no
pruning of postings (block-max), because the tie band needs every tool that ties with the last one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numba
import numpy as np
from numpy.typing import NDArray

from bench.interface.ranking import PAD, Ranking, Violation
from bench.search.topk import threads

if TYPE_CHECKING:
    import scipy.sparse as sp

#: Documents per block. The postings of a block and a row of scores fit a processor's cache for all queries of a thread;
#: reading every posting from memory for every query takes twice as long.
_BLOCK = 4096
#: The postings of a word in at least this share of the documents are spread into a row of weights, block by block, if
#: more than so many terms of a call use it: adding whole rows is several times faster. At most 64 rows, or 2 MiB.
_SHARE, _USES, _ROWS = 0.25, 2, 64
#: Until a query has enough documents, a block is divided into so many interleaved groups, whose highest scores bound
#: the last place: fewer documents pass through the heap.
_GROUPS = 256


def rank_postings(by_word: sp.csr_matrix, queries: sp.csr_matrix, depth: int, *, shared: bool) -> Ranking:
    """The best `depth` documents of each query, as from `bench.search.topk.top_k`.

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
    starts, words = queries.indptr.astype(np.int64), queries.indices.astype(np.int64)
    terms = (words, queries.data.astype(np.float64), *_common_words(postings[0], words, documents))

    def rank(part: NDArray[np.int64]) -> int:
        rows, part_starts = slice(int(part[0]), int(part[-1]) + 1), starts[part[0] : part[-1] + 2]
        return int(_rank(postings, (part_starts, *terms), documents, shared, tools[rows], scores[rows], tied[rows]))

    parts = [part for part in np.array_split(np.arange(count), threads()) if len(part)]
    with ThreadPoolExecutor(threads()) as pool:
        # A thread takes longer to start than one query takes in most libraries.
        for part, bad in zip(parts, pool.map(rank, parts) if len(parts) > 1 else map(rank, parts), strict=True):
            if bad >= 0:
                raise Violation("scored NaN", int(part[0]) + bad // documents, bad % documents)
    return Ranking(tools, scores, tied_beyond=tied if tied.any() else None)


def _common_words(
    starts: NDArray[np.int64], words: NDArray[np.int64], documents: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The row of each query term in a table of common words, -1 if it has none, and the words of the table."""
    known, terms, uses = np.unique(words, return_inverse=True, return_counts=True)
    common = np.flatnonzero((uses > _USES) & (starts[known + 1] - starts[known] >= _SHARE * documents))[:_ROWS]
    rows = np.full(len(known), -1)
    rows[common] = np.arange(len(common))
    return rows[terms], known[common]


@numba.njit(cache=True, nogil=True)
def _rank(postings, terms, documents, shared, tools, scores, tied):  # type: ignore[no-untyped-def]
    """Fill the rows of `tools`, `scores` and `tied`; returns -1, or query x documents + document of the first NaN."""
    starts, documents_of, weights = postings
    query_starts, words, word_weights, word_rows, common = terms
    queries, width = tools.shape
    row, highest = np.empty(_BLOCK, dtype=np.float64), np.empty(_GROUPS, dtype=np.float64)
    values = np.empty((queries, width), dtype=np.float32)
    codes = np.empty((queries, width), dtype=np.int32)
    sizes, ties = np.zeros(queries, dtype=np.int64), np.zeros(queries, dtype=np.int64)
    # Where the postings of each word of each query, and of each common word, continue in the next block.
    first = query_starts[0]
    places, common_places = starts[words[first : query_starts[queries]]], starts[common]
    spread = np.empty((len(common), _BLOCK), dtype=np.float64)
    for begin in range(0, documents, _BLOCK):
        count = min(_BLOCK, documents - begin)
        spread[:] = 0.0
        for i in range(len(common)):
            j, stop = common_places[i], starts[common[i] + 1]
            end = _first_from(documents_of, j, min(stop, j + count), begin + count)
            for k in range(j, end):
                spread[i, np.uint64(documents_of[k] - begin)] += weights[k]
            common_places[i] = end
        for query in range(queries):
            row[:count] = 0.0
            for i in range(query_starts[query], query_starts[query + 1]):
                weight = word_weights[i]
                if word_rows[i] >= 0:
                    word_row = spread[word_rows[i]]
                    for place in range(count):
                        row[place] += weight * word_row[place]
                    continue
                j, stop = places[i - first], starts[words[i] + 1]
                end = _first_from(documents_of, j, min(stop, j + count), begin + count)
                for k in range(j, end):
                    # Unsigned: an index that might be negative costs a comparison.
                    row[np.uint64(documents_of[k] - begin)] += weight * weights[k]
                places[i - first] = end
            best, best_codes, size = values[query], codes[query], sizes[query]
            # Scores below this stay below the last place once rounded; most documents do.
            floor = -np.inf
            if size == width:
                floor = _below(best[0])
            elif width <= _GROUPS // 2 and count >= 4 * _GROUPS:
                floor = _below(_group_bound(row, count, width, highest))
                if shared and not floor > 0:
                    floor = -np.inf
            for place in range(count):
                score = row[place]
                if score < floor or (shared and score == 0.0):
                    continue
                code = begin + place
                if score != score:
                    return query * documents + code
                value = np.float32(score)
                if size < width:
                    _sift_up(best, best_codes, size, value, code)
                    size += 1
                    if size == width:
                        floor = max(floor, _below(best[0]))
                elif value > best[0]:
                    last, out = best[0], best_codes[0]
                    _sift_down(best, best_codes, size, value, code)
                    floor = max(floor, _below(best[0]))
                    if best[0] == last:
                        tied[query, out >> 3] |= np.uint8(128 >> (out & 7))
                        ties[query] += 1
                    elif ties[query]:
                        tied[query, :] = 0
                        ties[query] = 0
                elif value == best[0]:
                    # Codes ascend: a document that only ties with the last place is the worse of the two.
                    tied[query, code >> 3] |= np.uint8(128 >> (code & 7))
                    ties[query] += 1
            sizes[query] = size
    for query in range(queries):
        best, best_codes = values[query], codes[query]
        for place in range(sizes[query] - 1, -1, -1):
            scores[query, place], tools[query, place] = best[0], best_codes[0]
            _sift_down(best, best_codes, place, best[place], best_codes[place])
    return -1


@numba.njit(cache=True, nogil=True)
def _group_bound(row, count, width, highest):  # type: ignore[no-untyped-def]
    """A number that at least `width` of the scores reach: close to the `width`-th of the groups' highest scores."""
    highest[:] = row[:_GROUPS]
    for start in range(_GROUPS, count - _GROUPS + 1, _GROUPS):
        for group in range(_GROUPS):
            score = row[start + group]
            highest[group] = score if score > highest[group] else highest[group]
    low, high = highest.min(), highest.max()
    for _ in range(12):
        middle, reach = (low + high) / 2, 0
        for group in range(_GROUPS):
            if highest[group] < middle:
                continue
            reach += 1
        if reach >= width:
            low = middle
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def _below(value):  # type: ignore[no-untyped-def]
    """A number below everything that float32 rounds to the value."""
    return value - abs(value) * 1e-6 - 1e-44


@numba.njit(cache=True, nogil=True)
def _first_from(numbers, low, high, least):  # type: ignore[no-untyped-def]
    """The first position from `low` to `high` with a number of at least `least`, else `high`; the numbers ascend."""
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def _sift_up(values, codes, size, value, code):  # type: ignore[no-untyped-def]
    """Add an entry, whose code is the highest, to a heap of this size."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if not value <= values[above]:
            break
        values[place], codes[place] = values[above], codes[above]
        place = above
    values[place], codes[place] = value, code


@numba.njit(cache=True, nogil=True)
def _sift_down(values, codes, size, value, code):  # type: ignore[no-untyped-def]
    """Replace the root of a heap of this size."""
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
