"""Derivations that hold something out of train: nothing leaks, nothing is lost unsaid, and the same for ever."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.base.errors import DataError, UsageError
from bench.base.parameters import check_parameters
from bench.base.spec import parse
from bench.data.derive import DomainOptions, HoldOutOptions, held_units, hold_out, split_domains, with_dev
from bench.data.parents import parent_of
from bench.data.tables import Edge, Query, Split, Tables, Tool

IDS = [f"t{number:02}" for number in range(24)]
#: 24 tools of 12 parents in 4 categories; every fifth description is too short for the query-generation paper.
TOOLS = [
    Tool(name, name, "words " * (3 if number % 5 == 4 else 5 + number), f"c{number // 6}", f"p{number // 2}")
    for number, name in enumerate(IDS)
]
PARENT = {tool.tool_id: parent_of(tool) for tool in TOOLS}
seeds = st.integers(-(2**40), 2**40)
shares = st.floats(0.01, 0.4)


@st.composite
def tables(draw: st.DrawFn, dev: bool = False) -> Tables:
    """50 queries of one to four tools, mostly neighbours, so that parents occur together as in real data."""
    random = Random(draw(st.integers(0, 2**32)))
    queries = []
    for number in range(50):
        first, size = random.randrange(24), random.choice([0, 1, 1, 2, 2, 3, 4])
        gold = {IDS[(first + random.choice([0, 1, 2, 7])) % 24]: 1 for _ in range(size)}
        split: Split = random.choice(["train", "train", "train", "test", "dev" if dev else "train"])
        queries.append(Query(f"q{number:02}", f"text {number}", gold, split))
    return Tables(TOOLS, queries, [Edge("t00", "t01", "result"), Edge("t04", "t05", "verification")], [("q00", "x")])


def parents(queries: Iterable[Query], *splits: str) -> set[tuple[str, ...]]:
    return {PARENT[tool] for query in queries if query.split in splits for tool in query.gold}


def derived(function: Any, source: Tables, **options: Any) -> Tables:
    """The derived tables; a source of which nothing can be held out, or nothing would be left, is no example."""
    kind = HoldOutOptions if function is hold_out else DomainOptions
    try:
        made = function(source, kind(**{"dev": 2, "common": 1.0, **options}))
    except DataError:
        assume(False)
    assert isinstance(made, Tables)
    return made


# Parents held out of train ------------------------------------------------------------------------------------------


@given(tables(), seeds, shares)
def test_every_test_query_stays_and_none_changes(source: Tables, seed: int, share: float) -> None:
    made = derived(hold_out, source, seed=seed, share=share)
    assert made.tools == source.tools
    assert (made.edges, made.unknown_gold) == (source.edges, [("q00", "x")] if ids(made) & {"q00"} else [])
    before = {query.query_id: query for query in source.queries}
    for query in made.queries:
        same = replace(query, slices={}, split=before[query.query_id].split)
        assert same == before[query.query_id]
    assert ids(made, "test") == ids(source, "test")
    assert ids(made, "train") | ids(made, "dev") <= ids(source, "train")
    # What is in no split is listed, and listed once.
    assert sorted([*ids(made), *made.left_out]) == sorted(before)


@given(tables(), seeds, shares)
def test_no_unseen_parent_stands_in_train_or_dev(source: Tables, seed: int, share: float) -> None:
    made = derived(hold_out, source, seed=seed, share=share)
    unseen = [query for query in made.queries if query.slices.get("parent") == "unseen" and query.split == "test"]
    assert not parents(unseen, "test") & parents(made.queries, "train", "dev")
    # At least one query has nothing but held-out parents: that is why they are held out in whole sets.
    assert unseen


@given(tables(), seeds, shares)
def test_dev_costs_train_parents_of_its_own_and_has_none_that_test_has_to_itself(
    source: Tables, seed: int, share: float
) -> None:
    made, without = (derived(hold_out, source, seed=seed, share=share, dev=dev) for dev in (2, 0))
    assert len(ids(made, "dev")) == 2
    assert ids(made, "dev") <= ids(without, "train")
    assert parents(made.queries, "train") < parents(without.queries, "train")


@given(tables(), seeds)
def test_a_category_is_held_out_with_all_of_its_parents(source: Tables, seed: int) -> None:
    made = derived(hold_out, source, seed=seed, share=0.25, by="category")
    categories = {parent[0] for parent in parents(made.queries, "train", "dev")}
    tested = {parent[0] for parent in parents(made.queries, "test")}
    assert tested - categories


@given(tables(dev=True), seeds)
def test_a_dev_split_that_is_there_is_kept_and_none_is_made(source: Tables, seed: int) -> None:
    made = derived(hold_out, source, seed=seed, share=0.2)
    assert ids(made, "train") <= ids(source, "train")
    # Where every dev query needs what is held out, none is left to be kept.
    left = ids(made, "dev") & ids(source, "dev")
    assert ids(made, "dev") <= (left or ids(source, "train"))


@given(tables(), seeds, shares, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(source: Tables, seed: int, share: float, random: Random) -> None:
    queries = list(source.queries)
    random.shuffle(queries)
    shuffled = replace(source, queries=queries)
    for function in (hold_out, split_domains):
        one, other = (derived(function, rows, seed=seed, share=share) for rows in (source, shuffled))
        assert sorted(map(repr, one.queries)) == sorted(map(repr, other.queries))


def test_common_parents_stay_in_train() -> None:
    """Four queries need t00's parent, two that of t02 and one that of t04."""
    rows = [["t00"], ["t00"], ["t00", "t02"], ["t00"], ["t02"], ["t04"]]
    queries = [
        Query(f"{split}{i}", "", dict.fromkeys(gold, 1), split)
        for split in ("train", "test")
        for i, gold in enumerate(rows)
    ]
    for common, kept in ((1 / 6, {"p0", "p1"}), (0.4, {"p0"})):
        made = hold_out(Tables(TOOLS, queries), HoldOutOptions(share=0.99, common=common, dev=0))
        assert {parent for _, parent in parents(made.queries, "train")} == kept
    with pytest.raises(DataError, match=r"nothing can be held out: .* raise `common`"):
        hold_out(Tables(TOOLS, queries), HoldOutOptions(common=0.01, dev=0))


