"""Seal-Tools: counts against upstream's files, how a record is read, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import load_small, loaded, of_upstream

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.entries import NoOptions, dataset_entry
from bench.data.hints import destructive_tools
from bench.data.risk import RiskOptions
from bench.data.tables import Parameter, Tables
from bench.datasets.sealtools import loader

FOLDER = "fairyshine/Seal-Tools/ce753ecd60ed08dd376984035de531ab8421f1c6/Seal-Tools_Dataset"


LABELS = f"qli447/risk-aware-tool-retrieval-release/bdfd2739d91871bb70e2a8af242259a5863b260e/{loader.LABELS}"


def lines(mirror: Path, name: str) -> list[Any]:
    with open(mirror / FOLDER / f"{name}.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


sealtools = of_upstream("sealtools")


def test_counts(sealtools: Dataset) -> None:
    assert [len(sealtools.rows(split)) for split in ("train", "dev", "test")] == [0, 700, 1354]
    assert Counter(query.slices.get("domain") for query in sealtools.queries) == {
        None: 700,
        "in-domain": 700,
        "out-of-domain": 654,
    }
    assert len(sealtools.tools) == 4076
    assert len({tool.category for tool in sealtools.tools}) == 146
    assert len({(tool.category, tool.parent) for tool in sealtools.tools}) == 2276


def test_tools_are_those_of_upstream(sealtools: Dataset, mirror: Path) -> None:
    upstream = {record["api_name"]: record for record in lines(mirror, "tool")}
    assert upstream.keys() == sealtools.tool_codes.keys()
    for tool in sealtools.tools:
        record = upstream[tool.tool_id]
        assert (tool.name, tool.description) == (record["api_name"], record["api_description"])
        assert f"{tool.category}/{tool.parent}" == record["field"]
        assert [p.name for p in tool.parameters] == list(record["parameters"])
        assert {p.name for p in tool.parameters if p.required} == set(record["required"])
        assert json.loads(tool.returns or "") == record["responses"]
        assert set(tool.return_names()) >= record["responses"].keys()


def test_queries_are_those_of_upstream(sealtools: Dataset, mirror: Path) -> None:
    upstream = {q["id"]: q for name in ("dev", "test_in_domain", "test_out_domain") for q in lines(mirror, name)}
    assert len(upstream) == len(sealtools.queries) == 2054
    for query in sealtools.queries:
        record = upstream[query.query_id]
        assert query.text == record["query"]
        assert set(query.gold) == {call["api"] for call in record["calling"]}
        assert set(query.gold.values()) == {1}


def test_the_known_issues_are_what_the_card_says(sealtools: Dataset) -> None:
    gold = {query.query_id: frozenset(query.gold) for query in sealtools.queries}
    assert len(set(gold.values())) == 2054
    used = {
        name: {tool for query in sealtools.queries if query.query_id.startswith(name) for tool in query.gold}
        for name in ("dev", "test_in", "test_out")
    }
    assert [len(tools) for tools in used.values()] == [1355, 1341, 1034]
    assert (len(used["test_in"] & used["test_out"]), len(used["dev"] & used["test_out"])) == (382, 399)
    assert len(sealtools.tools) - len(set.union(*used.values())) == 1489
    single = Counter(query.slices.get("domain") for query in sealtools.queries if len(query.gold) == 1)
    assert single == {None: 200, "in-domain": 200, "out-of-domain": 94}
    category = {tool.tool_id: tool.category for tool in sealtools.tools}
    several = [(len({category[tool] for tool in tools}), len(tools)) for tools in gold.values() if len(tools) > 1]
    assert (len(several), sum(item > 1 for item, _ in several)) == (1560, 1534)
    assert sum(item == size for item, size in several) == 1178
    shared: dict[str, list[str]] = {}
    for tool in sealtools.tools:
        shared.setdefault(tool.description, []).append(tool.tool_id)
    groups = [tools for tools in shared.values() if len(tools) > 1]
    result = Counter(len(set.union(*used.values()).intersection(tools)) for tools in groups)
    assert (sum(map(len, groups)), result) == (41, {0: 5, 1: 10, 2: 5})
    assert sum(not tool.parameters for tool in sealtools.tools) == 226
    assert sum(query.text != query.text.strip() for query in sealtools.queries) == 17
    assert sum(" api" in query.text.lower() for query in sealtools.queries) == 50
    assert sum("/" in tool.parent for tool in sealtools.tools) == 16


@pytest.mark.parametrize(("options", "count"), [("", 72), ("(destructive=4)", 21), ("(destructive=2)", 1269)])
def test_labels_of_risk_are_annotations(sealtools: Dataset, mirror: Path, options: str, count: int) -> None:
    labelled = loaded(f"sealtools-risk{options}")
    labels = json.loads((mirror / LABELS).read_text("utf-8"))
    risks = {tool.tool_id: json.loads(tool.annotations or "")["risk"] for tool in labelled.tools}
    assert risks == {name: label["risk_level"] for name, label in labels.items()}
    assert Counter(risks.values()) == {1: 2807, 2: 1197, 3: 51, 4: 20, 5: 1}
    destructive = destructive_tools(labelled.tools)
    assert destructive is not None
    assert destructive.sum() == count
    assert labelled.remarks == ()
    # Nothing else differs, and without labels nothing is said of what tools may destroy.
    assert tuple(replace(tool, annotations=None) for tool in labelled.tools) == sealtools.tools
    assert labelled.queries == sealtools.queries
    assert labelled.source == sealtools.source
    assert destructive_tools(sealtools.tools) is None


@pytest.mark.parametrize("alias", ["Seal-Tools", "SEAL-TOOLS"])
def test_aliases(alias: str) -> None:
    assert dataset_entry(alias).card.id == "sealtools"


TOOL = {
    "api_name": "bake",
    "api_description": "Bakes.",
    "field": "Food/Bread/Rolls",
    "parameters": {
        "flour": {"type": "str", "description": "kind", "example": "rye"},
        "minutes": {"type": "int", "description": "time", "default": 8},
    },
    "required": ["flour"],
    "responses": {"loaf": {"type": "str", "description": "the loaf"}},
}
CALL = {"api": "bake", "parameters": {}, "responses": []}
QUERY = {"id": "q", "query": "Two loaves.", "calling": [CALL, CALL]}


def small(folder: Path, tool: object = TOOL, query: object = QUERY, labels: object = None) -> Tables:
    contents = dict.fromkeys(loader.QUERIES, "") | {loader.LIBRARY: tool, min(loader.QUERIES): query}
    options = NoOptions() if labels is None else RiskOptions()
    return load_small(loader, folder, "sealtools", contents | {loader.LABELS: labels}, options)


def test_a_record_is_read(tmp_path: Path) -> None:
    tables = small(tmp_path)
    (tool,) = tables.tools
    assert (tool.tool_id, tool.category, tool.parent) == ("bake", "Food", "Bread/Rolls")
    assert tool.parameters == (
        Parameter("flour", "str", "kind", True),
        Parameter("minutes", "int", "time", False, "8"),
    )
    assert tool.return_names() == ("loaf",)
    (query,) = tables.queries
    assert (query.gold, query.split, query.slices) == ({"bake": 1}, "dev", {})


def test_what_labels_and_tools_do_not_share_is_counted(tmp_path: Path) -> None:
    tables = small(tmp_path, labels={"eat": {"risk_level": 5, "description": "Eats."}})
    assert tables.tools[0].annotations is None
    assert tables.remarks == [
        (loader.LABELS, "tools without a label of risk: 1"),
        (loader.LABELS, "labels of no tool: 1"),
    ]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"tool": "{"}, "tool.jsonl, line 1: Invalid JSON"),
        ({"tool": {**TOOL, "field": "Food"}}, "tool.jsonl, line 1: field: String should match pattern"),
        ({"tool": {**TOOL, "required": ["salt"]}}, "the required parameter 'salt' is not among the parameters"),
        ({"tool": {**TOOL, "parameters": []}}, "tool.jsonl, line 1: parameters: Input should be"),
        ({"query": {**QUERY, "calling": []}}, "dev.jsonl, line 1: calling: List should have at least 1 item"),
        ({"query": {**QUERY, "more": 1}}, "dev.jsonl, line 1: more: Extra inputs"),
        ({"labels": {"bake": {"risk_level": 6, "description": ""}}}, "record bake, field risk_level: Input should be"),
        ({"labels": {"bake": {"risk_level": 1, "description": "", "by": ""}}}, "record bake, field by: Extra inputs"),
        ({"query": {**QUERY, "query": ""}}, "dev.jsonl, line 1: query: String should have at least 1 character"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, changed: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, **changed)
    assert sentence in str(caught.value)
