"""How many groups show a difference: by hand, from kept results, and held against simulated tests."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.datasets import make_dataset
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.tables import Query, Tool
from bench.stats.power import expected_error, queries_needed
from bench.stats.randomisation import randomisation_test
from bench.stats.units import robust_mean
from bench.validation.power import BOARD_CORRELATION, BOARD_DEVIATIONS, DIFFERENCES, audit_power, pair_errors


def made(sizes: list[int]) -> Dataset:
    """A dataset whose units have so many queries."""
    tools = [Tool(f"t{number}", f"tool {number}", "") for number in range(len(sizes))]
    queries = [
        Query(f"q{number}-{again}", f"query {number} {again}", {f"t{number}": 1})
        for number, size in enumerate(sizes)
        for again in range(size)
    ]
    return make_dataset(tools, queries)


def test_single_queries_need_what_queries_need() -> None:
    power = audit_power(made([1] * 50))
    assert (power.judged, power.groups, power.pairs) == (50, 50, 0)
    assert power.deviations == pytest.approx(BOARD_DEVIATIONS)
    for item in power.needed:
        assert item.groups == item.queries == tuple(queries_needed(item.difference, sd) for sd in BOARD_DEVIATIONS)
    assert [item.difference for item in power.needed] == list(DIFFERENCES)
    # (1.959964 + 0.841621) · 0.31 / √50.
    assert power.detectable[1] == pytest.approx(2.801585 * 0.31 / math.sqrt(50), rel=1e-6)


def test_queries_of_a_group_count_for_less() -> None:
    power, single = audit_power(made([4] * 50)), audit_power(made([1] * 50))
    # The variance of the mean of four is (1 + 3 ρ) / 4 of that of one.
    share = (1 + 3 * BOARD_CORRELATION) / 4
    assert power.deviations == pytest.approx([sd * math.sqrt(share) for sd in BOARD_DEVIATIONS])
    for item, other in zip(power.needed, single.needed, strict=True):
        assert item.groups[1] == pytest.approx(other.groups[1] * share, abs=1)
        assert item.queries == tuple(4 * count for count in item.groups)


def test_a_library_without_queries_is_told_how_many_to_write() -> None:
    power = audit_power(make_dataset([Tool("a", "a", "a")]))
    assert (power.judged, power.groups, power.detectable) == (0, 0, ())
    assert power.needed[0].queries[1] == queries_needed(0.01, BOARD_DEVIATIONS[1])


def test_kept_results_are_the_prior(starter_results: Path, bench: Callable[..., Any]) -> None:
    power = json.loads(bench("data", "audit", "starter", "--results", starter_results, "--json").out)["power"]
    alone = json.loads(bench("data", "audit", "starter", "--json").out)["power"]
    assert alone["pairs"] == 0
    assert power["pairs"] >= 3
    assert power["deviations"] != alone["deviations"]
    assert power["deviations"] == sorted(power["deviations"])


def test_the_audit_prints_what_is_needed(bench: Callable[..., Any]) -> None:
    out = bench("data", "audit", "starter").out
    assert "groups of queries that show a difference with 80% power at the 5% level" in out
    assert "pairs of methods on our board" in out
    assert "126 judged queries in 93 groups show 0.0" in out


def test_a_damaged_result_does_not_count(ready: Path, bench: Callable[..., Any]) -> None:
    def pairs() -> int:
        return int(json.loads(bench("data", "audit", "starter", "--results", ready, "--json").out)["power"]["pairs"])

    whole = pairs()
    table = next(ready.glob("starter/bm25-[0-9a-f]*/per_query.parquet"))
    table.write_bytes(table.read_bytes()[:-100])
    assert pairs() < whole


def test_results_of_other_questions_do_not_count(starter_results: Path) -> None:
    assert audit_power(made([1] * 50), starter_results).pairs == 0
    assert audit_power(made([1] * 50), starter_results / "nowhere").pairs == 0
    assert len(pair_errors([])) == 0


def simulated(
    sizes: NDArray[np.int64], effect: float, sd: float, correlation: float, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Differences of -1, 0 and 1 with this mean and deviation, of which those of a unit are equal with chance ρ."""
    units = np.repeat(np.arange(len(sizes)), sizes)
    moved = sd * sd + effect * effect
    chances = [(moved - effect) / 2, 1 - moved, (moved + effect) / 2]
    # A query takes the value of its unit with chance √ρ, so that two take the same one with chance ρ.
    shared = random.choice([-1.0, 0.0, 1.0], p=chances, size=len(sizes))[units]
    alone = random.choice([-1.0, 0.0, 1.0], p=chances, size=len(units))
    return np.where(random.random(len(units)) < math.sqrt(correlation), shared, alone), units


@pytest.mark.parametrize(
    ("shape", "correlation"), [((1,), 0.0), ((1, 1, 2, 4), BOARD_CORRELATION), ((3,), BOARD_CORRELATION)]
)
@pytest.mark.parametrize("effect", [0.05, 0.1])
def test_so_many_groups_find_the_difference_four_times_in_five(
    shape: tuple[int, ...], correlation: float, effect: float
) -> None:
    random = np.random.default_rng(0)
    sd = BOARD_DEVIATIONS[1]
    present = np.resize(np.array(shape), 40)
    units = np.repeat(np.arange(40), present)
    groups = queries_needed(effect, expected_error(sd, correlation, units) * math.sqrt(40))
    assert groups is not None
    sizes = np.resize(np.array(shape), groups)
    runs, detected, errors = 400, 0, []
    for run in range(runs):
        values, codes = simulated(sizes, effect, sd, correlation, random)
        detected += int(randomisation_test(values[:, None], flips=999, seed=run, units=codes)[0] < 0.05)
        errors.append(robust_mean(values[:, None], codes)[1][0])
    # Four standard errors of a share of 0.8 in 400 runs.
    assert detected / runs == pytest.approx(0.8, abs=0.08)
    assert np.mean(errors) == pytest.approx(
        expected_error(sd, correlation, np.repeat(np.arange(groups), sizes)), rel=0.05
    )
