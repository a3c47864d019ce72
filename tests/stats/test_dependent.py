"""Every statistic on dependent queries: as before where units are single queries, and by units where they are not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from bench.stats.bootstrap import bca_intervals
from bench.stats.classical import paired_t, wilcoxon
from bench.stats.differences import sign_flip_intervals
from bench.stats.macro import macro_intervals
from bench.stats.multiple import holm
from bench.stats.noninferiority import at_least, enough_units, non_inferiority, pair_verdict
from bench.stats.paired import compare
from bench.stats.power import minimum_detectable_effect, queries_needed
from bench.stats.randomisation import randomisation_test
from bench.stats.ranking import pairwise_tests
from bench.stats.robust_t import robust_t
from bench.stats.units import effective_units, robust_mean, singletons, unit_sums

Values: TypeAlias = NDArray[np.float64]
Units: TypeAlias = NDArray[np.int64] | None
STRATA = np.repeat([0, 1, 2], 20)

#: Each takes (60, 2) values and their units.
STATISTICS: dict[str, Callable[[Values, Units], object]] = {
    "intervals": lambda x, u: bca_intervals(x, resamples=500, units=u).tolist(),
    "randomisation": lambda x, u: randomisation_test(x, flips=2000, units=u).tolist(),
    "comparisons": lambda x, u: compare(x, units=u),
    "comparisons of groups": lambda x, u: compare(x, STRATA, units=u),
    "tests of pairs": lambda x, u: pairwise_tests(x, u, flips=2000).p.tolist(),
    "macro means": lambda x, u: macro_intervals([x, x[:9]], resamples=500, units=[u, None]).tolist(),
    "t": lambda x, u: paired_t(x, u).tolist(),
    "signed ranks": lambda x, u: wilcoxon(x, u).tolist(),
    "non-inferiority": lambda x, u: non_inferiority(x, 0.02, units=u),
    "floors": lambda x, u: at_least(x, 0.05, units=u),
}


def sample(seed: int = 20) -> Values:
    """(60, 2) differences as recall has them; the second column is zero on two of three queries."""
    random = np.random.default_rng(seed)
    values: Values = random.integers(-6, 7, (60, 2)) / 6 + np.array([0.1, -0.02])
    values[:40, 1] = 0
    return values


@pytest.mark.parametrize("statistic", STATISTICS)
def test_units_of_one_query_change_no_bit(statistic: str) -> None:
    function = STATISTICS[statistic]
    plain = function(sample(), None)
    assert function(sample(), np.arange(60)) == plain
    assert function(sample(), np.random.default_rng(0).permutation(60)) == plain


def test_the_numbers_of_independent_queries_are_those_of_the_first_version() -> None:
    """Taken from the code before it knew units, but for the interval of a difference, which is now that of its test."""
    x = sample()
    assert bca_intervals(x, resamples=500).tolist() == [
        [-0.05861034561059764, 0.24898397299972552],
        [-0.1646125139774941, 0.017728533512800265],
    ]
    assert randomisation_test(x, flips=2000).tolist() == [0.16141929035482258, 0.1774112943528236]
    first = compare(x)[0]
    assert (first.low, first.high, first.p) == (-0.052777777778, 0.279012345679, 0.17456825431745682)
    assert (first.difference, first.dz, first.detectable) == (
        0.11388888888888885,
        0.17768679560483563,
        0.23182187422230863,
    )
    second = compare(x, STRATA)[1]
    assert (second.low, second.high, second.p) == (-0.15072417144926098, 0.02958333333333729, 0.17418825811741884)
    judged = non_inferiority(x, 0.02)[1]
    assert (judged.lower, judged.upper, judged.needed) == (-0.1454092008, 0.011, 410)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_numbers_of_units_do_not_matter_and_their_queries_do(statistic: str) -> None:
    units = np.resize(np.arange(25), 60)
    function = STATISTICS[statistic]
    named = np.random.default_rng(1).permutation(25)[units]
    assert function(sample(), units) == function(sample(), named)
    if statistic != "ranks":
        assert function(sample(), units) != function(sample(), None)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_units_that_are_no_codes_are_refused(statistic: str) -> None:
    wrong: list[NDArray[Any]] = [np.arange(1, 61), np.zeros(59, dtype=np.int64), np.full(60, 0.5)]
    for units in wrong:
        with pytest.raises(ValueError, match="units must"):
            STATISTICS[statistic](sample(), units)


@st.composite
def grouped(draw: st.DrawFn, most: int = 12) -> tuple[Values, NDArray[np.int64]]:
    """(queries, 1) differences in at least two units, some of them of several queries."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=most))
    sizes[0] = max(2, sizes[0])
    units = np.repeat(np.arange(len(sizes)), sizes)
    shares = st.sampled_from([-1.0, -0.5, 0.0, 0.1, 0.2, 1 / 3, 1.0])
    values = draw(st.lists(shares, min_size=len(units), max_size=len(units)))
    return np.reshape(values, (-1, 1)), units


