"""Libraries of other sizes: what stays, what is drawn, and what becomes of distractors that are right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.tiny import CARD, WORDS
from pydantic import Field

from bench.base.errors import DataError, UsageError
from bench.base.parameters import ParameterSet
from bench.data.dataset import Dataset
from bench.data.duplicates import near_duplicates
from bench.data.libraries import LibraryOptions, with_library, with_library_options
from bench.data.queryviews import with_view
from bench.data.tables import Edge, Query, Tables, Tool


def small(*queries: Query, edges: tuple[Edge, ...] = ()) -> Dataset:
    """Twelve tools; by default two queries that name five of them."""
    tools = [Tool(f"t{i:02}", f"tool_{word}", f"Does {word}.", "c", f"p{i // 4}") for i, word in enumerate(WORDS)]
    requests = queries or (
        Query("a", "mail it", {"t00": 1, "t01": 1}, "train", any_of={"t00": ("t02",)}, group="g", searches=("mail",)),
        Query("b", "travel", {"t05": 2}, forbidden=("t06",), slices={"kind": "one"}),
    )
    return Dataset.build("small", CARD.model_copy(update={"id": "small"}), Tables(tools, requests, edges))


def catalogue(count: int = 20, *more: Tool) -> Dataset:
    """Tools that share no word with those of `small`, and more."""
    tools = [Tool(f"s/x{i}", f"x{i}", f"Makes y{i} from z{i}.", "", f"s{i % 3}") for i in range(count)]
    return Dataset.build("cat", CARD.model_copy(update={"id": "cat", "licence": "MIT"}), Tables([*tools, *more], []))


def options(**values: object) -> LibraryOptions:
    return LibraryOptions.model_validate(values)


def draw(data: Dataset, other: Dataset | None = None, **values: object) -> Dataset:
    if other is not None:
        values["distractors"] = other.card.id
    return with_library(data, options(**values), other, "drawn")


def ids(data: Dataset) -> set[str]:
    return {tool.tool_id for tool in data.tools}


NAMED = {"t00", "t01", "t02", "t05", "t06"}


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(5, 32), min_size=2, max_size=2), seed=st.integers(0, 9))
def test_draws_are_nested_keep_what_queries_name_and_have_the_size(sizes: list[int], seed: int) -> None:
    few, many = sorted(sizes)
    smaller, larger = (draw(small(), catalogue(), tools=size, seed=seed) for size in (few, many))
    assert (len(smaller.tools), len(larger.tools)) == (few, many)
    assert NAMED <= ids(smaller) <= ids(larger)
    again = draw(small(), catalogue(), tools=few, seed=seed)
    assert again.content_hash == smaller.content_hash
    assert (smaller.content_hash == larger.content_hash) == (few == many)
    # The dataset's own tools come first.
    outside = {tool for tool in ids(larger) if tool.startswith("cat/")}
    assert not outside or len(ids(larger) - outside) == 12


def test_another_seed_is_another_draw() -> None:
    collected = {frozenset(ids(draw(small(), catalogue(), tools=8, seed=seed))) for seed in range(6)}
    assert len(collected) > 1
    assert len({frozenset(ids(draw(small(), catalogue(), tools=16, seed=seed))) for seed in range(6)}) > 1


def test_the_order_of_the_files_and_other_tools_do_not_change_the_draw() -> None:
    data, other = small(), catalogue()
    kept = ids(draw(data, other, tools=18))
    gone = min(ids(Dataset.build("x", other.card, other.rows_again())) - {tool.removeprefix("cat/") for tool in kept})
    less = Dataset.build("cat", other.card, Tables([t for t in reversed(other.tools) if t.tool_id != gone], []))
    assert ids(draw(data, less, tools=18)) == kept


def test_a_library_of_the_own_size_is_the_dataset() -> None:
    assert draw(small(), catalogue(), tools=12).content_hash == small().content_hash
    assert draw(small(), tools=12).content_hash == small().content_hash
    assert len(draw(small(), catalogue()).tools) == 32


def test_queries_units_and_edges_stay_as_far_as_their_tools_do() -> None:
    data = small(edges=(Edge("t01", "t00", "result"), Edge("t11", "t00", "result")))
    drawn = draw(data, catalogue(), tools=5)
    assert drawn.queries == data.queries
    assert [edge.dependent for edge in drawn.edges] == ["t01"]
    assert (drawn.unit, drawn.units.tolist(), drawn.slice_names) == (data.unit, data.units.tolist(), data.slice_names)
    assert drawn.gold.forbidden is not None
    seen = with_view(draw(data, catalogue()), "search")
    assert seen.queries[0].text == "mail"
    assert len(seen.tools) == 32


def test_the_card_names_the_sources_and_the_licences_of_both() -> None:
    other = catalogue()
    other = replace(other, card=other.card.model_copy(update={"redistribution": False}))
    card = draw(small(), other, tools=20).card
    assert (card.licence, card.redistribution, card.counts) == ("CC0-1.0; cat: MIT", False, None)
    assert card.known_issues[0].startswith("The library is drawn (seed 0): 5 tools that queries name")
    assert "8 are distractors of cat; 0 near-duplicates" in card.known_issues[0]


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (4, "tools=4 is too small for small: its queries name 5 tools, which always stay; set tools=5 or more."),
        (33, "tools=33 is too large for drawn: there are 32 tools; set fewer."),
    ],
)
def test_an_impossible_size_is_told_with_the_possible_one(size: int, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        draw(small(), catalogue(), tools=size)
    assert str(caught.value) == sentence


def test_too_many_without_distractors_says_where_more_are() -> None:
    with pytest.raises(UsageError, match=r"there are 12 tools; set fewer, or add distractors=mcp-servers"):
        draw(small(), tools=13)


def test_a_catalogue_without_queries_can_be_sampled() -> None:
    assert len(draw(catalogue(), tools=3).tools) == 3


def test_equal_ids_and_equal_servers_are_told_apart() -> None:
    twin = Tool("t00", "other", "Something else.", "c", "p0")
    drawn = draw(small(), catalogue(2, twin))
    assert {"t00", "cat/t00"} <= ids(drawn)
    parents = {tool.tool_id: tool.parent for tool in drawn.tools}
    assert (parents["t00"], parents["cat/t00"], parents["cat/s/x0"]) == ("p0", "cat/p0", "s0")


def test_an_id_that_is_taken_nevertheless_is_refused() -> None:
    data = small()
    rows = data.rows_again()
    taken = Dataset.build("small", data.card, replace(rows, tools=[*rows.tools, Tool("cat/s/x1", "n", "d")]))
    with pytest.raises(DataError, match=r"the tool 'cat/s/x1' of small has the id of a distractor of cat"):
        draw(taken, catalogue())


# Near-duplicates -----------------------------------------------------------------------------------------------------

COPY = Tool("s/mail", "Tool_Mail", "does mail", "", "s1")
HARMFUL = Tool("s/hotel", "tool_train", "Does train.", "", "s1")


def test_near_duplicates_are_left_out_right_or_wrong() -> None:
    other = catalogue(20, COPY, HARMFUL)
    data = small(Query("b", "mail", {"t00": 1}, forbidden=("t06",)))
    assert ids(draw(data, other)) & {"cat/s/mail", "cat/s/hotel"} == set()
    right = draw(data, other, duplicates="right").queries[0]
    assert (right.any_of, right.forbidden) == ({"t00": ("cat/s/mail",)}, ("t06", "cat/s/hotel"))
    kept = draw(data, other, duplicates="keep")
    assert {"cat/s/mail", "cat/s/hotel"} <= ids(kept)
    assert kept.queries == data.queries


def test_only_drawn_near_duplicates_are_right_and_those_of_alternatives_are_too() -> None:
    other = catalogue(20, replace(COPY, name="tool_stamp", description="Does stamp."))
    drawn = draw(small(), other, duplicates="right")
    assert drawn.queries[0].any_of == {"t00": ("t02", "cat/s/mail")}
    assert draw(small(), other, duplicates="right", tools=12).queries == small().queries


def test_what_meets_a_query_is_not_forbidden_for_it() -> None:
    data = small(Query("b", "mail", {"t00": 1}, forbidden=("t06",)))
    both = Dataset.build(
        "small",
        data.card,
        replace(data.rows_again(), tools=[replace(t, name="tool_mail", description="Does mail.") for t in data.tools]),
    )
    query = draw(both, catalogue(3, COPY), duplicates="right").queries[0]
    assert (query.any_of, query.forbidden) == ({"t00": ("cat/s/mail",)}, ("t06",))


def test_the_rule_of_near_duplicates() -> None:
    judged = [Tool("g", "get_news", "Get news for a given stock symbol."), Tool("e", "!", "")]
    tools = [
        Tool("same", "get_news", "Get NEWS, for a given stock (symbol)"),
        Tool("namesake", "Get_News", "Get news for a given stock ticker now."),
        Tool("near", "fetch_news", "Get news for a given stock ticker now."),
        Tool("far", "get_news", "Headlines of the day in your city."),
        Tool("empty", "?", ""),
    ]
    result = near_duplicates(tools, judged)
    assert result == {"same": ("g",), "namesake": ("g",)}
    assert near_duplicates(tools, []) == near_duplicates([], judged) == {}


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=30)), max_size=6))
def test_any_texts_can_be_compared_and_a_copy_of_a_tool_with_words_is_found(texts: list[tuple[str, str]]) -> None:
    tools = [Tool(str(i), name, text) for i, (name, text) in enumerate(texts)]
    result = near_duplicates(tools, tools)
    assert all(
        tool.tool_id in result.get(tool.tool_id, ())
        for tool in tools
        if any(map(str.isascii, tool.name)) and tool.name.isalnum()
    )


# Options -------------------------------------------------------------------------------------------------------------


def test_a_loader_shares_its_seed_and_may_not_take_the_other_names() -> None:
    class Own(ParameterSet):
        seed: int = Field(default=7, description="mine")
        split: str = "x"

    both = with_library_options(Own)
    assert both().model_dump() == {
        "distractors": "",
        "tools": None,
        "seed": 7,
        "duplicates": "drop",
        "no_tool": "",
        "split": "x",
    }

    class Clash(ParameterSet):
        tools: int = 3

    with pytest.raises(DataError, match="declares the option 'tools', which every dataset has"):
        with_library_options(Clash)
