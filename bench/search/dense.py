"""Exact search by vectors: an index of a library, built once, that ranks under the tie rule. Methods call it.

Similarities count in float64, rounded to float32 by `top_k`. A large library is searched in float32 first: the error of
its products has a proven bound, so that only tools close to the last place of the ranking must be computed in float64.
The ranking is the one that float64 gives for all of them.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.interface.method import Similarity
from bench.interface.ranking import Ranking
from bench.models.shards import active_spreader
from bench.search.topk import blocks, join_blocks, top_k

Vectors = NDArray[np.float32] | NDArray[np.float64]
Matrix = NDArray[np.float64]

#: A library of at most this many numbers is kept in float64 and searched in full (10,900 tools of 384 dimensions).
_SMALL = 1 << 22
#: Queries per search and approximate scores in memory. With the buffers for candidates, a search takes about 32 MiB
#: besides the vectors and the ranking, however large the library.
_QUERIES, _SCORES = 512, 1 << 22
#: From this many products of numbers on, other machines help if there are any; each takes this many queries at a time.
_SPREAD, _SPREAD_QUERIES = 1 << 33, 128
#: Up to this many queries are faster one by one: reading the library takes most of the time, and BLAS reads it slowly.
_FEW = 3
#: Numbers to convert to float64 at once.
_CONVERTED = 1 << 20
#: Largest size of a group of tools of which only the highest score counts for the bound of the last place.
_GROUP = 64
#: A query with more candidates than this is computed in float64 for the whole library: nearly all tools are alike.
_CROWD = 4096
#: Between these lengths no product of two vectors comes close to the range in which float32 loses digits.
_SHORTEST, _LONGEST = 1e-8, 1e8
#: A vector whose length differs from 1 by at most this much counts as one of length 1 in float32 products: four terms.
_ROUNDING = 4 * 2.0**-24


def normalize(vectors: Vectors) -> Matrix:
    """Rows scaled to length 1; rows of zeros stay zero."""
    wide = vectors.astype(np.float64)
    return _scale(wide, np.linalg.norm(wide, axis=1))


def similarities(queries: Vectors, tools: Vectors, similarity: Similarity) -> Matrix:
    """(queries, tools) float64 similarities; for l1 and l2 the negated distance.

    Computed in float64, so that equal vectors tie exactly once rounded to float32.
    """
    return _compare(_wide(queries, similarity), _wide(tools, similarity), similarity)


class VectorIndex:
    """The vectors of a library, prepared for search: everything independent of the query is computed once.

    Rankings and scores are those of `similarities` and `top_k` over the whole library. They depend neither on the
    number of queries in a call nor on the number of threads: float64 values are rounded to float32.

    Args:
        vectors: (tools, dimensions) in code order. Those of a large library are not copied: do not modify them.
        similarity: the similarity measure.
    """

    def __init__(self, vectors: Vectors, similarity: Similarity) -> None:
        self.vectors = vectors
        self.similarity: Similarity = similarity
        self._all: Matrix | None = None
        if vectors.size <= _SMALL:
            self._all = _wide(vectors, similarity)
            return
        self._single = np.ascontiguousarray(vectors, dtype=np.float32)
        lengths = np.concatenate([np.linalg.norm(vectors[part].astype(np.float64), axis=1) for part in self._parts()])
        others = lengths[lengths != 0]
        self._bounded = _within(others)
        self._longest = 1.0 if similarity == "cosine" else float(others.max(initial=0.0))
        self._lengths = np.where(lengths != 0, lengths, 1.0)
        self._inverse: NDArray[np.float32] | None = None
        # Most encoders give vectors of length 1 but for rounding, which the error bound includes.
        if similarity == "cosine" and self._bounded and np.abs(others - 1).max(initial=0.0) > _ROUNDING:
            self._inverse = (1 / self._lengths).astype(np.float32)

    def __len__(self) -> int:
        return len(self.vectors)

    def score(self, queries: Vectors) -> Matrix:
        """(queries, tools) float64 similarities with all tools."""
        return self._scores(_wide(queries, self.similarity))

    def rank(self, queries: Vectors, depth: int) -> Ranking:
        """The nearest `depth` tools of each query, with the tools tied beyond the depth.

        Raises:
            Violation: a similarity is NaN.
        """
        work, spreader = queries.size * len(self), active_spreader()
        if spreader is None or work < _SPREAD:
            return self._rank(queries, depth)
        parts = [queries[start : start + _SPREAD_QUERIES] for start in range(0, len(queries), _SPREAD_QUERIES)]
        return join_blocks(spreader.searched(partial(_rank, depth=depth), self, parts), len(self), depth)

    def _rank(self, queries: Vectors, depth: int) -> Ranking:
        query_vectors, tools = _wide(queries, self.similarity), len(self)
        width = min(depth, tools)
        if not self._proven(query_vectors) or 2 * width > tools:
            parts = [top_k(self._scores(query_vectors[rows]), depth) for rows in blocks(len(query_vectors), tools)]
        else:
            starts = range(0, len(query_vectors), _QUERIES)
            parts = [self._nearest(query_vectors[start : start + _QUERIES], width) for start in starts]
        return join_blocks(parts, tools, depth)

    def _parts(self) -> list[slice]:
        step = max(1, _CONVERTED // max(1, self.vectors.shape[1]))
        return [slice(start, start + step) for start in range(0, len(self), step)]

    def _scores(self, query_vectors: Matrix) -> Matrix:
        if self._all is not None:
            return _compare(query_vectors, self._all, self.similarity)
        scores = np.empty((len(query_vectors), len(self)))
        for part in self._parts():
            scores[:, part] = _compare(query_vectors, _wide(self.vectors[part], self.similarity), self.similarity)
        return scores

    def _proven(self, query_vectors: Matrix) -> bool:
        """Whether the error bound of float32 products is valid."""
        if self._all is not None or self.similarity not in ("cosine", "dot") or not self._bounded:
            return False
        lengths = np.linalg.norm(query_vectors, axis=1)
        return _within(lengths[lengths != 0])

    def _nearest(self, query_vectors: Matrix, width: int) -> Ranking:
        """The nearest `width` tools: candidates by float32 products, ordered by float64."""
        rows, codes, crowded = self._candidates(query_vectors, width)
        tools = np.empty((len(query_vectors), width), dtype=np.int32)
        scores = np.empty((len(query_vectors), width), dtype=np.float32)
        tied = None
        ends = np.cumsum(np.bincount(rows, minlength=len(query_vectors)))
        for query, near in enumerate(np.split(codes, ends[:-1])):
            if not len(near):
                continue
            values = self._exact(query_vectors[query], near)
            order = np.argsort(-values, kind="stable")
            tools[query], scores[query] = near[order[:width]], values[order[:width]]
            beyond = near[order[width:]][values[order[width:]] == scores[query, -1]]
            if len(beyond):
                tied = self._none_tied(query_vectors) if tied is None else tied
                # As in `np.packbits`: the first tool is the highest bit.
                np.bitwise_or.at(tied[query], beyond >> 3, np.right_shift(128, beyond & 7).astype(np.uint8))
        for part in blocks(len(crowded), len(self)):
            here = crowded[part]
            whole = top_k(self._scores(query_vectors[here]), width)
            assert whole.scores is not None
            tools[here], scores[here] = whole.tools, whole.scores
            if whole.tied_beyond is not None:
                tied = self._none_tied(query_vectors) if tied is None else tied
                tied[here] = whole.tied_beyond
        return Ranking(tools, scores, tied_beyond=tied)

    def _none_tied(self, query_vectors: Matrix) -> NDArray[np.uint8]:
        return np.zeros((len(query_vectors), (len(self) + 7) // 8), dtype=np.uint8)

    def _exact(self, query_vector: Matrix, codes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Similarities with tools, by float64: each sum in a fixed order, so equal vectors get equal scores."""
        step = max(1, _CONVERTED // len(query_vector))
        parts = (self.vectors[codes[start : start + step]] for start in range(0, len(codes), step))
        sums = np.concatenate([np.vecdot(part.astype(np.float64), query_vector) for part in parts])
        return (sums / self._lengths[codes] if self.similarity == "cosine" else sums).astype(np.float32)

    def _candidates(
        self, query_vectors: Matrix, width: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of a query and a tool that include every tool of the ranking and every tool that ties with its last.

        Let E be the largest error of an approximate score, and A the `width`-th highest score. That many tools score at
        least A - E, so a tool that scores no less than the last of the ranking has an approximate score of at least A -
        2 E. A lower value than A works too: the `width`-th highest among some of the tools.

        Returns:
            Queries and tools, one pair per row, in order; and the queries left out because too many tools are close to
            the last.
        """
        single, asking = query_vectors.astype(np.float32), len(query_vectors)
        margin = 2 * _error(query_vectors.shape[1]) * np.linalg.norm(query_vectors, axis=1) * self._longest
        step = min(max(_GROUP, _SCORES // asking), len(self))
        size = _GROUP
        while size > 1 and step // size < 4 * width:
            size //= 2
        buffer = np.empty(asking * step, dtype=np.float32)
        best = np.full((asking, width), -np.inf, dtype=np.float32)
        pairs, values = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        crowded, crowd = np.zeros(asking, dtype=np.bool_), max(_CROWD, 4 * width)
        for start in range(0, len(self), step):
            part = slice(start, min(start + step, len(self)))
            scores = buffer[: asking * (part.stop - start)].reshape(asking, -1)
            if asking > _FEW:
                np.matmul(single, self._single[part].T, out=scores)
            else:
                for query in range(asking):
                    np.einsum("ij,j->i", self._single[part], single[query], out=scores[query])
            if self._inverse is not None:
                scores *= self._inverse[part]
            # Interleaved groups of tools, and the tools after them.
            groups = scores.shape[1] // size
            whole = groups * size
            highest = scores[:, :whole].reshape(asking, size, groups).max(axis=1)
            pool = np.concatenate([best, highest, scores[:, whole:]], axis=1)
            best = np.partition(pool, pool.shape[1] - width, axis=1)[:, -width:]
            low = np.where(crowded, np.inf, best[:, 0].astype(np.float64) - margin)
            # Rounded down: the bound must not lose a tool.
            floor = np.nextafter(low.astype(np.float32), np.float32(-np.inf))
            high = np.zeros(-(-scores.size // 8) * 8, dtype=np.bool_)
            np.greater_equal(scores, floor[:, None], out=high[: scores.size].reshape(scores.shape))
            # Most eights of tools have none that is close enough.
            eights = np.flatnonzero(high.view(np.uint64) != 0)
            inside = np.flatnonzero(high.reshape(-1, 8)[eights])
            rows, codes = np.divmod(8 * eights[inside >> 3] + (inside & 7), scores.shape[1])
            pairs = np.concatenate([pairs, rows * len(self) + start + codes])
            values = np.concatenate([values, scores[rows, codes]])
            if part.stop == len(self) or len(pairs) > asking * crowd // 8:
                rows = pairs // len(self)
                kept = values >= floor[rows]
                crowded |= np.bincount(rows[kept], minlength=asking) > crowd
                kept &= ~crowded[rows]
                pairs, values = pairs[kept], values[kept]
        pairs.sort()
        return *np.divmod(pairs, len(self)), np.flatnonzero(crowded)


def _rank(index: VectorIndex, queries: Vectors, depth: int) -> Ranking:
    """The work of a cluster node for another one."""
    return index._rank(queries, depth)


def search(queries: Vectors, tools: Vectors, similarity: Similarity, depth: int) -> Ranking:
    """The nearest `depth` tools of each query vector."""
    return VectorIndex(tools, similarity).rank(queries, depth)


def _wide(vectors: Vectors, similarity: Similarity) -> Matrix:
    """Vectors in float64, prepared for the comparison."""
    return normalize(vectors) if similarity == "cosine" else vectors.astype(np.float64)


def _compare(queries: Matrix, tools: Matrix, similarity: Similarity) -> Matrix:
    if similarity in ("cosine", "dot"):
        product: Matrix = queries @ tools.T
        return product
    from scipy.spatial.distance import cdist

    return -(cdist(queries, tools, "cityblock") if similarity == "l1" else cdist(queries, tools, "euclidean"))


def _scale(vectors: Matrix, lengths: Matrix) -> Matrix:
    scaled: Matrix = np.divide(vectors, lengths[:, None], out=np.zeros_like(vectors), where=lengths[:, None] > 0)
    return scaled


def _within(lengths: Matrix) -> bool:
    """Whether lengths other than 0 are in the range with an error bound; False for NaN."""
    return bool(np.all((lengths >= _SHORTEST) & (lengths <= _LONGEST)))


def _error(dimensions: int) -> float:
    """The maximum error of a float32 product of two vectors of length 1, including the rounding of what is compared.

    Summed in whatever order, each term of a product of n numbers has a relative error of at most gamma_n = n u /
    (1 - n u), where u = 2^-24 (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1), and the sum
    of the absolute terms is at most the product of the lengths. Vectors rounded to float32, the division by a length
    (or `_ROUNDING`) and the rounding of what is compared add less than 8 terms, and float64 next to nothing; 8 more
    stand for products too small for float32.
    """
    terms = (dimensions + 16) * 2.0**-24
    return terms / (1 - terms)
