from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import digest, load_small, loaded

from bench.base.errors import DataError, UnavailableError, UsageError
from bench.data.dataset import Dataset
from bench.data.entries import NoOptions, dataset_entries, dataset_entry
from bench.data.files import Files
from bench.data.tables import Parameter, Tables
from bench.datasets.toolbench import loader
from bench.datasets.toolbench.parsing import SETS

COMMIT = "THUNLP-MT/StableToolBench/aa4ed9f4737ad98bd706663f01d63623c3427812"
# id -> upstream's file, aliases, {gold size: queries}, (query_id, length, start of the text's sha256) of the first,
# tenth and last query by query_id.
CARDS: dict[str, tuple[str, list[str], dict[int, int], list[tuple[str, int, str]]]] = {
    "toolbench-i1-inst": (
        "G1_instruction",
        ["I1-Inst", "i1-instruction", "g1_instruction"],
        {1: 6, 2: 124, 3: 20, 4: 10, 5: 1, 6: 2},
        [("10160", 377, "c3f558030f7f1580"), ("1572", 245, "3845cd1e4a980ac3"), ("9984", 237, "de7ea3ae9704e6fb")],
    ),
    "toolbench-i1-tool": (
        "G1_tool",
        ["I1-Tool", "G1_tool"],
        {1: 10, 2: 113, 3: 22, 4: 9, 5: 4},
        [("10221", 292, "ddc3aed876747e72"), ("15058", 217, "3aca1b2883674c42"), ("9956", 201, "819043dae803d2a9")],
    ),
    "toolbench-i1-cat": (
        "G1_category",
        ["I1-Cat", "G1_category"],
        {1: 11, 2: 117, 3: 20, 4: 2, 5: 3},
        [("1198", 234, "c91ef595d112bea9"), ("12790", 229, "997d4bd90c0e6a5b"), ("9719", 257, "ef86bbbd5e13c6c4")],
    ),
    "toolbench-i2-inst": (
        "G2_instruction",
        ["I2-Inst", "G2_instruction"],
        {2: 69, 3: 27, 4: 10},
        [("10097", 230, "6462701bdc581c01"), ("12742", 335, "83fbddd2218b7d05"), ("9959", 273, "c2ab53d579fc6133")],
    ),
    "toolbench-i2-cat": (
        "G2_category",
        ["I2-Cat", "G2_category"],
        {2: 84, 3: 34, 4: 2, 5: 3, 6: 1},
        [("13338", 272, "b5f522f4be64bc2f"), ("13586", 193, "de62fddc60729208"), ("83", 316, "a0190acbdeab8526")],
    ),
    "toolbench-i3-inst": (
        "G3_instruction",
        ["I3-Inst", "G3_instruction"],
        {2: 20, 3: 28, 4: 9, 5: 4},
        [("10898", 207, "92a3259f690c1932"), ("13777", 325, "8cddc40cc8ee2383"), ("9349", 270, "0ab0257129da63f1")],
    ),
}
BROUGHT = ("toolbench-full", "toolbench-g1", "toolbench-g2", "toolbench-g3")


@pytest.fixture(scope="module")
def upstream(mirror: Path) -> dict[str, Any]:
    """The six files as they are."""
    folder = mirror / COMMIT / "solvable_queries" / "test_instruction"
    return {name: json.loads((folder / f"{name}.json").read_text("utf-8")) for name in SETS}


