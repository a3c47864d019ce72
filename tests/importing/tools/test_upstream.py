"""Published catalogues, whole: how many tools each has, and what the import and the audit tell of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import pytrec_eval
from kit.validation import count_findings

import bench
from bench.base.errors import DataError
from bench.importing.queries import queries_of
from bench.importing.tools.catalogue import Source, read_catalogue
from bench.registry.catalogues import import_sources

GITHUB = "github/github-mcp-server/64a49f34d076b6f5917dae1424521d43c7bcae84/pkg/github/__toolsnaps__"
LIVE = "icip-cas/LiveMCPBench/a928e57d1ee7a25579b9a7036030faffff72d15b/tools/LiveMCPTool/tools.json"
TOUCAN = "TheAgentArk/Toucan/a1976dea7688c0f36533aa6e3a3fa4c27e017b4b/mcp_servers"
RESTBENCH = "Yifan-Song793/RestGPT/d99012860cb45323975bf5780152d7aa44f390f5"


@pytest.fixture
def upstream(mirror: Path) -> Path:
    """The mirror of upstream's files."""
    if not all((mirror / path).exists() for path in (GITHUB, LIVE, TOUCAN, RESTBENCH)):
        pytest.skip("the mirror has no catalogues")
    return mirror


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
    assert count_findings(data) == {
        "empty-description": 0,
        "duplicate-description": 0,
        "identical-tools": 0,
        "shared-name": 0,
        "invalid-schema": 0,
        "confusable": 4,
    }


def test_the_servers_of_livemcpbench(upstream: Path) -> None:
    data = import_sources("live", [upstream / LIVE])
    assert len(data.tools) == 527
    assert len({tool.parent for tool in data.tools}) == 70
    assert sum(tool.returns is not None for tool in data.tools) == 104
    assert data.remarks == ()
    assert count_findings(data)["shared-name"] == 30


@pytest.mark.parametrize(
    ("name", "tools", "parents", "queries", "fault"),
    [
        (
            "tmdb",
            54,
            12,
            100,
            "tmdb, entry 99: tools: there is no tool 'GET /person/{movie_id}/movie_credits' (near: "
            "GET_person-person_id-movie_credits, ",
        ),
        ("spotify", 40, 7, 57, "spotify, entry 40: tools: there is no tool 'GET /track/{id}' (near: get-track, "),
    ],
)
def test_the_apis_of_restbench_with_their_queries(
    upstream: Path, name: str, tools: int, parents: int, queries: int, fault: str
) -> None:
    """Its queries name operations by method and path; one in each file names an operation that the API has not."""
    catalogue = read_catalogue([Source(upstream / RESTBENCH / "specs" / f"{name}_oas.json")])
    assert (len(catalogue.tools), len({tool.parent for tool in catalogue.tools}), catalogue.remarks) == (
        tools,
        parents,
        (),
    )
    rows = json.loads((upstream / RESTBENCH / "datasets" / f"{name}.json").read_text("utf-8"))
    named = [(f"entry {n}", {"query": row["query"], "tools": row["solution"]}) for n, row in enumerate(rows, start=1)]
    with pytest.raises(DataError) as caught:
        queries_of(named, catalogue.tools, name)
    assert str(caught.value).startswith(fault)
    place = fault.split(", ")[1].partition(":")[0]
    requests = queries_of([row for row in named if row[0] != place], catalogue.tools, name)
    assert (len(rows), len(requests)) == (queries, queries - 1)


@pytest.mark.parametrize("name", ["tmdb", "spotify"])
def test_numbers_on_restbench_are_those_of_trec_eval(upstream: Path, tmp_path: Path, name: str) -> None:
    """As users import it: the OpenAPI document and a file of queries; scored by pytrec_eval from the stored ranking."""
    places = [upstream / RESTBENCH / "specs" / f"{name}_oas.json"]
    known = {f"{about['method']} {about['path']}" for about in _operations(places[0])}
    rows = json.loads((upstream / RESTBENCH / "datasets" / f"{name}.json").read_text("utf-8"))
    by_keies = [{"query": row["query"], "tools": [tool.strip() for tool in row["solution"]]} for row in rows]
    lines = [json.dumps(row) for row in by_keies if known.issuperset(row["tools"])]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    data = bench.import_tools(f"rest-{name}", places, tmp_path / "q.jsonl")
    assert len(data.queries) == len(rows) - 1
    result = bench.run("bm25", data.spec)
    run: dict[str, dict[str, float]] = {query.query_id: {} for query in data.queries}
    table = pq.read_table(Path(result.folder) / "run.parquet")
    columns = (table[column].to_pylist() for column in ("query_id", "tool_id", "rank"))
    for query, tool, rank in zip(*columns, strict=True):
        run[query][tool] = -float(rank)
    qrels = {query.query_id: dict(query.gold) for query in data.queries}
    measures = {"recall@5": "recall_5", "ndcg@10": "ndcg_cut_10", "map@100": "map_cut_100", "precision@5": "P_5"}
    scores = pytrec_eval.RelevanceEvaluator(qrels, {"recall.5", "ndcg_cut.10", "map_cut.100", "P.5"}).evaluate(run)
    for metric, measure in measures.items():
        theirs = sum(values[measure] for values in scores.values()) / len(qrels)
        assert result.mean(metric) == pytest.approx(theirs, abs=1e-9), metric


def _operations(document: Path) -> list[dict[str, str]]:
    tools = read_catalogue([Source(document)]).tools
    return [json.loads(tool.annotations) for tool in tools if tool.annotations]


@pytest.mark.slow("real data")
def test_the_servers_of_toucan(upstream: Path) -> None:
    with pytest.raises(DataError, match=r"two tools have the id '@samihalawa/visual-ui-debug-agent-mcp/batch_"):
        import_sources("servers", [upstream / TOUCAN])
    data = import_sources("servers", [upstream / TOUCAN], drop_duplicates=True)
    assert len(list((upstream / TOUCAN).iterdir())) == 2120
    # 17,578 tools are listed; eight servers list one of theirs twice, five of them in equal words.
    assert len(data.tools) == 17570
    reasons = sorted(remark.partition(" mcp_servers/")[0] for _, remark in data.remarks)
    assert reasons == ["it has the id of"] * 3 + ["it is equal to"] * 5
