"""`Dataset.build`: what it refuses, the order it makes, and what its content hash depends on."""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.base.errors import DataError
from bench.data.card import Card
from bench.data.dataset import MAX_ID_LENGTH, Dataset
from bench.data.tables import SPLITS, Edge, Parameter, Query, Tables, Tool


def of(name: str, value: Any) -> dict[str, Any]:
    """One keyword argument, by its name."""
    return {name: value}


CARD = Card(id="made", title="Made", summary="", licence="", redistribution=True, template="description")

TOOLS = (
    Tool(
        "mail.send",
        "send",
        "Sends a letter.",
        "Post",
        "mail",
        (Parameter("to", "string", "Who gets it.", True, '"me"'), Parameter("copies", "integer", "", False)),
        '{"letter_id": "str"}',
        "send, as upstream has it",
    ),
    Tool("mail.find", "find", "Finds a letter."),
    Tool("Zoo.feed", "feed", "Feeds the animals.", "Zoo", "zoo"),
    Tool("ölstand", "ölstand", "Misst ihn."),
)
QUERIES = (
    Query("2", "Write to Ann.", {"mail.send": 1, "mail.find": 3}, "train", {"size": "two"}),
    Query("10", "Feed the cat.", {"Zoo.feed": 1}, "dev"),
    Query("1", "What is love?", {}, "test"),
    Query("b", "Wie voll?", {"ölstand": 2}, "test"),
)
EDGES = (
    Edge("mail.send", "mail.find", "result", "letter_id"),
    Edge("mail.send", "Zoo.feed", "verification"),
)
TABLES = Tables(TOOLS, QUERIES, EDGES)


def build(
    tools: Sequence[Tool] = TOOLS, queries: Sequence[Query] = QUERIES, edges: Sequence[Edge] = EDGES, **card: Any
) -> Dataset:
    return Dataset.build("made", CARD.model_copy(update=card), Tables(tools, queries, edges))


def test_rows_are_sorted_by_code_point_and_coded() -> None:
    dataset = build()
    assert [tool.tool_id for tool in dataset.tools] == ["Zoo.feed", "mail.find", "mail.send", "ölstand"]
    assert [query.query_id for query in dataset.queries] == ["1", "10", "2", "b"]
    assert [edge.prerequisite for edge in dataset.edges] == ["Zoo.feed", "mail.find"]
    assert dataset.tool_codes == {"Zoo.feed": 0, "mail.find": 1, "mail.send": 2, "ölstand": 3}
    assert dataset.query_codes == {"1": 0, "10": 1, "2": 2, "b": 3}
    assert [dataset.gold.row(row).tolist() for row in range(4)] == [[], [0], [1, 2], [3]]
    assert dataset.gold.grades.tolist() == [1, 3, 1, 2]


def test_an_edge_that_stands_twice_with_all_its_fields_is_one_edge() -> None:
    assert build(edges=[*EDGES, EDGES[0]]).edges == build().edges


def test_splits_seen_tools_and_slices() -> None:
    dataset = build()
    assert [dataset.rows(split).tolist() for split in (*SPLITS, "all")] == [[2], [1], [0, 3], [0, 1, 2, 3]]
    assert dataset.splits.tolist() == [2, 1, 0, 2]
    # Query 2 alone is train; its gold is mail.find (code 1) and mail.send (code 2).
    assert dataset.seen_tools.tolist() == [False, True, True, False]
    assert dataset.slice_names == ("size",)


def long(count: int) -> str:
    return "x" * count


