"""Lexical retrieval speed: bm25-okapi beside rank_bm25, and bm25 beside bm25s with its NumPy backend.

    python benchmarks/lexical.py [--tools 16000] [--queries 1000]

Texts are drawn from a Zipf distribution over 20,000 words, tools of 20 to 120 words and queries of 8 to 30, so
frequent words are as frequent as in English. Each side splits at white space, scores every tool and returns the best
100, bm25 by products and by postings too. Indexing is not timed. rank_bm25 is timed on some of the queries (it scores
one at a time) and scaled up.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi

from bench.data.tables import Tool
from bench.interface import Library, Method, Queries
from bench.registry import build_method
from bench.search.lexical import LexicalIndex

if TYPE_CHECKING:
    import scipy.sparse as sp


def best(work: Callable[[], Any], repeats: int = 5) -> tuple[float, Any]:
    """The shortest of several times, and the last answer."""
    times, answer = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - started)
    return min(times), answer


def texts(count: int, shortest: int, longest: int, random: np.random.Generator) -> list[str]:
    chance = 1 / np.arange(1, 20_001)
    chance /= chance.sum()
    sizes = random.integers(shortest, longest, size=count)
    words = random.choice(len(chance), size=int(sizes.sum()), p=chance)
    return [" ".join(f"w{word}" for word in part) for part in np.split(words, np.cumsum(sizes)[:-1])]


def indexed(spec: str, library: Library) -> Method:
    method = build_method(spec)
    method.index(library)
    return method


def two_ways(index: LexicalIndex, counts: sp.csr_matrix) -> None:
    """CPU of a query by products and by postings, in calls of several sizes."""
    for size in (1, 64, 1024):
        calls = [counts[start : start + size] for start in range(0, min(counts.shape[0], 100 * size), size)]
        used: dict[bool, list[float]] = {False: [], True: []}
        for chosen in (False, True) * 4:
            index._work.compile = partial(lambda chosen, queries, documents: chosen, chosen)  # type: ignore[method-assign]
            started = time.process_time()
            for call in calls:
                index.rank(call, 100, shared=True)
            used[chosen].append((time.process_time() - started) / len(calls) / calls[0].shape[0] * 1e6)
        products, postings = (statistics.median(times[1:]) for times in used.values())
        print(f"{size} queries a call: products {products:.0f} us, postings {postings:.0f} us of CPU a query")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=16_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--timed", type=int, default=30, help="queries that rank_bm25 is timed on")
    chosen = parser.parse_args()
    random = np.random.default_rng(0)
    documents = texts(chosen.tools, 20, 120, random)
    query_texts = texts(chosen.queries, 8, 30, random)
    rows = tuple(Tool(f"{i:06}", "", text) for i, text in enumerate(documents))
    library = Library(rows, tuple(documents), "description", np.empty((0, 2), dtype=np.int32))
    queries = Queries(tuple(query_texts), np.arange(len(query_texts)))

    okapi = indexed("bm25-okapi", library)
    ours, _ = best(lambda: okapi.rank(queries, 100))
    reference = BM25Okapi([text.split() for text in documents])
    some = min(chosen.timed, len(query_texts))
    started = time.perf_counter()
    expected = [reference.get_scores(text.split()) for text in query_texts[:some]]
    top = [np.argsort(scores)[::-1][:100] for scores in expected]
    theirs = (time.perf_counter() - started) / some * len(query_texts)
    scores = okapi.score(queries.take(np.arange(some)))  # type: ignore[attr-defined]
    print(f"{chosen.tools} tools, {chosen.queries} queries, best 100 of each")
    print(f"bm25-okapi        {ours:8.3f} s")
    print(f"rank_bm25         {theirs:8.3f} s  (timed on {len(top)} queries)")
    print(f"ratio             {theirs / ours:8.1f}")
    print(f"largest difference of any score: {np.abs(scores - np.array(expected)).max():.1e}")

    plain = indexed("bm25(tokens=whitespace, k1=1.5)", library)
    peer = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
    peer.index([text.split() for text in documents], show_progress=False)
    split = [text.split() for text in query_texts]
    # In turn, so that a change of the machine's speed meets both.
    mine, other = [], []
    for _ in range(5):
        mine.append(best(lambda: plain.rank(queries, 100), 1)[0])
        other.append(best(lambda: peer.retrieve(split, k=100, show_progress=False, n_threads=0), 1)[0])
    retrieved, _ = peer.retrieve(split, k=1, show_progress=False)
    first = plain.rank(queries, 1).tools
    print(f"bm25              {min(mine):8.3f} s")
    print(f"bm25s (numpy)     {min(other):8.3f} s")
    print(f"ratio             {min(other) / min(mine):8.1f}")
    print(f"same first tool for {np.mean(np.asarray(retrieved)[:, 0] == first[:, 0]):.1%} of the queries")
    lexical: LexicalIndex = plain._index  # type: ignore[attr-defined]
    two_ways(lexical, lexical.counts(split))


if __name__ == "__main__":
    main()
