"""Which datasets a user added, and their current content; looking up a stored result by name checks it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bench.base.errors import BenchError
from bench.base.paths import data_folder
from bench.base.spec import parse
from bench.data.card import ID_PATTERN, MANIFEST

#: A content hash.
HASH = re.compile("[0-9a-f]{64}")


def is_added(spec: str) -> bool:
    """Whether a spec names a dataset that a user added, and can therefore replace."""
    return _added_folder(spec) is not None


def current_content(spec: str) -> str | None:
    """The current content hash of a dataset that a user added; None for other datasets."""
    folder = _added_folder(spec)
    if folder is None:
        return None
    if folder.name == spec:
        return content_of(folder)
    try:
        # A view of its queries has different content.
        from bench.registry.datasets import load_dataset

        return load_dataset(spec).content_hash
    except BenchError:
        return None


def _added_folder(spec: str) -> Path | None:
    """The folder of an added dataset."""
    try:
        folder = data_folder() / "datasets" / parse(spec).name
        # The name of a plug-in may contain a colon or a path; a result from elsewhere may contain any spec.
        return folder if re.fullmatch(ID_PATTERN, folder.name) and (folder / MANIFEST).is_file() else None
    except (BenchError, OSError, ValueError):
        return None


def content_of(folder: Path) -> str | None:
    """The content hash in the manifest of an added dataset; None if it cannot be read."""
    try:
        content_hash = json.loads((folder / MANIFEST).read_text("utf-8"))["content_hash"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return content_hash if isinstance(content_hash, str) and HASH.fullmatch(content_hash) else None
