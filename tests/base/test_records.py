"""Records out of files, and the sentence that says what is wrong in one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from bench.base.errors import DataError, UsageError
from bench.base.records import Record, StrictRecord, faults, first_fault, read_toml


class Part(Record):
    size: int


class Whole(Record):
    name: str
    share: float = 0.0
    parts: list[Part] = []


class Strict(StrictRecord):
    n: int


def test_a_record_is_read(tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_bytes(b'\xef\xbb\xbfname = "a"\n[[parts]]\nsize = 3\n')
    assert read_toml(Whole, toml, "the whole", DataError) == Whole(name="a", parts=[Part(size=3)])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('name = "a"\n[[parts]]\nsize = "x"\n', "is not valid: parts.0.size: Input should be a valid integer"),
        ('name = "a"\ncolour = 1\n', "is not valid: colour: Extra inputs are not permitted."),
        ('name = "a"\nshare = nan\n', "is not valid: share: Input should be a finite number."),
        ('name = "a"\nshare = 1e999\n', "is not valid: share: Input should be a finite number."),
        ("", "is not valid: name: Field required"),
        ("{", "it is not TOML ("),
        ("a = " + "[" * 100_000, "it is not TOML ("),
    ],
)
def test_a_file_is_refused_with_its_name_and_the_place(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_toml(Whole, path, "the whole", UsageError)
    said = str(caught.value)
    assert said.removeprefix("cannot read ").startswith(f"the whole {path}")
    assert sentence in said
    assert said.endswith(".")
    assert "\n" not in said


@pytest.mark.parametrize("data", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "a.toml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(DataError, match=f"cannot read the whole {path}: (No such file|it is not UTF-8)"):
        read_toml(Whole, path, "the whole", DataError)
    path.write_text("a = ")
    with pytest.raises(DataError, match=f"cannot read the whole {path}: it is not TOML"):
        read_toml(Whole, path, "the whole", DataError)


def test_records_are_frozen_and_strict_ones_convert_nothing() -> None:
    whole = Whole(name="a")
    with pytest.raises(ValidationError, match="frozen"):
        whole.name = "b"  # type: ignore[misc]
    assert Part.model_validate({"size": "3"}).size == 3
    with pytest.raises(ValidationError, match="valid integer"):
        Strict.model_validate({"n": "3"})
    with pytest.raises(ValidationError, match="finite"):
        Whole(name="a", share=math.inf)


def test_the_first_fault_is_told_without_its_prefix_and_full_stop() -> None:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate({"parts": [{}, {"size": 1.5}]})
    error = caught.value
    assert [(fault.where, fault.kind) for fault in faults(error)][:2] == [
        ("name", "missing"),
        ("parts.0.size", "missing"),
    ]
    assert first_fault(error) == "name: Field required"
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(3)
    assert first_fault(caught.value, "the line").startswith("the line: Input should be")
    assert first_fault(caught.value, "").startswith("Input should be")
