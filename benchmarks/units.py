"""Error bars of dependent queries and of small extreme samples: do they keep their promises?

    python benchmarks/units.py [--results board/results] [--simulations 2000] [--datasets apibank,...]

Units are those of each dataset's card, as stored results have them. A sample draws as many units as the dataset has,
with replacement, from the per-query values of stored results, so that the true mean is that of the dataset:

- size: the share of p < 0.05 where each unit drawn changes its sign with probability 1/2, which makes the true
  difference zero; by the randomisation test of units alone, and by the harness.
- coverage: the share of 95% intervals of a difference and of a mean that hold the true one. Differences are drawn as
  they are, skewness and tails and all. As interval and test agree, 1 less the coverage is the size of the test for this
  kind of differences. Beside it, the shifts that the randomisation test of units alone does not reject.
- gate: a true loss of exactly the margin should pass in at most 0.05, and be called a regression in at most 0.05.
- power: how often the difference that the board has is found, by the randomisation test alone and by the harness.

Every board has a row: the mean over its pairs and metrics, and the worst of them. Where its units are worth too few
queries, the harness gives no verdict; the row says what they would be.

The gate is also asked about units of real differences whose signs change so often that the mean is the margin, and
about small independent samples of extreme zeros and ones, shares, and their differences.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import ANY, SHARE, Span
from bench.stats.differences import hold_both, intervals_and_p_values, second_looks, sign_flip_intervals
from bench.stats.noninferiority import at_least, non_inferiority
from bench.stats.paired import compare
from bench.stats.randomisation import FLIPS, randomisation_test
from bench.stats.ranking import pairwise_tests
from bench.stats.units import effective_units

#: Fewer than the defaults, so that a simulation takes minutes.
FEW_FLIPS, FEW_RESAMPLES = 499, 1000
#: Systems compared, where a dataset has results of both; the first is the one whose mean is taken.
PAIRS = (("bm25-fields", "bm25"), ("recommended", "hybrid"), ("hybrid", "dense"))
METRICS = ("recall@5", "ndcg@10")
#: Whose gate is asked about several numbers of units, and which sees fewer of them than it has.
GATED = ("apibank", ("tgr", "dense"), "pass@10")

Values = NDArray[np.float64]


def stored_values(results: Path, dataset: str, method: str, metric: str) -> tuple[Values, NDArray[np.int64]] | None:
    """The judged queries' values of a stored result of all queries, and their units, from 0; None without a result."""
    for manifest in sorted((results / dataset).glob("*/manifest.json")):
        stored = json.loads(manifest.read_text())
        if stored["method"]["spec"] == method and stored["dataset"]["limit"] is None:
            table = pq.read_table(manifest.parent / "per_query.parquet", columns=["unit", "n_gold", metric])
            judged = np.asarray(table["n_gold"]) > 0
            names = np.array(table["unit"].to_pylist(), dtype=str)[judged]
            return np.asarray(table[metric])[judged], np.unique(names, return_inverse=True)[1].astype(np.int64)
    return None


def stored_population(results: Path, dataset: str, first: str, second: str, metric: str) -> Population | None:
    """(queries, 2) first less second, and the first; None where a result is not there, or no query differs."""
    one, other = (stored_values(results, dataset, name, metric) for name in (first, second))
    if one is None or other is None or (one[0] == other[0]).all():
        return None
    return Population(np.column_stack([one[0] - other[0], one[0]]), one[1])


class Population:
    """Units of queries to draw from."""

    def __init__(self, values: Values, units: NDArray[np.int64]) -> None:
        self.values, self.units = values, units
        order = np.argsort(units, kind="stable")
        self._rows = np.split(order, np.cumsum(np.bincount(units))[:-1])

    def drawn(
        self, random: np.random.Generator, units: int | None = None, kept: float = 1.0
    ) -> tuple[Values, NDArray[np.int64]]:
        """(queries, columns) values of units drawn with replacement and their units; each keeps its sign so often."""
        rows = [self._rows[unit] for unit in random.integers(0, len(self._rows), units or len(self._rows))]
        codes = np.repeat(np.arange(len(rows)), [len(unit_rows) for unit_rows in rows])
        signs = np.where(random.random(len(rows)) < kept, 1.0, -1.0)
        return self.values[np.concatenate(rows)] * signs[codes][:, None], codes


def covered(intervals: Values, true: Values) -> NDArray[np.bool_]:
    """Which intervals hold the true mean; the last bits decide nothing."""
    return (intervals[:, 0] <= true + 1e-9) & (true - 1e-9 <= intervals[:, 1])


