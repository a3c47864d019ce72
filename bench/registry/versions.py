"""Contents of a dataset before its user replaced it: results on them can still be compared.

Replacing an added dataset keeps its earlier tables under `earlier/` in the user's data folder, the last few of each.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from bench.data.card import ID_PATTERN
from bench.data.dataset import Dataset
from bench.data.parquet import MANIFEST, read_dataset
from bench.data.sources import Sources
from bench.errors import BenchError, UnavailableError
from bench.registry.datasets import checked, load_dataset
from bench.specs.spec import parse
from bench.storage.locks import replaced_folder
from bench.storage.paths import data_folder
from bench.text import one_line

#: Earlier contents that are kept of a dataset.
MOST_EARLIER = 10
_HASH = re.compile("[0-9a-f]{64}")


def current_content(spec: str) -> str | None:
    """The content hash of a dataset that a user added, as it is now; None for every other dataset."""
    if not re.fullmatch(ID_PATTERN, spec):
        return None
    return _content_of(data_folder() / "datasets" / spec)


def _content_of(folder: Path) -> str | None:
    try:
        found = json.loads((folder / MANIFEST).read_text("utf-8"))["content_hash"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) and _HASH.fullmatch(found) else None


def keep_earlier(folder: Path, content_hash: str) -> None:
    """Copy an added dataset that is about to be replaced, unless its new content is the same.

    The caller holds the dataset's lock.

    Args:
        folder: where the dataset is.
        content_hash: of what comes in its place.

    Raises:
        StorageError: the copy cannot be written; the dataset is as it was.
    """
    earlier = _content_of(folder)
    if earlier is None or earlier == content_hash:
        return
    place = data_folder() / "earlier" / folder.name
    with replaced_folder(place / earlier) as fresh:
        shutil.copytree(folder, fresh, dirs_exist_ok=True, copy_function=shutil.copyfile)
    kept = [path for path in place.iterdir() if _HASH.fullmatch(path.name)]
    for path in sorted(kept, key=lambda path: path.stat().st_mtime_ns)[:-MOST_EARLIER]:
        shutil.rmtree(path, ignore_errors=True)


def load_version(spec: str, content_hash: str, sources: Sources) -> Dataset:
    """A dataset with a certain content: as it is now, or as it was before its user replaced it.

    Raises:
        UnavailableError: neither has this content.
    """
    try:
        dataset = load_dataset(spec, sources)
        if dataset.content_hash == content_hash:
            return dataset
    except BenchError:
        pass
    name = parse(spec).name
    if re.fullmatch(ID_PATTERN, name) and _HASH.fullmatch(content_hash):
        folder = data_folder() / "earlier" / name / content_hash
        if (folder / MANIFEST).is_file():
            dataset = checked(read_dataset(folder))
            if dataset.content_hash == content_hash:
                return dataset
    raise UnavailableError(
        f"{one_line(spec, 80)} with the content {one_line(content_hash, 12)} is not on this machine: import these "
        "tools and queries again, or run the method again on what is there."
    )
