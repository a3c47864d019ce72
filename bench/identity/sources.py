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
_PACKAGED = frozenset({"site-packages", "dist-packages"})


def is_own(top: str) -> bool:
    """Whether the code of a top-level package is ours or an author's: no part of Python, and not installed."""
    if top == "bench" or top in sys.stdlib_module_names:
        return top == "bench"
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return False
    if spec is None:
        # It may come while the process runs: the author has not written it yet.
        return False
    return not _is_installed(tuple(spec.submodule_search_locations or ()) if spec.origin is None else (spec.origin,))


@cache
def _is_installed(places: tuple[str, ...]) -> bool:
    """Whether a module that lies at these places belongs to the interpreter or an installed package."""
    paths = [Path(place).resolve() for place in places if place not in {"built-in", "frozen"}]
    return not paths or bool(_PACKAGED & set(paths[0].parts)) or any(paths[0].is_relative_to(at) for at in INSTALLED)


def source_file(module: str) -> Path | None:
    """The source file of a module, found without importing anything; None where there is none."""
    path = _ours(module) if module.startswith("bench.") and module not in sys.modules else _file(module)
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def compiled_file(module: str) -> Path | None:
    """The file of a module that is compiled, as Cython does; never of ours."""
    path = None if module.startswith("bench.") else _file(module)
    return path if path is not None and path.suffix in {".so", ".pyd", ".pyc"} and path.is_file() else None


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
