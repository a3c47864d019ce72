"""Macro means: by hand, compared with a plain two-level bootstrap, and at their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import stats

from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import ANY, SHARE, Span
from bench.stats.differences import intervals_and_p_values
from bench.stats.macro import (
    combined_intervals,
    lead_intervals,
    macro_intervals,
    macro_intervals_of_tables,
    macro_values,
    these_intervals,
)


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
    # The expanded percentiles of four datasets; a normal quantile would be 0.025.
    tail = stats.norm.cdf(stats.t.ppf(0.025, 3) * np.sqrt(4 / 3))
    assert tail == pytest.approx(0.00012, abs=0.00001)
    assert (low, high) == pytest.approx(tuple(np.quantile(draws, [tail, 1 - tail])), abs=0.03)
    _, of_these, to_these = these_intervals([part[:, None] for part in parts])[0]
    assert low < of_these < mean < to_these < high


@pytest.mark.parametrize("span", [ANY, SHARE])
@pytest.mark.parametrize("size", [1, 2, 15, 60])
@pytest.mark.parametrize("per_unit", [1, 3])
def test_a_single_dataset_has_its_own_interval_to_the_last_bit(span: Span, size: int, per_unit: int) -> None:
    part = np.random.default_rng(size).choice([0.0, 0.5, 1.0], (size, 3), p=[0.1, 0.1, 0.8])
    units = np.arange(size) // per_unit
    own = bca_intervals(part, units=units, span=span)
    assert macro_intervals([part], units=[units], span=span)[:, 1:].tobytes() == own.tobytes()
    lead = lead_intervals([part], [units], ["a"], span.of_differences())
    differences = intervals_and_p_values(part[:, [0]] - part, units=units, span=span.of_differences())[0]
    # Where so few units say nothing, there are no ends.
    assert np.array_equal(lead[:, 1:], np.where(np.isinf(differences), np.nan, differences), equal_nan=True)


def test_tables_together_have_the_intervals_of_each_alone_to_the_last_bit() -> None:
    random = np.random.default_rng(0)
    shared = [random.integers(0, 20, 60), random.integers(0, 9, 40)]
    codes = [np.unique(part, return_inverse=True)[1] for part in shared]
    alone = [np.arange(60), np.arange(40)]
    # The third is of other units, the fourth of another span, the last one narrower.
    units, spans, widths = [codes, codes, alone, codes, codes], [SHARE, SHARE, SHARE, ANY, SHARE], [3, 3, 3, 3, 1]
    values = [[random.integers(0, 5, (n, width)) / 4 for n in (60, 40)] for width in widths]
    found = macro_intervals_of_tables(values, units, ["a", "b"], spans)
    for table, of_table, span, intervals in zip(values, units, spans, found, strict=True):
        expected = macro_intervals(table, units=of_table, sources=["a", "b"], span=span)
        assert intervals.tobytes() == expected.tobytes()
    assert macro_intervals_of_tables([], [], [], []) == []


def test_own_intervals_are_combined_by_hand() -> None:
    means = np.array([[0.5], [0.9]])
    own = np.array([[[0.4, 0.7]], [[0.8, 0.95]]])
    # √(0.1² + 0.1²) / 2 below, √(0.2² + 0.05²) / 2 above.
    assert combined_intervals(means, own)[0] == pytest.approx([0.7, 0.7 - 0.0707107, 0.7 + 0.1030776])
    # A source of two datasets, and one of a single: weights of a quarter, a quarter and a half.
    means, own = np.array([[0.2], [0.4], [0.9]]), np.array([[[0.1, 0.3]], [[0.2, 0.6]], [[0.7, 1.0]]])
    low, high = 0.6 - np.hypot(np.hypot(0.025, 0.05), 0.1), 0.6 + np.hypot(np.hypot(0.025, 0.05), 0.05)
    assert combined_intervals(means, own, ["a", "a", "b"])[0] == pytest.approx([0.6, low, high])


def test_a_dataset_without_an_interval_has_the_ends_of_the_span() -> None:
    means, own = np.array([[0.5], [0.9]]), np.array([[[np.nan, np.nan]], [[0.8, 0.95]]])
    low, high = 0.7 - np.hypot(0.5, 0.1) / 2, 0.7 + np.hypot(0.5, 0.05) / 2
    assert combined_intervals(means, own, span=Span(0.0, 1.0))[0] == pytest.approx([0.7, low, high])
    # Without a span, datasets of one source say nothing, and those of two what lies between them.
    assert np.isnan(combined_intervals(means, own, ["a", "a"])[0, 1:]).all()
    assert combined_intervals(means, own)[0] == pytest.approx([0.7, 0.65, 0.725])


def test_a_method_that_is_always_right_is_not_known_to_be() -> None:
    parts = [np.ones((size, 1)) for size in (20, 50, 30)]
    (mean, low, high), *_ = macro_intervals(parts, span=Span(0.0, 1.0)).tolist()
    # By Clopper and Pearson, lower ends of 0.025^(1/n).
    reach = np.sqrt(sum((1 - 0.025 ** (1 / len(part))) ** 2 for part in parts)) / 3
    assert (mean, high) == (1.0, 1.0)
    assert low == pytest.approx(1 - reach, abs=0.002)


@given(
    st.lists(
        hnp.arrays(
            np.float64, st.tuples(st.integers(1, 25), st.just(2)), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 4),
    st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_an_interval_holds_the_mean_within_the_span_and_says_no_more_than_those_of_its_datasets(
    parts: list[NDArray[np.float64]], sources: int, per_unit: int
) -> None:
    units = [np.arange(len(part)) // per_unit for part in parts]
    names = [str(place % sources) for place in range(len(parts))]
    result = macro_intervals(parts, resamples=300, units=units, sources=names, span=Span(0.0, 1.0))
    these = these_intervals(parts, resamples=300, units=units, sources=names, span=Span(0.0, 1.0))
    assert result[:, 0].tolist() == these[:, 0].tolist()
    mean = np.mean(
        [
            np.mean([part.mean(axis=0) for part, name in zip(parts, names, strict=True) if name == each], axis=0)
            for each in set(names)
        ],
        axis=0,
    )
    np.testing.assert_allclose(result[:, 0], mean, atol=1e-12)
    if len(parts) == 1 and int(units[0].max()) == 0:
        assert np.isnan(result[:, 1:]).all()
        return
    assert (result[:, 1] >= 0).all()
    assert (result[:, 2] <= 1).all()
    assert (result[:, 1] <= these[:, 1]).all()
    assert (result[:, 2] >= these[:, 2]).all()
    if len(parts) > 1:
        assert (result[:, 1] <= result[:, 0]).all()
        assert (result[:, 0] <= result[:, 2]).all()


def test_one_table_of_all_datasets_has_the_macro_mean_and_units_of_its_own() -> None:
    parts = [np.arange(4.0)[:, None], np.full((2, 1), 5.0), np.full((3, 1), 10.0)]
    units = [np.array([0, 0, 1, 1]), np.array([0, 1]), np.array([0, 1, 0])]
    table, codes = macro_values(parts, units, ["a", "a", "b"])
    # (1.5 + 5) / 2 and 10.
    assert table.mean() == pytest.approx((3.25 + 10) / 2)
    assert codes.tolist() == [0, 0, 1, 1, 2, 3, 4, 5, 4]


def test_a_lead_over_few_sources_is_about_these_and_over_many_about_others() -> None:
    random = np.random.default_rng(3)
    # A lead of 0.3 on most datasets and a loss on one, each far beyond chance.
    leads = [0.3, 0.3, -0.25, 0.3, 0.3]
    parts = [np.column_stack([np.full(40, 0.5), 0.5 - lead + random.normal(0, 0.01, 40)]) for lead in leads]
    units = [np.arange(40)] * 5
    few = lead_intervals(parts[:4], units[:4], list("abcd"), SHARE.of_differences())
    table, codes = macro_values([part[:, [0]] - part for part in parts[:4]], units[:4], list("abcd"))
    assert few[:, 1:].tobytes() == intervals_and_p_values(table, units=codes, span=SHARE.of_differences())[0].tobytes()
    assert few[1, 1] > 0
    many = lead_intervals(parts, units, list("abcde"), SHARE.of_differences())
    assert many[1, 0] == pytest.approx(np.mean(leads), abs=0.01)
    assert many[1, 1] < 0 < many[1, 0]
    assert many[0].tolist() == [0, 0, 0] or many[0, 1] <= 0 <= many[0, 2]


def test_systems_share_their_draws() -> None:
    parts = [np.column_stack([part, part + 2, 3 * part, part]) for part in datasets()]
    result = macro_intervals(parts)
    np.testing.assert_allclose(result[1], result[0] + 2, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result[2], 3 * result[0], rtol=0, atol=1e-12)
    assert result[3].tobytes() == result[0].tobytes()
    assert result[0].tolist() == list(macro_interval(datasets()))


def test_the_same_values_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = macro_interval(datasets())
    monkeypatch.setattr("bench.stats.bootstrap._BLOCK", 333)
    assert macro_interval(datasets()) == first


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
    # One standard error is 0.015.
    assert 0.9 < np.mean(covered) <= 0.99


@pytest.mark.parametrize("values", [[], [np.zeros(0)], [np.array([np.nan])], [np.ones(2), np.zeros(0)]])
def test_what_is_no_list_of_numbers_is_refused(values: list[NDArray[np.float64]]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        macro_interval(values)


def test_other_systems_in_another_dataset_are_refused() -> None:
    with pytest.raises(ValueError, match="same systems"):
        macro_intervals([np.ones((2, 2)), np.ones((2, 3))])
    with pytest.raises(ValueError, match="between 0 and 1"):
        macro_interval([np.ones(3)], level=1.0)
