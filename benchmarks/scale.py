"""How time and memory of a method grow with the library, from a thousand tools to a million, beside a peer.

    python benchmarks/scale.py lexical [--sizes 1000,10000,100000,1000000] [--queries 5000] [--only bm25 bm25s]
    python benchmarks/scale.py random
    python benchmarks/scale.py scoring
    python benchmarks/scale.py lexical --picture docs/scale-lexical.svg

Texts are those of `lexical.py`: 20 to 120 words of a Zipf distribution over 20,000 words, queries of 8 to 30. Each
measurement is a process of its own, one after the other, so that its peak of memory is its own; the texts, which all
sides are given, are counted apart. Every side splits texts into words, indexes them, and ranks the best 100 tools for
each query with as many threads as there are processors (OMP_NUM_THREADS changes that); compiled code is loaded, or
compiled, on a small library before the clock starts. Scoring takes rankings of drawn tools, with one gold tool among
the first 20 and another anywhere, and is timed twice: with an empty cache, and again when the numbers of each tool are
kept. The growth is the exponent b of time = a * tools ^ b between the last two sizes: 1 is linear. The picture has
both on logarithmic axes, where linear growth runs along the diagonals of the grid.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch
from xml.sax.saxutils import escape

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from lexical import indexed, texts

from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool
from bench.evaluation.ask import Answers
from bench.evaluation.machine import peak_memory_mib, reset_peak_memory
from bench.evaluation.scoring import score
from bench.interface import Library, Queries, Ranking
from bench.interface.ranking import validate
from bench.metrics.ties import UnseenTies
from bench.registry import load_dataset

DEPTH = 100
#: Part -> what is measured: methods of bench by their specs, and peers.
PARTS = {"lexical": ("bm25", "tfidf", "bm25s"), "random": ("random",), "scoring": ("scoring",)}
#: Part -> what is timed, in two steps.
STEPS = {"lexical": ("index", "rank"), "random": ("index", "rank"), "scoring": ("first", "again")}
#: Tools, seconds of both steps, MiB.
Measured = tuple[int, float, float]
_STYLE = (
    'text{font:13px "DejaVu Sans",Verdana,sans-serif;fill:#1a1a1a}.title{font-size:16px;font-weight:bold}'
    ".note{font-size:12px;fill:#555}.end{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#e0e0e0;fill:none}"
    "polyline{fill:none;stroke-width:2}.side0{stroke:#2b5f8a}circle.side0{fill:#2b5f8a}"
    ".side1{stroke:#b2611a}circle.side1{fill:#b2611a}.side2{stroke:#4a7a3f}circle.side2{fill:#4a7a3f}"
    "svg{background:#fff}"
)
#: Seconds of the two steps.
Times = tuple[float, float]


def by_bench(spec: str, documents: Sequence[str], query_texts: Sequence[str]) -> Times:
    tools = tuple(Tool(f"{i:07}", "", text) for i, text in enumerate(documents))
    library = Library(tools, tuple(documents), "description", np.empty((0, 2), dtype=np.int32))
    queries = Queries(tuple(query_texts), np.arange(len(query_texts)))
    started = time.perf_counter()
    method = indexed(spec, library)
    ready = time.perf_counter()
    for start in range(0, len(query_texts), method.batch_size):
        method.rank(queries.take(np.arange(start, min(len(query_texts), start + method.batch_size))), DEPTH)
    return ready - started, time.perf_counter() - ready


def by_bm25s(documents: Sequence[str], query_texts: Sequence[str]) -> Times:
    import bm25s

    def split(given: Sequence[str]) -> object:
        return bm25s.tokenize(list(given), stopwords=None, token_pattern=r"[^\W_]+", show_progress=False)

    started = time.perf_counter()
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
    index.index(split(documents), show_progress=False)
    ready = time.perf_counter()
    index.retrieve(split(query_texts), k=min(DEPTH, len(documents)), show_progress=False, n_threads=threads())
    return ready - started, time.perf_counter() - ready


def by_scoring(documents: Sequence[str], query_texts: Sequence[str]) -> Times:
    """Score the same answers twice, with a cache that is empty at first."""
    random = np.random.default_rng(1)
    depth = min(DEPTH, len(documents))
    ranked = np.array(
        [random.choice(len(documents), depth, replace=False, shuffle=False) for _ in query_texts], np.int32
    )
    scores = np.tile(np.linspace(9, 1, depth), (len(query_texts), 1))
    tools = tuple(Tool(f"{i:07}", f"tool {i}", text) for i, text in enumerate(documents))
    queries = []
    for i, text in enumerate(query_texts):
        gold = {int(ranked[i, random.integers(20)]), int(random.integers(len(documents)))}
        queries.append(Query(f"{i:07}", text, {tools[tool].tool_id: 1 for tool in gold}))
    dataset = Dataset.build("scale", load_dataset("starter").card, Tables(tools, tuple(queries), ()))
    # A run knows these before it is scored.
    assert dataset.content_hash
    assert len(dataset.units) == len(query_texts)
    answers = Answers(
        validate(Ranking(ranked, scores), len(query_texts), len(tools), depth), UnseenTies.none(len(query_texts)), None
    )
    rows, times = np.arange(len(query_texts)), []
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, BENCH_CACHE=folder):
        for _ in range(2):
            started = time.perf_counter()
            score("scale", dataset, rows, [answers], "description", depth=DEPTH)
            times.append(time.perf_counter() - started)
    return times[0], times[1]


def threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS", 0)) or len(os.sched_getaffinity(0))


def measure(what: str, tools: int, queries: int) -> None:
    """Print the seconds and the MiB of one side as JSON."""
    random = np.random.default_rng(0)
    documents, query_texts = texts(tools, 20, 120, random), texts(queries, 8, 30, random)
    work: Callable[[Sequence[str], Sequence[str]], Times]
    peers = {"bm25s": by_bm25s, "scoring": by_scoring}
    work = peers.get(what, lambda library, lines: by_bench(what, library, lines))
    # Large enough for compiled loops.
    work(texts(20_000, 2, 4, random), query_texts[:2])
    reset_peak_memory()
    before, started = _resident(), time.process_time()
    times = work(documents, query_texts)
    peak = peak_memory_mib() or math.nan
    print(json.dumps({"times": times, "cpu": time.process_time() - started, "memory": peak - before}))


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--only", nargs="*", help="these sides alone")
    parser.add_argument("--picture", type=Path, help="draw time and memory into this SVG file")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure[0], int(given.measure[1]), given.queries)
        return
    print(f"{given.queries} queries, best {DEPTH}, {threads()} threads, load {os.getloadavg()[0]:.1f} at the start")
    first, second = STEPS[given.part]
    print(
        f"| side | tools | {first}, s | {second}, s | both, s | CPU, s | MiB | growth of time | of memory |\n"
        + "|---" * 9
        + "|"
    )
    curves: dict[str, list[Measured]] = {}
    for side in given.only or PARTS[given.part]:
        last: Measured | None = None
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
                f"{seen['cpu']:.2f}",
                f"{memory:.0f}",
            )
            print("| " + " | ".join([*row, *growth]) + " |", flush=True)
            last = (size, both, memory)
            curves.setdefault(side, []).append(last)
    if given.picture:
        given.picture.write_text(
            drawn(curves, f"{given.part}: {given.queries} queries, best {DEPTH}"), encoding="utf-8"
        )


def drawn(curves: Mapping[str, Sequence[Measured]], title: str) -> str:
    """Seconds and MiB against tools, side by side on logarithmic axes."""
    across, top, bottom = 95, 80, 370
    parts = [f'<text class="title" x="20" y="28">{escape(title)}</text>']
    for panel, (left, unit) in enumerate(((70, "seconds"), (500, "MiB"))):
        values = [row[panel + 1] for rows in curves.values() for row in rows]
        lowest, first = (
            math.floor(math.log10(min(axis_values)))
            for axis_values in (values, [r[0] for rows in curves.values() for r in rows])
        )

        def x(tools: float, left: int = left, first: int = first) -> float:
            return left + across * (math.log10(tools) - first)

        highest = max(lowest + 1, math.ceil(math.log10(max(values))))
        step = (bottom - top) / (highest - lowest)

        def y(value: float, lowest: int = lowest, step: float = step) -> float:
            return bottom - step * (math.log10(value) - lowest)

        parts.append(f'<text class="note" x="{left}" y="{top - 12}">{unit}</text>')
        last = math.ceil(math.log10(max(r[0] for rows in curves.values() for r in rows)))
        for power in range(lowest, highest + 1):
            parts.append(f'<path class="grid" d="M{left} {y(10.0**power):.1f}H{x(10**last):.1f}"/>')
            parts.append(f'<text class="note end" x="{left - 8}" y="{y(10.0**power) + 4:.1f}">{10.0**power:g}</text>')
        for power in range(first, last + 1):
            parts.append(f'<path class="grid" d="M{x(10**power):.1f} {bottom}V{y(10.0**highest):.1f}"/>')
            parts.append(f'<text class="note middle" x="{x(10**power):.1f}" y="{bottom + 18}">{10**power:,}</text>')
        parts.append(f'<text class="note middle" x="{(left + x(10**last)) / 2:.1f}" y="{bottom + 38}">tools</text>')
        # Names stand beside the last points, one above the other where these are close.
        ends = sorted((y(rows[-1][panel + 1]), side) for side, rows in curves.items())
        low = -math.inf
        for number, rows in enumerate(curves.values()):
            points = " ".join(f"{x(row[0]):.1f},{y(row[panel + 1]):.1f}" for row in rows)
            parts.append(f'<polyline class="side{number}" points="{points}"/>')
            parts += [
                f'<circle class="side{number}" cx="{x(r[0]):.1f}" cy="{y(r[panel + 1]):.1f}" r="3"/>' for r in rows
            ]
        for end, side in ends:
            low = max(end + 4, low + 15)
            parts.append(f'<text x="{x(curves[side][-1][0]) + 9:.1f}" y="{low:.1f}">{escape(side)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 440"><style>{_STYLE}</style>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    main()
