"""Requests that need no tool: as upstream has them, added to libraries, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from kit.datasets import load_small, loaded

import bench as harness
from bench.base.errors import DataError, UsageError
from bench.data.entries import NoOptions
from bench.datasets.masstool import loader
from bench.registry import load_dataset

FOLDER = "wxydada/MassTool/24e63c1df850212d3bd94d7596b280cf475968a9"
Bench = Callable[..., Any]


def test_requests_are_those_of_upstream(mirror: Path) -> None:
    data = loaded("masstool")
    texts = [json.loads(line) for line in (mirror / FOLDER / loader.REQUESTS).read_text("utf-8").splitlines()]
    assert [query.text for query in data.queries] == texts
    assert (len(texts), len(set(texts))) == (3123, 2997)
    assert (data.queries[0].query_id, data.queries[-1].query_id) == ("0000", "3122")
    lengths = [len(text) for text in texts]
    assert (min(lengths), median(lengths), max(lengths)) == (3, 80, 3072)
    assert sum(text != text.strip() for text in texts) == 346
    assert not data.tools
    assert not data.gold.counts.any()


def test_they_are_asked_of_another_library_as_well(mirror: Path, isolated: None, tmp_path: Path) -> None:
    alone, both = load_dataset("starter"), load_dataset("starter(no_tool=MassTool)")
    assert both.spec == "starter(no_tool=masstool)"
    assert both.tools == alone.tools
    added = [query for query in both.queries if query.query_id.startswith("masstool/")]
    assert {query.split for query in added} == {"test"}
    assert [query.text for query in added] == [query.text for query in loaded("masstool").queries]
    assert [query for query in both.queries if query not in added] == list(alone.queries)
    assert both.content_hash != alone.content_hash
    assert both.card.licence.endswith("; masstool: not specified")
    assert not both.card.redistribution
    assert both.card.known_issues[0] == "3123 queries of masstool are added; no tool answers them."
    assert both.card.known_issues[1:] == alone.card.known_issues
    # Numbers on gold are those without them.
    plain, mixed = (
        harness.run("bm25", spec, results=tmp_path / "results").stored.metrics for spec in (alone.spec, both.spec)
    )
    assert (mixed.n, mixed.n_no_gold) == (plain.n, plain.n_no_gold + 3123)
    for name, value in plain.metrics.items():
        if name.partition("@")[0] not in {"auroc", "aurc", "abstained", "forbidden"}:
            assert mixed.metrics[name] == value, name
    assert mixed.metrics["auroc"].n == mixed.n + mixed.n_no_gold


def test_both_options_together(mirror: Path) -> None:
    data = loaded("starter(distractors=mcp-servers, tools=300, no_tool=masstool)")
    assert len(data.tools) == 300
    assert sum(query.query_id.startswith("masstool/") for query in data.queries) == 3123
    assert "The library is drawn (seed 0)" in data.card.known_issues[0]
    assert "3123 queries of masstool" in data.card.known_issues[1]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("starter(no_tool=github-mcp)", r"github-mcp has tools, which may answer its queries; name a set"),
        ("masstool(no_tool=masstool)", r"masstool has its own queries already; name another dataset in no_tool="),
        ("starter(no_tool=nosuch)", r"there is no dataset 'nosuch'"),
    ],
)
def test_what_is_no_set_of_queries_is_refused(mirror: Path, isolated: None, spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_dataset(spec)


def test_alone_it_can_be_looked_at_and_not_run(mirror: Path, bench: Bench) -> None:
    for words in (["info", "--all"], ["audit"], ["fetch", "--verify"]):
        assert "masstool" in bench("data", *words, "masstool").out
    told = " ".join(bench("run", "-m", "bm25", "-d", "masstool", code=2).err.split())
    assert "masstool is a set of queries without tools; add them to another dataset: DATASET(no_tool=masstool)" in told


def test_a_user_s_own_requests_are_added_from_an_export(mirror: Path, bench: Bench, tmp_path: Path) -> None:
    bench("data", "export", "masstool", "--out", str(tmp_path / "folder"))
    bench("data", "add", "chat", "--from", str(tmp_path / "folder"))
    again = load_dataset("starter(no_tool=chat)")
    assert Counter(query.query_id.partition("/")[0] for query in again.queries)["chat"] == 3123


@pytest.mark.parametrize("line", ["", '""', '"  "', "null", '{"query": "hello"}', '["hello"]', '"hello', "[" * 5000])
def test_a_line_that_is_no_text_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match=r"neg_queries_test\.jsonl, line 2: not a JSON text with something in it\."):
        load_small(loader, tmp_path, "masstool", {loader.REQUESTS: f'"hello"\n{line}\n"bye"\n'}, NoOptions())