@given(grouped())
@settings(deadline=None, max_examples=60)
def test_sign_flips_of_units_are_all_sign_vectors_counted(drawn: tuple[Values, NDArray[np.int64]]) -> None:
    values, units = drawn
    # Thirtieths, so that sums are whole numbers and ties are exact.
    sums = np.bincount(units, weights=np.rint(values[:, 0] * 30))
    signs = np.array(list(itertools.product([-1, 1], repeat=len(sums))))
    share = float((np.abs(signs @ sums) >= abs(sums.sum())).mean())
    assert randomisation_test(values, units=units)[0] == pytest.approx(share, abs=1e-12)


def test_sign_flips_of_many_units_are_those_of_their_sums() -> None:
    random = np.random.default_rng(2)
    units = np.repeat(np.arange(60), random.integers(1, 6, 60))
    values = random.integers(-4, 5, (len(units), 3)) / 4 + np.array([0.0, 0.1, 0.2])
    # Twentieths, whose sums are whole: ties are exact, as they must be for the shares themselves.
    sums, _ = unit_sums(np.rint(values * 20), units)
    assert randomisation_test(values, 3000, units=units).tolist() == randomisation_test(sums, 3000).tolist()


def test_sums_that_cancel_but_for_rounding_are_zero() -> None:
    # 0.1 + 0.2 - 0.3 is not zero in binary. Twenty such units and two others: four sign vectors.
    values = np.append(np.tile([0.1, 0.2, -0.3], 20), [0.5, 0.5])[:, None]
    assert randomisation_test(values, units=np.repeat(np.arange(22), [3] * 20 + [1, 1])) == [0.5]


def test_sign_flips_of_units_of_one_size_are_the_wild_cluster_bootstrap() -> None:
    """Rademacher weights on the residuals of each unit under the hypothesis, all 2^G of them, by t statistics."""
    random = np.random.default_rng(3)
    units = np.arange(27) % 9
    values = random.normal(0.3, 1, (27, 1)) + random.normal(0, 0.5, (9, 1))[units]

    def t(sample: Values) -> float:
        means, errors, _ = robust_mean(sample, units)
        return float(abs(means[0]) / errors[0])

    flipped = [t(values * np.array(signs)[units][:, None]) for signs in itertools.product([-1, 1], repeat=9)]
    share = np.mean(np.array(flipped) >= t(values) - 1e-9)
    assert 0.01 < share < 0.5
    assert randomisation_test(values, units=units)[0] == pytest.approx(share, abs=1e-12)


def test_sign_flips_of_units_give_the_p_value_of_wildboottest() -> None:
    """The package wildboottest 0.3.2 with Rademacher weights, the hypothesis imposed and all 2^9 sign vectors."""
    number = np.arange(27)
    values = ((37 * number * number + 11 * number) % 101 - 45) / 64
    assert randomisation_test(values[:, None], units=number % 9) == [16 / 512]


@given(grouped(), st.data())
@settings(deadline=None, max_examples=40)
def test_neither_the_order_of_queries_nor_repeating_them_matters(
    drawn: tuple[Values, NDArray[np.int64]], data: st.DataObject
) -> None:
    values, units = drawn
    order = np.array(data.draw(st.permutations(range(len(units)))))
    p, ends = randomisation_test(values, units=units), bca_intervals(values, units=units)
    for rows in (order, np.repeat(order, 3)):
        assert randomisation_test(values[rows], units=units[rows]) == p
        np.testing.assert_allclose(bca_intervals(values[rows], units=units[rows]), ends, rtol=0, atol=1e-9)


def test_intervals_of_units_by_hand() -> None:
    # m = 1/2, V = 1/24 and 1.86 degrees of freedom, as in the tests of robust errors.
    values, units = np.array([[1.0], [0.0], [1.0], [0.0]]), np.array([0, 0, 1, 2])
    freedom = (1 / 16) / (6 / 256 + ((32 / 3) ** 2 - 64 - 32 / 9) / 4096)
    reach = stats.t.ppf(0.95, freedom) / 24**0.5
    assert bca_intervals(values, 0.9, units=units)[0] == pytest.approx([0.5 - reach, 0.5 + reach])
    assert np.isnan(bca_intervals(np.ones((4, 1)), units=units)).all()
    assert np.isnan(bca_intervals(values, units=np.zeros(4, dtype=np.int64))).all()


