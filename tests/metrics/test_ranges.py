"""Ranges: every interval lies where its metric can, and has a width, however few queries there are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.data.gold import Gold
from bench.interface.ranking import Ranking, ToolSets
from bench.metrics import Metric, Scores, parse_metric
from bench.metrics.evaluate import evaluate
from bench.metrics.measures import MEASURES
from bench.results.intervals import means_and_intervals
from bench.stats.noninferiority import at_least, non_inferiority
from bench.stats.paired import compare

CUTOFFS = {"k": ("@5", "@100"), "gold": ("@gold",), "none": ("",)}
NAMES = [measure.name + cut for measure in MEASURES for form in sorted(measure.cutoffs) for cut in CUTOFFS[form]]
NAMES += ["rbp(p=0.5)@3", "mmrr@2"]


def extremes(metric: Metric, gold: int) -> tuple[float, float]:
    """The smallest and the largest value, or numbers that stand for them where there is none."""
    span = metric.span([gold])
    return (span.low if math.isfinite(span.low) else -3.0), (span.high if math.isfinite(span.high) else 7.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gold", [1, 7])
def test_intervals_lie_in_the_range_of_their_metric_and_have_a_width(name: str, gold: int) -> None:
    metric = parse_metric(name)
    low, high = extremes(metric, gold)
    span, counted = metric.span([gold]), metric.measure.averages and math.isfinite(metric.span([gold]).high)
    for n, per_unit in ((3, 1), (25, 2)):
        units = np.arange(n) // per_unit
        for rest, first in ((high, high), (low, low), (high, low)):
            values = np.full((n, 1), rest)
            values[0] = first
            found = means_and_intervals(Scores((metric,), values), units, np.full(n, gold))[name]
            differences, of_both = values - rest, span.of_differences()
            (pair,) = compare(differences, units=units, span=of_both)
            (bounds,) = non_inferiority(differences, 0.02, units=units, span=of_both)
            # Equal values of a metric without a largest one, or of a statistic, say nothing of the spread.
            known = counted or first != rest
            assert (found.low is not None) == known
            for ends, among in (((found.low, found.high), span), ((pair.low, pair.high), of_both)):
                if ends[0] is not None and ends[1] is not None:
                    assert among.low <= ends[0] < ends[1] <= among.high
            assert (
                bounds.lower is None
                or bounds.upper is None
                or of_both.low <= bounds.lower < bounds.upper <= of_both.high
            )
            # Nothing passes on equal values alone.
            if first == rest:
                assert bounds.verdict == "inconclusive"
                assert at_least(values, rest - 0.001, units=units, span=span)[0].verdict == "inconclusive"


@pytest.mark.parametrize("name", [name for name in NAMES if parse_metric(name).on_gold_ranks])
def test_values_lie_in_the_range_and_reach_its_upper_end(name: str) -> None:
    metric = parse_metric(name)
    for gold in (1, 4, 7):
        rankings = [list(range(start, start + 120)) for start in (0, 3, 50, 200)]
        tools = Ranking.of_lists([row[:100] for row in rankings]).tools
        judged = Gold.of([dict.fromkeys(range(gold), 1)] * len(rankings))
        values = evaluate(tools, judged, [metric], ToolSets.of(rankings)).values[:, 0]
        metric.span(judged.counts).check(values)
        if metric.measure.largest is not None:
            assert values[0] == pytest.approx(metric.span([gold]).high)


def test_mmrr_exceeds_1_where_there_are_more_gold_tools_than_places() -> None:
    # Seven gold tools at ranks 1, 2, and five times 3: 4 / (18 / 7).
    assert parse_metric("mmrr@2").span([1, 7, 3]).high == pytest.approx(28 / 18)
    assert parse_metric("mmrr@100").span([7]).high == parse_metric("mmrr@2").span([3]).high == 1.0
