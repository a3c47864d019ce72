"""NESTFUL: counts against upstream's files, references as edges, and what is refused."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import load_small, loaded, of_upstream

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Parameter, Tables
from bench.datasets.nestful import loader

FOLDER = "IBM/NESTFUL/053cbde0446dddd31e8293f179085e1b39ab79b5"


def read(mirror: Path, part: str) -> tuple[list[Any], list[Any]]:
    """Upstream's tools and requests of a part."""
    tools, requests = (
        json.loads((mirror / FOLDER / f"{loader.PARTS[part]}-{kind}.json").read_text("utf-8"))
        for kind in ("spec", "data")
    )
    return tools, requests


def references(request: Any) -> set[tuple[str, str]]:
    """(taker, giver) of all values that calls of a request pass, other than to itself."""
    given: dict[str, str] = {}
    pairs = set()
    for call in request["output"][:-1]:
        for label in re.findall(r"var\d+(?=[^$\"]*\$)", json.dumps(call["arguments"])):
            pairs.add((call["name"], given[label]))
        given[call["label"]] = call["name"]
    return {pair for pair in pairs if len(set(pair)) == 2}


nestful = of_upstream("nestful")


@pytest.mark.parametrize(
    ("part", "tools", "queries", "edges"), [("executable", 39, 85, 34), ("sgd", 30, 46, 16), ("glaive", 64, 169, 134)]
)
def test_a_part_is_that_of_upstream(
    nestful: Dataset, mirror: Path, part: str, tools: int, queries: int, edges: int
) -> None:
    dataset = loaded(f"nestful(part={part})")
    assert (len(dataset.tools), len(dataset.queries), len(dataset.edges)) == (tools, queries, edges)
    specification, requests = read(mirror, part)
    records = {record["name"]: record for record in specification}
    assert records.keys() == dataset.tool_codes.keys()
    for tool in dataset.tools:
        record = records[tool.tool_id]
        assert (tool.name, tool.description) == (record["name"], record["description"])
        keys = ("path_parameters", "query_parameters", "arguments", "parameters")
        assert [p.name for p in tool.parameters] == [name for key in keys for name in record.get(key, {})]
        assert set(tool.return_names()) >= record["output_parameters"].keys()
    expected = set()
    for number, (query, request) in enumerate(zip(dataset.queries, requests, strict=True)):
        assert (query.query_id, query.text, query.slices) == (f"{part}-{number:03}", request["input"], {"part": part})
        assert request["output"][-1]["name"] == "var_result"
        assert set(query.gold) == {call["name"] for call in request["output"][:-1]} & records.keys()
        expected |= {pair for pair in references(request) if set(pair) <= records.keys()}
    assert {(edge.dependent, edge.prerequisite) for edge in dataset.edges} == expected
    # The whole is its parts: no tool is in two of them.
    assert set(dataset.tools) <= set(nestful.tools)
    assert all(query in nestful.queries for query in dataset.queries)
    assert set(dataset.edges) <= set(nestful.edges)


def test_the_whole_is_its_parts(nestful: Dataset) -> None:
    assert (len(nestful.tools), len(nestful.queries), len(nestful.edges)) == (133, 300, 184)
    flights = {edge.prerequisite: edge for edge in nestful.edges if edge.dependent == "SkyScrapperFlightSearch"}
    assert flights["SkyScrapperSearchAirport"].note == "skyId"
    assert {edge.reason for edge in nestful.edges} == {"result"}


def test_held_out_edges_are_of_requests_with_other_gold(mirror: Path) -> None:
    held = loaded("nestful(edges=held-out)")
    gold = {split: {frozenset(held.queries[row].gold) for row in held.rows(split)} for split in ("train", "test")}
    assert [len(held.rows(split)) for split in ("train", "dev", "test")] == [151, 0, 149]
    assert not gold["train"] & gold["test"]
    expected = set()
    for part in loader.PARTS:
        for number, request in enumerate(read(mirror, part)[1]):
            if held.queries[held.query_codes[f"{part}-{number:03}"]].split == "train":
                expected |= {pair for pair in references(request) if set(pair) <= held.tool_codes.keys()}
    assert {(edge.dependent, edge.prerequisite) for edge in held.edges} == expected
    assert len(expected) == 102


