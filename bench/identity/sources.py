"""The version of a method's code: a hash of the sources it is made of.

A version number that people must remember to raise would let a changed method pass for the old one, and a stored
result for the new. So the hash is taken over the method's module and every module it imports, followed through, as
far as the code can be the author's or ours: modules beside it, its own package, and those parts of bench that make
rankings. The standard library and other installed packages are left out; their versions stand in the manifest.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
import site
import sys
import sysconfig
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType

#: Parts of bench that make rankings. What measures them is hashed in `bench.identity.measures`.
_RANKING = (
    "bench.methods",
    "bench.search",
    "bench.models",
    "bench.graph",
    "bench.llm.replies",
    "bench.protocol",
    "bench.data.edges",
    "bench.data.gold",
    "bench.data.tables",
)
#: Where installed packages lie, the user's own and those of the system's packager among them.
_INSTALLED = tuple(
    Path(place).resolve()
    for place in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
)


def code_hash(module: str) -> str:
    """sha256 over the sources of a module and of what it imports of its own kind.

    A module without a source file (a notebook, `python -`) is hashed by the compiled code it holds now.
    """
    digest = hashlib.sha256()
    for name, content in sorted(_closure(module).items()):
        digest.update(name.encode())
        digest.update(content)
    return digest.hexdigest()


def _closure(module: str) -> dict[str, bytes]:
    package = module.partition(".")[0]
    found: dict[str, bytes] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        if name in found or (name != module and not _counts(name, package)):
            continue
        path = _source(name)
        if path is not None:
            found[name] = _normal(path.read_bytes())
            status = path.stat()
            pending.extend(_imports(name, path, (status.st_mtime_ns, status.st_size)))
        elif name == module:
            held = sys.modules.get(name)
            found[name] = _compiled(held)
            pending.extend(_held(held))
    return found


def _counts(name: str, package: str) -> bool:
    """Whether a module's code is part of the method's."""
    if _within(name, "bench"):
        return any(_within(name, part) for part in _RANKING)
    return _within(name, package) or not _installed(name.partition(".")[0])


@cache
def _installed(package: str) -> bool:
    """Whether a top-level name belongs to the interpreter or an installed package; nothing is imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return True
    if spec is None:
        return True
    places = [*([spec.origin] if spec.origin else []), *(spec.submodule_search_locations or [])]
    paths = [Path(place).resolve() for place in places if place not in {"built-in", "frozen"}]
    return not paths or any(paths[0].is_relative_to(folder) for folder in _INSTALLED)


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _source(module: str) -> Path | None:
    """The file of a module, found without importing anything."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
    else:
        spec = _spec(module)
        origin = spec.origin if spec is not None else None
    path = Path(origin) if origin else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


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
    except (ImportError, ValueError, AttributeError):
        return None


@cache
def _imports(module: str, path: Path, stamp: tuple[int, int]) -> frozenset[str]:
    """Names a module may import: `a.b` for `import a.b`, both `a` and `a.b` for `from a import b`.

    `stamp` is the file's time and size: parsed once as long as they stay.
    """
    inside = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return frozenset()  # It cannot be imported, so nothing is imported by it.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = node.module or ""
            if node.level:
                base = inside.split(".")
                base = base[: len(base) - (node.level - 1)]
                parent = ".".join([*base, *([parent] if parent else [])])
            names.add(parent)
            names.update(f"{parent}.{alias.name}" for alias in node.names)
    return frozenset(names - {""})


def _normal(source: bytes) -> bytes:
    return source.replace(b"\r\n", b"\n")


#: What IPython keeps of the cells that were run.
_REMEMBERED = re.compile(r"In|Out|_dh|_[io]h|_i{1,3}\d*|_{1,3}\d*|_\d+|_i\d+|exit|quit|get_ipython")


def _own(module: ModuleType | None) -> list[object]:
    values = sorted(vars(module).items()) if module is not None else []
    return [
        value
        for name, value in values
        if not _REMEMBERED.fullmatch(name) and not (name.startswith("__") and name.endswith("__"))
    ]


def _held(module: ModuleType | None) -> set[str]:
    """Names of the modules that a module without a file has imported, or imported something of."""
    names = {
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        for value in _own(module)
    }
    return {name for name in names if isinstance(name, str)}


def _compiled(module: ModuleType | None) -> bytes:
    """The functions, classes and values that a module without a file holds, as the interpreter compiled them."""
    digest = hashlib.sha256()
    for value in _own(module):
        digest.update(_form(value, getattr(module, "__name__", ""), set()))
    return digest.digest()


def _form(value: object, module: str, seen: set[int]) -> bytes:
    """What a value is made of, as text that is the same in every process."""
    if value is None or isinstance(value, str | bytes | int | float | complex):
        return repr(value).encode("utf-8", "surrogatepass")
    if id(value) in seen:
        return b"again"
    seen.add(id(value))

    def parts(*values: object) -> bytes:
        return b"(" + b"\n".join(_form(item, module, seen) for item in values) + b")"

    if isinstance(value, CodeType):
        return parts(value.co_name, value.co_code, list(value.co_consts), list(value.co_names))
    if isinstance(value, tuple | list):
        return parts(*value)
    if isinstance(value, frozenset | set):
        return b"{" + b"\n".join(sorted(_form(item, module, set()) for item in value)) + b"}"
    if isinstance(value, dict):
        return parts(*(part for item in value.items() for part in item))
    if isinstance(value, property):
        return parts(value.fget, value.fset, value.fdel)
    value = getattr(value, "__func__", value)
    value = getattr(value, "__wrapped__", value)
    if getattr(value, "__module__", None) != module:
        return b""
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if not _empty(cell)]
        return parts(value.__code__, value.__defaults__, value.__kwdefaults__, cells)
    if isinstance(value, type):
        skipped = {"__module__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__", "__doc__"}
        return parts(*(item for name, item in sorted(vars(value).items()) if name not in skipped))
    return b""


def _empty(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False
