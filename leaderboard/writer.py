"""Write the files of a site: rewrite only changed files, remove only the site's own files. The build calls it."""

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

#: The list of a site's files, beside its pages.
LISTING = "files.json"
#: Files that a build has begun, one per line; it remains only if the build fails or is killed.
ANNOUNCED = ".files.json"
_PATH = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]*/){0,3}[A-Za-z0-9][A-Za-z0-9._-]*")
_BEGUN = re.compile(r'"([^"]+)": ""')
_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")


def is_path(path: str) -> bool:
    """Whether a file of a site may have this name."""
    return _PATH.fullmatch(path) is not None and path != LISTING


@dataclass
class WrittenFiles:
    """What a build did, by file path."""

    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


@dataclass
class Writer:
    """Writes the files of one site.

    Each file has a key: the sha256 of its bytes or, for files that are slow to make, of their inputs.
    Several writers may work on one site, each on its own files; `absorb` brings them together.
    """

    out: Path
    keys: dict[str, str] = field(default_factory=dict)
    done: WrittenFiles = field(default_factory=WrittenFiles)
    #: Files that differ from the last build, whatever its list says.
    distrusted: frozenset[str] = frozenset()
    #: Whether a build was killed since the last list was written, so that any file may differ from it.
    interrupted: bool = False
    _old: dict[str, str] | None = None

    @property
    def old(self) -> dict[str, str]:
        """Path -> key of the files of the last build."""
        if self._old is None:
            self._old = {**_announced(self.out / ANNOUNCED), **_listing(self.out / LISTING)}
        return self._old

    def put(self, path: str, content: str | bytes) -> None:
        """Write a file unless it is up to date.

        Raises:
            StorageError: it cannot be written.
        """
        data = _bytes_of(content)
        key = hashlib.sha256(data).hexdigest()
        place = self._claim(path, key)
        self._update(path, place, data)

    def put_made(self, path: str, key: str, make: Callable[[], str | bytes]) -> None:
        """Write a file that is slow to make, unless the last build made it from the same inputs.

        Args:
            path: the file.
            key: digest of its inputs.
            make: returns its content.
        """
        place = self._claim(path, key)
        listed = self.old.get(path) == key and path not in self.distrusted and not self.interrupted
        if listed and place.is_file():
            self.done.unchanged.append(path)
            return
        try:
            data = _bytes_of(make())
        except BaseException:
            # What could not be made is no file of this site.
            del self.keys[path]
            raise
        self._update(path, place, data)

    def absorb(self, keys: dict[str, str], done: WrittenFiles) -> None:
        """Take over the files of another writer."""
        self.keys.update(keys)
        self.done.written += done.written
        self.done.unchanged += done.unchanged

    def begin(self) -> None:
        """Begin a build; sets `interrupted` if the last one was killed."""
        self.interrupted = (self.out / ANNOUNCED).is_file()
        self._announce("")

    def _announce(self, path: str) -> None:
        """List a file before it is made, so that a later build removes it even if this one is killed."""
        with storage_errors(str(self.out / ANNOUNCED)):
            self.out.mkdir(parents=True, exist_ok=True)
            with (self.out / ANNOUNCED).open("a", encoding="utf-8") as listing:
                listing.write(f'"{path}": ""\n' if path else "")

    def finish(self) -> WrittenFiles:
        """Remove files of the last build that this build did not make, and write the list."""
        inside = self.out.resolve()
        # The lists name every folder that a killed build wrote to, even one of another version.
        named = {path.rpartition("/")[0] for path in (*self.old, *self.keys)}
        for folder in (self.out / name for name in sorted({"", *named})):
            # The caller holds the site's lock, so no other process is writing these.
            for place in folder.glob(".*.tmp") if folder.resolve().is_relative_to(inside) else ():
                if _TEMPORARY.fullmatch(place.name):
                    with storage_errors(str(place)):
                        place.unlink(missing_ok=True)
        for path in sorted(set(self.old) - set(self.keys)):
            place = self.out / path
            # An untrusted list, or a link in the folder, must not lead outside the site.
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
            raise ValueError(f"a file of a site cannot be called {path!r}")
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
        # Rename into place, so that no reader sees half a page. Unlike results, pages are not flushed to disk: a site
        # can be rebuilt, and thousands of flushes take longer than the rest of the build.
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
    """Files that a killed build has begun; older versions listed them in a JSON object."""
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    return {name: "" for name in _BEGUN.findall(text) if is_path(name)}
