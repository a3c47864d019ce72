"""Whether queries agree while tools differ, and what became of the tools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bench.data.card import cards_from
from bench.data.dataset import Dataset
from bench.data.tables import Parameter, Query, Tables, Tool
from bench.results.across_catalogues import Ranked as Rankings
from bench.results.across_catalogues import (
    Snapshot,
    change,
    gold_ranks,
    match_queries,
    moved_tools,
    take_snapshot,
)

(CARD,) = cards_from(
    {"id": "made", "title": "Made", "summary": "x", "licence": "x", "redistribution": False, "template": "description"},
    "made",
)
TOOLS = tuple(Tool(name, name, f"does {name}") for name in "abcde")
QUERIES = (
    Query("1", "one", {"a": 1}),
    Query("2", "two", {"a": 1, "b": 2}, forbidden=("d",)),
    Query("3", "three", {"c": 1}, any_of={"c": ("d", "e")}),
    Query("4", "four", {}),
)


def snapshot_of(tools: tuple[Tool, ...] = TOOLS, queries: tuple[Query, ...] = QUERIES) -> tuple[Snapshot, list[str]]:
    data = Dataset.build("made", CARD, Tables(tools, queries))
    ids = [query.query_id for query in data.queries if query.split == "test"]
    return take_snapshot(data, ids), ids


def changes(queries: tuple[Query, ...], tools: tuple[Tool, ...] = TOOLS) -> str:
    return match_queries(*snapshot_of(), *snapshot_of(tools, queries)).change.words


def test_queries_agree_whatever_is_edited_or_added() -> None:
    edited = (replace(TOOLS[0], description="something else"), *TOOLS[1:], Tool("f", "f", "new"))
    assert changes(QUERIES, edited) == ""
    # Slices, groups and who wrote a query are no part of what is asked.
    assert changes((replace(QUERIES[0], slices={"x": "y"}, group="g", origin="traces"), *QUERIES[1:])) == ""


@pytest.mark.parametrize(
    ("place", "query", "said"),
    [
        (0, replace(QUERIES[0], text="Sunny?"), "1 query is worded differently (1)"),
        (0, replace(QUERIES[0], calls=("one", "1")), "1 query is worded differently (1)"),
        (0, replace(QUERIES[0], gold={"b": 1}), "1 query is given other tools (1)"),
        (0, replace(QUERIES[0], gold={"a": 2}), "1 query is given other tools (1)"),
        (0, replace(QUERIES[0], any_of={"a": ("b",)}), "1 query is given other tools (1)"),
        (1, replace(QUERIES[1], gold={"a": 2, "b": 1}), "1 query is given other tools (2)"),
        (1, replace(QUERIES[1], forbidden=()), "1 query is given other tools (2)"),
        (2, replace(QUERIES[2], any_of={"c": ("d",)}), "1 query is given other tools (3)"),
        (3, replace(QUERIES[3], gold={"a": 1}), "1 query is given other tools (4)"),
        (3, replace(QUERIES[3], split="dev"), "1 query is gone (4)"),
    ],
)
def test_what_makes_queries_differ(place: int, query: Query, said: str) -> None:
    queries = (*QUERIES[:place], query, *QUERIES[place + 1 :])
    assert changes(queries) == said
    match = match_queries(*snapshot_of(), *snapshot_of(TOOLS, queries))
    assert match.pairs == [(at, at) for at in range(4) if at != place]


def test_which_tool_of_a_requirement_is_called_gold_makes_no_difference() -> None:
    turned = replace(QUERIES[2], gold={"e": 1}, any_of={"e": ("c", "d")})
    assert changes((*QUERIES[:2], turned, QUERIES[3])) == ""


def test_new_queries_are_no_part_of_the_question_and_many_changes_are_counted() -> None:
    more = tuple(Query(f"n{i}", "new", {"a": 1}) for i in range(5))
    assert changes((*QUERIES, *more)) == "5 queries are new (n0, n1, n2, ...)"
    both = (replace(QUERIES[0], text="Sunny?"), replace(QUERIES[1], gold={"b": 1}), *more)
    assert changes(both) == (
        "5 queries are new (n0, n1, n2, ...), 2 are gone (3, 4), 1 is worded differently (1), "
        "1 is given other tools (2)"
    )


@given(st.permutations(QUERIES), st.integers(0, 3))
def test_a_query_is_known_by_its_text_where_rows_are_numbered_anew(order: list[Query], new: int) -> None:
    fresh = [Query("", f"fresh {number}", {"a": 1}) for number in range(new)]
    numbered = tuple(replace(query, query_id=str(number)) for number, query in enumerate([*fresh, *order], start=1))
    now, ids = snapshot_of(TOOLS, numbered)
    match = match_queries(*snapshot_of(), now, ids)
    texts = {query.query_id: query.text for query in numbered}
    assert [(QUERIES[then].text, texts[ids[place or 0]]) for then, place in match.pairs] == [
        (query.text, query.text) for query in QUERIES
    ]
    assert match.change.shared == 4
    assert (len(match.change.added), match.change.size) == (new, new)


def test_removed_tools_leave_what_remains_of_the_gold() -> None:
    left = (
        replace(QUERIES[1], gold={"b": 2}, forbidden=()),
        replace(QUERIES[2], gold={"c": 1}, any_of={"c": ("e",)}),
        QUERIES[3],
    )
    tools = tuple(tool for tool in TOOLS if tool.tool_id not in "ad")
    assert changes(left, tools) == ""
    assert match_queries(*snapshot_of(), *snapshot_of(tools, left)).pairs == [(0, None), (1, 0), (2, 1), (3, 2)]
    result = change("made", "0" * 64, snapshot_of()[0], snapshot_of(tools, left)[0])
    assert (result.removed, result.gold_removed, result.added, result.edited) == (["a", "d"], ["a", "d"], [], [])
    # A query that still needs a tool must be there.
    assert changes(left[1:], tools) == "1 query is gone (2)"


def test_a_tool_that_keeps_its_description_may_be_renamed() -> None:
    def notes(*added: Tool) -> list[str]:
        tools = (*TOOLS[1:], *added)
        queries = (replace(QUERIES[1], gold={"b": 2}), *QUERIES[2:])
        return change("made", "0" * 64, snapshot_of()[0], snapshot_of(tools, queries)[0]).notes

    assert notes(Tool("z", "z", "does a")) == ["perhaps renamed, as the description is the same: a to z"]
    # Nothing is guessed where two tools have it, or none.
    assert notes(Tool("y", "y", "does a"), Tool("z", "z", "does a")) == []
    assert notes(Tool("z", "z", "does z")) == []


def test_the_order_of_the_keys_of_a_schema_makes_no_other_tool() -> None:
    def tool(schema: str, *names: str) -> Tool:
        return replace(TOOLS[0], input_schema=schema, parameters=tuple(Parameter(name) for name in names))

    one = tool('{"properties": {"x": {}, "y": {"type": "string", "enum": ["p", "q"]}}, "type": "object"}', "x", "y")
    two = tool('{"type": "object", "properties": {"y": {"enum": ["p", "q"], "type": "string"}, "x": {}}}', "y", "x")
    other = tool('{"type": "object", "properties": {"y": {"enum": ["q", "p"], "type": "string"}, "x": {}}}', "y", "x")

    def edited(before: Tool, after: Tool) -> list[list[str]]:
        snapshots = (snapshot_of((first, *TOOLS[1:]))[0] for first in (before, after))
        return [item.fields for item in change("made", "0" * 64, *snapshots).edited]

    assert edited(one, two) == edited(two, one) == []
    assert edited(one, other) == edited(two, other) == [["parameters"]]
    # A baseline of a version that kept one digest of a field compares as it did.
    old, new = (snapshot_of((first, *TOOLS[1:]))[0] for first in (one, one))
    old = old.model_copy(update={"fields": {k: v for k, v in old.fields.items() if "sorted" not in k}})
    assert change("made", "0" * 64, old, new).edited == []


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"name": "z"}, "name"),
        ({"title": "z"}, "title"),
        ({"description": "z"}, "description"),
        ({"parent": "z"}, "server"),
        ({"parameters": (Parameter("p"),)}, "parameters"),
        ({"input_schema": "{}"}, "parameters"),
        ({"returns": "{}"}, "returns"),
        ({"annotations": '{"a": 1}'}, "annotations"),
        ({"deprecated": True}, "deprecated"),
        ({"source": "z"}, "source"),
    ],
)
def test_every_field_of_a_tool_is_told_by_name(more: dict[str, Any], field: str) -> None:
    edited = (replace(TOOLS[0], **more), *TOOLS[1:])
    result = change("made", "0" * 64, snapshot_of()[0], snapshot_of(edited)[0])
    assert [(item.tool_id, item.fields) for item in result.edited] == [("a", [field])]
    assert change("made", "0" * 64, snapshot_of(edited)[0], snapshot_of()[0]).edited == result.edited
    # And nothing else has a field that no digest is taken of.
    before, after = (Dataset.build("made", CARD, Tables(tools, ())) for tools in (TOOLS, edited))
    assert before.content_hash != after.content_hash


def test_queries_from_which_methods_learn_are_told() -> None:
    learnt = (*QUERIES, Query("t", "train", {"a": 1}, "train"))
    result = change("made", "0" * 64, snapshot_of()[0], snapshot_of(queries=learnt)[0])
    assert result.notes == ["queries of the other splits, from which methods may learn, differ, too"]
    assert result.size == 0


@given(st.permutations("abcde"), st.permutations("abcde"), st.integers(0, 5), st.integers(0, 5))
def test_moved_tools_are_those_with_another_rank(first: list[str], second: list[str], n: int, m: int) -> None:
    def ranked(order: list[str]) -> Rankings:
        ranks = list(range(1, len(order) + 1))
        return Rankings(pa.table({"query_id": ["2"] * len(order), "rank": ranks, "tool_id": order}))

    one, _ = snapshot_of()
    before, after = first[:n], second[:m]
    ranks = gold_ranks(one, ["1", "2", "3", "4"], ranked(before))
    by_tool_id = {item.tool_id: item for item in moved_tools("2", one, 1, ranks[1], ranked(after), frozenset())}
    place = lambda tool, order: order.index(tool) + 1 if tool in order else None  # noqa: E731
    assert set(by_tool_id) == {tool for tool in "ab" if place(tool, before) != place(tool, after)}
    for tool, item in by_tool_id.items():
        assert (item.before, item.after) == (place(tool, before), place(tool, after))
        fell = item.before is not None and (item.after is None or item.after > item.before)
        there = after[item.before - 1] if item.before is not None and item.before <= len(after) else None
        assert item.instead == (there if fell else None)


@pytest.mark.parametrize(
    "broken",
    [
        {"tools": ["b", "a"]},
        {"tools": ["a", "a"]},
        {"fields": {"name": ["x"]}},
        {"texts": ["x"]},
        {"gold": [[[9]], [], [], []]},
        {"gold": [[[]], [], [], []]},
        {"gold": [[[-1]], [], [], []]},
        {"grades": [[1, 1], [], [], []]},
        {"forbidden": [[0]]},
        {"forbidden": [[9], [], [], []]},
    ],
)
def test_a_record_that_does_not_fit_together_is_refused(broken: dict[str, Any]) -> None:
    whole = snapshot_of()[0].model_dump()
    assert Snapshot.model_validate(whole).tools == list("abcde")
    with pytest.raises(ValidationError):
        Snapshot.model_validate(whole | broken)
