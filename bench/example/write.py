"""Write the example into a folder: tools of two servers, queries, a policy, jobs of CI."""

from __future__ import annotations

import os
from pathlib import Path

from bench.base.errors import UsageError
from bench.base.paths import write_text
from bench.example.source import find_source

#: The files by where they go; a hidden one begins with `dot_`, as packages leave hidden files out.
_SOURCES = Path(__file__).with_name("files")
#: In a file of the example, what pip is told to install: the bench that wrote it, as another may have other code.
_SOURCE = "BENCH_SOURCE"
#: What the example's README begins with.
FIRST_COMMAND = "bench data import desk-example tools --queries queries.csv"


def write_example(folder: Path) -> list[Path]:
    """Write the example into a folder, which may exist.

    Each file is there whole or not at all. If writing was killed, the same call writes what is missing.

    Returns:
        The files.

    Raises:
        UsageError: the whole example is there already, or a file that is not as in the example; nothing is written.
        StorageError: a file cannot be written; none of those that were missing stays.
    """
    source = find_source().requirement
    texts = {
        folder / str(path.relative_to(_SOURCES)).replace("dot_", "."): path.read_text("utf-8").replace(_SOURCE, source)
        for path in sorted(_SOURCES.rglob("*"))
        if path.is_file()
    }
    missing = [path for path, text in texts.items() if not _is(path, text)]
    for path in missing or texts:
        if os.path.lexists(path):
            raise UsageError(f"{path} already exists, and nothing was written: name another folder.")
    written: list[Path] = []
    try:
        for path in missing:
            write_text(path, texts[path])
            written.append(path)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return list(texts)


def _is(path: Path, text: str) -> bool:
    """Whether a path is a file with this text: an earlier call that was killed has written it."""
    try:
        return path.is_file() and not path.is_symlink() and path.read_bytes() == text.encode("utf-8")
    except OSError:
        return False
