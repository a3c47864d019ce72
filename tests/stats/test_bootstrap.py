"""BCa intervals compared with scipy's, at their limits, and their coverage in a simulation."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import bootstrap

from bench.stats.bootstrap import bca_intervals, resampled_sums

RESAMPLES = 60_000


@cache
def sample(shape: str) -> NDArray[np.float64]:
    """Per-query values of several shapes, most of them skewed: there BCa differs from plain percentiles."""
    random = np.random.default_rng(7)
    return {
        "normal": random.normal(0.4, 0.1, 60),
        "log-normal": random.lognormal(0, 1, 25),
        "skewed to the left": 1 - random.beta(0.6, 3, 30),
        "half zeros, half ones": np.repeat([0.0, 1.0], 25),
        "few ones": np.repeat([0.0, 1.0], [46, 4]),
        "recall of up to three": random.integers(0, 4, 80) / 3,
        "one outlier": np.append(random.uniform(0, 0.1, 30), 1.0),
        "two queries": np.array([0.0, 1.0]),
        "differences": random.choice([-0.5, 0.0, 0.0, 0.25, 1.0], 120),
    }[shape]


SHAPES = (
    *("normal", "log-normal", "skewed to the left", "half zeros, half ones", "few ones", "recall of up to three"),
    *("one outlier", "differences"),
)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_equal_scipy_s_within_monte_carlo_error(shape: str, level: float) -> None:
    values = sample(shape)
    ours = bca_intervals(values[:, None], level, RESAMPLES)[0]
    theirs = bootstrap(
        (values,),
        np.mean,
        confidence_level=level,
        n_resamples=RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(1),
        batch=10_000,
    ).confidence_interval
    # In standard errors of the mean: the ends of two seeds differ by up to 0.06, or by one step of a discrete mean.
    error = values.std(ddof=1) / np.sqrt(len(values))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.1 * error)


def test_intervals_of_skewed_values_are_not_plain_percentiles() -> None:
    """So the comparison above would notice a lost correction."""
    values = sample("log-normal")
    draws = np.random.default_rng(2).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    plain = np.quantile(draws, [0.025, 0.975])
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert ((bca_intervals(values[:, None])[0] - plain) > 0.2 * error).all()


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1e-300, 1e9 / 3])
@pytest.mark.parametrize("queries", [2, 7, 1000])
def test_a_constant_column_says_nothing_of_its_spread(constant: float, queries: int) -> None:
    assert np.isnan(bca_intervals(np.full((queries, 1), constant), resamples=500)).all()


def test_a_constant_column_does_not_disturb_the_others() -> None:
    values = sample("normal")[:, None]
    together = bca_intervals(np.hstack([np.ones_like(values), values]), resamples=2000)
    assert np.isnan(together[0]).all()
    assert together[1].tobytes() == bca_intervals(values, resamples=2000)[0].tobytes()


@pytest.mark.parametrize("largest", [1.0, 1000.0, 3e7])
@pytest.mark.parametrize("shape", ["recall of up to three", "skewed to the left"])
def test_an_interval_is_the_same_to_the_last_bit_whatever_stands_beside_it(shape: str, largest: float) -> None:
    values = sample(shape)[:, None]
    alone = bca_intervals(values, resamples=2000)[0]
    others = np.random.default_rng(4).random((len(values), 30)) * largest
    for beside in (others[:, :1], others):
        together = bca_intervals(np.hstack([beside, values]), resamples=2000)
        assert together[-1].tobytes() == alone.tobytes()


def test_an_interval_is_the_same_to_the_last_bit_on_one_thread_and_on_several() -> None:
    program = """
