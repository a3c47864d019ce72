"""ToolLens: upstream's counts, how a corpus text is taken apart, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kit.datasets import digest, load_small, loaded, of_upstream

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.entries import NoOptions, dataset_entry
from bench.data.tables import Parameter, Tables
from bench.datasets.toollens import loader

NAMES = ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv", "qrels/test.tsv")
TEXT = (
    "category_name:Things, tool_name:A, the first, api_name:get/x, api_description:Gets x., "
    'required_params: [{"name": "n", "type": "STRING", "description": "a name"}], optional_params: [], '
    'return_schema: {"x": {"y": "str"}}'
)


toollens = of_upstream("toollens")


def test_counts(toollens: Dataset) -> None:
    assert len(toollens.tools) == 464
    assert len({tool.parent for tool in toollens.tools}) == 314
    assert len({(tool.category, tool.parent) for tool in toollens.tools}) == 314
    assert len({(tool.category, tool.parent, tool.name) for tool in toollens.tools}) == 464
    assert len({tool.category for tool in toollens.tools}) == 19
    assert [len(toollens.rows(split)) for split in ("train", "dev", "test")] == [16893, 0, 1877]
    sizes = toollens.gold.counts
    assert [int((sizes == size).sum()) for size in range(5)] == [0, 1617, 3224, 13929, 0]
    assert len(toollens.gold.tools) == 44865 + 4987


def test_ptrs_library_has_parents_for_tools(mirror: Path, toollens: Dataset) -> None:
    ptr = loaded("toollens-ptr")
    assert len(ptr.tools) == 314
    assert [(q.query_id, q.text, q.split) for q in ptr.queries] == [
        (q.query_id, q.text, q.split) for q in toollens.queries
    ]
    parents = {tool.tool_id: tool.parent for tool in toollens.tools}
    renamed = {parent for parent in parents.values() if parent not in ptr.tool_codes}
    assert len(renamed) == 7
    fewer = 0
    for mine, theirs in zip(ptr.queries, toollens.queries, strict=True):
        needed = {parents[tool] for tool in theirs.gold}
        assert len(mine.gold) == len(needed)
        assert needed - renamed <= set(mine.gold)
        fewer += len(needed) < len(theirs.gold)
    assert fewer == 1185
    chosen = [(tool.tool_id, digest(tool.description)) for tool in ptr.tools if tool.tool_id in {"Movie", "Kubric"}]
    assert chosen == [("Kubric", "20f94b4e708bd566"), ("Movie", "fbe981867249e826")]
    # A description is the start of one that the last API of the parent has.
    last = {tool.parent: tool.description for tool in sorted(toollens.tools, key=lambda tool: int(tool.tool_id))}
    starts = [re.split("[,:]", text.replace("\n", ""))[0].strip() for text in last.values()]
    assert sum(tool.description in starts for tool in ptr.tools) >= 302


def test_tools(toollens: Dataset) -> None:
    collected = [
        (i, t.tool_id, t.category, t.parent, t.name, len(t.parameters), digest(t.text("source")))
        for i, t in enumerate(toollens.tools)
        if i in {0, 9, 232, 463}
    ]
    assert collected == [
        (0, "0", "Food", "Worldwide Recipes", "Suggestions", 1, "beff3f747c9f0aaa"),
        (9, "106", "Food", "Recipe Finder", "dinner/ingredient", 1, "7cb12d971444b899"),
        (232, "307", "Finance", "Hryvna Today", "/v1/rates/banks", 0, "03485b7efac5d5eb"),
        (463, "99", "Health_and_Fitness", "Scoring Tables API", "/marks/men/", 0, "e8e88bd4d6b6eee3"),
    ]


def test_queries(toollens: Dataset) -> None:
    collected = [
        (i, q.query_id, q.split, sorted(q.gold), digest(q.text))
        for i, q in enumerate(toollens.queries)
        if i in {0, 9, 9385, 18769}
    ]
    assert collected == [
        (0, "0", "train", ["19", "75", "8"], "b3a64b5283af107a"),
        (9, "10004", "train", ["30", "31", "75"], "7adb9aed2035fdd5"),
        (9385, "18444", "train", ["329", "406", "75"], "7133533d2a4fbfee"),
        (18769, "9999", "train", ["17", "255", "75"], "a153c9bf3f13a6d2"),
    ]
    assert toollens.queries[toollens.query_codes["1084"]].split == "test"


def test_every_text_comes_apart_and_together_again(toollens: Dataset) -> None:
    """The parsed fields give the source text back, character for character."""
    for tool in toollens.tools:
        required, optional = (
            json.dumps([p.to_schema() for p in tool.parameters if p.required is kind], ensure_ascii=False)
            for kind in (True, False)
        )
        returns = '""' if tool.returns is None else tool.returns
        assert tool.source == (
            f"category_name:{tool.category}, tool_name:{tool.parent}, api_name:{tool.name}, "
            f"api_description:{tool.description}, required_params: {required}, optional_params: {optional}, "
            f"return_schema: {returns}"
        )


def test_the_known_issues_are_what_the_card_says(toollens: Dataset) -> None:
    assert toollens.card.template == "source"
    assert toollens.seen_tools.all()
    bundles = {split: {frozenset(q.gold) for q in toollens.queries if q.split == split} for split in ("train", "test")}
    assert [len(bundles["train"]), len(bundles["test"]), len(bundles["train"] | bundles["test"])] == [463, 457, 463]
    cut = [tool.tool_id for tool in toollens.tools if tool.returns and tool.returns.startswith('"')]
    assert cut == ["302", "307", "309", "310", "386", "420", "67"]
    for tool_id in cut:
        with pytest.raises(json.JSONDecodeError):
            json.loads(json.loads(toollens.tools[toollens.tool_codes[tool_id]].returns or ""))
    assert sum(tool.returns is None for tool in toollens.tools) == 119
    assert sum(tool.returns == "{}" for tool in toollens.tools) == 12
    assert sum(not tool.parameters for tool in toollens.tools) == 252
    assert sum(tool.name.lower() == tool.description.strip().lower() for tool in toollens.tools) == 24
    assert len({tool.description for tool in toollens.tools}) == 459
    assert len({tool.parent for tool in toollens.tools if tool.parent.endswith(" ")}) == 4
    assert int((toollens.gold.tools == toollens.tool_codes["75"]).sum()) == 3983


def test_alias_and_options() -> None:
    entry = dataset_entry("ToolLens")
    assert entry.card.id == "toollens"
    assert entry.own_options() is NoOptions


def small(folder: Path, **changed: str) -> Tables:
    """Load two tools and two queries of our own; `changed` replaces a file: corpus, queries, train or test."""
    content = {
        "corpus": "\n".join(json.dumps({"_id": i, "title": "", "text": TEXT, "metadata": {}}) for i in ("0", "1")),
        "queries": '{"_id": "7", "text": "do\u2028x", "metadata": {}}\n{"_id": "8", "text": "do y", "metadata": {}}\n',
        "train": "query-id\tcorpus-id\tscore\n7\t0\t1\n7\t1\t1\n7\t0\t1\n",
        "test": "query-id\tcorpus-id\tscore\n8\t1\t2",
        **changed,
    }
    contents = {f"datasets/ToolLens/{name}": content[Path(name).stem] for name in NAMES}
    return load_small(loader, folder, "toollens", contents)


def corpus(text: str) -> str:
    return json.dumps({"_id": "0", "text": text}) + "\n" + json.dumps({"_id": "1", "text": TEXT})


def test_small_files(tmp_path: Path) -> None:
    tables = small(tmp_path)
    tool = tables.tools[0]
    assert (tool.category, tool.parent, tool.name, tool.description) == ("Things", "A, the first", "get/x", "Gets x.")
    assert tool.parameters == (Parameter("n", "STRING", "a name", True),)
    assert tool.return_names() == ("x", "y")
    assert [(q.query_id, q.text, q.gold, q.split) for q in tables.queries] == [
        ("7", "do\u2028x", {"0": 1, "1": 1}, "train"),
        ("8", "do y", {"1": 2}, "test"),
    ]


def test_a_description_may_hold_labels_and_json(tmp_path: Path) -> None:
    awkward = "Takes [1, 2], tool_name:no, required_params: [], optional_params: [], return_schema: {} and more"
    tool = small(tmp_path, corpus=corpus(TEXT.replace("Gets x.", awkward))).tools[0]
    assert tool.description == awkward
    assert tool.parent == "A, the first"
    assert tool.return_names() == ("x", "y")


def test_optional_parameters_and_no_schema(tmp_path: Path) -> None:
    text = (
        "category_name:C, tool_name:P, api_name:N, api_description:, required_params: [], "
        'optional_params: [{"name": "o", "type": "ENUM", "description": "a, b"}], return_schema: ""'
    )
    tool = small(tmp_path, corpus=corpus(text)).tools[0]
    assert tool.description == ""
    assert tool.parameters == (Parameter("o", "ENUM", "a, b", False),)
    assert tool.returns is None


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("corpus", '{"_id": "0", "text": "x"', "corpus.jsonl, line 1: Invalid JSON"),
        ("corpus", '{"_id": 0, "text": "x"}', "corpus.jsonl, line 1: _id: Input should be a valid string"),
        ("corpus", '{"_id": "0"}', "corpus.jsonl, line 1: text: Field required"),
        ("corpus", corpus("tool_name:A"), "corpus.jsonl, line 1: the text does not begin with category_name"),
        ("corpus", corpus(TEXT[:-1]), "corpus.jsonl, line 1: the text does not end with required_params"),
        ("corpus", corpus(TEXT + "."), "corpus.jsonl, line 1: the text does not end with required_params"),
        ("corpus", corpus(TEXT.replace('"name": ', '"nom": ')), "line 1: required_params: 0.name: Field required"),
        ("corpus", corpus(TEXT.replace("[]", "{}")), "line 1: optional_params: Input should be a valid array"),
        ("corpus", corpus(TEXT.replace('{"x"', "[" * 100_000)), "line 1: the text does not end with"),
        ("queries", '\n{"_id": "7", "text": ""}', "queries.jsonl, line 2: text: String should have at least 1"),
        ("queries", '{"_id": "9", "text": "z"}', "line 1: query 9 is in none of datasets/ToolLens/qrels/train.tsv"),
        ("queries", '{"_id": "7", "text": "z"}', "qrels/test.tsv: query 8 is not in datasets/ToolLens/queries.jsonl"),
        ("train", "7\t0\t1\n", "qrels/train.tsv does not begin with the columns"),
        ("train", "query-id\tcorpus-id\tscore\n7\t0", "qrels/train.tsv, line 2: not a query, a tool and a relevance"),
        ("train", "query-id\tcorpus-id\tscore\n7\t0\t0", "qrels/train.tsv, line 2: not a query, a tool"),
        ("train", "query-id\tcorpus-id\tscore\n7\t0\t1\n7\t0\t2", "train.tsv, line 3: query 7 has tool 0 with another"),
        ("test", "query-id\tcorpus-id\tscore\n7\t0\t1\n8\t0\t1", "query 7 is in both of"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, **{name: content})
    assert sentence in str(caught.value)
