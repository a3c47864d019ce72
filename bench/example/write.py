"""Write the example of `bench init` into a folder: tools of two servers, queries, a policy, CI jobs."""

from __future__ import annotations

import os
from pathlib import Path

from bench.base.errors import UsageError
from bench.base.paths import write_text
from bench.example.source import find_source

#: The files by their paths; hidden ones begin with `dot_`, because packages leave hidden files out.
_SOURCES = Path(__file__).with_name("files")
#: Placeholder for what CI installs with pip: the bench that wrote the example, because another may differ.
_SOURCE = "BENCH_SOURCE"
#: The beginning of the example's README.
FIRST_COMMAND = "bench data import desk-example tools --queries queries.csv"


def write_example(folder: Path) -> list[Path]:
    """Write the example into a folder, which may exist.

    Each file is written completely or not at all. If writing was killed, the same call writes what is missing.

    Returns:
        The files.

    Raises:
        UsageError: the whole example, or a file that differs from it, is already there; nothing is written.
        StorageError: a file cannot be written; no new file remains.
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
    """Whether a path is a file with this text, written by an earlier call that was killed."""
    try:
        return path.is_file() and not path.is_symlink() and path.read_bytes() == text.encode("utf-8")
    except OSError:
        return False
