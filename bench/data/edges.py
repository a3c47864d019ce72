"""Reading edge lists from files."""

from __future__ import annotations

import csv
from pathlib import Path

from bench.data.tables import Edge
from bench.errors import DataError

COLUMNS = ("dependent", "prerequisite", "reason", "note")
_REASONS = ("result", "verification")


def read_edges(path: Path) -> list[Edge]:
    """Read a tab-separated edge list with the header `dependent prerequisite [reason [note]]`.

    Raises:
        DataError: the file cannot be read, has another header, or a row of the wrong length or reason.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the edge list {path}: {error}.") from None
    rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    header = tuple(rows[0]) if rows else ()
    if header[:2] != COLUMNS[:2] or header != COLUMNS[: len(header)]:
        raise DataError(f"{path}: the first line must be the tab-separated header {' '.join(COLUMNS)}.")
    edges = []
    seen: set[tuple[str, str]] = set()
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) > 1 and row[0] == row[1]:
            raise DataError(f"{path}, line {number}: the edge of {row[0]} points at itself.")
        if tuple(row[:2]) in seen:
            raise DataError(f"{path}, line {number}: the edge {row[0]} -> {row[1]} occurs twice.")
        seen.add((row[0], row[1] if len(row) > 1 else ""))
        reason = row[2] if len(row) > 2 else "result"
        if len(row) != len(header) or reason not in _REASONS:
            raise DataError(
                f"{path}, line {number}: expected {len(header)} tab-separated values with a reason of "
                f"{' or '.join(_REASONS)}, found {row}."
            )
        edges.append(Edge(row[0], row[1], "result" if reason == "result" else "verification", "".join(row[3:])))
    return edges
