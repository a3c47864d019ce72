"""The example that a team starts from: tools of two servers, queries, a policy, a workflow."""

from __future__ import annotations

import os
from pathlib import Path

import bench
from bench.errors import UsageError
from bench.storage.paths import storage_errors

_SOURCES = Path(__file__).with_name("example_files")
#: Where a file goes -> what it is called in the package, which has no hidden files.
_FILES = {
    "README.md": "readme.md",
    "tools/tickets.json": "tickets.json",
    "tools/rooms.json": "rooms.json",
    "queries.csv": "queries.csv",
    "gate.toml": "gate.toml",
    ".gitignore": "gitignore",
    ".github/workflows/tool-search.yml": "github.yml",
}
#: In a file of the example, the version of bench that wrote it: another may have other scoring code.
_VERSION = "BENCH_VERSION"
#: What the example's README begins with.
FIRST_COMMAND = "bench data import desk-example tools --queries queries.csv"


def write_example(folder: Path) -> list[Path]:
    """Write the example into a folder, which may exist.

    Returns:
        The files.

    Raises:
        UsageError: one of the files is there already; nothing is written.
        StorageError: a file cannot be written; none stays.
    """
    texts = {
        folder / place: (_SOURCES / name).read_text("utf-8").replace(_VERSION, bench.__version__)
        for place, name in _FILES.items()
    }
    for path in texts:
        if os.path.lexists(path):
            raise UsageError(f"{path} already exists, and nothing was written: name another folder.")
    written: list[Path] = []
    try:
        with storage_errors(str(folder)):
            for path, text in texts.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                # Not over a file that came a moment ago, either.
                with path.open("x", encoding="utf-8", newline="\n") as file:
                    written.append(path)
                    file.write(text)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return written