def row(population: Population, simulations: int, random: np.random.Generator) -> list[float]:
    """Sizes, coverages, errors of the gate and powers of one case: its columns are a difference and a mean."""
    true = population.values.mean(axis=0)
    difference = Population(population.values[:, :1], population.units)
    # The gate's question in the direction in which the true difference is a loss.
    direction = -1.0 if true[0] > 0 else 1.0
    sizes, held, verdicts, found = [], [], [], []
    for _ in range(simulations):
        sizes.append(both_tests(*difference.drawn(random, kept=0.5)))
        values, units = population.drawn(random)
        intervals, p = intervals_and_p_values(values[:, :1], units=units, span=Span(-1, 1), flips=FEW_FLIPS)
        means = bca_intervals(values[:, 1:], resamples=FEW_RESAMPLES, units=units, span=Span(0, 1))
        shifts = sign_flip_intervals(values[:, :1], units=units, flips=FEW_FLIPS)
        held.append(covered(np.vstack([shifts, intervals, means]), true[[0, 0, 1]]))
        losses = direction * values[:, :1]
        # The bounds of `non_inferiority`, with fewer flips and resamples.
        ((lower, upper),) = hold_both(
            bca_intervals(losses, 0.9, FEW_RESAMPLES, units=units, span=Span(-1, 1)),
            sign_flip_intervals(losses, 0.9, units=units, flips=FEW_FLIPS),
        )
        verdicts.append([lower > -abs(true[0]), upper < -abs(true[0])])
        found.append([randomisation_test(values[:, :1], FEW_FLIPS, units=units)[0], p[0]])
    return [
        *(np.array(sizes) < 0.05).mean(axis=0),
        *np.mean(held, axis=0),
        *np.mean(verdicts, axis=0),
        *(np.array(found) < 0.05).mean(axis=0),
    ]


def both_tests(values: Values, units: NDArray[np.int64]) -> tuple[float, float]:
    """The p-value of the randomisation test of units, and that of the harness (`intervals_and_p_values`)."""
    flips = randomisation_test(values, FEW_FLIPS, units=units)
    return float(flips[0]), float(second_looks(flips, values, units=units, span=Span(-1, 1))[0])


def gate_by_units(population: Population, simulations: int, random: np.random.Generator, margin: float = 0.05) -> None:
    """Verdicts on samples of several numbers of units whose true loss is the margin."""
    true = float(population.values.mean())
    for count in (20, 30, 50, 82, 160):
        counts = np.zeros((2, 2))
        for _ in range(simulations):
            values, units = population.drawn(random, count, kept=(1 - margin / true) / 2)
            for place, codes in enumerate((None, units)):
                (judged,) = non_inferiority(values, margin, units=codes, span=ANY if codes is None else Span(-1, 1))
                counts[place] += (judged.verdict == "pass", judged.verdict == "regression")
        shares = counts / simulations
        print(
            f"  {count:4} units: pass {shares[0, 0]:.3f}, regression {shares[0, 1]:.3f} by queries; "
            f"{shares[1, 0]:.3f}, {shares[1, 1]:.3f} by units"
        )


def extreme_samples(random: np.random.Generator, simulations: int) -> dict[str, Callable[[int], tuple[Values, float]]]:
    """Samples of n independent queries, one in each column, and their true mean."""

    def binary(mean: float) -> Callable[[int], tuple[Values, float]]:
        return lambda n: ((random.random((n, simulations)) < mean).astype(float), mean)

    def shares(mean: float) -> Callable[[int], tuple[Values, float]]:
        def drawn(n: int) -> tuple[Values, float]:
            gold = random.integers(1, 5, (n, simulations))
            chance = random.beta(2 * mean, 2 * (1 - mean), gold.shape)
            return random.binomial(gold, chance) / gold, mean

        return drawn

    def differences(margin: float, noise: float, most: int) -> Callable[[int], tuple[Values, float]]:
        def drawn(n: int) -> tuple[Values, float]:
            size = 1 / random.integers(1, most + 1, (n, simulations))
            losses = margin / float(np.mean(1 / np.arange(1, most + 1))) + noise
            chance = random.random(size.shape)
            return np.where(chance < losses, -size, np.where(chance < losses + noise, size, 0.0)), -margin

        return drawn

    samples = {f"zeros and ones, mean {mean}": binary(mean) for mean in (0.02, 0.1, 0.5, 0.9, 0.98)}
    samples |= {f"shares, mean {mean}": shares(mean) for mean in (0.02, 0.1, 0.5, 0.9, 0.98)}
    for margin in (0.02, 0.05):
        for noise in (0.0, 0.02, 0.1):
            samples[f"pass@k lost {margin}, noise {noise}"] = differences(margin, noise, 1)
            samples[f"recall lost {margin}, noise {noise}"] = differences(margin, noise, 4)
    return samples


