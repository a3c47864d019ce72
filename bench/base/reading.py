"""Files from outside as bytes, text and JSON, and the sentence that says why one cannot be read."""

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
    """Reads a file. JSON may have each key of an object once, and no half of a surrogate pair.

    Attributes:
        name: what messages call the file: `the training card PATH`.
        error: raised where it cannot be read.
        advice: the end of the message: `; train the model again`.
    """

    name: str
    error: type[BenchError]
    advice: str = ""

    def read_bytes(self, path: Path, most: int = LARGEST_TEXT) -> bytes:
        """The bytes of a file, which may have at most so many."""
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
        """A record out of a JSON file."""
        return self.validate(model, self.parse(self.read_bytes(path)))

    def decode(self, data: bytes) -> str:
        """The text of UTF-8."""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            raise self._error(f"{self.name} is not UTF-8: {fault.reason} at byte {fault.start}") from None

    def parse(self, data: bytes | str, before: int = 0) -> Any:
        """The value of a JSON text, which has so many lines of the file before it."""
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
        """A record out of the value of a JSON text."""
        try:
            # Pydantic's own sentence about another value names the class, which says nothing to a reader.
            return model.model_validate(value if isinstance(value, dict) else {})
        except ValidationError as fault:
            reason = first_fault(fault) if isinstance(value, dict) else "it is not a JSON object"
            raise self._error(f"{self.name} does not follow its schema ({reason})") from None

    def _error(self, what: str) -> BenchError:
        return self.error(f"{what}{self.advice}.")
