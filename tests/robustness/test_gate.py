"""`max_capture`: what attackers reach is bounded, and an unmeasured attack is no pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.base.paths import results_folder
from bench.gating.policy import read_policy
from bench.results.manifest import MetricValue
from bench.results.store import StoredResult
from bench.robustness.report import Capture, Effect, MethodStress, code_of_stress, write_stress

Bench = Callable[..., Any]


@pytest.fixture
def gate(bench: Bench, tmp_path: Path) -> Callable[[float, int], dict[str, Any]]:
    """Gates bm25 on the starter against itself, with a limit for attackers; gives the rule."""
    bench("run", "-m", "bm25", "-q")
    bench("bless", "bm25@starter", "--out", tmp_path / "b.json", "--by", "a person")

    def run(limit: float, code: int) -> dict[str, Any]:
        (tmp_path / "gate.toml").write_text(f"max_capture = {limit}\n")
        words = ("--baseline", tmp_path / "b.json", "--policy", tmp_path / "gate.toml", "--json")
        (rule,) = bench("gate", "bm25@starter", *words, code=code).json["rules"]
        return dict(rule)

    return run


def captured(folder: Path, share: float) -> None:
    """Write what an attack does to the only result there: it captures the first queries."""
    result = StoredResult.read(folder)
    ids = result.per_query["query_id"].to_pylist()
    some = ids[: round(share * len(ids))]
    value = MetricValue(mean=share, low=None, high=None, n=len(ids))
    capture = Capture(
        attackers=1, capture=value, mean=share, domination=0.0, pairs=0, above=None, tokens=None, captured=some
    )
    made = MethodStress(
        result_id=result.manifest.result_id,
        label=result.label,
        method="bm25",
        dataset="starter",
        content_hash="0",
        metric="recall@5",
        k=5,
        seed=0,
        code=code_of_stress(),
        effects=[Effect(perturbation="clone", kind="attack", capture=capture)],
    )
    write_stress(folder, made)


def test_without_a_measured_attack_the_rule_is_not_run(gate: Callable[[float, int], dict[str, Any]]) -> None:
    rule = gate(0.1, 3)
    assert rule["verdict"] == "not run"
    assert "no attack was measured on this result; `bench stress METHOD -d DATASET -p attack` does it" in rule["note"]


@pytest.mark.parametrize(
    ("share", "limit", "verdict", "code"),
    [(0.02, 0.2, "pass", 0), (0.5, 0.2, "regression", 1), (0.22, 0.2, "inconclusive", 2)],
)
def test_the_bounds_of_the_share_decide(
    gate: Callable[[float, int], dict[str, Any]],
    share: float,
    limit: float,
    verdict: str,
    code: int,
) -> None:
    (folder,) = results_folder().glob("starter/bm25-*")
    captured(folder, share)
    rule = gate(limit, code)
    assert (rule["name"], rule["verdict"], rule["threshold"]) == ("capture@5 under clone", verdict, limit)
    assert rule["candidate"] == pytest.approx(share, abs=0.005)
    assert rule["lower"] < rule["candidate"] < rule["upper"]
    assert rule["n"] == 134


def test_measurements_by_other_code_are_no_pass(gate: Callable[[float, int], dict[str, Any]]) -> None:
    (folder,) = results_folder().glob("starter/bm25-*")
    captured(folder, 0.0)
    path = folder / "stress.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"code": "0" * 64}))
    rule = gate(0.2, 3)
    assert rule["verdict"] == "not run"
    assert "was made by other code; run `bench stress` again" in rule["note"]


def test_a_limit_alone_is_a_policy_and_a_share(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("max_capture = 0.1\n")
    assert read_policy(tmp_path / "p.toml").max_capture == 0.1
