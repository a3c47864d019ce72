"""What loaders read: upstream's files as text, as JSON and as records of a form; what is neither is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from bench.base.errors import DataError
from bench.data.files import Files


class Record(BaseModel):
    """What a loader might want."""

    model_config = ConfigDict(extra="forbid")

    query: str
    tools: list[int]


def files_of(folder: Path, contents: dict[str, bytes]) -> Files:
    for number, data in enumerate(contents.values()):
        (folder / str(number)).write_bytes(data)
    return Files({name: folder / str(number) for number, name in enumerate(contents)}, folder)


def test_loaders_read_text_and_json_and_are_told_what_is_neither(tmp_path: Path) -> None:
    contents = {"a/bom.json": b'\xef\xbb\xbf{"x": "\xc3\xa9"}', "a/cut.json": b'{"x": ', "ab.txt": b"\xff\xfe"}
    files = files_of(tmp_path, contents)
    assert files.json("a/bom.json") == {"x": "é"}
    assert files.under("a") == files.under("a/") == ["a/bom.json", "a/cut.json"]
    with pytest.raises(DataError, match=r"^a/cut\.json is not JSON: "):
        files.json("a/cut.json")
    with pytest.raises(DataError, match=r"^ab\.txt is not UTF-8: "):
        files.text("ab.txt")


@pytest.mark.parametrize(
    ("form", "data", "expected"),
    [
        (list[Record], b'[{"query": "x", "tools": [1]}]', [Record(query="x", tools=[1])]),
        (dict[str, Record], b'\xef\xbb\xbf{"a": {"query": "x", "tools": []}}', {"a": Record(query="x", tools=[])}),
        (dict[str, str], b'{"a": "b"}', {"a": "b"}),
    ],
)
def test_records_are_read_as_the_form_says(tmp_path: Path, form: Any, data: bytes, expected: object) -> None:
    assert files_of(tmp_path, {"x.json": data}).read_as(form, "x.json") == expected


@pytest.mark.parametrize(
    ("form", "data", "sentence"),
    [
        (list[Record], b'[{"query": "x", "tools": []}, {"query": "x"}]', "x.json, record 1, field tools: "),
        (list[Record], b'[{"query": "x", "tools": ["1"]}]', "x.json, record 0, field tools: "),
        (list[Record], b'[{"query": "x", "tools": [], "more": 1}]', "x.json, record 0, field more: "),
        (dict[str, Record], b'{"a": {"query": 1, "tools": []}}', "x.json, record a, field query: "),
        (dict[str, str], b'{"a": 1}', "x.json, record a: "),
        (list[Record], b"[", "x.json: Invalid JSON"),
        (list[Record], b"\xff", "x.json is not UTF-8: "),
    ],
)
def test_the_first_record_out_of_form_is_told(tmp_path: Path, form: Any, data: bytes, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        files_of(tmp_path, {"x.json": data}).read_as(form, "x.json")
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith(".")
