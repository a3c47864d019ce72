"""Does the gate see what it says it sees? Simulated candidates against a blessed baseline.

    python benchmarks/gate.py [--baseline baselines/apibank-tgr.json] [--metric recall@5] [--runs 1000]

A run draws the baseline's judged queries with replacement, and makes a candidate of them:

- noise: a share of the queries gets the value of another query drawn at random. It has the same distribution, so the
  expected difference is zero.
- a planted loss: as many queries fall to 0 as make the expected difference the loss, exactly.

Queries are drawn and judged as independent ones, and without the span of the metric: it is the test of a metric whose
span is not known. `units.py` simulates groups of dependent queries and known spans. With the share of each verdict is
printed what was stated: the level where the true loss is within the margin (pass and regression alike where it is the
margin), and where it is larger the power of the one-sided test by the normal approximation, from the spread of the
differences.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from bench.gating.baseline import read_baseline
from bench.stats.noninferiority import non_inferiority

LEVEL, POWER = 0.05, 0.8


@dataclass(frozen=True)
class Scenario:
    """A kind of candidate: its true loss, the share of noisy queries, the policy's margin, how many queries."""

    title: str
    loss: float
    noise: float
    margin: float
    queries: int | None = None


SCENARIOS = (
    Scenario("no change at all", 0.0, 0.0, 0.02),
    Scenario("noise, no loss", 0.0, 0.02, 0.02),
    Scenario("noise, no loss", 0.0, 0.05, 0.02),
    Scenario("noise, no loss", 0.0, 0.05, 0.05),
    Scenario("a loss within the margin", 0.01, 0.02, 0.02),
    Scenario("a loss of exactly the margin", 0.02, 0.02, 0.02),
    Scenario("a loss of exactly the margin", 0.02, 0.10, 0.02),
    Scenario("planted loss of 0.03", 0.03, 0.0, 0.0),
    Scenario("planted loss of 0.03", 0.03, 0.01, 0.0),
    Scenario("planted loss of 0.03", 0.03, 0.01, 0.005),
    Scenario("planted loss of 0.03", 0.03, 0.01, 0.01),
    Scenario("planted loss of 0.03", 0.03, 0.01, 0.02),
    Scenario("planted loss of 0.05", 0.05, 0.01, 0.01),
    Scenario("30 queries, much noise", 0.0, 0.30, 0.02, 30),
    Scenario("30 queries, much noise, a loss", 0.03, 0.30, 0.02, 30),
    # What the bootstrap cannot do: the losses are so rare that a small sample may hold none.
    Scenario("30 queries, a rare loss", 0.02, 0.0, 0.02, 30),
    Scenario("100 queries, a rare loss", 0.02, 0.0, 0.02, 100),
)


def simulated(
    values: NDArray[np.float64], loss: float, noise: float, queries: int, runs: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """(queries, runs) differences of simulated candidates; their expectation is -loss.

    Args:
        values: (n,) the baseline's per-query values.
        loss: expected loss; what falls to 0 is drawn from all queries alike.
        noise: share of queries that get the value of another.
        queries: per run.
        runs: candidates.
        random: where the draws come from.
    """
    base = random.choice(values, size=(queries, runs))
    noisy = random.random(base.shape) < noise
    candidate = np.where(noisy, random.choice(values, size=base.shape), base)
    candidate[random.random(base.shape) < loss / values.mean()] = 0.0
    differences: NDArray[np.float64] = candidate - base
    return differences


def verdicts(differences: NDArray[np.float64], margin: float) -> Counter[str]:
    """How often each verdict is given, over the columns."""
    return Counter(judged.verdict for judged in non_inferiority(differences, margin, LEVEL, POWER))


def stated_power(loss: float, margin: float, sd: float, queries: int) -> float:
    """Power of the one-sided test of a loss above the margin, by the normal approximation."""
    normal = NormalDist()
    return normal.cdf((loss - margin) * math.sqrt(queries) / sd - normal.inv_cdf(1 - LEVEL))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baseline", type=Path, default=Path("baselines/apibank-tgr.json"))
    parser.add_argument("--metric", default="recall@5")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    baseline = read_baseline(chosen.baseline)
    stored = baseline.values[chosen.metric].array()
    values = stored[~np.isnan(stored)]
    print(f"{baseline.label}, {chosen.metric}: n {len(values)}, mean {values.mean():.3f}; {chosen.runs} runs each")
    head = f"{'candidate':30} {'noise':>5} {'margin':>6} {'n':>4} {'sd':>6}"
    print(f"{head}   {'pass':>6} {'inconcl.':>8} {'regr.':>6}   stated")
    for scenario in SCENARIOS:
        random = np.random.default_rng(chosen.seed)
        queries = scenario.queries or len(values)
        differences = simulated(values, scenario.loss, scenario.noise, queries, chosen.runs, random)
        sd = float(differences.std())
        counts = verdicts(differences, scenario.margin)
        shares = [counts[verdict] / chosen.runs for verdict in ("pass", "inconclusive", "regression")]
        if scenario.loss > scenario.margin:
            power = stated_power(scenario.loss, scenario.margin, sd, queries)
            stated = f"regression {power:.3f}, pass at most {LEVEL}"
        else:
            stated = f"{'each of both' if scenario.loss == scenario.margin else 'regression'} at most {LEVEL}"
        row = f"{scenario.title:30} {scenario.noise:5.2f} {scenario.margin:6.3f} {queries:4} {sd:6.3f}"
        print(f"{row}   {shares[0]:6.3f} {shares[1]:8.3f} {shares[2]:6.3f}   {stated}")


if __name__ == "__main__":
    main()
