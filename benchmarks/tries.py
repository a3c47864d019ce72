"""The best of many variants: how often chance alone makes it better, with and without the correction.

    python benchmarks/tries.py [--results board/results] [--simulations 2000]

A sample draws as many units as the dataset has, with replacement, from the differences of two stored results. A variant
differs from the baseline by these with a random sign for each unit, so that it is no better, and by how much it differs
is real. The signs of the variants are independent, or alike in as many units as `--alike` says, as those of a grid's
neighbours are. Of each sample, the best of the variants is taken:

- better: the share in which it is called better (p < 0.05, a positive difference) by its own test, and by
  `bench.stats.best_of_many`; 0.025 is what a single variant has.
- any: the share in which any variant is told from the baseline, better or worse; 0.05 is what a single one has.
- power: the same as better, where one variant has a gain that its own test finds in 0.8; of a quarter of the samples.
- mean: the mean of the best, and that of `mean_without_choice`, in standard errors of a single variant; 0 is true.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from units import Population, stored_population

from bench.stats.best_of_many import best_of_many, mean_without_choice
from bench.stats.randomisation import randomisation_test
from bench.stats.units import unit_sums

#: Fewer than the defaults, so that a simulation takes minutes.
FLIPS, CHOICES = 1000, 100
CASES = (("apibank", "dense", "bm25"), ("toollens", "dense", "bm25"))
METRIC = "recall@5"
LEVEL = 0.05

Values = NDArray[np.float64]


def drawn(
    population: Population, variants: int, alike: float, random: np.random.Generator
) -> tuple[Values, NDArray[np.int64]]:
    """(queries, variants) differences from the baseline of variants that are no better; (queries,) units."""
    values, units = population.drawn(random)
    count = int(units.max()) + 1
    own = random.choice([-1.0, 1.0], size=(count, variants))
    shared = random.choice([-1.0, 1.0], size=(count, 1))
    signs = np.where(random.random((count, variants)) < alike, shared, own)
    return values * signs[units], units


def row(population: Population, variants: int, alike: float, simulations: int, random: np.random.Generator) -> Values:
    """(8,) better, any and power, each by the test of the best alone and corrected; the means."""
    sums, _ = unit_sums(population.values, population.units)
    # Signs make the standard deviation of a sum the root of the sum of squares.
    error = float(np.sqrt((sums * sums).sum())) / len(population.values)
    shares: dict[str, list[list[bool]]] = {"better": [], "any": [], "power": []}
    means = []
    for i in range(simulations):
        values, units = drawn(population, variants, alike, random)
        better, any_found = called(values, units)
        shares["better"].append(better)
        shares["any"].append(any_found)
        means.append([values.mean(axis=0).max(), mean_without_choice(values, units=units, resamples=CHOICES)])
        if i % 4 == 0:
            values[:, 0] += 2.8 * error
            shares["power"].append(called(values, units)[0])
    parts = [np.mean(shares[name], axis=0) for name in ("better", "any", "power")]
    return np.concatenate([*parts, np.mean(means, axis=0) / error])


def called(values: Values, units: NDArray[np.int64]) -> tuple[list[bool], list[bool]]:
    """Whether the best is called better, and whether any variant is told from zero: alone, and corrected."""
    plain = randomisation_test(values, FLIPS, units=units)
    families = np.array([0] * values.shape[1] + [1])
    table = np.column_stack([values, np.zeros(len(values))])
    corrected = best_of_many(table, families, values.shape[1], units=units, flips=FLIPS)[:-1]
    means = values.mean(axis=0)
    best = int(np.argmax(means))
    both = (plain, corrected)
    return [bool(p[best] < LEVEL and means[best] > 0) for p in both], [bool(p.min() < LEVEL) for p in both]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("board/results"))
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--alike", type=float, nargs="+", default=[0.0, 0.8])
    chosen = parser.parse_args()
    heads = ["dataset", "units", "variants", "alike"]
    heads += ["better", "corr.", "any", "corr.", "power", "corr.", "mean", "corr.", "s"]
    print(" | ".join(heads))
    for dataset, first, second in CASES:
        stored = stored_population(chosen.results, dataset, first, second, METRIC)
        assert stored is not None
        population = Population(stored.values[:, :1], stored.units)
        for alike in chosen.alike:
            for variants in (1, 17, 50):
                if variants == 1 and alike:
                    continue
                began = time.perf_counter()
                numbers = row(population, variants, alike, chosen.simulations, np.random.default_rng(0))
                cells = [dataset, str(int(population.units.max()) + 1), str(variants), f"{alike:g}"]
                cells += [f"{number:.3f}" for number in numbers[:6]] + [f"{number:.2f}" for number in numbers[6:]]
                print(" | ".join([*cells, f"{time.perf_counter() - began:.0f}"]), flush=True)


if __name__ == "__main__":
    main()
