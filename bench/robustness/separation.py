"""How well the score of the first tool tells requests from the same ones whose right tools are hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.evaluation.cut import Cut, split_history
from bench.evaluation.plan import Plan
from bench.evaluation.runner import views
from bench.evaluation.scoring import first_scores
from bench.interface import History, Ranking
from bench.metrics import evaluate, parse_metrics
from bench.results.intervals import means_and_intervals
from bench.robustness.report import Separation

#: The share of false returns for which the cut is learnt.
RATE = 0.1


@dataclass(frozen=True)
class PastQueries:
    """Past queries with gold to learn a cut on.

    Attributes:
        fitted: rows of the history that the method learns from meanwhile.
        held: rows of the dataset that the cut is learnt on; empty if there are too few.
    """

    fitted: NDArray[np.int64]
    held: NDArray[np.int64]


def past_queries(plan: Plan, data: Dataset) -> PastQueries:
    """The queries on which `bench run --cut threshold` would learn, without those that no tool answers."""
    history = views(plan, data)[1]
    try:
        fitted, held = split_history("threshold", history)
    except UsageError:
        return PastQueries(np.arange(0), np.arange(0))
    rows = History.rows(data, data.rows(plan.evaluated_split(data)))[held]
    return PastQueries(fitted, rows[data.gold.counts[rows] > 0])


def separate(
    before: Ranking, after: Ranking, gold: Gold, units: NDArray[np.int64], known: Ranking | None
) -> Separation:
    """AUROC of requests and the same requests with hidden tools, and both shares at a learnt cut.

    Args:
        before, after: rankings of the requests with scores, as they are and with hidden tools.
        gold: of the requests as they are.
        units: (requests,) units of independence.
        known: of past requests with hidden tools, on which the cut is learnt; None if there are none. The cut is the
            lowest score that at most `RATE` of them reach.
    """
    n = len(gold)
    joined = Gold(np.concatenate([gold.starts, np.full(n, gold.starts[-1])]), gold.tools, gold.grades)
    failed = [np.zeros(n, dtype=np.bool_) if part.failed is None else part.failed for part in (before, after)]
    both, sets, learnt_on = Ranking.join([before, after]), None, 0
    if known is not None:
        scores, learnt_on = first_scores(known), len(known)
        assert scores is not None
        edge = np.nextafter(np.float32(np.quantile(scores, 1 - RATE, method="higher")), np.float32(np.inf))
        sets = Cut("threshold", float(edge)).apply(both)
    metrics = parse_metrics(["auroc", "answered", "abstained"])
    scored = evaluate(both.tools, joined, metrics, sets, np.concatenate(failed), first_scores(both))
    means = means_and_intervals(scored, np.concatenate([units, units]), joined.counts)
    return Separation(
        auroc=means["auroc"],
        rate=RATE,
        learnt_on=learnt_on,
        answered=means["answered"].mean if "answered" in means else None,
        false_returns=1 - means["abstained"].mean if "abstained" in means else None,
    )
