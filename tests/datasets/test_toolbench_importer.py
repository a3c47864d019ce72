from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.entries import dataset_entry
from bench.data.tables import Tables
from bench.datasets.toolbench import importer

EXAMPLE = "OpenBMB/ToolBench/d56fdd89faf8c91fa135090b212bb9057ee5cfc2/data_example"


def api(category: str, parent: str, name: str, **more: Any) -> dict[str, Any]:
    row = {"category_name": category, "tool_name": parent, "api_name": name, "api_description": f'about "{name}"'}
    return {**row, "required_parameters": [], "optional_parameters": [], "method": "GET", **more}


COOK, BAKE, PLAY = api("Food", "Kitchen", "cook"), api("Food", "Kitchen", "bake"), api("Sports", "Club", "play")


def record(query_id: int | None, relevant: list[dict[str, Any]], *others: dict[str, Any]) -> dict[str, Any]:
    row = {
        "query": f"request {query_id}",
        "api_list": [*relevant, *others],
        "relevant APIs": [[one["tool_name"], one["api_name"]] for one in relevant],
    }
    return row if query_id is None else {**row, "query_id": query_id}


def read(folder: Path) -> dict[str, Tables]:
    """What the importer gives, and that it builds."""
    content: dict[str, Tables] = importer.read(folder)
    for card_id, tables in content.items():
        Dataset.build(card_id, dataset_entry(card_id).card, tables)
    return content


def shown(tables: Tables) -> dict[str, tuple[str, dict[str, int]]]:
    return {query.query_id: (query.split, dict(query.gold)) for query in tables.queries}


def write_json(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), "utf-8")


def write_tsv(path: Path, rows: list[list[Any]]) -> None:
    """As pandas writes it: quoted where a field has a tab, a quote or a line break."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


def write_retrieval(folder: Path, **changed: list[list[Any]]) -> None:
    """Upstream's five files with its repeated rows; `changed` replaces files by the name before the first dot."""
    content: dict[str, list[list[Any]]] = {
        "corpus": [
            ["docid", "document_content"],
            *([docid, json.dumps(one)] for docid, one in ((1, COOK), (2, BAKE), (1, COOK), (3, PLAY))),
        ],
        "train": [[1, 'cook\tand "bake"\ntwice'], [2, "bake"], [1, 'cook\tand "bake"\ntwice']],
        "test": [[3, "play"], [3, "play"]],
        "qrels_train": [[1, 0, 1, 1], [2, 0, 2, 1], [1, 0, 2, 1], [1, 0, 1, 1]],
        "qrels_test": [[3, 0, 3, 1], [3, 0, 1, 0]],
        **changed,
    }
    files = dict(zip(content, ("corpus.tsv", "train.query.txt", "test.query.txt"), strict=False))
    files |= {"qrels_train": "qrels.train.tsv", "qrels_test": "qrels.test.tsv"}
    for name, file in files.items():
        write_tsv(folder / file, content[name])


def test_retrieval_layout(tmp_path: Path) -> None:
    write_retrieval(tmp_path / "retrieval" / "G2")
    content = read(tmp_path)
    assert list(content) == ["toolbench-g2"]
    tables = content["toolbench-g2"]
    assert [(tool.tool_id, tool.category, tool.parent, tool.name) for tool in tables.tools] == [
        ("1", "Food", "Kitchen", "cook"),
        ("2", "Food", "Kitchen", "bake"),
        ("3", "Sports", "Club", "play"),
    ]
    assert tables.tools[0].description == 'about "cook"'
    # A label of 0 is not gold.
    assert shown(tables) == {"1": ("train", {"1": 1, "2": 1}), "2": ("train", {"2": 1}), "3": ("test", {"3": 1})}
    assert next(query.text for query in tables.queries if query.query_id == "1") == 'cook\tand "bake"\ntwice'


