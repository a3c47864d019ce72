"""LiveMCPBench: counts against upstream's files, names of several servers, absent names, and what is refused."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import load_small, of_upstream

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.tables import Tables
from bench.datasets.livemcpbench import loader

FOLDER = "icip-cas/LiveMCPBench/a928e57d1ee7a25579b9a7036030faffff72d15b"


live = of_upstream("livemcpbench")


def read(mirror: Path, name: str) -> Any:
    return json.loads((mirror / FOLDER / name).read_text("utf-8"))


def test_tools_are_those_of_upstream(live: Dataset, mirror: Path) -> None:
    by_tool_id = {tool.tool_id: tool for tool in live.tools}
    listed = {
        f"{server}/{tool['name']}": (entry["category"], server, tool)
        for entry in read(mirror, "tools/LiveMCPTool/tools.json")
        for server, answer in entry["tools"].items()
        for tool in answer["tools"]
    }
    assert by_tool_id.keys() == listed.keys()
    assert len(by_tool_id) == 527
    for name, (category, server, record) in listed.items():
        tool = by_tool_id[name]
        assert (tool.category, tool.parent, tool.name) == (category, server, record["name"])
        assert tool.description.split() == (record["description"] or "").split()
        assert json.loads(tool.input_schema or "") == record["inputSchema"]
    assert len({(tool.category, tool.parent) for tool in live.tools}) == 70


def test_tasks_are_those_of_upstream(live: Dataset, mirror: Path) -> None:
    servers: defaultdict[str, set[str]] = defaultdict(set)
    for tool in live.tools:
        servers[tool.name].add(tool.tool_id)
    tasks = {task["task_id"]: task for task in read(mirror, "annotated_data/all_annotations.json")}
    assert len(tasks) == 95
    absent = set()
    for query in live.queries:
        task = tasks.pop(query.query_id)
        assert (query.text, query.slices) == (task["Question"], {"task": task["category"]})
        names = re.findall(r"\d\. +(.+)", task["Annotator Metadata"]["Tools"])
        absent |= {(query.query_id, name) for name in names if name not in servers}
        requirements = {frozenset({tool, *query.any_of.get(tool, ())}) for tool in query.gold}
        assert requirements == {frozenset(servers[name]) for name in names if name in servers}
    assert [task["Annotator Metadata"]["Tools"] for task in tasks.values()] == ["1. get_maven_latest_version"]
    assert absent | {(next(iter(tasks)), "get_maven_latest_version")} == set(live.unknown_gold)


def test_the_known_issues_are_what_the_card_says(live: Dataset) -> None:
    assert sum(bool(query.any_of) for query in live.queries) == 25
    several = Counter(tool for query in live.queries for tool in query.any_of)
    assert (several.total(), several["desktop-commander/write_file"]) == (29, 18)
    assert sorted((query[:8], tool) for query, tool in live.unknown_gold) == [
        ("4d7582c4", "execute_command"),
        ("6b7fc66e", "trial_references"),
        ("71a7a42a", "open_document"),
        ("a984d31b", "ddg-search"),
        ("de75630e", "get_maven_latest_version"),
    ]
    assert {"biomcp/trial_references_getter", "duckduckgo-search/duckduckgo_web_search"} <= live.tool_codes.keys()
    assert sum(not tool.description.strip() for tool in live.tools) == 19
    assert sum(re.search("[\u4e00-\u9fff]", tool.description) is not None for tool in live.tools) == 61


def server(name: str, *tools: str) -> dict[str, object]:
    listed = [{"name": tool, "description": f"does {tool}", "inputSchema": {"type": "object"}} for tool in tools]
    return {"name": f"the {name}", "description": "d", "category": "C", "tools": {name: {"tools": listed}}}


def task(tools: str) -> dict[str, object]:
    return {"task_id": "t", "Question": "Do it.", "category": "Office", "Annotator Metadata": {"Tools": tools}}


def small(folder: Path, *tasks: object, library: object = None) -> Tables:
    content = library if library is not None else [server("a", "read", "write"), server("b", "read")]
    return load_small(loader, folder, "livemcpbench", {loader.LIBRARY: content, loader.TASKS: tasks})


def test_a_name_of_several_servers_is_any_of_them(tmp_path: Path) -> None:
    tables = small(tmp_path, task("1. read\n2.  write\n3. read\n4. fly"))
    (query,) = tables.queries
    assert query.gold == {"a/read": 1, "a/write": 1}
    assert query.any_of == {"a/read": ("b/read",)}
    assert (tables.unknown_gold, tables.left_out) == ([("t", "fly")], [])


def test_a_task_of_absent_tools_is_left_out(tmp_path: Path) -> None:
    tables = small(tmp_path, task("1. fly"))
    assert (list(tables.queries), tables.unknown_gold, tables.left_out) == ([], [("t", "fly")], ["t"])


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (task("read"), "record 0: a line of `Tools` is no number with the name of a tool"),
        (task("1. read\n\n2. write"), "record 0: a line of `Tools` is no number"),
        (task(""), "record 0: a line of `Tools` is no number"),
        ({**task("1. read"), "Question": ""}, "record 0, field Question: String should have at least 1 character"),
        ({"task_id": "t"}, "record 0, field Question: Field required"),
    ],
)
def test_a_malformed_task_is_named(tmp_path: Path, row: object, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, row)
    assert sentence in str(caught.value)


def test_a_malformed_server_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tools.json, record 0, field category: Field required"):
        small(tmp_path, library=[{"name": "a", "tools": {}}])
