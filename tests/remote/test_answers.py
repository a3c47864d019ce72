"""Answers of retrievers outside of bench: shapes, mappings, and what is no answer."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import UsageError
from bench.data.tables import Tool
from bench.remote.answers import AnswerNote, AnswerReader, RankedAnswer, Unusable

TOOLS = [
    Tool("a", "search", "finds", parent="shop"),
    Tool("b", "search", "finds", parent="books"),
    Tool("c", "pay", "pays", parent="shop"),
    Tool("d", "d", "does", parent=""),
]


def read(value: Any, depth: int = 10, mapping: str = "") -> RankedAnswer:
    return AnswerReader(TOOLS, mapping).read(json.dumps(value).encode(), depth)


@pytest.mark.parametrize(
    "value",
    [
        ["c", "a"],
        {"tools": ["c", "a"]},
        {"took": 3, "results": ["pay", "shop/search"]},
        {"hits": [{"id": "c"}, {"tool_id": "a", "name": "search"}]},
        {"matches": [{"name": "shop/pay"}, {"name": "shop/search"}]},
        {"items": [{"tool": {"name": "pay"}}, {"tool": "a"}]},
        {"data": [{"tool": {"id": "c"}}, "a"]},
        {"tools": ["functions.pay", "mcp__shop__search"]},
        {"tools": [{"server": "shop", "name": "pay"}, {"server_name": "shop", "tool_name": "search"}]},
        {"tools": [{"type": "function", "function": {"name": "pay"}}, {"server": "prod-3", "id": "a"}]},
        {
            "type": "tool_search_tool_result",
            "content": {"tool_references": [{"type": "tool_reference", "tool_name": name} for name in ("pay", "a")]},
        },
    ],
)
def test_the_usual_shapes_need_no_mapping(value: Any) -> None:
    assert read(value) == RankedAnswer([2, 0], None)


def test_all_unknown_names_of_an_answer_are_told() -> None:
    answer = ["c", {"name": "x", "description": "Buys\nthings."}, "search", "a"]
    with pytest.raises(Unusable, match="the tool 'x', which is not in the library") as caught:
        read(answer)
    assert caught.value.note.unknown == {"x": "Buys things.", "search": ""}
    assert caught.value.note.known == 2


def test_names_that_the_library_lacks_may_be_left_out() -> None:
    def drop(value: Any, depth: int = 10) -> RankedAnswer:
        return AnswerReader(TOOLS, drop=True).read(json.dumps(value).encode(), depth)

    scored = [{"id": name, "score": score} for name, score in (("x", 9), ("c", 2), ("x", 2), ("a", 1))]
    assert drop(scored) == RankedAnswer([2, 0], [2.0, 1.0])
    assert drop(scored).note == AnswerNote(unknown={"x": ""})
    # The next tool takes the place of one that is left out.
    assert drop(["x", "c", "y", "a", "d"], depth=2).tools == [2, 0]
    assert list(drop(["x", "c", "y", "a", "z"], depth=2).note.unknown) == ["x", "y"]
    for value, why in (
        (["x", "y"], "no tool that is in the library ('x', 'y')"),
        (["c", "search"], "the tool 'search', which may be 'a' or 'b'"),
        (["x", "c", "pay"], "the tool 'c' twice"),
        ([{"id": "x", "score": 1}, {"id": "c", "score": 1}, {"id": "a", "score": 2}], "scores that ascend"),
    ):
        with pytest.raises(Unusable) as caught:
            drop(value)
        assert why in str(caught.value)
    assert drop([]) == RankedAnswer([], [])


@pytest.mark.parametrize(
    ("value", "unread"),
    [
        ({"tools": ["c"], "next_cursor": "p2", "total": 40}, {"next_cursor", "total"}),
        ({"tools": ["c"], "results": ["c", "a"]}, {"results"}),
        ({"tools": ["c"], "results": ["c"], "took": 0, "error": None, "warnings": []}, set()),
        ({"id": 3, "query": "q", "limit": 5, "library": "0", "version": "7", "tools": ["c"]}, set()),
        ({"type": "t", "content": {"tool_references": ["c"], "more": True}}, {"more"}),
        ({"tools": ["c"], "content": "a text"}, {"content"}),
        ([{"id": "c", "similarity": 0.5, "text": "words", "score": 1}], {"similarity of a tool"}),
    ],
)
def test_what_is_not_read_of_an_answer_is_named(value: Any, unread: set[str]) -> None:
    assert read(value).unread == unread


def test_a_key_twice_is_refused_with_both_lines() -> None:
    for reply, where in (
        (b'{"tools": ["a"],\n"tools": []}', "in line 1 and in line 2"),
        (b'[{"id": "a", "id": "b"}]', "twice"),
    ):
        with pytest.raises(Unusable, match=f"an answer in which an object has the key '(tools|id)' {where}"):
            AnswerReader(TOOLS).read(reply, 5)


def test_scores_are_taken_if_every_tool_has_one() -> None:
    both = [{"id": "c", "score": 0.5}, {"id": "a", "score": 0.5}, {"id": "b", "score": -1}]
    assert read(both) == RankedAnswer([2, 0, 1], [0.5, 0.5, -1.0])
    assert read([*both[:2], {"id": "b"}]) == RankedAnswer([2, 0, 1], None)
    assert read([{"id": "c", "score": True}]) == RankedAnswer([2], None)


def test_a_mapping_finds_the_list() -> None:
    value = {"answer": {"ranked": [{"t": "c"}, {"t": "a"}], "tools": ["d"]}}
    assert read(value, mapping="answer.ranked[].t").tools == [2, 0]
    assert read(value, mapping="answer.ranked[].{id: t, score: `1`}") == RankedAnswer([2, 0], [1.0, 1.0])
    assert read({"id": "c", "tools": ["a"]}).tools == [0]


def test_what_is_beyond_the_depth_is_not_looked_at() -> None:
    assert read(["c", "a", "nonsense", 7], depth=2).tools == [2, 0]
    assert read([]) == RankedAnswer([], [])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (["c", "c"], "the tool 'c' twice"),
        (["c", "pay"], "the tool 'c' twice"),
        (["search"], "the tool 'search', which may be 'a' or 'b'"),
        (["x\x1b[31m"], "which is not in the library"),
        ([None], "a tool without an id (null)".replace("null", "'null'")),
        ([{"rank": 1}], "a tool without an id"),
        ([{"tool": {"tool": {"id": "c"}}}], "a tool without an id"),
        ({"error": "no"}, "an answer without a list of tools"),
        ("c", "an answer without a list of tools"),
        (3, "an answer without a list of tools"),
        ([{"id": "c", "score": 1}, {"id": "a", "score": 2}], "scores that ascend"),
        ([{"id": "c", "score": 10**400}], "a score that is not finite"),
    ],
)
def test_what_is_no_answer_is_said(value: Any, why: str) -> None:
    with pytest.raises(Unusable) as caught:
        read(value)
    assert why in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("reply", [b"", b"{", b"\xff", b"[NaN]", b'[{"id": "c", "score": Infinity}]', b"[" * 100_000])
def test_what_is_not_json_is_said(reply: bytes) -> None:
    with pytest.raises(Unusable, match="not JSON"):
        AnswerReader(TOOLS).read(reply, 5)


def test_a_mapping_that_is_none_or_does_not_fit_is_said() -> None:
    with pytest.raises(UsageError, match="is not a JMESPath expression"):
        AnswerReader(TOOLS, "a[")
    with pytest.raises(Unusable, match="an answer without a list"):
        read({"a": 1}, mapping="b")
    with pytest.raises(Unusable, match="the mapping does not fit"):
        read({"a": 1}, mapping="length(a)")


def test_mutated_answers_are_read_or_refused() -> None:
    whole = json.dumps(
        {"results": [{"id": "c", "score": 0.5}, {"tool": {"name": "shop/search"}, "score": 0.25}]}
    ).encode()
    reader, draw, used = AnswerReader(TOOLS), random.Random(0), 0
    for _ in range(600):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data))
            data[at : at + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
        said = ""
        try:
            content = reader.read(bytes(data), 5)
        except Unusable as error:
            said = str(error)
        else:
            used += 1
            assert len(set(content.tools)) == len(content.tools)
        assert said.isprintable()
    assert 0 < used < 600


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["a", "c", "pay", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "score", "tools", "tool"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_json_is_read_or_refused(value: Any) -> None:
    try:
        content = AnswerReader(TOOLS).read(json.dumps(value).encode(), 3)
    except Unusable:
        return
    assert len(content.tools) <= 3
    assert all(0 <= code < len(TOOLS) for code in content.tools)
