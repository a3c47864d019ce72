"""Exact dense search and the cache of vectors at scale, beside faiss: `scale_dense.py search|cache [TOOLS]`.

Vectors are random, of 384 dimensions. Both search in turns in one process, on OMP_NUM_THREADS threads; medians of
CPU seconds.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.models.vectorcache import VectorCache, text_key
from bench.search.dense import VectorIndex

SIZE, DEPTH = 384, 100


def vectors(count: int) -> NDArray[np.float32]:
    """(count, SIZE) of length 1."""
    rows = np.empty((count, SIZE), dtype=np.float32)
    random = np.random.default_rng(0)
    for start in range(0, count, 10_000):
        part = rows[start : start + 10_000]
        random.standard_normal(out=part, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long it takes."""
    started = clock()
    work()
    return clock() - started


def search(tools: int) -> None:
    """1,000 queries at once, and single ones."""
    import faiss

    faiss.omp_set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    library, queries = vectors(tools), vectors(1000)
    index, peer = VectorIndex(library, "cosine"), faiss.IndexFlatIP(SIZE)
    peer.add(library)
    for name, batch, times in (("1,000 queries", queries, 3), ("one query", queries[:1], 15)):
        our_times, other = [], []
        for _ in range(times):
            our_times.append(seconds(partial(index.rank, batch, DEPTH), time.process_time))
            other.append(seconds(partial(peer.search, batch, DEPTH), time.process_time))
        mine, theirs = statistics.median(our_times), statistics.median(other)
        print(f"{tools} tools, {name}: bench {mine:.4f} s, faiss {theirs:.4f} s, ratio {mine / theirs:.2f}")


def cache(tools: int) -> None:
    """Store vectors in parts, and read them back."""
    rows, keys = vectors(tools), [text_key(str(i)) for i in range(tools)]
    with tempfile.TemporaryDirectory() as folder:
        kept = VectorCache("benchmark", Path(folder))
        parts = [dict(zip(keys[i : i + 2048], rows[i : i + 2048], strict=True)) for i in range(0, tools, 2048)]

        def write() -> None:
            for part in parts:
                kept.put(part)

        written = seconds(write)
        read = seconds(lambda: kept.get(keys))
        print(
            f"{tools} vectors: written in {written:.2f} s, read in {read:.2f} s, {kept.path.stat().st_size >> 20} MiB"
        )
        kept.close()


if __name__ == "__main__":
    {"search": search, "cache": cache}[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
