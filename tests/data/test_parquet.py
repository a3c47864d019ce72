"""Datasets as folders of Parquet: what is written is read back, by us and by others; damage is told."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base.errors import DataError
from bench.data.card import DEFAULT_UNIT, MANIFEST, Card
from bench.data.dataset import Dataset
from bench.data.parquet import read_dataset, write_dataset
from bench.data.tables import SPLITS, Edge, Parameter, Query, Tables, Tool

CARD = Card(
    id="made",
    title="Gemacht №1",
    summary="工具",
    licence="MIT",
    redistribution=True,
    template="description",
    known_issues=["Ein „Fehler“."],
)
TABLES = Tables(
    [
        Tool(
            "mail.send",
            "send",
            "Schickt einen Brief – 送信.",
            "Post",
            "mail",
            (Parameter("to", "string", "Empfänger", True, '"mich"'), Parameter("copies", required=False)),
            '{"id": "str"}',
            "Quelle",
        ),
        Tool("mail.find", "find", ""),
        Tool("größe", "größe", "line one\nline two\r\n\ttab \x00"),
    ],
    [
        Query(
            "1",
            "Schreib: „Hallo“",
            {"mail.send": 1, "mail.find": 3},
            "train",
            {"size": "two", "kind": ""},
            "Ann",
            {"mail.find": ("größe",)},
            (),
            ("Brief", "„Hallo“\n"),
            ("user: „So“", ""),
            "model m",
            ("Brief", "„Hallo“"),
        ),
        Query("2", "", {}, "test", forbidden=("größe", "mail.find")),
        Query("3", "Wie groß?", {"größe": 2}, "dev", {"size": "one"}),
    ],
    [Edge("mail.send", "mail.find", "result", "id – №"), Edge("mail.send", "größe", "verification")],
    [("1", "unknown.tool")],
)


@pytest.fixture
def dataset() -> Dataset:
    """Tables with all that a dataset can have."""
    return Dataset.build("made(split=x)", CARD, TABLES)


@pytest.fixture
def folder(dataset: Dataset, tmp_path: Path) -> Path:
    """The dataset as it is stored."""
    write_dataset(dataset, tmp_path / "made")
    return tmp_path / "made"


def assert_same(one: Dataset, other: Dataset) -> None:
    assert (one.spec, one.card) == (other.spec, other.card)
    assert (one.tools, one.queries, one.edges) == (other.tools, other.queries, other.edges)
    assert one.unknown_gold == other.unknown_gold
    assert one.gold.tools.tolist() == other.gold.tools.tolist()
    assert one.gold.grades.tolist() == other.gold.grades.tolist()
    assert one.content_hash == other.content_hash


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
ids = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=6)
maybe = st.none() | texts
maybe_json = st.none() | texts.map(json.dumps) | st.just('{"a": [1, null]}')
parameters = st.builds(Parameter, texts, texts, texts, st.booleans(), maybe_json)


@st.composite
def random_tables(draw: st.DrawFn) -> Tables:
    tool_ids = draw(st.lists(ids, min_size=1, max_size=5, unique=True))
    inputs = st.lists(parameters, max_size=3).map(tuple)
    tools = [
        Tool(name, draw(texts), draw(texts), draw(texts), draw(texts), draw(inputs), draw(maybe_json), draw(maybe))
        for name in tool_ids
    ]
    golds = st.dictionaries(st.sampled_from(tool_ids), st.integers(1, 1_000_000), max_size=3)
    slices = st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), texts, max_size=2
    )
    queries = [
        Query(name, draw(texts), draw(golds), draw(st.sampled_from(SPLITS)), draw(slices), draw(texts))
        for name in draw(st.lists(ids, min_size=1, max_size=5, unique=True))
    ]
    pairs = st.lists(st.tuples(st.sampled_from(tool_ids), st.sampled_from(tool_ids)), max_size=4, unique=True)
    reasons: st.SearchStrategy[Literal["result", "verification"]] = st.sampled_from(["result", "verification"])
    edges = [Edge(a, b, draw(reasons), draw(texts)) for a, b in draw(pairs) if a != b]
    return Tables(tools, queries, edges, draw(st.lists(st.tuples(ids, ids), max_size=2)))


@given(random_tables(), texts)
@settings(deadline=None, max_examples=25)
def test_what_is_written_is_read_back(tables: Tables, title: str) -> None:
    dataset = Dataset.build("made", CARD.model_copy(update={"title": title}), tables)
    with tempfile.TemporaryDirectory() as place:
        write_dataset(dataset, Path(place) / "made")
        read = read_dataset(Path(place) / "made")
    assert_same(read, dataset)
    # The hash is computed from what was read, not only copied from the manifest.
    del read.__dict__["content_hash"]
    assert read.content_hash == dataset.content_hash


def test_the_same_dataset_is_the_same_bytes(dataset: Dataset, folder: Path, tmp_path: Path) -> None:
    write_dataset(dataset, tmp_path / "again")
    names = sorted(path.name for path in folder.iterdir())
    assert names == [MANIFEST, "edges.parquet", "gold.parquet", "queries.parquet", "tools.parquet"]
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_folder_can_be_written_over(folder: Path) -> None:
    other = Dataset.build("other", CARD, Tables(TABLES.tools[:1], [Query("9", "x", {"mail.send": 1})]))
    write_dataset(other, folder)
    assert_same(read_dataset(folder), other)


def test_pandas_reads_each_table_in_one_line(folder: Path) -> None:
    tools = pandas.read_parquet(f"{folder}/tools.parquet")
    assert tools.tool_id.tolist() == ["größe", "mail.find", "mail.send"]
    assert tools.description.tolist() == ["line one\nline two\r\n\ttab \x00", "", "Schickt einen Brief – 送信."]
    assert [one["name"] for one in tools.parameters[2]] == ["to", "copies"]
    assert tools.returns.isna().tolist() == [True, True, False]
    queries = pandas.read_parquet(f"{folder}/queries.parquet").set_index("query_id")
    parts = ["text", "split", "group", "forbidden", "searches", "context", "origin", "calls"]
    assert queries.columns.tolist() == [*parts, "slice_kind", "slice_size"]
    assert queries.group.to_dict() == {"1": "Ann", "2": "", "3": ""}
    assert queries.split.to_dict() == {"1": "train", "2": "test", "3": "dev"}
    assert queries.slice_size.fillna("-").to_dict() == {"1": "two", "2": "-", "3": "one"}
    assert queries.slice_kind.fillna("-").to_dict() == {"1": "", "2": "-", "3": "-"}
    gold = pandas.read_parquet(f"{folder}/gold.parquet")
    assert gold[["query_id", "tool_id", "relevance"]].values.tolist() == [
        ["1", "mail.find", 3],
        ["1", "mail.send", 1],
        ["3", "größe", 2],
    ]
    assert [list(others) for others in gold["any_of"]] == [["größe"], [], []]
    edges = pandas.read_parquet(f"{folder}/edges.parquet")
    assert edges.values.tolist() == [
        ["mail.send", "größe", "verification", ""],
        ["mail.send", "mail.find", "result", "id – №"],
    ]


def test_hugging_face_reads_each_table_in_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    for name, rows in {"tools": 3, "queries": 3, "gold": 3, "edges": 2}.items():
        loaded = datasets.load_dataset("parquet", data_files=f"{folder}/{name}.parquet", cache_dir=str(tmp_path / "hf"))
        assert loaded["train"].num_rows == rows
        assert loaded["train"].column_names == pandas.read_parquet(f"{folder}/{name}.parquet").columns.tolist()


def test_a_dataset_turns_into_data_frames_and_hugging_face_tables(dataset: Dataset) -> None:
    frames = dataset.to_pandas()
    assert {name: len(frame) for name, frame in frames.items()} == {"tools": 3, "queries": 3, "gold": 3, "edges": 2}
    tables = dataset.to_hf()
    assert {name: table.num_rows for name, table in tables.items()} == {name: len(frames[name]) for name in frames}
    assert tables["gold"]["relevance"] == [3, 1, 2]
    assert tables["tools"][2]["parameters"][0]["default"] == '"mich"'


def test_a_dataset_without_gold_and_edges_has_empty_tables() -> None:
    frames = Dataset.build("made", CARD, Tables(TABLES.tools, [Query("1", "x", {})])).to_pandas()
    assert frames["gold"].columns.tolist() == ["query_id", "tool_id", "relevance", "any_of"]
    assert frames["edges"].columns.tolist() == ["dependent", "prerequisite", "reason", "note"]
    assert len(frames["gold"]) == len(frames["edges"]) == 0


def test_a_table_of_a_version_that_had_fewer_columns_is_told(folder: Path) -> None:
    path = folder / "queries.parquet"
    pq.write_table(pq.read_table(path).drop_columns("group"), path)
    sign(folder, "queries.parquet")
    with pytest.raises(DataError, match="lacks the column 'group'"):
        read_dataset(folder)


def test_a_card_that_was_written_without_a_unit_has_the_default(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["card"]["unit"], manifest["card"]["source"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    read = read_dataset(folder)
    assert (read.card.unit, read.unit, read.source) == (DEFAULT_UNIT, "gold", "made")


# Damage -------------------------------------------------------------------------------------------------------------

FILES = ["tools.parquet", "queries.parquet", "gold.parquet", "edges.parquet"]
Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: data[:-1], lambda data: data + b"\0"],
    ids=["emptied", "half", "one byte short", "one byte long"],
)
def test_a_file_of_another_length_is_told(folder: Path, name: str, damage: Damage) -> None:
    path = folder / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError) as caught:
        read_dataset(folder)
    assert str(caught.value) == f"{path} is truncated or changed: its sha256 is not the one in dataset.json."


@pytest.mark.parametrize("name", FILES)
def test_an_edited_file_is_told(folder: Path, name: str) -> None:
    frame = pandas.read_parquet(folder / name)
    frame.iloc[:-1].to_parquet(folder / name)
    with pytest.raises(DataError, match=rf"{name} is truncated or changed"):
        read_dataset(folder)


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_missing_file_is_told(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DataError, match=rf"cannot read {folder / name}: "):
        read_dataset(folder)


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read "):
        read_dataset(tmp_path / "nowhere")


@pytest.mark.parametrize("version", [0, 2, "2", 1.5])
def test_another_format_version_is_told(folder: Path, version: object) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "schema_version": version}))
    with pytest.raises(DataError) as caught:
        read_dataset(folder)
    assert str(caught.value) == f"{folder / MANIFEST} has format version {version!r}; this bench reads 1."


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"null", b"[]", b"3", b'"dataset"', b"{}", b"\xff\xfe", b"[" * 100_000],
    ids=["empty", "cut", "null", "list", "number", "text", "no keys", "not utf-8", "deep"],
)
def test_a_manifest_that_is_garbage_is_told(folder: Path, text: bytes) -> None:
    (folder / MANIFEST).write_bytes(text)
    with pytest.raises(DataError, match=rf"{folder}"):
        read_dataset(folder)


def test_a_manifest_without_a_version_is_told(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["schema_version"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="has format version None; this bench reads 1"):
        read_dataset(folder)


@pytest.mark.parametrize("key", ["spec", "content_hash", "files", "card"])
def test_a_manifest_that_lacks_something_is_told(folder: Path, key: str) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest[key]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"dataset\.json does not follow its schema"):
        read_dataset(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema_version", None),
        ("schema_version", []),
        ("card", None),
        ("card", "made"),
        ("card", {"id": "made"}),
        ("files", None),
        ("files", []),
        ("files", {"tools.parquet": 3}),
        ("unknown_gold", [["one"]]),
        ("unknown_gold", 3),
    ],
)
def test_a_manifest_with_a_wrong_value_is_told(folder: Path, key: str, value: object) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, key: value}))
    with pytest.raises(DataError, match=r"dataset\.json"):
        read_dataset(folder)


def sign(folder: Path, name: str) -> None:
    """Put the checksum of a file into the manifest."""
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_parquet_is_told_even_if_its_checksum_is_right(folder: Path, name: str) -> None:
    (folder / name).write_text("query_id,tool_id\n")
    sign(folder, name)
    with pytest.raises(DataError, match=f"{name} is not a readable Parquet file"):
        read_dataset(folder)


@pytest.mark.parametrize(("name", "other"), list(zip(FILES, FILES[1:] + FILES[:1], strict=True)))
def test_a_file_with_other_columns_is_told_even_if_its_checksum_is_right(folder: Path, name: str, other: str) -> None:
    shutil.copy(folder / other, folder / name)
    sign(folder, name)
    with pytest.raises(DataError, match=f"{name}|{MANIFEST}"):
        read_dataset(folder)


@pytest.mark.parametrize("column", ["group", "slice_size"])
def test_a_group_or_slice_that_is_no_text_is_told(folder: Path, column: str) -> None:
    path = folder / "queries.parquet"
    table = pq.read_table(path)
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, pa.array([1, 2, 3])), path)
    sign(folder, "queries.parquet")
    with pytest.raises(DataError, match=rf"queries\.parquet .*'{column}'"):
        read_dataset(folder)


@pytest.mark.parametrize(("name", "column"), [("tools.parquet", "description"), ("queries.parquet", "text")])
def test_a_null_where_a_text_belongs_is_told(folder: Path, name: str, column: str) -> None:
    frame = pandas.read_parquet(folder / name)
    frame.loc[0, column] = None
    frame.to_parquet(folder / name)
    sign(folder, name)
    with pytest.raises(DataError, match=f"{name}|{MANIFEST}|{column}"):
        read_dataset(folder)
