"""Parquet files whose checksum is right and whose content is not: too large, or damaged anywhere."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.datasets import make_dataset

from bench.base.errors import DataError
from bench.data import parquet
from bench.data.card import MANIFEST
from bench.data.parquet import read_dataset, write_dataset
from bench.data.tables import Edge, Parameter, Query, Tool

FILES = ["tools.parquet", "queries.parquet", "gold.parquet", "edges.parquet"]
CONTENT = (
    [Tool("a", "send", "Größe", "Post", "mail", (Parameter("to", "string", "Empfänger"),), "{}"), Tool("b", "b", "")],
    [Query("1", "Schreib Ann", {"a": 1}, "train", {"size": "one"}), Query("2", "Wohin?", {"b": 2})],
    [Edge("a", "b", "result", "№")],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stored dataset, to be damaged."""
    write_dataset(make_dataset(*CONTENT), tmp_path / "made")
    return tmp_path / "made"


def sign(folder: Path, name: str, data: bytes) -> None:
    """Write a file, and put its checksum into the manifest."""
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][name] = hashlib.sha256(data).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(manifest))


def with_texts(folder: Path, texts: pa.Array) -> None:
    """Put other texts into the table of queries."""
    path = folder / "queries.parquet"
    table = pq.ParquetFile(path).read()
    changed = table.set_column(table.schema.get_field_index("text"), "text", texts)
    pq.write_table(changed, path, store_schema=False)
    sign(folder, path.name, path.read_bytes())


def test_a_table_that_is_too_large_is_told_before_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_texts(folder, pa.array(["x" * 3_000_000, "y"]))
    monkeypatch.setattr(parquet, "_LARGEST_TABLE", 4 << 20)
    assert len(read_dataset(folder).queries[0].text) == 3_000_000
    monkeypatch.setattr(parquet, "_LARGEST_TABLE", 2 << 20)
    with pytest.raises(DataError) as caught:
        read_dataset(folder)
    assert str(caught.value).startswith(f"{folder / 'queries.parquet'} would take 2 MiB of memory or more; ")


def test_a_table_that_grows_when_it_is_read_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One long text that every row refers to: a megabyte in the file's own words, a hundred in memory.
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array(["x" * 1_000_000]))
    columns = {"query_id": pa.array([f"{number}" for number in range(100)]), "text": rows}
    path = folder / "queries.parquet"
    split = pa.array(["test"] * 100)
    pq.write_table(pa.table({**columns, "split": split}), path, store_schema=False)
    sign(folder, path.name, path.read_bytes())
    monkeypatch.setattr(parquet, "_LARGEST_TABLE", 20 << 20)
    with pytest.raises(DataError, match=r"queries\.parquet would take .* of memory"):
        read_dataset(folder)


def test_a_text_that_is_not_utf_8_is_told(folder: Path) -> None:
    offsets, data = pa.py_buffer(bytes([0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])), pa.py_buffer(b"\xff\xfex")
    with_texts(folder, pa.Array.from_buffers(pa.string(), 2, [None, offsets, data]))
    with pytest.raises(DataError, match=rf"queries\.parquet|{MANIFEST}"):
        read_dataset(folder)


@pytest.mark.parametrize("name", FILES)
def test_whatever_byte_is_wrong_the_file_is_told_or_read(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    draw = random.Random(name)
    told = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.choice([1, 3])):
            data[draw.randrange(len(data))] = draw.randrange(256)
        sign(folder, name, bytes(data))
        try:
            read_dataset(folder)
        except DataError:
            told += 1
    assert told > 50