BAD_ID = f"is empty, longer than {MAX_ID_LENGTH} characters, or contains control characters."


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tools": [], "queries": QUERIES}, "dataset made has no tools."),
        ({"tools": [], "queries": []}, "dataset made has no tools."),
        ({"tools": [*TOOLS, Tool("mail.find", "", "")]}, "dataset made: tool id 'mail.find' occurs twice."),
        ({"queries": [*QUERIES, Query("b", "", {})]}, "dataset made: query id 'b' occurs twice."),
        ({"tools": [*TOOLS, Tool("", "", "")]}, f"dataset made: tool id '' {BAD_ID}"),
        ({"queries": [*QUERIES, Query("", "", {})]}, f"dataset made: query id '' {BAD_ID}"),
        ({"tools": [*TOOLS, Tool(long(513), "", "")]}, f"dataset made: tool id '{long(60)}' {BAD_ID}"),
        ({"queries": [*QUERIES, Query("a\tb", "", {})]}, f"dataset made: query id 'a\\tb' {BAD_ID}"),
        ({"tools": [*TOOLS, Tool("a\nb", "", "")]}, f"dataset made: tool id 'a\\nb' {BAD_ID}"),
        ({"tools": [*TOOLS, Tool("\ud800", "", "")]}, f"dataset made: tool id '\\ud800' {BAD_ID}"),
        (
            {"queries": [*QUERIES, Query("c", "", {}, "valid")]},  # type: ignore[arg-type]
            "dataset made, query c: split 'valid' is not one of ('train', 'dev', 'test').",
        ),
        (
            {"queries": [*QUERIES, Query("c", "", {"mail.send": 1, "nobody": 1})]},
            "dataset made, query c: gold tool 'nobody' is not in the library; correct the source, or add it with "
            "--drop-unknown-gold.",
        ),
        *(
            (
                {"queries": [*QUERIES, Query("c", "", {"mail.send": 1, "mail.find": grade})]},
                f"dataset made, query c: the relevance {grade} of 'mail.find' is not between 1 and 1000000.",
            )
            for grade in (0, -2, 1_000_001, 2**31)
        ),
        (
            {"tools": [*TOOLS, Tool("t", "n", "d", returns="no json")]},
            "dataset made, tool t: 'no json' is not JSON.",
        ),
        (
            {"tools": [*TOOLS, Tool("t", "n", "d", parameters=(Parameter("p", default="mich"),))]},
            "dataset made, tool t, default of the parameter p: 'mich' is not JSON.",
        ),
        (
            {"edges": [Edge("mail.send", "nobody", "result")]},
            "dataset made: edge mail.send -> nobody names the unknown tool 'nobody'.",
        ),
        (
            {"edges": [Edge("nobody", "mail.send", "result")]},
            "dataset made: edge nobody -> mail.send names the unknown tool 'nobody'.",
        ),
        (
            {"edges": [Edge("mail.send", "mail.send", "result")]},
            "dataset made: edge mail.send -> mail.send points at itself.",
        ),
        (
            {"edges": [*EDGES, Edge("mail.send", "mail.find", "verification")]},
            "dataset made: edge mail.send -> mail.find occurs twice.",
        ),
        (
            {"queries": [*QUERIES, Query("c", "half \ud83d", {})]},
            "dataset made: the text of query c is not valid Unicode (half a surrogate pair).",
        ),
        *(
            (
                {"tools": [*TOOLS, replace(Tool("t", "n", "d"), **of(field, "half \ude00"))]},
                "dataset made: the text of tool t is not valid Unicode (half a surrogate pair).",
            )
            for field in ("name", "description", "category", "parent", "source")
        ),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        build(**changes)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"tools": [*TOOLS, Tool("t", "n", "d", parameters=(replace(Parameter("p"), **of(field, "half \ud83d")),))]}
            for field in ("name", "type", "description", "default")
        ),
        {"tools": [*TOOLS, Tool("t", "n", "d", returns="half \ud83d")]},
        {"queries": [*QUERIES, Query("c", "text", {}, slices={"size": "half \ud83d"})]},
        {"queries": [*QUERIES, Query("c", "text", {}, slices={"half \ud83d": "size"})]},
        {"edges": [Edge("mail.send", "mail.find", "result", "half \ud83d")]},
    ],
)
def test_half_a_surrogate_pair_is_refused_wherever_it_would_be_stored(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="half a surrogate pair"):
        build(**changes)


def test_the_longest_allowed_id_and_printable_ids_of_any_script_are_taken() -> None:
    tools = [*TOOLS, Tool(long(MAX_ID_LENGTH), "", ""), Tool("工具 №1/a:b", "", "")]
    assert len(build(tools=tools).tools) == 6


def test_datasets_can_be_compared_without_an_error() -> None:
    dataset = build()
    assert dataset == dataset
    assert isinstance(build() == build(), bool)


# What the content hash depends on -----------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=30)
def test_the_hash_does_not_depend_on_the_order_of_rows(random: Random) -> None:
    def shuffled(rows: Sequence[Any]) -> list[Any]:
        return random.sample(rows, len(rows))

    queries = [replace(query, gold=dict(shuffled(list(query.gold.items())))) for query in shuffled(QUERIES)]
    other = build(shuffled(TOOLS), queries, shuffled(EDGES))
    assert other.content_hash == build().content_hash
    assert (other.tools, other.queries, other.edges) == (build().tools, build().queries, build().edges)
    assert np.array_equal(other.gold.tools, build().gold.tools)


@given(texts, texts, texts)
@settings(deadline=None, max_examples=30)
def test_the_hash_does_not_depend_on_slices_card_or_spec(name: str, value: str, title: str) -> None:
    sliced = [replace(query, slices={name: value}) for query in QUERIES]
    other = build(queries=sliced, title=title, template="source", known_issues=[value])
    assert other.content_hash == build().content_hash
    assert Dataset.build(f"made(x={name})", CARD, TABLES).content_hash == build().content_hash


