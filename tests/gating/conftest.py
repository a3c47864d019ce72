"""Small results and baselines, made of values that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kit.results import scored_by

from bench.base.errors import UnavailableError
from bench.gating.baseline import Baseline, Blessing, Values
from bench.gating.candidate import Candidate
from bench.gating.judge import judge
from bench.gating.policy import Policy
from bench.gating.report import GateReport
from bench.results.manifest import DatasetIdentity, Latency, MethodIdentity, ScoringCode

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

Made = Callable[..., Any]


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


def make_candidate(values: Mapping[str, Any], **more: Any) -> Candidate:
    """A candidate with these values."""
    n = len(next(iter(values.values())))
    columns = {
        "query_id": more.pop("query_ids", ids(n)),
        "unit": more.pop("unit", ids(n)),
        "n_gold": more.pop("n_gold", [1] * n),
    }
    fields: dict[str, Any] = {
        "label": "other @ tiny",
        "result_id": "fedcba987654",
        "method_hash": "c" * 64,
        "dataset": DATASET,
        "depth": 100,
        "protocol": "2.0",
        "scoring": ScoringCode(**scored_by("s", values)),
        "n_failed": 0,
        "latency": LATENCY,
        "hardware": HARDWARE,
        "tokens": {"top_5": 100.0},
        "rankings": "other",
        "per_query": pa.table(columns | {name: list(map(float, column)) for name, column in values.items()}),
    }
    return Candidate(**(fields | more))


def no_dataset(at_hand: bool) -> Any:
    raise UnavailableError("there is no dataset here.")


def judged(then: Mapping[str, Any], now: Mapping[str, Any], policy: dict[str, Any], **more: Any) -> GateReport:
    """The report on values now against values then; `before` are fields of the baseline."""
    load = more.pop("load", no_dataset)
    before = more.pop("before", {})
    return judge(make_candidate(now, **more), make_baseline(then, **before), Policy.model_validate(policy), load)


@pytest.fixture(name="make_baseline")
def _make_baseline() -> Made:
    """Make a baseline of values, by `make_baseline`."""
    return make_baseline


@pytest.fixture(name="judged")
def _judged() -> Made:
    """Judge values against a baseline, by `judged`."""
    return judged


@pytest.fixture
def policy_file(tmp_path: Path) -> Callable[[str], Path]:
    """A policy of this text."""

    def policy_file(text: str) -> Path:
        path = tmp_path / "gate.toml"
        path.write_text(text, "utf-8")
        return path

    return policy_file
