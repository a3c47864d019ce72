"""Differences between a published system, its released code and bench's method, from `differs.toml` beside the method.

`bench show --all` and the documentation print them. No method reads the file, so it does not affect result ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

import bench
from bench.base.errors import DataError, UsageError
from bench.base.records import StrictRecord, read_toml
from bench.base.spec import Spec, Value, parse
from bench.base.text import one_line


def _words(text: str) -> str:
    if not (line := one_line(text)):
        raise ValueError("is empty")
    return line


Words = Annotated[str, AfterValidator(_words)]


class Difference(StrictRecord):
    """One aspect of a system.

    Attributes:
        aspect: the aspect, such as `model` or `metric`.
        paper: what the paper says; `silent` if it says nothing.
        released: what the authors' code does; `none` if there is none, `not read` if it was not available.
        here: what this method does.
        why: the reason for the choice.
    """

    aspect: Words
    paper: Words
    released: Words
    here: Words
    why: Words

    @property
    def cells(self) -> tuple[str, ...]:
        """A row of the table, below `HEADS`."""
        return self.aspect, self.paper, self.released, self.here, self.why


class Differences(StrictRecord):
    """The table of one method.

    Attributes:
        paper: authors, year and title.
        url: URL of the paper.
        code: the code released by the authors, and whether it was read.
        rows: one row per aspect.
    """

    paper: Words
    url: Words
    code: Words
    rows: list[Difference] = Field(min_length=1)


#: Headers of a table.
HEADS = ("aspect", "paper", "released code", "here", "why")


@cache
def _files() -> dict[str, Path]:
    """Name of a method -> its file."""
    places = (path for root in bench.__path__ for path in Path(root, "methods").glob("*/differs.toml"))
    return {path.parent.name.replace("_", "-"): path for path in places}


@cache
def differences(name: str) -> Differences | None:
    """The table of a built-in method; None for a method without one.

    Raises:
        DataError: the file is not valid.
    """
    path = _files().get(name)
    return None if path is None else read_toml(Differences, path, "the differences of a method", DataError)


def with_differences() -> list[str]:
    """Names of the methods that have a table, sorted."""
    return sorted(_files())


def differences_of(spec: str) -> dict[str, Differences]:
    """The tables of a method and the methods in its arguments, by name, outermost first; empty if it is not a spec."""
    try:
        tables = {name: differences(name) for name in _names(parse(spec))}
    except UsageError:
        return {}
    return {name: table for name, table in tables.items() if table is not None}


def _names(value: Value) -> Iterable[str]:
    if isinstance(value, Spec):
        yield value.name
        for _, inner in value.arguments:
            yield from _names(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from _names(inner)
