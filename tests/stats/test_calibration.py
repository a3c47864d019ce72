"""The tests keep their promises on what recall looks like: size, coverage and power (`benchmarks/calibration.py`)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from bench.stats.bootstrap import bca_intervals
from bench.stats.classical import paired_t, wilcoxon
from bench.stats.power import minimum_detectable_effect, queries_needed
from bench.stats.randomisation import randomisation_test

SIMULATIONS = 400


def simulated(seed: int, queries: int, gain: float = 0.0) -> NDArray[np.float64]:
    """(queries, simulations) differences of recall of one to four gold tools, with a true mean of `gain`."""
    random = np.random.default_rng(seed)
    gold = random.integers(1, 5, (queries, SIMULATIONS))
    chance = random.uniform(0.1, 0.9 - gain, gold.shape)
    differences: NDArray[np.float64] = (random.binomial(gold, chance + gain) - random.binomial(gold, chance)) / gold
    return differences


def plausible(count: int, share: float) -> bool:
    """Whether so many of the simulations is no surprise of one in 5,000 if the share is true."""
    low, high = (float(binom.ppf(end, SIMULATIONS, share)) for end in (1e-4, 1 - 1e-4))
    return bool(low <= count <= high)


@pytest.mark.parametrize("test", [lambda d: randomisation_test(d, 1000), paired_t, wilcoxon])
def test_one_in_twenty_finds_something_in_nothing(test: object) -> None:
    p = test(simulated(0, 100))  # type: ignore[operator]
    for level in (0.05, 0.2):
        assert plausible(int((p < level).sum()), level)


@pytest.mark.parametrize("gain", [0.0, 0.1])
def test_nineteen_in_twenty_intervals_hold_the_true_difference(gain: float) -> None:
    low, high = bca_intervals(simulated(1, 100, gain), resamples=1000).T
    assert plausible(int(((low <= gain) & (gain <= high)).sum()), 0.95)


def test_the_detectable_effect_is_found_in_four_of_five() -> None:
    sd = float(simulated(2, 500, 0.1).std())
    gain = minimum_detectable_effect(sd, 150)
    total = (randomisation_test(simulated(3, 150, gain), 1000) < 0.05).sum()
    assert plausible(int(total), 0.8)


def test_power_grows_with_the_queries_as_it_should() -> None:
    sd = float(simulated(4, 500, 0.1).std())
    for power in (0.4, 0.7, 0.95):
        needed = queries_needed(0.1, sd, power=power)
        assert needed is not None
        total = (randomisation_test(simulated(5, needed, 0.1), 1000) < 0.05).sum()
        assert plausible(int(total), power)
