"""Read edge lists from files. Loaders and imports call it."""

from __future__ import annotations

from pathlib import Path

from bench.base.errors import DataError
from bench.base.paths import read_regular
from bench.base.text import one_line
from bench.data.tables import Edge

COLUMNS = ("dependent", "prerequisite", "reason", "note")
_LARGEST = 256 << 20
_REASONS = ("result", "verification")


def read_edges(path: Path) -> list[Edge]:
    """Read a tab-separated edge list with the header `dependent prerequisite [reason [note]]`.

    Raises:
        DataError: the file cannot be read, has another header, or a row of the wrong length or reason.
    """
    try:
        text = read_regular(path, _LARGEST).decode("utf-8")
    except OSError as error:
        raise DataError(f"cannot read the edge list {path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"the edge list {path} is not UTF-8 ({error.reason} at byte {error.start}).") from None
    # Not `csv`: it limits the length of a field, and quotes have no meaning here.
    rows = [line.split("\t") if line else [] for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    header = tuple(rows[0]) if rows else ()
    if header[:2] != COLUMNS[:2] or header != COLUMNS[: len(header)]:
        raise DataError(f"{path}: the first line must be the tab-separated header {' '.join(COLUMNS)}.")
    edges = []
    seen: set[tuple[str, str]] = set()
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) > 1 and row[0] == row[1]:
            raise DataError(f"{path}, line {number}: the edge of {one_line(row[0], 80)} points at itself.")
        if tuple(row[:2]) in seen:
            twice = f"{one_line(row[0], 80)} -> {one_line(row[1], 80)}"
            raise DataError(f"{path}, line {number}: the edge {twice} occurs twice.")
        seen.add((row[0], row[1] if len(row) > 1 else ""))
        reason = row[2] if len(row) > 2 else "result"
        if len(row) != len(header) or reason not in _REASONS:
            raise DataError(
                f"{path}, line {number}: expected {len(header)} tab-separated values with a reason of "
                f"{' or '.join(_REASONS)}, found {one_line(repr(row), 160)}."
            )
        edges.append(Edge(row[0], row[1], "result" if reason == "result" else "verification", "".join(row[3:])))
    return edges
