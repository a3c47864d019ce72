"""Do learnt depths find more than a fixed depth that shows as many tools?

    python benchmarks/adaptive_depth.py [--limit 600] [--base METHOD ...] [DATASET ...]

`adaptive-depth` and its base rank the test queries, at most `--limit` of each dataset, evenly spaced. The fixed depth
is the mean number of tools that `adaptive-depth` shows; where it lies between two numbers, hits are mixed in
proportion. The interval of the difference is over units of independence.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from bench.base.spec import parse
from bench.interface import History, Library, Queries
from bench.metrics.goldranks import GoldRanks
from bench.registry import build_method, load_dataset
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals

DEEPEST = 20


def main() -> None:
    """Print a row for each dataset and base."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=["starter", "github-mcp", "metatool", "toollens"])
    parser.add_argument("--base", nargs="+", default=["bm25", "dense"])
    parser.add_argument("--limit", type=int, default=600)
    chosen = parser.parse_args()
    print(
        "| dataset | base | queries | tools shown | found | fixed depth | difference |\n|---|---|---|---|---|---|---|"
    )
    for name in chosen.datasets:
        dataset = load_dataset(name)
        rows = dataset.rows("test")[dataset.gold.counts[dataset.rows("test")] > 0]
        rows = rows[np.linspace(0, len(rows) - 1, min(chosen.limit, len(rows))).round().astype(np.int64)]
        library = Library.of(dataset, dataset.card.template)
        history, queries = History.of(dataset, library, rows), Queries.of(dataset, rows)
        for base in chosen.base:
            first, shown = [], np.zeros(0)
            for spec in (base, f"adaptive-depth(base={base})"):
                method = build_method(parse(spec))
                method.fit(history)
                method.index(library)
                tools = method.rank(queries, DEEPEST).tools
                first.append(GoldRanks.of(tools, dataset.gold.take(rows)).ranks[:, 0])
                shown = (tools >= 0).sum(axis=1)
            mean = float(shown.mean())
            whole, part = int(mean), mean % 1
            fixed = (1 - part) * (first[0] <= whole) + part * (first[0] <= whole + 1)
            found = first[1] <= DEEPEST
            difference: NDArray[np.float64] = (found - fixed)[:, None]
            (low, high), *_ = bca_intervals(difference, seed=0, units=number_units(dataset.units[rows]), span=(-1, 1))
            print(
                f"| {name} | {base} | {len(rows)} | {mean:.1f} | {found.mean():.3f} | {fixed.mean():.3f} | "
                f"{difference.mean():+.3f} ({low:+.3f} to {high:+.3f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
