"""Scoring speed: bench's metrics beside pytrec_eval's, on the same run, and its tie bands.

    python benchmarks/scoring.py [--queries 100000] [--depth 100]

Both score the same rankings with the same metrics, and the values are compared to 1e-9. bench starts from integer
arrays, as the runner has them; pytrec_eval from the dictionaries it asks for. Making either is not timed. For the tie
bands of the default metrics, every five tools of the ranking have one score.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytrec_eval

from bench.data.gold import Gold
from bench.metrics import DEFAULT_METRICS, evaluate, parse_metrics
from bench.metrics.ties import UnseenTies, tie_band

PAIRS = {
    "recall@5": "recall_5",
    "recall@10": "recall_10",
    "precision@5": "P_5",
    "precision@10": "P_10",
    "ndcg@5": "ndcg_cut_5",
    "ndcg@10": "ndcg_cut_10",
    "map@100": "map_cut_100",
    "mrr@100": "recip_rank",
}
THEIRS = {"recall.5,10", "P.5,10", "ndcg_cut.5,10", "map_cut.100", "recip_rank"}


def best(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The shortest of several times, and the last answer."""
    times, answer = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - started)
    return min(times), answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--tools", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    random = np.random.default_rng(0)
    distinct = np.argsort(random.random((min(2000, chosen.queries), chosen.tools)), axis=1)[:, : chosen.depth]
    tools = np.resize(distinct, (chosen.queries, chosen.depth)).astype(np.int32)
    rows = []
    for query in range(chosen.queries):
        # Half of the gold comes from the ranking's head, so that there is something to score.
        size = int(random.integers(1, 6))
        near = tools[query, random.integers(0, 20, size=size)]
        far = random.integers(0, chosen.tools, size=size)
        rows.append({int(tool): 1 for tool in np.where(random.random(size) < 0.5, near, far)})
    gold = Gold.of(rows)
    metrics = parse_metrics(PAIRS)
    ours, scores = best(lambda: evaluate(tools, gold, metrics), chosen.repeats)
    falling = (-(np.arange(chosen.depth) // 5)).astype(np.float32)
    tied = np.tile(falling, (chosen.queries, 1))
    wanted, beyond = parse_metrics(DEFAULT_METRICS), UnseenTies.none(chosen.queries)
    seconds, band = best(lambda: tie_band(tools, tied, gold, beyond, wanted), chosen.repeats)
    qrels = {str(q): {str(tool): 1 for tool in row} for q, row in enumerate(rows)}
    run = {
        str(q): {str(tool): float(chosen.depth - rank) for rank, tool in enumerate(row)}
        for q, row in enumerate(tools.tolist())
    }
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, THEIRS)
    theirs, reference = best(lambda: evaluator.evaluate(run), chosen.repeats)
    worst = 0.0
    for metric in metrics:
        column = np.array([reference[str(q)][PAIRS[str(metric)]] for q in range(chosen.queries)])
        worst = max(worst, float(np.abs(column - scores.column(metric)).max()))
    print(f"{chosen.queries} queries x {chosen.depth} tools, {len(metrics)} metrics, best of {chosen.repeats}")
    print(f"bench        {ours:8.3f} s")
    print(f"pytrec_eval  {theirs:8.3f} s")
    print(f"ratio        {theirs / ours:8.1f}")
    print(f"largest difference of any value: {worst:.1e}")
    print(f"tie bands of {len(band.metrics)} metrics, {band.tied_queries} queries with ties: {seconds:.3f} s")


if __name__ == "__main__":
    main()
