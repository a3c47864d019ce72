"""Access to a dataset's upstream files. Loaders receive it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from bench.base.errors import DataError
from bench.base.reading import Reader
from bench.base.records import faults, first_fault

T = TypeVar("T")


@dataclass(frozen=True)
class Files:
    """The files that a loader can read: upstream's, by their path in the repository, and its own folder."""

    paths: Mapping[str, Path]
    folder: Path

    def path(self, name: str) -> Path:
        """The local copy of an upstream file."""
        return self.paths[name]

    def text(self, name: str) -> str:
        """An upstream file as text; raises `DataError` if it is not UTF-8."""
        return Reader(name, DataError).read_text(self.paths[name])

    def json(self, name: str) -> Any:
        """An upstream file as JSON; raises `DataError` if it is not JSON."""
        try:
            return json.loads(self.text(name))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{name} is not JSON: {error}.") from None

    def read_as(self, form: type[T], name: str) -> T:
        """An upstream file as JSON of a given form; raises `DataError` that names the first invalid record."""
        try:
            return TypeAdapter(form).validate_json(self.text(name), strict=True)
        except ValidationError as error:
            fault = faults(error)[0]
            # The location is a list index or a key, then a field; it is empty if the file is not JSON.
            where = "".join(f", {kind} {part}" for kind, part in zip(("record", "field"), fault.place, strict=False))
            raise DataError(f"{name}{where}: {fault.message}.") from None

    def lines_as(self, form: type[T], name: str) -> Iterator[tuple[T, str]]:
        """The values of an upstream JSON Lines file, each with its place; raises `DataError` as `read_as` does."""
        lines = TypeAdapter(form)
        # Not `splitlines`: it would also cut at the line separators that JSON allows inside a text.
        for number, line in enumerate(self.text(name).split("\n"), start=1):
            if line:
                where = f"{name}, line {number}"
                try:
                    yield lines.validate_json(line, strict=True), where
                except ValidationError as error:
                    raise DataError(f"{where}: {first_fault(error, '')}.") from None

    def under(self, prefix: str) -> list[str]:
        """Names of the upstream files below a folder, sorted."""
        return sorted(name for name in self.paths if name.startswith(prefix.rstrip("/") + "/"))
