"""Earlier contents of a dataset that its user replaced, so that results on them can still be compared.

Replacing an added dataset copies its tables to `earlier/` in the user's data folder, up to a maximum per dataset.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bench.base.errors import BenchError, UnavailableError
from bench.base.locks import replace_folder
from bench.base.parameters import check_parameters
from bench.base.paths import data_folder
from bench.base.progress import QUIET, Progress
from bench.base.spec import parse
from bench.base.text import one_line
from bench.data.card import ID_PATTERN
from bench.data.dataset import Dataset
from bench.data.libraries import LibraryOptions, is_drawn, with_library_options
from bench.data.parquet import read_dataset
from bench.data.queryviews import ViewOptions, with_view
from bench.registry.added import HASH, content_of
from bench.registry.datasets import check_hash, draw_library, load_dataset

#: Maximum earlier contents stored per dataset.
MOST_EARLIER = 10


def keep_earlier(folder: Path, content_hash: str) -> None:
    """Copy an added dataset that is about to be replaced, unless its new content is the same.

    The caller holds the dataset's lock.

    Args:
        folder: the folder of the dataset.
        content_hash: content hash of its replacement.

    Raises:
        StorageError: the copy cannot be written; the dataset is unchanged.
    """
    earlier = content_of(folder)
    if earlier is None or earlier == content_hash:
        return
    with replace_folder(_place(folder.name) / earlier) as fresh:
        shutil.copytree(folder, fresh, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for path in earlier_folders(folder.name)[MOST_EARLIER:]:
        shutil.rmtree(path, ignore_errors=True)


def _place(name: str) -> Path:
    return data_folder() / "earlier" / name


def earlier_folders(name: str) -> list[Path]:
    """Folders of the earlier contents of a dataset, newest first."""
    place = _place(name)
    kept = [path for path in place.iterdir() if HASH.fullmatch(path.name)] if place.is_dir() else []
    return sorted(kept, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def load_version(spec: str, content_hash: str, progress: Progress = QUIET) -> Dataset:
    """Load a dataset with the given content: its current content, or one before its user replaced it.

    Raises:
        UnavailableError: neither has this content.
    """
    for dataset in _versions(spec, progress):
        if dataset.content_hash == content_hash:
            return dataset
    raise UnavailableError(
        f"{one_line(spec, 80)} with the content {one_line(content_hash, 12)} is not on this machine: import these "
        "tools and queries again, or run the method again on the current content."
    )


def _versions(spec: str, progress: Progress) -> Iterator[Dataset]:
    """The contents of a dataset, in the view of the spec, without unreadable ones."""
    with suppress(BenchError):
        yield load_dataset(spec, progress)
    try:
        wanted = parse(spec)
        folders = earlier_folders(wanted.name) if re.fullmatch(ID_PATTERN, wanted.name) else []
        options = check_parameters(with_library_options(ViewOptions), wanted, "dataset")
    except BenchError:
        return
    for folder in folders:
        with suppress(BenchError):
            assert isinstance(options, ViewOptions)
            assert isinstance(options, LibraryOptions)
            earlier = with_view(check_hash(read_dataset(folder)), options.view)
            yield draw_library(earlier, options, spec, progress) if is_drawn(options) else earlier
