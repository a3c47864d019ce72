"""The version of a method's code: a hash of the sources it is made of.

A version number that people must remember to raise would let a changed method pass for the old one, and a stored
result for the new. So the hash covers the method's module and every module of ours or of the author's that it can
reach by imports, late imports and the packages on the way included. The standard library and other installed packages
are left out: their versions are in the manifest.

Modules of bench are hashed without comments, docstrings and blank lines; modules of an author byte for byte (line ends
aside). Sources are read as text and never run or compiled, so the hash is the same on every version of Python.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import bench
from bench.errors import UsageError
from bench.identity.syntax import syntax_tree

#: Folders of installed packages, including the user's own and those of the system's package manager.
_INSTALLED = tuple(
    Path(place).resolve()
    for place in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
)
#: Names of such folders, wherever a `.pth` file or the path of Python has put another.
_PACKAGED = frozenset({"site-packages", "dist-packages"})


def code_hash(*modules: str) -> str:
    """sha256 over the sources of modules and of all that they reach by imports.

    Raises:
        UsageError: a module has no source file, as one that was typed into a notebook or into `python -`.
    """
    digest = hashlib.sha256()
    for name, content in sorted(closure(*modules).items()):
        for part in (name.encode(), content):
            digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def closure(*modules: str) -> dict[str, bytes]:
    """What the hash of modules is taken over: the name of each module that they reach -> its content.

    The package `bench` itself takes no part: it holds names alone, and what they name is followed.

    Raises:
        UsageError: a module has no source file.
    """
    packages = {name.partition(".")[0] for name in modules}
    found: dict[str, bytes] = {}
    places: dict[str, Path | None] = {}
    pending, seen = list(modules), set(modules)
    while pending:
        name = pending.pop()
        around = places.get(name.rpartition(".")[0])
        # What lies in no package is no module: a class or function of the module around it.
        path = places[name] = None if around is not None and around.name != "__init__.py" else source_file(name)
        if path is not None and name != "bench":
            source = _scanned(path, _stamp(path))
            found[name] = source.code if _within(name, "bench") else source.raw
            inside = name if path.name == "__init__.py" else name.rpartition(".")[0]
            reached = {*_parents(name), *_imported(source, inside)}
        elif path is None and name in modules:
            raise UsageError(
                f"the module {name} has no source file that a result could be identified by; save it in a .py file."
            )
        else:
            reached = set(_parents(name))
        new = {other for other in reached - seen if _counts(other, packages)}
        seen |= new
        pending.extend(new)
    return found


# Which modules ---------------------------------------------------------------------------------------------------


def _counts(name: str, packages: set[str]) -> bool:
    """Whether a module's code is ours or the author's."""
    top = name.partition(".")[0]
    return top == "bench" or top in packages or not _installed(top)


@cache
def _installed(package: str) -> bool:
    """Whether a top-level name belongs to the interpreter or an installed package; nothing is imported."""
    if package in sys.stdlib_module_names:
        return True
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return True
    if spec is None:
        return True
    places = [*([spec.origin] if spec.origin else []), *(spec.submodule_search_locations or [])]
    paths = [Path(place).resolve() for place in places if place not in {"built-in", "frozen"}]
    return not paths or bool(_PACKAGED & set(paths[0].parts)) or any(paths[0].is_relative_to(at) for at in _INSTALLED)


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _parents(name: str) -> Iterator[str]:
    """The packages that Python imports before a module."""
    while name := name.rpartition(".")[0]:
        yield name


def source_file(module: str) -> Path | None:
    """The source file of a module, found without importing anything; None where there is none."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
    elif module.startswith("bench."):
        return _ours(module)
    else:
        spec = _spec(module)
        origin = spec.origin if spec is not None else None
    path = Path(origin) if origin else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


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


