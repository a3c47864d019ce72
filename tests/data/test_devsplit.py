"""A part of train that stands in for dev: whole units, by a seed, and never more than half."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.datasets import make_dataset

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.devsplit import MOST, SHARE, HeldOut, hold_out_dev
from bench.data.tables import Query, Split, Tool


def made(sizes: list[int], *others: Query) -> Dataset:
    """A dataset of train queries, so many of each gold set, which is their unit."""
    tools = [Tool(f"t{number}", "", f"number {number}") for number in range(max(len(sizes), 1))]
    queries = [
        Query(f"{number}-{again}", f"query {number} {again}", {f"t{number}": 1}, "train")
        for number, size in enumerate(sizes)
        for again in range(size)
    ]
    return make_dataset(tools, [*queries, *others])


def of(dataset: Dataset, split: Split) -> set[str]:
    return {query.query_id for query in dataset.queries if query.split == split}


@given(st.lists(st.integers(1, 9), min_size=2, max_size=20), st.integers(0, 3))
def test_whole_units_are_held_out_and_never_more_than_half(sizes: list[int], seed: int) -> None:
    dataset = made(sizes, Query("test", "test", {"t0": 1}, "test"), Query("none", "no tool", {}, "train"))
    count = sum(sizes)
    try:
        derived, held = hold_out_dev(dataset, seed)
    except UsageError:
        # Units that hold at most half could have been held out.
        assert min(sizes) > MOST * count
        return
    assert held is not None
    dev, train = of(derived, "dev"), of(derived, "train")
    assert dev | train == of(dataset, "train")
    assert "none" in train
    assert of(derived, "test") == {"test"}
    assert {name.split("-")[0] for name in dev}.isdisjoint(name.split("-")[0] for name in train)
    assert held == HeldOut(seed, len(dev), len({name.split("-")[0] for name in dev}), count)
    assert len(dev) <= MOST * count
    if max(sizes) <= (MOST - SHARE) * count:
        assert len(dev) >= SHARE * count
    assert hold_out_dev(dataset, seed)[0].content_hash == derived.content_hash


def test_seeds_differ_and_the_order_of_queries_does_not_matter() -> None:
    dataset = made([2] * 30)
    chosen = {tuple(sorted(of(hold_out_dev(dataset, seed)[0], "dev"))) for seed in range(5)}
    assert len(chosen) == 5
    turned = make_dataset(dataset.tools, list(reversed(dataset.queries)))
    assert of(hold_out_dev(turned, 0)[0], "dev") in [set(one) for one in chosen]


def test_a_dev_split_is_left_as_it_is() -> None:
    dataset = made([2, 2], Query("dev", "dev", {"t0": 1}, "dev"))
    assert hold_out_dev(dataset) == (dataset, None)


def test_what_cannot_be_held_out_is_said() -> None:
    with pytest.raises(UsageError, match="has neither dev nor train queries for tuning, and test queries must not be"):
        hold_out_dev(made([], Query("test", "test", {"t0": 1}, "test")))
    with pytest.raises(
        UsageError, match="no part of its 9 train queries can be held out: more than half are one group"
    ):
        hold_out_dev(made([9]))
