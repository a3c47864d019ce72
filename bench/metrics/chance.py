"""Measures against chance: comparison with tools drawn at random from the library. Scoring calls it.

The size of the library is not part of a query's gold, which is all that `evaluate` knows, so `evaluate` leaves these
metrics out and this module fills them in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.metrics.evaluate import Scores
from bench.metrics.goldranks import MISSING, GoldRanks
from bench.metrics.measure import ChanceMeasure, Draws


def with_chance(
    scores: Scores,
    tools: NDArray[np.int32],
    gold: Gold,
    library: int,
    unanswered: NDArray[np.bool_] | None = None,
) -> Scores:
    """The values of `evaluate`, with those of the metrics against chance; NaN for queries without gold.

    Args:
        scores: scores of the same rankings.
        tools, gold, unanswered: as for `evaluate`.
        library: number of tools in the library.
    """
    chosen = [column for column, metric in enumerate(scores.metrics) if isinstance(metric.measure, ChanceMeasure)]
    rows = np.flatnonzero(gold.counts)
    if not chosen or not len(rows):
        return scores
    judged = gold.take(rows)
    first = GoldRanks.of(tools[rows], judged).ranks[:, 0]
    if unanswered is not None:
        first = np.where(unanswered[rows], MISSING, first)
    draws = Draws(first, judged.members().counts, library)
    values = scores.values.copy()
    for column in chosen:
        metric = scores.metrics[column]
        values[rows, column] = metric.measure.function(draws, metric.depths(judged.counts))
    return replace(scores, values=values)
