"""MetaTool's multi-tool queries: upstream's counts, its splits, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from kit.datasets import built, digest, load_small, loaded, of_upstream

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.derive import bundle_id
from bench.data.entries import dataset_entry
from bench.data.tables import Tables
from bench.datasets.metatool import loader

PTR = "GHupppp/PTR/5d3a96faeefe5a5f084edf1c1c4a855a8ae6713f"
METATOOL = "HowieHwong/MetaTool/35e81bb7576826e980c80fed8f8c0a2b4a1e6fbb"


def bundles(dataset: Dataset, split: str) -> list[str]:
    return [bundle_id(query.gold) for query in dataset.queries if query.split == split]


metatool = of_upstream("metatool")


def test_counts(metatool: Dataset) -> None:
    assert len(metatool.tools) == 47
    assert len(metatool.queries) == 497
    assert Counter(metatool.gold.counts.tolist()) == {2: 497}
    assert [len(metatool.rows(split)) for split in ("train", "dev", "test")] == [398, 0, 99]
    assert all(tool.parent == tool.name == tool.tool_id and tool.category == "" for tool in metatool.tools)


def test_tools(metatool: Dataset) -> None:
    chosen = [(i, metatool.tools[i]) for i in (0, 9, 23, 46)]
    assert [(i, tool.tool_id, digest(tool.text("name_description"))) for i, tool in chosen] == [
        (0, "BookTool", "b9e96884f36f77ab"),
        (9, "ExchangeTool", "b03332d736a3048a"),
        (23, "NASATool", "af4efa50d9915296"),
        (46, "local", "a3608dc97f9d9db5"),
    ]
    assert metatool.card.template == "name_description"


def test_queries(metatool: Dataset) -> None:
    chosen = [(i, metatool.queries[i]) for i in (0, 9, 248, 496)]
    assert [(i, query.query_id, sorted(query.gold), digest(query.text)) for i, query in chosen] == [
        (0, "000", ["FinanceTool", "NewsTool"], "b88394acd2a60276"),
        (9, "009", ["FinanceTool", "PDF&URLTool"], "5040e7761a7879b1"),
        (248, "248", ["MusicTool", "PDF&URLTool"], "26e2a42def17a003"),
        (496, "496", ["Discount", "ProductSearch"], "8e5953c116ab7c2c"),
    ]


def test_the_two_upstreams_agree(mirror: Path) -> None:
    """PTR's copy has the same queries with the same gold in another order, and MetaTool's own library."""
    ours = json.loads((mirror / METATOOL / loader.QUERIES).read_text("utf-8"))
    theirs = json.loads((mirror / PTR / "src/Datasets/MetaTool_QT.json").read_text("utf-8"))
    assert ours != theirs
    assert {(record["query"], *sorted(record["tool"])) for record in ours} == {
        (record["query"], *sorted(record["tool"])) for record in theirs
    }
    assert len(ours) == len(theirs)
    copy = mirror / PTR / "src/Datasets/MetaTool_tool.json"
    assert copy.read_bytes() == (mirror / METATOOL / loader.LIBRARY).read_bytes()


def test_the_known_issues_are_what_the_card_says(metatool: Dataset) -> None:
    train, test = bundles(metatool, "train"), bundles(metatool, "test")
    assert len({*train, *test}) == 88
    assert sum(bundle in train for bundle in test) == 94
    assert (len(set(test)), len(set(test) & set(train))) == (58, 54)
    assert len({tool for query in metatool.queries for tool in query.gold}) == 15
    texts = [query.text for query in metatool.queries]
    assert len(set(texts)) == 497
    assert sum(text.startswith('"') for text in texts) == 130
    assert sum(text != text.strip() for text in texts) == 11
    neighbours = zip(metatool.queries, metatool.queries[1:], strict=False)
    assert sum(before.gold == after.gold for before, after in neighbours) == 343


def test_ptrs_copy_has_the_same_queries_and_leaks_one_bundle(mirror: Path, metatool: Dataset) -> None:
    ptr = loaded("metatool-ptr")
    assert ptr.tools == metatool.tools
    whole = {(q.text, bundle_id(q.gold)) for q in metatool.queries}
    assert {(q.text, bundle_id(q.gold)) for q in ptr.queries if q.text} == whole
    assert [q.query_id for q in ptr.queries if q.split == "test"] == [f"{number:03}" for number in range(100)]
    (leaked,) = [q for q in ptr.queries if not q.text]
    assert (leaked.query_id, leaked.split, sorted(leaked.gold)) == ("bundle-0", "train", ["ResearchHelper", "TripTool"])
    assert [q.query_id for q in ptr.queries if q.gold == leaked.gold and q.text] == ["008"]
    assert set(bundles(ptr, "test")) <= set(bundles(ptr, "train"))
    assert len(set(bundles(ptr, "test"))) == 62


@pytest.mark.parametrize(
    ("spec", "train", "test", "chosen"),
    [
        ("metatool", 398, 99, "619f61409c5543fe"),
        ("metatool(seed=1)", 398, 99, "daa1103892a29d28"),
        ("metatool(test_share=0.5)", 249, 248, "1a9c6cdd40e8c83d"),
        ("metatool(split=bundle-disjoint)", 399, 98, "1c45b5b5dada20ed"),
    ],
)
def test_splits_never_change(mirror: Path, spec: str, train: int, test: int, chosen: str) -> None:
    dataset = built(spec)
    assert dataset.spec == spec
    assert (len(dataset.rows("train")), len(dataset.rows("test"))) == (train, test)
    assert digest("\n".join(query.query_id for query in dataset.queries if query.split == "test")) == chosen


def test_bundle_disjoint(mirror: Path) -> None:
    dataset = loaded("metatool(split=bundle-disjoint)")
    assert not set(bundles(dataset, "train")) & set(bundles(dataset, "test"))


@pytest.mark.parametrize("alias", ["MetaTool", "metatool-multi"])
def test_aliases(alias: str) -> None:
    assert dataset_entry(alias).card.id == "metatool"


def small(folder: Path, **changed: str) -> Tables:
    """Load two tools and two queries of our own; `changed` replaces a file: queries or library."""
    records = [{"query": "a", "tool": ["B", "A"]}, {"query": "b", "tool": ["B"]}]
    content = {"queries": json.dumps(records), "library": '{"A": "makes a", "B": "makes b"}', **changed}
    contents = {loader.QUERIES: content["queries"], loader.LIBRARY: content["library"]}
    return load_small(loader, folder, "metatool", contents)


def test_small_files(tmp_path: Path) -> None:
    tables = small(tmp_path)
    assert [(tool.tool_id, tool.parent, tool.description) for tool in tables.tools] == [
        ("A", "A", "makes a"),
        ("B", "B", "makes b"),
    ]
    assert [(q.query_id, q.text, q.gold) for q in tables.queries] == [
        ("000", "a", {"A": 1, "B": 1}),
        ("001", "b", {"B": 1}),
    ]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("queries", "", "multi_tool_query_golden.json: Invalid JSON"),
        (
            "queries",
            '[{"query": "a", "tool": ["A", 1]}]',
            "golden.json, record 0, field tool: Input should be a valid str",
        ),
        ("queries", '[{"query": "a", "tool": ["A"]}, 3]', "golden.json, record 1: Input should be an object"),
        ("library", '["A"]', "big_tool_des.json: Input should be an object"),
        ("library", '{"A": 1}', "big_tool_des.json, record A: Input should be a valid string"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, **{name: content})
    assert sentence in str(caught.value)


def test_a_gold_tool_without_description_is_refused(tmp_path: Path) -> None:
    tables = small(tmp_path, library='{"A": "makes a"}')
    with pytest.raises(DataError, match="query 000: gold tool 'B' is not in the library"):
        Dataset.build("metatool", dataset_entry("metatool").card, tables)
