"""RestBench: counts against upstream's files, paths with spaces, operations that are not there, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import load_small, loaded

from bench.base.errors import DataError
from bench.data.entries import dataset_entry
from bench.data.tables import Tables
from bench.datasets.restbench import loader

FOLDER = "Yifan-Song793/RestGPT/d99012860cb45323975bf5780152d7aa44f390f5"
METHODS = {"get", "post", "put", "delete", "patch"}
ABSENT = {"tmdb": ("098", "GET /person/{movie_id}/movie_credits"), "spotify": ("039", "GET /track/{id}")}


def read(mirror: Path, name: str) -> Any:
    return json.loads((mirror / FOLDER / name).read_text("utf-8"))


@pytest.mark.parametrize(("api", "tools", "queries"), [("tmdb", 54, 100), ("spotify", 40, 57)])
def test_an_api_is_that_of_upstream(mirror: Path, api: str, tools: int, queries: int) -> None:
    dataset = loaded(f"restbench-{api}")
    operations = {
        f"{method.upper()} {path}": operation["operationId"]
        for path, item in read(mirror, f"specs/{api}_oas.json")["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }
    assert sorted(operations.values()) == sorted(dataset.tool_codes)
    assert len(dataset.tools) == tools
    records = read(mirror, f"datasets/{api}.json")
    assert len(records) == len(dataset.queries) == queries
    absent = []
    for number, record in enumerate(records):
        query = dataset.queries[number]
        calls = {call.strip() for call in record["solution"]}
        assert (query.query_id, query.text, query.split) == (f"{number:03}", record["query"], "test")
        assert set(query.gold) == {operations[call] for call in calls if call in operations}
        absent += [(query.query_id, call) for call in calls if call not in operations]
    assert absent == [ABSENT[api]] == list(dataset.unknown_gold)


def test_the_slips_of_upstream_are_what_the_cards_say(mirror: Path) -> None:
    paths = [read(mirror, f"specs/{api}_oas.json")["paths"] for api in ("tmdb", "spotify")]
    assert "/person/{person_id}/movie_credits" in paths[0]
    assert "/tracks/{id}" in paths[1]
    solutions = [record["solution"] for record in read(mirror, "datasets/tmdb.json")]
    assert sum(call != call.strip() for calls in solutions for call in calls) == 4
    assert sum(any("/search/" in call for call in calls) for calls in solutions) == 74
    assert sum(len({call.strip() for call in calls}) < len(calls) for calls in solutions) == 1


@pytest.mark.parametrize("alias", ["RestBench-TMDB", "RestBench-Spotify"])
def test_aliases(alias: str) -> None:
    assert dataset_entry(alias).card.id == alias.lower()


def small(folder: Path, records: object, document: object = None) -> Tables:
    api = {
        "openapi": "3.0.0",
        "paths": {"/film/{id}": {"get": {"operationId": "film", "description": "A film."}}, "/me": {"get": {}}},
    }
    contents = {"specs/tmdb_oas.json": api if document is None else document, "datasets/tmdb.json": records}
    return load_small(loader, folder, "restbench-tmdb", contents)


def test_small_files(tmp_path: Path) -> None:
    rows = [
        {"query": "a", "solution": [" GET /film/{id} ", "GET /film/{id}", "GET /actor"]},
        {"query": "b", "solution": ["GET /actor", "GET /actor"]},
        {"query": "c", "solution": ["GET /me"]},
    ]
    tables = small(tmp_path, rows)
    assert [(query.query_id, query.text, query.gold) for query in tables.queries] == [
        ("000", "a", {"film": 1}),
        ("002", "c", {"GET /me": 1}),
    ]
    assert tables.unknown_gold == [("000", "GET /actor"), ("001", "GET /actor")]
    assert tables.left_out == ["001"]


@pytest.mark.parametrize(
    ("records", "document", "sentence"),
    [
        ([{"query": "a", "solution": []}], None, "record 0, field solution: List should have at least 1 item"),
        ([{"query": "", "solution": ["GET /me"]}], None, "record 0, field query: String should have at least 1"),
        ([{"query": "a"}], None, "record 0, field solution: Field required"),
        ({}, None, "datasets/tmdb.json: Input should be a valid array"),
        ([], {"tools": []}, "it is not an OpenAPI document"),
    ],
)
def test_a_malformed_file_is_named(tmp_path: Path, records: object, document: object, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, records, document)
    assert sentence in str(caught.value)
