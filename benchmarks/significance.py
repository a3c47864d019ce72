"""Significance tests and intervals: bench's beside scipy's and ranx's, on the same differences.

    python benchmarks/significance.py [--queries 765] [--systems 10] [--flips 100000]

Rankings of made-up systems are scored with twelve metrics, and each system is compared with the first on each metric.
bench tests all columns in one call; `scipy.stats.permutation_test` and ranx's Fisher test take one at a time, so some
columns are taken. scipy is timed in the batches that suit it best (as called by default, it holds all flips at once and
is slower); ranx is timed if it is installed, after a first call that compiles it. The ratio is of the time for a test.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bench.data.gold import Gold
from bench.metrics import evaluate, parse_metrics
from bench.stats.bootstrap import RESAMPLES, bca_intervals
from bench.stats.randomisation import FLIPS, randomisation_test
from bench.stats.ranking import pairwise_tests

METRICS = (
    "recall@1 recall@5 recall@10 ndcg@5 ndcg@10 pass@5 pass@10 precision@5 mrr@10 map@10 tracc@5 tracc@10"
).split()


def best(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The shortest of several times, and the last answer."""
    times, answer = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - started)
    return min(times), answer


def scored(queries: int, systems: int, tools: int = 200) -> NDArray[np.float64]:
    """(queries, systems, metrics) values of systems that differ a little; gold and noise are shared in part."""
    random = np.random.default_rng(0)
    gold = [random.choice(tools, size=random.integers(1, 6), replace=False) for _ in range(queries)]
    near = np.zeros((queries, tools))
    for query, gold_tools in enumerate(gold):
        near[query, gold_tools] = random.normal(1.9, 0.8, len(gold_tools))
    shared = random.normal(size=(queries, tools))
    metrics = parse_metrics(METRICS)
    rows = Gold.of([{int(tool): 1 for tool in row_tools} for row_tools in gold])
    tables = []
    for system in range(systems):
        scores = near * (1 + 0.006 * system) + 0.9 * shared + 0.5 * random.normal(size=(queries, tools))
        ranked = np.argsort(-scores, axis=1)[:, :50].astype(np.int32)
        values = evaluate(ranked, rows, metrics)
        tables.append(np.column_stack([values.column(metric) for metric in metrics]))
    return np.stack(tables, axis=1)


def by_scipy(column: NDArray[np.float64], flips: int, batch: int | None) -> float:
    test = stats.permutation_test(
        (column,),
        np.mean,
        permutation_type="samples",
        n_resamples=flips,
        vectorized=True,
        batch=batch,
        rng=np.random.default_rng(1),
    )
    return float(test.pvalue)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=765)
    parser.add_argument("--systems", type=int, default=10)
    parser.add_argument("--flips", type=int, default=FLIPS)
    parser.add_argument("--checked", type=int, default=12, help="columns that scipy tests too")
    parser.add_argument("--repeats", type=int, default=7)
    chosen = parser.parse_args()
    values = scored(chosen.queries, chosen.systems)
    differences = (values[:, 1:] - values[:, :1]).reshape(chosen.queries, -1)
    columns = differences.shape[1]
    print(
        f"{chosen.systems - 1} systems against one, {len(METRICS)} metrics: {columns} tests of {chosen.queries} queries"
    )
    print(f"{chosen.flips} flips; best of {chosen.repeats} for bench, best of all columns for the others")

    ours, p = best(lambda: randomisation_test(differences, chosen.flips), chosen.repeats)
    print(f"bench    {ours:8.3f} s for {columns} tests, {1000 * ours / columns:9.2f} ms for one")
    # Spread over the range of p, so that small ones are among them.
    checked = np.argsort(p)[np.linspace(0, columns - 1, min(chosen.checked, columns)).astype(int)]
    runs = [best(partial(by_scipy, differences[:, column], chosen.flips, 5000), 1) for column in checked]
    theirs = min(seconds for seconds, _ in runs)
    default, _ = best(lambda: by_scipy(differences[:, checked[0]], chosen.flips, None), 1)
    print(f"scipy    {1000 * theirs:35.2f} ms for one: {theirs / ours * columns:.0f} times ours")
    print(f"         {1000 * default:35.2f} ms as called by default: {default / ours * columns:.0f} times ours")
    apart = max(abs(value - p[column]) for column, (_, value) in zip(checked, runs, strict=True))
    # scipy doubles the smaller tail, and with it that tail's error; ours counts both tails.
    variances = (np.maximum(p * (1 - p), 1 / chosen.flips) + p * (2 - p)) / chosen.flips
    errors = max(abs(value - p[c]) / math.sqrt(variances[c]) for c, (_, value) in zip(checked, runs, strict=True))
    print(
        f"{len(checked)} columns, p from {p[checked].min():.5f} to {p[checked].max():.5f}: scipy's differs by at most"
    )
    print(f"         {apart:.5f}, {errors:.1f} standard errors")
    try:
        from ranx.statistical_tests.fisher_randomization_test import fisher_randomization_test
    except ImportError:
        print("ranx     is not installed: not measured")
    else:
        pairs = [
            (np.ascontiguousarray(differences[:, c]), np.zeros(chosen.queries)) for c in checked[:: len(checked) // 3]
        ]
        fisher_randomization_test(*pairs[0], n_permutations=10)
        times = [best(partial(fisher_randomization_test, *pair, n_permutations=chosen.flips), 1) for pair in pairs]
        seconds = min(value for value, _ in times)
        print(f"ranx     {1000 * seconds:35.2f} ms for one: {seconds / ours * columns:.0f} times ours")

    table = values.reshape(chosen.queries, -1)
    seconds, _ = best(lambda: bca_intervals(table), chosen.repeats)
    one, _ = best(
        lambda: stats.bootstrap(
            (table[:, 4],), np.mean, n_resamples=RESAMPLES, method="BCa", rng=np.random.default_rng(1)
        ),
        chosen.repeats,
    )
    print(f"BCa intervals, {RESAMPLES} resamples: bench {seconds:.3f} s for {table.shape[1]} columns,")
    print(f"         scipy {one:.3f} s for one: bench takes {seconds / one:.2f} times as long")
    seconds, _ = best(lambda: pairwise_tests(values[:, :, 4], flips=chosen.flips), 1)
    print(f"all pairs of {chosen.systems} systems, {chosen.flips} flips: {seconds:.2f} s")


if __name__ == "__main__":
    main()
