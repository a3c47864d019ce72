"""Tables of others: a null at any depth is refused in a sentence."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.datasets import loaded

from bench.base.errors import DataError
from bench.data.parquet import read_dataset, write_dataset


@pytest.mark.parametrize(
    ("table", "column", "change"),
    [
        ("tools", "name", None),
        ("tools", "parameters", None),
        ("tools", "parameters", [None]),
        ("tools", "parameters", [{"name": None, "type": "", "description": "", "required": True, "default": None}]),
        ("tools", "parameters", [{"name": "a", "type": "", "description": "", "required": None, "default": None}]),
        ("queries", "searches", [None]),
        ("queries", "forbidden", None),
        ("gold", "any_of", ["a", None]),
    ],
)
def test_a_null_is_refused_at_any_depth(table: str, column: str, change: object, tmp_path: Path) -> None:
    write_dataset(loaded("starter"), tmp_path)
    path = tmp_path / f"{table}.parquet"
    rows = pq.ParquetFile(path).read()
    values = rows[column].to_pylist()
    values[1] = change
    place = rows.column_names.index(column)
    pq.write_table(rows.set_column(place, column, pa.array(values, rows.schema.field(column).type)), path)
    manifest = json.loads((tmp_path / "dataset.json").read_text())
    manifest["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "dataset.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=f"has nulls in the column '{column}'"):
        read_dataset(tmp_path)


def test_a_default_may_be_null(tmp_path: Path) -> None:
    write_dataset(loaded("starter"), tmp_path)
    assert any(each.default is None for tool in read_dataset(tmp_path).tools for each in tool.parameters)
