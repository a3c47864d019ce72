"""The equivalence test on stored differences: `python benchmarks/equivalence.py [RESULTS] [--simulations 2000]`.

A sample draws as many units as a dataset has, with replacement, from the differences of two stored results; their mean
is known. A difference of the margin, either way, should be called smaller in at most 0.05 of all samples: the larger of
the two shares is printed. Then the share of samples in which a difference of zero is shown to be smaller. Differences
are moved to where the truth should be, their span with them: that moves an interval and leaves its width.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from units import FEW_FLIPS, FEW_RESAMPLES, Population, stored_values

from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import Span
from bench.stats.differences import hold_both, sign_flip_intervals
from bench.stats.noninferiority import enough_units, judge_interval
from bench.stats.units import robust_mean

ROOT = Path(__file__).resolve().parents[1]
CASES = (
    ("apibank", "tgr", "dense", "recall@5"),
    ("apibank", "recommended", "hybrid", "recall@5"),
    ("apibank", "tgr", "dense", "pass@10"),
    ("toollens-domains", "dense", "bm25", "recall@5"),
    ("toollens-domains", "recommended", "hybrid", "recall@5"),
    ("metatool-single", "dense", "bm25", "recall@5"),
    ("metatool-single", "recommended", "hybrid", "recall@5"),
    ("toollens", "recommended", "hybrid", "recall@5"),
)
MARGINS = (0.01, 0.02, 0.05, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "board" / "results")
    parser.add_argument("--simulations", type=int, default=2000)
    arguments = parser.parse_args()
    heads = "".join(f"   {margin:g}: size power" for margin in MARGINS)
    print(f"{'dataset':18} {'difference':22} {'metric':9} groups  error{heads}")
    for dataset, first, second, metric in CASES:
        stored = [stored_values(arguments.results, dataset, method, metric) for method in (first, second)]
        (one, units), (two, others) = (found for found in stored if found is not None)
        assert (units == others).all()
        differences = (one - two)[:, None]
        true = float(differences.mean())
        population = Population(differences - true, units)
        random = np.random.default_rng(7)
        wrong = np.zeros((len(MARGINS), 2))
        right = np.zeros(len(MARGINS))
        for _ in range(arguments.simulations):
            values, codes = population.drawn(random)
            # As `equivalence` has it, with fewer flips and resamples.
            ((low, high),) = hold_both(
                bca_intervals(values, 0.9, FEW_RESAMPLES, units=codes, span=Span(-1 - true, 1 - true)),
                sign_flip_intervals(values, 0.9, units=codes, flips=FEW_FLIPS),
            )
            for column, margin in enumerate(MARGINS):
                within = [
                    judge_interval(low + truth, high + truth, margin, enough_units(codes)) == "within"
                    for truth in (margin, -margin, 0.0)
                ]
                wrong[column] += within[:2]
                right[column] += within[2]
        error = float(robust_mean(differences, units)[1][0])
        numbers = "".join(
            f"         {share.max() / arguments.simulations:.3f} {found / arguments.simulations:.3f}"
            for share, found in zip(wrong, right, strict=True)
        )
        print(
            f"{dataset:18} {f'{first} - {second}':22} {metric:9} {units.max() + 1:6}  {error:.3f}{numbers}", flush=True
        )


if __name__ == "__main__":
    main()
