"""Resolve the references (`$ref`) of a document, within it and to files in its folder. `openapi` calls it.

Nothing is fetched, and no reference leads out of the folder, neither by `..` nor by a link.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bench.base.errors import DataError, UsageError
from bench.importing.reading import MOST_FILES, SUFFIXES, ByteBudget, parse_documents
from bench.importing.tools.schemas import resolve_reference

#: Suffixes of files whose text is the value, such as separate descriptions.
_TEXTS = frozenset({".md", ".txt"})


class LostReferenceError(Exception):
    """A reference cannot be resolved; the message says why, without subject and full stop."""


class References:
    """A document and the files that it refers to, each read once.

    References in other files are rewritten relative to the document, so that they mean the same everywhere.

    Args:
        root: the document's value.
        file: its file; an empty path if it has none, so that references cannot lead out of it.
        folder: the folder that must contain all files; the document's own if empty.
        budget: the bytes that may still be read.

    Attributes:
        root, name: the document's value, and the name of its file.
        files: the other files that were read, with links resolved.
    """

    def __init__(self, root: Any, file: Path = Path(), folder: Path = Path(), budget: ByteBudget | None = None) -> None:
        self.root, self.name = root, file.name
        self.files: set[Path] = set()
        self._budget = budget or ByteBudget()
        # The document itself may be a link; its references are relative to the link.
        self._home = os.path.realpath(file.parent) if file.name else ""
        self._folder = os.path.realpath(folder) if file.name and folder.name else self._home
        self._values: dict[str, Any] = {"": root}
        self._resolved: dict[str, tuple[str, Any]] = {}

    def resolve(self, reference: str) -> tuple[str, Any]:
        """The canonical form of a reference, relative to the document, and the value that it refers to.

        Raises:
            LostReferenceError: it refers to nothing that may be read.
            UsageError: the file is too large, or there are too many.
            DataError: the file is malformed.
            UnavailableError: the file is YAML and PyYAML is not installed.
        """
        if reference not in self._resolved:
            key = self._from_document(reference, self.name)
            path, sign, fragment = key.partition("#")
            if path not in self._values:
                self._values[path] = self._read(self._locate(path), path)
            value = resolve_reference(self._values[path], sign + fragment or "#")
            if value is None:
                raise LostReferenceError("leads nowhere")
            self._resolved[reference] = key, value
        return self._resolved[reference]

    def _from_document(self, reference: str, name: str) -> str:
        """A reference in a file, rewritten relative to the document."""
        path, sign, fragment = reference.partition("#")
        try:
            parts = urlsplit(path)
        except ValueError:
            return reference
        if parts.scheme or parts.netloc or path.startswith("/"):
            return reference
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        return ("" if path == self.name else path) + sign + fragment

    def _rewrite(self, value: Any, name: str) -> Any:
        if isinstance(value, list):
            return [self._rewrite(each, name) for each in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        changed = {"$ref": self._from_document(reference, name)} if isinstance(reference, str) else {}
        return {key: self._rewrite(each, name) for key, each in value.items()} | changed

    def _locate(self, path: str) -> Path:
        try:
            parts = urlsplit(path)
        except ValueError:
            raise LostReferenceError("leads nowhere") from None
        if parts.scheme or parts.netloc:
            raise LostReferenceError("is an address, and nothing is fetched")
        if not self._folder:
            raise LostReferenceError("leads out of the document, which is in no file")
        try:
            place = os.path.realpath(os.path.join(self._home, unquote(parts.path)))
        except (ValueError, OSError):  # a NUL, or a name that is too long
            raise LostReferenceError("leads to no file") from None
        if not place.startswith(os.path.join(self._folder, "")) or parts.path.startswith("/"):
            raise LostReferenceError("leads out of the folder of the document")
        if not os.path.isfile(place):
            raise LostReferenceError("leads to no file")
        if Path(place).suffix.lower() not in SUFFIXES | _TEXTS:
            raise LostReferenceError("leads to a file that is neither JSON nor YAML")
        return Path(place)

    def _read(self, file: Path, name: str) -> Any:
        self.files.add(file)
        if len(self.files) > MOST_FILES:
            raise UsageError(f"the references of an API lead to more than {MOST_FILES} files; import a part of it.")
        data = self._budget.read(file)
        if file.suffix.lower() in _TEXTS:
            return data.decode("utf-8", "replace").strip()
        (document, *more) = parse_documents(file, file.name, data)
        if more:
            raise DataError(f"{file} holds several values; a file that is referred to holds one.")
        return self._rewrite(document.value, name)
