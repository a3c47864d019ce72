"""GitHub's MCP server: tools against upstream's snapshots, and what the card says of the queries and their review."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import loaded, of_upstream

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.entries import dataset_entry
from bench.data.files import Files
from bench.data.origins import synthetic
from bench.data.queryviews import ViewOptions
from bench.datasets.github_mcp import loader
from bench.registry import load_dataset

FOLDER = "github/github-mcp-server/64a49f34d076b6f5917dae1424521d43c7bcae84"
OURS = dataset_entry("github-mcp").folder


github = of_upstream("github-mcp")


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (OURS / name).read_text("utf-8").splitlines()]


def flat(tools: list[Any]) -> frozenset[str]:
    """All tools of a list of requirements."""
    return frozenset(tool for entry in tools for tool in ([entry] if isinstance(entry, str) else entry))


def test_tools_are_those_of_the_snapshots(github: Dataset, mirror: Path) -> None:
    by_tool_id = {tool.tool_id: tool for tool in github.tools}
    snapshots = [json.loads(path.read_text("utf-8")) for path in (mirror / FOLDER / loader.SNAPSHOTS).glob("*.snap")]
    assert by_tool_id.keys() == {snapshot["name"] for snapshot in snapshots}
    assert len(by_tool_id) == 117
    for snapshot in snapshots:
        tool = by_tool_id[snapshot["name"]]
        assert tool.description.split() == snapshot["description"].split()
        assert json.loads(tool.input_schema or "") == snapshot["inputSchema"]
        assert tool.title == snapshot["annotations"]["title"]
        assert tool.parent
    assert github.remarks == ()


def test_every_tool_is_asked_for_and_every_query_says_who_wrote_it(github: Dataset) -> None:
    meeting = {tool for query in github.queries for tool in query.meeting}
    assert meeting == github.tool_codes.keys()
    assert {query.origin for query in github.queries} == {"model Claude"}
    assert synthetic({"model Claude": 245}, 245) == "245 of 245 queries are written by Claude"
    assert all(query.searches for query in github.queries)
    kinds = Counter(query.slices["kind"] for query in github.queries)
    assert kinds.keys() == {"single", "confusable", "any-of", "chain", "forbidden", "no tool", "other"}
    for query in github.queries:
        kind = query.slices["kind"]
        assert (not query.gold) == (kind in {"no tool", "other"})
        assert (len(query.gold) > 1) == (kind == "chain")
        assert query.forbidden or kind != "forbidden"
        assert query.any_of or kind != "any-of"
        assert ("toolset" in query.slices) == bool(query.gold)


def test_no_gold_set_is_in_both_splits(github: Dataset) -> None:
    splits: defaultdict[frozenset[str], set[str]] = defaultdict(set)
    for query in github.queries:
        if query.gold:
            splits[frozenset(query.gold)].add(query.split)
    assert len(splits) == 156
    assert all(len(item) == 1 for item in splits.values())


def test_the_review_is_what_the_card_says(github: Dataset) -> None:
    queries = {query["id"]: query for query in lines("queries.jsonl")}
    review = lines("review.jsonl")
    assert len({row["id"] for row in review}) == len(review)
    changes = Counter(row["changed"] for row in review if "changed" in row)
    assert changes == {"tools": 11, "query": 9, "forbidden": 2}
    for row in review:
        assert ("changed" in row) == ("reason" in row)
        assert (queries[row["id"]]["tools"] != row["first"]) == (row.get("changed") == "tools")
    pairs = [(flat(row["first"]), flat(row["second"])) for row in review if "second" in row]
    tools = len(github.tools)
    assert (len(pairs), sum(one == two for one, two in pairs), len(pairs) * tools) == (81, 76, 9477)
    f1 = [2 * len(one & two) / (len(one) + len(two)) if one | two else 1.0 for one, two in pairs]
    assert sum(f1) / len(f1) == pytest.approx(0.99, abs=0.005)
    share = [sum(len(pair[i]) for pair in pairs) / (len(pairs) * tools) for i in (0, 1)]
    observed = 1 - sum(len(one ^ two) for one, two in pairs) / (len(pairs) * tools)
    expected = share[0] * share[1] + (1 - share[0]) * (1 - share[1])
    assert (observed - expected) / (1 - expected) == pytest.approx(0.97, abs=0.005)


def test_what_several_tools_do_and_what_is_forbidden(github: Dataset) -> None:
    assert sum(len(query.any_of) for query in github.queries) == 88
    assert sum(bool(query.any_of) for query in github.queries) == 78
    test = [query for query in github.queries if query.split == "test"]
    assert (sum(bool(query.forbidden) for query in test), sum(not query.gold for query in test)) == (15, 23)


def test_no_request_repeats_a_run_of_words_of_a_description(github: Dataset) -> None:
    """No four words in a row."""
    runs = {run for tool in github.tools for run in fours(tool.description)}
    for query in github.queries:
        assert not fours(query.text) & runs, query.text


def fours(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z]+", text.lower())
    return {tuple(words[i : i + 4]) for i in range(len(words) - 3)}


def test_the_views_ask_the_searches(mirror: Path, github: Dataset) -> None:
    request = {query.query_id: query for query in github.queries}
    search, searches = (loaded(f"github-mcp(view={view})") for view in ("search", "searches"))
    assert search.spec == "github-mcp(view=search)"
    assert len({data.content_hash for data in (github, search, searches)}) == 3
    for one, all_of_them in zip(search.queries, searches.queries, strict=True):
        requests = request[one.query_id]
        assert (one.text, one.calls, one.gold, one.split) == (requests.searches[0], (), requests.gold, requests.split)
        assert all_of_them.calls == (requests.searches if len(requests.searches) > 1 else ())
    again = load_dataset("github-mcp(view=searches)")
    assert [query.calls for query in again.queries] == [query.calls for query in searches.queries]


def test_a_tool_without_a_toolset_is_named(tmp_path: Path) -> None:
    paths = {}
    for name in ("get_me", "juggle"):
        paths[f"{loader.SNAPSHOTS}/{name}.snap"] = path = tmp_path / f"{name}.snap"
        path.write_text(json.dumps({"name": name, "description": "d", "inputSchema": {"type": "object"}}), "utf-8")
    with pytest.raises(DataError, match=r"toolsets\.tsv has no line for the tool 'juggle'"):
        loader.load(Files(paths, OURS), ViewOptions(), dataset_entry("github-mcp").card)