# What a source says -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A file as it was scanned.

    Attributes:
        raw: its bytes, with line ends of one kind.
        code: its statements, without comments, docstrings, blank lines and how they are laid out inside brackets.
        imports: (module with leading dots, name or None) of every import that a run can reach.
        from_bench: names that are looked up in the package itself: `top_k` in `bench.top_k`.
    """

    raw: bytes
    code: bytes
    imports: frozenset[tuple[str, str | None]]
    from_bench: frozenset[str]


#: A comment, or a string without its prefix. Whatever the prefix, a backslash keeps the next quote inside.
_TEXT = re.compile(
    r"""
      \#[^\n]*
    | "{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"{3}
    | '{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}
    | "[^"\\\n]*(?:\\.[^"\\\n]*)*"
    | '[^'\\\n]*(?:\\.[^'\\\n]*)*'
    """,
    re.VERBOSE | re.DOTALL,
)
#: A string on its own: documentation, or nothing.
_ALONE = re.compile(r'[ru]?""(?:[ru]?"")*', re.IGNORECASE)
_OPENING, _CLOSING = re.compile(r"[(\[{]"), re.compile(r"[)\]}]")
_SPACE = re.compile(r"\s+")
_ONLY_FOR_TYPES = re.compile(r"if\s+(?:\w+\.)*TYPE_CHECKING\s*:")
_IMPORT = re.compile(r"(?:^|[;:]\s*)(?:from\s*(\.[\s.]*[\w.]*|[\w.]+)\s*import\b([^;]+)|import\s+([^;]+))")


def _stamp(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


@cache
def _scanned(path: Path, stamp: tuple[int, int]) -> _Source:
    """A file, scanned once as long as its time and size (`stamp`) stay."""
    raw = _normal(_read(path))
    lines, strings = _statements(raw)
    code = "\n".join(indent + line for indent, line in lines)
    imports = frozenset(_imports(lines))
    bound = any(name is None and _within(module, "bench") for module, name in imports)
    names = frozenset(_names_of_bench(code) if bound else ())
    return _Source(raw, "\0".join([code, *strings]).encode("utf-8", "surrogateescape"), imports, names)


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _normal(source: bytes) -> bytes:
    return source.replace(b"\r\n", b"\n")


def _statements(source: bytes) -> tuple[list[tuple[str, str]], list[str]]:
    """The logical lines of a source as (indentation, text), and the strings replaced by `""` in them, in order."""
    text = source.decode("utf-8", "surrogateescape").removeprefix("\ufeff").replace("\f", " ")
    strings: list[str] = []

    def placed(found: re.Match[str]) -> str:
        if found[0][0] == "#":
            return ""
        strings.append(found[0])
        return '""'

    skeleton = _TEXT.sub(placed, text).replace("\\\n", " ")
    lines: list[tuple[str, str]] = []
    kept: list[str] = []
    begun: list[str] = []
    depth = at = 0
    for line in skeleton.split("\n"):
        if not line or line.isspace():
            continue
        begun.append(line)
        depth += len(_OPENING.findall(line)) - len(_CLOSING.findall(line))
        if depth > 0:
            continue
        bare = line.strip()
        indent = line[: -len(line.lstrip())]
        if len(begun) > 1:
            whole = " ".join(begun)
            bare = _SPACE.sub(" ", whole.strip())
            indent = whole[: -len(whole.lstrip())]
        begun, depth = [], 0
        end = at + bare.count('"') // 2
        if not (bare[-1] == '"' and _ALONE.fullmatch(bare)):
            lines.append((indent, bare))
            kept.extend(strings[at:end])
        at = end
    return lines, kept


def _imports(lines: list[tuple[str, str]]) -> Iterator[tuple[str, str | None]]:
    """(module, None) for `import a.b`; (module, name) for each name of `from a import b`."""
    skipped: str | None = None
    for indent, line in lines:
        if skipped is not None and len(indent) > len(skipped):
            continue
        skipped = None
        if _ONLY_FOR_TYPES.match(line):
            # What only a type checker sees cannot influence a run.
            skipped = indent
            continue
        if "import" not in line:
            continue
        for module, names, modules in _IMPORT.findall(line):
            for item in (names or modules).strip(" ()").split(","):
                words = item.split()
                if words and names:
                    yield _SPACE.sub("", module), words[0]
                elif words:
                    yield words[0], None


def _names_of_bench(code: str) -> Iterator[str]:
    """Names that are looked up in the package `bench`, whatever it is called: `b.top_k` after `import bench as b`."""
    called = {"bench", *re.findall(r"\bbench as (\w+)", code)}
    for name in called:
        yield from re.findall(rf"(?<![\w.]){name} ?\. ?(\w+)", code)


def _imported(source: _Source, inside: str) -> set[str]:
    """Modules that a source in the package `inside` may import: `a` and `a.b` for `from a import b`."""
    found: set[str] = set()
    for written, name in source.imports:
        module = written.lstrip(".")
        if level := len(written) - len(module):
            base = inside.split(".")
            module = ".".join([*base[: len(base) - level + 1], *([module] if module else [])])
        found.add(module)
        if name is not None:
            found.add(f"{module}.{name}")
            if module == "bench":
                found.update(_exported(name))
    for name in source.from_bench:
        found.update(_exported(name))
    return found - {""}


def _exported(name: str) -> list[str]:
    """The module behind a public name of the package `bench`; all such modules for `*`."""
    exports = _exports(path := Path(bench.__file__ or ""), _stamp(path))
    return list(exports.values()) if name == "*" else [exports[name]] if name in exports else []


@cache
def _exports(path: Path, stamp: tuple[int, int]) -> dict[str, str]:
    """`_EXPORTS` of a package that imports its public names when they are first asked for: name -> module."""
    for node in syntax_tree(_read(path)).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "_EXPORTS" for target in targets):
                exports: dict[str, str] = ast.literal_eval(node.value)
                return exports
    return {}
