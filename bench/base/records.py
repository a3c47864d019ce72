"""Base classes of records in JSON and TOML files, and the messages that say why a file is refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from bench.base.errors import BenchError
from bench.base.paths import LARGEST_TEXT, read_regular
from bench.base.text import shorten

#: Experiments, policies and cards have a few kilobytes.
_LARGEST_TOML = 4 << 20
_MOST_PARTS = 32
#: A key with more parts, bare or quoted. Texts with as many dots between words without spaces match too.
#: Possessive quantifiers avoid backtracking, so the time is linear in the text.
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_MANY_DOTS = re.compile(rf"(?m)(?:^[ \t\[]*+|[{{,][ \t]*+)(?:{_PART}){{{_MOST_PARTS}}}")

R = TypeVar("R", bound=BaseModel)


class Record(BaseModel):
    """Base of records: immutable, without unknown keys, infinities or NaN."""

    # Most commands use few of the records that they import, so validators are built on first use.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class StrictRecord(Record):
    """A record that people write by hand or that a gate trusts: `"3"` is not a number, and `1` is not a boolean."""

    model_config = ConfigDict(strict=True)


class Sparing(BaseModel):
    """Omits fields with default values when written.

    Files that do not need such a field stay the same as before the field existed.
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
        message: the message, without a full stop.
        given: the shortened value, if it is not one of the allowed ones; else empty.
    """

    place: tuple[int | str, ...]
    kind: str
    message: str
    given: str = ""

    @property
    def told(self) -> str:
        """The message with the offending value."""
        return f"{self.message}, not {self.given}" if self.given else self.message

    @property
    def where(self) -> str:
        """The place as `upstream.0.files`; empty for the whole."""
        return ".".join(map(str, self.place))


def faults(error: ValidationError) -> list[Fault]:
    """All faults, in pydantic's order."""
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
    """`PLACE: MESSAGE` of the first fault, without a full stop.

    Args:
        error: pydantic's error.
        whole: the place of a fault outside all fields; empty to omit it.
    """
    fault = faults(error)[0]
    place = fault.where or whole
    return f"{place}: {fault.told}" if place else fault.told


def read_toml(model: type[R], path: Path, name: str, error: type[BenchError]) -> R:
    """Read a record from a TOML file.

    Args:
        model: the record's class.
        path: the file.
        name: what the file is, for the message: `the gate's policy`.
        error: the error to raise if the file cannot be read, is not TOML or does not follow its schema.
    """
    return validate_record(model, toml_table(path, name, error), f"{name} {path}", error)


def toml_table(path: Path, name: str, error: type[BenchError]) -> dict[str, Any]:
    """Parse a TOML file; arguments and errors as in `read_toml`."""
    text = _text(path, name, error, _LARGEST_TOML)
    if _MANY_DOTS.search(text):
        # The time and memory that `tomllib` takes grow with the square of a key's parts.
        raise error(f"cannot read {name} {path}: a key has more than {_MOST_PARTS} parts.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as fault:
        raise error(f"cannot read {name} {path}: it is not TOML ({fault}).") from None


def validate_record(model: type[R], raw: Any, name: str, error: type[BenchError]) -> R:
    """Build a record from parsed JSON or TOML; raises `error` with `name` and the first fault."""
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