def extremes(random: np.random.Generator, simulations: int) -> None:
    """Coverage, false passes and false regressions of small samples, without and with the span of a value."""
    print("coverage, false passes, false regressions of small extreme samples; without span | with span")
    for name, sample in extreme_samples(random, simulations).items():
        for n in (20, 30, 50, 100):
            values, true = sample(n)
            line = []
            for span in (ANY, SHARE.of_differences() if true < 0 else SHARE):
                intervals = bca_intervals(values, resamples=FEW_RESAMPLES, span=span)
                # A floor is reached by a mean that is equal; so it is asked for a hair more than the true one.
                judged = (
                    non_inferiority(values, -true, span=span) if true < 0 else at_least(values, true + 1e-9, span=span)
                )
                verdicts = [outcome.verdict for outcome in judged]
                inside = covered(intervals, np.full(len(intervals), true)).mean()
                line.append(
                    f"{inside:.3f} {verdicts.count('pass') / simulations:.3f} "
                    f"{verdicts.count('regression') / simulations:.3f}"
                )
            print(f"  {name:28} n {n:3}   {line[0]} | {line[1]}")


def best(work: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def speed(random: np.random.Generator) -> None:
    """540 tests of 765 queries, as nine systems against one on twelve metrics of five datasets."""
    gold = random.integers(1, 5, (765, 540))
    differences = (random.binomial(gold, 0.55) - random.binomial(gold, 0.5)) / gold
    units = np.unique(random.integers(0, 250, 765), return_inverse=True)[1]
    for name, work in (
        (f"randomisation, {FLIPS} flips", lambda codes: randomisation_test(differences, units=codes)),
        ("comparisons with intervals", lambda codes: compare(differences, units=codes, span=Span(-1, 1))),
    ):
        plain, grouped = best(partial(work, None)), best(partial(work, units))
        print(f"540 {name}: {plain:.2f} s by queries, {grouped:.2f} s by units: {grouped / plain:.2f} times")
    systems = random.binomial(4, 0.5, (4000, 25)) / 4
    units = np.arange(4000) // 5
    plain, grouped = best(lambda: pairwise_tests(systems), 2), best(lambda: pairwise_tests(systems, units), 2)
    print(f"all pairs of 25 systems, 4000 queries: {plain:.2f} s by queries, {grouped:.2f} s by 800 units")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("board/results"))
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--datasets", help="names, separated by commas; all")
    parser.add_argument("--parts", default="table,gate,extremes,speed")
    chosen = parser.parse_args()
    parts = chosen.parts.split(",")
    print(f"{chosen.simulations} simulations: standard error near 0.05 {(0.0475 / chosen.simulations) ** 0.5:.3f}")
    if "table" in parts:
        print(
            "dataset (groups, effective)  cases  mean and worst of: size of flips, ours; coverage of flips, ours, mean;"
        )
        print("gate at the margin: pass, regression; power of flips, ours")
        for dataset in (chosen.datasets or ",".join(sorted(os.listdir(chosen.results)))).split(","):
            cases = []
            for (first, second), metric in product(PAIRS, METRICS):
                population = stored_population(chosen.results, dataset, first, second, metric)
                if population is not None:
                    cases.append(row(population, chosen.simulations, np.random.default_rng(0)))
                    size = f"{population.units.max() + 1}, {effective_units(population.units):.0f}"
                    name = f"  {first} - {second} {metric}"
                    print(f"{name:40} " + " ".join(f"{cell:.3f}" for cell in cases[-1]), flush=True)
            if cases:
                table = np.array(cases)
                worst = np.where([False] * 2 + [True] * 3 + [False] * 4, table.min(axis=0), table.max(axis=0))
                print(
                    f"{dataset} ({size})  {len(cases)} cases  "
                    + "; ".join(f"{mean:.3f} {end:.3f}" for mean, end in zip(table.mean(axis=0), worst, strict=True)),
                    flush=True,
                )
    if "gate" in parts:
        dataset, (first, second), metric = GATED
        population = stored_population(chosen.results, dataset, first, second, metric)
        assert population is not None
        print(f"gate, a true loss of exactly the margin of 0.05, units of {dataset} ({first} - {second}, {metric}):")
        gate_by_units(
            Population(population.values[:, :1], population.units), chosen.simulations, np.random.default_rng(0)
        )
    random = np.random.default_rng(0)
    if "extremes" in parts:
        extremes(random, chosen.simulations)
    if "speed" in parts:
        speed(random)


if __name__ == "__main__":
    main()
