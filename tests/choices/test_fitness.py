"""Fitness of a model that chooses: chance by enumeration, positions by permutation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.choices.fitness import position_test
from bench.metrics.measures import chance_of_hit


@given(st.integers(1, 7), st.integers(0, 7), st.integers(0, 9))
def test_chance_is_the_share_of_all_draws_with_a_gold_tool(shown: int, gold: int, called: int) -> None:
    gold = min(gold, shown)
    draws = list(combinations(range(shown), min(called, shown)))
    share = sum(any(tool < gold for tool in draw) for draw in draws) / len(draws)
    assert chance_of_hit(np.array([gold]), np.array([called]), np.array([shown])) == pytest.approx(share)


def test_success_that_hangs_on_the_position_is_found_and_luck_is_not() -> None:
    random = np.random.default_rng(5)
    position = random.integers(0, 5, 300)
    assert position_test(position, (position == 3).astype(np.float64)) == pytest.approx(1 / 10_001)
    ps = [position_test(random.integers(0, 5, 60), (random.random(60) < 0.4).astype(np.float64), i) for i in range(40)]
    found = [p for p in ps if p is not None]
    assert len(found) == 40
    assert np.mean(np.array(found) < 0.05) < 0.2
    assert 0.3 < np.mean(found) < 0.7


def test_one_position_tells_nothing() -> None:
    assert position_test(np.zeros(9, dtype=np.int64), np.ones(9)) is None


def test_all_alike_show_no_dependence() -> None:
    assert position_test(np.arange(8) % 4, np.ones(8)) == 1.0
