"""Writing site files: only changed files are rewritten, only the site's own files are removed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.base.paths import storage_errors
from bench.base.secrets import mask

#: The list of a site's files, next to its pages.
LISTING = "files.json"
#: Files that a build has begun, one a line; it stays only if the build is killed, or fails.
ANNOUNCED = ".files.json"
_PATH = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]*/){0,3}[A-Za-z0-9][A-Za-z0-9._-]*")
_BEGUN = re.compile(r'"([^"]+)": ""')
_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")


def is_path(path: str) -> bool:
    """Whether a file of a site may be called so."""
    return _PATH.fullmatch(path) is not None and path != LISTING


@dataclass
class WrittenFiles:
    """What a build did, by the files' paths."""

    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


@dataclass
class Writer:
    """Writes the files of one site.

    Each file has a key: the sha256 of its bytes or, for those that are costly to make, of what they are made from.
    Several writers may work on one site, each on its own files; `absorb` brings them together.
    """

    out: Path
    keys: dict[str, str] = field(default_factory=dict)
    done: WrittenFiles = field(default_factory=WrittenFiles)
    #: Files that are not what the last build wrote, whatever its list says.
    distrusted: frozenset[str] = frozenset()
    #: Whether a build was killed since the last list was written: then any file may be of another state than it says.
    interrupted: bool = False
    _old: dict[str, str] | None = None

    @property
    def old(self) -> dict[str, str]:
        """Path -> key of the files that the last build wrote."""
        if self._old is None:
            self._old = {**_announced(self.out / ANNOUNCED), **_listing(self.out / LISTING)}
        return self._old

    def put(self, path: str, content: str | bytes) -> None:
        """Write a file unless it already is what it should be.

        Raises:
            StorageError: it cannot be written.
        """
        data = _bytes_of(content)
        key = hashlib.sha256(data).hexdigest()
        place = self._claim(path, key)
        self._update(path, place, data)

    def put_made(self, path: str, key: str, make: Callable[[], str | bytes]) -> None:
        """Write a file that is costly to make, unless the last build made it from the same things.

        Args:
            path: the file.
            key: of what it is made from.
            make: gives its content.
        """
        place = self._claim(path, key)
        listed = self.old.get(path) == key and path not in self.distrusted and not self.interrupted
        if listed and place.is_file():
            self.done.unchanged.append(path)
            return
        self._update(path, place, _bytes_of(make()))

    def absorb(self, keys: dict[str, str], done: WrittenFiles) -> None:
        """Take over what another writer did."""
        self.keys.update(keys)
        self.done.written += done.written
        self.done.unchanged += done.unchanged

    def begin(self) -> None:
        """Begin a build; `interrupted` is set if the last one was killed."""
        self.interrupted = (self.out / ANNOUNCED).is_file()
        self._announce("")

    def _announce(self, path: str) -> None:
        """List a file before it is made: a later build removes it even if this one is killed on the way."""
        with storage_errors(str(self.out / ANNOUNCED)):
            self.out.mkdir(parents=True, exist_ok=True)
            with (self.out / ANNOUNCED).open("a", encoding="utf-8") as listing:
                listing.write(f'"{path}": ""\n' if path else "")

    def finish(self) -> WrittenFiles:
        """Remove the files of the last build that this one did not make, and write the list."""
        inside = self.out.resolve()
        # The lists name every folder that a killed build has written to, also one of a version with other folders.
        named = {path.rpartition("/")[0] for path in (*self.old, *self.keys)}
        for folder in (self.out / name for name in sorted({"", *named})):
            # The caller holds the site's lock, so no process is writing these.
            for place in folder.glob(".*.tmp") if folder.resolve().is_relative_to(inside) else ():
                if _TEMPORARY.fullmatch(place.name):
                    with storage_errors(str(place)):
                        place.unlink(missing_ok=True)
        for path in sorted(set(self.old) - set(self.keys)):
            place = self.out / path
            # A listing from outside, or a link in the folder, must not lead outside the site.
            if not place.is_file() or place.is_symlink() or not place.resolve().is_relative_to(inside):
                continue
            with storage_errors(str(place)):
                place.unlink()
            self.done.removed.append(path)
            with suppress(OSError):
                place.parent.rmdir()
        listed = {"schema_version": 1, "files": dict(sorted(self.keys.items()))}
        text, place = (json.dumps(listed, indent=0) + "\n").encode(), self.out / LISTING
        if not place.is_file() or place.read_bytes() != text:
            self._write(place, text)
        with storage_errors(str(place)):
            (self.out / ANNOUNCED).unlink(missing_ok=True)
        return self.done

    def _claim(self, path: str, key: str) -> Path:
        if not is_path(path):
            raise ValueError(f"no file of a site is called {path!r}")
        if path in self.keys:
            raise ValueError(f"two pages of the site are called {path!r}")
        self.keys[path] = key
        return self.out / path

    def _update(self, path: str, place: Path, data: bytes) -> None:
        with suppress(OSError):
            if place.stat().st_size == len(data) and place.read_bytes() == data:
                self.done.unchanged.append(path)
                return
        if path not in self.old:
            self._announce(path)
        self._write(place, data)
        self.done.written.append(path)

    def _write(self, place: Path, data: bytes) -> None:
        # Renamed into place, so that no reader sees half a page; not flushed to the disk as results are, since a site
        # can be made again, and thousands of flushes take longer than the rest of the build.
        with storage_errors(str(place)):
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_name(f".{place.name[:80].lstrip('.')}.{os.getpid()}.tmp")
            try:
                temporary.write_bytes(data)
                os.replace(temporary, place)
            finally:
                temporary.unlink(missing_ok=True)


def _bytes_of(content: str | bytes) -> bytes:
    return mask(content).encode("utf-8") if isinstance(content, str) else content


def _listing(path: Path) -> dict[str, str]:
    try:
        files = json.loads(path.read_text("utf-8"))["files"]
        return {str(name): str(key) for name, key in files.items() if is_path(str(name))}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _announced(path: Path) -> dict[str, str]:
    """The files that a killed build has begun; versions before this one listed them in a JSON object."""
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    return {name: "" for name in _BEGUN.findall(text) if is_path(name)}
