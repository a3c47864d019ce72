"""What hostile systems change for five honest ones on a board: by a family of all systems, and by reference systems.

    python benchmarks/attacks.py [--hostile 86 200] [--datasets apibank starter toolbench-i1-inst]

The five are stored results of the board. Hostile systems are made from their values on each query, and stand before
them, as the first who entered:

copies         of the best system, under other names
noise S        copies of the best system; S times its differences from another one are added, with random signs
random         each has the values of an honest system on other queries
sandwich       of the second system: one query better, or one query worse
mix            of all of these

Each line has, of the five, the best ranks (best first), the number of significant pairs, and whether any rank
changed. A family of all systems is what all being references gives.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.leaderboard.boards.board import RANKED
from bench.leaderboard.boards.standings import RankedSystems, rank_systems
from bench.leaderboard.boards.tables import check_values, read_columns
from bench.results.store import PER_QUERY, StoredResult, find_results
from bench.results.units import number_units
from bench.stats.noninferiority import LEVEL

BOARD = Path(__file__).parents[1] / "board" / "results"
HONEST = ("names", "bm25", "dense", "tgr", "recommended")
STRENGTHS = (0.001, 0.01, 0.1, 0.3, 1.0)

Values = NDArray[np.float64]


def honest(dataset: str) -> tuple[Values, NDArray[np.int64]]:
    """(judged queries, five) recall@5 of the honest systems, best first; and the units of the queries."""
    results = {}
    for item in find_results(BOARD):
        if isinstance(item, StoredResult) and item.manifest.dataset.spec == dataset:
            results[item.manifest.method.spec] = item
    columns: list[Values] = []
    known: list[pa.Table] = []
    for name in HONEST:
        values, _ = check_values(results[name], RANKED[:1], False, known)
        assert values is not None
        columns.append(values[:, 0])
    table = read_columns(results[HONEST[0]], PER_QUERY, ["unit", "n_gold"])
    names = np.array(table["unit"].to_pylist(), dtype=str)[table["n_gold"].to_numpy() > 0]
    values = np.column_stack(columns)
    return values[:, np.argsort(-values.mean(axis=0))], number_units(np.unique(names, return_inverse=True)[1])


def copies(values: Values, count: int, random: np.random.Generator) -> Values:
    """Copies of the best system."""
    return np.repeat(values[:, :1], count, axis=1)


def noise(strength: float) -> Callable[[Values, int, np.random.Generator], Values]:
    """Copies with noise of the size of real differences, times a strength."""

    def make(values: Values, count: int, random: np.random.Generator) -> Values:
        differences = values[:, :1] - values[:, random.integers(1, values.shape[1], count)]
        return values[:, :1] + strength * random.choice([-1.0, 1.0], differences.shape) * differences

    return make


def unrelated(values: Values, count: int, random: np.random.Generator) -> Values:
    """The values of honest systems, each on other queries."""
    return np.column_stack([random.permutation(values[:, i]) for i in random.integers(0, values.shape[1], count)])


def sandwiches(values: Values, count: int, random: np.random.Generator) -> Values:
    """Just above and just below the second system."""
    made = np.repeat(values[:, 1:2], count, axis=1)
    for column in range(count):
        up = column % 2 == 0
        may = np.flatnonzero(made[:, column] < 1 if up else made[:, column] > 0)
        made[random.choice(may), column] = 1.0 if up else 0.0
    return made


ATTACKS: dict[str, Callable[[Values, int, np.random.Generator], Values]] = {
    "copies": copies,
    **{f"noise {strength:g}": noise(strength) for strength in STRENGTHS},
    "random": unrelated,
    "sandwich": sandwiches,
}


def mix(values: Values, count: int, random: np.random.Generator) -> Values:
    """As many of each kind."""
    kinds = list(ATTACKS.values())
    return np.hstack([make(values, 1, random) for make in (kinds[i % len(kinds)] for i in range(count))])


def told(standing: RankedSystems) -> tuple[list[int], int, list[list[int]]]:
    """Best ranks, number of significant pairs and ranks of the last five systems."""
    pairs = standing.pairs[-5:, -5:][np.triu_indices(5, 1)]
    return standing.ranks[-5:, 0].tolist(), int((pairs < LEVEL).sum()), standing.ranks[-5:].tolist()


def main() -> None:
    """Print what each attack changes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hostile", type=int, nargs="+", default=[86, 200])
    parser.add_argument("--datasets", nargs="+", default=["apibank", "starter", "toolbench-i1-inst"])
    arguments = parser.parse_args()
    for dataset in arguments.datasets:
        values, units = honest(dataset)
        before = told(rank_systems(HONEST, values, units))
        print(f"{dataset}: {len(values)} queries, {units.max() + 1} units; alone: ranks {before[0]}, {before[1]} pairs")
        for name, make in {**ATTACKS, "mix": mix}.items():
            for count in arguments.hostile:
                board = np.hstack([make(values, count, np.random.default_rng(count)), values])
                ids = [str(i) for i in range(board.shape[1])]
                for rule, references in (("all", None), ("references", np.arange(board.shape[1]) >= count)):
                    best, pairs, ranks = told(rank_systems(ids, board, units, references))
                    kept = "ranks kept" if ranks == before[2] else "ranks changed"
                    print(f"  {name:12} {count:4} {rule:11} ranks {best}, {pairs} pairs, {kept}", flush=True)


if __name__ == "__main__":
    main()