def test_a_query_on_both_sides_stays_out_of_the_history(tmp_path: Path) -> None:
    write_retrieval(tmp_path / "retrieval" / "G1", test=[[3, "play"], [2, "bake"]], qrels_test=[[2, 0, 3, 1]])
    tables = read(tmp_path)["toolbench-g1"]
    assert shown(tables) == {"1": ("train", {"1": 1, "2": 1}), "2": ("test", {"3": 1}), "3": ("test", {})}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"corpus": [["id", "text"]]}, r"G1/corpus\.tsv does not begin with the header docid, document_content"),
        ({"corpus": []}, r"G1/corpus\.tsv does not begin with the header"),
        (
            {"corpus": [["docid", "document_content"], [1, json.dumps(COOK)], [1, json.dumps(BAKE)]]},
            r"corpus\.tsv, line 3: docid 1 occurs twice with different contents",
        ),
        ({"corpus": [["docid", "document_content"], [1, "{"]]}, r"corpus\.tsv, line 2: docid 1 is not JSON"),
        ({"corpus": [["docid", "document_content"], [1]]}, r"corpus\.tsv, line 2: 1 fields instead of 2"),
        ({"corpus": [["docid", "document_content"], [1, "{}"]]}, r"corpus\.tsv, line 2: an API lacks the text of"),
        ({"train": [[1, "one"], [2, "bake"], [1, "two"]]}, r"train\.query\.txt, line 3: qid 1 occurs twice with diff"),
        ({"qrels_test": [[3, 0, 3, "yes"]]}, r"qrels\.test\.tsv, line 1: the label 'yes' is not a whole number"),
        ({"qrels_test": [[3, 0, 3]]}, r"qrels\.test\.tsv, line 1: 3 fields instead of 4"),
        (
            {"qrels_train": [[1, 0, 1, 1], [1, 0, 8, 1], [2, 0, 9, 1]]},
            r"qrels\.train\.tsv, line 2: docid '8' is not in corpus\.tsv \(2 such rows in all\)",
        ),
        ({"qrels_test": [[9, 0, 3, 1]]}, r"qrels\.test\.tsv, line 1: qid '9' is not in test\.query\.txt \(1 such"),
        ({"test": [], "qrels_test": []}, r"G1/test\.query\.txt has no test queries"),
    ],
)
def test_a_broken_retrieval_file_is_named(tmp_path: Path, changed: dict[str, Any], sentence: str) -> None:
    write_retrieval(tmp_path / "retrieval" / "G1", **changed)
    with pytest.raises(DataError, match=sentence):
        read(tmp_path)


def test_retrieval_files_that_lack_or_are_not_text_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "retrieval" / "G3"
    write_retrieval(folder)
    (folder / "test.query.txt").write_bytes(b"3\t\xff\n")
    with pytest.raises(DataError, match=r"cannot read retrieval/G3/test\.query\.txt"):
        read(tmp_path)
    (folder / "test.query.txt").unlink()
    with pytest.raises(DataError, match=r"lacks test\.query\.txt; upstream's folder has corpus\.tsv"):
        read(tmp_path)


def test_instruction_layout_below_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    # The second record has no query_id: its position is its id, by upstream's rule.
    train = [record(5, [COOK], BAKE), record(None, [BAKE]), record(8, [PLAY]), record(9, [PLAY])]
    write_json(data / "instruction" / "G1_query.json", train)
    write_json(data / "test_instruction" / "G1_tool.json", [record(8, [PLAY])])
    changed = {**COOK, "api_description": "other words"}
    write_json(data / "test_instruction" / "G1_category.json", [record(30, [changed], BAKE)])
    write_json(data / "test_instruction" / "G2_category.json", [record(8, [COOK])])
    content = read(tmp_path)
    assert list(content) == ["toolbench-g1"]
    tables = content["toolbench-g1"]
    assert [tool.tool_id for tool in tables.tools] == ["Food/Kitchen/cook", "Food/Kitchen/bake", "Sports/Club/play"]
    assert tables.tools[0].description == 'about "cook"'
    assert shown(tables) == {
        "5": ("train", {"Food/Kitchen/cook": 1}),
        "1": ("train", {"Food/Kitchen/bake": 1}),
        "9": ("train", {"Sports/Club/play": 1}),
        "30": ("test", {"Food/Kitchen/cook": 1}),
        "8": ("test", {"Sports/Club/play": 1}),
    }
    slices = {query.query_id: dict(query.slices) for query in tables.queries if query.slices}
    assert slices == {"30": {"subset": "category"}, "8": {"subset": "tool"}}


