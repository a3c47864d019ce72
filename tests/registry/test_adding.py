"""Adding datasets of one's own: names that are taken, what the card tells, and two processes at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import DataError, UsageError
from bench.base.paths import data_folder
from bench.data.beir import export_beir
from bench.data.card import DEFAULT_UNIT, Card, Unit
from bench.data.dataset import Dataset
from bench.data.parquet import write_dataset
from bench.data.tables import Query, Tables, Tool
from bench.registry import dataset_entries, load_dataset
from bench.registry.adding import add_datasets, check_id

CARD = Card(
    id="made",
    aliases=["mine-too"],
    title="Gemacht",
    summary="By hand.",
    licence="CC-BY-4.0",
    redistribution=True,
    template="description",
    known_issues=["Two tools have one name."],
)
TABLES = Tables(
    [Tool("a", "send", "Sends."), Tool("b", "send", "Finds.")],
    [Query("1", "one", {"a": 1}, "train"), Query("2", "two", {"b": 2}), Query("3", "three", {})],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in BEIR form that others made."""
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    write(tmp_path / "beir", {"q1": {"a": 1}, "q2": {"b": 1}})
    return tmp_path / "beir"


def write(folder: Path, gold: Mapping[str, Mapping[str, int]], unjudged: int = 0) -> None:
    queries = [*gold, *(f"u{number}" for number in range(unjudged))]
    rows: dict[str, list[dict[str, Any]]] = {
        "corpus": [{"_id": name, "title": name, "text": f"does {name}"} for name in "abc"],
        "queries": [{"_id": name, "text": f"please {name}"} for name in queries],
    }
    for name, lines in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pairs = [f"{query}\t{tool}\t{grade}\n" for query, tools in gold.items() for tool, grade in tools.items()]
    (folder / "qrels" / "test.tsv").write_text("".join(pairs))


def add(name: str, source: Path, **options: Any) -> Dataset:
    (dataset,) = add_datasets(name, source, **options)
    return dataset


def places() -> list[str]:
    """What lies in the folder of added datasets."""
    root = data_folder() / "datasets"
    return sorted(path.name for path in root.iterdir()) if root.is_dir() else []


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("starter", "Starter", "STARTER", "metatool", "MetaTool"),
        # Aliases, in any letter case.
        *("metatool-multi", "MetaTool-Multi", "api-bank", "G1_instruction", "g1_INSTRUCTION"),
        # Of datasets that one brings: the id in other letters, and an alias.
        *("APIBANK-full", "ToolBench-G1", "g1"),
    ],
)
@pytest.mark.parametrize("form", ["beir", "parquet"])
def test_a_name_or_alias_of_another_dataset_is_taken_in_any_letter_case(
    folder: Path, tmp_path: Path, name: str, form: str
) -> None:
    before = list(dataset_entries())
    if form == "parquet":
        write_dataset(Dataset.build("made", CARD, TABLES), tmp_path / "parquet")
    with pytest.raises(UsageError) as caught:
        add(name, folder if form == "beir" else tmp_path / "parquet")
    assert str(caught.value) == f"a dataset {name!r} already exists; choose another name."
    assert (places(), list(dataset_entries())) == ([], before)


@pytest.mark.parametrize("name", ["starters", "my-starter", "multi", "metatool_multi"])
def test_a_name_that_only_resembles_another_is_free(folder: Path, name: str) -> None:
    assert add(name, folder).card.id == name
    assert load_dataset(name).card.id == name


def test_an_added_copy_gives_up_the_aliases_of_its_original(tmp_path: Path) -> None:
    write_dataset(Dataset.build("made", CARD, TABLES), tmp_path / "parquet")
    assert add("copy", tmp_path / "parquet").card.aliases == []
    assert add("other", tmp_path / "parquet").content_hash == load_dataset("copy").content_hash


# What the card tells ------------------------------------------------------------------------------------------------


def test_an_export_keeps_its_title_licence_template_and_issues(tmp_path: Path) -> None:
    export_beir(Dataset.build("made", CARD, TABLES), tmp_path / "exported", "name_description")
    card = add("copy", tmp_path / "exported").card
    for key in ("title", "licence", "redistribution", "template", "known_issues"):
        assert getattr(card, key) == getattr(CARD, key)
    assert (card.id, card.aliases) == ("copy", [])
    assert card == load_dataset("copy").card


def test_an_added_dataset_has_the_default_unit_or_the_one_that_is_asked_for(folder: Path) -> None:
    assert add("copy", folder).card.unit == DEFAULT_UNIT
    card = add("other", folder, unit=["group", "gold"]).card
    assert (card.unit.by, card.unit.reason) == (["group", "gold"], "Chosen by the user who added the dataset.")
    assert load_dataset("other").unit == "gold+group"
    assert add("none", folder, unit=[]).unit == "none"