import numpy as np
from bench.stats.bootstrap import bca_intervals
values = np.random.default_rng(0).integers(0, 4, (700, 40)) / 3
print(bca_intervals(values, resamples=1500).tobytes().hex())
"""
    variables = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **dict.fromkeys(variables, threads)},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(said) == 1


@pytest.mark.parametrize("queries", [0, 1])
def test_with_fewer_than_two_queries_nothing_is_known(queries: int) -> None:
    assert np.isnan(bca_intervals(np.zeros((queries, 3)))).all()
    assert bca_intervals(np.zeros((queries, 3))).shape == (3, 2)


def test_two_different_queries_have_an_interval_inside_their_range() -> None:
    low, high = bca_intervals(sample("two queries")[:, None])[0]
    assert 0 <= low < high <= 1


def test_no_columns_have_no_intervals() -> None:
    assert bca_intervals(np.zeros((5, 0)), resamples=100).shape == (0, 2)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    values = np.column_stack([sample("normal"), np.sqrt(sample("normal") + 1)])
    assert bca_intervals(values, seed=3).tobytes() == bca_intervals(values, seed=3).tobytes()
    assert (bca_intervals(values, seed=3) != bca_intervals(values, seed=4)).all()


def test_columns_share_their_draws_as_paired_comparison_needs() -> None:
    values = sample("normal")[:, None]
    moved = bca_intervals(np.hstack([values, values + 2, 3 * values]))
    np.testing.assert_allclose(moved[1], moved[0] + 2, rtol=0, atol=1e-12)
    np.testing.assert_allclose(moved[2], 3 * moved[0], rtol=0, atol=1e-12)


def test_a_mirrored_column_has_the_mirrored_interval() -> None:
    values = sample("log-normal")[:, None]
    one, other = bca_intervals(np.hstack([values, -values]))
    # The quantiles of discrete draws interpolate from the other side.
    np.testing.assert_allclose(other, -one[::-1], rtol=0, atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_interval_holds_the_mean_and_a_wider_level_holds_the_narrower_interval(shape: str) -> None:
    values = sample(shape)
    narrow, wide = (bca_intervals(values[:, None], level)[0] for level in (0.5, 0.99))
    assert wide[0] <= narrow[0] < values.mean() < narrow[1] <= wide[1]
    assert wide[0] < narrow[0] or narrow[1] < wide[1]
    assert values.min() <= wide[0] <= wide[1] <= values.max()


def test_many_queries_are_resampled_in_several_blocks() -> None:
    # 2^21 numbers a block at most: with 50,000 queries, 41 resamples each.
    values = np.random.default_rng(8).random((50_000, 1))
    low, high = bca_intervals(values, resamples=200)[0]
    error = values.std() / np.sqrt(len(values))
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.25)
    assert low < values.mean() < high


@pytest.mark.parametrize("block", [1, 1000])
def test_the_draws_do_not_depend_on_where_blocks_end(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    # 60 queries: a block holds fewer than one resample, or 16.
    values = sample("normal")[:, None]
    whole = bca_intervals(values, resamples=500)
    monkeypatch.setattr("bench.stats.bootstrap._BLOCK", block)
    assert bca_intervals(values, resamples=500).tobytes() == whole.tobytes()


def test_many_queries_have_the_sums_of_draws_taken_one_by_one() -> None:
    values = np.random.default_rng(8).integers(0, 9, (30_000, 2)).astype(np.float64)
    sums = resampled_sums(values, 100, np.random.default_rng(5))
    random = np.random.default_rng(5)
    # Blocks of 64 and 36 samples.
    assert sums.tolist() == [values[random.integers(30_000, size=30_000)].sum(axis=0).tolist() for _ in range(100)]


@pytest.mark.parametrize("shape", ["exponential", "three levels"])
def test_intervals_cover_the_true_mean_as_often_as_they_say(shape: str) -> None:
    random = np.random.default_rng(11)
    # 1,500 data sets of 100 queries, one in each column.
    size = (100, 1500)
    if shape == "exponential":
        values, true = random.exponential(1.0, size), 1.0
    else:
        values, true = random.choice([0.0, 0.5, 1.0], size, p=[0.2, 0.3, 0.5]), 0.65
    intervals = bca_intervals(values, resamples=1000)
    covered = (intervals[:, 0] <= true) & (true <= intervals[:, 1])
    # One standard error of the share is 0.006.
    assert covered.mean() == pytest.approx(0.95, abs=0.03)
    # Neither side takes all the misses.
    above, below = (true > intervals[:, 1]).mean(), (true < intervals[:, 0]).mean()
    assert 0.005 < above < 0.055
    assert 0.005 < below < 0.055