def test_the_known_issues_are_what_the_card_says(nestful: Dataset, mirror: Path) -> None:
    by_edge: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    gold = {query.query_id: frozenset(query.gold) for query in nestful.queries}
    unmarked = repeated = answers = 0
    for part in loader.PARTS:
        specification, requests = read(mirror, part)
        unmarked += sum(
            "required" not in about for tool in specification for about in tool.get("query_parameters", {}).values()
        )
        for number, request in enumerate(requests):
            for pair in references(request):
                by_edge[pair].append(f"{part}-{number:03}")
            labels = [call["label"] for call in request["output"][:-1]]
            repeated += len(set(labels)) < len(labels)
            answers += not set(re.findall(r"var\d+", json.dumps(request["output"][-1]["arguments"]))) <= set(labels)
    assert (unmarked, repeated, answers) == (46, 4, 6)
    known = {(edge.dependent, edge.prerequisite) for edge in nestful.edges}
    assert sum(len(by_edge[pair]) == 1 for pair in known) == 115
    assert sum(len({gold[query] for query in by_edge[pair]}) == 1 for pair in known) == 143
    assert sum(len(queries) for pair, queries in by_edge.items() if pair not in known) == 7
    assert len({name for _, name in nestful.unknown_gold}) == 7
    assert len({query for query, _ in nestful.unknown_gold}) == 10
    assert set(nestful.tool_codes) - {tool for tools in gold.values() for tool in tools} == {"search_book_reviews"}


TOOL = {
    "name": "Post.Send",
    "description": "Sends.",
    "query_parameters": {
        "to": {"type": "string", "description": "whom", "required": True},
        "copy": {"type": "string", "optional": True, "default": "me"},
        "text": {"type": "string"},
    },
    "path_parameters": {"box": {"type": "string", "required": False}},
    "output_parameters": {"receipt": {"type": "object", "properties": {"id": {"type": "string"}}}},
}
FIND = {"name": "find", "description": "Finds.", "host": "people.example.com", "output_parameters": {}}
CALLS: list[dict[str, Any]] = [
    {"name": "find", "arguments": {"name": "Jo"}, "label": "var1"},
    {"name": "Post.Send", "arguments": {"to": ["Dear $var1.people[0].mail$, $5 for you"]}, "label": "var2"},
    {"name": "var_result", "arguments": {"all": "$var9$"}},
]


def small(folder: Path, tools: object = (TOOL, FIND), calls: object = CALLS) -> Tables:
    """One request of sgd."""
    content = {"spec": tools, "data": [{"input": "Write to Jo.", "output": calls}]}
    contents = {f"{loader.PARTS['sgd']}-{name}.json": rows for name, rows in content.items()}
    return load_small(loader, folder, "nestful", contents, loader.Options(part="sgd"))


def test_a_record_is_read(tmp_path: Path) -> None:
    tables = small(tmp_path)
    post, find = tables.tools
    assert post.parameters == (
        Parameter("box", "string", "", False),
        Parameter("to", "string", "whom", True),
        Parameter("copy", "string", "", False, '"me"'),
        Parameter("text", "string", "", True),
    )
    assert post.return_names() == ("receipt", "id")
    assert (post.parent, find.parent) == ("Post", "people.example.com")
    assert tables.edges == [Edge("Post.Send", "find", "result", "people[0].mail")]
    assert tables.queries[0].gold == {"find": 1, "Post.Send": 1}


@pytest.mark.parametrize("argument", ["$var1$", "var1.mail$", "$var1.a$ - $var1.b$", {"deep": ["$var1.mail$"]}])
def test_a_reference_is_found_wherever_it_is(tmp_path: Path, argument: object) -> None:
    edges = small(tmp_path, calls=[CALLS[0], {**CALLS[1], "arguments": {"to": argument}}]).edges
    assert [(edge.dependent, edge.prerequisite) for edge in edges] == [("Post.Send", "find")]


@pytest.mark.parametrize("argument", ["$100-$200", "var1", "a var1 for $5", "$variable$"])
def test_what_is_no_reference_gives_no_edge(tmp_path: Path, argument: str) -> None:
    assert small(tmp_path, calls=[CALLS[0], {**CALLS[1], "arguments": {"to": argument}}]).edges == []


def test_labels_of_the_later_format_are_read(tmp_path: Path) -> None:
    calls = [{**CALLS[0], "label": "$var_1"}, {**CALLS[1], "arguments": {"to": "$var_1.result$"}, "label": "$var_2"}]
    assert small(tmp_path, calls=calls).edges == [Edge("Post.Send", "find", "result", "result")]


def test_calls_of_unknown_tools_and_of_oneself_give_no_edge(tmp_path: Path) -> None:
    again = {"name": "find", "arguments": {"name": "$var1.x$"}, "label": "var1"}
    other = {"name": "guess", "arguments": {"name": "$var1.x$"}, "label": "var3"}
    tables = small(tmp_path, calls=[CALLS[0], again, other])
    assert (tables.edges, tables.unknown_gold) == ([], [("sgd-000", "guess")])


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"calls": CALLS[1:]}, "record 0: Post.Send takes a value of var1, which no earlier call gives"),
        ({"calls": [{**CALLS[0], "more": 1}]}, "record 0, field output: Extra inputs"),
        ({"calls": []}, "record 0, field output: List should have at least 1 item"),
        ({"tools": [FIND, {**FIND, "description": "Looks."}]}, "the tool find is there twice and differs"),
        ({"tools": [{"name": "a"}]}, "record 0, field description: Field required"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, changed: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, **changed)
    assert sentence in str(caught.value)
