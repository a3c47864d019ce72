"""Removing stored results, after saying what depends on them.

Baselines, submissions and reports name a result by its id, in files that may lie anywhere. Those below one folder are
read, and what names the id is named.
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
from bench.results.store import MANIFEST, METRICS, StoredResult, folders_of, result_lock

#: Files that are looked through for ids, bytes of one of them and of all, and folders above them.
_MOST_FILES, _LARGEST, _MOST_BYTES, _DEEPEST = 20_000, 16 << 20, 512 << 20, 6
#: Files in which bench names results, by their endings.
_ENDINGS = (".json", ".zip")
#: The file of a submission that says what it is of.
_SUBMISSION = "submission.json"


@dataclass(frozen=True)
class Removable:
    """A stored result that can be removed.

    Attributes:
        folder: where it is.
        result_id: its id, by its manifest or, where that cannot be read, by the folder's name.
        label: what tables call it; empty where it cannot be read.
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
        kind: what it is, such as `baseline`.
        result_id: the result.
    """

    path: Path
    kind: str
    result_id: str


def find_removable(results: Path, name: str) -> Removable:
    """The result of a name, even if it is damaged: then by its folder, or by its id at the end of the folder's name.

    Raises:
        UsageError: none or several have the name.
    """
    fits = [folder for folder in folders_of(results) if folder.name.rpartition("-")[2] == name or folder == Path(name)]
    if len(fits) != 1:
        try:
            return _removable(name_result(results, name, older=True).folder)
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
    """Files below a folder that name one of some results: baselines, submissions, reports.

    Hidden folders, the folder of results itself and copies of results are passed over, and what cannot be read.

    Returns:
        The files, and whether all were looked through.
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
    """What a file says of results: its text, or that of a submission's own file."""
    with suppress(OSError, ValueError, zipfile.BadZipFile, KeyError, RuntimeError, NotImplementedError):
        if path.suffix != ".zip":
            return read_regular(path, _LARGEST)
        with zipfile.ZipFile(path) as archive, archive.open(_SUBMISSION) as file:
            return file.read(_LARGEST)
    return None


def _kind_of(text: bytes) -> str:
    """What a file calls itself: bench writes the name of its schema into each."""
    with suppress(ValueError, RecursionError, AttributeError):
        return one_line(str(json.loads(text).get("schema_name") or "file"), 40)
    return "file"


def remove_result(item: Removable) -> bool:
    """Remove a result. One process at a time does so, and none that runs it again meanwhile.

    Without its manifest it is no result: a removal that is killed has happened, or it has not.

    Returns:
        False if another process has removed it.

    Raises:
        StorageError: it cannot be removed; it is there, whole.
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
