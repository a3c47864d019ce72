"""Which tools are alternatives of a gold tool: the rule case by case, and gold with its alternatives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.data.alternatives import alternatives as alternatives_of
from bench.data.alternatives import readings, with_alternatives
from bench.data.gold import Gold
from bench.data.tables import Parameter, Tool

TOOL = Tool("a", "Get orders", "Lists the orders.", "shop", "One", (Parameter("limit"), Parameter("skip")))


def alternatives(tools: list[Tool]) -> dict[int, tuple[int, ...]]:
    return alternatives_of(tools, range(len(tools)))


@pytest.mark.parametrize(
    ("change", "alike"),
    [
        ({}, True),
        # Case, order, repetition and punctuation.
        ({"name": "get_orders", "description": "lists: THE orders; the orders"}, True),
        ({"name": "Lists", "description": "get the orders"}, True),
        ({"parameters": (Parameter("Skip", "int"), Parameter("limit", required=False))}, True),
        ({"category": "other", "returns": "{}", "source": "text"}, True),
        # A word more, another word, another number.
        ({"description": "Lists the open orders."}, False),
        ({"description": "Lists the order."}, False),
        ({"name": "Get orders 2"}, False),
        ({"parameters": (Parameter("limit"),)}, False),
    ],
)
def test_what_reads_the_same_is_an_alternative(change: dict[str, object], alike: bool) -> None:
    other = replace(TOOL, tool_id="b", parent="Two", **change)  # type: ignore[arg-type]
    assert alternatives([TOOL, other]) == ({0: (1,), 1: (0,)} if alike else {})


def test_tools_of_one_parent_are_no_alternatives_of_each_other() -> None:
    tools = [TOOL, replace(TOOL, tool_id="b"), replace(TOOL, tool_id="c", parent="Two")]
    assert alternatives(tools) == {0: (2,), 1: (2,), 2: (0, 1)}
    # Parents of one name in two categories are two; a tool that names no parent has its own.
    assert alternatives([TOOL, replace(TOOL, tool_id="b", category="other")]) == {0: (1,), 1: (0,)}
    lone = replace(TOOL, parent="", category="")
    assert alternatives([lone, replace(lone, tool_id="b")]) == {0: (1,), 1: (0,)}


def test_a_parent_that_repeats_the_name_of_its_tool_is_none() -> None:
    tool = replace(TOOL, parent=TOOL.name)
    assert alternatives([tool, replace(tool, tool_id="b")]) == {0: (1,), 1: (0,)}


def test_signs_that_belong_to_a_word_count() -> None:
    names = ("C versions", "C++ versions", "C# versions", "c++ Versions!")
    tools = [Tool(name, name, "", "", name) for name in names]
    assert alternatives(tools) == {1: (3,), 3: (1,)}


def test_tools_without_a_word_have_no_alternatives() -> None:
    assert alternatives([Tool("a", "-", " ", "", "One"), Tool("b", "!", "", "", "Two")]) == {}
    assert [number < 0 for number in readings([Tool("a", "-", ""), TOOL]).tolist()] == [True, False]


def test_only_the_wanted_tools_are_looked_up() -> None:
    tools = [replace(TOOL, tool_id=name, parent=name) for name in "abc"]
    assert alternatives_of(tools, [1]) == {1: (0, 2)}


def test_a_tool_that_is_gold_itself_is_no_alternative() -> None:
    tools = [replace(TOOL, tool_id=name, parent=name) for name in "abc"]
    tools += [replace(TOOL, tool_id=name, parent=name, name=name) for name in "defghi"]
    gold = Gold.of([{0: 2, 3: 1}, {0: 1, 1: 1}, {}, {5: 3}])
    groups = with_alternatives(gold, tools)
    assert groups.starts.tolist() == [0, 2, 4, 4, 5]
    result = [groups.tools[first:last].tolist() for first, last in pairwise(groups.members)]
    assert result == [[0, 1, 2], [3], [0, 2], [1, 2], [5]]
    assert groups.grades.tolist() == [2, 1, 1, 1, 3]


@given(st.text(st.characters(max_codepoint=127) | st.sampled_from("+#aA1 _"), max_size=20))
def test_a_text_of_ascii_reads_as_it_does_beside_other_signs(text: str) -> None:
    # A dash is not part of a word.
    assert len(set(readings([Tool("a", "", text), Tool("b", "", f"{text} —")]))) == 1
