"""MetaTool's single-tool queries: upstream's counts, its splits, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from kit.datasets import built, digest, load_small, loaded, of_upstream

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.entries import dataset_entry
from bench.data.tables import Tables
from bench.datasets.metatool_single import loader


def gold_of(dataset: Dataset) -> list[str]:
    return [tool for query in dataset.queries for tool in query.gold]


single = of_upstream("metatool-single")


def test_counts(single: Dataset) -> None:
    assert len(single.tools) == 199
    assert len(single.queries) == 20614
    assert Counter(single.gold.counts.tolist()) == {1: 20614}
    assert [len(single.rows(split)) for split in ("train", "dev", "test")] == [16491, 0, 4123]
    assert all(tool.parent == tool.name == tool.tool_id and tool.category == "" for tool in single.tools)


def test_every_tool_has_queries_and_every_gold_tool_a_description(single: Dataset) -> None:
    assert set(gold_of(single)) == single.tool_codes.keys()
    assert all(tool.description for tool in single.tools)


def test_tools(single: Dataset) -> None:
    chosen = [(i, single.tools[i]) for i in (0, 9, 99, 198)]
    assert [(i, tool.tool_id, digest(tool.text("name_description"))) for i, tool in chosen] == [
        (0, "ABCmouse", "b8be6de4063c3b12"),
        (9, "AusSurfReport", "e79363ecc842b4ea"),
        (99, "VideoSummarizeTool", "e7dda45481e39707"),
        (198, "wpinteract", "a286ca490afbe195"),
    ]
    assert single.card.template == "name_description"


def test_queries(single: Dataset) -> None:
    chosen = [(i, single.queries[i]) for i in (0, 9, 10307, 20613)]
    assert [(i, query.query_id, list(query.gold), digest(query.text)) for i, query in chosen] == [
        (0, "00000", ["ResearchHelper"], "9005197d4a6ee654"),
        (9, "00009", ["ResearchFinder"], "d7e6426efd40b521"),
        (10307, "10307", ["timeport"], "3c884788161177cf"),
        (20613, "20613", ["ShoppingAssistant"], "36dce925202e708f"),
    ]


def test_the_known_issues_are_what_the_card_says(single: Dataset) -> None:
    texts = Counter(query.text for query in single.queries)
    assert len(texts) == 20550
    assert sum(count > 1 for count in texts.values()) == 50
    assert len({(query.text, *query.gold) for query in single.queries}) == 20614 - 51
    tools: dict[str, set[str]] = {}
    for query in single.queries:
        tools.setdefault(query.text, set()).update(query.gold)
    conflicts = [text for text, names in tools.items() if len(names) > 1]
    assert (len(conflicts), sum(texts[text] for text in conflicts)) == (11, 27)
    assert Counter(gold_of(single)).most_common(1) == [("FinanceTool", 1122)]
    assert Counter(gold_of(single)).most_common()[-1] == ("ProductComparison", 12)
    train = {query.text for query in single.queries if query.split == "train"}
    assert sum(query.text in train for query in single.queries if query.split == "test") == 17
    assert single.seen_tools.all()
    assert sum(next(iter(query.gold)).lower() in query.text.lower() for query in single.queries) == 762
    assert sum(text != text.strip() for text in (query.text for query in single.queries)) == 766
    assert [query.query_id for query in single.queries if "\n" in query.text] == ["05923"]


@pytest.mark.parametrize(
    ("spec", "train", "chosen"),
    [
        ("metatool-single", 16491, "54deac66e9e721df"),
        ("metatool-single(split=bundle-disjoint)", 16747, "7401f92b2fb6c1b2"),
    ],
)
def test_splits_never_change(mirror: Path, spec: str, train: int, chosen: str) -> None:
    dataset = built(spec)
    assert len(dataset.rows("train")) == train
    assert digest("\n".join(query.query_id for query in dataset.queries if query.split == "test")) == chosen


def test_bundle_disjoint_leaves_every_tested_tool_unseen(mirror: Path) -> None:
    dataset = loaded("metatool-single(split=bundle-disjoint)")
    assert int(dataset.seen_tools.sum()) == 159
    assert not dataset.seen_tools[dataset.gold.take(dataset.rows("test")).tools].any()


@pytest.mark.parametrize("alias", ["MetaTool-single", "ToolE-single"])
def test_aliases(alias: str) -> None:
    assert dataset_entry(alias).card.id == "metatool-single"


def small(folder: Path, **changed: str) -> Tables:
    """Load two tools and three queries of our own; `changed` replaces a file: queries or library."""
    content = {
        "queries": 'Query,Tool\na?,A\n"b, and ""c""\nthen d",B\na?,B\n',
        "library": '{"A": "makes a", "B": "makes b"}',
        **changed,
    }
    contents = {loader.QUERIES: content["queries"], loader.LIBRARY: content["library"]}
    return load_small(loader, folder, "metatool-single", contents)


def test_small_files_keep_repeated_texts_apart(tmp_path: Path) -> None:
    tables = small(tmp_path)
    assert [(tool.tool_id, tool.parent, tool.description) for tool in tables.tools] == [
        ("A", "A", "makes a"),
        ("B", "B", "makes b"),
    ]
    assert [(q.query_id, q.text, q.gold) for q in tables.queries] == [
        ("00000", "a?", {"A": 1}),
        ("00001", 'b, and "c"\nthen d', {"B": 1}),
        ("00002", "a?", {"B": 1}),
    ]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("queries", "", "all_clean_data.csv does not begin with the columns Query and Tool"),
        ("queries", "a?,A\n", "all_clean_data.csv does not begin with the columns Query and Tool"),
        ("queries", "Query,Tool\na?,A\nb?\n", "all_clean_data.csv, line 3: not a query and a tool, both non-empty"),
        ("queries", "Query,Tool\na?,A,B\n", "all_clean_data.csv, line 2: not a query and a tool"),
        ("queries", "Query,Tool\n,A\n", "all_clean_data.csv, line 2: not a query and a tool"),
        ("queries", "Query,Tool\na?,C\n", "line 2: the tool 'C' is not in dataset/plugin_des.json"),
        ("queries", 'Query,Tool\n"a?,A\n', "all_clean_data.csv, line 2: unexpected end of data"),
        ("queries", 'Query,Tool\n"a"?,A\n', "all_clean_data.csv, line 2: ',' expected after '\"'"),
        ("library", "{", "plugin_des.json: Invalid JSON"),
        ("library", '{"A": []}', "plugin_des.json, record A: Input should be a valid string"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, **{name: content})
    assert sentence in str(caught.value)