@pytest.mark.parametrize("form", ["beir", "parquet"])
def test_an_export_keeps_its_unit_groups_and_source(tmp_path: Path, form: str) -> None:
    unit = Unit(by=["group"], reason="Queries of one script.")
    queries = [replace(query, group="s") for query in TABLES.queries]
    data = Dataset.build("made", CARD.model_copy(update={"unit": unit}), Tables(TABLES.tools, queries))
    if form == "beir":
        export_beir(data, tmp_path / "exported", "name_description")
    else:
        write_dataset(data, tmp_path / "exported")
    copy = add("copy", tmp_path / "exported")
    # A copy has the same queries, so results on both are not independent.
    assert (copy.card.unit, copy.source, load_dataset("copy").source) == (unit, "made", "made")
    assert [query.group for query in load_dataset("copy").queries] == ["s", "s", "s"]
    assert load_dataset("copy").units.tolist() == [0, 0, 0]
    chosen = add("other", tmp_path / "exported", unit=["gold"])
    assert (chosen.card.unit.by, chosen.units.tolist()) == (["gold"], [0, 1, 2])


def test_of_a_folder_of_others_the_card_claims_nothing(folder: Path) -> None:
    card = add("copy", folder).card
    assert (card.title, card.licence, card.redistribution) == ("copy", "not stated", False)
    assert card.known_issues == []


def test_queries_that_were_left_out_are_an_issue_of_the_card(folder: Path) -> None:
    write(folder, {"q1": {"a": 1}}, unjudged=3)
    (issue,) = add("copy", folder).card.known_issues
    assert issue.startswith("On import: left out 3 queries that no split contains ")
    assert "the first is u0." in issue
    assert len(load_dataset("copy").queries) == 1


def test_dropped_judgements_are_an_issue_of_the_card(folder: Path) -> None:
    # q1 keeps some, q2 loses all, q3 keeps all.
    write(folder, {"q1": {"a": 1, "gone": 1, "lost": 1}, "q2": {"gone": 1}, "q3": {"b": 1}})
    with pytest.raises(DataError, match="--drop-unknown-gold"):
        add("copy", folder)
    assert places() == []
    dropped, left_out = add("copy", folder, drop_unknown_gold=True).card.known_issues
    assert dropped == (
        "On import: left out 3 judgements of tools outside corpus.jsonl; 1 query has less gold than before."
    )
    assert left_out.startswith("On import: left out 1 query that")
    assert "the first is q2." in left_out


def test_issues_of_the_import_stand_behind_those_of_the_export(tmp_path: Path) -> None:
    exported = tmp_path / "exported"
    export_beir(Dataset.build("made", CARD, TABLES), exported, "description")
    with (exported / "queries.jsonl").open("a") as file:
        file.write('{"_id": "9", "text": "new"}\n')
    first, second = add("copy", exported).card.known_issues
    assert first == "Two tools have one name."
    assert second.startswith("On import: left out 1 query that")


@pytest.mark.parametrize("about", ["{", '{"title": 3}', "[]"])
def test_a_damaged_description_stops_the_import(tmp_path: Path, about: str) -> None:
    exported = tmp_path / "exported"
    export_beir(Dataset.build("made", CARD, TABLES), exported, "description")
    (exported / "about.json").write_text(about)
    with pytest.raises(DataError, match=r"about\.json (is not|does not)"):
        add("copy", exported)
    assert places() == []


# One at a time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "valid"), [("CON", 0), ("aux.x", 0), ("Lpt1", 0), ("nul.", 0), ("console", 1), ("com", 1)]
)
def test_an_id_is_no_name_of_a_device(name: str, valid: bool) -> None:
    with nullcontext() if valid else pytest.raises(UsageError, match="not a valid dataset id"):
        check_id(name)


def test_adding_leaves_nothing_beside_the_dataset(folder: Path) -> None:
    add("copy", folder)
    add("copy", folder, replace=True)
    assert places() == ["copy"]
    with pytest.raises(UsageError, match="a dataset 'copy' already exists; use --replace to replace it"):
        add("copy", folder)
    assert places() == ["copy"]


def test_a_replacement_that_was_killed_halfway_is_finished(folder: Path) -> None:
    before = add("copy", folder).content_hash
    root = data_folder() / "datasets"
    # Killed between its two renames: the old one is aside, the new one not yet in its place.
    (root / "copy").rename(root / ".old-copy")
    shutil.copytree(root / ".old-copy", root / ".new-copy-0123abcd")
    assert list(dataset_entries()).count("copy") == 1
    assert load_dataset("copy").content_hash == before
    with pytest.raises(UsageError, match="already exists"):
        add("copy", folder)
    assert load_dataset("copy").content_hash == before
    write(folder, {"q1": {"b": 1}})
    after = add("copy", folder, replace=True).content_hash
    assert places() == ["copy"]
    assert load_dataset("copy").content_hash == after != before


ADDER = """
import sys
from pathlib import Path
from bench.base.errors import UsageError
from bench.registry.adding import add_datasets, check_id

print("ready", flush=True)
sys.stdin.readline()
for _ in range(4):
    try:
        list(add_datasets("copy", Path(sys.argv[1]), replace=sys.argv[2] == "replace"))
        print("added")
    except UsageError:
        print("refused")
"""


@pytest.mark.parametrize("how", ["replace", "keep"])
def test_processes_that_add_under_one_name_at_once_take_turns(folder: Path, how: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ADDER, str(folder), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    said: list[str] = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        said.extend(printed.split())
    assert len(said) == 12
    assert said.count("added") == (12 if how == "replace" else 1)
    assert places() == ["copy"]
    assert len(load_dataset("copy").queries) == 2
