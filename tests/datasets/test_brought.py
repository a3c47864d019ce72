"""Datasets that their users bring, from made-up files in upstream's layout."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bench
from bench.__main__ import run as command
from bench.base.errors import DataError, UnavailableError
from bench.base.paths import sha256_of
from bench.data.dataset import Dataset
from bench.data.hints import destructive_tools
from bench.data.tables import Tables
from bench.datasets.toolret import importer as toolret
from bench.datasets.ultratool import importer as ultratool
from bench.registry import dataset_entries, load_dataset

FOLDERS = ("toolret", "taskbench", "ultratool", "mcpatlas", "skillret")
IDS = {
    *("toolret", "toolret-instructed", "taskbench-huggingface", "taskbench-multimedia", "taskbench-dailylifeapis"),
    *("ultratool", "ultratool-zh", "ultratool-risk", "mcp-atlas", "skillret"),
}


def read(name: str, folder: Path) -> dict[str, Dataset]:
    """What an importer gives, built."""
    content: dict[str, Tables] = import_module(f"bench.datasets.{name}.importer").read(folder)
    return {card: Dataset.build(card, dataset_entries()[card].card, tables) for card, tables in content.items()}


def write(path: Path, *rows: Any) -> None:
    """JSON, or JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")


def table(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def gold(dataset: Dataset) -> dict[str, list[str]]:
    return {query.query_id: sorted(query.gold) for query in dataset.queries}


@pytest.mark.parametrize("name", sorted(IDS))
def test_a_dataset_that_is_not_there_says_what_to_bring(name: str, isolated: None) -> None:
    with pytest.raises(UnavailableError, match=f"bench data add {name} --from FOLDER"):
        load_dataset(name)
    card = dataset_entries()[name].card
    assert card.obtain
    assert not card.redistribution
    assert "Not measured here" in card.unit.reason


@pytest.mark.parametrize("name", FOLDERS)
def test_an_empty_folder_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        read(name, tmp_path)


# ToolRet

DOCUMENTS = {
    "one_tool_0": {"name": "add", "description": "Adds.", "parameters": {"a": {"type": "int", "description": "first"}}},
    "one_tool_1": {
        "name": "mul",
        "functionality": "Multiplies.",
        "parameters": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
    },
    "two_tool_0": {
        "name": "mail",
        "required_parameters": [{"name": "to", "type": "STRING"}],
        "optional_parameters": [],
    },
    "other": "no JSON object",
}


def write_toolret(folder: Path, statistics: dict[str, tuple[int, int, int]]) -> None:
    corpus = [
        {"id": key, "text": text if isinstance(text, str) else json.dumps(text)} for key, text in DOCUMENTS.items()
    ]
    table(folder / "one-corpus" / "test-00000-of-00001.parquet", corpus)
    queries = [{"id": f"one_query_{i}", "text": f"request {i}", "instruction": f"do {i}"} for i in range(2)]
    table(folder / "one-queries" / "test-00000-of-00001.parquet", queries)
    judged = [("one_query_0", "one_tool_0", 1), ("one_query_1", "one_tool_0", 1), ("one_query_1", "one_tool_1", 1)]
    rows = [{"query-id": query, "corpus-id": tool, "score": score} for query, tool, score in judged]
    table(folder / "one-qrels" / "test-00000-of-00001.parquet", rows)
    table(
        folder / "two-queries" / "test-00000-of-00001.parquet",
        [{"id": "two_query_0", "text": "", "instruction": None}],
    )
    rows = [{"query-id": "two_query_0", "corpus-id": "two_tool_0", "score": 2}]
    rows.append({"query-id": "two_query_0", "corpus-id": "other", "score": 0})
    table(folder / "two-qrels" / "test-00000-of-00001.parquet", rows)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two subsets in upstream's layout, with the statistics that fit them."""
    statistics = {"one": (2, 3, 2), "two": (1, 1, 1)}
    monkeypatch.setattr(toolret, "published", lambda: statistics)
    monkeypatch.setattr(toolret, "TOOLS", 4)
    write_toolret(tmp_path, statistics)
    return tmp_path


def test_the_statistics_are_those_of_35_subsets() -> None:
    # The sums that mteb states over all subsets.
    statistics = toolret.published()
    assert len(statistics) == 35
    assert sum(queries for queries, _, _ in statistics.values()) == 7961
    assert sum(judgements for _, judgements, _ in statistics.values()) == 14106


def test_toolret_is_read_without_and_with_instructions(small: Path) -> None:
    content = read("toolret", small)
    plain, instructed = content["toolret"], content["toolret-instructed"]
    assert gold(plain) == gold(instructed)
    assert gold(plain) == {
        "one_query_0": ["one_tool_0"],
        "one_query_1": ["one_tool_0", "one_tool_1"],
        "two_query_0": ["two_tool_0"],
    }
    assert [query.text for query in plain.queries] == ["request 0", "request 1", ""]
    assert [query.text for query in instructed.queries] == ["request 0 do 0", "request 1 do 1", ""]
    assert [query.slices["subset"] for query in plain.queries] == ["one", "one", "two"]
    assert dict(plain.queries[2].gold) == {"two_tool_0": 2}
    tools = {tool.tool_id: tool for tool in plain.tools}
    assert tools["one_tool_0"].text("source") == json.dumps(DOCUMENTS["one_tool_0"])
    assert [(p.name, p.type, p.description) for p in tools["one_tool_0"].parameters] == [("a", "int", "first")]
    assert (tools["one_tool_1"].name, tools["one_tool_1"].description) == ("mul", "Multiplies.")
    assert [(p.name, p.required) for p in tools["one_tool_1"].parameters] == [("x", True)]
    assert [p.name for p in tools["two_tool_0"].parameters] == ["to"]
    assert tools["two_tool_0"].category == "two"
    assert (tools["other"].name, tools["other"].text("source")) == ("other", "no JSON object")


def test_toolret_is_added_and_run(small: Path, isolated: None, tmp_path: Path) -> None:
    assert command(["data", "add", "toolret", "--from", str(small)]) == 0
    # A run leaves out no instruction, and each form is a dataset of its own.
    result = bench.run("bm25", "toolret-instructed", results=tmp_path / "results")
    assert result.stored.manifest.dataset.tools == 4
    assert result.stored.manifest.dataset.template == "source"
    assert load_dataset("toolret").card.id == "toolret"


@pytest.mark.parametrize(
    ("statistics", "tools", "said"),
    [
        ({"one": (2, 3, 2), "two": (1, 2, 1)}, 4, "two has 1 queries, 1 judgements and 1 judged tools, and mteb's"),
        ({"one": (2, 3, 2), "two": (1, 1, 1)}, 5, "has 4 tools, and mteb's statistics have 5"),
        ({"one": (2, 3, 2), "three": (1, 1, 1)}, 4, "lacks the queries of 1 of 2 subsets, first three-queries"),
    ],
)
def test_toolret_of_another_revision_is_refused(
    small: Path, monkeypatch: pytest.MonkeyPatch, statistics: dict[str, Any], tools: int, said: str
) -> None:
    monkeypatch.setattr(toolret, "published", lambda: statistics)
    monkeypatch.setattr(toolret, "TOOLS", tools)
    with pytest.raises(DataError, match=said):
        read("toolret", small)


def test_a_damaged_file_of_toolret_is_named(small: Path) -> None:
    path = small / "two-qrels" / "test-00000-of-00001.parquet"
    table(path, [{"query-id": "two_query_0", "corpus-id": "gone", "score": 1}])
    with pytest.raises(DataError, match=r"two-qrels/test-00000-of-00001.parquet, row 0: .*'gone'"):
        read("toolret", small)
    table(path, [{"query-id": "two_query_0", "score": 1}])
    with pytest.raises(DataError, match="has no column 'corpus-id'"):
        read("toolret", small)
    path.write_bytes(b"PAR1 not Parquet PAR1")
    with pytest.raises(DataError, match="is not a readable Parquet file"):
        read("toolret", small)


# TaskBench


def write_taskbench(folder: Path, rows: list[dict[str, Any]], links: list[dict[str, str]]) -> None:
    nodes = [
        {"id": "Text-to-Speech", "desc": "Says it.", "input-type": ["text"], "output-type": ["audio"]},
        {"id": "Audio_Cleaning", "desc": "Cleans.", "input-type": ["audio"], "output-type": ["audio"]},
        {"id": "send_sms", "desc": "Sends.", "parameters": [{"name": "to", "type": "string", "desc": "the number"}]},
    ]
    write(folder / "tool_desc.json", {"nodes": nodes})
    write(folder / "graph_desc.json", {"nodes": nodes, "links": links})
    write(folder / "data.json", *rows)


LINKS = [
    {"source": "Text-to-Speech", "target": "Audio_Cleaning", "type": "audio"},
    {"source": "send_sms", "target": "Text-to-Speech", "type": "complete"},
]


def test_taskbench_keeps_the_links_of_types_as_edges(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": "7",
            "type": "chain",
            "n_tools": 2,
            "user_request": "say it, clean",
            "task_nodes": [{"task": "Text-to-Speech", "arguments": []}, {"task": "Audio Cleaning", "arguments": []}],
        },
        # As on the hub: other names, and lists as texts.
        {"id": "8", "instruction": "a message", "tool_nodes": json.dumps([{"task": "send_sms"}])},
    ]
    write_taskbench(tmp_path / "data_multimedia", rows, LINKS)
    (dataset,) = read("taskbench", tmp_path).values()
    assert gold(dataset) == {"7": ["Audio_Cleaning", "Text-to-Speech"], "8": ["send_sms"]}
    assert dict(dataset.queries[0].slices) == {"type": "chain", "size": "2"}
    assert [(edge.dependent, edge.prerequisite, edge.reason, edge.note) for edge in dataset.edges] == [
        ("Audio_Cleaning", "Text-to-Speech", "result", "audio")
    ]
    tools = {tool.tool_id: tool for tool in dataset.tools}
    assert [(p.name, p.type, p.description) for p in tools["send_sms"].parameters] == [("to", "string", "the number")]
    assert [p.name for p in tools["Audio_Cleaning"].parameters] == ["audio"]
    assert tools["Audio_Cleaning"].return_names() == ("audio",)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "1", "user_request": "x", "task_nodes": [{"task": "gone"}]}, "there is no tool 'gone'"),
        ({"id": "1", "user_request": "x", "task_nodes": "[{"}, "a text that is not JSON"),
        ({"id": "1", "user_request": "x"}, "a list of nodes or links is missing"),
        ({"user_request": "x", "task_nodes": []}, "has no id"),
    ],
)
def test_a_wrong_line_of_taskbench_is_named(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    good = {"id": "0", "user_request": "x", "task_nodes": [{"task": "send_sms"}]}
    write_taskbench(tmp_path / "data_huggingface", [good, row], LINKS)
    with pytest.raises(DataError, match=f"data_huggingface/data.json, line 2.*{said}"):
        read("taskbench", tmp_path)


# UltraTool


def test_ultratool_has_the_tools_of_all_toolsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "where"}}}
    results = {"type": "object", "properties": {"status": {"type": "boolean"}}}
    first = {"name": "file_write", "description": "Writes.", "arguments": schema, "results": results}
    other = {**first, "description": "Writes otherwise."}
    second = {"name": "file_delete", "description": "Deletes.", "arguments": schema, "results": results}
    rows = [
        {
            "question": "write it\n",
            "input": [{"step": "1"}],
            "toolset": [first, second],
            "reference": [{"step": "1", "tool": "file_write", "param": {}}],
        },
        {
            "question": "write, delete",
            "toolset": [other],
            "reference": [{"tool": "file_write"}, {"tool": "file_delete"}, {"step": "2 is done"}],
        },
    ]
    write(tmp_path / "data" / "English-dataset" / "test_set" / "tool_usage.json", *rows)
    content = read("ultratool", tmp_path)
    assert list(content) == ["ultratool"]
    dataset = content["ultratool"]
    assert gold(dataset) == {"0000": ["file_write"], "0001": ["file_delete", "file_write"]}
    assert [query.text for query in dataset.queries] == ["write it", "write, delete"]
    tools = {tool.tool_id: tool for tool in dataset.tools}
    assert tools["file_write"].description == "Writes."
    assert [(p.name, p.type) for p in tools["file_write"].parameters] == [("path", "string")]
    assert tools["file_write"].return_names() == ("status",)
    labels = {"file_write": {"risk_level": 2, "description": ""}, "file_delete": {"risk_level": 4, "description": ""}}
    write(tmp_path / ultratool.LABELS, labels)
    with pytest.raises(DataError, match="is not the file that the card of ultratool-risk names"):
        read("ultratool", tmp_path)
    monkeypatch.setattr(ultratool, "SHA256", sha256_of(tmp_path / ultratool.LABELS))
    labelled = read("ultratool", tmp_path)["ultratool-risk"]
    assert labelled.queries == dataset.queries
    assert destructive_tools(labelled.tools).tolist() == [True, False]  # type: ignore[union-attr]
    write(tmp_path / "data" / "English-dataset" / "test_set" / "tool_usage.json", {**rows[1], "toolset": []})
    with pytest.raises(DataError, match="'file_write' is in no toolset"):
        read("ultratool", tmp_path)


