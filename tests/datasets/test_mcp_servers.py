"""MCP servers of Toucan: counts against upstream's files, and as distractors of LiveMCPBench."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.data.dataset import Dataset
from bench.errors import UsageError
from bench.evaluation.plan import Plan
from bench.registry import load_dataset
from bench.registry.datasets import dataset_entry
from bench.specs.spec import parse

FOLDER = "TheAgentArk/Toucan/a1976dea7688c0f36533aa6e3a3fa4c27e017b4b"


@pytest.fixture
def servers(mirror: Path) -> Dataset:
    return load_dataset("mcp-servers")


def test_tools_are_those_that_upstream_lists(servers: Dataset, mirror: Path) -> None:
    listed: dict[str, str] = {}
    count = 0
    for path in sorted((mirror / FOLDER / "mcp_servers").iterdir()):
        about = json.loads(path.read_text("utf-8"))["metadata"]
        page, answer = about["server_info_crawled"], about.get("remote_server_response") or {}
        for record in answer.get("tools") or page["tools"]:
            count += 1
            listed.setdefault(f"{page['author']}/{record['name']}", record.get("description") or "")
    assert count == 17578
    found = {tool.tool_id: tool.description for tool in servers.tools}
    assert found == listed
    assert len(found) == 17570
    assert not servers.queries


def test_the_known_issues_are_what_the_card_says(servers: Dataset) -> None:
    assert len({(tool.name, tool.description) for tool in servers.tools}) == 14982
    assert sum(not tool.description for tool in servers.tools) == 442
    assert len(servers.remarks) == 8
    assert len(dataset_entry("toucan").card.files()) == 2121


def test_it_cannot_be_run(servers: Dataset) -> None:
    with pytest.raises(UsageError, match=r"catalogue without queries.*DATASET\(distractors=mcp-servers\)"):
        Plan(parse("mcp-servers"), parse("bm25")).normal(servers)


def test_livemcpbench_among_them(servers: Dataset) -> None:
    own = load_dataset("livemcpbench")
    everything = load_dataset("livemcpbench(distractors=toucan)")
    # 172 near-duplicates of gold tools are left out.
    assert len(everything.tools) == 527 + 17570 - 172
    assert everything.queries == own.queries
    assert everything.units.tolist() == own.units.tolist()
    right = load_dataset("livemcpbench(distractors=toucan, duplicates=right)")
    assert len(right.tools) == 527 + 17570
    more = {tool for query in right.queries for others in query.any_of.values() for tool in others}
    assert sum(tool.startswith("mcp-servers/") for tool in more) == 172
    assert right.units.tolist() == own.units.tolist()
    thousand = load_dataset("livemcpbench(distractors=toucan, tools=1000)")
    assert set(own.tool_codes) < set(thousand.tool_codes) < set(everything.tool_codes)
    assert load_dataset("livemcpbench(distractors=toucan, tools=527)").content_hash == own.content_hash
