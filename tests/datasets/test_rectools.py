"""RecTools: upstream's counts, its splits, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from kit.datasets import built, digest, load_small, loaded, of_upstream

from bench.base.errors import DataError, UsageError
from bench.data.dataset import Dataset
from bench.data.derive import bundle_id
from bench.data.tables import Tables
from bench.datasets.rectools import loader


def bundles(dataset: Dataset, split: str) -> list[str]:
    return [bundle_id(query.gold) for query in dataset.queries if query.split == split]


rectools = of_upstream("rectools")


def test_counts(rectools: Dataset) -> None:
    assert len(rectools.tools) == 47
    assert len(rectools.queries) == 1000
    assert Counter(rectools.gold.counts.tolist()) == dict.fromkeys(range(1, 11), 100)
    assert Counter(query.slices["size"] for query in rectools.queries) == {f"{n:02}": 100 for n in range(1, 11)}
    assert all(int(query.slices["size"]) == len(query.gold) for query in rectools.queries)
    assert [len(rectools.rows(split)) for split in ("train", "dev", "test")] == [800, 0, 200]


def test_every_tool_is_its_own_collection(rectools: Dataset) -> None:
    assert all(tool.parent == tool.name == tool.tool_id and tool.category == "" for tool in rectools.tools)


def test_tools(rectools: Dataset) -> None:
    chosen = [(i, rectools.tools[i]) for i in (0, 9, 23, 46)]
    assert [(i, tool.tool_id, digest(tool.text("name_description"))) for i, tool in chosen] == [
        (0, "BookTool", "b9e96884f36f77ab"),
        (9, "ExchangeTool", "b03332d736a3048a"),
        (23, "NASATool", "af4efa50d9915296"),
        (46, "local", "a3608dc97f9d9db5"),
    ]
    assert rectools.card.template == "name_description"


def test_queries(rectools: Dataset) -> None:
    chosen = [(i, rectools.queries[i]) for i in (0, 9, 500, 999)]
    assert [(i, query.query_id, len(query.gold), digest(query.text)) for i, query in chosen] == [
        (0, "000", 9, "bd37978f73702f11"),
        (9, "009", 5, "6f1d4125aeb895e5"),
        (500, "500", 6, "72fa399b29886652"),
        (999, "999", 1, "75fa96163f7ef608"),
    ]
    assert sorted(rectools.queries[999].gold) == ["NewsTool"]
    assert sorted(rectools.queries[500].gold) == [
        "DietTool",
        "ProductComparison",
        "ResearchHelper",
        "StrologyTool",
        "TripAdviceTool",
        "VideoSummarizeTool",
    ]


def test_the_known_issues_are_what_the_card_says(rectools: Dataset) -> None:
    texts = [query.text for query in rectools.queries]
    assert Counter(bundles(rectools, "train") + bundles(rectools, "test")).most_common()[-1][1] == 5
    assert len({bundle_id(query.gold) for query in rectools.queries}) == 200
    assert set(bundles(rectools, "test")) <= set(bundles(rectools, "train"))
    assert len(set(bundles(rectools, "test"))) == 133
    assert [i for i, text in enumerate(texts) if not text.strip("*")] == [140, 400]
    again = Counter(texts)
    assert [i for i, text in enumerate(texts) if again[text] > 1] == [140, 400, 931, 932, 965, 969]
    assert rectools.queries[931].gold == rectools.queries[932].gold
    assert rectools.queries[965].gold == rectools.queries[969].gold
    assert sum("**" in text for text in texts) == 113
    assert sum(text.startswith("**") for text in texts) == 34
    assert sum(text.startswith("**\n\n") for text in texts) == 4
    assert sum("\n" in text.strip("*\n ") for text in texts) == 94


@pytest.mark.parametrize(
    ("spec", "train", "chosen"),
    [
        ("rectools", 800, "3862b6f75e4acb1b"),
        ("rectools(seed=1)", 800, "d5a3099ab837ca07"),
        ("rectools(test_share=0.5)", 500, "75edb395a06d2670"),
        ("rectools(split=bundle-disjoint)", 800, "2b76d268b15f30ea"),
    ],
)
def test_splits_never_change(mirror: Path, spec: str, train: int, chosen: str) -> None:
    dataset = built(spec)
    assert dataset.spec == spec
    assert len(dataset.rows("train")) == train
    assert digest("\n".join(query.query_id for query in dataset.queries if query.split == "test")) == chosen


def test_bundle_disjoint(mirror: Path) -> None:
    dataset = loaded("rectools(split=bundle-disjoint)")
    assert not set(bundles(dataset, "train")) & set(bundles(dataset, "test"))
    assert len(set(bundles(dataset, "test"))) == 40


def test_ptrs_split_tests_the_first_hundred_and_hides_no_bundle(mirror: Path, rectools: Dataset) -> None:
    ptr = loaded("rectools-ptr")
    assert ptr.tools == rectools.tools
    assert [(q.query_id, q.text, q.gold) for q in ptr.queries] == [
        (q.query_id, q.text, q.gold) for q in rectools.queries
    ]
    assert [q.query_id for q in ptr.queries if q.split == "test"] == [f"{number:03}" for number in range(100)]
    # The released list of past bundles, made of all queries, is that of the other 900.
    assert len(set(bundles(ptr, "train"))) == 200
    assert len(set(bundles(ptr, "test"))) == 80
    # Requests for one tool come last in the file, so that none is tested.
    assert [int(q.query_id) for q in rectools.queries if len(q.gold) == 1] == list(range(900, 1000))


def test_alias_and_options(mirror: Path) -> None:
    assert loaded("RecTools(seed=0)").spec == "rectools"
    with pytest.raises(UsageError, match="parameter 'test_share' of dataset rectools is 1"):
        loaded("rectools(test_share=1)")


def small(folder: Path, **changed: str) -> Tables:
    """Load two tools and three queries of our own; `changed` replaces a file: queries or library."""
    records = [
        {"query": "**\n\nmake a", "tool": ["A"]},
        {"query": "b", "tool": ["B"]},
        {"query": "c", "tool": ["B", "A"]},
    ]
    content = {"queries": json.dumps(records), "library": '{"A": "makes a", "B": "makes b"}', **changed}
    contents = {loader.QUERIES: content["queries"], loader.LIBRARY: content["library"]}
    return load_small(loader, folder, "rectools", contents)


def test_small_files(tmp_path: Path) -> None:
    tables = small(tmp_path)
    assert [tool.text("name_description") for tool in tables.tools] == ["A: makes a", "B: makes b"]
    assert [(q.query_id, q.text, q.gold, q.slices) for q in tables.queries] == [
        ("000", "**\n\nmake a", {"A": 1}, {"size": "01"}),
        ("001", "b", {"B": 1}, {"size": "01"}),
        ("002", "c", {"A": 1, "B": 1}, {"size": "02"}),
    ]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("queries", "[{", "RecTools_QT.json: Invalid JSON"),
        ("queries", "{}", "RecTools_QT.json: Input should be a valid array"),
        ("queries", '[{"query": "a", "tool": ["A"]}, {"query": "b"}]', "RecTools_QT.json, record 1, field tool: Field"),
        ("queries", '[{"query": "", "tool": ["A"]}]', "record 0, field query: String should have at least 1 character"),
        ("queries", '[{"query": "a", "tool": []}]', "record 0, field tool: List should have at least 1 item"),
        ("queries", '[{"query": "a", "tool": "A"}]', "record 0, field tool: Input should be a valid array"),
        ("queries", '[{"query": "a", "tool": ["A"], "n": 1}]', "record 0, field n: Extra inputs are not permitted"),
        ("queries", '[{"query": "a\\ud800", "tool": ["A"]}]', "RecTools_QT.json: Invalid JSON"),
        ("library", '{"A": "makes a", "B": null}', "RecTools_tool.json, record B: Input should be a valid string"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, **{name: content})
    assert sentence in str(caught.value)