def apis_of(upstream: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for records in upstream.values():
        for record in records:
            yield from record["api_list"]


@pytest.mark.parametrize("name", CARDS)
def test_counts_and_records(mirror: Path, name: str) -> None:
    dataset = loaded(name)
    _, _, sizes, records = CARDS[name]
    assert len(dataset.tools) == 2490
    assert len({(tool.category, tool.parent) for tool in dataset.tools}) == 814
    assert len({tool.category for tool in dataset.tools}) == 47
    assert Counter(dataset.gold.counts.tolist()) == sizes
    assert {query.split for query in dataset.queries} == {"test"}
    assert all(query.gold.keys() <= dataset.tool_codes.keys() for query in dataset.queries)
    assert all(set(query.gold.values()) == {1} for query in dataset.queries)
    queries = [dataset.queries[row] for row in (0, 9, -1)]
    assert [(query.query_id, len(query.text), digest(query.text)) for query in queries] == records


def test_the_query_counts_of_the_design(mirror: Path) -> None:
    sizes = [len(loaded(name).queries) for name in CARDS]
    assert sizes == [163, 158, 153, 106, 124, 61]
    assert sum(sizes) == len({query.query_id for name in CARDS for query in loaded(name).queries})


def test_all_six_share_one_library(mirror: Path) -> None:
    libraries = [loaded(name).tools for name in CARDS]
    assert all(library == libraries[0] for library in libraries)
    collected = [libraries[0][row] for row in (0, 9, 1245, -1)]
    texts = [tool.text("toolbench") for tool in collected]
    assert [(tool.tool_id, len(text), digest(text)) for tool, text in zip(collected, texts, strict=True)] == [
        ("Advertising/20211230 testing upload swagger//open-api/v1.0/indoor-air-quality/iot/", 242, "8b5c873b0ab92c3a"),
        ("Advertising/asdfadsf/Get Categories", 162, "9127a06851e658e7"),
        ("Movies/OTT details/Advanced Search", 1527, "8b08eba77eff9015"),
        ("eCommerce/Çiçeksepeti Data/Get Comments from product id", 325, "e03b4618da468cf9"),
    ]


def test_the_text_is_that_of_upstreams_retriever(mirror: Path, upstream: dict[str, Any]) -> None:
    """By the rule of `process_retrieval_ducoment`, for every API of every record: so no two records differ either."""
    tools = {tool.tool_id: tool for tool in loaded("toolbench-i1-inst").tools}
    checked = 0
    for api in apis_of(upstream):
        names = [api[key] for key in ("category_name", "tool_name", "api_name")]
        required, optional = json.dumps(api["required_parameters"]), json.dumps(api["optional_parameters"])
        text = (
            ", ".join([*names, api["api_description"]])
            + f", required_params: {required}, optional_params: {optional}"
            + f", return_schema: {json.dumps(api.get('template_response', ''))}"
        )
        assert tools["/".join(names)].text("toolbench") == text
        checked += 1
    assert checked == 4070


def test_gold_is_upstreams(mirror: Path, upstream: dict[str, Any]) -> None:
    for name, (file, *_) in CARDS.items():
        tools = {tool.tool_id: tool for tool in loaded(name).tools}
        gold = {
            query.query_id: {(tools[tool].parent, tools[tool].name) for tool in query.gold}
            for query in loaded(name).queries
        }
        assert gold == {str(r["query_id"]): {(p, n) for p, n in r["relevant APIs"]} for r in upstream[file]}


def test_defaults_and_responses_are_json_text(mirror: Path) -> None:
    tools = loaded("toolbench-i2-cat").tools
    defaults = [p.default for tool in tools for p in tool.parameters]
    assert None not in defaults
    assert {type(json.loads(value)) for value in defaults if value} == {str, int, float, bool, list}
    kinds = Counter(type(json.loads(tool.returns)) if tool.returns else None for tool in tools)
    assert kinds == {dict: 2490 - 832 - 149, None: 832, str: 149}
    assert any(tool.return_names() for tool in tools)


def test_cards() -> None:
    cards = {name: entry.card for name, entry in dataset_entries().items() if entry.folder.name == "toolbench"}
    assert list(cards) == sorted(["toolbench", *CARDS, *BROUGHT])
    for name, (file, aliases, *_) in CARDS.items():
        assert cards[name].variant == file
        assert {dataset_entry(alias).card.id for alias in aliases} == {name}
        wanted = {f"{COMMIT}/solvable_queries/test_instruction/{subset}.json" for subset in SETS}
        assert cards[name].files().keys() == wanted | {f"{COMMIT}/LICENSE"}
    for name in BROUGHT:
        if name != "toolbench-full":
            assert dataset_entry(name[-2:].upper()).card is cards[name]
        assert not cards[name].files()
        with pytest.raises(UnavailableError, match=rf"data\.zip.*`bench data add {name} --from FOLDER`"):
            loaded(name)
    assert {card.template for card in cards.values()} == {"toolbench"}


def test_there_are_no_options() -> None:
    with pytest.raises(UsageError, match="no parameter 'split'"):
        loaded("toolbench-i1-inst(split=random)")


# Small files of our own making.


def api(category: str, parent: str, name: str, **more: Any) -> dict[str, Any]:
    row = {"category_name": category, "tool_name": parent, "api_name": name, "api_description": f"about {name}"}
    return {**row, "required_parameters": [], "optional_parameters": [], "method": "GET", **more}


def record(query_id: Any, apis: Any, relevant: Any, **more: Any) -> dict[str, Any]:
    return {"query_id": query_id, "query": f"request {query_id}", "api_list": apis, "relevant APIs": relevant, **more}


PLAIN = record(7, [api("Food", "Kitchen", "cook"), api("Food", "Kitchen", "bake")], [["Kitchen", "cook"]])


def small(folder: Path, records: Any, variant: str = "G1_tool") -> Tables:
    """All six files in a folder: `records` in the variant's, one plain record in each of the others."""
    contents = {
        f"{loader.FOLDER}/{name}.json": records if name == variant else [{**PLAIN, "query_id": 100 + position}]
        for position, name in enumerate(SETS)
    }
    tables = load_small(loader, folder, variant, contents, NoOptions())
    card = dataset_entry(variant).card
    Dataset.build(card.id, card, tables)
    return tables


def test_the_first_of_differing_records_stands(tmp_path: Path) -> None:
    parameter = {"name": "heat", "type": "NUMBER", "description": "how hot", "default": 5}
    other = api("Food", "Kitchen", "cook", api_description="something else")
    fresh = api("Food", "Kitchen", "fry", required_parameters=[parameter], template_response=None, api_description=None)
    tables = small(tmp_path, [record(7, [other, fresh], [["Kitchen", "fry"]])])
    tools = {tool.tool_id: tool for tool in tables.tools}
    assert list(tools) == ["Food/Kitchen/cook", "Food/Kitchen/bake", "Food/Kitchen/fry"]
    assert tools["Food/Kitchen/cook"].description == "about cook"
    assert tools["Food/Kitchen/cook"].returns is None
    fry = tools["Food/Kitchen/fry"]
    assert fry.parameters == (Parameter("heat", "NUMBER", "how hot", True, "5"),)
    assert (fry.description, fry.returns) == ("", "null")
    assert fry.text("toolbench").endswith("return_schema: null")


def test_gold_goes_by_the_querys_own_candidates_first(tmp_path: Path) -> None:
    home, away = api("Food", "Demo", "list"), api("Sports", "Demo", "list")
    tables = small(
        tmp_path,
        [
            record(1, [home], [["Demo", "list"], ["Demo", "list"]]),
            record(2, [away], [["Demo", "list"]]),
            record(3, [home, away], [["Demo", "list"]]),
            record(4, [home], [["Kitchen", "bake"]]),
            record(5, [home], []),
        ],
    )
    assert {query.query_id: dict(query.gold) for query in tables.queries} == {
        "1": {"Food/Demo/list": 1},
        "2": {"Sports/Demo/list": 1},
        "3": {"Food/Demo/list": 1, "Sports/Demo/list": 1},
        "4": {"Food/Kitchen/bake": 1},
        "5": {},
    }


def test_a_gold_that_names_no_tool_or_several_is_refused(tmp_path: Path) -> None:
    where = r"G1_tool\.json, record 1 \(query_id 1\)"
    lost = [record(1, [], [["Demo", "gone"]]), record(2, [], [["Demo", "gone"], ["Demo", "lost"]])]
    with pytest.raises(DataError, match=rf"{where}.*\['Demo', 'gone'\] names no tool.*\(3 such in all\)"):
        small(tmp_path, lost)
    both = record(9, [api("Food", "Demo", "list"), api("Sports", "Demo", "list")], [])
    with pytest.raises(DataError, match=rf"{where}.*names 2 tools of several categories.*\(1 such in all\)"):
        small(tmp_path, [record(1, [], [["Demo", "list"]]), both])


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ({"query": "x"}, r"G1_tool\.json: the file is an object instead of a list"),
        (["x"], r"G1_tool\.json, record 1 is a text instead of an object"),
        ([PLAIN, record(None, [], [])], r"G1_tool\.json, record 2 has no query_id"),
        ([record(True, [], [])], "record 1 has no query_id"),
        ([record(3, [], [], query=" ")], r"record 1 \(query_id 3\): query is empty instead of a text"),
        ([record(3, [], [], query=None)], r"record 1 \(query_id 3\): query is null or missing"),
        ([record(3, "x", [])], r"record 1 \(query_id 3\): api_list is a text instead of a list"),
        ([record(3, ["x"], [])], r"record 1 \(query_id 3\): an API is a text instead of an object"),
        ([record(3, [{"api_name": "x"}], [])], "lacks the text of category_name"),
        ([record(3, [api("a", "b", "c", api_description=4)], [])], "API 'c': api_description is a number"),
        ([record(3, [api("a", "b", "c", required_parameters={"x": 1})], [])], "API 'c': required_parameters is an obj"),
        ([record(3, [api("a", "b", "c", optional_parameters=["x"])], [])], "API 'c': a parameter is a text"),
        ([record(3, [], None)], r"\(query_id 3\): relevant APIs is null or missing instead of a list"),
        ([record(3, [], [["only one"]])], "not a pair of tool name and API name"),
        ([record(3, [api("a", "b/c", "d"), api("a", "b", "c/d")], [])], "tool id 'a/b/c/d' occurs twice"),
        ([PLAIN, PLAIN], "query id '7' occurs twice"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, records: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        small(tmp_path, records)


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("[{", "utf-8")
    paths = dict.fromkeys((f"{loader.FOLDER}/{name}.json" for name in SETS), path)
    with pytest.raises(DataError, match=r"G1_instruction\.json is not JSON"):
        loader.load(Files(paths, tmp_path), NoOptions(), dataset_entry("G1_tool").card)


def test_control_characters_do_not_reach_ids(tmp_path: Path) -> None:
    tables = small(tmp_path, [record(1, [api("Food", "A\u200bB", "c\nd")], [["A\u200bB", "c\nd"]])])
    assert dict(tables.queries[0].gold) == {"Food/A\\u200bB/c\\u000ad": 1}
    assert tables.tools[-1].name == "c\nd"