def test_a_hold_out_by_hand() -> None:
    """From coreutils: for seed 0 the set e of category x comes before b, d, a and c.

    Five parents, a share of 0.2: one is held out of train, e. For dev it is half of one, and b is next.
    """
    tools = [Tool(name, name, "", "x", name) for name in "abcde"]
    golds = {"1": "a", "2": "b", "3": "be", "4": "c", "5": "d", "6": "e", "7": "ab", "8": "c"}
    past = [Query(name, "", dict.fromkeys(gold, 1), "train") for name, gold in golds.items()]
    queries = [Query(f"t{name}", "", dict.fromkeys(gold, 1)) for name, gold in [*golds.items(), ("9", "ce")]]
    made = hold_out(Tables(tools, [*past, *queries]), HoldOutOptions(share=0.2, common=1, dev=3))
    # `printf 0:1 | sha256sum` and so on: what is left of train comes in the order 7, 4, 8, 2, 5, 1.
    assert {split: sorted(ids(made, split)) for split in ("train", "dev")} == {
        "train": ["1", "5"],
        "dev": ["4", "7", "8"],
    }
    assert sorted(made.left_out) == ["2", "3", "6"]
    assert {query.query_id: query.slices["parent"] for query in made.queries if query.slices} == {
        **dict.fromkeys(["t1", "t5"], "seen"),
        **dict.fromkeys(["t2", "t3", "t4", "t7", "t8", "t9"], "dev"),
        **dict.fromkeys(["4", "8", "t6"], "unseen"),
        "7": "mixed",
    }


# Domains ------------------------------------------------------------------------------------------------------------


@given(tables(), seeds, shares)
def test_no_tool_or_parent_of_an_out_of_domain_query_stands_in_train_or_dev(
    source: Tables, seed: int, share: float
) -> None:
    made = derived(split_domains, source, seed=seed, share=share)
    outside = [query for query in made.queries if query.slices.get("domain") == "out"]
    assert outside
    assert {query.split for query in outside} == {"test"}
    past = [query for query in made.queries if query.split != "test"]
    assert not {t for query in outside for t in query.gold} & {t for query in past for t in query.gold}
    assert not parents(outside, "test") & parents(made.queries, "train", "dev")
    # Nor has an in-domain test query a parent of the other domain.
    inside = [query for query in made.queries if query.slices.get("domain") == "in"]
    assert not parents(outside, "test") & parents(inside, "test", "dev")
    assert {query.query_id for query in (*outside, *inside)} == ids(made, "test") | ids(made, "dev")


@given(tables(dev=True), seeds, shares)
def test_a_query_is_left_out_only_if_it_needs_both_domains_or_the_paper_leaves_it_out(
    source: Tables, seed: int, share: float
) -> None:
    made = derived(split_domains, source, seed=seed, share=share)
    known = {tool.tool_id for tool in made.tools}
    needs = {query.query_id: {PARENT[tool] for tool in query.gold} for query in source.queries}
    held = parents([query for query in made.queries if query.slices.get("domain") == "out"], "test")
    before = {query.query_id: query.split for query in source.queries}
    wanted = {
        query.query_id: "out" if needs[query.query_id] <= held else "in"
        for query in source.queries
        if 1 <= len(query.gold) <= 3 and query.gold.keys() <= known
        if needs[query.query_id] <= held or not needs[query.query_id] & held
    }
    assert ids(made) == wanted.keys()
    for query in made.queries:
        if wanted[query.query_id] == "out":
            assert (query.split, query.slices["domain"]) == ("test", "out")
        else:
            assert query.slices.get("domain") == (None if query.split == "train" else "in")
            assert query.split == before[query.query_id] or (before[query.query_id], query.split) == ("train", "dev")


