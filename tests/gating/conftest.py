"""Small results and baselines, made of values that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kit.baselines import DATASET, HARDWARE, LATENCY, ids, make_baseline
from kit.results import scored_by

from bench.base.errors import UnavailableError
from bench.gating.candidate import Candidate
from bench.gating.judge import judge
from bench.gating.policy import Policy
from bench.gating.report import GateReport
from bench.results.manifest import ScoringCode

Made = Callable[..., Any]


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
