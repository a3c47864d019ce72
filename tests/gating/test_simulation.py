"""What the gate claims, simulated: a short seeded run of `benchmarks/gate.py`."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from kit.programs import program
from numpy.typing import NDArray

from bench.gating.baseline import read_baseline

ROOT = Path(__file__).resolve().parents[2]
RUNS = 300
#: Three standard errors of a share of 0.05 over so many runs.
ROOM = 3 * (0.05 * 0.95 / RUNS) ** 0.5


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """The program of the simulation."""
    return program("benchmarks/gate.py")


@pytest.fixture(scope="module")
def values() -> NDArray[np.float64]:
    """Values of recall@5 of the queries that a blessed baseline judges."""
    stored = read_baseline(ROOT / "baselines" / "apibank-tgr.json").values["recall@5"].array()
    judged: NDArray[np.float64] = stored[~np.isnan(stored)]
    assert len(judged) == 269
    return judged


def shares(
    benchmark: ModuleType, values: NDArray[np.float64], loss: float, noise: float, margin: float, queries: int = 269
) -> tuple[dict[str, float], float]:
    """Share of each verdict, and the stated power of finding a loss above the margin."""
    random = np.random.default_rng(1)
    differences = benchmark.simulated(values, loss, noise, queries, RUNS, random)
    verdicts = benchmark.verdicts(differences, margin)
    power = benchmark.stated_power(loss, margin, float(differences.std()), queries) if loss > margin else 0.0
    return {name: verdicts[name] / RUNS for name in ("pass", "inconclusive", "regression")}, power


def test_the_planted_loss_is_the_one_asked_for(benchmark: ModuleType, values: NDArray[np.float64]) -> None:
    random = np.random.default_rng(2)
    many = benchmark.simulated(values, 0.03, 0.05, 269, 4000, random)
    assert many.mean() == pytest.approx(-0.03, abs=0.001)


@pytest.mark.parametrize("margin", [0.0, 0.005])
def test_a_planted_loss_is_caught_at_the_stated_power(
    benchmark: ModuleType, values: NDArray[np.float64], margin: float
) -> None:
    result, power = shares(benchmark, values, 0.03, 0.01, margin)
    assert power > 0.75
    assert result["regression"] >= power
    assert result["pass"] == 0


def test_equal_scores_alone_decide_nothing(benchmark: ModuleType, values: NDArray[np.float64]) -> None:
    # The gate passes a candidate with the rankings of its baseline, whatever they score.
    assert shares(benchmark, values, 0.0, 0.0, 0.0)[0]["inconclusive"] == 1


@pytest.mark.parametrize(("loss", "noise"), [(0.0, 0.05), (0.01, 0.02), (0.02, 0.02), (0.02, 0.10)])
def test_a_loss_within_the_margin_is_called_a_regression_no_more_often_than_stated(
    benchmark: ModuleType, values: NDArray[np.float64], loss: float, noise: float
) -> None:
    assert shares(benchmark, values, loss, noise, 0.02)[0]["regression"] <= 0.05 + ROOM


def test_a_loss_of_the_margin_passes_no_more_often_than_stated(
    benchmark: ModuleType, values: NDArray[np.float64]
) -> None:
    assert shares(benchmark, values, 0.02, 0.02, 0.02)[0]["pass"] <= 0.05 + ROOM


def test_too_few_queries_are_mostly_inconclusive(benchmark: ModuleType, values: NDArray[np.float64]) -> None:
    result, _ = shares(benchmark, values, 0.03, 0.3, 0.02, queries=30)
    assert result["inconclusive"] > 0.7