TOOL_FIELDS = [field.name for field in fields(Tool) if field.name not in {"tool_id", "parameters"}]


@given(st.sampled_from(TOOL_FIELDS), st.integers(0, 3), texts)
@settings(deadline=None)
def test_the_hash_changes_with_any_field_of_a_tool(field: str, position: int, text: str) -> None:
    as_json = field in {"returns", "annotations", "input_schema"}
    value = bool(text) if field == "deprecated" else json.dumps(text) if as_json else text
    changed = replace(TOOLS[position], **of(field, value))
    assume(changed != TOOLS[position])
    tools = [changed if tool is TOOLS[position] else tool for tool in TOOLS]
    assert build(tools=tools).content_hash != build().content_hash


@pytest.mark.parametrize(("field", "text"), [("returns", "null"), ("source", "")])
def test_the_hash_tells_nothing_from_an_empty_text(field: str, text: str) -> None:
    empty, nothing = (build(tools=[replace(TOOLS[0], **of(field, value)), *TOOLS[1:]]) for value in (text, None))
    assert empty.content_hash != nothing.content_hash


@given(st.sampled_from(["name", "type", "description", "default"]), st.integers(0, 1), texts)
@settings(deadline=None)
def test_the_hash_changes_with_any_field_of_a_parameter(field: str, position: int, text: str) -> None:
    inputs = list(TOOLS[0].parameters)
    inputs[position] = replace(inputs[position], **of(field, json.dumps(text) if field == "default" else text))
    assume(tuple(inputs) != TOOLS[0].parameters)
    assert build(tools=[replace(TOOLS[0], parameters=tuple(inputs)), *TOOLS[1:]]).content_hash != build().content_hash


one, two = TOOLS[0].parameters


@pytest.mark.parametrize(
    "inputs", [(), (one,), (two,), (two, one), (one, two, one), (replace(one, required=False), two)]
)
def test_the_hash_changes_with_the_list_of_parameters(inputs: tuple[Parameter, ...]) -> None:
    assert build(tools=[replace(TOOLS[0], parameters=inputs), *TOOLS[1:]]).content_hash != build().content_hash


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": [*TOOLS, Tool("new", "", "")]},
        {"tools": [tool for tool in TOOLS if tool.tool_id != "ölstand"], "queries": QUERIES[:3]},
        {"queries": QUERIES[:3]},
        {"queries": [replace(QUERIES[0], query_id="3"), *QUERIES[1:]]},
        {"queries": [replace(QUERIES[0], split="dev"), *QUERIES[1:]]},
        {"queries": [replace(QUERIES[0], gold={"mail.send": 1}), *QUERIES[1:]]},
        {"queries": [replace(QUERIES[0], gold={"mail.send": 1, "mail.find": 2}), *QUERIES[1:]]},
        {"queries": [replace(QUERIES[0], gold={"mail.send": 3, "mail.find": 1}), *QUERIES[1:]]},
        {"queries": [replace(QUERIES[0], gold={**QUERIES[0].gold, "Zoo.feed": 1}), *QUERIES[1:]]},
        {"edges": EDGES[:1]},
        {"edges": [replace(EDGES[0], dependent="ölstand"), EDGES[1]]},
        {"edges": [replace(EDGES[0], prerequisite="ölstand"), EDGES[1]]},
        {"edges": [Edge("mail.find", "mail.send", "result", "letter_id"), EDGES[1]]},
        {"edges": [replace(EDGES[0], reason="verification"), EDGES[1]]},
    ],
)
def test_the_hash_changes_with_the_set_of_rows_gold_splits_and_edges(changes: dict[str, Any]) -> None:
    assert build(**changes).content_hash != build().content_hash


@given(st.integers(0, 3), texts)
@settings(deadline=None)
def test_the_hash_changes_with_the_text_of_a_query(position: int, text: str) -> None:
    assume(text != QUERIES[position].text)
    queries = [replace(query, text=text) if query is QUERIES[position] else query for query in QUERIES]
    assert build(queries=queries).content_hash != build().content_hash


# Texts made of the hash's own punctuation are the ones that could run into their neighbours.
_CHUNKS = st.lists(st.sampled_from(['"', ",", "\\", "\n", '","', "[", "]", "a", "\ud7ff", "\u2028"]), max_size=3)
awkward = st.lists(_CHUNKS.map("".join), min_size=3, max_size=3)


@given(awkward, awkward)
@settings(deadline=None)
def test_texts_cannot_run_over_into_the_next_field(some: list[str], others: list[str]) -> None:
    hashes = [
        build(tools=[replace(TOOLS[0], name=a, description=b, category=c), *TOOLS[1:]]).content_hash
        for a, b, c in (some, others)
    ]
    assert (hashes[0] == hashes[1]) == (some == others)


