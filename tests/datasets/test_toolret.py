"""Four subsets of ToolRet against upstream's files and mteb's published statistics, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import load_small, loaded

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.datasets.toolret import loader
from bench.datasets.toolret.importer import published

FOLDER = "LittleDinoC/MFTR/c3f4d40a560a3017200141c3de0fff66e2dcbe8f"
#: Of the queries of each subset in mteb's descriptive statistics of ToolRetrieval: characters in all, of the shortest
#: and of the longest.
CHARACTERS = {
    "apibank": (6317, 26, 144),
    "apigen": (108303, 20, 525),
    "gorilla-huggingface": (65231, 15, 263),
    "toolink": (105957, 18, 763),
}
SUBSETS = pytest.mark.parametrize("subset", CHARACTERS)


def read(mirror: Path, subset: str, name: str) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads((mirror / FOLDER / loader.FOLDER / subset / name).read_text("utf-8"))
    return content


@SUBSETS
def test_counts_are_those_that_mteb_publishes(mirror: Path, subset: str) -> None:
    dataset = loaded(f"toolret-{subset}")
    judged = [tool for query in dataset.queries for tool in query.gold]
    assert (len(dataset.queries), len(judged), len(set(judged))) == published()[subset]
    lengths = [len(query.text) for query in dataset.queries]
    assert (sum(lengths), min(lengths), max(lengths)) == CHARACTERS[subset]


@SUBSETS
def test_rows_are_those_of_upstream(mirror: Path, subset: str) -> None:
    dataset = loaded(f"toolret-{subset}")
    tools = {tool.tool_id: tool for tool in dataset.tools}
    records = read(mirror, subset, "tools.json")
    assert len(tools) == len(records)
    for record in records:
        tool, documentation = tools[record["id"]], record["documentation"]
        assert json.loads(tool.text("source")) == documentation
        # One function has neither.
        code = documentation.get("func_description", "").strip()
        assert tool.name == (documentation["name"] or tool.tool_id)
        assert tool.description == (documentation["description"].strip() or code)
    queries = {query.query_id: query for query in dataset.queries}
    for record in read(mirror, subset, "queries.json"):
        query = queries.pop(record["id"])
        assert query.text == record["query"]
        assert query.gold == {label["id"]: label["relevance"] for label in record["labels"]}
    assert not queries


@SUBSETS
def test_instructions_stand_behind_the_queries(mirror: Path, subset: str) -> None:
    instructed = {query.query_id: query for query in loaded(f"toolret-{subset}(instruction=true)").queries}
    for record in read(mirror, subset, "queries.json"):
        assert instructed[record["id"]].text == f"{record['query']} {record['instruction']}"
    assert loaded(f"toolret-{subset}").content_hash != loaded(f"toolret-{subset}(instruction=true)").content_hash


def test_parameters_are_read(mirror: Path) -> None:
    tools = {tool.tool_id: tool for tool in loaded("toolret-apigen").tools}
    assert [parameter.name for parameter in tools["apigen_tool_3604"].parameters] == [
        *("statisticstype", "isshared", "tradetype", "periodtype")
    ]
    counts = Counter(bool(tool.parameters) for tool in loaded("toolret-gorilla-huggingface").tools)
    assert counts[False] == 548


def test_the_requests_of_api_bank_are_first_turns_of_its_dialogues(mirror: Path) -> None:
    subset, whole = loaded("toolret-apibank"), loaded("apibank(query_view=first)")
    assert subset.source == whole.source == "apibank"
    names = {tool.tool_id: tool.name for tool in subset.tools}
    assert set(names.values()) == whole.tool_codes.keys()
    turns = {query.text: query for query in whole.queries}
    gold = [({names[tool] for tool in query.gold}, set(turns[query.text].gold)) for query in subset.queries]
    assert (len(gold), sum(ours == theirs for ours, theirs in gold)) == (101, 99)


def test_one_template_of_toolink_makes_seventy_tasks(mirror: Path) -> None:
    dataset: Dataset = loaded("toolret-toolink")
    unit, size = Counter(dataset.units.tolist()).most_common(1)[0]
    assert size == 70
    texts = [query.text for query, of in zip(dataset.queries, dataset.units.tolist(), strict=True) if of == unit]
    assert all("closing parenthes" in text for text in texts)


TOOL = {"id": "t", "documentation": {"name": "add", "description": "Adds."}, "type": "code"}
LABEL = {"id": "t", "doc": {}, "relevance": 1}
QUERY = {"id": "q", "query": "one and one", "instruction": "Given", "labels": [LABEL], "category": "code"}


@pytest.mark.parametrize(
    ("name", "records", "message"),
    [
        ("tools.json", [TOOL | {"documentation": "text"}], r"tools\.json, record 0, field documentation: .*"),
        ("tools.json", [TOOL, TOOL | {"id": ""}], r"tools\.json, record 1, field id: .*"),
        ("tools.json", {"t": TOOL}, r"tools\.json: .*"),
        ("queries.json", [QUERY | {"labels": []}], r"queries\.json, record 0, field labels: .*"),
        ("queries.json", [QUERY | {"labels": [LABEL | {"relevance": 0}]}], r"queries\.json, record 0, field labels.*"),
        ("queries.json", [QUERY | {"query": None}], r"queries\.json, record 0, field query: .*"),
        ("queries.json", [QUERY | {"turns": []}], r"queries\.json, record 0, field turns: .*"),
    ],
)
def test_files_in_another_form_are_refused(tmp_path: Path, name: str, records: Any, message: str) -> None:
    content = {"tools.json": [TOOL], "queries.json": [QUERY], name: records}
    contents = {f"{loader.FOLDER}/toolink/{file}": rows for file, rows in content.items()}
    with pytest.raises(DataError, match=message):
        load_small(loader, tmp_path, "toolret-toolink", contents)
