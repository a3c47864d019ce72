"""The build cache: what a build computed for its boards, stored in the user's cache folder. `site` uses it.

An entry is used only if its key matches the current results, dataset and code. An entry may be missing, truncated or
written by another tool, so it contains a checksum; an entry that does not match is computed again.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import bench
from bench.base.errors import StorageError
from bench.base.paths import cache_folder, replacing, sha256_of

_CHECKSUM = 32
_ENDING = ".entry"
_FOLDER_OF = "site.txt"
_PACKAGES = ("jinja2", "markupsafe", "numpy", "pyarrow", "pydantic", "scipy")


class BuildCache:
    """The entries of one site.

    Args:
        out: the site's folder; two sites never share an entry.
    """

    def __init__(self, out: Path) -> None:
        self._out = str(out.resolve())
        digest = hashlib.sha256(self._out.encode("utf-8", "surrogatepass")).hexdigest()
        self._parent = cache_folder() / "leaderboard"
        self._folder = self._parent / digest[:20]

    def get(self, name: str, key: str) -> Any:
        """The entry of that name, dataclasses as dictionaries; None if it is missing, damaged or has another key."""
        try:
            data = (self._folder / f"{name}{_ENDING}").read_bytes()
            if hashlib.sha256(data[_CHECKSUM:]).digest() != data[:_CHECKSUM]:
                return None
            stored = json.loads(data[_CHECKSUM:], object_hook=_restore)
            return stored["entry"] if stored["key"] == key else None
        except Exception:  # a damaged entry may raise any exception
            return None

    def put(self, name: str, key: str, entry: Any) -> None:
        """Replace the entry of that name; a folder that cannot be written is ignored.

        Args:
            name: the entry's name.
            key: from `key_of`.
            entry: made of lists, dictionaries, dataclasses, arrays, texts and numbers.
        """
        data = json.dumps({"key": key, "entry": entry}, default=_describe).encode()
        with suppress(StorageError), replacing(self._folder / f"{name}{_ENDING}") as temporary:
            temporary.write_bytes(hashlib.sha256(data).digest() + data)

    def finish(self, names: Collection[str]) -> None:
        """Remove other entries of this site, and the entries of sites that no longer exist."""
        with suppress(StorageError, OSError):
            for path in self._folder.glob("*.*"):
                if path.name not in {_FOLDER_OF, *(f"{name}{_ENDING}" for name in names)}:
                    path.unlink()
            if self._folder.is_dir():
                with replacing(self._folder / _FOLDER_OF) as temporary:
                    temporary.write_text(self._out, "utf-8", "surrogateescape")
            for place in self._parent.glob(f"*/{_FOLDER_OF}"):
                if not Path(place.read_text("utf-8", "surrogateescape")).is_dir():
                    shutil.rmtree(place.parent, ignore_errors=True)


def _describe(value: Any) -> dict[str, Any]:
    """An array or a dataclass as JSON; arrays keep their bits."""
    if isinstance(value, np.ndarray):
        return {"base64": b64encode(value.tobytes()).decode(), "dtype": value.dtype.str, "shape": value.shape}
    return {item.name: getattr(value, item.name) for item in fields(value)}


def _restore(stored: dict[str, Any]) -> Any:
    """The inverse of `_describe`, with dataclasses as dictionaries and sequences as tuples."""
    if stored.keys() == {"base64", "dtype", "shape"}:
        return np.ndarray(stored["shape"], stored["dtype"], b64decode(stored["base64"])).copy()
    return {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()}


def key_of(parts: Mapping[str, Any]) -> str:
    """A key for what is computed from these inputs."""
    text = json.dumps({**parts, "code": _code()}, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@cache
def _code() -> str:
    """The sha256 of the sources of bench and of the site, and of the versions of the libraries they compute with."""
    digest = hashlib.sha256(platform.python_version().encode())
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            digest.update(f"{name} {version(name)}\n".encode())
    for folder in sorted({Path(bench.__file__).resolve().parent, Path(__file__).resolve().parent}):
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".py", ".j2", ".js", ".css", ".svg", ".json", ".toml"}:
                digest.update(f"{path.relative_to(folder)}\n".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def digest_of(path: Path) -> str:
    """The sha256 of a file; empty if it cannot be read."""
    try:
        return sha256_of(path)
    except OSError:
        return ""
