"""Intervals of differences: by hand, against the test that they are inverted from, and by properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from bench.stats import randomisation
from bench.stats.bounded import ANY, Span
from bench.stats.differences import (
    intervals_and_p_values,
    sign_flip_intervals,
)
from bench.stats.paired import compare, compare_pairs
from bench.stats.randomisation import randomisation_test
from bench.stats.ranking import p_of_pairs
from bench.stats.robust_t import robust_t

Values = NDArray[np.float64]


def test_the_ends_are_means_of_halves() -> None:
    # Six numbers: 64 sign vectors, and 0.05 of them are 3.2, so the ends are the fourth of the means of halves. The two
    # that keep or change all signs count for every shift; then come the means of 1, and of 1 and 2.
    values = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]])
    assert sign_flip_intervals(values).tolist() == [[1.0, 6.0]]
    # At 0.85 the tenth, 9.6: the means of two halves of 64 each in turn, of 1, of 2, of 1 and 2 (1.5), of 1 and 3, ...
    halves = [[value for i, value in enumerate(values[:, 0]) if half >> i & 1] for half in range(1, 63)]
    smaller = sorted(min(np.mean(half), (21 - sum(half)) / (6 - len(half))) for half in halves)
    assert sign_flip_intervals(values, level=0.85)[0, 0] == pytest.approx(smaller[10 - 1 - 2])


def test_five_numbers_say_nothing_at_five_percent() -> None:
    assert sign_flip_intervals(np.arange(5.0)[:, None]).tolist() == [[-np.inf, np.inf]]
    assert intervals_and_p_values(np.arange(5.0)[:, None] / 5, span=Span(-1, 1))[0].tolist() == [[-1.0, 1.0]]


@given(
    st.lists(st.integers(-6, 6), min_size=2, max_size=40),
    st.integers(1, 4),
    st.sampled_from([0.9, 0.95, 0.99]),
)
@settings(deadline=None, max_examples=60)
def test_a_shift_is_inside_where_the_test_does_not_reject_it(numbers: list[int], size: int, level: float) -> None:
    values = np.array(numbers, dtype=float)[:, None] / 6
    units = np.arange(len(values)) // size
    if units.max() == 0:
        return
    ((low, high),) = sign_flip_intervals(values, level, units=units, flips=500)
    mean = values.mean()
    assert low - 1e-9 <= mean <= high + 1e-9
    for shift in {mean, *np.linspace(-1.2, 1.2, 13)}:
        # On an end itself, rounding decides.
        if min(abs(shift - low), abs(shift - high)) > 1e-6:
            # All units have a difference once it is shifted by a number that none of them is equal to.
            moved = values - shift - 1e-9 if (np.abs(values - shift) < 1e-9).any() else values - shift
            p = _every_flip(moved, units, 500)
            assert (low < shift < high) == (p >= 1 - level - 1e-12)


def _every_flip(values: Values, units: NDArray[np.int64], flips: int) -> float:
    """The randomisation test that also draws where differences are zero."""
    sums = np.bincount(units, weights=values[:, 0])
    if len(sums) <= randomisation.MOST_ENUMERATED:
        signs = 2.0 * randomisation.every_sign_vector(len(sums)) - 1
        return float((np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).mean())
    signs = np.concatenate([2.0 * block - 1 for block in randomisation.sign_vectors(len(sums), flips, 0)])
    return float((1 + (np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).sum()) / (1 + flips))


@st.composite
def compared(draw: st.DrawFn) -> tuple[Values, NDArray[np.int64] | None]:
    """(queries, 2) differences of shares, often equal, often of few units, and their units."""
    random = np.random.default_rng(draw(st.integers(0, 10**9)))
    queries = draw(st.integers(2, 120))
    gold = random.integers(1, 4, (queries, 1))
    shift = draw(st.sampled_from([0.0, 0.1, 0.3]))
    rare = draw(st.sampled_from([0.05, 0.3, 1.0]))
    values = (random.binomial(gold, 0.4 + shift, (queries, 2)) - random.binomial(gold, 0.4, (queries, 2))) / gold
    values *= random.random((queries, 1)) < rare
    count = draw(st.integers(2, queries))
    units = np.unique(
        (count * random.random(queries) ** draw(st.sampled_from([1, 3]))).astype(int), return_inverse=True
    )
    return values, units[1].astype(np.int64) if draw(st.booleans()) else None


@given(compared(), st.booleans(), st.sampled_from([0.9, 0.95]))
@settings(deadline=None, max_examples=60)
def test_test_and_interval_never_contradict(
    sample: tuple[Values, NDArray[np.int64] | None], spanned: bool, level: float
) -> None:
    values, units = sample
    intervals, p = intervals_and_p_values(values, level, units=units, span=Span(-1, 1) if spanned else ANY)
    for (low, high), column_p, mean in zip(intervals.tolist(), p.tolist(), values.mean(axis=0).tolist(), strict=True):
        if np.isnan(low):
            continue
        assert (low <= 0 <= high) == (column_p >= round(1 - level, 12))
        assert low - 1e-9 <= mean <= high + 1e-9
        if spanned:
            assert -1 <= low <= high <= 1


@given(compared())
@settings(deadline=None, max_examples=30)
def test_the_other_way_round_it_says_the_same(sample: tuple[Values, NDArray[np.int64] | None]) -> None:
    values, units = sample
    there, back = (compare(sign * values, units=units) for sign in (1, -1))
    for one, other in zip(there, back, strict=True):
        assert one.p == other.p
        if one.low is not None and one.high is not None:
            assert (one.low, one.high) == pytest.approx((-(other.high or 0.0), -(other.low or 0.0)), abs=1e-9)


def test_p_values_of_independent_queries_are_those_of_the_randomisation_test() -> None:
    values = np.random.default_rng(0).normal(0.05, 1, (200, 60))
    assert intervals_and_p_values(values)[1].tolist() == randomisation_test(values).tolist()
    units = np.arange(200) // 4
    pair = randomisation_test(values, units=units), robust_t(values, units).p_values()
    assert intervals_and_p_values(values, units=units)[1].tolist() == np.maximum(*pair).tolist()
    # Either may be the larger.
    assert 0 < (pair[0] > pair[1]).sum() < 60


# Student's t with skewness taken out ---------------------------------------------------------------------------------


def test_units_that_are_not_skewed_have_students_t() -> None:
    # Residuals 1, -1, 3, -3: no skewness; the sum of squares is 20, that of fourth powers 164, and 3 · 400 / 164 > 3.
    values = np.array([2.0, 0.0, 4.0, -2.0])[:, None]
    result = robust_t(values, np.arange(4))
    assert result.skewness[0] == 0
    assert result.freedom[0] == pytest.approx(3)
    assert result.p_values()[0] == pytest.approx(stats.ttest_1samp(values[:, 0], 0).pvalue, abs=1e-12)
    expected = stats.t.interval(0.95, 3, 1.0, np.sqrt(20 / 3 / 4))
    assert result.intervals(0.95)[0] == pytest.approx(expected, abs=1e-11)


def test_halls_transformation_by_hand() -> None:
    # Sums 0, 0, 0, 0, 5: mean 1, residuals -1 (four times) and 4; squares 20, cubes 60, fourth powers 260.
    values = np.array([0.0, 0.0, 0.0, 0.0, 5.0])[:, None]
    result = robust_t(values, np.arange(5))
    skewness = 60 / 20**1.5
    freedom = min(4, 3 * 400 / 260)
    assert (result.skewness[0], result.freedom[0]) == (pytest.approx(skewness), pytest.approx(freedom))
    t = 1 / np.sqrt(20 / 4 / 5)
    transformed = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    # It is farther from zero than t, which counts.
    assert transformed > t
    assert result.p_values()[0] == pytest.approx(2 * stats.t.sf(t, freedom), abs=1e-12)
    # On the other side, the transformation counts: -t is moved towards zero.
    other = robust_t(-values, np.arange(5))
    assert other.p_values()[0] == result.p_values()[0]
    low, high = result.intervals(0.95)[0]
    assert low == pytest.approx(1 - stats.t.ppf(0.975, freedom) * 1, abs=1e-9)
    # The upper end is the mean less the t whose transform is the lower quantile.
    end = 1 - high
    again = end + skewness * end**2 / 3 + skewness**2 * end**3 / 27 + skewness / 6
    assert again == pytest.approx(-stats.t.ppf(0.975, freedom), abs=1e-9)
    assert high > 1 + stats.t.ppf(0.975, freedom)


@given(compared(), st.sampled_from([0.8, 0.95]))
@settings(deadline=None, max_examples=60)
def test_its_interval_is_its_test(sample: tuple[Values, NDArray[np.int64] | None], level: float) -> None:
    values, units = sample
    codes = np.arange(len(values)) if units is None else units
    if not codes.any():
        return
    for shift in (-0.4, -0.05, 0.0, 0.1):
        moved = robust_t(values - shift, codes)
        for (low, high), p in zip(robust_t(values, codes).intervals(level), moved.p_values(), strict=True):
            if min(abs(low - shift), abs(high - shift)) > 1e-9:
                assert (low < shift < high) == (p > 1 - level)


def test_units_that_do_not_vary() -> None:
    constant = robust_t(np.full((6, 2), [0.0, 0.3]), np.arange(6) // 2)
    assert constant.p_values().tolist() == [1.0, 0.0]
    assert np.isnan(constant.intervals(0.95)).all()
    single = robust_t(np.array([[0.1], [0.3]]), np.zeros(2, dtype=np.int64))
    assert single.p_values().tolist() == [1.0]
    assert np.isnan(single.intervals(0.95)).all()


@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize("span", [ANY, Span(-1.0, 1.0)])
def test_many_pairs_are_compared_as_each_alone(dependent: bool, span: Span) -> None:
    random = np.random.default_rng(3)
    values = random.binomial(4, 0.5, (90, 5)) / 4
    values[:, 4] = values[:, 3]
    # Few queries in which two differ: their interval is drawn.
    values[:7, 4] = 1 - values[:7, 3]
    units = np.unique(random.integers(0, 40, 90), return_inverse=True)[1].astype(np.int64) if dependent else None
    first, second = np.triu_indices(5, 1)
    sizes = np.ones(len(first), dtype=np.int64)
    alone = compare(values[:, first] - values[:, second], units=units, span=span)
    p = np.array([pair.p for pair in alone])
    together = compare_pairs(values, first, second, p, sizes, units=units, span=span)
    assert together == alone
    # The other way round, the same with the sign turned.
    for pair, back in zip(
        together, compare_pairs(values, second, first, p, sizes, units=units, span=span), strict=True
    ):
        assert (back.p, back.wins, back.losses) == (pair.p, pair.losses, pair.wins)
        assert (back.low, back.high) == (-(pair.high or 0.0), -(pair.low or 0.0))


def test_small_gains_do_not_tell_two_apart_where_a_sample_may_lack_a_large_loss() -> None:
    # A mean of zero: 8 of 40 queries gain 0.25, and one of 20 that lost 1 was not drawn in (19/20)^40 = 13% of samples.
    table = np.zeros((40, 3))
    table[:8, 1], table[:8, 2] = 0.25, 1.0
    first, second = np.array([1, 2]), np.array([0, 0])
    flips = randomisation_test(table[:, 1:])
    assert flips == pytest.approx([2 / 2**8] * 2)
    sizes = np.ones(2, dtype=np.int64)
    p = p_of_pairs(table, first, second, span=Span(-1, 1))
    small, large = compare_pairs(table, first, second, p, sizes, span=Span(-1, 1))
    assert small.p >= 0.05
    assert small.low is not None
    assert small.low < 0
    # Eight whole gains outweigh one loss that is not there; nor is there such a loss where the range is not known.
    assert (large.p, large.low is not None and large.low > 0) == (flips[1], True)
    assert p_of_pairs(table, first, second).tolist() == flips.tolist()
    assert [pair.p for pair in compare(table[:, 1:], span=Span(-1, 1))] == [small.p, large.p]