@pytest.mark.parametrize("sizes", [[2] * 30, [1] * 40 + [4] * 15 + [12] * 2])
def test_tests_and_intervals_of_dependent_queries_keep_their_promises(sizes: list[int]) -> None:
    """Where the queries of a unit are alike; those of independent queries do not."""
    random = np.random.default_rng(11)
    units = np.repeat(np.arange(len(sizes)), sizes)
    shared = random.normal(0, 1, (len(sizes), 400))[units]
    values = shared + random.normal(0, 0.3, shared.shape)
    low, high = bca_intervals(values, units=units).T
    assert 0.92 < ((low <= 0) & (high >= 0)).mean() < 0.98
    assert 0.02 < (randomisation_test(values, 1000, units=units) < 0.05).mean() < 0.08
    assert 0.02 < (paired_t(values, units) < 0.05).mean() < 0.08
    assert (randomisation_test(values, 1000) < 0.05).mean() > 0.1


def expected_p_values(differences: Values, units: NDArray[np.int64] | None, flips: int, seed: int) -> Values:
    """As `intervals_and_p_values`, with fewer flips."""
    p = randomisation_test(differences, flips, seed, units)
    return p if units is None else np.maximum(p, robust_t(differences, units).p_values())


@pytest.mark.parametrize("shape", ["shares", "hits", "gains", "large"])
@pytest.mark.parametrize("dependent", [False, True])
def test_tests_of_pairs_are_those_of_their_differences_to_the_last_bit(shape: str, dependent: bool) -> None:
    random = np.random.default_rng(4)
    values = {
        "shares": random.integers(0, 7, (150, 5)) / 6,
        "hits": (random.random((150, 5)) < np.linspace(0.4, 0.6, 5)).astype(float),
        "gains": random.random((150, 5)),
        "large": random.normal(0, 1e6, (150, 5)),
    }[shape]
    values[:, 4] = values[:, 3]
    values[:12, 4] += 0.5  # so few differences that the last pair is enumerated
    units = random.integers(0, 40, 150) if dependent else None
    units = None if units is None else np.unique(units, return_inverse=True)[1]
    result = pairwise_tests(values, units, flips=1500).p
    first, second = np.triu_indices(5, 1)
    assert (
        result[first, second].tolist()
        == holm(expected_p_values(values[:, first] - values[:, second], units, 1500, 0)).tolist()
    )
    assert (result == result.T).all()
    assert (np.diag(result) == 1).all()


