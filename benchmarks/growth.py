"""How CPU time and memory of a whole run grow with tools and with queries: `bench run -m bm25` on made-up libraries.

    python benchmarks/growth.py [--tools 20000,60000,180000] [--queries 1000,3000,9000]

Texts are those of `lexical.py`. Each dataset is added by its tables and run twice, each time in a process of its own:
first with an empty cache, then again with another k1. One size varies while the other is the first of its list. The
last column is the exponent b of CPU seconds = a * size ^ b (or MiB) by least squares over all sizes: 1 is linear.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from lexical import texts

from bench.data.dataset import Dataset
from bench.data.parquet import write_dataset
from bench.data.tables import Query, Tables, Tool
from bench.registry import load_dataset

#: Dataset -> method of the first run and of the second.
METHODS = ("bm25", "bm25(k1=1.5)")
Cost = tuple[float, float]


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


def cost(folder: Path, method: str) -> Cost:
    """CPU seconds and peak MiB of a run in a process of its own."""
    places = {f"BENCH_{name.upper()}": str(folder / name) for name in ("data", "cache", "results")}
    command = [sys.executable, "-m", "bench", "run", "-m", method, "-d", "growth", "--quiet"]
    process = subprocess.Popen(command, env={**os.environ, **places}, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"`{' '.join(command)}` failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def power(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of a line through logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for size, usual in (("--tools", "20000,60000,180000"), ("--queries", "1000,3000,9000")):
        parser.add_argument(size, type=lambda text: [int(part) for part in text.split(",")], default=usual)
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the start\n| | {'sizes'} | CPU, s | MiB | powers |\n" + "|---" * 5 + "|")
    for what, pairs in (
        ("tools", [(tools, given.queries[0]) for tools in given.tools]),
        ("queries", [(given.tools[0], queries) for queries in given.queries]),
    ):
        costs: list[list[Cost]] = []
        for pair in pairs:
            with tempfile.TemporaryDirectory() as name:
                add(Path(name), *pair)
                costs.append([cost(Path(name), method) for method in METHODS])
        sizes = [max(pair) if what == "tools" else pair[1] for pair in pairs]
        for run, measured in zip(("first", "again"), zip(*costs, strict=True), strict=True):
            seconds, memory = zip(*measured, strict=True)
            powers = f"{power(sizes, seconds):.2f}, {power(sizes, memory):.2f}" if len(sizes) > 1 else ""
            print(
                f"| {what}, {run} | {', '.join(f'{size:,}' for size in sizes)} "
                f"| {', '.join(f'{each:.1f}' for each in seconds)} | {', '.join(f'{each:.0f}' for each in memory)} "
                f"| {powers} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
