"""The source file of a module, found without imports; its owner (bench, an installed package, a user); its state."""

from __future__ import annotations

import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path

import bench

#: Folders of installed packages, including those of the user and of the system's package manager.
INSTALLED = tuple(
    Path(place).resolve()
    for place in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
)
#: Names of such folders, if a `.pth` file or Python's path puts them elsewhere.
PACKAGED = frozenset({"site-packages", "dist-packages"})

#: Folders of bench: its package, and those beside it in a checkout.
BENCH = (
    Path(bench.__path__[0]),
    *(Path(place, room) for place in bench.__path__ for room in ("methods", "datasets", "leaderboard")),
)
#: Modification time, change time, size and inode of a file.
Stamp = tuple[int, int, int, int]
#: `bench.identity.used` replaces this function by its own.
_stat = os.stat


def stamp_of(path: str | Path) -> Stamp | None:
    """The state of a file, which changes with it; None if there is no file."""
    with suppress(OSError, ValueError):
        status = _stat(path)
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
    return None


def files_of(packages: Iterable[str]) -> Iterator[tuple[str, Stamp]]:
    """All files of packages, or those beside a module without a package, with their states."""
    for package in packages:
        path = source_file(package)
        alone = path is not None and path.name != "__init__.py"
        folders = BENCH if package == "bench" else [path.parent] if path is not None else _folders(package)
        pending = list(map(Path, folders))
        seen = set[tuple[int, int]]()
        while pending:
            with suppress(OSError):
                folder = pending.pop()
                status = _stat(folder)
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
                for entry in os.scandir(folder):
                    if entry.is_dir():
                        pending += [] if alone or entry.name == "__pycache__" else [Path(entry.path)]
                    elif (stamp := stamp_of(entry.path)) is not None:
                        yield entry.path, stamp


@cache
def is_installed(places: tuple[str, ...]) -> bool:
    """Whether a module at these locations belongs to the interpreter or an installed package."""
    paths = [Path(os.path.realpath(place)) for place in places if place not in {"built-in", "frozen"}]
    return not paths or bool(PACKAGED & set(paths[0].parts)) or any(paths[0].is_relative_to(at) for at in INSTALLED)


def source_file(module: str) -> Path | None:
    """The source file of a module, found without importing anything; None if there is none."""
    parent, _, name = module.rpartition(".")
    if (loaded := sys.modules.get(module)) is not None:
        paths = [getattr(loaded, "__file__", None)]
    elif parent:
        ends = f"{name}{os.sep}__init__.py", f"{name}.py"
        paths = [os.path.join(folder, end) for folder in _folders(parent) for end in ends]
    else:
        paths = [getattr(_spec(module), "origin", None)]
    # A module may set its `__file__` to anything.
    names = (str(path) for path in paths if isinstance(path, str | Path))
    return next((Path(name) for name in names if name.endswith(".py") and os.path.isfile(name)), None)


def _folders(package: str) -> list[str]:
    """The folders of a package. (`importlib.util.find_spec` would import its parent packages.)"""
    parent, _, name = package.rpartition(".")
    if (loaded := sys.modules.get(package)) is not None:
        return [*getattr(loaded, "__path__", ())]
    if parent:
        return [os.path.join(folder, name) for folder in _folders(parent)]
    return [*(getattr(_spec(package), "submodule_search_locations", None) or ())]


def _spec(package: str) -> ModuleSpec | None:
    with suppress(ImportError, ValueError):
        return importlib.util.find_spec(package)
    return None
