"""Macro means: by hand, compared with a plain two-level bootstrap, and at their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.stats.macro import macro_intervals


def macro_interval(values: list[NDArray[np.float64]], *args: Any, **options: Any) -> tuple[float, float, float]:
    """Mean, lower and upper end of a single system."""
    ((mean, low, high),) = macro_intervals([part[:, None] for part in values], *args, **options).tolist()
    return mean, low, high


def datasets(seed: int = 0) -> list[NDArray[np.float64]]:
    random = np.random.default_rng(seed)
    return [random.beta(2, 5, 15), random.beta(5, 2, 40), random.beta(1, 1, 90), random.choice([0.0, 0.5, 1.0], 60)]


def test_the_mean_counts_every_dataset_the_same() -> None:
    mean, low, high = macro_interval([np.array([1.0, 1.0]), np.array([0.0, 0.0, 0.0, 0.0])])
    assert mean == pytest.approx(0.5)
    # Nothing varies within: two draws of two datasets, of which a quarter are the first alone.
    assert (low, high) == pytest.approx((0.0, 1.0))


def test_the_interval_is_that_of_a_plain_two_level_bootstrap() -> None:
    parts = datasets()
    random = np.random.default_rng(1)
    draws = [
        np.mean([random.choice(parts[one], len(parts[one])).mean() for one in random.integers(0, 4, 4)])
        for _ in range(5000)
    ]
    mean, low, high = macro_interval(parts)
    assert mean == pytest.approx(np.mean([part.mean() for part in parts]))
    assert (low, high) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])), abs=0.012)


def test_a_single_dataset_has_the_interval_of_its_queries() -> None:
    part = datasets()[2]
    _, low, high = macro_interval([part])
    error = part.std() / np.sqrt(len(part))
    assert (low, high) == pytest.approx((part.mean() - 1.96 * error, part.mean() + 1.96 * error), abs=0.1 * error)


def test_systems_share_their_draws() -> None:
    parts = [np.column_stack([part, part + 2, 3 * part, part]) for part in datasets()]
    result = macro_intervals(parts)
    np.testing.assert_allclose(result[1], result[0] + 2, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result[2], 3 * result[0], rtol=0, atol=1e-12)
    assert result[3].tobytes() == result[0].tobytes()
    assert result[0].tolist() == list(macro_interval(datasets()))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(monkeypatch: pytest.MonkeyPatch) -> None:
    first = macro_interval(datasets(), seed=3)
    assert macro_interval(datasets(), seed=4)[1:] != first[1:]
    monkeypatch.setattr("bench.stats.bootstrap._BLOCK", 333)
    assert macro_interval(datasets(), seed=3) == first


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 / 3])
def test_constant_values_have_an_interval_of_no_width(constant: float) -> None:
    result = macro_interval([np.full(5, constant), np.full(9, constant), np.full(1, constant)], resamples=200)
    assert result == pytest.approx((constant, constant, constant), rel=1e-12, abs=0)


def test_a_wider_level_holds_the_narrower_interval_and_the_mean() -> None:
    mean, *narrow = macro_interval(datasets(), 0.5)
    _, *wide = macro_interval(datasets(), 0.99)
    assert wide[0] < narrow[0] < mean < narrow[1] < wide[1]


def test_one_query_alone_says_nothing_and_among_datasets_it_does() -> None:
    mean, low, high = macro_interval([np.array([0.4])])
    assert mean == pytest.approx(0.4)
    assert np.isnan([low, high]).all()
    assert macro_interval([np.array([0.4]), np.array([0.6])]) == pytest.approx((0.5, 0.4, 0.6))


def test_the_interval_covers_the_mean_of_a_population_of_datasets() -> None:
    """Of twenty datasets each; one level alone, of queries, would miss by far."""
    random = np.random.default_rng(6)
    covered = []
    for _ in range(200):
        centres = random.normal(0, 1, 20)
        _, low, high = macro_interval([random.normal(centre, 1, 12) for centre in centres], resamples=400)
        covered.append(low <= 0 <= high)
    # Percentiles of 20 datasets cover 0.93; one standard error is 0.018.
    assert 0.87 < np.mean(covered) <= 0.99


@pytest.mark.parametrize("values", [[], [np.zeros(0)], [np.array([np.nan])], [np.ones(2), np.zeros(0)]])
def test_what_is_no_list_of_numbers_is_refused(values: list[NDArray[np.float64]]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        macro_interval(values)


def test_other_systems_in_another_dataset_are_refused() -> None:
    with pytest.raises(ValueError, match="same systems"):
        macro_intervals([np.ones((2, 2)), np.ones((2, 3))])
    with pytest.raises(ValueError, match="between 0 and 1"):
        macro_interval([np.ones(3)], level=1.0)
