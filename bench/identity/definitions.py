"""Hashes of definitions: a function or class, and everything of the same packages that it reaches by name.

A hash over whole files changes with a comment, and with a definition that nothing else uses. Here the hash covers
definitions one by one. Starting from some roots, the names that each definition uses are looked up in its module and
followed through imports, to the last one that belongs to bench or to the package of a root. Types in annotations are
followed too, since methods are called on them. The standard library and other installed packages are left out.

What counts is the syntax tree of each definition without docstrings. Comments, formatting and the name of the module
do not count. The tree is written out field by field, empty fields left out, so that Python versions agree on it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bench.identity.sources import source_file
from bench.identity.syntax import syntax_tree

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
#: Fields of the tree that say nothing of what a definition does.
_IGNORED = {"ctx", "kind", "type_comment", "type_params", "lineno", "col_offset", "end_lineno", "end_col_offset"}


@dataclass(frozen=True, order=True)
class Definition:
    """A top-level name of a module."""

    module: str
    name: str


def definition_of(function: Callable[..., object], name: str = "") -> Definition:
    """The top-level definition that holds a function, a method or a class; a lambda is named by its line.

    `name` is the qualified name of a function's own code, where `functools.wraps` gave it the name of another.
    """
    module = getattr(function, "__module__", type(function).__module__)
    if name:
        module = getattr(function, "__globals__", {}).get("__name__", module)
    name = name or getattr(function, "__qualname__", type(function).__qualname__)
    if "<lambda>" in name and not name[0].isalpha():
        return Definition(module, _lambda(function.__code__.co_firstlineno))
    return Definition(module, name.partition(".")[0])


def definition_hash(
    roots: Iterable[Definition],
    values: Iterable[object] = (),
    without: Callable[[Definition], bool] = lambda item: False,
) -> str:
    """sha256 over the roots and all that they reach by name.

    Args:
        roots: where to start; their packages count as well as `bench`.
        values: what else counts, each by its `repr`.
        without: definitions that are neither hashed nor followed.

    Raises:
        LookupError: a root is not among the top-level names of its module, or the module has no source file.
    """
    roots = list(roots)
    packages = frozenset({"bench", *(root.module.partition(".")[0] for root in roots)})
    for root in roots:
        if root.name not in _module(root.module).bound:
            raise LookupError(f"{root.module} has no top-level definition {root.name!r}")
    texts: set[str] = set()
    seen: set[Definition] = set()
    pending = list(roots)
    while pending:
        item = pending.pop()
        if item not in seen and not without(item):
            seen.add(item)
            own, reached = _described(item, packages, _module(item.module))
            texts.update(own)
            pending.extend(reached)
    digest = hashlib.sha256()
    for text in [*sorted(texts), *map(repr, values)]:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


@cache
def _described(
    item: Definition, packages: frozenset[str], module: _Module
) -> tuple[frozenset[str], frozenset[Definition]]:
    """A definition as text, and the definitions that it uses."""
    texts: set[str] = set()
    reached: set[Definition] = set()
    for node in module.bound[item.name]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            texts.update(_foreign(item, node, packages))
        else:
            texts.add(_written(node))
        reached.update(_reached(item, node, packages))
    return frozenset(texts), frozenset(reached)


@dataclass(eq=False)
class _Module:
    """A module's source: which statements bind which top-level name."""

    inside: str
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)


def _module(name: str) -> _Module:
    path = _source(name)
    if path is None:
        raise LookupError(f"{name} has no source file")
    status = path.stat()
    return _parsed(name, path, status.st_mtime_ns, status.st_size)


@cache
def _parsed(name: str, path: Path, changed: int, size: int) -> _Module:
    """A module's bindings; `changed` and `size` tell one state of the file from the next."""
    module = _Module(name if path.name == "__init__.py" else name.rpartition(".")[0])
    pending: list[ast.stmt] = list(syntax_tree(path.read_bytes()).body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.If | ast.Try | ast.With):
            pending = [child for child in ast.walk(node) if isinstance(child, ast.stmt) and child is not node] + pending
            continue
        for bound in _bindings(node):
            module.bound.setdefault(bound, []).append(node)
        for child in ast.walk(node):
            if isinstance(child, ast.Lambda):
                module.bound.setdefault(_lambda(child.lineno), []).append(ast.Expr(child))
    return module


def _lambda(line: int) -> str:
    return f"<lambda> at {line}"


#: The file of a module, found once.
_source = cache(source_file)


