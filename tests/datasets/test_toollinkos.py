"""ToolLinkOS: counts against upstream's files, its dependencies as edges, what is gold, and what is refused."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import load_small, loaded, of_upstream

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Parameter, Tables
from bench.datasets.toollinkos import loader

FOLDER = "EliasLumer/Graph-RAG-Tool-Fusion-ToolLinkOS/b630b98656e25c3b83a71ea0406572add38ae46d/toollinkos"


def read(mirror: Path, *names: str) -> list[Any]:
    return [record for name in names for record in json.loads((mirror / FOLDER / f"{name}.json").read_text("utf-8"))]


linked = of_upstream("toollinkos")


def test_tools_are_those_of_upstream(linked: Dataset, mirror: Path) -> None:
    records = {record["name"]: record for record in read(mirror, "regular_tools", "core_tools")}
    assert records.keys() == linked.tool_codes.keys()
    assert len(linked.tools) == 573
    for tool in linked.tools:
        record = records[tool.tool_id]
        assert (tool.name, tool.description, tool.parent) == (record["name"], record["description"], record["name"])
        assert [(p.name, p.type, p.required) for p in tool.parameters] == [
            (p["name"], p.get("type", ""), p.get("required", True)) for p in record["parameters"]
        ]


def test_queries_are_those_of_upstream(linked: Dataset, mirror: Path) -> None:
    main = loaded("toollinkos(gold=main)")
    records = read(mirror, "instances")
    assert len(records) == len(linked.queries) == len(main.queries) == 1569
    for number, record in enumerate(records):
        assert linked.queries[number].query_id == main.queries[number].query_id == f"{number:04}"
        assert linked.queries[number].text == record["user_query"]
        assert set(linked.queries[number].gold) == set(record["golden_function_names"])
        assert list(main.queries[number].gold) == [record["main_golden_function_name"]]


def test_edges_are_the_dependencies_of_upstream(linked: Dataset, mirror: Path) -> None:
    listed = [
        (record["name"], each["name"], each["dependence_type"])
        for record in read(mirror, "regular_tools", "core_tools")
        for each in record["depends_on"]
    ]
    assert (len(listed), len(set(listed))) == (1496, 1494)
    assert {(edge.dependent, edge.prerequisite, edge.note) for edge in linked.edges} == set(listed)
    kinds = Counter(kind for _, _, kind in set(listed))
    assert {kind: kinds[kind] for kind in loader.TYPES} == {
        "TOOL_DIRECTLY_DEPENDS_ON": 675,
        "TOOL_INDIRECTLY_DEPENDS_ON": 175,
        "PARAMETER_DIRECTLY_DEPENDS_ON": 403,
        "PARAMETER_INDIRECTLY_DEPENDS_ON": 239,
        "PARAMETER_DEPENDS_ON": 2,
    }
    assert {(edge.reason, edge.note.partition("_")[0]) for edge in linked.edges} == {
        ("verification", "TOOL"),
        ("result", "PARAMETER"),
    }


@pytest.mark.parametrize(
    ("edges", "count"), [("tool", 850), ("parameter", 644), ("direct", 1078), ("indirect", 414), ("none", 0)]
)
def test_edges_of_a_kind(linked: Dataset, edges: str, count: int) -> None:
    chosen = loaded(f"toollinkos(edges={edges})")
    assert len(chosen.edges) == count
    assert set(chosen.edges) <= set(linked.edges)
    marks = {
        "tool": "TOOL_",
        "parameter": "PARAMETER_",
        "direct": "_DIRECTLY_",
        "indirect": "_INDIRECTLY_",
        "none": "-",
    }
    assert set(chosen.edges) == {edge for edge in linked.edges if marks[edges] in edge.note}


def test_the_known_issues_are_what_the_card_says(linked: Dataset, mirror: Path) -> None:
    used = Counter(tool for query in linked.queries for tool in query.gold)
    assert dict(used.most_common(2)) == {"get_wifi_status": 1254, "set_wifi_status": 1254}
    assert used.keys() == linked.tool_codes.keys()
    needs: defaultdict[str, set[str]] = defaultdict(set)
    for edge in linked.edges:
        needs[edge.dependent].add(edge.prerequisite)

    def reached(start: str) -> set[str]:
        distinct: set[str] = set()
        pending = [start]
        while pending:
            for tool in needs[pending.pop()] - distinct:
                distinct.add(tool)
                pending.append(tool)
        return distinct

    assert sum(tool in reached(tool) for tool in linked.tool_codes) == 41
    mains = [record["main_golden_function_name"] for record in read(mirror, "instances")]
    compared: Counter[str] = Counter()
    for query, main in zip(linked.queries, mains, strict=True):
        closed = {main} | reached(main)
        compared["all" if closed == set(query.gold) else "part"] += 1
        assert closed >= set(query.gold)
    assert compared == {"all": 1047, "part": 522}
    assert set(Counter(mains).values()) == {3}
    assert len(set(mains)) == 523
    assert set(mains).isdisjoint(record["name"] for record in read(mirror, "core_tools"))
    texts = Counter(query.text for query in linked.queries)
    assert sum(count for count in texts.values() if count > 1) == 17


TOOLS: list[dict[str, object]] = [
    {
        "name": "post",
        "description": "Posts.",
        "parameters": [
            {"name": "to", "description": "whom", "enum": ["a"], "default": "a", "required": False},
            {"name": "text", "type": "string", "description": "what"},
        ],
        "depends_on": [
            {"name": "find", "dependence_type": "PARAMETER_DIRECTLY_DEPENDS_ON"},
            {"name": "find", "dependence_type": "PARAMETER_INDIRECTLY_DEPENDS_ON"},
        ],
    },
    {"name": "find", "description": "Finds.", "parameters": [], "depends_on": []},
]
ROW = {"user_query": "Post it.", "main_golden_function_name": "post", "golden_function_names": ["find", "post"]}


def small(folder: Path, tools: object = TOOLS, rows: object = (ROW,), **options: str) -> Tables:
    regular, core = loader.LIBRARY
    contents = {regular: tools, core: [], loader.QUERIES: rows}
    return load_small(loader, folder, "toollinkos", contents, loader.Options.model_validate(options))


def test_small_files(tmp_path: Path) -> None:
    tables = small(tmp_path)
    assert tables.tools[0].parameters == (
        Parameter("to", "", "whom", False, '"a"'),
        Parameter("text", "string", "what", True),
    )
    assert tables.queries[0].gold == {"find": 1, "post": 1}
    # The first of two dependencies on one tool is kept.
    assert tables.edges == [Edge("post", "find", "result", "PARAMETER_DIRECTLY_DEPENDS_ON")]
    other = small(tmp_path, gold="main", edges="indirect")
    assert other.queries[0].gold == {"post": 1}
    assert other.edges == [Edge("post", "find", "result", "PARAMETER_INDIRECTLY_DEPENDS_ON")]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"rows": [{**ROW, "golden_function_names": ["find"]}]}, "record 0: the main tool is not gold"),
        ({"rows": [{**ROW, "more": 1}]}, "record 0, field more: Extra inputs"),
        ({"tools": [{"name": "a"}]}, "record 0, field description: Field required"),
        (
            {"tools": [{**TOOLS[0], "depends_on": [{"name": "find", "dependence_type": "LIKES"}]}]},
            "post depends on find in a way that is not known",
        ),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, changed: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, **changed)  # type: ignore[arg-type]
    assert sentence in str(caught.value)
