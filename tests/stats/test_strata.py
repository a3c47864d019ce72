"""Means of groups' means: their value, and the spread that resampling gives them."""

from __future__ import annotations

import numpy as np
import pytest

from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import SHARE
from bench.stats.power import minimum_detectable_effect
from bench.stats.strata import centred_span, centred_values, weighted_values

GROUPS = np.array([0] * 10 + [1] * 40 + [2] * 90)


def sample() -> np.ndarray:
    random = np.random.default_rng(0)
    return np.concatenate([random.beta(2, 5, 10), random.beta(5, 2, 40), random.beta(1, 1, 90)])[:, None]


def test_both_forms_have_the_mean_of_the_groups_means() -> None:
    values = sample()
    wanted = np.mean([values[group == GROUPS].mean() for group in range(3)])
    assert weighted_values(values, GROUPS).mean() == pytest.approx(wanted)
    assert centred_values(values, GROUPS).mean() == pytest.approx(wanted)


def test_the_spread_is_that_of_drawing_each_group_anew() -> None:
    values = sample()
    random = np.random.default_rng(1)
    drawn = [
        np.mean([random.choice(values[group == GROUPS, 0], int(np.sum(group == GROUPS))).mean() for group in range(3)])
        for _ in range(4000)
    ]
    low, high = bca_intervals(centred_values(values, GROUPS))[0]
    assert (low, high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.01)
    # Not that of the weighted values, which would take the distance of the groups for uncertainty.
    wide = bca_intervals(weighted_values(values, GROUPS))[0]
    assert wide[1] - wide[0] > 1.5 * (high - low)


def test_one_group_is_left_as_it_is() -> None:
    values = sample()
    assert (centred_values(values, np.zeros(140, dtype=np.int64)) == values).all()


def test_groups_with_a_gap_are_refused() -> None:
    with pytest.raises(ValueError, match="without a gap"):
        weighted_values(np.ones((2, 1)), np.array([0, 2]))


def test_the_minimum_detectable_effect_is_found_with_its_power() -> None:
    effect = minimum_detectable_effect(1.0, 50)
    assert effect == pytest.approx(2.801585 / np.sqrt(50), rel=1e-5)
    means = np.random.default_rng(2).normal(effect, 1, (20_000, 50)).mean(axis=1)
    assert (np.abs(means) * np.sqrt(50) > 1.959964).mean() == pytest.approx(0.8, abs=0.01)


def test_the_span_of_centred_values_holds_all_that_values_of_the_span_can_give() -> None:
    values = (np.arange(140) % 2).astype(np.float64)[:, None]
    centred = centred_values(values, GROUPS)
    low, high, _ = centred_span(values, GROUPS, SHARE)
    # Zeros and ones touch both ends in the smallest group, whose weights are the largest.
    assert (centred.min(), centred.max()) == (pytest.approx(low), pytest.approx(high))
    assert low < 0 < 1 < high
    assert centred_span(values, np.zeros(140, dtype=np.int64), SHARE) == SHARE