# MCP-Atlas


def _trajectory(*names: str) -> str:
    calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
    return json.dumps([{"role": "assistant", "content": None, "tool_calls": calls}, {"role": "tool", "content": "x"}])


def test_mcp_atlas_takes_definitions_from_the_tasks_and_from_a_list(tmp_path: Path) -> None:
    files = {"name": "files_read", "description": "Reads.", "inputSchema": {"type": "object"}}
    rows = [
        {
            "TASK": "t1",
            "PROMPT": "read it",
            "ENABLED_TOOLS": json.dumps(["files_read", "web_get"]),
            "GTFA_CLAIMS": "['a']",
            "TRAJECTORY": _trajectory("files_read", "web_get", "files_read"),
        },
        {"TASK": "t2", "PROMPT": "p", "ENABLED_TOOLS": json.dumps([files]), "GTFA_CLAIMS": "", "TRAJECTORY": "[]"},
    ]
    table(tmp_path / "MCP-Atlas.parquet", rows)
    with pytest.raises(DataError, match=r"'web_get' is called and nowhere defined \(1 such tools in all\)"):
        read("mcpatlas", tmp_path)
    web = {"name": "web_get", "description": "Gets.", "input_schema": {"type": "object"}}
    write(tmp_path / "tools.json", [web])
    dataset = read("mcpatlas", tmp_path)["mcp-atlas"]
    assert gold(dataset) == {"t1": ["files_read", "web_get"], "t2": []}
    assert [tool.tool_id for tool in dataset.tools] == ["files_read", "web_get"]
    table(tmp_path / "MCP-Atlas.parquet", [{**rows[0], "TRAJECTORY": "[{"}])
    with pytest.raises(DataError, match=r"MCP-Atlas.parquet, row 0: ENABLED_TOOLS or TRAJECTORY is not JSON"):
        read("mcpatlas", tmp_path)