def test_the_hash_is_the_same_for_ever() -> None:
    """The form written out: a change of it would make every stored result incomparable."""
    rows = [
        ["tool", "a", "name", "é", "", "p", [["x", "str", "d", True, None]], None, None],
        ["query", "q", "text", "test", [["a", 2]]],
    ]
    text = "bench dataset 1\n" + "".join(
        json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows
    )
    dataset = build(
        [Tool("a", "name", "é", "", "p", (Parameter("x", "str", "d"),))], [Query("q", "text", {"a": 2})], []
    )
    assert dataset.content_hash == hashlib.sha256(text.encode()).hexdigest()


# Random datasets ----------------------------------------------------------------------------------------------------

tool_ids = st.lists(st.text(string.ascii_letters, min_size=1, max_size=3), min_size=1, max_size=8, unique=True)


@st.composite
def random_tables(draw: st.DrawFn) -> Tables:
    ids = draw(tool_ids)
    golds = draw(st.lists(st.dictionaries(st.sampled_from(ids), st.integers(1, 4)), min_size=1, max_size=10))
    splits = draw(st.lists(st.sampled_from(SPLITS), min_size=len(golds), max_size=len(golds)))
    queries = [Query(f"{n}", "", gold, split) for n, (gold, split) in enumerate(zip(golds, splits, strict=True))]
    return Tables([Tool(tool, "", "") for tool in ids], queries)


@given(random_tables())
@settings(deadline=None)
def test_every_query_stands_in_one_split_and_seen_tools_are_the_gold_of_train(tables: Tables) -> None:
    dataset = Dataset.build("made", CARD, tables)
    parts = [dataset.rows(split).tolist() for split in SPLITS]
    assert (
        sorted(row for part in parts for row in part)
        == dataset.rows("all").tolist()
        == list(range(len(tables.queries)))
    )
    for split, rows in zip(SPLITS, parts, strict=True):
        assert all(dataset.queries[row].split == split for row in rows)
    seen = {tool for query in tables.queries if query.split == "train" for tool in query.gold}
    assert {tool.tool_id for tool, is_seen in zip(dataset.tools, dataset.seen_tools, strict=True) if is_seen} == seen


@given(random_tables())
@settings(deadline=None)
def test_coded_gold_is_the_gold_of_the_rows(tables: Tables) -> None:
    dataset = Dataset.build("made", CARD, tables)
    for row, query in enumerate(dataset.queries):
        at = slice(dataset.gold.starts[row], dataset.gold.starts[row + 1])
        coded = zip(dataset.gold.tools[at].tolist(), dataset.gold.grades[at].tolist(), strict=True)
        assert {dataset.tools[code].tool_id: grade for code, grade in coded} == dict(query.gold)


# Imported tools ------------------------------------------------------------------------------------------------------


def test_a_dataset_without_the_fields_of_imported_tools_has_the_hash_that_it_always_had() -> None:
    """Computed by the version that had no such fields."""
    tools = [
        Tool(
            "a", "send", "Sends.", "mail", "post", (Parameter("to", "string", "Who", False, '"x"'),), '{"id": 1}', "s"
        ),
        Tool("b", "find", "Findet №1."),
    ]
    queries = [Query("1", "one", {"a": 1}, "train"), Query("2", "two", {"b": 2, "a": 1}), Query("3", "three", {})]
    made = build(tools=tools, queries=queries, edges=[Edge("a", "b", "result", "note")])
    assert made.content_hash == "87353734c8ae87068eb53cc9273d95ee5811493c6ad82e4f2d00ef0bef42a805"


def test_a_library_without_queries_is_a_dataset() -> None:
    made = build(queries=[])
    assert (len(made.tools), len(made.queries), made.units.tolist(), made.gold.padded()[0].shape) == (4, 0, [], (0, 0))
    assert made.content_hash != build().content_hash


def test_remarks_of_an_import_are_kept_and_not_hashed() -> None:
    remarks = (("tools.json, /3", "it has no name"),)
    made = Dataset.build("made", CARD, replace(TABLES, remarks=remarks))
    assert (made.remarks, made.rows_again().remarks) == (remarks, remarks)
    assert made.content_hash == build().content_hash


def test_a_dataset_is_shown_in_a_line() -> None:
    tools = [Tool("a", "a", "", "", ""), Tool("b", "b", "", "", "")]
    queries = [Query(f"q{i}", "text", {"a": 1}, "test" if i else "train") for i in range(3)]
    card = Card(id="x", title="X", summary="", licence="CC0-1.0", redistribution=True, template="description")
    made = Dataset.build("x\x1b(y=1)", card, Tables(tools, queries))
    assert repr(made) == "<Dataset x\N{REPLACEMENT CHARACTER}(y=1): 2 tools, 3 queries (1 train, 2 test)>"
