"""Reading logs: line by line, so that a log of any length is read, and what cannot be read is counted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from bench.base.errors import DataError, UsageError
from bench.importing.reading import open_regular

#: Bytes of one record, and of all files together.
MOST_RECORD, MOST_BYTES = 64 << 20, 4 << 30


@dataclass(frozen=True)
class Parsed:
    """A value, and the line that it begins in."""

    line: int
    value: Any


@dataclass(frozen=True)
class Unread:
    """A line that holds no value, and why, without a full stop."""

    line: int
    reason: str


class LogReader:
    """Reads files, and digests what it reads."""

    def __init__(self) -> None:
        self._left = MOST_BYTES
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> bytes:
        """The sha256 of all bytes so far."""
        return self._digest.digest()

    def read(self, path: Path) -> Iterator[Parsed | Unread]:
        """The values of a file: one that fills it, or one in each line.

        Raises:
            UsageError: the file cannot be read, or all files together are too large.
            DataError: the file is empty, or nothing in it is JSON.
        """
        known, fault = False, ""
        with open_regular(path) as file:
            try:
                for each in self._values(file):
                    if isinstance(each, Parsed):
                        known = True
                    fault = fault or (f"line {each.line}: {each.reason}" if isinstance(each, Unread) else "")
                    yield each
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror}.") from None
        if not known:
            raise DataError(f"{path} is neither JSON nor JSON Lines ({fault})." if fault else f"{path} is empty.")

    def _values(self, file: BinaryIO) -> Iterator[Parsed | Unread]:
        head = file.read(MOST_RECORD + 1)
        first = head.lstrip().partition(b"\n")[0]
        if len(head) <= MOST_RECORD and isinstance(_parse_line(1, first), Unread):
            # It does not begin with a line of JSON, so one value may fill it, written over many lines.
            whole = _parse_line(1, head)
            if isinstance(whole, Parsed):
                self._count(head)
                yield whole
                return
        file.seek(0)
        number = 0
        while line := file.readline(MOST_RECORD + 1):
            number += 1
            self._count(line)
            if len(line) > MOST_RECORD:
                while line and not line.endswith(b"\n"):
                    line = file.readline(MOST_RECORD)
                    self._count(line)
                yield Unread(number, f"it is longer than {MOST_RECORD >> 20} MiB")
            elif line.strip():
                yield _parse_line(number, line)

    def _count(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise UsageError(f"the files have more than {MOST_BYTES >> 30} GiB; read them in parts.")
        self._digest.update(data)


def _parse_line(line: int, data: bytes) -> Parsed | Unread:
    try:
        return Parsed(line, json.loads(data.decode("utf-8-sig")))
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except RecursionError:
        reason = "it is nested too deeply"
    except json.JSONDecodeError as error:
        reason = f"it is not JSON from character {error.pos + 1} on"
    except ValueError:  # Python refuses whole numbers of more than 4,300 digits
        reason = "a number has too many digits"
    return Unread(line, reason)
