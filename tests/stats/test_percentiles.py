"""Percentiles of times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats.percentiles import FEWEST_FOR_P99, percentiles


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_percentiles_lie_between_the_ordered_times(times: list[float]) -> None:
    p50, p95, p99 = percentiles(times)
    ordered = sorted(times)
    for share, value in ((0.5, p50), (0.95, p95), (0.99, p99)):
        if value is not None:
            at = int(share * (len(times) - 1))
            assert ordered[at] <= value * (1 + 1e-12)
            assert value <= ordered[min(at + 1, len(times) - 1)] * (1 + 1e-12)
    assert (p99 is None) == (len(times) < FEWEST_FOR_P99)


def test_of_a_hundred_times() -> None:
    assert percentiles([float(i) for i in range(101)]) == pytest.approx((50, 95, 99))
    assert percentiles([1.0]) == (1.0, 1.0, None)
