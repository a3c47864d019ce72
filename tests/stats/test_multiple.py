"""Corrections of a family, by hand and by their properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from bench.stats.multiple import benjamini_hochberg, holm

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def test_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.04, which may not fall: 0.06 at the end.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.3, 0.9]) == pytest.approx([0.6, 0.9])
    assert holm([0.7]) == [0.7]
    assert holm([]).shape == (0,)


@given(P_VALUES)
def test_adjusted_values_are_no_smaller_in_the_same_order_and_at_most_one(p: list[float]) -> None:
    adjusted = holm(p)
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= 1).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()


@given(P_VALUES)
def test_the_smallest_is_bonferroni_s(p: list[float]) -> None:
    assert holm(p).min() == pytest.approx(min(1.0, min(p) * len(p)))


@given(P_VALUES, st.randoms())
def test_the_order_does_not_matter(p: list[float], random: object) -> None:
    mixed = sorted(range(len(p)), key=lambda i: hash((i, str(random))))
    assert holm([p[i] for i in mixed]).tolist() == holm(p)[mixed].tolist()


@pytest.mark.parametrize("p", [[0.1, np.nan], [-0.1], [1.1], [[0.1]]])
def test_what_is_no_p_value_is_refused(p: list[float]) -> None:
    for correct in (holm, benjamini_hochberg):
        with pytest.raises(ValueError, match="between 0 and 1"):
            correct(p)


def test_false_discovery_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.08 times 4/1, 4/2, 4/3, 4/4: 0.04, 0.04, 0.04, 0.08.
    assert benjamini_hochberg([0.08, 0.01, 0.03, 0.02]) == pytest.approx([0.08, 0.04, 0.04, 0.04])
    # An adjusted value is at most that of a larger p: 0.02 · 2 falls to 0.03.
    assert benjamini_hochberg([0.02, 0.03]) == pytest.approx([0.03, 0.03])
    assert benjamini_hochberg([0.7]) == [0.7]
    assert benjamini_hochberg([]).shape == (0,)


@given(P_VALUES)
def test_false_discovery_is_scipy_s(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(false_discovery_control(p, method="bh") if p else [])


@given(P_VALUES)
def test_false_discovery_is_between_no_correction_and_holm_s(p: list[float]) -> None:
    adjusted = benjamini_hochberg(p)
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= holm(p) * (1 + 1e-12)).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()
