"""Do the tests keep their promises: size under the null, coverage of intervals, power at the detectable effect.

    python benchmarks/calibration.py [--simulations 2000] [--queries 200]

Pairs of systems with values as recall@5 has them, shares of one to four gold tools, are drawn from a population whose
means are known. Under the null both systems answer by the same rule, so the share of p < 0.05 should be 0.05; the 95%
interval of the difference should hold the true one in 95 of 100, and so should that of a mean over datasets; and a true
difference of the size of the minimum detectable effect should be found in 80 of 100, a smaller one less often, and more
often with more queries.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import ANY, SHARE
from bench.stats.classical import paired_t, wilcoxon
from bench.stats.macro import FEWEST_SOURCES, lead_intervals, macro_intervals, these_intervals
from bench.stats.power import minimum_detectable_effect, queries_needed
from bench.stats.randomisation import randomisation_test
from bench.stats.ranking import pairwise_tests

#: Fewer than the defaults, so that a simulation takes minutes.
FLIPS, RESAMPLES = 2000, 2000


def simulated(random: np.random.Generator, queries: int, simulations: int, gain: float = 0.0) -> NDArray[np.float64]:
    """(queries, simulations) differences of recall, whose true mean is `gain`.

    A query has one to four gold tools, and is as hard for both systems: each finds a gold tool with a probability that
    is the query's, raised for the first by gain. So values are discrete, tie often, and are correlated.
    """
    gold = random.integers(1, 5, (queries, simulations))
    chance = random.uniform(0.1, 0.9 - gain, (queries, simulations))
    first, second = random.binomial(gold, chance + gain), random.binomial(gold, chance)
    differences: NDArray[np.float64] = (first - second) / gold
    return differences


def share_found(differences: NDArray[np.float64], level: float = 0.05) -> dict[str, float]:
    """The share of the columns in which each test finds a difference."""
    tests = {
        "randomisation": randomisation_test(differences, FLIPS),
        "t": paired_t(differences),
        "Wilcoxon": wilcoxon(differences),
    }
    return {name: float((p < level).mean()) for name, p in tests.items()}


def coverage(differences: NDArray[np.float64], true: float) -> tuple[float, float, float]:
    """The shares of the columns whose 95% interval holds the true mean, lies above it, and below it."""
    low, high = bca_intervals(differences, resamples=RESAMPLES).T
    return float(((low <= true) & (true <= high)).mean()), float((low > true).mean()), float((high < true).mean())


def families(random: np.random.Generator, queries: int, simulations: int, systems: int = 5) -> float:
    """The share of families of alike systems in which tests of all pairs, corrected by Holm, tell any two apart."""
    told_apart = 0
    for _ in range(simulations):
        gold = random.integers(1, 5, (queries, 1))
        values = random.binomial(gold, random.uniform(0.1, 0.9, (queries, 1)), (queries, systems)) / gold
        told_apart += bool(pairwise_tests(values, flips=FLIPS).p.min() < 0.05)
    return told_apart / simulations


def macro_coverage(
    random: np.random.Generator, datasets: int, queries: int, simulations: int, easy: bool
) -> tuple[float, float]:
    """The shares of 95% macro intervals that hold the mean of all datasets, and that hold the mean of those drawn.

    The means of datasets have an sd of 0.1 around 0.6; easy ones are drawn around 0.976, with queries of 0 and 1, so
    that a method is often right on all queries of all datasets.
    """
    if easy:
        means, middle = 1 - random.beta(1, 40, (datasets, simulations)), 40 / 41
        values = [(random.random((queries, simulations)) < row).astype(np.float64) for row in means]
    else:
        means, middle = random.normal(0.6, 0.1, (datasets, simulations)), 0.6
        values = [random.normal(row, 0.3, (queries, simulations)) for row in means]
    span = SHARE if easy else ANY
    these = these_intervals(values, resamples=RESAMPLES, span=span)
    others = macro_intervals(values, resamples=RESAMPLES, span=span)
    return _share_inside(others, np.full(simulations, middle)), _share_inside(these, means.mean(axis=0))


def lead_coverage(random: np.random.Generator, datasets: int, queries: int, simulations: int) -> float:
    """The share of 95% intervals of a lead that hold it: of all datasets, or of these where they are too few.

    Each dataset has half as many queries as the one before. Leads differ between datasets by an sd of 0.05.
    """
    gains = np.clip(random.normal(0.03, 0.05, (datasets, simulations)), -0.4, 0.5)
    sizes = [max(25, queries >> place) for place in range(datasets)]
    values = []
    for size, gain in zip(sizes, gains, strict=True):
        gold = random.integers(1, 5, (size, simulations))
        chance = random.uniform(0.4, 0.5, (size, simulations))
        behind = (random.binomial(gold, chance) - random.binomial(gold, chance + gain)) / gold
        values.append(np.column_stack([np.zeros(size), behind]))
    units = [np.arange(size) for size in sizes]
    leads = lead_intervals(values, units, [str(place) for place in range(datasets)], SHARE.of_differences())[1:]
    return _share_inside(leads, gains.mean(axis=0) if datasets < FEWEST_SOURCES else np.full(simulations, 0.03))


def _share_inside(intervals: NDArray[np.float64], true: NDArray[np.float64]) -> float:
    _, low, high = intervals.T
    return float(((low <= true + 1e-12) & (true <= high + 1e-12)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=200)
    chosen = parser.parse_args()
    random = np.random.default_rng(0)
    n, simulations = chosen.queries, chosen.simulations
    print(
        f"{simulations} simulated pairs of {n} queries; standard error of a share near 0.05: "
        f"{(0.05 * 0.95 / simulations) ** 0.5:.4f}"
    )

    null = simulated(random, n, simulations)
    print("share of p < 0.05 where both are alike:")
    for name, share in share_found(null).items():
        print(f"  {name:16} {share:.4f}")
    alike = families(random, n, max(1, simulations // 4))
    print(f"  {'5 systems, Holm':16} {alike:.4f} of {max(1, simulations // 4)} families")

    print("share of 95% intervals that hold the true difference:")
    for gain in (0.0, 0.05):
        inside, above, below = coverage(null if gain == 0 else simulated(random, n, simulations, gain), gain)
        print(f"  true {gain:.2f}        {inside:.4f} (above {above:.4f}, below {below:.4f})")

    for datasets in (1, 2, 3, 5, 8):
        parts = []
        for easy in (False, True):
            others, these = macro_coverage(random, datasets, n, simulations, easy)
            parts.append(f"{'easy' if easy else 'hard'}: of others {others:.3f}, of these {these:.3f}")
        lead = lead_coverage(random, datasets, n, simulations)
        print(f"  macro mean of {datasets} datasets: {'; '.join(parts)}; lead {lead:.3f}")

    sd = float(simulated(random, n, simulations, 0.05).std())
    print("share of p < 0.05 where the first is better:")
    for part in (0.5, 0.75, 1.0, 1.25):
        gain = part * minimum_detectable_effect(sd, n)
        power = share_found(simulated(random, n, simulations, gain))["randomisation"]
        print(f"  by {gain:.3f}, {part:4.2f} of the detectable effect of {n} queries: {power:.3f}")
    for wanted in (0.5, 0.8, 0.95):
        needed = queries_needed(0.05, sd, power=wanted)
        assert needed is not None
        power = share_found(simulated(random, needed, simulations, 0.05))["randomisation"]
        print(f"  by 0.050, {needed} queries, which should find it in {wanted:.2f}: {power:.3f}")


if __name__ == "__main__":
    main()
