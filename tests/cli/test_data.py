"""`bench data`: list, info, fetch, verify, stats, audit, export, and adding one's own."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

from bench.registry import dataset_entries, load_dataset
from bench.show.numbers import several

Bench = Callable[..., Any]


def stats(bench: Bench, dataset: str) -> dict[str, Any]:
    result: dict[str, Any] = bench("data", "info", dataset, "--all", "--json").json["statistics"]
    return result


# Looking ------------------------------------------------------------------------------------------------------------


def test_list_names_every_dataset_with_its_sizes(bench: Bench) -> None:
    rows = bench("list", "datasets", "--json").json
    assert [row["id"] for row in rows] == list(dataset_entries())
    starter = next(row for row in rows if row["id"] == "starter")
    assert starter["counts"]["tools"] == 179
    assert starter["licence"] == "Apache-2.0"
    table = bench("list", "datasets").out
    assert re.search(r"^ starter +179 +166 +75 +134 +Apache-2\.0", table, re.M)
    assert re.search(r"^ toolbench-g1 +- +- +- +- +Apache-2\.0 +needs your files", table, re.M)
    assert max(map(len, table.splitlines())) <= 100


@pytest.mark.parametrize("dataset", sorted(dataset_entries()))
def test_info_tells_what_the_card_says(bench: Bench, dataset: str) -> None:
    card = dataset_entries()[dataset].card
    said = " ".join(bench("data", "info", dataset).out.split())
    for text in (card.title, card.summary, card.licence, *card.known_issues):
        assert " ".join(text.split()) in said
    for upstream in card.upstream:
        assert f"{upstream.repository} at {upstream.commit[:12]}, {several(len(upstream.files), 'file')}" in said
    assert bench("data", "info", dataset, "--json").json["id"] == dataset


def test_info_knows_aliases_and_options(bench: Bench) -> None:
    assert bench("data", "info", "I1-Cat", "--json").json["id"] == "toolbench-i1-cat"
    every = ["distractors", "tools", "duplicates", "no_tool"]
    assert list(bench("data", "info", "rectools", "--json").json["options"]) == ["split", "seed", "test_share", *every]
    assert re.search(r"^option +split \(default random\) ", bench("data", "info", "rectools").out, re.M)


def test_fetch_makes_the_tables_and_says_what_they_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    said = bench("data", "fetch", "starter")
    assert said.out == f"starter: 179 tools, 375 queries, {load_dataset('starter').content_hash[:16]}\n"
    assert len(list((tmp_path / "cache").rglob("*.parquet"))) == 4


def test_fetch_takes_the_files_from_a_mirror(bench: Bench, mirror: Path) -> None:
    assert bench("data", "fetch", "apibank", "--mirror", mirror).out.startswith("apibank: 101 tools, 272 queries, ")


def test_stats_count_what_is_there(bench: Bench) -> None:
    result = stats(bench, "starter")
    data = load_dataset("starter")
    assert result["tools"] == 179
    assert result["queries"] == {"train": 166, "dev": 75, "test": 134}
    sizes = [len(query.gold) for query in data.queries]
    assert result["gold tools per query"] == {str(size): sizes.count(size) for size in sorted(set(sizes))}
    assert result["slice prerequisite"]["unnamed"] == sum(
        q.slices.get("prerequisite") == "unnamed" for q in data.queries
    )
    assert result["tools seen in train"] == len({tool for q in data.queries if q.split == "train" for tool in q.gold})
    assert result["content_hash"] == data.content_hash
    table = bench("data", "info", "starter", "--all").out
    assert re.search(r"^ queries +train: 166, dev: 75, test: 134 *$", table, re.M)


def test_info_shows_the_unit_and_its_sizes(bench: Bench, folder: Path) -> None:
    said = " ".join(bench("data", "info", "toolbench-i3-inst").out.split())
    assert "unit gold+group, 61 judged queries in 15 units, at most 20 in one (effective 6.6). Upstream's" in said
    result = bench("data", "info", "toolbench-i3-inst", "--json").json
    assert (result["unit"]["name"], result["unit"]["by"]) == ("gold+group", ["gold", "group"])
    assert result["dependence"] == {"queries": 61, "units": 15, "largest": 20, "effective": 6.6}
    assert bench("data", "info", "toolbench-g1", "--json").json["dependence"] is None
    # Of an added dataset the tables are here, and are counted.
    bench("data", "add", "mine", "--from", folder, "--unit", "none")
    result = bench("data", "info", "mine", "--json").json
    assert result["unit"] == {"by": [], "reason": "Chosen by the user who added the dataset.", "name": "none"}
    assert result["dependence"] == {"queries": 2, "units": 2, "largest": 1, "effective": 2.0}


def test_a_unit_that_there_is_not_is_refused(bench: Bench, folder: Path) -> None:
    said = bench("data", "add", "mine", "--from", folder, "--unit", "gold+tool", code=2)
    assert said.err.startswith("bench: 'gold+tool' is not a unit of independence: join some of gold, group, ")
    assert "mine" not in bench("list", "datasets").out


# Verifying ----------------------------------------------------------------------------------------------------------


def test_verify_checks_files_and_tables(bench: Bench, mirror: Path) -> None:
    result = bench("data", "fetch", "apibank", "--verify", "--json").json
    assert result["problems"] == []
    assert result["files"] == len(dataset_entries()["apibank"].card.files())
    assert result["hash"] == load_dataset("apibank").content_hash
    assert bench("data", "fetch", "starter", "--verify").out.startswith(
        "starter: 0 files match their checksums, content hash "
    )


def test_verifying_needs_a_dataset(bench: Bench) -> None:
    assert "--verify is for a DATASET" in bench("data", "fetch", "--verify", code=2).err


def test_verify_fails_on_tables_that_are_not_what_they_say(bench: Bench, folder: Path, tmp_path: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    path = tmp_path / "bench-data" / "datasets" / "mine" / "dataset.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "content_hash": "0" * 64}))
    said = bench("data", "fetch", "mine", "--verify", code=1)
    wrong, verdict = said.err.splitlines()
    assert wrong.startswith("wrong: the stored tables hash to ")
    assert wrong.endswith(", but record 0000000000000000")
    assert verdict == "bench: mine failed verification; problems found: 1."
    report = bench("data", "fetch", "mine", "--verify", "--json", code=1)
    assert len(report.json["problems"]) == 1


# Exporting and adding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["beir", "parquet"])
@pytest.mark.parametrize("dataset", ["starter", "apibank"])
def test_what_is_exported_can_be_added_and_is_the_same_data(
    bench: Bench, request: pytest.FixtureRequest, dataset: str, form: str
) -> None:
    if dataset != "starter":
        request.getfixturevalue("mirror")
    said = bench("data", "export", dataset, "--out", "exported", "--format", form)
    assert said.out == f"{dataset} is in exported ({form})\n"
    added = bench("data", "add", "copy", "--from", "exported").out
    data = load_dataset(dataset)
    assert added == (f"added copy: {len(data.tools)} tools, {len(data.queries)} queries; next: bench data audit copy\n")
    copy = load_dataset("copy")
    assert copy.content_hash == data.content_hash
    assert copy.card.id == "copy"
    assert [q.group for q in copy.queries] == [q.group for q in data.queries]
    assert (copy.card.unit, copy.source) == (data.card.unit, dataset)
    assert {q.query_id: dict(q.slices) for q in copy.queries} == {q.query_id: dict(q.slices) for q in data.queries}
    assert {(e.dependent, e.prerequisite, e.reason, e.note) for e in copy.edges} == {
        (e.dependent, e.prerequisite, e.reason, e.note) for e in data.edges
    }


def test_a_run_on_a_copy_has_the_same_numbers(bench: Bench) -> None:
    bench("data", "export", "starter", "--out", "exported")
    bench("data", "add", "copy", "--from", "exported")
    one, other = (bench("run", "-m", "bm25", "-d", name, "--json").json[0] for name in ("starter", "copy"))
    assert one["manifest"]["dataset"]["content_hash"] == other["manifest"]["dataset"]["content_hash"]
    assert one["metrics"] == other["metrics"]


def test_the_template_chosen_is_the_text_of_the_export(bench: Bench) -> None:
    bench("data", "export", "starter", "--out", "exported", "--template", "description")
    rows = [json.loads(line) for line in Path("exported/corpus.jsonl").read_text("utf-8").splitlines()]
    assert {row["_id"]: row["text"] for row in rows} == {
        t.tool_id: t.description for t in load_dataset("starter").tools
    }


def test_parquet_is_read_by_pandas_and_a_licence_is_told(bench: Bench, folder: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    said = bench("data", "export", "mine", "--out", "exported", "--format", "parquet")
    assert said.err == "its licence (not stated) does not allow redistribution\n"
    assert pandas.read_parquet("exported/queries.parquet")["query_id"].tolist() == ["q1", "q2", "q3", "q4"]


def test_the_form_of_hugging_face_is_read_by_its_library(bench: Bench, folder: Path) -> None:
    import datasets

    bench("data", "add", "mine", "--from", folder)
    bench("data", "export", "mine", "--out", "exported", "--format", "hf")
    from_disk = datasets.load_from_disk("exported")
    assert {name: from_disk[name].num_rows for name in from_disk} == {"tools": 3, "queries": 4, "gold": 4}


def test_a_folder_of_one_s_own_is_added_and_run(bench: Bench, folder: Path) -> None:
    said = bench("data", "add", "mine", "--from", folder)
    assert said.out == "added mine: 3 tools, 4 queries; next: bench data audit mine\n"
    data = load_dataset("mine")
    assert [(q.query_id, q.split, dict(q.gold)) for q in data.queries] == [
        ("q1", "test", {"crm.find": 2}),
        ("q2", "train", {"crm.find": 1, "post.send": 1}),
        ("q3", "test", {"map.route": 1}),
        # Its metadata puts it in test; nobody judged it.
        ("q4", "test", {}),
    ]
    # A tool without a title is called by its id.
    assert [tool.name for tool in data.tools] == ["find_customer", "map.route", "send_letter"]
    assert dict(data.queries[2].slices) == {"kind": "way"}
    assert "mine" in bench("list", "datasets").out
    assert bench("data", "info", "mine", "--json").json["title"] == "mine"
    result = bench("run", "-m", "bm25", "-m", "popularity", "-d", "mine", "--json").json[0]
    assert result["metrics"]["n"] == 2


def test_a_name_that_is_taken_needs_replace(bench: Bench, folder: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    before = stats(bench, "mine")["content_hash"]
    queries = folder / "queries.jsonl"
    queries.write_text(queries.read_text().replace("the mill", "the old mill"))
    refused = bench("data", "add", "mine", "--from", folder, code=2)
    assert refused.err == "bench: a dataset 'mine' already exists; use --replace to replace it.\n"
    assert stats(bench, "mine")["content_hash"] == before
    bench("data", "add", "mine", "--from", folder, "--replace")
    assert stats(bench, "mine")["content_hash"] != before


def test_a_replacement_that_is_wrong_leaves_the_old_one(bench: Bench, folder: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    before = stats(bench, "mine")["content_hash"]
    (folder / "queries.jsonl").write_text('{"_id": "q1"}\n{')
    said = bench("data", "add", "mine", "--from", folder, "--replace", code=3)
    assert said.err.startswith(f"bench: {folder / 'queries.jsonl'}, line 2 is not JSON: ")
    assert stats(bench, "mine")["content_hash"] == before


def test_gold_outside_the_corpus_is_refused_or_dropped(bench: Bench, folder: Path) -> None:
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.write("q1\tgone\t1\nq4\tgone\t1\n")
    refused = bench("data", "add", "mine", "--from", folder, code=3)
    assert "is judged with 'gone', which is not in corpus.jsonl" in refused.err
    assert "--drop-unknown-gold" in refused.err
    said = bench("data", "add", "mine", "--from", folder, "--drop-unknown-gold")
    assert "known issue: On import: left out 2 judgements of tools outside corpus.jsonl; 1 query has" in said.err
    assert "known issue: On import: left out 1 query that" in said.err
    assert load_dataset("mine").card.known_issues == [
        line.removeprefix("known issue: ") for line in said.err.splitlines()
    ]
    data = load_dataset("mine")
    # q4's gold was all unknown, so q4 takes no part: it is no query without gold.
    assert [query.query_id for query in data.queries] == ["q1", "q2", "q3"]
    (result,) = [
        row for row in bench("data", "audit", "mine", "--json").json["findings"] if row["check"] == "unknown-gold"
    ]
    assert (result["count"], result["examples"]) == (2, ["q1: gone", "q4: gone"])
    assert "On import: left out 2 judgements of tools outside corpus.jsonl; 1" in bench("data", "info", "mine").out


@pytest.mark.parametrize("name", ["with blank", "../up", ".hidden", "", "x" * 65])
def test_a_name_that_is_no_id_is_refused(bench: Bench, folder: Path, tmp_path: Path, name: str) -> None:
    said = bench("data", "add", name, "--from", folder, code=2)
    assert said.err.startswith("bench: ")
    assert not (tmp_path / "bench-data" / "datasets").exists()


# Files of upstream that one brings ----------------------------------------------------------------------------------


def write_toolbench(folder: Path) -> None:
    """The folder `retrieval/G1` of ToolBench's archive, with three tools."""

    def api(parent: str, name: str) -> str:
        row = {"category_name": "Food", "tool_name": parent, "api_name": name, "api_description": f"does {name}"}
        return json.dumps({**row, "required_parameters": [], "optional_parameters": [], "method": "GET"})

    files: dict[str, list[list[object]]] = {
        "corpus.tsv": [
            ["docid", "document_content"],
            [1, api("A", "cook")],
            [2, api("A", "bake")],
            [3, api("B", "eat")],
        ],
        "train.query.txt": [[1, "cook and bake"]],
        "test.query.txt": [[2, "eat"]],
        "qrels.train.tsv": [[1, 0, 1, 1], [1, 0, 2, 1]],
        "qrels.test.tsv": [[2, 0, 3, 1]],
    }
    root = folder / "retrieval" / "G1"
    root.mkdir(parents=True)
    for name, rows in files.items():
        with (root / name).open("w", newline="") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


