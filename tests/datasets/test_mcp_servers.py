"""MCP servers of Toucan: counts against upstream's files, and as distractors of LiveMCPBench."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit.datasets import loaded

from bench.base.errors import UsageError
from bench.base.spec import parse
from bench.data.dataset import Dataset
from bench.data.entries import dataset_entry
from bench.data.libraries import LibraryOptions, with_library
from bench.evaluation.plan import Plan

FOLDER = "TheAgentArk/Toucan/a1976dea7688c0f36533aa6e3a3fa4c27e017b4b"


@pytest.mark.slow("real data")
def test_tools_are_those_that_upstream_lists_and_join_livemcpbench(mirror: Path) -> None:
    # One test: the catalogue takes a second to read.
    servers = loaded("mcp-servers")
    listed: dict[str, str] = {}
    count = 0
    for path in sorted((mirror / FOLDER / "mcp_servers").iterdir()):
        about = json.loads(path.read_text("utf-8"))["metadata"]
        page, answer = about["server_info_crawled"], about.get("remote_server_response") or {}
        for record in answer.get("tools") or page["tools"]:
            count += 1
            listed.setdefault(f"{page['author']}/{record['name']}", record.get("description") or "")
    assert count == 17578
    assert {tool.tool_id: tool.description for tool in servers.tools} == listed
    assert (len(listed), len(servers.queries), len(servers.remarks)) == (17570, 0, 8)
    assert len({(tool.name, tool.description) for tool in servers.tools}) == 14982
    assert sum(not tool.description for tool in servers.tools) == 442
    with pytest.raises(UsageError, match=r"catalogue without queries.*DATASET\(distractors=mcp-servers\)"):
        Plan(parse("mcp-servers"), parse("bm25")).normal(servers)
    among(servers, loaded("livemcpbench"))


def among(servers: Dataset, values: Dataset) -> None:
    """LiveMCPBench with the tools of the catalogue: 172 of these are near-duplicates of tools that queries name."""

    def drawn(**options: object) -> Dataset:
        chosen = LibraryOptions.model_validate({"distractors": "mcp-servers", **options})
        return with_library(values, chosen, servers, "drawn")

    everything, right = drawn(), drawn(duplicates="right")
    assert (len(everything.tools), len(right.tools)) == (527 + 17570 - 172, 527 + 17570)
    assert everything.queries == values.queries
    meeting = {tool for query in right.queries for others in query.any_of.values() for tool in others}
    assert sum(tool.startswith("mcp-servers/") for tool in meeting) == 172
    assert everything.units.tolist() == right.units.tolist() == values.units.tolist()


def test_the_alias_and_the_files() -> None:
    card = dataset_entry("toucan").card
    assert (card.id, len(card.files())) == ("mcp-servers", 2121)