def test_retrieval_goes_before_instruction(tmp_path: Path) -> None:
    write_json(tmp_path / "instruction" / "G1_query.json", [record(5, [COOK])])
    write_json(tmp_path / "instruction" / "G3_query.json", [record(5, [COOK])])
    write_json(tmp_path / "test_instruction" / "G3_instruction.json", [record(6, [COOK])])
    write_retrieval(tmp_path / "retrieval" / "G1")
    content = read(tmp_path)
    assert {card: [tool.tool_id for tool in tables.tools] for card, tables in content.items()} == {
        "toolbench-g1": ["1", "2", "3"],
        "toolbench-g3": ["Food/Kitchen/cook"],
    }


def write_all_groups(folder: Path) -> None:
    """Three groups that number their queries alike, and share the API `cook`, which G2 describes otherwise."""
    other = {**COOK, "api_description": "other words"}
    swim, row = api("Sports", "Pool", "swim"), api("Boats", "Pier", "row")
    trained = {
        "G1": [record(1, [COOK]), record(2, [PLAY]), record(3, [BAKE]), record(4, [row]), record(7, [swim])],
        "G2": [record(1, [other, BAKE]), record(2, [PLAY, COOK]), record(9, [other, row])],
        "G3": [record(1, [COOK, BAKE])],
    }
    for group, records in trained.items():
        write_json(folder / "instruction" / f"{group}_query.json", records)
    tests = {
        "G1_instruction": [record(7, [BAKE])],
        # The parent Pier is unseen, and so is the category Sports, whose parents are two.
        "G1_tool": [record(8, [row])],
        "G1_category": [record(9, [PLAY])],
        "G2_instruction": [record(7, [COOK, BAKE])],
        "G2_category": [record(8, [PLAY, swim])],
        "G3_instruction": [record(7, [COOK, row])],
    }
    for name, records in tests.items():
        write_json(folder / "test_instruction" / f"{name}.json", records)


def test_the_groups_are_joined_over_one_library(tmp_path: Path) -> None:
    write_all_groups(tmp_path)
    content = read(tmp_path)
    assert list(content) == ["toolbench-g1", "toolbench-g2", "toolbench-g3", "toolbench-full"]
    tables = content["toolbench-full"]
    cook, bake, play, row = "Food/Kitchen/cook", "Food/Kitchen/bake", "Sports/Club/play", "Boats/Pier/row"
    assert [tool.tool_id for tool in tables.tools] == [cook, play, bake, row, "Sports/Pool/swim"]
    # The first group's description stands.
    assert tables.tools[0].description == 'about "cook"'
    assert shown(tables) == {
        "G1-1": ("train", {cook: 1}),
        "G1-3": ("train", {bake: 1}),
        "G2-1": ("train", {cook: 1, bake: 1}),
        "G3-1": ("train", {cook: 1, bake: 1}),
        "G1-7": ("test", {bake: 1}),
        "G1-8": ("test", {row: 1}),
        "G1-9": ("test", {play: 1}),
        "G2-7": ("test", {cook: 1, bake: 1}),
        "G2-8": ("test", {play: 1, "Sports/Pool/swim": 1}),
        "G3-7": ("test", {cook: 1, row: 1}),
    }
    # G1-7 of train is a test query's number, G1-2 and G2-2 need the held-out category, G1-4 and G2-9 the parent.
    assert sorted(tables.left_out) == ["G1-2", "G1-4", "G2-2", "G2-9"]
    slices = {query.query_id: dict(query.slices) for query in tables.queries}
    assert slices["G2-1"] == {"group": "G2", "tools": "multi"}
    assert slices["G1-7"] == {"group": "G1", "tools": "single", "set": "I1-Inst", "seen": "yes", "parent": "seen"}
    assert slices["G2-8"] == {"group": "G2", "tools": "multi", "set": "I2-Cat", "seen": "no", "parent": "unseen"}
    assert {name: slices[name]["parent"] for name in ("G1-8", "G1-9", "G2-7", "G3-7")} == {
        "G1-8": "unseen",
        "G1-9": "unseen",
        "G2-7": "seen",
        "G3-7": "mixed",
    }


