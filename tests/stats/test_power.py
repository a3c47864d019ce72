"""How many queries it takes, as the inverse of what they show."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats.power import minimum_detectable_effect, queries_needed


def test_by_hand() -> None:
    # (1.959964 + 0.841621)² · 0.3² / 0.05² = 7.8489 · 36 = 282.56.
    assert queries_needed(0.05, 0.3) == 283
    assert queries_needed(-0.05, 0.3) == 283
    # Without power to spare, (1.959964)² · 36 = 138.29.
    assert queries_needed(0.05, 0.3, power=0.5) == 139


@given(
    st.floats(1e-6, 1e3), st.integers(1, 10**6), st.sampled_from([0.01, 0.05, 0.1]), st.sampled_from([0.5, 0.8, 0.9])
)
def test_it_is_the_inverse_of_the_minimum_detectable_effect(sd: float, n: int, level: float, power: float) -> None:
    assert queries_needed(minimum_detectable_effect(sd, n, level, power), sd, level, power) == n


@given(st.floats(1e-3, 10), st.floats(1e-3, 10))
def test_one_query_fewer_shows_less(effect: float, sd: float) -> None:
    n = queries_needed(effect, sd)
    assert n is not None
    assert minimum_detectable_effect(sd, n) <= effect * (1 + 1e-9)
    assert n == 1 or minimum_detectable_effect(sd, n - 1) > effect


def test_no_number_of_queries_shows_nothing() -> None:
    assert queries_needed(0.0, 0.3) is None
    assert queries_needed(0.0, 0.0) is None
    assert queries_needed(1e-300, 0.3) is None


def test_what_does_not_vary_takes_one_query() -> None:
    assert queries_needed(0.1, 0.0) == 1


@pytest.mark.parametrize(("effect", "sd"), [(math.nan, 1.0), (math.inf, 1.0), (0.1, math.nan), (0.1, -1.0)])
def test_what_is_no_number_is_refused(effect: float, sd: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        queries_needed(effect, sd)