@given(tables(), seeds)
def test_only_tools_and_queries_that_the_paper_would_keep_are_there(source: Tables, seed: int) -> None:
    made = derived(split_domains, source, seed=seed)
    assert [tool.tool_id for tool in made.tools] == [name for i, name in enumerate(IDS) if i % 5 != 4]
    assert made.edges == [Edge("t00", "t01", "result")]
    known = {tool.tool_id for tool in made.tools}
    assert all(1 <= len(query.gold) <= 3 and query.gold.keys() <= known for query in made.queries)
    assert sorted([*ids(made), *made.left_out]) == sorted(ids(source))
    # An in-domain test query was one before.
    assert {q.query_id for q in made.queries if q.slices.get("domain") == "in" and q.split == "test"} <= ids(
        source, "test"
    )


@pytest.mark.parametrize(("words", "kept"), [(4, False), (5, True), (50, True), (51, False)])
def test_descriptions_of_5_to_50_words_are_kept(words: int, kept: bool) -> None:
    tools = [Tool("a", "", "one  two\nthree four five", parent="p"), Tool("b", "", "w " * words, parent="q")]
    tools.append(Tool("c", "", "w " * 9, parent="r"))
    queries = [Query(f"{i}{tool}", "", {tool: 1}, "train") for tool in "ac" for i in range(2)]
    made = split_domains(Tables(tools, queries), DomainOptions(share=0.4, common=1, dev=0))
    assert [tool.tool_id for tool in made.tools] == (["a", "b", "c"] if kept else ["a", "c"])
    assert len(ids(made, "train")) == len(ids(made, "test")) == 2


# The parts ----------------------------------------------------------------------------------------------------------


def test_units_are_chosen_in_whole_sets_the_same_for_ever() -> None:
    """From coreutils: `printf '0:[["x", "a"]]' | sha256sum` and so on. A failure means: published splits changed."""
    single = [frozenset({("x", name)}) for name in "abcde"]
    order = "ebdac"
    for count in range(1, 6):
        assert held_units(single, count, 0) == {("x", name) for name in order[:count]}
    assert held_units(single, 2, 0, common=[("x", "b")]) == {("x", "e"), ("x", "d")}
    # {c, d} comes between a and c, {a, b} after c: a set may overshoot, and comes whole.
    sets = [*single, frozenset({("x", "c"), ("x", "d")}), frozenset({("x", "a"), ("x", "b")}), frozenset[Any]()]
    assert held_units(sets[5:], 1, 0) == {("x", "c"), ("x", "d")}
    assert held_units(sets[5:], 3, 0) == {("x", name) for name in "abcd"}
    assert held_units(sets[5:], 1, 0, common=[("x", "c")]) == {("x", "a"), ("x", "b")}


@given(
    st.lists(st.frozensets(st.tuples(st.sampled_from("abcdefgh")), max_size=3), min_size=1), seeds, st.floats(0.1, 9)
)
def test_as_many_units_as_wanted_and_at_most_one_set_more(
    sets: list[frozenset[tuple[str, ...]]], seed: int, wanted: float
) -> None:
    assume(any(sets))
    chosen = held_units(sets, wanted, seed)
    everything = {unit for units in sets for unit in units}
    assert min(wanted, len(everything)) <= len(chosen) < wanted + 3
    assert any(units and units <= chosen for units in sets)


def test_dev_is_drawn_by_query_the_same_for_ever() -> None:
    """From coreutils: `printf %s 0:h | sha256sum` and so on; the order begins h, f, g."""
    queries = [Query(name, "", {"t": 1}, "test" if name == "f" else "train") for name in "abcdefghij"]
    made = with_dev(queries, 2, 0)
    assert {query.query_id for query in made if query.split == "dev"} == {"h", "g"}
    assert [query.query_id for query in made] == list("abcdefghij")
    with pytest.raises(DataError, match="cannot move 9 of 9 train queries to dev"):
        with_dev(queries, 9, 0)


def test_a_derivation_that_leaves_no_train_query_is_refused() -> None:
    queries = [Query("1", "", {"t00": 1}, "train"), Query("2", "", {"t00": 1})]
    with pytest.raises(DataError, match=r"no train query would remain; hold out less"):
        hold_out(Tables(TOOLS, queries), HoldOutOptions(common=1, dev=0))
    with pytest.raises(DataError, match=r"no train query would remain"):
        split_domains(Tables(TOOLS, queries), DomainOptions(common=1, dev=0))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x(share=0)", "parameter 'share' of dataset x is 0: input should be greater than 0"),
        ("x(common=1.5)", "parameter 'common' of dataset x is 1.5: input should be less than or equal to 1"),
        ("x(dev=-1)", "parameter 'dev' of dataset x is -1: input should be greater than or equal to 0"),
        ("x(by=tool)", "parameter 'by' of dataset x is 'tool': input should be 'parent' or 'category'"),
    ],
)
def test_options_out_of_bounds_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_parameters(HoldOutOptions, parse(text), "dataset")
    assert sentence in str(caught.value)


def ids(source: Tables, split: str = "") -> set[str]:
    return {query.query_id for query in source.queries if split in {"", query.split}}
