"""How time and memory of a method grow with the library, from a thousand tools to a million, beside a peer.

    python benchmarks/scale.py lexical [--sizes 1000,10000,100000,1000000] [--queries 5000] [--only bm25 bm25s]
    python benchmarks/scale.py random

Texts are those of `lexical.py`: 20 to 120 words of a Zipf distribution over 20,000 words, queries of 8 to 30. Each
measurement is a process of its own, one after the other, so that its peak of memory is its own; the texts, which all
sides are given, are counted apart. Every side splits texts into words, indexes them, and ranks the best 100 tools for
each query with as many threads as there are processors (OMP_NUM_THREADS changes that); compiled code is loaded, or
compiled, on a small library before the clock starts. The growth is the exponent b of time = a * tools ^ b between the
last two sizes: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from lexical import indexed, texts

from bench.data.tables import Tool
from bench.evaluation.machine import peak_memory_mib, reset_peak_memory
from bench.protocol import Library, Queries

DEPTH = 100
#: Part -> what is measured: methods of bench by their specs, and peers.
PARTS = {"lexical": ("bm25", "tfidf", "bm25s"), "random": ("random",)}
#: Seconds to index the documents and to rank the queries.
Times = tuple[float, float]


def by_bench(spec: str, documents: Sequence[str], asked: Sequence[str]) -> Times:
    tools = tuple(Tool(f"{i:07}", "", text) for i, text in enumerate(documents))
    library = Library(tools, tuple(documents), "description", np.empty((0, 2), dtype=np.int32))
    queries = Queries(tuple(asked), np.arange(len(asked)))
    started = time.perf_counter()
    method = indexed(spec, library)
    ready = time.perf_counter()
    for start in range(0, len(asked), method.batch_size):
        method.rank(queries.take(np.arange(start, min(len(asked), start + method.batch_size))), DEPTH)
    return ready - started, time.perf_counter() - ready


def by_bm25s(documents: Sequence[str], asked: Sequence[str]) -> Times:
    import bm25s

    def split(given: Sequence[str]) -> object:
        return bm25s.tokenize(list(given), stopwords=None, token_pattern=r"[^\W_]+", show_progress=False)

    started = time.perf_counter()
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
    index.index(split(documents), show_progress=False)
    ready = time.perf_counter()
    index.retrieve(split(asked), k=min(DEPTH, len(documents)), show_progress=False, n_threads=threads())
    return ready - started, time.perf_counter() - ready


def threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS", 0)) or len(os.sched_getaffinity(0))


def measure(what: str, tools: int, queries: int) -> None:
    """Print the seconds and the MiB of one side as JSON."""
    random = np.random.default_rng(0)
    documents, asked = texts(tools, 20, 120, random), texts(queries, 8, 30, random)
    work: Callable[[Sequence[str], Sequence[str]], Times]
    work = by_bm25s if what == "bm25s" else lambda library, found: by_bench(what, library, found)
    # Large enough for compiled loops.
    work(texts(20_000, 2, 4, random), asked[:2])
    reset_peak_memory()
    before = _resident()
    index, rank = work(documents, asked)
    peak = peak_memory_mib() or math.nan
    print(json.dumps({"index": index, "rank": rank, "memory": peak - before}))


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--only", nargs="*", help="these sides alone")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure[0], int(given.measure[1]), given.queries)
        return
    print(f"{given.queries} queries, best {DEPTH}, {threads()} threads, load {os.getloadavg()[0]:.1f} at the start")
    print("| side | tools | index, s | rank, s | both, s | MiB | growth of time | of memory |\n" + "|---" * 8 + "|")
    for side in given.only or PARTS[given.part]:
        last: tuple[int, float, float] | None = None
        for size in map(int, given.sizes.split(",")):
            command = [sys.executable, __file__, given.part, "--queries", str(given.queries)]
            done = subprocess.run([*command, "--measure", side, str(size)], check=True, capture_output=True, text=True)
            seen = json.loads(done.stdout.splitlines()[-1])
            both, memory = seen["index"] + seen["rank"], seen["memory"]
            growth = ["", ""]
            if last:
                step = math.log(size / last[0])
                growth = [f"{math.log(both / last[1]) / step:.2f}", f"{math.log(memory / last[2]) / step:.2f}"]
            row = (
                side,
                f"{size:,}",
                *(f"{seen[key]:.2f}" for key in ("index", "rank")),
                f"{both:.2f}",
                f"{memory:.0f}",
            )
            print("| " + " | ".join([*row, *growth]) + " |", flush=True)
            last = (size, both, memory)


if __name__ == "__main__":
    main()
