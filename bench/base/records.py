"""Records: what bench reads from and writes to JSON and TOML, and the sentence that says why a file is refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from bench.base.errors import BenchError
from bench.base.paths import LARGEST_TEXT, read_regular
from bench.base.text import shorten

#: Experiments, policies and cards have some kilobytes.
_LARGEST_TOML = 4 << 20
_MOST_PARTS = 32
#: A key of more parts, bare or quoted. Texts with so many dots between words without a space would look the same.
#: Possessive: nothing is tried twice, so that the time is linear in the text.
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_MANY_DOTS = re.compile(rf"(?m)(?:^[ \t\[]*+|[{{,][ \t]*+)(?:{_PART}){{{_MOST_PARTS}}}")

R = TypeVar("R", bound=BaseModel)


class Record(BaseModel):
    """Base of records: immutable, without unknown keys, infinities or NaN."""

    # Most commands read few of the kinds of records that they import; a reader is built when it is first needed.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class StrictRecord(Record):
    """A record that people write by hand or that a gate trusts: `"3"` is no number, and `1` is no truth value."""

    model_config = ConfigDict(strict=True)


class Sparing(BaseModel):
    """Leaves fields out of what is written where they have their default.

    A file that does not need such a field stays as it was before there was the field.
    """

    #: Names of these fields.
    spared: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _spare(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        usual = {name for name in self.spared if getattr(self, name) == type(self).model_fields[name].default}
        return {name: value for name, value in write(self).items() if name not in usual}


class Fault(NamedTuple):
    """What is wrong with a value.

    Attributes:
        place: keys and list indices that lead to the value; empty for the whole.
        kind: pydantic's name of the error, such as `missing`.
        message: without a full stop.
        given: the value, shortened, where it is none of those that are allowed; else empty.
    """

    place: tuple[int | str, ...]
    kind: str
    message: str
    given: str = ""

    @property
    def told(self) -> str:
        """The message, with the value that it is about."""
        return f"{self.message}, not {self.given}" if self.given else self.message

    @property
    def where(self) -> str:
        """The place as `upstream.0.files`; empty for the whole."""
        return ".".join(map(str, self.place))


def faults(error: ValidationError) -> list[Fault]:
    """All that is wrong, in pydantic's order."""
    return [
        Fault(
            item["loc"],
            item["type"],
            item["msg"].removeprefix("Value error, ").rstrip("."),
            shorten(repr(item["input"]), 60) if item["type"] == "literal_error" else "",
        )
        for item in error.errors(include_url=False, include_context=False)
    ]


def first_fault(error: ValidationError, whole: str = "the file") -> str:
    """`PLACE: what is wrong there`, of the first fault; without a full stop.

    Args:
        error: pydantic's.
        whole: what to call the place of a fault that lies in no field; empty to name none.
    """
    fault = faults(error)[0]
    place = fault.where or whole
    return f"{place}: {fault.told}" if place else fault.told


def read_toml(model: type[R], path: Path, name: str, error: type[BenchError]) -> R:
    """A record out of a TOML file.

    Args:
        model: the record's class.
        path: the file.
        name: what the file is, for the sentence: `the gate's policy`.
        error: raised where the file cannot be read, is no TOML or does not follow its schema.
    """
    return validate_record(model, toml_table(path, name, error), f"{name} {path}", error)


def toml_table(path: Path, name: str, error: type[BenchError]) -> dict[str, Any]:
    """The parsed text of a TOML file; arguments and errors as of `read_toml`."""
    text = _text(path, name, error, _LARGEST_TOML)
    if _MANY_DOTS.search(text):
        # The time and memory that `tomllib` takes grow with the square of a key's parts.
        raise error(f"cannot read {name} {path}: a key has more than {_MOST_PARTS} parts.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as fault:
        raise error(f"cannot read {name} {path}: it is not TOML ({fault}).") from None


def validate_record(model: type[R], raw: Any, name: str, error: type[BenchError]) -> R:
    """A record out of parsed JSON or TOML; raises `error` with the first fault, `name` being what it is found in."""
    try:
        return model.model_validate(raw)
    except ValidationError as fault:
        raise error(f"{name} is not valid: {first_fault(fault)}.") from None


def _text(path: Path, name: str, error: type[BenchError], most: int = LARGEST_TEXT) -> str:
    try:
        return read_regular(path, most).decode("utf-8-sig")
    except OSError as fault:
        raise error(f"cannot read {name} {path}: {fault.strerror}.") from None
    except UnicodeDecodeError as fault:
        raise error(f"cannot read {name} {path}: it is not UTF-8 ({fault}).") from None