# SkillRet


def test_skillret_is_read_from_json_lines(tmp_path: Path) -> None:
    skills = [
        {"id": "a/x", "name": "x", "namespace": "a", "description": "Does x.", "skill_md": "# X"},
        {"id": "b/y", "name": "y", "namespace": "", "description": "Does y."},
    ]
    write(tmp_path / "data" / "skills" / "test.jsonl", *skills)
    write(tmp_path / "data" / "queries" / "test.jsonl", {"id": "q1", "query": "x please"}, {"id": "q2", "query": "y"})
    qrels = [
        {"query_id": "q1", "skill_id": "a/x", "relevance": 1},
        {"query_id": "q1", "skill_id": "b/y", "relevance": 0},
        {"query_id": "q2", "skill_id": "b/y", "relevance": 1},
    ]
    write(tmp_path / "data" / "qrels" / "test.jsonl", *qrels)
    dataset = read("skillret", tmp_path)["skillret"]
    assert gold(dataset) == {"q1": ["a/x"], "q2": ["b/y"]}
    assert [(tool.name, tool.parent) for tool in dataset.tools] == [("x", "a"), ("y", "b/y")]
    write(tmp_path / "data" / "qrels" / "test.jsonl", qrels[0], {"query_id": "q9", "skill_id": "a/x", "relevance": 1})
    with pytest.raises(DataError, match=r"qrels/test.jsonl, line 2 judges a query or a skill that is not there"):
        read("skillret", tmp_path)


def test_a_small_file_that_would_fill_the_memory_is_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.data.parquet._LARGEST_BROUGHT", 32 << 20)
    path = small / "two-queries" / "test-00000-of-00001.parquet"
    text = "long " * 10_000
    table(path, [{"id": f"two_query_{number}", "text": text, "instruction": text} for number in range(2_000)])
    assert path.stat().st_size < 1 << 20
    with pytest.raises(DataError, match=r"would take \d+ MiB of memory or more"):
        read("toolret", small)
