"""What the references of a document (`$ref`) stand for: in the document, and in the files beside and below it.

Nothing is fetched, and no reference leads out of the folder: not by `..`, nor by a link.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bench.base.errors import DataError, UsageError
from bench.importing.reading import MOST_FILES, SUFFIXES, ByteBudget, parse_documents
from bench.importing.tools.schemas import resolve_reference

#: References that lead to references.
MOST_HOPS = 20
#: Files whose text is the value, as for a description that is kept apart.
_TEXTS = frozenset({".md", ".txt"})


@dataclass(frozen=True)
class Node:
    """A value, and where it is.

    Attributes:
        value: JSON data.
        file: the file that its own references start from; empty for a document that is in no file.
        fragment: its place in the file, as in `#/a/b`.
    """

    value: Any
    file: Path = Path()
    fragment: str = "#"


class LostReferenceError(Exception):
    """A reference stands for nothing; the message says why, without subject and full stop."""


class References:
    """The files of one document, each read once.

    Args:
        root: the document's value.
        file: its file; an empty path for a document that is in none, whose references stay inside it.
        folder: the folder that all files must be in; the document's own if empty.
        budget: the bytes that may still be read.
    """

    def __init__(self, root: Any, file: Path = Path(), folder: Path = Path(), budget: ByteBudget | None = None) -> None:
        self._budget = budget or ByteBudget()
        self._folder = ""
        if file.name:
            # What the user named may be a link itself; its references start from where it lies.
            beside = os.path.realpath(file.parent)
            self._folder = os.path.realpath(folder) if folder.name else beside
            file = Path(beside, file.name)
        self.root = Node(root, file)
        self._resolved: dict[tuple[str, Path], Node] = {}
        self._values: dict[Path, Any] = {file: root}
        if file.name:
            self._values[Path(os.path.realpath(file))] = root
        self._own = frozenset(self._values)

    @property
    def files(self) -> frozenset[Path]:
        """The other files that were read, links resolved."""
        return frozenset(self._values.keys() - self._own)

    def resolve(self, reference: str, start: Path) -> Node:
        """What a reference in a file stands for.

        Raises:
            LostReferenceError: nothing that may be read.
            UsageError: the file is too large, or there are too many.
            DataError: the file is malformed.
            UnavailableError: the file is YAML and PyYAML is not installed.
        """
        if (reference, start) in self._resolved:
            return self._resolved[reference, start]
        path, sign, fragment = reference.partition("#")
        file = self._locate(path, start) if path else start
        if file not in self._values:
            self._values[file] = self._read(file)
        value = resolve_reference(self._values[file], sign + fragment or "#")
        if value is None:
            raise LostReferenceError("leads nowhere")
        node = Node(value, file, sign + fragment or "#")
        self._resolved[reference, start] = node
        return node

    def _locate(self, path: str, start: Path) -> Path:
        try:
            parts = urlsplit(path)
        except ValueError:
            raise LostReferenceError("leads nowhere") from None
        if parts.scheme or parts.netloc:
            raise LostReferenceError("is an address, and nothing is fetched")
        if not self._folder:
            raise LostReferenceError("leads out of the document, which is in no file")
        try:
            place = os.path.realpath(os.path.join(start.parent, unquote(parts.path)))
        except (ValueError, OSError):  # a NUL, or a name that is too long
            raise LostReferenceError("leads to no file") from None
        inside = os.path.join(self._folder, "")
        if not place.startswith(inside) or parts.path.startswith("/"):
            raise LostReferenceError("leads out of the folder of the document")
        if not os.path.isfile(place):
            raise LostReferenceError("leads to no file")
        if Path(place).suffix.lower() not in SUFFIXES | _TEXTS:
            raise LostReferenceError("leads to a file that is neither JSON nor YAML")
        return Path(place)

    def _read(self, file: Path) -> Any:
        if len(self._values) > MOST_FILES:
            raise UsageError(f"the references of an API lead to more than {MOST_FILES} files; import a part of it.")
        data = self._budget.read(file)
        if file.suffix.lower() in _TEXTS:
            return data.decode("utf-8", "replace").strip()
        (document, *more) = parse_documents(file, file.name, data)
        if more:
            raise DataError(f"{file} holds several values; a file that is referred to holds one.")
        return document.value
