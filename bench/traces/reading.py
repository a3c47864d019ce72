"""Read logs line by line, so that their length does not matter; name and count what cannot be read."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any, BinaryIO

from bench.base import strict_json
from bench.base.errors import DataError, UsageError
from bench.importing.reading import open_regular

#: Maximum bytes of one record, and of all files together.
MOST_RECORD, MOST_BYTES = 64 << 20, 4 << 30
#: Maximum remarks to keep: of a kind, and in total.
_MOST_OF_A_KIND, _MOST_REMARKS = 100, 1_000
#: Messages about JSON that repeats a key, and JSON that Python cannot read.
CONTRADICTORY, TOO_DEEP = "a field has two values", "it is nested too deeply"


@dataclass(frozen=True)
class Line:
    """A line, or a whole file from the first line on.

    Attributes:
        number: the line it begins on.
        value: its value; None for an unreadable line.
        fault: why it cannot be read, without a full stop; empty if it can.
        more: what distinguishes the fault from others of its kind.
    """

    number: int
    value: Any = None
    fault: str = ""
    more: str = ""


class Remarks:
    """What was unreadable, unknown or contradictory, with its place.

    Attributes:
        counts: kind -> number.
        first: (place, remark) of the first of each kind. The remark begins with its kind.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: list[tuple[str, str]] = []

    def add(self, place: str, kind: str, more: str = "") -> None:
        """Add a remark; `more`: details beside its kind."""
        self.counts[kind] += 1
        if self.counts[kind] <= _MOST_OF_A_KIND and len(self.first) < _MOST_REMARKS:
            self.first.append((place, kind + more))


class LogReader:
    """Reads files and digests their content."""

    def __init__(self) -> None:
        self._left = MOST_BYTES
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> bytes:
        """The sha256 of all bytes so far."""
        return self._digest.digest()

    def read(self, path: Path) -> Iterator[Line]:
        """The values of a file: a single one, or one per line.

        Raises:
            UsageError: the file cannot be read, or all files together are too large.
            DataError: the file is empty, or nothing in it is JSON.
        """
        first: Line | None = None
        with open_regular(path) as file:
            try:
                for line in self._lines(file):
                    first = line if first is None or (first.fault and not line.fault) else first
                    yield line
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror}.") from None
        if first is None:
            raise DataError(f"{path} is empty.")
        if first.fault == CONTRADICTORY:
            raise DataError(f"{path} cannot be read{first.more}.")
        if first.fault:
            raise DataError(f"{path} is neither JSON nor JSON Lines (line {first.number}: {first.fault}{first.more}).")

    def _lines(self, file: BinaryIO) -> Iterator[Line]:
        head = file.read(MOST_RECORD + 1)
        begins = _parse(1, head.lstrip().partition(b"\n")[0])
        if len(head) <= MOST_RECORD and begins.fault not in ("", CONTRADICTORY):
            # It does not begin with a line of JSON, so it may be one value over many lines.
            whole = _parse(1, head)
            if whole.fault in ("", CONTRADICTORY):
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
                yield Line(number, fault=f"it is longer than {MOST_RECORD >> 20} MiB")
            elif line.strip():
                yield _parse(number, line)

    def _count(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise UsageError(f"the files have more than {MOST_BYTES >> 30} GiB; read them in parts.")
        self._digest.update(data)


def _parse(number: int, data: bytes) -> Line:
    more = ""
    try:
        return Line(number, strict_json.loads(data.decode("utf-8-sig")))
    except UnicodeDecodeError:
        fault = "it is not UTF-8"
    except RecursionError:
        fault = TOO_DEEP
    except strict_json.RepeatedKey as error:
        fault, more = CONTRADICTORY, f": {error.sentence(number - 1)}"
    except JSONDecodeError as error:
        fault, more = "it is not JSON", f" from character {error.pos + 1} on"
    except ValueError:  # Python refuses whole numbers of more than 4,300 digits
        fault = "a number has too many digits"
    return Line(number, None, fault, more)
