"""Units of independence: each relation by hand, their union, and what the order of the queries changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.datasets import make_dataset
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bench.base.errors import UsageError
from bench.data.card import DEFAULT_UNIT, RELATIONS, Relation
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tool
from bench.data.units import components, parse_unit, unit_codes, unit_name

TOOLS = [
    Tool("a1", "a1", "", "x", "a"),
    Tool("a2", "a2", "", "x", "a"),
    Tool("b1", "b1", "", "x", "b"),
    # The same parent in another category is another parent.
    Tool("c1", "c1", "", "y", "a"),
    # Tools that name no parent have one each.
    Tool("d1", "d1", "", "y"),
    Tool("d2", "d2", "", "y"),
]


def build(queries: Sequence[Query], **card: Any) -> Dataset:
    return make_dataset(TOOLS, queries, **card)


def of_gold(*golds: Sequence[str]) -> Dataset:
    return build([Query(f"{i:02}", "x", dict.fromkeys(gold, 1)) for i, gold in enumerate(golds)])


def of_text(*texts: str) -> Dataset:
    return build([Query(f"{i:02}", text, {}) for i, text in enumerate(texts)])


def codes(dataset: Dataset, *by: Relation) -> list[int]:
    result: list[int] = unit_codes(dataset, by).tolist()
    return result


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "name"),
    [((), "none"), (("gold",), "gold"), (("group", "gold"), "gold+group"), (RELATIONS, "gold+group+text+parent")],
)
def test_a_rule_is_called_by_its_relations_in_one_order(by: Sequence[Relation], name: str) -> None:
    assert unit_name(by) == name
    assert set(parse_unit(name)) == set(by)


def test_a_rule_is_parsed_in_any_order() -> None:
    assert parse_unit("parent+gold") == ("gold", "parent")


@pytest.mark.parametrize("text", ["", "golden", "gold+", "gold+gold", "gold+none", "none+none", "gold,group", "Gold"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_unit(text)
    assert str(caught.value) == (
        f"{text!r} is not a unit of independence: join some of gold, group, text, parent by `+`, each once, or use "
        "none if all queries are independent."
    )


# Relations ----------------------------------------------------------------------------------------------------------


def test_without_a_relation_every_query_is_a_unit() -> None:
    assert codes(of_gold(["a1"], ["a1"], [])) == [0, 1, 2]


def test_queries_with_the_same_gold_set_are_one_unit() -> None:
    data = of_gold(["a1"], ["a1", "a2"], ["a2", "a1"], ["a2"], [], ["a1"], [])
    assert codes(data, "gold") == [0, 1, 1, 2, 3, 0, 4]


def test_grades_do_not_tell_gold_sets_apart() -> None:
    assert codes(build([Query("1", "", {"a1": 1}), Query("2", "", {"a1": 2})]), "gold") == [0, 0]


def test_queries_of_one_group_are_one_unit() -> None:
    groups = ["s", "", "t", "s", "", "S"]
    data = build([Query(f"{i}", "x", {"a1": 1}, group=group) for i, group in enumerate(groups)])
    assert codes(data, "group") == [0, 1, 2, 0, 3, 4]


def test_queries_with_gold_under_one_parent_are_one_unit() -> None:
    data = of_gold(["a1"], ["a1", "a2"], ["b1"], ["a2"], ["a1", "b1"], ["a1", "b1"], [], ["c1"], ["d1"], ["d2"], ["d1"])
    assert codes(data, "parent") == [0, 0, 1, 0, 2, 3, 4, 5, 6, 7, 6]


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("Book a room for 2 nights!", "book A ROOM, for 14 nights", True),
        ("Straße", "STRASSE", True),
        ("snake_case", "snake case", True),
        # Four of five words; then four of six.
        ("one two three four", "one two three four five", True),
        ("one two three four x", "one two three four y", False),
        # Eight of ten; seven of nine.
        ("a b c d e f g h x", "a b c d e f g h y", True),
        ("a b c d e f g x", "a b c d e f g y", False),
        ("a b c", "c b a a", True),
        ("mail", "mails", False),
        # Eleven of 13 pairs of characters; five of nine.
        ("明天帮我预订去上海的火车票", "后天帮我预订去上海的火车票", True),
        ("明天帮我预订车票", "后天帮他预订车票", False),
        ("", "**", True),
        ("", "a", False),
    ],
)
def test_near_duplicates_share_four_fifths_of_their_words(one: str, other: str, near: bool) -> None:
    # A text in between, of other words, keeps the two apart in the table.
    assert codes(of_text(one, "zebra quagga", other), "text") == [0, 1, 0 if near else 2]


def test_a_chain_of_links_is_one_unit() -> None:
    queries = [
        Query("1", "send a letter", {"a1": 1}),
        Query("2", "another text", {"a1": 1}, group="s"),
        Query("3", "a third one", {"b1": 1}, group="s"),
        Query("4", "A third one.", {"c1": 1}),
        Query("5", "nothing like it", {"d1": 1}),
    ]
    data = build(queries)
    assert codes(data, "gold") == [0, 0, 1, 2, 3]
    assert codes(data, "gold", "group") == [0, 0, 0, 1, 2]
    assert codes(data, "text", "group", "gold") == [0, 0, 0, 0, 1]


def test_links_go_through_other_splits() -> None:
    texts = {"test": "a b c d e f g h x", "train": "a b c d e f g h", "dev": "a b c d e f g h y z"}
    data = build([Query(split, text, {}, split) for split, text in texts.items()])  # type: ignore[arg-type]
    assert codes(data, "text") == [0, 0, 0]


# Of a dataset -------------------------------------------------------------------------------------------------------


def test_a_dataset_has_the_units_of_its_card() -> None:
    queries = [Query("1", "x", {"a1": 1}, group="s"), Query("2", "y", {"b1": 1}, group="s"), Query("3", "z", {"b1": 1})]
    data = build(queries)
    assert (data.unit, data.units.tolist(), data.source) == ("gold", [0, 1, 1], "made")
    grouped = build(queries, unit=DEFAULT_UNIT.model_copy(update={"by": ["group"]}), source="other")
    assert (grouped.unit, grouped.units.tolist(), grouped.source) == ("group", [0, 0, 1], "other")
    assert grouped.units is grouped.units
    assert grouped.content_hash == data.content_hash
    with pytest.raises(ValueError, match="read-only"):
        data.units[0] = 1


# Properties ---------------------------------------------------------------------------------------------------------

words = st.sampled_from("post mail send letter road map find train ticket 7 , !".split())


@st.composite
def queries(draw: st.DrawFn) -> list[Query]:
    count = draw(st.integers(1, 12))
    collected = []
    for i in range(count):
        text = " ".join(draw(st.lists(words, max_size=7)))
        gold = draw(st.lists(st.sampled_from([tool.tool_id for tool in TOOLS]), max_size=2, unique=True))
        collected.append(Query(f"{i:02}", text, dict.fromkeys(gold, 1), group=draw(st.sampled_from(["", "s", "t"]))))
    return collected


rules = st.lists(st.sampled_from(RELATIONS), unique=True)


def pairs(units: Sequence[int]) -> set[tuple[int, int]]:
    """The pairs of queries in one unit."""
    return {(i, j) for i, j in combinations(range(len(units)), 2) if units[i] == units[j]}


@given(queries(), rules, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_queries_does_not_matter(made: list[Query], by: list[Relation], random: Any) -> None:
    new = list(range(len(made)))
    random.shuffle(new)
    moved = build([Query(f"{new[i]:02}", q.text, q.gold, q.split, group=q.group) for i, q in enumerate(made)])
    values = np.array(codes(moved, *by))[new]
    assert pairs(values.tolist()) == pairs(codes(build(made), *by))


@given(queries(), rules, rules)
@settings(deadline=None)
def test_a_union_is_the_least_that_is_coarser_than_each(
    made: list[Query], one: list[Relation], other: list[Relation]
) -> None:
    data = build(made)
    union = pairs(codes(data, *one, *other))
    links = pairs(codes(data, *one)) | pairs(codes(data, *other))
    assert links <= union
    # Nothing is linked but through links: spreading labels along them ends in the same units.
    labels = list(range(len(made)))
    for _ in made:
        for i, j in links:
            labels[i] = labels[j] = min(labels[i], labels[j])
    assert pairs(labels) == union


@given(queries(), rules)
@settings(deadline=None)
def test_codes_count_from_zero_in_order_of_first_appearance(made: list[Query], by: list[Relation]) -> None:
    result = codes(build(made), *by)
    assert list(dict.fromkeys(result)) == list(range(max(result) + 1))


@given(st.lists(st.lists(words | st.text("abc ", max_size=3), max_size=9).map(" ".join), min_size=1, max_size=25))
@settings(deadline=None)
def test_near_duplicates_are_all_pairs_of_a_plain_comparison(texts: list[str]) -> None:
    sets = [set(re.findall(r"[a-z]+", text)) for text in texts]
    labels = list(range(len(sets)))
    near = [
        (i, j) for i, j in combinations(range(len(sets)), 2) if 5 * len(sets[i] & sets[j]) >= 4 * len(sets[i] | sets[j])
    ]
    for _ in sets:
        for i, j in near:
            labels[i] = labels[j] = min(labels[i], labels[j])
    assert pairs(codes(of_text(*texts), "text")) == pairs(labels)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    nodes = draw(st.integers(1, 30))
    ends = st.integers(0, nodes - 1)
    links = np.array(draw(st.lists(st.tuples(ends, ends), max_size=40)), dtype=np.int64).reshape(-1, 2)
    return nodes, links[:, 0], links[:, 1]


@given(graphs())
def test_components_are_those_of_scipy(graph: tuple[int, NDArray[np.int64], NDArray[np.int64]]) -> None:
    nodes, starts, ends = graph
    labels = components(nodes, starts, ends)
    matrix = coo_array((np.ones(len(starts), dtype=np.int8), (starts, ends)), shape=(nodes, nodes))
    theirs = connected_components(matrix, directed=False)[1]
    smallest = [int(np.flatnonzero(theirs == row)[0]) for row in theirs]
    assert labels.tolist() == smallest


def test_components_of_long_paths() -> None:
    order = np.random.default_rng(0).permutation(20_000)
    for path in (order, np.sort(order), np.sort(order)[::-1]):
        assert not components(len(path), path[:-1], path[1:]).any()
        assert len(np.unique(components(len(path), path[:-2:2], path[1::2][: len(path) // 2 - 1]))) == 10_001
