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
from bench.robustness.perturbation import choose
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
        rules = bench("gate", "bm25@starter", *words, code=code).json["rules"]
        assert len({(rule["verdict"], rule["candidate"]) for rule in rules if rule["verdict"] != "not run"}) < 2
        return dict(rules[-1])

    return run


def captured(folder: Path, share: float, measured: int = 5) -> None:
    """Write what attacks do to the only result there: each captures the first queries."""
    result = StoredResult.read(folder)
    ids = result.per_query["query_id"].to_pylist()
    some = ids[: round(share * len(ids))]
    value = MetricValue(mean=share, low=None, high=None, n=len(ids))
    capture = Capture(
        attackers=1, capture=value, mean=share, domination=0.0, pairs=0, above=None, tokens=None, captured=some
    )
    attacks = [str(item) for item in choose(["attack"])]
    made = MethodStress(
        result_id=result.manifest.result_id,
        label=result.label,
        method="bm25",
        dataset="starter",
        content_hash=result.manifest.dataset.content_hash,
        metric="recall@5",
        k=5,
        seed=0,
        code=code_of_stress(),
        effects=[Effect(perturbation=name, kind="attack", capture=capture) for name in attacks[:measured]],
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
    assert (rule["name"], rule["verdict"], rule["threshold"]) == ("capture@5 under greedy", verdict, limit)
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


def test_every_built_in_attack_must_be_measured(gate: Callable[[float, int], dict[str, Any]]) -> None:
    (folder,) = results_folder().glob("starter/bm25-*")
    captured(folder, 0.0, measured=4)
    rule = gate(0.2, 3)
    assert (rule["name"], rule["verdict"]) == ("capture@5 under greedy", "not run")
    assert "it was not measured" in rule["note"]


def test_the_file_of_another_result_is_no_pass(gate: Callable[[float, int], dict[str, Any]]) -> None:
    (folder,) = results_folder().glob("starter/bm25-*")
    captured(folder, 0.0)
    path = folder / "stress.json"
    raw = json.loads(path.read_text("utf-8"))
    for change in ({"result_id": "0" * 12}, {"content_hash": "1"}, {"metric": "recall@1", "k": 1}):
        path.write_text(json.dumps(raw | change))
        assert gate(0.2, 3)["verdict"] == "not run"
    raw["effects"][0]["capture"]["captured"] = ["of-another-dataset"]
    path.write_text(json.dumps(raw))
    rule = gate(0.2, 3)
    assert "names queries that the result does not have" in rule["note"]


def test_a_limit_alone_is_a_policy_and_a_share(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("max_capture = 0.1\n")
    assert read_policy(tmp_path / "p.toml").max_capture == 0.1
