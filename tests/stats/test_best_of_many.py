"""The best of many: by hand, against the test of one pair, against enumeration, and its promise under many tries."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from bench.stats.best_of_many import best_of_many as best_of_families
from bench.stats.best_of_many import mean_without_choice
from bench.stats.differences import intervals_and_p_values
from bench.stats.randomisation import MOST_ENUMERATED, randomisation_test
from bench.stats.robust_t import robust_t
from bench.stats.units import singletons

Values = NDArray[np.float64]


def zeros(table: Values) -> Values:
    return np.zeros((len(table), 1))


def best_of_many(variants: Values, baselines: Values, **more: Any) -> Values:
    """(variants,) p against the first baseline, the variants being one family and the baselines another."""
    families = np.array([0] * variants.shape[1] + [1] * baselines.shape[1])
    p = best_of_families(np.column_stack([variants, baselines]), families, variants.shape[1], **more)
    return p[: variants.shape[1]]


def test_by_hand() -> None:
    # Differences 1, 1, 1 and 1, 1, -1 by query. Standardised, the first is found at 3/sqrt(3), the second at 1/sqrt(3).
    table = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    # +++ and --- give |3| in the first, ++- and --+ in the second: 4 of 8 reach what was found of the first, all 1.
    assert best_of_many(table, zeros(table)).tolist() == [0.5, 1.0]
    assert best_of_many(table[:, :1], zeros(table)).tolist() == [0.25]


def test_two_baselines_by_hand() -> None:
    # Variants less baselines: 1, 1, 1 of the first pair, and 1, 1, -1 with the second baseline.
    variants, baselines = np.ones((3, 1)), np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    assert best_of_many(variants, baselines).tolist() == [0.5]
    # Whoever is called the baseline.
    assert best_of_many(baselines, variants).tolist() == [0.5, 1.0]


def test_scales_do_not_count() -> None:
    # In raw means the second column, which is ten times as wide, would hide the first.
    steady, erratic = np.full(12, 0.1), np.array([1.0, -1.0] * 6)
    table = np.column_stack([steady, erratic])
    narrow = best_of_many(np.column_stack([steady, erratic / 10]), zeros(table))
    assert best_of_many(table, zeros(table)).tolist() == narrow.tolist()
    assert narrow[0] < 0.01


tables = st.integers(1, 9).flatmap(
    lambda rows: st.tuples(
        arrays(np.int64, (rows, 3), elements=st.integers(0, 4)),
        arrays(np.int64, (rows, 2), elements=st.integers(0, 4)),
        st.lists(st.integers(0, 3), min_size=rows, max_size=rows),
    )
)


@given(tables)
def test_few_queries_are_enumerated(drawn: tuple[NDArray[np.int64], NDArray[np.int64], list[int]]) -> None:
    variants, baselines = drawn[0] / 4, drawn[1] / 4
    units = np.unique(drawn[2], return_inverse=True)[1].astype(np.int64)
    d = 4 * (variants[:, :, None] - baselines[:, None, :])
    sums = np.stack([d[units == unit].sum(axis=0) for unit in range(units.max() + 1)])
    spread = np.sqrt((sums**2).sum(axis=0))

    def largest(signs: tuple[float, ...]) -> float:
        flipped = np.abs(np.tensordot(signs, sums, axes=1))
        return float((flipped[spread > 0] / spread[spread > 0]).max(initial=0.0))

    reached = [largest(signs) for signs in itertools.product((1.0, -1.0), repeat=len(sums))]
    for i, p in enumerate(best_of_many(variants, baselines, units=units)):
        found = abs(sums[:, i, 0].sum()) / spread[i, 0] if spread[i, 0] else 0.0
        expected = float(np.mean([value >= found - 1e-9 for value in reached]))
        if not singletons(units):
            expected = max(expected, float(robust_t(variants[:, [i]] - baselines[:, :1], units).p_values()[0]))
        assert p == expected


@settings(deadline=None)
@given(
    st.integers(1, 40),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, 2, 5]),
)
def test_one_variant_has_the_p_of_the_test_of_one_pair(rows: int, seed: int, group: int | None) -> None:
    random = np.random.default_rng(seed)
    gold = random.integers(1, 5, rows)
    one, other = (random.binomial(gold, share) / gold for share in (0.6, 0.5))
    units = None if group is None else (np.arange(rows) // group).astype(np.int64)
    plain = intervals_and_p_values((one - other)[:, None], units=units, flips=999)[1]
    assert best_of_many(one[:, None], other[:, None], flips=999, units=units) == plain
    assert best_of_many(other[:, None], one[:, None], flips=999, units=units) == plain
    # Copies of either are no tries.
    copies = best_of_many(np.column_stack([one] * 3), np.column_stack([other] * 2), flips=999, units=units)
    assert copies.tolist() == [plain[0]] * 3


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(MOST_ENUMERATED + 1, 60))
def test_more_tries_never_lower_p(seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    table = random.integers(-4, 5, (rows, 5)) / 4
    previous = randomisation_test(table[:, :1], 499)[0]
    for tries in range(2, 6):
        p = best_of_many(table[:, :tries], zeros(table), flips=499)[0]
        assert p >= previous
        previous = p
    order = random.permutation(5)
    assert best_of_many(table[:, order], zeros(table), flips=499).tolist() == pytest.approx(
        best_of_many(table, zeros(table), flips=499)[order].tolist()
    )


def test_identical_systems_have_p_one() -> None:
    table = np.tile(np.linspace(0, 1, 30)[:, None], 4)
    assert best_of_many(table, table[:, :1]).tolist() == [1.0] * 4
    assert best_of_many(np.column_stack([table[:, 0], table[::-1, 0]]), table[:, :1])[0] == 1.0


def test_families_are_tested_side_by_side_as_each_for_itself() -> None:
    random = np.random.default_rng(2)
    table = random.integers(0, 5, (40, 7)) / 4
    families = np.array([4, 9, 4, 2, 9, 4, 7])
    p = np.column_stack([best_of_families(table, families, against, flips=999) for against in (1, 3, 0)])
    nines, fours = [1, 4], [0, 2, 5]
    assert p[fours, 0].tolist() == best_of_many(table[:, fours], table[:, nines], flips=999).tolist()
    # Who is compared with whom does not count.
    assert p[1, 2] == p[0, 0]
    assert p[fours, 1].tolist() == best_of_many(table[:, fours], table[:, [3]], flips=999).tolist()
    assert p[6, 1] == randomisation_test(table[:, [6]] - table[:, [3]], 999)[0]
    # Variants of one family against one of them, which is no rival of itself.
    assert p[[2, 5], 2].tolist() == best_of_many(table[:, [2, 5]], table[:, [0]], flips=999).tolist()
    assert p[0, 2] == p[1, 0] == p[3, 1] == 1.0


def test_units_must_fit() -> None:
    with pytest.raises(ValueError, match="units must name the unit of each query"):
        best_of_many(np.ones((3, 2)), np.zeros((3, 1)), units=np.zeros(2, dtype=np.int64))


def noise(random: np.random.Generator, rows: int, tries: int) -> tuple[Values, Values]:
    """Recall of a baseline and of variants that answer by the same rule, of one to four gold tools."""
    gold, chance = random.integers(1, 5, (rows, 1)), random.uniform(0.2, 0.8, (rows, 1))
    values: Values = random.binomial(gold, chance, (rows, tries + 1)) / gold
    return values[:, 1:], values[:, :1]


def test_a_tuner_who_submits_fifty_variants_finds_nothing() -> None:
    random = np.random.default_rng(5)
    alone = any_variant = 0
    for _ in range(200):
        variants, baseline = noise(random, 60, 50)
        best = int(np.argmax(variants.mean(axis=0)))
        alone += randomisation_test(variants[:, [best]] - baseline, 199)[0] < 0.05
        any_variant += best_of_many(variants, baseline, flips=199).min() < 0.05
    # Its own test calls the best of fifty better far too often; corrected, any of them differs in 1 of 20 cases.
    assert alone > 30
    assert any_variant <= 20  # more than 20 of 200 have a probability of 0.001 at 0.05


def test_the_mean_without_choice_by_hand() -> None:
    one = np.array([[0.25], [0.5], [1.0]])
    assert mean_without_choice(one) == pytest.approx(one.mean())
    # Where one variant is better on every query, the choice is no chance.
    assert mean_without_choice(np.column_stack([one, one + 1])) == pytest.approx(one.mean() + 1)
    assert math.isnan(mean_without_choice(one, units=np.zeros(3, dtype=np.int64)))
    # Two units of which each prefers its own variant: chosen on one of them, it fails on the other.
    table = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert mean_without_choice(table, units=np.array([0, 0, 1, 1])) == 0.0


@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 6))
def test_the_mean_without_choice_of_one_is_its_mean_and_of_many_lies_among_theirs(
    seed: int, rows: int, tries: int
) -> None:
    random = np.random.default_rng(seed)
    table = random.integers(0, 5, (rows, tries)) / 4
    units = np.unique(random.integers(0, max(2, rows // 2), rows), return_inverse=True)[1].astype(np.int64)
    if units.max():
        sizes = np.bincount(units)
        worst, best = (
            sum(size * pick(table[units == unit].mean(axis=0)) for unit, size in enumerate(sizes)) / rows
            for pick in (np.min, np.max)
        )
        value = mean_without_choice(table, units=units, resamples=400)
        assert worst - 1e-9 <= value <= best + 1e-9
        assert mean_without_choice(table[:, :1], units=units, resamples=400) == pytest.approx(table[:, 0].mean())


def test_the_mean_without_choice_does_not_flatter() -> None:
    random = np.random.default_rng(6)
    chosen, honest = [], []
    for _ in range(150):
        table = random.normal(0, 1, (80, 20))
        chosen.append(table.mean(axis=0).max())
        honest.append(mean_without_choice(table, resamples=100))
    error = 1 / math.sqrt(80)
    # The best of twenty lies 1.87 standard errors too high.
    assert np.mean(chosen) / error == pytest.approx(1.87, abs=0.15)
    assert np.mean(honest) / error == pytest.approx(0.0, abs=0.3)
