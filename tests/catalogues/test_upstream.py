"""Published catalogues, whole: how many tools each has, and what the import and the audit tell of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.catalogues.catalogue import Source, read_catalogue
from bench.catalogues.queries import queries_of
from bench.checks.dataset import audit
from bench.data.dataset import Dataset
from bench.errors import DataError
from bench.registry.importing import import_sources

GITHUB = "github/github-mcp-server/64a49f34d076b6f5917dae1424521d43c7bcae84/pkg/github/__toolsnaps__"
LIVE = "icip-cas/LiveMCPBench/a928e57d1ee7a25579b9a7036030faffff72d15b/tools/LiveMCPTool/tools.json"
TOUCAN = "TheAgentArk/Toucan/a1976dea7688c0f36533aa6e3a3fa4c27e017b4b/mcp_servers"
RESTBENCH = "Yifan-Song793/RestGPT/d99012860cb45323975bf5780152d7aa44f390f5"


@pytest.fixture
def upstream(mirror: Path) -> Path:
    if not all((mirror / path).exists() for path in (GITHUB, LIVE, TOUCAN, RESTBENCH)):
        pytest.skip("the mirror has no catalogues")
    return mirror


def counts(dataset: Dataset) -> dict[str, int]:
    return {finding.check: finding.count for finding in audit(dataset)}


def test_the_snapshots_of_the_github_server(upstream: Path) -> None:
    data = import_sources("gh", [upstream / GITHUB])
    assert len(data.tools) == len(list((upstream / GITHUB).iterdir())) == 117
    assert (data.tools[0].tool_id, data.tools[-1].tool_id) == ("actions_get", "update_pull_request_title")
    tool = next(tool for tool in data.tools if tool.name == "projects_write")
    assert tool.title == "Manage GitHub Projects"
    assert {p.name: p.type for p in tool.parameters}["filter"] == "string or null"
    raw = json.loads((upstream / GITHUB / "projects_write.snap").read_text("utf-8"))
    assert tool.schema() == raw["inputSchema"]
    assert data.remarks == ()
    assert counts(data) == {
        "empty-description": 0,
        "duplicate-description": 0,
        "identical-tools": 0,
        "shared-name": 0,
        "invalid-schema": 0,
    }


def test_the_servers_of_livemcpbench(upstream: Path) -> None:
    data = import_sources("live", [upstream / LIVE])
    assert len(data.tools) == 527
    assert len({tool.parent for tool in data.tools}) == 70
    assert sum(tool.returns is not None for tool in data.tools) == 104
    assert data.remarks == ()
    assert counts(data)["shared-name"] == 30


@pytest.mark.parametrize(
    ("name", "tools", "parents", "queries", "fault"),
    [
        (
            "tmdb",
            54,
            12,
            100,
            "tmdb, entry 99: there is no tool 'GET /person/{movie_id}/movie_credits' (near: "
            "GET_person-person_id-movie_credits, ",
        ),
        ("spotify", 40, 7, 57, "spotify, entry 40: there is no tool 'GET /track/{id}' (near: get-track, "),
    ],
)
def test_the_apis_of_restbench_with_their_queries(
    upstream: Path, name: str, tools: int, parents: int, queries: int, fault: str
) -> None:
    """Its queries name operations by method and path; one in each file names an operation that the API has not."""
    found = read_catalogue([Source(upstream / RESTBENCH / "specs" / f"{name}_oas.json")])
    assert (len(found.tools), len({tool.parent for tool in found.tools}), found.remarks) == (tools, parents, ())
    rows = json.loads((upstream / RESTBENCH / "datasets" / f"{name}.json").read_text("utf-8"))
    named = [(f"entry {n}", {"query": row["query"], "tools": row["solution"]}) for n, row in enumerate(rows, start=1)]
    with pytest.raises(DataError) as caught:
        queries_of(named, found.tools, name)
    assert str(caught.value).startswith(fault)
    place = fault.split(", ")[1].partition(":")[0]
    asked = queries_of([row for row in named if row[0] != place], found.tools, name)
    assert (len(rows), len(asked)) == (queries, queries - 1)


def test_the_servers_of_toucan(upstream: Path) -> None:
    with pytest.raises(DataError, match=r"two tools have the id '@samihalawa/visual-ui-debug-agent-mcp/batch_"):
        import_sources("toucan", [upstream / TOUCAN])
    data = import_sources("toucan", [upstream / TOUCAN], drop_duplicates=True)
    assert len(list((upstream / TOUCAN).iterdir())) == 2120
    # 17,578 tools are listed; eight servers list one of theirs twice, five of them in equal words.
    assert len(data.tools) == 17570
    reasons = sorted(remark.partition(" mcp_servers/")[0] for _, remark in data.remarks)
    assert reasons == ["it has the id of"] * 3 + ["it is equal to"] * 5