@given(st.integers(2, 5), st.integers(20, 90), st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_so_are_they_for_any_table(systems: int, queries: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 4, (queries, systems)) / random.integers(1, 4, (queries, 1))
    units = np.unique(random.integers(0, queries, queries), return_inverse=True)[1]
    first, second = np.triu_indices(systems, 1)
    each = holm(expected_p_values(values[:, first] - values[:, second], units, 300, 0))
    assert pairwise_tests(values, units, flips=300).p[first, second].tolist() == each.tolist()


def test_tests_of_few_systems() -> None:
    assert pairwise_tests(np.ones((3, 1))).p.tolist() == [[1.0]]
    assert pairwise_tests(np.ones((3, 2))).p.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert pairwise_tests(np.array([[1.0, 0.0, 0.5]] * 8)).p[0].tolist() == [1.0, 3 * 2 / 2**8, 3 * 2 / 2**8]
    for values in (np.zeros((0, 2)), np.zeros((2, 0)), np.zeros(3), np.array([[np.nan, 1.0]])):
        with pytest.raises(ValueError, match="finite numbers"):
            pairwise_tests(values)


def test_the_t_test_of_units_by_hand() -> None:
    # m = 1/2, V = 1/24 and df as in the tests of robust errors.
    values, units = np.array([[1.0], [0.0], [1.0], [0.0]]), np.array([0, 0, 1, 2])
    means, errors, freedom = robust_mean(values, units)
    assert paired_t(values, units)[0] == pytest.approx(2 * stats.t.sf(means[0] / errors[0], freedom[0]))
    # Units of the same size: the t test of their means.
    equal = np.random.default_rng(6).normal(0.2, 1, (40, 2))
    pairs = np.repeat(np.arange(20), 2)
    np.testing.assert_allclose(paired_t(equal, pairs), paired_t(equal.reshape(20, 2, 2).mean(axis=1)), rtol=1e-9)


def test_the_t_test_at_its_limits() -> None:
    units = np.array([0, 0, 1, 1])
    assert paired_t(np.zeros((4, 1)), units) == [1.0]
    assert paired_t(np.full((4, 1), 1e-17), units) == [1.0]
    assert paired_t(np.array([[1.0], [0.0], [0.0], [1.0]]), units) == [0.0]
    assert paired_t(np.ones((4, 1)), np.zeros(4, dtype=np.int64)) == [1.0]
    # Differences that cancel in every unit, though not in binary.
    many = np.tile([0.1, 0.2, -0.3], 1500)[:, None]
    assert paired_t(many, np.arange(4500) // 3) == [1.0]


def test_signed_ranks_are_of_means_of_units() -> None:
    random = np.random.default_rng(7)
    units = np.repeat(np.arange(15), random.integers(1, 5, 15))
    values = random.normal(0.3, 1, (len(units), 1))
    means = np.bincount(units, weights=values[:, 0]) / np.bincount(units)
    assert wilcoxon(values, units)[0] == pytest.approx(stats.wilcoxon(means).pvalue)
    # Differences that cancel in their unit are none.
    assert wilcoxon(np.array([[0.1], [0.2], [-0.3], [0.5]]), np.array([0, 0, 0, 1])) == [1.0]


def test_a_comparison_counts_units() -> None:
    values = sample()[:, :1]
    units = np.arange(60) // 3
    (result,) = compare(values, units=units)
    assert (result.n, result.units) == (60, 20)
    error = robust_mean(values, units)[1][0]
    assert result.detectable == pytest.approx(minimum_detectable_effect(error * 20**0.5, 20))
    (plain,) = compare(values)
    assert plain.units == 60
    assert (result.difference, result.dz, result.wins) == (plain.difference, plain.dz, plain.wins)


def test_a_single_unit_decides_nothing() -> None:
    units = np.zeros(60, dtype=np.int64)
    (result,) = compare(sample()[:, :1], units=units)
    assert (result.low, result.high, result.detectable, result.p, result.units) == (None, None, None, 1.0, 1)
    (judged,) = non_inferiority(sample()[:, :1], 0.02, units=units)
    assert (judged.verdict, judged.lower, judged.upper, judged.detectable, judged.needed) == (
        ("inconclusive",) + (None,) * 4
    )
    assert judged.mean == pytest.approx(sample()[:, 0].mean())
    assert np.isnan(macro_intervals([sample()], resamples=50, units=[units])[:, 1:]).all()


def test_strata_with_units_leave_the_groups_as_they_are() -> None:
    # Nothing varies between the units of a group, though groups differ.
    values = np.repeat([0.2, 0.6], 12)[:, None]
    groups, units = np.repeat([0, 1], 12), np.arange(24) // 3
    (result,) = compare(values, groups, units=units)
    assert (result.low, result.high, result.p) == (None, None, 2 / 2**8)


def test_fewer_units_than_the_fewest_decide_nothing() -> None:
    values = np.random.default_rng(8).normal(0.5, 0.05, (400, 1))
    for count, verdict in ((29, "inconclusive"), (40, "pass")):
        (result,) = non_inferiority(values, 0.02, units=np.arange(400) % count)
        assert (result.verdict, result.units, result.n) == (verdict, count, 400)
    assert non_inferiority(values, 0.02, units=np.arange(400) % 29)[0].needed == 31


def test_the_units_needed_are_observations_with_the_error_of_the_mean() -> None:
    random, units = np.random.default_rng(11), np.arange(300) % 50
    values = random.normal(0.02, 0.3, (300, 1)) + random.normal(0, 0.1, 50)[units][:, None]
    (pair,) = compare(values, units=units)
    means, errors, _ = robust_mean(values, units)
    assert pair.needed == queries_needed(float(means[0]), float(errors[0]) * 50**0.5)
    assert compare(np.tile([[0.1], [0.2], [-0.3]], (40, 1)))[0].needed is None


def macro_datasets() -> list[Values]:
    random = np.random.default_rng(9)
    return [random.beta(2, 5, (15, 2)), random.beta(5, 2, (40, 2)), random.beta(1, 1, (30, 2))]


def test_sources_of_one_dataset_change_no_bit() -> None:
    plain = macro_intervals(macro_datasets(), resamples=500)
    assert macro_intervals(macro_datasets(), resamples=500, sources=["a", "b", "c"]).tobytes() == plain.tobytes()
    assert macro_intervals(macro_datasets(), resamples=500, units=[None] * 3).tobytes() == plain.tobytes()


def test_datasets_of_a_source_are_drawn_together_and_count_as_one() -> None:
    one, other, third = ([np.full((4, 1), value)] for value in (0.2, 0.4, 0.9))
    macro_interval = macro_intervals([*one, *third, *other], sources=["a", "b", "a"])[0]
    # (0.3 + 0.9) / 2, and the resamples are 0.3, 0.6 and 0.9: never 0.2 or 0.4 alone.
    assert macro_interval == pytest.approx([0.6, 0.3, 0.9])


def test_the_macro_interval_of_sources_and_units_is_that_of_a_plain_bootstrap() -> None:
    parts = [part[:, :1] for part in macro_datasets()]
    units = [np.arange(15) // 3, np.arange(40) // 5, np.arange(30)]
    random = np.random.default_rng(10)
    draws = 4000

    def resampled(part: Values, unit: NDArray[np.int64]) -> Values:
        """(draws,) means of as many units as there are, drawn with replacement."""
        sizes = np.bincount(unit)
        chosen = random.integers(0, len(sizes), (draws, len(sizes)))
        means: Values = np.bincount(unit, part[:, 0])[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)
        return means

    # Two sources are drawn, each draw of one with a resample of its own: the first has two datasets, the other one.
    both = []
    for _ in range(2):
        one, other, third = (resampled(part, unit) for part, unit in zip(parts, units, strict=True))
        both.append(np.where(random.integers(0, 2, draws) == 0, (one + other) / 2, third))
    # Of two sources, the expanded percentiles are the ends of all resamples.
    assert stats.norm.cdf(stats.t.ppf(0.025, 1) * 2**0.5) < 1e-12
    ends = np.quantile(np.mean(both, axis=0), [0.0, 1.0])
    mean, low, high = macro_intervals(parts, units=units, sources=["x", "x", "y"])[0]
    assert mean == pytest.approx(((parts[0].mean() + parts[1].mean()) / 2 + parts[2].mean()) / 2)
    assert (low, high) == pytest.approx(tuple(ends), abs=0.06)


def test_units_and_sources_of_other_datasets_are_refused() -> None:
    with pytest.raises(ValueError, match="each dataset"):
        macro_intervals(macro_datasets(), sources=["a"])
    with pytest.raises(ValueError, match="each dataset"):
        macro_intervals(macro_datasets(), units=[None])


def test_many_units_that_are_worth_few_decide_nothing() -> None:
    # 34 units, one of them of 40 queries: worth 73² / (40² + 33) = 3.3.
    units = np.concatenate([np.zeros(40, dtype=np.int64), np.arange(1, 34)])
    values = np.random.default_rng(8).normal(0.5, 0.05, (73, 1))
    assert effective_units(units) == pytest.approx(73**2 / (40**2 + 33))
    assert not enough_units(units)
    (judged,) = non_inferiority(values, 0.02, units=units)
    assert judged.verdict == "inconclusive"
    # So many units of these sizes that they are worth thirty.
    assert judged.needed == math.ceil(30 * 34 / effective_units(units))
    (pair,) = compare(values, units=units)
    assert (pair.units, pair.effective) == (34, effective_units(units))
    assert pair_verdict(pair.difference, pair.p, pair.effective >= 30) == "too few groups"
    assert enough_units(np.arange(30))
    assert not enough_units(np.arange(19))


@given(grouped(most=40))
@settings(deadline=None, max_examples=30)
def test_the_gate_passes_no_shift_that_the_test_of_units_leaves_open(
    sample_of_units: tuple[Values, NDArray[np.int64]],
) -> None:
    values, units = sample_of_units
    if not enough_units(units):
        return
    (judged,) = non_inferiority(values, 0.05, units=units)
    ((low, high),) = sign_flip_intervals(values, 0.9, units=units)
    assert judged.lower is not None
    assert judged.upper is not None
    if singletons(units) or (values == 0).all():
        return
    assert judged.lower <= low + 1e-12
    assert judged.upper >= high - 1e-12
    assert (judged.verdict == "pass") == (judged.lower > -0.05)
    assert (judged.verdict == "regression") == (judged.upper < -0.05)
