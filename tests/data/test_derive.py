"""Seeded splits: a partition, near the share, whole bundles on one side, and the same for ever."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import DataError, UsageError
from bench.base.parameters import check_parameters
from bench.base.spec import parse
from bench.data.derive import SplitOptions, bundle_id, with_ptr_split, with_splits
from bench.data.derive import tested_groups as choose  # its own name looks like a test's
from bench.data.tables import Query

shares = st.floats(0.01, 0.99)
seeds = st.integers(-(2**40), 2**40)
sizes = st.dictionaries(st.text(min_size=1), st.integers(1, 40), min_size=2, max_size=40)
bundles = st.frozensets(st.sampled_from("abcdef"), min_size=1, max_size=3)


def queries_of(golds: list[frozenset[str]]) -> list[Query]:
    return [Query(f"{number:03}", "text", dict.fromkeys(gold, 1)) for number, gold in enumerate(golds)]


def ids(queries: list[Query], split: str) -> set[str]:
    return {query.query_id for query in queries if query.split == split}


@given(sizes, seeds, shares)
def test_the_share_is_met_within_one_group_and_both_sides_have_one(
    sizes: dict[str, int], seed: int, share: float
) -> None:
    chosen = choose(sizes, seed, share)
    assert chosen < sizes.keys()
    assert chosen
    tested = sum(sizes[group] for group in chosen)
    assert abs(tested - share * sum(sizes.values())) < max(sizes.values())


@given(st.integers(2, 300), seeds, shares)
def test_single_queries_meet_the_share_to_half_a_query(count: int, seed: int, share: float) -> None:
    tested = len(choose({str(number): 1 for number in range(count)}, seed, share))
    wanted = min(max(share * count, 1), count - 1)
    assert abs(tested - wanted) <= 0.5


@given(sizes, seeds, shares, st.randoms(use_true_random=False))
def test_the_order_of_the_groups_does_not_matter(
    sizes: dict[str, int], seed: int, share: float, random: Random
) -> None:
    names = list(sizes)
    random.shuffle(names)
    assert choose({name: sizes[name] for name in names}, seed, share) == choose(sizes, seed, share)


@given(sizes, seeds, shares, shares)
def test_a_larger_share_only_adds_groups(sizes: dict[str, int], seed: int, one: float, other: float) -> None:
    assert choose(sizes, seed, min(one, other)) <= choose(sizes, seed, max(one, other))


@given(st.lists(bundles, min_size=2, max_size=60), seeds, shares)
def test_random_is_a_partition_that_keeps_every_query(golds: list[frozenset[str]], seed: int, share: float) -> None:
    queries = queries_of(golds)
    split = with_splits(queries, SplitOptions(seed=seed, test_share=share))
    assert [(q.query_id, q.text, q.gold, q.slices) for q in split] == [
        (q.query_id, q.text, q.gold, q.slices) for q in queries
    ]
    assert ids(split, "train") | ids(split, "test") == {query.query_id for query in queries}
    assert ids(split, "train")
    assert ids(split, "test")


@given(st.lists(bundles, min_size=2, max_size=60).filter(lambda golds: len(set(golds)) > 1), seeds, shares)
def test_bundle_disjoint_keeps_every_bundle_on_one_side(golds: list[frozenset[str]], seed: int, share: float) -> None:
    split = with_splits(queries_of(golds), SplitOptions(split="bundle-disjoint", seed=seed, test_share=share))
    train, test = ({frozenset(q.gold) for q in split if q.split == side} for side in ("train", "test"))
    assert train
    assert test
    assert not train & test


def test_a_bundle_is_a_set_whatever_the_order() -> None:
    assert bundle_id(["b", "a"]) == bundle_id({"a": 1, "b": 2}) == "a\nb"
    assert bundle_id(["a"]) == "a"
    assert bundle_id(["ab"]) != bundle_id(["a", "b"])


def test_seeds_differ() -> None:
    groups = {str(number): 1 for number in range(100)}
    assert len({choose(groups, seed, 0.2) for seed in range(50)}) == 50


def test_the_same_for_ever() -> None:
    """From coreutils: `printf %s 0:h | sha256sum` and so on, sorted. A failure means that published splits changed."""
    groups = dict.fromkeys("abcdefghij", 1)
    assert choose(groups, 0, 0.3) == {"h", "f", "g"}
    assert choose(groups, 1, 0.3) == {"i", "d", "g"}


def test_the_nearer_cut_is_taken_and_of_equally_near_ones_the_smaller() -> None:
    # For seed 0 the order begins h, f: cuts at 2 and at 4 of 12 queries.
    groups = {**dict.fromkeys("abcdegij", 1), "f": 2, "h": 2}
    assert choose(groups, 0, 2.9 / 12) == {"h"}
    assert choose(groups, 0, 3 / 12) == {"h"}
    assert choose(groups, 0, 3.1 / 12) == {"h", "f"}


def test_each_side_keeps_one_group_whatever_the_share() -> None:
    assert choose({"h": 100, "f": 1}, 0, 0.01) == {"h"}
    assert choose({"h": 1, "f": 100}, 0, 0.99) == {"h"}


@pytest.mark.parametrize("split", ["random", "bundle-disjoint"])
def test_one_group_cannot_be_split(split: str) -> None:
    options = SplitOptions.model_validate({"split": split})
    golds = [frozenset("a")] if split == "random" else [frozenset("ab"), frozenset("ba")]
    with pytest.raises(
        DataError, match=r"cannot split 1 group\(s\) of queries into train and test; at least two are needed"
    ):
        with_splits(queries_of(golds), options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x(test_share=0)", "parameter 'test_share' of dataset x is 0: input should be greater than 0"),
        ("x(test_share=1.0)", "input should be less than 1"),
        ("x(split=disjoint)", "'random' or 'bundle-disjoint'"),
        ("x(seed=a)", "parameter 'seed'"),
        ("x(sed=1)", "did you mean 'seed'"),
    ],
)
def test_options_out_of_bounds_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_parameters(SplitOptions, parse(text), "dataset")
    assert sentence in str(caught.value)


@given(st.lists(st.tuples(bundles, st.text(max_size=2)), min_size=2, max_size=20), seeds)
def test_a_split_keeps_the_groups(rows: list[tuple[frozenset[str], str]], seed: int) -> None:
    queries = [
        replace(query, group=group) for query, (_, group) in zip(queries_of([g for g, _ in rows]), rows, strict=True)
    ]
    split = with_splits(queries, SplitOptions(seed=seed))
    assert [(query.query_id, query.group) for query in split] == [(query.query_id, query.group) for query in queries]


@given(st.lists(bundles, min_size=1, max_size=30), st.integers(0, 30))
def test_ptrs_split_makes_every_bundle_a_past_one_and_no_tested_text(golds: list[frozenset[str]], tested: int) -> None:
    queries = queries_of(golds)
    split = with_ptr_split(queries, tested)
    assert [query.query_id for query in split if query.split == "test"] == [q.query_id for q in queries[:tested]]
    past = [query for query in split if query.split == "train"]
    assert {bundle_id(query.gold) for query in past} == {bundle_id(gold) for gold in golds}
    assert [query.query_id for query in past if query.text] == [q.query_id for q in queries[tested:]]
    # A bundle that train has anyway is not added again.
    assert len(past) == len(queries[tested:]) + len(set(golds[:tested]) - set(golds[tested:]))
