"""What is seen, mixed, unseen or met in dev alone: by hand, and by what the words mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kit.datasets import loaded

from bench.data.novelty import NOVELTY, novelty, with_parent_slice, with_slice
from bench.data.parents import parent_of
from bench.data.tables import SPLITS, Query, Tool

UNITS = {tool: tool.upper() for tool in "abcdef"}
golds = st.frozensets(st.sampled_from("abcdef"), max_size=3)
queries = st.lists(st.tuples(golds, st.sampled_from(SPLITS)), max_size=12).map(
    lambda rows: [Query(str(i), "", dict.fromkeys(gold, 1), split) for i, (gold, split) in enumerate(rows)]
)


def test_each_value_by_hand() -> None:
    rows = [
        Query("1", "", {"a": 1, "b": 1}, "train"),
        Query("2", "", {"b": 1, "c": 1}, "dev"),
        Query("3", "", {"d": 1}, "dev"),
        Query("all seen", "", {"a": 1, "b": 1}),
        Query("c is in dev", "", {"a": 1, "c": 1}),
        Query("c is in dev, e nowhere", "", {"c": 1, "e": 1}),
        Query("d is in dev, nothing in train", "", {"d": 1}),
        Query("e is nowhere", "", {"a": 1, "e": 1}),
        Query("e and f are nowhere", "", {"e": 1, "f": 1}),
        Query("no gold", "", {}),
    ]
    assert novelty(rows, UNITS) == {
        # A dev query does not make itself known, nor does the other dev query.
        "2": "mixed",
        "3": "unseen",
        "all seen": "seen",
        "c is in dev": "dev",
        "c is in dev, e nowhere": "dev",
        "d is in dev, nothing in train": "dev",
        "e is nowhere": "mixed",
        "e and f are nowhere": "unseen",
    }


def test_parents_are_told_apart_by_category_and_tools_of_one_parent_are_not() -> None:
    tools = [Tool("a", "", "", "x", "p"), Tool("b", "", "", "x", "p"), Tool("c", "", "", "y", "p")]
    assert [parent_of(tool) for tool in tools] == [("x", "p"), ("x", "p"), ("y", "p")]
    rows = [Query("1", "", {"a": 1}, "train"), Query("2", "", {"b": 1}), Query("3", "", {"c": 1}, slices={"k": "v"})]
    assert [dict(query.slices) for query in with_parent_slice(rows, tools)] == [
        {},
        {"parent": "seen"},
        {"k": "v", "parent": "unseen"},
    ]
    assert novelty(rows, {tool.tool_id: tool.tool_id for tool in tools})["2"] == "unseen"


def test_a_slice_is_added_and_nothing_else_changes() -> None:
    rows = [Query("1", "t", {"a": 2}, "dev", {"k": "v"}), Query("2", "u", {})]
    assert with_slice(rows, "n", {"1": "w"}) == [Query("1", "t", {"a": 2}, "dev", {"k": "v", "n": "w"}), rows[1]]


@given(queries)
def test_the_values_partition_the_judged_dev_and_test_queries(rows: list[Query]) -> None:
    result = novelty(rows, UNITS)
    assert result.keys() == {query.query_id for query in rows if query.gold and query.split != "train"}
    assert set(result.values()) <= set(NOVELTY)


@given(queries)
def test_what_is_called_unseen_no_past_query_uses_and_what_is_called_seen_train_uses(rows: list[Query]) -> None:
    result = novelty(rows, UNITS)
    for query in rows:
        train = {tool for other in rows if other.split == "train" for tool in other.gold}
        past = train | {tool for other in rows if other.split == "dev" and query.split == "test" for tool in other.gold}
        value = result.get(query.query_id)
        assert (value == "seen") == (value is not None and query.gold.keys() <= train)
        assert (value == "unseen") == (value is not None and not query.gold.keys() & past)
        assert value != "mixed" or query.gold.keys() & train


def test_starter_is_marked_and_stays_the_same_data() -> None:
    starter = loaded("starter")
    assert starter.content_hash == "8ace8bff54a2f673cb10b8dc2003b61f0b9b648e6e50201f4655540caf74cfae"
    values = [q.slices["parent"] for q in starter.queries if q.split == "test" and q.gold]
    assert {value: values.count(value) for value in NOVELTY} == {"seen": 68, "dev": 3, "mixed": 28, "unseen": 27}
    train = {parent_of(starter.tools[tool]) for tool in starter.gold.take(starter.rows("train")).tools}
    assert len({parent_of(tool) for tool in starter.tools} - train) == 9
    assert all("parent" not in q.slices for q in starter.queries if q.split == "train" or not q.gold)
