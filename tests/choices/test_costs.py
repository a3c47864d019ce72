"""Costs of choices, by hand: 100 queries, and a search against the whole library in a cached prompt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.choices.costs import CachedBreakEven, cost_of_100, tokens_per_byte
from bench.choices.outcomes import ChoiceNote, Replies
from bench.models.llm.settings import Price

#: Per million: 2 in, 0.20 from the cache, 2.50 to the cache, 10 out.
PRICE = Price(2e-6, 10e-6, 0.2e-6, 2.5e-6)
#: Five of 80 tools of 100 tokens each, a request of 60 tokens, a reply of 40.
FIVE = CachedBreakEven(shown=500, library=8000, tools=80, rest=60, output=40, price=PRICE)


def test_100_queries() -> None:
    # 100 (700 x 2 + 300 x 0.20 + 40 x 10) / 10^6
    assert cost_of_100((1000, 300, 40), PRICE) == pytest.approx(0.186)
    # Cached tokens whose price is not known cost what others do: 100 (1000 x 2 + 40 x 10) / 10^6.
    assert cost_of_100((1000, 300, 40), Price(2e-6, 10e-6)) == pytest.approx(0.24)
    assert cost_of_100((0, 0, 0), PRICE) == 0


def test_a_search_against_the_library() -> None:
    # (500 + 60) x 2 + 40 x 10 = 1520
    assert FIVE.search_cost == pytest.approx(1520e-6)
    # A token of the library: 0.9 x 0.20 + 0.1 x 2.50 = 0.43; 8000 x 0.43 + 60 x 2 + 40 x 10 = 3960
    assert FIVE.library_cost == pytest.approx(3960e-6)
    # 500 x 2 / (100 x 0.43) = 23.3: with 23 tools the library is cheaper, with 24 the search.
    assert FIVE.from_tools == 24
    assert with_tools(23).library_cost < FIVE.search_cost < with_tools(24).library_cost


def choices(**prompts: tuple[str, int]) -> Replies:
    """Choices of `prompts`: query -> letters of the shown tools, and input tokens."""
    notes: list[ChoiceNote | None] = [ChoiceNote(shown=list(s), input_tokens=n) for s, n in prompts.values()]
    return Replies(list(prompts), ["right"] * len(notes), notes, np.arange(len(notes)))


def test_tokens_of_a_byte_by_hand() -> None:
    sizes = {"a": 100, "b": 200, "c": 400}
    # Requests of 30 and of 80 tokens, and a quarter of a token for each byte.
    alone, three = choices(x=("a", 55), y=("b", 130)), choices(x=("abc", 205), y=("ab", 155))
    assert tokens_per_byte([alone, three], sizes) == pytest.approx(0.25)
    assert three.mean_shown(sizes) == (700 + 300) / 2
    # A request that was put once says nothing, nor do prompts of one size, nor a count that knows no tools.
    assert tokens_per_byte([alone], sizes) is None
    assert tokens_per_byte([alone, alone], sizes) is None
    assert tokens_per_byte([choices(x=("a", 30)), choices(x=("abc", 30))], sizes) is None
    # No tokens were counted for a request that failed.
    assert tokens_per_byte([alone, choices(x=("abc", 0), y=("ab", 155))], sizes) == pytest.approx(0.25)
    assert choices().mean_shown(sizes) == 0


def with_tools(n: int) -> CachedBreakEven:
    return replace(FIVE, library=100.0 * n, tools=n)


def test_every_request_hits() -> None:
    # 500 x 2 / (100 x 0.20) = 50: with 50 tools both cost the same, so a search is cheaper from 51 on.
    always = replace(FIVE, hit_share=1.0)
    assert always.from_tools == 51
    assert replace(always, library=5000.0, tools=50).library_cost == pytest.approx(always.search_cost)


def test_without_a_hit_nothing_is_cached() -> None:
    # To write would cost 2.50, plain input is 2: five tools cost the same either way.
    never = replace(FIVE, hit_share=0.0)
    assert never.library_cost == pytest.approx((8000 * 2 + 60 * 2 + 400) * 1e-6)
    assert never.from_tools == 6


def test_without_a_discount_a_search_is_cheaper_once_it_leaves_a_tool_out() -> None:
    assert replace(FIVE, price=Price(2e-6, 10e-6)).from_tools == 6


def test_free_output_changes_both_alike() -> None:
    free = replace(FIVE, price=replace(PRICE, output=0.0))
    assert free.from_tools == 24
    assert free.library_cost - free.search_cost == pytest.approx(FIVE.library_cost - FIVE.search_cost)


def test_a_cache_that_costs_nothing_is_never_beaten() -> None:
    assert replace(FIVE, hit_share=1.0, price=Price(2e-6, 10e-6, 0.0)).from_tools is None
    assert replace(FIVE, library=0.0, tools=0).from_tools is None


prices = st.floats(0.01, 100)


@given(
    st.builds(Price, prices, prices, st.none() | prices, st.none() | prices),
    st.floats(0, 1),
    st.integers(1, 50),
    st.integers(1, 500),
)
def test_the_number_is_where_the_costs_cross(price: Price, share: float, k: int, size: int) -> None:
    found = CachedBreakEven(k * size, 1000 * size, 1000, 60, 40, price, share)
    n = found.from_tools
    assert n is not None
    assert n > k
    for tools, cheaper in ((n, True), (n - 2, False)):
        if tools < 1:
            continue
        one = replace(found, library=float(tools * size), tools=tools)
        assert (one.search_cost < one.library_cost * (1 + 1e-9)) if cheaper else (one.search_cost > one.library_cost)
