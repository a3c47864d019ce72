"""What queries are written for: neighbours, pairs, chains, and how they are drawn."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from kit.datasets import make_dataset

from bench.base.errors import UsageError
from bench.data.tables import Edge, Tool
from bench.interface import Library
from bench.lab.synthesis.neighbours import Neighbours
from bench.lab.synthesis.targets import Kind, Target, draw_targets
from bench.methods.tgr.edges import Edges
from bench.registry import build_method, load_dataset

NO_EDGES = np.empty((0, 2), dtype=np.int32)


def library(tools: Sequence[Tool], edges: Sequence[Edge] = ()) -> Library:
    return Library.of(make_dataset(tools, [], edges, id="words", template="name_description"), "name_description")


def neighbours(values: Library) -> Neighbours:
    return Neighbours(values, build_method("tfidf"))


def drawn(values: Library, edges: Edges = NO_EDGES, seed: int = 0, **numbers: int | None) -> list[Target]:
    kinds: dict[str, Kind] = {"single": "single", "pairs": "pair", "chains": "chain", "no_tool": "no-tool"}
    by_key: dict[Kind, int | None] = {kinds[name]: count for name, count in numbers.items()}
    return draw_targets(values, neighbours(values), edges, by_key, seed)


def only(kind: str, values: Library, count: int | None, edges: Edges = NO_EDGES, seed: int = 0) -> list[Target]:
    return drawn(values, edges, seed, **{"single": 0, "pairs": 0, "chains": 0, "no_tool": 0, kind: count})


POST = [
    Tool("a", "letter", "send a letter by post", parent="post"),
    Tool("b", "parcel", "send a parcel by post", parent="post"),
    Tool("c", "rain", "tell whether it rains", parent="weather"),
    Tool("d", "storm", "tell whether it storms, and where", parent="weather"),
    Tool("e", "song", "play music"),
]


# Neighbours ---------------------------------------------------------------------------------------------------------


def test_neighbours_share_words_and_leave_out_the_tool_itself() -> None:
    result = neighbours(library(POST))
    assert [row[:2] for row in result.of_tools] == [[1], [0], [3], [2], []]
    assert result.of_texts(["a letter by post", "nothing of that"], 3) == [[0, 1], []]


def test_pairs_are_mutual_and_the_most_alike_come_first() -> None:
    assert neighbours(library(POST)).pairs == [(2, 3), (0, 1)]
    # Nearest to b is a, and nearest to a is now f: b has no partner.
    closer = [*POST, Tool("f", "letters", "send a letter by post, now")]
    assert (0, 5) in neighbours(library(closer)).pairs
    assert all(1 not in pair for pair in neighbours(library(closer)).pairs)


def test_tools_with_the_same_words_are_no_pair() -> None:
    twins = [
        Tool("x/send", "send", "Sends a letter.", parent="x"),
        Tool("y/send", "send", "sends a letter", parent="y"),
    ]
    assert neighbours(library(twins)).of_tools == [[1], [0]]
    assert neighbours(library(twins)).pairs == []


def test_pairs_of_a_real_library_are_pairs() -> None:
    starter = load_dataset("starter")
    values = Library.of(starter, starter.card.template)
    pairs = neighbours(values).pairs
    assert len(pairs) > 20
    counts = Counter(tool for pair in pairs for tool in pair)
    assert set(counts.values()) == {1}
    near = [row[:1] for row in neighbours(values).of_tools]
    assert all(near[a] == [b] and near[b] == [a] for a, b in pairs)


# Kinds --------------------------------------------------------------------------------------------------------------


def test_every_tool_has_a_query_before_one_has_two() -> None:
    single = only("single", library(POST), 12)
    assert [len({target.gold for target in single[i : i + 5]}) for i in (0, 5)] == [5, 5]
    assert [target.sample for target in single] == [0] * 5 + [1] * 5 + [2] * 2
    assert [target.query_id for target in single[:2]] == ["single-0001", "single-0002"]


def test_both_tools_of_a_pair_have_a_query_in_one_group() -> None:
    result = only("pairs", library(POST), None)
    assert [(target.gold, target.rivals) for target in result] == [
        ((2,), (3,)),
        ((3,), (2,)),
        ((0,), (1,)),
        ((1,), (0,)),
    ]
    assert [target.group for target in result] == ["c + d", "c + d", "a + b", "a + b"]
    single = {target.gold[0]: target.group for target in only("single", library(POST), 5)}
    assert single == {0: "a + b", 1: "a + b", 2: "c + d", 3: "c + d", 4: "e"}


def test_chains_follow_annotated_edges_from_the_prerequisite() -> None:
    edges = [Edge("b", "a", "result"), Edge("c", "b", "result"), Edge("d", "c", "verification")]
    single = only("chains", library(POST, edges), 30)
    follows = {(0, 1), (1, 2), (2, 3)}
    assert all(set(zip(target.gold, target.gold[1:], strict=False)) <= follows for target in single)
    assert {len(target.gold) for target in single} == {2, 3}
    # Derived edges are for libraries without annotated ones.
    other = np.array([[0, 4]], dtype=np.int32)
    assert only("chains", library(POST, edges), 30, other) == single
    assert {target.gold for target in only("chains", library(POST), 5, other)} == {(4, 0)}


def test_a_cycle_of_edges_makes_no_chain_with_a_tool_twice() -> None:
    edges = [Edge("b", "a", "result"), Edge("a", "b", "result"), Edge("c", "b", "result")]
    for seed in range(8):
        single = only("chains", library(POST, edges), 20, seed=seed)
        assert all(len(set(target.gold)) == len(target.gold) for target in single)


def test_without_edges_chains_are_of_one_server() -> None:
    tools = [dataclasses.replace(tool, parent="post" if i < 5 else "") for i, tool in enumerate([*POST, *EXTRA])]
    single = only("chains", library(tools), 12)
    assert all(set(target.gold) <= set(range(5)) for target in single)
    assert {len(target.gold) for target in single} == {2, 3}

    # Tools of which none names a server are of one.
    bare = only("chains", library([dataclasses.replace(tool, parent="") for tool in POST]), 4)
    assert {tool for target in bare for tool in target.gold} == set(range(5))


EXTRA = [Tool("f", "f", "fly"), Tool("g", "g", "glide")]


def test_a_request_without_a_tool_is_written_around_neighbours() -> None:
    single = only("no_tool", library(POST), 5)
    assert all(target.gold == () for target in single)
    assert sorted(target.rivals for target in single) == [(0, 1), (1, 0), (2, 3), (3, 2), (4,)]


# Numbers and order --------------------------------------------------------------------------------------------------


def test_numbers_suit_the_library() -> None:
    starter = load_dataset("starter")
    values = Library.of(starter, starter.card.template)
    assert Counter(target.kind for target in drawn(values)) == {"single": 100, "pair": 50, "chain": 50, "no-tool": 20}
    assert Counter(target.kind for target in drawn(library(POST))) == {"single": 5, "pair": 4, "chain": 2, "no-tool": 1}


def test_kinds_are_mixed_and_more_of_one_begin_with_the_same() -> None:
    starter = load_dataset("starter")
    values = Library.of(starter, starter.card.template)
    drawn_rows = drawn(values)
    assert {target.kind for target in drawn_rows[:22]} == {"single", "pair", "chain", "no-tool"}
    assert [target for target in drawn_rows if target.kind == "single"][:20] == only("single", values, 20)
    assert drawn(values) == drawn_rows
    other = drawn(values, seed=1)
    assert {target.gold for target in other if target.kind == "single"} != {
        target.gold for target in drawn_rows if target.kind == "single"
    }


def test_what_a_library_does_not_allow_is_said_where_it_is_asked_for() -> None:
    lonely = library([Tool("a", "a", "apples", parent="p"), Tool("b", "b", "bread", parent="q")])
    assert Counter(target.kind for target in drawn(lonely)) == {"single": 2, "no-tool": 1}
    with pytest.raises(UsageError, match="allows no pair queries: no two of its tools are each other's nearest"):
        drawn(lonely, pairs=1)
    with pytest.raises(
        UsageError, match="allows no chain queries: it has neither dependencies between tools nor a server"
    ):
        drawn(lonely, chains=3)
    assert drawn(lonely, single=0, no_tool=0) == []
