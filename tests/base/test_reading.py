"""Files from outside, and the sentence that says why one cannot be read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench.base.errors import DataError
from bench.base.reading import Reader
from bench.base.records import Record


class Part(Record):
    size: int


READER = Reader("the part", DataError, "; write it again")


def test_a_file_is_read_as_bytes_text_and_record(tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    path.write_bytes(b'\xef\xbb\xbf{"size":\r\n3}\r')
    assert READER.read_bytes(path) == READER.read_verified(path, hashlib.sha256(path.read_bytes()).hexdigest(), "list")
    assert READER.read_text(path) == '{"size":\n3}\n'
    assert READER.read_record(Part, path) == Part(size=3)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (None, "cannot read the part: No such file or directory"),
        (b"\xff", "the part is not UTF-8: invalid start byte at byte 0"),
        (b'{\n"size" 3}', "the part is not JSON: Expecting ':' delimiter (line 2, column 8)"),
        (b'{"size": 3,\n"size": 4}', "the part: an object has the key 'size' in line 1 and in line 2"),
        (b'{"size": "\\ud800"}', "the part is not JSON: 'utf-8' codec can't encode character '\\ud800' in position 10"),
        (b"[" * 100_000, "the part is not JSON: maximum recursion depth exceeded"),
        (b"[3]", "the part does not follow its schema (it is not a JSON object)"),
        (b'{"size": 3, "colour": 1}', "the part does not follow its schema (colour: Extra inputs are not permitted)"),
    ],
)
def test_what_cannot_be_read_is_told_with_the_place_and_what_to_do(
    tmp_path: Path, data: bytes | None, sentence: str
) -> None:
    if data is not None:
        (tmp_path / "part.json").write_bytes(data)
    with pytest.raises(DataError) as caught:
        READER.read_record(Part, tmp_path / "part.json")
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith("; write it again.")


def test_lines_before_a_text_count() -> None:
    with pytest.raises(DataError, match=r"the part: an object has the key 'a' twice in line 8; write it again\."):
        READER.parse('{"a": 1, "a": 2}', 7)
    with pytest.raises(DataError, match=r"\(line 8, column 2\)"):
        READER.parse("{", 7)


def test_other_bytes_than_those_of_the_list_are_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with pytest.raises(DataError, match=r"^the part is truncated or changed: its sha256 is not the one in list; write"):
        READER.read_verified(tmp_path / "a", "0" * 64, "list")
