"""Read external files as bytes, text and JSON, with one error message if a file cannot be read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from bench.base import strict_json
from bench.base.errors import BenchError
from bench.base.paths import LARGEST_TEXT, read_regular
from bench.base.records import first_fault

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Reader:
    """Reads a file. JSON with repeated keys or lone surrogates is refused.

    Attributes:
        name: the name of the file in messages: `the training card PATH`.
        error: the error to raise if it cannot be read.
        advice: the end of the message: `; train the model again`.
    """

    name: str
    error: type[BenchError]
    advice: str = ""

    def read_bytes(self, path: Path, most: int = LARGEST_TEXT) -> bytes:
        """The bytes of a file, at most `most`."""
        try:
            return read_regular(path, most)
        except OSError as fault:
            raise self._error(f"cannot read {self.name}: {fault.strerror}") from None

    def read_verified(self, path: Path, digest: str | None, listing: str) -> bytes:
        """The bytes of a file whose sha256 is in the file `listing`."""
        data = self.read_bytes(path)
        if hashlib.sha256(data).hexdigest() != digest:
            raise self._error(f"{self.name} is truncated or changed: its sha256 is not the one in {listing}")
        return data

    def read_text(self, path: Path, most: int = LARGEST_TEXT) -> str:
        """The text of a file, with "\\n" line ends."""
        return self.decode(self.read_bytes(path, most)).replace("\r\n", "\n").replace("\r", "\n")

    def read_record(self, model: type[R], path: Path) -> R:
        """Read a record from a JSON file."""
        return self.validate(model, self.parse(self.read_bytes(path)))

    def decode(self, data: bytes) -> str:
        """Decode UTF-8."""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            raise self._error(f"{self.name} is not UTF-8: {fault.reason} at byte {fault.start}") from None

    def parse(self, data: bytes | str, before: int = 0) -> Any:
        """Parse JSON; `before` is the number of lines before it in the file."""
        text = data if isinstance(data, str) else self.decode(data)
        try:
            value = strict_json.loads(text)
            if "\\u" in text:
                json.dumps(value, ensure_ascii=False).encode()
        except strict_json.RepeatedKey as fault:
            raise self._error(f"{self.name}: {fault.sentence(before)}") from None
        except json.JSONDecodeError as fault:
            place = f"line {fault.lineno + before}, column {fault.colno}"
            raise self._error(f"{self.name} is not JSON: {fault.msg} ({place})") from None
        except (ValueError, RecursionError) as fault:
            raise self._error(f"{self.name} is not JSON: {fault}") from None
        return value

    def validate(self, model: type[R], value: Any) -> R:
        """Build a record from a parsed JSON value."""
        try:
            # For values other than objects, pydantic's message names the class, which does not help a user.
            return model.model_validate(value if isinstance(value, dict) else {})
        except ValidationError as fault:
            reason = first_fault(fault) if isinstance(value, dict) else "it is not a JSON object"
            raise self._error(f"{self.name} does not follow its schema ({reason})") from None

    def _error(self, what: str) -> BenchError:
        return self.error(f"{what}{self.advice}.")
