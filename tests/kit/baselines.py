"""Baselines made of values that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.gating.baseline import Baseline, Blessing, Values
from bench.results.manifest import DatasetIdentity, Latency, MethodIdentity, ScoringCode
from kit.results import scored_by

DATASET = DatasetIdentity(
    spec="tiny",
    title="Tiny",
    content_hash="a" * 64,
    split="test",
    limit=None,
    queries=0,
    judged=0,
    no_gold=0,
    tools=5,
    history=0,
    template="description",
    unit="none",
)
METHOD = MethodIdentity(
    spec="mine", full_spec="mine()", hash="b" * 64, revisions={}, code="", oracle=False, needs_llm=False
)
LATENCY = Latency(p50=0.01, p95=0.02, queries=50, cached=False)
HARDWARE: dict[str, str | int] = {"processor": "X", "architecture": "x86_64", "cores": 2}


def ids(n: int) -> list[str]:
    return [f"q{i:04}" for i in range(n)]


def make_baseline(values: Mapping[str, Any], **more: Any) -> Baseline:
    """A baseline with these values."""
    n = len(next(iter(values.values())))
    fields: dict[str, Any] = {
        "result_id": "0123456789ab",
        "protocol": "2.0",
        "scoring": ScoringCode(**scored_by("s", values)),
        "depth": 100,
        "dataset": DATASET,
        "method": METHOD,
        "n": n,
        "n_failed": 0,
        "latency": LATENCY,
        "hardware": HARDWARE,
        "tokens": {"top_5": 100.0},
        "blessed": Blessing(by="someone", at="2026-01-01T00:00:00+00:00", reason="first blessing", bench="0.1.0"),
        "query_ids": ids(n),
        "n_gold": [1] * n,
        "units": list(range(n)),
        "rankings": "blessed",
        "values": {name: Values.of(np.asarray(column, dtype=np.float64)) for name, column in values.items()},
        "sha256": "",
    }
    return Baseline(**(fields | more)).sealed()
