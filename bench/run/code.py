"""The version of a method's code: a hash of the sources it is made of.

A version number that people must remember to raise would let a changed method pass for the old one, and a
stored result for the new. So the hash is taken over the method's module and every module it imports from
the same package, followed through (for built-in methods: the search, text and graph modules they use).
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from functools import cache
from pathlib import Path

#: Packages whose modules take part in how a built-in method ranks; the rest of the harness does not.
_RANKING_CODE = ("bench.methods", "bench.search", "bench.text", "bench.graph")


@cache
def code_hash(module: str) -> str:
    """sha256 over the sources of a module and of what it imports of its own kind."""
    digest = hashlib.sha256()
    for name, path in sorted(_closure(module).items()):
        digest.update(name.encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def _closure(module: str) -> dict[str, Path]:
    own = _RANKING_CODE if module.startswith("bench.") else (module.partition(".")[0],)
    found: dict[str, Path] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        path = None if name in found else _source(name)
        if path is None:
            continue
        found[name] = path
        pending.extend(imported for imported in _imports(name, path) if imported.startswith(own))
    return found


def _source(module: str) -> Path | None:
    """The file of a module; found without importing it where it is not imported yet."""
    loaded = sys.modules.get(module)
    origin = getattr(loaded, "__file__", None) if loaded is not None else None
    if origin is None and loaded is None:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            return None
        origin = spec.origin if spec is not None else None
    path = Path(origin) if origin else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _imports(module: str, path: Path) -> set[str]:
    """Names a module may import: `a.b` for `import a.b`, both `a` and `a.b` for `from a import b`."""
    package = module.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = node.module or ""
            if node.level:
                base = package.split(".")
                base = base[: len(base) - (node.level - 1)]
                parent = ".".join([*base, *([parent] if parent else [])])
            names.add(parent)
            names.update(f"{parent}.{alias.name}" for alias in node.names)
    return names
