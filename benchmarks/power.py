"""The prior of `bench data audit` over how differences vary: `python benchmarks/power.py [RESULTS]`.

For each dataset of the board without distractors, the pairs of methods whose means of recall@5 are at most 5 points
apart: the quartiles of the standard deviation of a query's difference, and the median correlation of the differences of
two queries of a unit. The last line has the medians over datasets, which `bench/validation/power.py` holds. Then, for
each dataset, how far the groups that the prior asks for are from those that its own pairs ask for, to see 2 points.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from bench.results.store import StoredResult, find_results
from bench.stats.power import expected_error, queries_needed
from bench.stats.units import intraclass_correlation, robust_mean
from bench.validation.power import BOARD_CORRELATION, BOARD_DEVIATIONS, comparable, near_pairs

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "board" / "results"
    by_dataset: defaultdict[str, list[StoredResult]] = defaultdict(list)
    for item in comparable(find_results(folder)):
        if "distractors" not in item.manifest.dataset.spec:
            by_dataset[item.manifest.dataset.spec].append(item)
    print(
        "dataset                          pairs  deviation of a query's difference  correlation  groups  by the prior"
    )
    rows = []
    for spec, results in by_dataset.items():
        pairs = list(near_pairs(results))
        if len(pairs) < 3:
            continue
        deviations = np.quantile([values.std(ddof=1) for values, _ in pairs], (0.25, 0.5, 0.75))
        alike = [float(intraclass_correlation(values, units)[0]) for values, units in pairs]
        correlation = float(np.nanmedian(alike)) if not np.isnan(alike).all() else math.nan
        rows.append([*deviations, correlation])
        units = pairs[0][1]
        count = int(units.max()) + 1
        actual = float(np.median([robust_mean(*pair)[1][0] for pair in pairs])) * math.sqrt(count)
        prior = expected_error(BOARD_DEVIATIONS[1], BOARD_CORRELATION, units) * math.sqrt(count)
        needed = [queries_needed(0.02, sd) for sd in (actual, prior)]
        print(
            f"{spec:32} {len(pairs):5}  {deviations.round(3)!s:33}  {correlation:11.2f}  {needed[0]:6}  {needed[1]:12}"
        )
    print("median".ljust(38), np.nanmedian(np.array(rows), axis=0).round(3))


if __name__ == "__main__":
    main()
