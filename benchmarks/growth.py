"""How CPU time and memory of whole runs grow with tools and with queries, and those of comparisons with systems.

    python benchmarks/growth.py [--tools 20000,60000,180000] [--queries 1000,3000,9000] [--systems 6,18,54]

Runs are `bench run -m bm25` on made-up libraries with the texts of `lexical.py`. Each dataset is run twice, each time
in a process of its own: first with an empty cache, then again with another k1. One size varies while the other is the
first of its list. `bench compare` compares systems on the first number of queries with 1,000 tools; its size is the
number of pairs. The powers are the
exponents b of CPU seconds = a * size ^ b, and of MiB, by least squares over the logarithms of all sizes: 1 is linear.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from lexical import texts

from bench.data.dataset import Dataset
from bench.data.parquet import write_dataset
from bench.data.tables import Query, Tables, Tool
from bench.registry import load_dataset

RUN = "run", "-d", "growth", "--quiet", "-m"
METHODS = {"first": "bm25", "again": "bm25(k1=1.5)"}


def add(folder: Path, tools: int, queries: int) -> None:
    """Write the tables of a made-up dataset where `bench data add` puts them."""
    random = np.random.default_rng(0)
    library = [Tool(f"{i:07}", f"tool {i}", text) for i, text in enumerate(texts(tools, 20, 120, random))]
    gold = random.integers(tools, size=queries).tolist()
    asked = [
        Query(f"{i:07}", text, {library[tool].tool_id: 1})
        for i, (text, tool) in enumerate(zip(texts(queries, 8, 30, random), gold, strict=True))
    ]
    card = load_dataset("starter").card.model_copy(update={"id": "growth", "counts": None, "aliases": []})
    write_dataset(Dataset.build("growth", card, Tables(library, asked)), folder / "data" / "datasets" / "growth")


def cost(folder: Path, *words: str) -> tuple[float, float]:
    """CPU seconds and peak MiB of a command in a process of its own."""
    places = {f"BENCH_{name.upper()}": str(folder / name) for name in ("data", "cache", "results")}
    command = [sys.executable, "-m", "bench", *words]
    process = subprocess.Popen(command, env={**os.environ, **places}, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"`{' '.join(command)}` failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measure(what: str, sizes: Sequence[int], others: int) -> None:
    """Print a row for the first run and one for the second."""
    costs: dict[str, list[tuple[float, float]]] = {run: [] for run in METHODS}
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            # A child's peak counts from its parent's size, which stays small this way.
            adding = get_context("spawn").Process(
                target=add, args=(Path(name), *((size, others) if what == "tools" else (others, size)))
            )
            adding.start()
            adding.join()
            for run, method in METHODS.items():
                costs[run].append(cost(Path(name), *RUN, method))
    for run, measured in costs.items():
        report(what, run, sizes, measured)


def measure_systems(systems: Sequence[int], queries: int) -> None:
    """Print a row for comparisons of so many systems, by pairs."""
    with tempfile.TemporaryDirectory() as name:
        adding = get_context("spawn").Process(target=add, args=(Path(name), 1_000, queries))
        adding.start()
        adding.join()
        methods = [f"bm25(k1={0.5 + i / 40})" for i in range(max(systems))]
        for method in methods:
            cost(Path(name), *RUN, method)
        measured = [cost(Path(name), "compare", *methods[:count], "-d", "growth") for count in systems]
    report("systems", "compare", [count * (count - 1) // 2 for count in systems], measured)


def report(what: str, run: str, sizes: Sequence[int], measured: Sequence[tuple[float, float]]) -> None:
    """Print a row: seconds, MiB, and the powers by which they grow."""
    powers = np.polyfit(np.log(sizes), np.log(measured), 1)[0]
    seconds, memory = zip(*measured, strict=True)
    cells = [", ".join(map("{:.1f}".format, seconds)), ", ".join(map("{:.0f}".format, memory))]
    row = [what, run, ", ".join(map("{:,}".format, sizes)), *cells, "{:.2f}, {:.2f}".format(*powers)]
    print("| " + " | ".join(row) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for size, usual in (("--tools", "20000,60000,180000"), ("--queries", "1000,3000,9000"), ("--systems", "6,18,54")):
        parser.add_argument(size, type=lambda text: [int(part) for part in text.split(",")], default=usual)
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the start\n| | run | sizes | CPU, s | MiB | powers |\n{'|---' * 6}|")
    measure("tools", given.tools, given.queries[0])
    measure("queries", given.queries, given.tools[0])
    measure_systems(given.systems, given.queries[0])


if __name__ == "__main__":
    main()
