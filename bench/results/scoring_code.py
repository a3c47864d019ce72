"""The code that computed the numbers of a result, and which older code is known to give the same numbers.

A manifest has a sha256 for each measure, for intervals and for token counts (`bench.results.code_versions`). This is
the only module that decides whether two numbers come from the same code.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bench.metrics.measure import measure_name
from bench.results.manifest import ScoringCode

#: Versions of the scoring code known to give the same numbers, written by `python benchmarks/samescoring.py`.
SAME_SCORING = Path(__file__).with_name("same_scoring.json")


def code_of(scoring: ScoringCode, metric: str) -> str:
    """sha256 of the code that computed a metric; today's, if the older code is known to give the same numbers.

    Empty if the result lacks the measure.
    """
    name = measure_name(metric)
    code = scoring.measures.get(name, "")
    known: dict[str, str] = same_scoring()["measures"].get(name, {})
    return known.get(code, code)


def without_code(scoring: ScoringCode, metrics: Collection[str]) -> list[str]:
    """The metrics whose code a result does not state: they would compare with anything."""
    measures = {measure_name(name) for name in metrics}
    lacking = {measure for measure in measures if not code_of(scoring, measure)}
    return [name for name in metrics if measure_name(name) in lacking] if lacking else []


def current_code(kind: Literal["intervals", "tokens", "lenient", "ties"], code: str) -> str:
    """sha256 of the code that made intervals, token counts, lenient means or tie bands, as from `code_of`."""
    known: dict[str, str] = same_scoring()[kind]
    return known.get(code, code)


def has_same_code(first: ScoringCode, second: ScoringCode, metrics: Iterable[str]) -> bool:
    """Whether the same code made the metrics, intervals and token counts of two results."""
    return (
        all(code_of(first, name) == code_of(second, name) for name in metrics)
        and current_code("intervals", first.intervals) == current_code("intervals", second.intervals)
        and current_code("tokens", first.tokens) == current_code("tokens", second.tokens)
    )


@cache
def same_scoring() -> dict[str, dict[str, Any]]:
    """Findings of `python benchmarks/samescoring.py`: sha256 of older code -> sha256 of code with the same numbers.

    For `intervals`, `tokens`, `lenient` and `ties`; and under `measures` for each measure by its name.
    """
    known: dict[str, dict[str, Any]] = json.loads(SAME_SCORING.read_text("utf-8"))
    return known
