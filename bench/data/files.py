"""Access to a dataset's upstream files for its loader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from bench.base.errors import DataError
from bench.base.reading import Reader
from bench.base.records import faults

T = TypeVar("T")


@dataclass(frozen=True)
class Files:
    """What a loader reads: upstream's files by their path in the repository, and its own folder."""

    paths: Mapping[str, Path]
    folder: Path

    def path(self, name: str) -> Path:
        """The local copy of an upstream file."""
        return self.paths[name]

    def text(self, name: str) -> str:
        """An upstream file as text; raises `DataError` when it is not UTF-8."""
        return Reader(name, DataError).read_text(self.paths[name])

    def json(self, name: str) -> Any:
        """An upstream file as JSON; raises `DataError` when it is not."""
        try:
            return json.loads(self.text(name))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{name} is not JSON: {error}.") from None

    def read_as(self, form: type[T], name: str) -> T:
        """An upstream file as JSON of a given form; raises `DataError` that names the first record out of form."""
        try:
            return TypeAdapter(form).validate_json(self.text(name), strict=True)
        except ValidationError as error:
            fault = faults(error)[0]
            # The place is a list index or a key, then a field; there is none when the file is not JSON at all.
            where = "".join(f", {kind} {part}" for kind, part in zip(("record", "field"), fault.place, strict=False))
            raise DataError(f"{name}{where}: {fault.message}.") from None

    def under(self, prefix: str) -> list[str]:
        """Names of the upstream files below a folder, sorted."""
        return sorted(name for name in self.paths if name.startswith(prefix.rstrip("/") + "/"))
