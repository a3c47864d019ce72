"""Metrics: a catalogue by canonical name, and evaluation on integer arrays. Scoring calls it."""

from bench.metrics.catalogue import DEFAULT_METRICS, FURTHER_METRICS, get_measure, measures, parse_metric, parse_metrics
from bench.metrics.evaluate import Scores, evaluate
from bench.metrics.measure import Measure, Metric, RankingMeasure, SetMeasure

__all__ = [
    "DEFAULT_METRICS",
    "FURTHER_METRICS",
    "Measure",
    "Metric",
    "RankingMeasure",
    "Scores",
    "SetMeasure",
    "evaluate",
    "get_measure",
    "measures",
    "parse_metric",
    "parse_metrics",
]
