"""A folder of results as one command sees it. Commands that look up several results share one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from bench.base.errors import ResultError
from bench.base.paths import read_regular
from bench.lookup.current import Built
from bench.results.store import LARGEST_JSON, MANIFEST, StoredResult, folders_of


class ResultsFolder:
    """A folder of results: listed once, with each manifest searched and each result read at most once.

    A result that is stored later is not in it. One that is removed later cannot be read: `read` names it.

    Attributes:
        path: the folder.
        built: methods that were built to find out which results are of today's code.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.built: Built = {}
        self._read: dict[Path, StoredResult | ResultError] = {}

    @staticmethod
    def of(results: Path | ResultsFolder) -> ResultsFolder:
        """The same, or that of a path."""
        return results if isinstance(results, ResultsFolder) else ResultsFolder(results)

    @cached_property
    def folders(self) -> list[Path]:
        """The folders of results, sorted, except those being written."""
        return folders_of(self.path)

    @cached_property
    def _texts(self) -> list[tuple[Path, bytes | None]]:
        """The manifest of each folder; None if its strings are unknown before it is parsed."""
        texts: list[tuple[Path, bytes | None]] = []
        for folder in self.folders:
            text = None
            with suppress(OSError):
                text = read_regular(folder / MANIFEST, LARGEST_JSON)
            # bench writes only necessary escapes; with others, a string may be written in another way.
            texts.append((folder, None if text is None or b"\\u" in text or b"\\/" in text else text))
        return texts

    def containing(self, *strings: bytes) -> Iterator[Path]:
        """The folders whose manifests contain all of some strings, and those whose strings are unknown.

        Most of thousands of results are excluded without parsing their manifests.

        Args:
            strings: from `json_string` and `json_beginning`.
        """
        for folder, text in self._texts:
            if text is None or all(string in text for string in strings):
                yield folder

    def read(self, folder: Path) -> StoredResult:
        """The result in a folder; raises `ResultError` as `StoredResult.read` does."""
        if folder not in self._read:
            try:
                self._read[folder] = StoredResult.read(folder)
            except ResultError as error:
                self._read[folder] = error
        found = self._read[folder]
        if isinstance(found, ResultError):
            raise found
        return found

    def read_all(self) -> tuple[list[StoredResult], list[str]]:
        """All results that can be read, and a sentence for each of the others."""
        found, faults = list[StoredResult](), list[str]()
        for folder in self.folders:
            try:
                found.append(self.read(folder))
            except ResultError as error:
                faults.append(str(error))
        return found, faults

    def readable(self, folders: Iterable[Path]) -> Iterator[StoredResult]:
        """The results in folders that can be read."""
        for folder in folders:
            with suppress(ResultError):
                yield self.read(folder)


def json_string(text: str) -> bytes:
    """A string as manifests write it."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")


def json_beginning(text: str) -> bytes:
    """The beginning of a string as manifests write it."""
    return json_string(text)[:-1]
