"""The build cache: what a build computed for its boards, stored in the user's cache folder.

An entry is used only if its key matches the current results, dataset and code. It may be missing, truncated or written
by another tool: it contains its own checksum, and what does not match is computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bench
from bench.base.errors import StorageError
from bench.base.paths import cache_folder, replacing

_CHECKSUM = 32
_FOLDER_OF = "site.txt"
_PACKAGES = ("jinja2", "markupsafe", "numpy", "pyarrow", "pydantic", "scipy")


@dataclass(frozen=True)
class Kept:
    """An entry: plain facts, and arrays by name."""

    facts: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


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

    def get(self, name: str, key: str) -> Kept | None:
        """The entry of that name; None if there is none, if it has another key, or if it is damaged."""
        try:
            data = (self._folder / f"{name}.npz").read_bytes()
            if hashlib.sha256(data[_CHECKSUM:]).digest() != data[:_CHECKSUM]:
                return None
            with np.load(io.BytesIO(data[_CHECKSUM:]), allow_pickle=False) as file:
                arrays = {part: file[part] for part in file.files}
            facts = json.loads(arrays.pop("facts").tobytes())
            return Kept(facts, arrays) if facts.pop("key") == key else None
        except Exception:  # whatever a damaged archive makes its reader raise
            return None

    def put(self, name: str, key: str, kept: Kept) -> None:
        """Keep an entry in the place of the last of its name; where that cannot be written, nothing is kept."""
        facts = np.frombuffer(json.dumps({**kept.facts, "key": key}).encode(), dtype=np.uint8)
        out = io.BytesIO()
        np.savez(out, allow_pickle=False, facts=facts, **kept.arrays)
        data = out.getvalue()
        with suppress(StorageError), replacing(self._folder / f"{name}.npz") as temporary:
            temporary.write_bytes(hashlib.sha256(data).digest() + data)

    def finish(self, names: Collection[str]) -> None:
        """Remove the entries of other names, and those of sites that are gone."""
        with suppress(StorageError, OSError):
            for path in self._folder.glob("*.npz"):
                if path.name.removesuffix(".npz") not in names:
                    path.unlink()
            if self._folder.is_dir():
                with replacing(self._folder / _FOLDER_OF) as temporary:
                    temporary.write_text(self._out, "utf-8", "surrogateescape")
            for place in self._parent.glob(f"*/{_FOLDER_OF}"):
                if not Path(place.read_text("utf-8", "surrogateescape")).is_dir():
                    shutil.rmtree(place.parent, ignore_errors=True)


def key_of(parts: Mapping[str, Any]) -> str:
    """The key of what is computed from these."""
    text = json.dumps({**parts, "code": _code()}, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@cache
def _code() -> str:
    """sha256 over the sources of bench and of the site, and the versions of what they compute with."""
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
    """The sha256 of a file; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
