"""Which tools share a parent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.data.parents import families, parent_codes, parent_of
from bench.data.tables import Tool

TOOLS = [
    Tool("a", "a", "", "Food", "Kitchen"),
    Tool("b", "b", "", "Home", "Kitchen"),
    Tool("c", "c", "", "Food", "Kitchen"),
    Tool("d", "d", "", "Food", ""),
    Tool("e", "e", "", "Food", ""),
]


def test_parents_of_one_name_in_two_categories_are_two_and_a_tool_without_one_is_alone() -> None:
    assert parent_codes(TOOLS).tolist() == [0, 1, 0, 2, 3]
    assert families(TOOLS) == [[0, 2], [1], [3], [4]]
    assert parent_of(TOOLS[0]) == parent_of(TOOLS[2])
    assert parent_of(TOOLS[3]) != parent_of(TOOLS[4])


NAMES = st.sampled_from(["", "x", "y"])


@given(st.lists(st.tuples(NAMES, NAMES), max_size=12))
def test_codes_and_families_say_what_parents_say(places: list[tuple[str, str]]) -> None:
    tools = [Tool(f"t{i}", "t", "", category, parent) for i, (category, parent) in enumerate(places)]
    codes, result = parent_codes(tools), families(tools)
    assert sorted(code for family in result for code in family) == list(range(len(tools)))
    for i in range(len(tools)):
        for j in range(len(tools)):
            kin = parent_of(tools[i]) == parent_of(tools[j])
            assert (codes[i] == codes[j]) == kin
            assert any({i, j} <= set(family) for family in result) == kin