def test_a_tenth_of_a_small_train_becomes_dev(tmp_path: Path) -> None:
    write_all_groups(tmp_path)
    write_json(tmp_path / "instruction" / "G3_query.json", [record(100 + i, [COOK, BAKE]) for i in range(27)])
    tables = read(tmp_path)["toolbench-full"]
    splits = [query.split for query in tables.queries]
    # 30 train queries are left, with the three of the other groups.
    assert (splits.count("train"), splits.count("dev"), splits.count("test")) == (27, 3, 6)


def test_groups_are_joined_only_where_all_of_them_are_there(tmp_path: Path) -> None:
    write_all_groups(tmp_path)
    (tmp_path / "test_instruction" / "G2_category.json").unlink()
    assert "toolbench-full" not in read(tmp_path)
    write_all_groups(tmp_path)
    write_json(tmp_path / "test_instruction" / "G2_tool.json", [record(77, [PLAY])])
    with pytest.raises(DataError, match=r"G2_tool\.json is none of ToolBench's six test sets"):
        read(tmp_path)


def test_broken_instruction_files_are_named(tmp_path: Path) -> None:
    write_json(tmp_path / "instruction" / "G1_query.json", [record(5, [COOK])])
    write_json(tmp_path / "test_instruction" / "G1_tool.json", [record(8, [PLAY]), record(9, [PLAY])])
    write_json(tmp_path / "test_instruction" / "G1_category.json", [record(9, [PLAY])])
    with pytest.raises(DataError, match=r"G1_tool\.json, record 2 \(query_id 9\): .* is at .*G1_category\.json, rec"):
        read(tmp_path)
    write_json(tmp_path / "test_instruction" / "G1_category.json", [{**record(1, []), "api_list": 4}])
    with pytest.raises(DataError, match=r"G1_category\.json, record 1 \(query_id 1\): api_list is a number"):
        read(tmp_path)
    write_json(tmp_path / "test_instruction" / "G1_category.json", [record(None, [PLAY])])
    with pytest.raises(DataError, match=r"G1_category\.json, record 1 has no query_id"):
        read(tmp_path)
    (tmp_path / "instruction" / "G1_query.json").write_text("[", "utf-8")
    with pytest.raises(DataError, match=r"instruction/G1_query\.json is not JSON"):
        read(tmp_path)


def test_a_folder_without_a_group_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has neither retrieval/G1 .* data\.zip unpacks to"):
        read(tmp_path)


def test_upstreams_example_has_no_tests(mirror: Path) -> None:
    with pytest.raises(DataError, match=r"has instruction/G1_query\.json but no test_instruction/G1_\*\.json"):
        read(mirror / EXAMPLE)


def test_upstreams_example_with_tests(mirror: Path, tmp_path: Path) -> None:
    for group, first in (("G1", 1), ("G2", 2), ("G3", 1)):
        data = json.loads((mirror / EXAMPLE / "instruction" / f"{group}_query.json").read_text("utf-8"))
        write_json(tmp_path / "instruction" / f"{group}_query.json", data)
        tests = [one for one in data if one["query_id"] == first]
        write_json(tmp_path / "test_instruction" / f"{group}_instruction.json", tests)
    content = read(tmp_path)
    counts = {
        card: (len(tables.tools), sum(query.split == "train" for query in tables.queries), len(tables.queries))
        for card, tables in content.items()
    }
    assert counts == {"toolbench-g1": (12, 4, 5), "toolbench-g2": (7, 2, 3), "toolbench-g3": (11, 1, 2)}
    sizes = {card: sorted(len(query.gold) for query in tables.queries) for card, tables in content.items()}
    assert sizes == {"toolbench-g1": [2] * 5, "toolbench-g2": [2] * 3, "toolbench-g3": [3, 4]}