def _bindings(node: ast.stmt) -> Iterator[str]:
    """Names that a top-level statement binds."""
    if isinstance(node, _Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    else:
        yield from _stored(node)
        yield from _changed(node)


def _changed(node: ast.stmt) -> Iterator[str]:
    """Names whose object a top-level statement may change: `TABLE[1] = 2`, `Kind.size = 3`, `TABLE.update(more)`."""
    may_call = isinstance(node, ast.Expr | ast.For | ast.While)
    for child in ast.walk(node):
        if isinstance(child, ast.Subscript | ast.Attribute) and (may_call or not isinstance(child.ctx, ast.Load)):
            inner: ast.expr = child
            while isinstance(inner, ast.Subscript | ast.Attribute):
                inner = inner.value
            if isinstance(inner, ast.Name):
                yield inner.id


def _stored(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            yield child.id


def _reached(item: Definition, node: ast.stmt, packages: frozenset[str]) -> Iterator[Definition]:
    """Definitions of ours that a top-level statement uses."""
    module = _module(item.module)
    imports = _imports_inside(node)
    for statement in imports:
        for where, name, alias in _imported(module, statement):
            if statement is not node or alias == item.name:
                yield from _of(where, name, packages)
    if isinstance(node, ast.Import | ast.ImportFrom):
        return
    for name in _uses(node):
        if name in module.bound and name != item.name:
            yield Definition(item.module, name)
    for chain in _chains(node):
        # `ranks.locate` of an imported module: the definition in it.
        for bound in module.bound.get(chain[0], ()):
            if isinstance(bound, ast.Import | ast.ImportFrom):
                for where, name, alias in _imported(module, bound):
                    if alias == chain[0]:
                        yield from _along(where if name is None else f"{where}.{name}", chain[1:], packages)


def _imports_inside(node: ast.stmt) -> list[ast.Import | ast.ImportFrom]:
    return [child for child in ast.walk(node) if isinstance(child, ast.Import | ast.ImportFrom)]


def _imported(module: _Module, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str | None, str]]:
    """(module, name in it, name here) of each import; no name in it for `import a.b`."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            # `import a.b` binds `a`, and the attributes after it lead on.
            yield (
                alias.name if alias.asname else alias.name.partition(".")[0],
                None,
                alias.asname or alias.name.partition(".")[0],
            )
        return
    where = node.module or ""
    if node.level:
        base = module.inside.split(".")
        base = base[: len(base) - (node.level - 1)]
        where = ".".join([*base, *([where] if where else [])])
    for alias in node.names:
        yield where, alias.name, alias.asname or alias.name


def _of(where: str, name: str | None, packages: frozenset[str]) -> Iterator[Definition]:
    """The definition that an import gives, if it is ours; of a module, only the attributes in use are followed."""
    if name is None or where.partition(".")[0] not in packages or _source(where) is None:
        return
    bound = _module(where).bound
    if name == "*":
        yield from (Definition(where, each) for each in bound)
    elif name in bound:
        yield Definition(where, name)


def _along(where: str, attributes: tuple[str, ...], packages: frozenset[str]) -> Iterator[Definition]:
    if where.partition(".")[0] not in packages or _source(where) is None or not attributes:
        return
    if attributes[0] in _module(where).bound:
        yield Definition(where, attributes[0])
    yield from _along(f"{where}.{attributes[0]}", attributes[1:], packages)


def _foreign(item: Definition, node: ast.Import | ast.ImportFrom, packages: frozenset[str]) -> Iterator[str]:
    """What an imported name refers to, if it is not ours: `np = numpy`. The location of our own code does not count."""
    for where, name, alias in _imported(_module(item.module), node):
        if alias == item.name and where.partition(".")[0] not in packages:
            yield f"{alias} = {where if name is None else f'{where}.{name}'}"


def _chains(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Names with the attributes that are taken of them: ("ranks", "locate") for `ranks.locate`."""
    for child in ast.walk(node):
        parts: list[str] = []
        while isinstance(child, ast.Attribute):
            parts.append(child.attr)
            child = child.value
        if parts and isinstance(child, ast.Name):
            yield (child.id, *reversed(parts))


def _uses(node: ast.AST) -> set[str]:
    """Names that a piece of code takes from outside itself."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, _Function | ast.Lambda):
        inner = node.body if isinstance(node.body, list) else [node.body]
        own = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        outside: set[str] = set()
        for statement in inner:
            for child in _same_scope(statement):
                own.update(_bound_here(child))
        for statement in inner:
            for child in _same_scope(statement):
                if isinstance(child, ast.Global):
                    own -= set(child.names)
        used = set().union(*(_uses(statement) for statement in inner)) - own
        if not isinstance(node, ast.Lambda):
            outside.update(*(_uses(part) for part in node.decorator_list))
            outside |= _uses(node.returns) if node.returns else set()
        return used | outside | _uses(node.args)
    if isinstance(node, _Comprehension):
        targets = {name for part in node.generators for name in _stored(part.target)}
        parts = [*ast.iter_child_nodes(node)]
        return (set().union(*(_uses(part) for part in parts)) - targets) | _uses(node.generators[0].iter)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return set()
    return set().union(*(_uses(child) for child in ast.iter_child_nodes(node)))


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those below it, without the inside of other functions, classes and comprehensions."""
    yield node
    if isinstance(node, _Function | ast.Lambda | ast.ClassDef):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(node, _Comprehension):
            # Only an assignment expression binds a name outside the comprehension.
            yield from (inner for inner in ast.walk(child) if isinstance(inner, ast.NamedExpr))
        else:
            yield from _same_scope(child)


def _bound_here(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.NamedExpr):
        yield node.target.id
    elif isinstance(node, _Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif (isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def _written(node: ast.AST) -> str:
    """A tree as text: kinds and fields that are there, docstrings left out."""
    parts = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in _IGNORED or value is None or value == []:
            continue
        if name == "body" and isinstance(node, _Function | ast.ClassDef):
            value = _without_docstring(value)
        if isinstance(value, list):
            inner = ",".join(_written(child) if isinstance(child, ast.AST) else repr(child) for child in value)
            parts.append(f"{name}=[{inner}]")
        else:
            parts.append(f"{name}={_written(value) if isinstance(value, ast.AST) else repr(value)}")
    return f"({' '.join(parts)})"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """A body without its docstrings: the first, and those below attributes."""
    return [
        item
        for item in body
        if not (
            isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)
        )
    ]
