"""Friedman's test, average ranks and Nemenyi's difference: by hand, and compared with scipy and Demšar's table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2, friedmanchisquare

from bench.stats.friedman import average_ranks, friedman, nemenyi_difference

# Demšar (2006), table 6: AUC of four learners on fourteen datasets.
DEMSAR = np.array(
    [
        *([0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967]),
        *([0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931]),
        *([0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875]),
        *([1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669]),
        *([0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970]),
    ]
)


def test_the_published_example() -> None:
    assert average_ranks(DEMSAR) == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    # The paper's chi-square, 9.28, is without the correction for ties: three pairs and one row of four, of 14 rows.
    assert friedman(DEMSAR) == pytest.approx(chi2.sf(9.28 / (1 - (3 * 6 + 60) / (14 * 60)), 3), rel=0.01)
    assert nemenyi_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
    assert nemenyi_difference(4, 14, level=0.1) == pytest.approx(1.12, abs=5e-3)


def test_ranks_by_hand() -> None:
    # Best first; the two that tie share 1 and 2.
    assert average_ranks(np.array([[0.9, 0.9, 0.1], [0.2, 0.3, 0.5]])).tolist() == [2.25, 1.75, 2.0]


@pytest.mark.parametrize(
    ("level", "published"),
    [
        (0.05, [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]),
        (0.10, [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]),
    ],
)
def test_critical_values_are_those_of_demsar_s_table(level: float, published: list[float]) -> None:
    for systems, value in enumerate(published, 2):
        # 24 blocks, for which the root is √(k (k + 1)) / 12.
        result = nemenyi_difference(systems, 24, level) * 12 / math.sqrt(systems * (systems + 1))
        assert result == pytest.approx(value, abs=1.1e-3)


def test_a_single_block_has_a_critical_difference() -> None:
    # q is 2.343 for three systems, and the root of 3 * 4 / 6 is that of 2.
    assert nemenyi_difference(3, 1) == pytest.approx(2.343 * math.sqrt(2), abs=2e-3)


@pytest.mark.parametrize("seed", range(4))
def test_three_systems_and_more_have_scipy_s_p(seed: int) -> None:
    scores = np.random.default_rng(seed).integers(0, 6, (12, 3 + seed)) / 3
    assert friedman(scores) == pytest.approx(friedmanchisquare(*scores.T).pvalue)


def test_two_blocks_say_something() -> None:
    # Both have the order 1, 2, 3: chi-square 4 with two degrees of freedom, whose tail is e^-2.
    assert friedman(np.array([[0.9, 0.5, 0.1], [0.8, 0.7, 0.6]])) == pytest.approx(math.exp(-2))


def test_two_systems_have_the_sign_test_s() -> None:
    # Five of five: 2 of 32. One tie does not count.
    assert friedman(np.array([[1.0, 0.5]] * 5 + [[0.2, 0.2]])) == pytest.approx(2 / 32)


@pytest.mark.parametrize(
    "scores",
    [
        np.zeros((5, 1)),
        np.zeros((5, 2)),
        np.zeros((5, 4)),
        np.array([[0.1, 0.2, 0.3]]),
        np.array([[0.1, 0.2]]),
        np.array([[0.1 + 0.2, 0.3, 0.3], [0.3, 0.1 + 0.2, 0.3]]),
    ],
)
def test_what_says_nothing_has_p_one(scores: NDArray[np.float64]) -> None:
    assert friedman(scores) == 1.0


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.integers(1, 5), st.data())
def test_every_table_has_a_p_and_ranks_that_add_up(blocks: int, systems: int, data: st.DataObject) -> None:
    cells = st.lists(st.sampled_from([0.0, 1 / 3, 0.5, 1.0]), min_size=blocks * systems, max_size=blocks * systems)
    scores = np.array(data.draw(cells)).reshape(blocks, systems)
    assert 0 <= friedman(scores) <= 1
    ranks = average_ranks(scores)
    assert ranks.mean() == pytest.approx((systems + 1) / 2)
    for one, other in itertools.combinations(range(systems), 2):
        if (scores[:, one] >= scores[:, other]).all():
            assert ranks[one] <= ranks[other]


@pytest.mark.parametrize("scores", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), np.array([[np.nan, 1.0, 2.0]])])
def test_what_is_no_table_of_numbers_is_refused(scores: NDArray[np.float64]) -> None:
    for function in (friedman, average_ranks):
        with pytest.raises(ValueError, match="finite numbers"):
            function(scores)


@pytest.mark.parametrize(("systems", "blocks", "level"), [(1, 5, 0.05), (3, 0, 0.05), (3, 5, 0.0), (3, 5, 1.0)])
def test_a_difference_of_nothing_is_refused(systems: int, blocks: int, level: float) -> None:
    with pytest.raises(ValueError, match="two systems, one block"):
        nemenyi_difference(systems, blocks, level)
