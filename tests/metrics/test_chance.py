"""Bits over random: by hand, against scipy, and its interval against a bootstrap of the statistic itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.interface.ranking import Ranking
from bench.metrics import DEFAULT_METRICS, FURTHER_METRICS, evaluate, parse_metrics
from bench.metrics.chance import with_chance
from bench.metrics.measures import chance_of_hit
from bench.results.code_versions import measure_hash
from bench.results.intervals import means_and_intervals


def bits(
    rankings: list[list[int]], gold: Gold, library: int, k: int, failed: list[bool] | None = None
) -> NDArray[np.float64]:
    """(queries,) values."""
    tools, unanswered = Ranking.of_lists(rankings).tools, None if failed is None else np.array(failed)
    scores = evaluate(tools, gold, parse_metrics([f"bits_over_random@{k}"]), unanswered=unanswered)
    assert np.isnan(scores.values).all()
    return with_chance(scores, tools, gold, library, unanswered).values[:, 0]


def found(hits: int, queries: int, place: int = 1) -> tuple[list[list[int]], Gold]:
    """Rankings of ten tools of which so many have the gold tool at the place, and the others nowhere."""
    rankings = [[*range(1, place), 0, *range(place, 10)] if i < hits else list(range(1, 11)) for i in range(queries)]
    return rankings, Gold.of([{0: 1}] * queries)


@pytest.mark.parametrize(("k", "hits", "expected"), [(1, 36, 7.7944), (3, 47, 6.5941)])
def test_by_hand(k: int, hits: int, expected: float) -> None:
    # 60 queries with one gold tool among 370: log2(0.6 * 370) and log2(47 / 60 * 370 / 3). The mean over queries of
    # hit * log2(370 / k), which is another number, is 5.1188 and 5.4414: it orders the two depths the other way.
    assert bits(*found(hits, 60, k), 370, k).mean() == pytest.approx(expected, abs=5e-5)
    assert hits / 60 * math.log2(370 / k) == pytest.approx({1: 5.1188, 3: 5.4414}[k], abs=5e-5)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(1, 60), st.data())
def test_the_chance_is_that_of_the_hypergeometric_distribution(library: int, data: st.DataObject) -> None:
    fitting = np.array(data.draw(st.lists(st.integers(1, library), min_size=1, max_size=8)))
    k = data.draw(st.integers(1, library))
    ours = chance_of_hit(fitting, np.full(len(fitting), k), library)
    np.testing.assert_allclose(ours, stats.hypergeom.sf(0, library, fitting, k), rtol=1e-9, atol=1e-12)


def test_what_counts_as_a_hit_has_the_chance() -> None:
    # Two requirements, one with an alternative: three tools of ten fit, so that a draw of one finds one in 3 of 10.
    plain = Gold.of([{0: 1, 1: 1}])
    gold = replace(plain, groups=GoldGroups.of([[([0, 5], 1), ([1], 1)]]))
    assert bits([[5]], gold, 10, 1) == pytest.approx([math.log2(1 / 0.3)])


def test_the_whole_library_is_no_bit() -> None:
    rankings, gold = found(10, 10)
    for k in (10, 11, 1000):
        assert bits(rankings, gold, 10, k).tolist() == [0.0] * 10
    # Less than chance is below 0: of the ten, half do not return the tool at all.
    assert bits([[0]] * 5 + [[1]] * 5, gold, 10, 10).mean() == pytest.approx(-1.0)


def test_without_a_hit_half_a_one_is_counted() -> None:
    assert bits(*found(0, 20), 40, 2) == pytest.approx(np.full(20, math.log2(0.5 / 20 / (2 / 40))))
    assert bits(*found(1, 1), 40, 2) == pytest.approx([math.log2(20)])
    assert bits(*found(0, 1), 40, 2) == pytest.approx([math.log2(10)])


def test_queries_that_failed_found_nothing_and_those_without_gold_take_no_part() -> None:
    gold = Gold.of([{0: 1}, {0: 1}, {}])
    values = bits([[0], [0], [0]], gold, 8, 1, [False, True, False])
    assert values[:2].mean() == pytest.approx(math.log2(0.5 * 8))
    assert np.isnan(values[2])


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=2, max_size=12), st.integers(0, 11))
def test_the_mean_is_the_statistic_and_a_value_its_derivative(rows: list[tuple[int, bool]], which: int) -> None:
    def values(weighted: list[tuple[int, bool]]) -> NDArray[np.float64]:
        gold = Gold.of(dict.fromkeys(range(n), 1) for n, _ in weighted)
        return bits([[0] if hit else [9] for _, hit in weighted], gold, 30, 3)

    made, which = values(rows), which % len(rows)
    share = np.mean([hit for _, hit in rows]) or 0.5 / len(rows)
    chance = np.mean([1 - math.comb(30 - n, 3) / math.comb(30, 3) for n, _ in rows])
    assert made.mean() == pytest.approx(math.log2(share / chance))
    if 0 < sum(hit for _, hit in rows) < len(rows):
        copies = 1000
        again = [row for row in rows for _ in range(copies)]
        slope = (values([*again, rows[which]]).mean() - made.mean()) * (copies * len(rows) + 1)
        assert slope == pytest.approx(made[which] - made.mean(), abs=0.05)


def test_the_interval_is_that_of_a_bootstrap_of_the_statistic() -> None:
    random = np.random.default_rng(3)
    fitting = random.integers(1, 6, size=300)
    hits = random.random(300) < 0.3 + 0.1 * fitting
    gold = Gold.of(dict.fromkeys(range(n), 1) for n in fitting.tolist())
    rankings = [[0] if hit else [99] for hit in hits.tolist()]
    metrics = parse_metrics(["bits_over_random@5"])
    tools = Ranking.of_lists(rankings).tools
    scores = with_chance(evaluate(tools, gold, metrics), tools, gold, 200)
    value = means_and_intervals(scores, np.arange(300), gold.counts)["bits_over_random@5"]
    chances = np.asarray(stats.hypergeom.sf(0, 200, fitting, 5))
    drawn = random.integers(0, 300, size=(4000, 300))
    low, high = np.quantile(np.log2(hits[drawn].mean(axis=1) / chances[drawn].mean(axis=1)), [0.025, 0.975])
    assert value.low is not None
    assert value.high is not None
    assert value.mean == pytest.approx(math.log2(hits.mean() / chances.mean()))
    # The statistic is not held between 0 and 1.
    assert value.low > 1
    assert (value.low, value.high) == pytest.approx((low, high), abs=0.03)


def test_where_all_were_found_nothing_says_how_sure_that_is() -> None:
    rankings, gold = found(12, 12)
    metrics = parse_metrics(["bits_over_random@1"])
    tools = Ranking.of_lists(rankings).tools
    scores = with_chance(evaluate(tools, gold, metrics), tools, gold, 16)
    value = means_and_intervals(scores, np.arange(12), gold.counts)["bits_over_random@1"]
    assert (value.mean, value.low, value.high) == (4.0, None, None)


def test_it_is_computed_when_asked_for_and_by_code_of_its_own() -> None:
    assert not any("bits_over_random" in name for name in (*DEFAULT_METRICS, *FURTHER_METRICS))
    (bits_over_random, hit) = parse_metrics(["bits_over_random@5", "hit@5"])
    assert measure_hash(bits_over_random.measure) != measure_hash(hit.measure)