@pytest.mark.parametrize("name", ["toolbench", "toolbench-g1"])
def test_the_full_toolbench_is_added_from_its_folder(bench: Bench, tmp_path: Path, name: str) -> None:
    write_toolbench(tmp_path / "data")
    said = bench("data", "add", name, "--from", tmp_path / "data")
    assert said.out == "added toolbench-g1: 3 tools, 2 queries; next: bench data audit toolbench-g1\n"
    assert stats(bench, "G1")["queries"] == {"train": 1, "test": 1}
    row = next(row for row in bench("list", "datasets", "--json").json if row["id"] == "toolbench-g1")
    assert row["obtain"] == ""
    assert bench("run", "-m", "bm25", "-d", "toolbench-g1", "--json").json[0]["metrics"]["n"] == 1


def test_a_folder_without_the_group_asked_for_says_what_to_bring(bench: Bench, tmp_path: Path) -> None:
    write_toolbench(tmp_path / "data")
    said = bench("data", "add", "toolbench-g2", "--from", tmp_path / "data", code=4)
    assert said.err.startswith(
        f"bench: {tmp_path / 'data'} does not contain the files of toolbench-g2: Download data.zip"
    )
    (tmp_path / "empty").mkdir()
    said = bench("data", "add", "toolbench", "--from", tmp_path / "empty", code=3)
    assert "has neither retrieval/G1 (or G2, G3) nor instruction/G1_query.json" in said.err
