"""How time and memory of a method grow with the library, from a thousand tools to a million, beside a peer.

    python benchmarks/scale.py lexical [--sizes 1000,10000,100000,1000000] [--queries 5000] [--only bm25 bm25s]
    python benchmarks/scale.py random
    python benchmarks/scale.py scoring

Texts are those of `lexical.py`: 20 to 120 words of a Zipf distribution over 20,000 words, queries of 8 to 30. Each
measurement is a process of its own, one after the other, so that its peak of memory is its own; the texts, which all
sides are given, are counted apart. Every side splits texts into words, indexes them, and ranks the best 100 tools for
each query with as many threads as there are processors (OMP_NUM_THREADS changes that); compiled code is loaded, or
compiled, on a small library before the clock starts. Scoring takes rankings of drawn tools, with one gold tool among
the first 20 and another anywhere, and is timed twice: with an empty cache, and again when the numbers of each tool are
kept. The growth is the exponent b of time = a * tools ^ b between the last two sizes: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from lexical import indexed, texts

from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool
from bench.evaluation.answers import Answers
from bench.evaluation.machine import peak_memory_mib, reset_peak_memory
from bench.evaluation.scoring import score
from bench.metrics.ties import Beyond
from bench.protocol import Library, Queries, Ranking
from bench.protocol.ranking import validate
from bench.registry import load_dataset

DEPTH = 100
#: Part -> what is measured: methods of bench by their specs, and peers.
PARTS = {"lexical": ("bm25", "tfidf", "bm25s"), "random": ("random",), "scoring": ("scoring",)}
#: Part -> what is timed, in two steps.
STEPS = {"lexical": ("index", "rank"), "random": ("index", "rank"), "scoring": ("first", "again")}
#: Seconds of the two steps.
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


def by_scoring(documents: Sequence[str], asked: Sequence[str]) -> Times:
    """Score the same answers twice, with a cache that is empty at first."""
    random = np.random.default_rng(1)
    depth = min(DEPTH, len(documents))
    ranked = np.array([random.choice(len(documents), depth, replace=False, shuffle=False) for _ in asked], np.int32)
    scores = np.tile(np.linspace(9, 1, depth), (len(asked), 1))
    tools = tuple(Tool(f"{i:07}", f"tool {i}", text) for i, text in enumerate(documents))
    queries = []
    for i, text in enumerate(asked):
        gold = {int(ranked[i, random.integers(20)]), int(random.integers(len(documents)))}
        queries.append(Query(f"{i:07}", text, {tools[tool].tool_id: 1 for tool in gold}))
    dataset = Dataset.build("scale", load_dataset("starter").card, Tables(tools, tuple(queries), ()))
    # A run knows these before it is scored.
    assert dataset.content_hash
    assert len(dataset.units) == len(asked)
    answers = Answers(validate(Ranking(ranked, scores), len(asked), len(tools), depth), Beyond.none(len(asked)), None)
    rows, times = np.arange(len(asked)), []
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, BENCH_CACHE=folder):
        for _ in range(2):
            started = time.perf_counter()
            score("scale", dataset, rows, answers, "description", depth=DEPTH)
            times.append(time.perf_counter() - started)
    return times[0], times[1]


def threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS", 0)) or len(os.sched_getaffinity(0))


def measure(what: str, tools: int, queries: int) -> None:
    """Print the seconds and the MiB of one side as JSON."""
    random = np.random.default_rng(0)
    documents, asked = texts(tools, 20, 120, random), texts(queries, 8, 30, random)
    work: Callable[[Sequence[str], Sequence[str]], Times]
    peers = {"bm25s": by_bm25s, "scoring": by_scoring}
    work = peers.get(what, lambda library, found: by_bench(what, library, found))
    # Large enough for compiled loops.
    work(texts(20_000, 2, 4, random), asked[:2])
    reset_peak_memory()
    before = _resident()
    times = work(documents, asked)
    peak = peak_memory_mib() or math.nan
    print(json.dumps({"times": times, "memory": peak - before}))


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
    first, second = STEPS[given.part]
    print(
        f"| side | tools | {first}, s | {second}, s | both, s | MiB | growth of time | of memory |\n" + "|---" * 8 + "|"
    )
    for side in given.only or PARTS[given.part]:
        last: tuple[int, float, float] | None = None
        for size in map(int, given.sizes.split(",")):
            command = [sys.executable, __file__, given.part, "--queries", str(given.queries)]
            done = subprocess.run([*command, "--measure", side, str(size)], check=True, capture_output=True, text=True)
            seen = json.loads(done.stdout.splitlines()[-1])
            both, memory = sum(seen["times"]), seen["memory"]
            growth = ["", ""]
            if last:
                step = math.log(size / last[0])
                growth = [f"{math.log(both / last[1]) / step:.2f}", f"{math.log(memory / last[2]) / step:.2f}"]
            row = (
                side,
                f"{size:,}",
                *(f"{seconds:.2f}" for seconds in seen["times"]),
                f"{both:.2f}",
                f"{memory:.0f}",
            )
            print("| " + " | ".join([*row, *growth]) + " |", flush=True)
            last = (size, both, memory)


if __name__ == "__main__":
    main()
