"""Removes stored results, and finds files that depend on them. `bench results rm` uses it.

Baselines, submissions and reports name a result by its id, and such files may be anywhere. This module reads the files
below one folder and lists those that name the id.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import ResultError, UsageError
from bench.base.locks import recover
from bench.base.paths import read_regular, storage_errors
from bench.base.text import one_line
from bench.lookup.aliases import aliases_lock
from bench.lookup.finding import name_result
from bench.lookup.folder import ResultsFolder
from bench.results.store import MANIFEST, METRICS, StoredResult, result_lock

#: Limits of the search for ids: number of files, bytes of one file and of all, depth of folders.
_MOST_FILES, _LARGEST, _MOST_BYTES, _DEEPEST = 20_000, 16 << 20, 512 << 20, 6
#: Suffixes of files in which bench names results.
_ENDINGS = (".json", ".toml", ".zip")
#: The file of a submission that names its result.
_SUBMISSION = "submission.json"


@dataclass(frozen=True)
class Removable:
    """A stored result that can be removed.

    Attributes:
        folder: its folder.
        result_id: its id, from its manifest or, if that is unreadable, from the folder's name.
        label: its name in tables; empty if it cannot be read.
        alias: its alias.
    """

    folder: Path
    result_id: str
    label: str = ""
    alias: str | None = None


@dataclass(frozen=True)
class Dependant:
    """A file that names a result.

    Attributes:
        path: the file.
        kind: the kind of file, such as `baseline`.
        result_id: the result.
    """

    path: Path
    kind: str
    result_id: str


def find_removable(results: Path | ResultsFolder, name: str) -> Removable:
    """Find a result by name. A damaged one is found by its folder, or by its id at the end of the folder's name.

    Raises:
        UsageError: no result or several have the name.
    """
    stored = ResultsFolder.of(results)
    fits = [folder for folder in stored.folders if folder.name.rpartition("-")[2] == name or folder == Path(name)]
    if len(fits) != 1:
        try:
            return _removable(name_result(stored, name, older=True).folder)
        except ResultError as error:
            if not (Path(name) / MANIFEST).is_file():
                raise UsageError(f"{error} To remove it, name its folder or its whole id.") from None
            fits = [Path(name)]
    return _removable(fits[0])


def _removable(folder: Path) -> Removable:
    try:
        item = StoredResult.read(folder)
    except ResultError:
        return Removable(folder, one_line(folder.name.rpartition("-")[2], 40))
    return Removable(folder, item.manifest.result_id, one_line(item.label, 200), item.manifest.method.alias)


def find_dependants(ids: set[str], below: Path, results: Path) -> tuple[list[Dependant], bool]:
    """Find files below a folder that name one of the results: baselines, submissions, reports.

    Hidden folders, the folder of results itself, copies of results and unreadable files are left out.

    Returns:
        The files, and whether the search covered all files.
    """
    dependants: list[Dependant] = []
    left = _MOST_BYTES
    for count, path in enumerate(_files(below, results)):
        text = _text_of(path) or b""
        left -= len(text)
        if left < 0 or count >= _MOST_FILES:
            return dependants, False
        named = [result_id for result_id in sorted(ids) if result_id.encode() in text]
        dependants += [Dependant(path, _kind_of(text), result_id) for result_id in named]
    return dependants, True


def _files(below: Path, results: Path) -> Iterator[Path]:
    root = results.resolve()
    for place, folders, names in os.walk(below):
        depth = len(Path(place).relative_to(below).parts)
        folders[:] = sorted(
            name
            for name in folders
            if depth < _DEEPEST and not name.startswith(".") and (Path(place) / name).resolve() != root
        )
        for name in sorted(names):
            if name.endswith(_ENDINGS) and name not in {MANIFEST, METRICS}:
                yield Path(place) / name


def _text_of(path: Path) -> bytes | None:
    """The text of a file that may name results; for a submission, that of its main file."""
    with suppress(OSError, ValueError, zipfile.BadZipFile, KeyError, RuntimeError, NotImplementedError):
        if path.suffix != ".zip":
            return read_regular(path, _LARGEST)
        with zipfile.ZipFile(path) as archive, archive.open(_SUBMISSION) as file:
            return file.read(_LARGEST)
    return None


def _kind_of(text: bytes) -> str:
    """The kind of a file by the name of its schema, which bench writes into each."""
    with suppress(ValueError, RecursionError, AttributeError):
        return one_line(str(json.loads(text).get("schema_name") or "file"), 40)
    return "file"


def remove_result(item: Removable) -> bool:
    """Remove a result. One process at a time does so, and no other process can rerun it at the same time.

    The manifest goes first: a killed removal either happened or did not.

    Returns:
        False if another process has already removed it.

    Raises:
        StorageError: it cannot be removed; it remains complete.
    """
    folder = item.folder
    results = folder.parent.parent
    with aliases_lock(results), result_lock(results, folder), storage_errors(str(folder)):
        recover(folder)
        if not (folder / MANIFEST).is_file():
            return False
        if folder.is_symlink():
            folder.unlink()
            return True
        (folder / MANIFEST).unlink()
        shutil.rmtree(folder, ignore_errors=True)
    return True
