"""Where the source of a module lies, found without importing anything, and whose it is."""

from __future__ import annotations

import importlib.util
import os
import site
import sys
import sysconfig
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import bench

#: Folders of installed packages, including the user's own and those of the system's package manager.
INSTALLED = tuple(
    Path(place).resolve()
    for place in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
)
#: Names of such folders, wherever a `.pth` file or the path of Python has put another.
PACKAGED = frozenset({"site-packages", "dist-packages"})


@cache
def is_installed(places: tuple[str, ...]) -> bool:
    """Whether a module that lies at these places belongs to the interpreter or an installed package."""
    paths = [Path(os.path.realpath(place)) for place in places if place not in {"built-in", "frozen"}]
    return not paths or bool(PACKAGED & set(paths[0].parts)) or any(paths[0].is_relative_to(at) for at in INSTALLED)


def source_file(module: str) -> Path | None:
    """The source file of a module, found without importing anything; None where there is none."""
    path = _ours(module) if module.startswith("bench.") and module not in sys.modules else _file(module)
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _file(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
    else:
        spec = _spec(module)
        origin = spec.origin if spec is not None else None
    return Path(origin) if origin else None


def _ours(module: str) -> Path | None:
    """The file of a module of bench: a name that is no module is asked for often, and must be refused fast."""
    _, *inside, name = module.split(".")
    for place in bench.__path__:
        folder = os.path.join(place, *inside)
        for path in (os.path.join(folder, name, "__init__.py"), os.path.join(folder, f"{name}.py")):
            if os.path.isfile(path):
                return Path(path)
    return None


def _spec(module: str) -> ModuleSpec | None:
    """`importlib.util.find_spec` imports the packages that a module lies in; this looks into their folders."""
    parent, _, _ = module.rpartition(".")
    try:
        if not parent:
            return importlib.util.find_spec(module)
        loaded = sys.modules.get(parent)
        if loaded is not None:
            places = getattr(loaded, "__path__", None)
        else:
            around = _spec(parent)
            places = around.submodule_search_locations if around is not None else None
        return None if places is None else PathFinder.find_spec(module, list(places))
    except (ImportError, ValueError, AttributeError, KeyError):  # the last where a package around it is a namespace
        return None
