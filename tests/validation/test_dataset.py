"""The audit: each finding on a small dataset where the count is known; and what `starter` promises to be."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Parameter, Query, Split, Tables, Tool
from bench.interface import Library, Queries
from bench.metrics import evaluate, parse_metrics
from bench.registry import build_method, dataset_entry, load_dataset
from bench.search.words import words
from bench.validation.dataset import Finding, audit, audit_against

CARD = Card(id="made", title="Made", summary="", licence="CC0-1.0", redistribution=True, template="description")
TOOLS = [
    Tool("a", "send letter", "Sends a letter.", "post", "Post"),
    Tool("b", "find street", "Finds a street.", "maps", "Map"),
    Tool("c", "book room", "Books a room.", "travel", "Hotel"),
    Tool("d", "buy stamps", "Buys stamps.", "post", "Post"),
]
QUERIES = [
    Query("q1", "Write to my aunt", {"a": 1}, "train"),
    Query("q2", "Where is the mill?", {"b": 1, "c": 1}, "train"),
    Query("q3", "Something for the night", {"c": 1}, "test"),
    Query("q4", "What a day", {}, "test"),
    Query("q5", "To the mill and a bed there", {"d": 1}, "dev"),
]


def findings(
    tools: list[Tool] = TOOLS, queries: list[Query] = QUERIES, unknown: tuple[tuple[str, str], ...] = ()
) -> dict[str, Finding]:
    return {item.check: item for item in audit(Dataset.build("made", CARD, Tables(tools, queries, (), unknown)))}


def query(name: str, text: str, gold: str = "a", split: Split = "test") -> Query:
    return Query(name, text, dict.fromkeys(gold.split(), 1), split)


# Findings -----------------------------------------------------------------------------------------------------------


def test_a_clean_dataset_has_no_defects_and_its_properties_are_counted() -> None:
    by_check = findings()
    assert {name for name, finding in by_check.items() if finding.harmful and finding.count} == set()
    assert {name: (finding.count, finding.total) for name, finding in by_check.items()} == {
        "empty-description": (0, 4),
        "duplicate-description": (0, 4),
        "identical-tools": (0, 4),
        "confusable": (0, 4),
        "shared-name": (0, 4),
        "never-gold": (0, 4),
        "unknown-gold": (0, 5),
        "empty-query": (0, 5),
        "duplicate-query": (0, 5),
        "contradicting-gold": (0, 5),
        "no-gold": (1, 5),
        "alternative-tool": (0, 4),
        "alternative-query": (0, 4),
        "named-gold": (0, 4),
        "leaked-query": (0, 2),
        "leaked-bundle": (0, 1),
        "leaked-query-dev": (0, 2),
        "leaked-bundle-dev": (0, 1),
        "unseen-tool": (0, 1),
        "unseen-parent": (0, 1),
    }
    assert by_check["no-gold"].examples == ("q4",)
    assert by_check["no-gold"].share == 0.2


def test_tools_without_a_description_are_counted() -> None:
    tools = [*TOOLS, replace(TOOLS[0], tool_id="e", description=""), replace(TOOLS[1], tool_id="f", description=" \n")]
    empty_description = findings(tools)["empty-description"]
    assert (empty_description.count, empty_description.total, empty_description.examples) == (2, 6, ("e", "f"))


def test_tools_that_share_their_description_are_counted_but_for_case_and_blanks() -> None:
    tools = [
        *TOOLS,
        Tool("e", "other", " sends  A LETTER."),
        Tool("f", "another", "Sends a letter."),
        # Two without a description do not share one.
        Tool("g", "g", ""),
        Tool("h", "h", ""),
    ]
    duplicate_description = findings(tools)["duplicate-description"]
    assert (duplicate_description.count, duplicate_description.total, duplicate_description.examples) == (
        3,
        8,
        ("a = e = f",),
    )
    assert findings(tools)["identical-tools"].count == 0


@pytest.mark.parametrize(
    ("change", "count"),
    [({}, 2), ({"name": "x"}, 0), ({"parent": "x"}, 0), ({"parameters": (Parameter("x"),)}, 0), ({"returns": "{}"}, 0)],
)
def test_tools_that_differ_in_their_id_alone_are_counted(change: dict[str, Any], count: int) -> None:
    identical_tools = findings([*TOOLS, replace(TOOLS[0], tool_id="e", **change)])["identical-tools"]
    assert identical_tools.count == count
    assert identical_tools.examples == (("a = e",) if count else ())


@pytest.mark.parametrize(
    ("description", "count"),
    [
        ("Sends a letter.", 2),
        ("SENDS the letter, to you", 2),
        ("Sends a parcel.", 0),
        ("", 0),
        ("the", 0),
        ("Sends a letter, sends a parcel, and sends a telegram.", 0),
    ],
)
def test_tools_whose_descriptions_cannot_be_told_apart_are_counted(description: str, count: int) -> None:
    # Whatever its name and parent.
    confusable = findings([*TOOLS, Tool("e", "other", description, "post", "Courier")])["confusable"]
    assert (confusable.count, confusable.total, confusable.harmful) == (count, 5, True)
    assert confusable.examples == (("a ~ e",) if count else ())


def test_tools_that_are_gold_for_no_query_are_counted() -> None:
    never_gold = findings([*TOOLS, Tool("e", "e", "e")])["never-gold"]
    assert (never_gold.count, never_gold.total, never_gold.examples, never_gold.harmful) == (1, 5, ("e",), False)


def test_gold_tools_that_another_parent_s_tool_reads_like_are_counted() -> None:
    by_check = findings([*TOOLS, replace(TOOLS[0], tool_id="e", parent="Courier"), replace(TOOLS[1], tool_id="f")])
    assert (by_check["alternative-tool"].count, by_check["alternative-tool"].examples) == (1, ("a = e",))
    assert (by_check["alternative-query"].count, by_check["alternative-query"].examples) == (1, ("q1",))
    # Where both are gold, neither is an alternative.
    both = [query("q1", "Write", "a e", "train"), *QUERIES[1:]]
    by_check = findings([*TOOLS, replace(TOOLS[0], tool_id="e", parent="Courier")], both)
    assert (by_check["alternative-tool"].count, by_check["alternative-query"].count) == (2, 0)


def test_dropped_gold_is_counted_among_all_judgements() -> None:
    unknown_gold = findings(unknown=(("q1", "gone"), ("q3", "lost")))["unknown-gold"]
    assert (unknown_gold.count, unknown_gold.total, unknown_gold.examples) == (2, 7, ("q1: gone", "q3: lost"))


def test_queries_without_text_are_counted() -> None:
    empty_query = findings(queries=[*QUERIES, query("q6", ""), query("q7", "\t")])["empty-query"]
    assert (empty_query.count, empty_query.total, empty_query.examples) == (2, 7, ("q6", "q7"))


def test_queries_that_share_their_text_are_counted_and_those_of_other_gold_among_them() -> None:
    more = [
        query("q6", "write TO my  aunt", "a", "dev"),
        query("q7", "Write to my aunt", "b", "dev"),
        query("q8", "where is the mill?", "c b", "dev"),
    ]
    by_check = findings(queries=[*QUERIES, *more])
    assert (by_check["duplicate-query"].count, by_check["duplicate-query"].total) == (5, 8)
    assert by_check["duplicate-query"].examples == ("q1 = q6 = q7", "q2 = q8")
    # The mill is asked for twice with the same gold.
    assert (by_check["contradicting-gold"].count, by_check["contradicting-gold"].examples) == (3, ("q1 = q6 = q7",))


@pytest.mark.parametrize(
    ("text", "gold", "count"),
    [
        ("Please send letter to Ann", "a", 1),
        ("please SEND_LETTER, now", "a", 1),
        ("send a letter", "a", 0),
        ("letter send", "a", 0),
        ("resend letters", "a", 0),
        # Named, but not gold.
        ("book room, do not send letter", "b", 0),
        ("book room and send letter", "a c", 1),
    ],
)
def test_queries_that_spell_out_the_name_of_a_gold_tool_are_counted(text: str, gold: str, count: int) -> None:
    named_gold = findings(queries=[*QUERIES, query("q6", text, gold)])["named-gold"]
    assert (named_gold.count, named_gold.total) == (count, 5)
    assert named_gold.examples == ((f"q6: {'send letter' if 'a' in gold else 'book room'}",) if count else ())


def test_test_queries_that_stand_in_train_are_counted() -> None:
    more = [query("q6", "write to MY aunt", "a b"), query("q7", "to the mill and a bed there", "b")]
    leaked_query = findings(queries=[*QUERIES, *more])["leaked-query"]
    # q7 is in dev, not in train.
    assert (leaked_query.count, leaked_query.total, leaked_query.examples) == (1, 4, ("q6",))


def test_test_queries_that_stand_in_dev_are_counted_for_themselves() -> None:
    more = [
        query("q6", "write to MY aunt", "a b"),
        query("q7", "to the mill  and a bed there", "b"),
        # In both: it counts in both.
        query("q8", "once more", "b", "train"),
        query("q9", "Once more", "b", "dev"),
        query("q10", "ONCE MORE", "b"),
    ]
    by_check = findings(queries=[*QUERIES, *more])
    dev, train = by_check["leaked-query-dev"], by_check["leaked-query"]
    assert (dev.count, dev.total, dev.examples) == (2, 5, ("q10", "q7"))
    assert (train.count, train.total, train.examples) == (2, 5, ("q10", "q6"))
    assert (dev.harmful, dev.what) == (True, "test queries whose text occurs in dev")


def test_test_bundles_that_stand_in_train_are_counted_among_the_judged() -> None:
    more = [query("q6", "other words", "c b"), query("q7", "more words", "b"), query("q8", "yet more", "d")]
    leaked_bundle = findings(queries=[*QUERIES, *more])["leaked-bundle"]
    assert (leaked_bundle.count, leaked_bundle.total, leaked_bundle.examples) == (1, 4, ("q6",))


def test_test_bundles_that_stand_in_dev_are_counted_for_themselves() -> None:
    more = [query("q6", "other words", "c b"), query("q7", "more words", "b"), query("q8", "yet more", "d")]
    leaked_bundle_dev = findings(queries=[*QUERIES, *more])["leaked-bundle-dev"]
    assert (
        leaked_bundle_dev.count,
        leaked_bundle_dev.total,
        leaked_bundle_dev.examples,
        leaked_bundle_dev.harmful,
    ) == (1, 4, ("q8",), True)


def test_queries_without_gold_leak_no_bundle() -> None:
    more = [query("q6", "nothing to do", "", "dev"), query("q7", "nor here", "", "train")]
    by_check = findings(queries=[*QUERIES, *more])
    # q4 of the test split has no gold either.
    assert (by_check["leaked-bundle"].count, by_check["leaked-bundle-dev"].count) == (0, 0)


def test_gold_tools_and_parents_of_test_that_train_does_not_use_are_counted() -> None:
    tools = [*TOOLS, Tool("e", "e", "e", "maps", "Post"), Tool("f", "f", "f", "maps", "Map")]
    more = [query("q6", "one", "d"), query("q7", "two", "e f"), query("q8", "three", "f")]
    by_check = findings(tools, [*QUERIES, *more])
    # Test needs c, d, e, f; train uses a, b, c.
    assert (by_check["unseen-tool"].count, by_check["unseen-tool"].total) == (3, 4)
    assert by_check["unseen-tool"].examples == ("d", "e", "f")
    # d's parent is a's, f's is b's; e's parent has the name of another category's.
    assert (by_check["unseen-parent"].count, by_check["unseen-parent"].total) == (1, 4)
    assert by_check["unseen-parent"].examples == ("q7",)


TRAIN, DEV = {"leaked-query", "leaked-bundle"}, {"leaked-query-dev", "leaked-bundle-dev"}
UNSEEN = {"unseen-tool", "unseen-parent"}


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        ("train", set()),
        ("dev", set()),
        ("test", set()),
        ("train dev", set()),
        ("train test", TRAIN | UNSEEN),
        # Without train queries, that every tool is unseen says nothing.
        ("dev test", DEV),
        ("train dev test", TRAIN | DEV | UNSEEN),
    ],
)
def test_only_a_past_split_beside_test_can_leak(splits: str, expected: set[str]) -> None:
    by_check = findings(queries=[q for q in QUERIES if q.split in splits.split()])
    assert set(by_check) & (TRAIN | DEV | UNSEEN) == expected


def test_tools_are_seen_in_train_alone() -> None:
    # Gold for a dev query is not seen, by the protocol's word.
    by_check = findings(queries=[*QUERIES, query("q6", "stamps", "d")])
    assert (by_check["unseen-tool"].count, by_check["unseen-tool"].examples) == (1, ("d",))


def test_examples_are_few_and_short() -> None:
    tools = [*TOOLS, *(Tool(f"{i}" + "x" * 200, "n", "") for i in range(5))]
    empty_description = findings(tools)["empty-description"]
    assert empty_description.count == 5
    assert len(empty_description.examples) == 3
    assert {len(example) for example in empty_description.examples} == {90}
    assert all(example.endswith("...") for example in empty_description.examples)


def test_a_share_of_nothing_is_zero() -> None:
    assert Finding("x", "y", 0, 0).share == 0


def test_known_defects_of_real_data_are_found(mirror: Path) -> None:
    by_check = {finding.check: finding for finding in audit(load_dataset("toolbench-i2-cat"))}
    # 44 descriptions are empty and 180 are one blank; queries 43200 and 43201 have the same text and gold.
    assert by_check["empty-description"].count == 224
    assert by_check["duplicate-query"].examples == ("43200 = 43201",)
    assert by_check["duplicate-query"].count == 2
    assert by_check["contradicting-gold"].count == 0


# starter ------------------------------------------------------------------------------------------------------------


@cache
def starter() -> Dataset:
    return load_dataset("starter")


@cache
def annotated() -> list[dict[str, Any]]:
    """The lines of queries.jsonl, with what is waived."""
    path = dataset_entry("starter").folder / "queries.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_starter_has_a_library_of_many_kinds() -> None:
    tools = starter().tools
    assert len(tools) >= 150
    assert len({tool.category for tool in tools}) == 12
    assert len({tool.parent for tool in tools}) >= 40
    assert all(tool.parent and tool.category and tool.description.strip() for tool in tools)
    assert all(tool.return_names() for tool in tools), "every tool says what it gives back"
    assert sum(bool(tool.parameters) for tool in tools) >= 0.95 * len(tools)
    assert all(parameter.type and parameter.description for tool in tools for parameter in tool.parameters)


def test_starter_has_queries_of_every_kind() -> None:
    queries = starter().queries
    judged = [q for q in queries if q.gold]
    assert len(queries) >= 300
    assert {len(q.gold) for q in judged} == set(range(1, 7))
    assert len(queries) - len(judged) >= 20
    assert sum(q.slices["prerequisite"] == "unnamed" for q in judged) >= len(queries) / 3
    for split, least in (("train", 100), ("dev", 50), ("test", 100)):
        mine = [q for q in queries if q.split == split]
        assert len(mine) >= least
        assert any(not q.gold for q in mine)
        assert any(q.slices.get("prerequisite") == "unnamed" for q in mine)


def test_starter_has_no_defects() -> None:
    by_check = {finding.check: finding for finding in audit(starter())}
    harmful = {name: finding.count for name, finding in by_check.items() if finding.harmful and finding.count}
    assert set(harmful) <= {"leaked-bundle", "leaked-bundle-dev"}
    assert all(by_check[name].share < 0.05 for name in harmful)
    assert by_check["never-gold"].count == 0


def test_starter_tests_providers_that_train_does_not_use() -> None:
    data = starter()

    def parents(split: str) -> set[str]:
        return {data.tools[tool].parent for tool in data.gold.take(data.rows(split)).tools.tolist()}

    assert len(parents("test") - parents("train")) >= 5
    assert len(parents("test") - parents("train") - parents("dev")) >= 5


def test_few_queries_of_starter_name_a_provider_and_none_the_id_of_a_tool() -> None:
    data = starter()
    names = {tuple(words(tool.parent)) for tool in data.tools}
    naming = 0
    for requests in data.queries:
        text = words(requests.text)
        naming += any(tuple(text[i : i + len(name)]) == name for name in names for i in range(len(text)))
        assert not any(tool.tool_id in requests.text for tool in data.tools)
    assert naming <= 0.15 * len(data.queries)


def test_no_two_queries_of_starter_begin_alike() -> None:
    heads = Counter(" ".join(words(q.text)[:4]) for q in starter().queries)
    assert [head for head, number in heads.items() if number > 1] == []


def test_gold_of_starter_is_closed_over_its_edges_save_what_is_waived() -> None:
    alternatives = [{"rolobox.find_contact", "orrin.find_users"}, {"pipelarch.list_runs", "pipelarch.start_run"}]
    needs: defaultdict[str, set[str]] = defaultdict(set)
    for edge in starter().edges:
        needs[edge.dependent].add(edge.prerequisite)
    for row in annotated():
        gold = set(row["gold"])
        lacking = {
            (tool, prerequisite)
            for tool in gold
            for prerequisite in needs[tool] - gold
            if not any(prerequisite in group and group & gold for group in alternatives)
        }
        waived = {(tool, prerequisite) for tool, prerequisite, _ in row["waived"]}
        assert lacking <= waived, row["query_id"]
        # And what is waived is a real edge of a gold tool, with a reason.
        assert all(prerequisite in needs[tool] and tool in gold for tool, prerequisite in waived), row["query_id"]
        assert all(reason.strip() for _, _, reason in row["waived"])


def test_the_annotation_of_starter_is_what_is_loaded() -> None:
    loaded = {q.query_id: (q.text, set(q.gold), q.split) for q in starter().queries}
    assert loaded == {row["query_id"]: (row["text"], set(row["gold"]), row["split"]) for row in annotated()}


def test_starter_is_not_solved_by_shared_words() -> None:
    data = starter()
    rows = data.rows("test")
    method = build_method("bm25")
    method.index(Library.of(data, data.card.template))
    ranking = method.rank(Queries.of(data, rows), 100)
    means = evaluate(ranking.tools, data.gold.take(rows), parse_metrics(["recall@5"])).means()
    assert 0.1 < means["recall@5"] < 0.35
    assert np.isfinite(means["recall@5"])


# Schemas of imported tools -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, ""),
        (True, ""),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": True, "minimum": 1}, ""),
        ({"exclusiveMinimum": True}, "t: exclusiveMinimum: True is not of type 'number'"),
        ({"properties": {"a": {"type": "strng"}}}, "t: properties/a/type: 'strng' is not valid under any of the given"),
        ({"required": "a"}, "t: required: 'a' is not of type 'array'"),
        ([], "t: it is not an object"),
        (None, "t: it is not an object"),
        ({"$schema": ["x"]}, "t: it cannot be checked (TypeError)"),
        ({"enum": [[n] for n in range(2001)]}, "t: a list has more than 2000 items; the schema was not checked"),
    ],
    ids=str,
)
def test_schemas_that_are_none_are_counted(schema: object, fault: str) -> None:
    tools = [Tool("t", "t", "d", input_schema=json.dumps(schema)), Tool("u", "u", "e")]
    card = CARD.model_copy(update={"template": "name_description"})
    (result,) = [
        item for item in audit(Dataset.build("made", card, Tables(tools, []))) if item.check == "invalid-schema"
    ]
    assert (result.count, result.total) == (int(bool(fault)), 1)
    assert "".join(result.examples).startswith(fault)


def test_what_another_dataset_has_too_is_named() -> None:
    template = "Please find a cheap hotel near {0} for two nights with breakfast and a view of {1} on the first of May"
    requests = [
        Query("same", "What a  DAY", {"a": 1}, "test"),
        Query("near", template.format("the old mill", "lakes"), {"b": 1}, "test"),
        Query("past", "Where is the mill?", {"b": 1}, "test"),
        Query("own", "Tell me a story of a fox and a crow", {"c": 1}, "test"),
        Query("train", "Something for the night", {"c": 1}, "train"),
    ]
    theirs = [*QUERIES, Query("q6", template.format("the old mill", "rivers"), {"a": 1}, "test")]
    # One tool has the name of another and does something else.
    tools = [TOOLS[0], replace(TOOLS[1], description="Finds a river.")]
    ours = Dataset.build("ours", CARD, Tables(TOOLS, requests))
    other = Dataset.build("other", CARD, Tables([*tools, *TOOLS[2:]], theirs))
    by_check = {one.check: one for one in audit_against(ours, other)}
    assert (by_check["shared-query"].examples, by_check["shared-query"].total) == (("same",), 4)
    assert by_check["near-query"].examples == ("near", "same")
    assert by_check["near-past-query"].examples == ("past",)
    assert by_check["shared-tool"].examples == ("a", "c", "d")
    assert "other (test)" in by_check["near-query"].what
