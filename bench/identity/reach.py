"""Hashes of bench's own code: definitions, and everything of ours that they reach by name.

A hash over whole files changes with a comment, and with a definition that nothing uses. This one covers single
definitions: functions, classes and constants at the top of modules, and the members of classes one by one. It starts
from some roots and follows

- the names that a definition uses, through imports anywhere, to their definitions;
- members of these classes whose name occurs anywhere in the reached code, as an attribute or as a text. The object of
  an attribute is unknown, so it counts for every class. Members that are called without a name always count:
  `__special__` ones, decorated ones, and all members of a class with a base from another package;
- statements with an effect when their module is imported, for every imported module: calls, assignments to a part of
  something (`TABLE["a"] = b`), functions that a decorator registers, classes that notify their base
  (`__init_subclass__`);
- the bytes of files beside the code that texts name.

If a name is computed (`getattr(x, name)`, `vars(x)`, a module passed on as a value), the whole module counts.

Of a definition, its syntax tree counts, without docstrings, annotations of functions, texts of raised errors and of
parameters' descriptions, and names of local variables; and, for each name that it uses, the definition that it stands
for. Location and order of definitions, and where they are imported, do not count. Of other packages, names count but
not code: their versions are in the manifest. Sources are read, never run.

This holds for code written in bench's style. Users' code is watched instead (`bench.identity.used`). Ids of results use
it.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from bench.base.errors import BenchError
from bench.base.paths import cache_folder, remembered_sha256, replacing, sha256_of
from bench.identity.sources import Stamp, files_of, source_file, stamp_of

T = TypeVar("T")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Import = ast.Import | ast.ImportFrom
#: Fields of the tree that do not affect what a definition does.
_IGNORED = {"ctx", "kind", "type_comment", "type_params", "lineno", "col_offset", "end_lineno", "end_col_offset"}
#: Decorators under which a function is only called by its name and its annotations are never read.
_PLAIN = {
    *("property", "setter", "cached_property", "staticmethod", "classmethod", "abstractmethod", "cache", "lru_cache"),
    *("contextmanager", "wraps", "overload", "override", "final", "runtime_checkable", "dataclass", "total_ordering"),
}
#: Classes of other packages that call no member of ours by a name they construct.
_QUIET = {"object", "ABC", "Protocol", "Generic", "NamedTuple", "TypedDict", "BaseModel", "Exception", "ValueError"}
#: Calls by which a function accesses its variables by name.
_BY_NAME = {"vars", "locals", "eval", "exec", "dir"}
#: Texts that may name a file or a module.
_NAMED = re.compile(r"(?=.{1,200}$)\w[\w.-]*(/\w[\w.-]*)*")
#: Shared by threads, such as those that build the pages of a site. (Up to Python 3.12, two threads that parse at the
#: same time fail: the interpreter counts the depth of both trees together.)
_ONE_AT_A_TIME = threading.RLock()
#: Seconds for which files of packages are assumed unchanged: checking them takes some milliseconds.
_GLANCE = 0.1


@dataclass(frozen=True, order=True)
class Definition:
    """A name at the top of a module; `Class.member` for a member of a class there."""

    module: str
    name: str


def definition_of(function: Callable[..., object]) -> Definition:
    """The top-level definition that holds a function, a method, a class, or the class of another object."""
    module = getattr(function, "__module__", type(function).__module__)
    return Definition(module, getattr(function, "__qualname__", type(function).__qualname__).partition(".")[0])


def reach_modules(*modules: str, without: Collection[str] = ()) -> Reached:
    """Everything that modules contain and reach, for code that is not called by one name; `without` as in `Reached`.

    Raises:
        LookupError: one has no source file.
    """
    bound = {Definition(module, name): pieces for module in modules for name, pieces in _module(module).bound.items()}
    return reach(bound, [member for pieces in bound.values() for piece in pieces for member in piece.members], without)


@dataclass(frozen=True, eq=False)
class Reached:
    """What definitions use, transitively; computed on demand.

    Attributes:
        roots: starting points; their packages count besides `bench`.
        called: names of members that callers of the roots use.
        without: excluded modules, packages and definitions (`module:name`): neither hashed nor followed.
        values: further values to hash, by their `repr`, in this order.
        named: definitions that a word stands for, if it occurs in the reached code.
    """

    roots: Collection[Definition]
    called: Collection[str] = ()
    without: Collection[str] = ()
    values: Sequence[object] = ()
    named: Mapping[str, Definition] = field(default_factory=dict)

    @property
    def definitions(self) -> frozenset[Definition]:
        """The files of the code."""
        with _ONE_AT_A_TIME:
            return self._follow(self._sources())[1]

    @property
    def packages(self) -> frozenset[str]:
        """Other packages that it uses, by the names under which they are imported."""
        return frozenset(self._look_up()[1])

    def hash(self) -> str:
        """sha256 over the code and the values; cached as long as no file of the packages changes.

        Raises:
            LookupError: a root is not a top-level name of its module, or the module has no source file.
        """
        return self._look_up()[0]

    def _sources(self) -> _Sources:
        return _sources_of(frozenset({"bench", *(root.module.partition(".")[0] for root in self.roots)}))

    def _look_up(self) -> _Answer:
        with _ONE_AT_A_TIME:
            sources = self._sources()
            inputs = sorted(self.roots), sorted(self.called), sorted(self.without), sorted(self.named.items())
            key = hashlib.sha256(repr((sources.state, inputs, self.values)).encode()).hexdigest()
            if key not in sources.answers:
                find = partial(self._answer, sources)
                sources.answers[key] = _remember(key, _Answer, find) if sources.settled else find()
            return sources.answers[key]

    def _answer(self, sources: _Sources) -> _Answer:
        texts, _, packages = self._follow(sources)
        counted = "\0".join([*sorted(texts), *map(repr, self.values)]).encode("utf-8", "surrogatepass")
        return hashlib.sha256(counted).hexdigest(), sorted(packages)

    def _follow(self, sources: _Sources) -> tuple[set[str], frozenset[Definition], set[str]]:
        """The texts of all reached code, its files, and the other packages that it uses."""
        targets: list[_Target] = []
        for root in self.roots:
            if root.name.partition(".")[0] not in _module(root.module).bound:
                raise LookupError(f"{root.module} has no top-level definition {root.name!r}")
            # A member of a class is requested by its own name.
            targets += [root] if "." in root.name else sources.resolved(root)
        words, texts, without = set(self.called), set[str](), frozenset(self.without)
        seen, loaded, whole, packages = set[Definition](), set[str](), set[str](), set[str]()
        #: Members that nothing has named so far.
        waiting: dict[str, list[_Target]] = defaultdict(list)
        while targets:
            target = targets.pop()
            if isinstance(target, str):
                if (top := target.partition(".")[0]) not in sys.stdlib_module_names and not sources.counts(top):
                    packages.add(top)
            elif isinstance(target, _Whole):
                if target.module not in whole and (module := sources.find_module(target.module)) is not None:
                    whole.add(target.module)
                    targets += module.everything(target.module)
            elif target not in seen and not sources.is_out(target, without):
                seen.add(target)
                said = sources.said(target, without)
                texts.add(said.text)
                targets += said.targets
                for word in said.words - words:
                    words.add(word)
                    targets += waiting.pop(word, ())
                    if word in self.named:
                        targets.append(self.named[word])
                for name, always in said.members.items():
                    member = Definition(target.module, f"{target.name}.{name}")
                    (targets if always or name in words else waiting[name]).append(member)
                for each in {target.module, *said.loads} - loaded:
                    loaded.add(each)
                    targets += sources.effects(each)
        return texts, frozenset(seen), packages


#: Follow what definitions use.
reach = Reached


# Caches, valid while the packages' files are unchanged --------------------------------------------------------------

#: A hash and the other packages.
_Answer = tuple[str, list[str]]
_KNOWN: dict[frozenset[str], _Sources] = {}
_adapter: Callable[[object], TypeAdapter[Any]] = cache(TypeAdapter)


def _sources_of(packages: frozenset[str]) -> _Sources:
    known = _KNOWN.get(packages)
    if known is not None and time.monotonic() < known.looked + _GLANCE:
        return known
    stamps = sorted(files_of(packages))
    state = hashlib.sha256(repr(stamps).encode("utf-8", "surrogatepass")).hexdigest()
    # File times have a resolution: a second change within it may not show.
    settled = max((max(stamp[:2]) for _, stamp in stamps), default=0) < time.time_ns() - 2_000_000_000
    if known is None or known.state != state or not known.settled:
        known = _KNOWN[packages] = _Sources(packages, state, settled)
    known.looked = time.monotonic()
    return known


def _remember(key: str, kind: object, find: Callable[[], T]) -> T:
    """The value of `find`, cached under a hash of all its inputs.

    A damaged file, or a folder that cannot be written, only costs time.
    """
    adapter: TypeAdapter[T] = _adapter(kind)
    with suppress(OSError, ValidationError, BenchError):
        return adapter.validate_json((cache_folder() / "code" / f"{key}.json").read_bytes())
    found = find()
    with suppress(OSError, BenchError), replacing(cache_folder() / "code" / f"{key}.json") as file:
        file.write_bytes(adapter.dump_json(found))
    return found


# Following ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Whole:
    """Everything in a module of ours."""

    module: str


#: The meaning of a name; a text is a dotted name of another package.
_Target = Definition | _Whole | str


@dataclass(frozen=True)
class _DefinitionText:
    """A definition as text, with the meanings of its names.

    Attributes:
        loads: modules that it imports.
        members: for a class: name -> whether the member counts even if nothing names it.
    """

    text: str
    targets: tuple[_Target, ...]
    words: frozenset[str]
    loads: frozenset[str]
    members: dict[str, bool]


class _Sources:
    """The modules of packages whose code counts, in one state of their files; cached."""

    def __init__(self, packages: frozenset[str], state: str, settled: bool) -> None:
        self.packages, self.state = packages, state
        #: Whether any change of a file would show in the state, and when the files were last checked.
        self.settled, self.looked = settled, 0.0
        self.answers = dict[str, _Answer]()
        self.find_module, self.effects = cache(self._find_module), cache(self._effects)
        self.resolved, self.said, self.is_out = cache(self._resolve), cache(self._describe), cache(self._is_out)

    def counts(self, module: str) -> bool:
        """Whether a module's code is ours."""
        return module.partition(".")[0] in self.packages

    def _is_out(self, item: Definition, without: frozenset[str]) -> bool:
        around = any(f"{item.module}.".startswith(f"{each}.") for each in without)
        return around or f"{item.module}:{item.name}" in without

    def _find_module(self, module: str) -> _Module | None:
        """A module whose code counts, if it has a source."""
        path = source_file(module) if self.counts(module) else None
        return None if path is None else _parse_module(module, path, stamp_of(path))

    def _effects(self, module: str) -> tuple[_Target, ...]:
        """The effects of importing a module, the packages around it, and everything that they import."""
        effects, seen, pending = list[_Target](), {""}, [module]
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                pending.append(name.rpartition(".")[0])
                if (loaded := self.find_module(name)) is not None:
                    effects += [Definition(name, effect) for effect in loaded.effects]
                    pending += loaded.imports
        return tuple(effects)

    def pieces(self, item: Definition) -> list[_Piece]:
        """The statements that make a definition."""
        module = self.find_module(item.module)
        if module is None:
            return []
        if item.name in module.bound:
            return module.bound[item.name]
        kind, _, member = item.name.rpartition(".")
        return [piece for owner in module.bound[kind] for piece in owner.members.get(member, ())]

    def _resolve(self, item: Definition, tried: frozenset[Definition] = frozenset()) -> tuple[_Target, ...]:
        """A name at the top of a module, followed through imports; empty for a builtin or an unknown name."""
        # Packages import from each other: `from . import core` in the package that `core` lies in.
        module = self.find_module(item.module)
        if module is None or item in tried:
            return ()
        tried |= {item}
        pieces = module.bound.get(item.name)
        if pieces is None:
            # A submodule is set as an attribute of its package, replacing the public name.
            is_export = item.name in module.exports and self.find_module(f"{item.module}.{item.name}") is None
            places = [module.exports[item.name]] if is_export else module.stars
            return next(filter(None, (self._resolve(Definition(place, item.name), tried) for place in places)), ())
        if len(pieces) == 1 and not pieces[0].text:
            ((where, name, _),) = pieces[0].imports
            return self.imported(where, name, tried)
        return (item,)

    def imported(self, where: str, name: str | None, tried: frozenset[Definition] = frozenset()) -> tuple[_Target, ...]:
        """The meaning of `import where`, or of `from where import name`."""
        module = where if name is None else f"{where}.{name}"
        if not self.counts(where):
            return (module,)
        targets = self._resolve(Definition(where, name), tried) if name is not None else ()
        return targets or ((_Whole(module),) if name is None or self.find_module(module) is not None else ())

    def along(self, module: str, chain: tuple[str, ...], here: Mapping[str, Iterable[_Target]]) -> tuple[_Target, ...]:
        """The meaning of a name with the attributes taken of it; `here` are imports inside the piece."""
        first, *attributes = chain
        targets = tuple(here[first]) if first in here else self.resolved(Definition(module, first))
        for attribute in attributes:
            found = [self.imported(at.module, attribute) if isinstance(at, _Whole) else (at,) for at in targets]
            targets = tuple(target for some in found for target in some)
        return targets

    def _is_open(self, item: Definition) -> bool:
        """Whether a class has a base from another package, which may call any member by its name."""
        for base in (base for piece in self.pieces(item) for base in piece.bases):
            above = [each for each in self.along(item.module, base, {}) if isinstance(each, Definition)]
            if any(each != item and self._is_open(each) for each in above) or (not above and base[-1] not in _QUIET):
                return True
        return False

    def _describe(self, item: Definition, without: frozenset[str]) -> _DefinitionText:
        texts, targets, words, loads = [], list[_Target](), set[str](), set[str]()
        members: dict[str, bool] = {}
        for piece in self.pieces(item):
            texts.append(piece.text)
            words |= piece.words
            here: dict[str, list[_Target]] = defaultdict(list)
            for where, name, alias in piece.imports:
                here[alias] += self.imported(where, name)
                loads |= {where, where if name is None else f"{where}.{name}"}
            if piece.computed:
                targets.append(_Whole(item.module))
            for chain in sorted(piece.chains | {(alias,) for alias in here}):
                for target in self.along(item.module, chain, here):
                    # An imported module counts as a whole if it is used as a whole.
                    if not isinstance(target, _Whole) or chain in piece.chains:
                        targets.append(target)
                    if chain in piece.chains:
                        texts.append(f"{'.'.join(chain)} = {self._label(target, without)}")
            for name, inner in piece.members.items():
                members[name] = any(member.always for member in inner) or self._is_open(item)
            beside = [(text, _file(item.module).parent / text) for text in sorted(piece.texts)]
            texts += [f"{text} {sha256_of(path)}" for text, path in beside if path.is_file()]
        if "." in item.name:
            texts.append(self._label(Definition(item.module, item.name.partition(".")[0]), without))
        return _DefinitionText("\n".join(texts), tuple(targets), frozenset(words), frozenset(loads), members)

    def _label(self, target: _Target, without: frozenset[str]) -> str:
        """A label of the definition that does not depend on its location."""
        if not isinstance(target, Definition):
            return target if isinstance(target, str) else "a module"
        return target.name if self.is_out(target, without) else " ".join(piece.text for piece in self.pieces(target))


# Names in users' modules --------------------------------------------------------------------------------------------


def bench_definitions(path: Path) -> tuple[list[Definition], set[str]]:
    """The definitions of bench that a user's module names, and the words in it that may name their members.

    Raises:
        SyntaxError, ValueError, RecursionError: Python cannot parse it.
    """
    with _ONE_AT_A_TIME:
        module, sources = _parse_module("", path, stamp_of(path)), _sources_of(frozenset({"bench"}))
        pieces = module.pieces()
        here: dict[str, list[_Target]] = defaultdict(list)
        for where, name, alias in (each for piece in pieces for each in piece.imports):
            here[alias] += sources.imported(where, name) if sources.counts(where) else ()
        targets = [target for found in here.values() for target in found]
        for chain in {chain for piece in pieces for chain in piece.chains if here.get(chain[0])}:
            targets += sources.along("", chain, here)
        named = {text for piece in pieces for text in piece.texts} | {*module.stars}
        targets += [_Whole(text) for text in named if text.startswith("bench.")]
        roots = {target for target in targets if isinstance(target, Definition)}
        for target in targets:
            # Names taken of the package bench itself are resolved by name.
            if isinstance(target, _Whole) and target.module != "bench" and (ours := sources.find_module(target.module)):
                roots |= {Definition(target.module, name) for name in ours.bound}
        return sorted(roots), {word for piece in pieces for word in piece.words}


def imports_of(path: Path, name: str) -> set[str]:
    """The dotted names that a module imports anywhere, as modules or from modules.

    Raises:
        SyntaxError, ValueError, RecursionError: Python cannot parse it.
    """
    with _ONE_AT_A_TIME:
        module = _parse_module(name, path, stamp_of(path))
        found = [part for piece in module.pieces() for part in piece.imports]
        return {*module.imports, *(where if inner is None else f"{where}.{inner}" for where, inner, _ in found)}


def tree_digest(path: Path) -> str:
    """sha256 of a module's syntax tree: comments and formatting do not count, everything else does.

    If Python cannot parse the source, it is the hash of its bytes.
    """
    source = path.read_bytes()
    with suppress(SyntaxError, ValueError, RecursionError):
        source = _dump_tree(syntax_tree(source)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(source).hexdigest()


# Contents of a module -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Piece:
    """A statement at the top of a module, or a member of a class there.

    Attributes:
        text: digest of its syntax tree; for a class, without its members; empty for a mere import.
        chains: outer names that it uses, each with the attributes taken of it: ("ranks", "locate").
        words: attributes that it reads or sets on anything, and its texts.
        texts: texts in it that may be the name of a file or a module.
        imports: (module, name in it or None, name here) of imports inside.
        computed: whether it looks up something by a computed name.
        always: whether a member counts even if nothing names it.
        members, bases: of a class.
    """

    text: str = ""
    chains: frozenset[tuple[str, ...]] = frozenset()
    words: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    imports: tuple[tuple[str, str | None, str], ...] = ()
    computed: bool = False
    always: bool = False
    members: dict[str, list[_Piece]] = field(default_factory=dict)
    bases: tuple[tuple[str, ...], ...] = ()


@dataclass(eq=False)
class _Module:
    """The bindings of a module's top-level names.

    Attributes:
        inside: the package that relative imports start from.
        effects: names in `bound` whose statements have an effect when the module is imported.
        imports: modules that it imports then.
        stars: modules of `from module import *`.
        exports: name -> module, for a package that imports its public names lazily: its imports for type checkers,
            if it defines `__getattr__`.
    """

    inside: str
    bound: dict[str, list[_Piece]] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    stars: list[str] = field(default_factory=list)
    exports: dict[str, str] = field(default_factory=dict)

    def pieces(self) -> list[_Piece]:
        """All its pieces, members of classes listed separately."""
        pieces = [piece for bound in self.bound.values() for piece in bound]
        return pieces + [member for piece in pieces for inner in piece.members.values() for member in inner]

    def everything(self, name: str) -> Iterator[Definition]:
        """All pieces of the module with this name; its imports count where they are used."""
        for bound, pieces in self.bound.items():
            if all(piece.text for piece in pieces):
                yield Definition(name, bound)
            for piece in pieces:
                yield from (Definition(name, f"{bound}.{member}") for member in piece.members)


def _file(module: str) -> Path:
    path = source_file(module)
    if path is None:
        raise LookupError(f"{module} has no source file")
    return path


def _module(name: str) -> _Module:
    return _parse_module(name, _file(name), stamp_of(_file(name)))


@cache
def _parse_module(name: str, path: Path, stamp: Stamp) -> _Module:
    """A parsed module; `stamp` identifies the state of its file.

    Parsing is slow, so results are cached by the module's content and that of this file.
    """
    source, inside = path.read_bytes(), name if path.name == "__init__.py" else name.rpartition(".")[0]
    own = remembered_sha256(Path(__file__))
    key = hashlib.sha256(b"\0".join([own.encode(), inside.encode(), source])).hexdigest()
    return _remember(key, _Module, partial(_take_apart, source, inside))


def _take_apart(source: bytes, inside: str) -> _Module:
    module = _Module(inside)
    pending = list(_Stripper().visit(syntax_tree(source)).body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.If) and _chain(node.test)[-1] == "TYPE_CHECKING":
            pending = node.orelse + pending
            typed = [each for child in node.body if isinstance(child, _Import) for each in _imports(inside, child)]
            module.exports |= {alias: where for where, inner, alias in typed if inner == alias}
        elif isinstance(node, _Import):
            for where, inner, alias in _imports(inside, node):
                module.imports.append(where if inner is None or inner == "*" else f"{where}.{inner}")
                if inner == "*":
                    module.stars.append(where)
                elif alias:
                    module.bound.setdefault(alias, []).append(_Piece(imports=((where, inner, alias),)))
        elif not _is_docstring(node):
            _take_statement(module, node)
    if "__getattr__" not in module.bound:
        module.exports = {}
    return module


def _take_statement(module: _Module, node: ast.stmt) -> None:
    piece = _class(module, node) if isinstance(node, ast.ClassDef) else _piece(module, node)
    if isinstance(node, _Function | ast.ClassDef):
        names = [node.name]
        if _has_hook(node) or (isinstance(node, ast.ClassDef) and node.keywords):
            module.effects.append(node.name)
    else:
        names = sorted(set().union(*map(_bound_here, _same_scope(node))))
        if _does_something(node) and ast.unparse(getattr(node, "test", ast.Constant(0))) != "__name__ == '__main__'":
            names.append(f"<{len(module.effects)}>")
            module.effects.append(names[-1])
    for name in names:
        module.bound.setdefault(name, []).append(piece)
    for child in ast.walk(node):
        # If all of a module counts, each of its lambdas does.
        if isinstance(child, ast.Lambda):
            module.bound.setdefault(f"<lambda> at {child.lineno}", []).append(_piece(module, ast.Expr(child)))


def _does_something(node: ast.stmt) -> bool:
    """Whether a statement does more than bind a name. (Bindings count where the name is used.)"""
    return any(
        (isinstance(child, ast.Expr) and not isinstance(child.value, ast.Constant))
        or (isinstance(child, ast.Subscript | ast.Attribute) and not isinstance(child.ctx, ast.Load))
        or isinstance(child, ast.Delete | ast.Assert | ast.Raise | ast.With)
        for child in _same_scope(node)
    )


def _has_hook(node: _Function | ast.ClassDef) -> bool:
    """Whether a decorator may have an effect, such as registering the definition."""
    return any(_chain(getattr(item, "func", item))[-1] not in _PLAIN for item in node.decorator_list)


def _class(module: _Module, node: ast.ClassDef) -> _Piece:
    """A class, with its members separate."""
    inner = [child for child in node.body if isinstance(child, _Function)]
    rest = [child for child in node.body if not isinstance(child, _Function)]
    piece = _piece(module, ast.ClassDef(node.name, node.bases, node.keywords, rest, node.decorator_list))
    for child in inner:
        member = _piece(module, child)
        member.always = child.name.startswith(("__", "model_")) or _has_hook(child)
        piece.members.setdefault(child.name, []).append(member)
    piece.bases = tuple(_chain(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases)
    return piece


def _piece(module: _Module, node: ast.stmt) -> _Piece:
    writer = _Writer()
    text = hashlib.sha256(writer.text(node).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    found = [part for child in ast.walk(node) if isinstance(child, _Import) for part in _imports(module.inside, child)]
    imports = tuple(part for part in found if part[1] != "*")
    outside = writer.outside | {alias for _, _, alias in imports}
    chains = frozenset(chain for chain in writer.chains if chain[0] in outside)
    return _Piece(text, chains, frozenset(writer.words), frozenset(writer.texts), imports, writer.computed)


def _is_computed(call: ast.Call) -> bool:
    """Whether a call looks up something by a name that the source does not show."""
    called = _chain(call.func)[-1]
    if called in {"getattr", "hasattr", "setattr", "delattr"}:
        return len(call.args) < 2 or not isinstance(call.args[1], ast.Constant)
    if called in {"import_module", "__import__", "attrgetter", "methodcaller"}:
        return not all(isinstance(argument, ast.Constant) for argument in call.args)
    return called in {"vars", "globals", "locals", "eval", "exec"}


def _chain(node: ast.AST) -> tuple[str, ...]:
    """The name that attributes are taken of, and these; an empty name if it is not a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else "", *reversed(parts))


class _Stripper(ast.NodeTransformer):
    """Remove from a tree what does not affect what code does."""

    #: Whether a bare annotation declares a field here, as in a class.
    _declares = False

    def visit(self, node: ast.AST) -> Any:
        around = self._declares
        if isinstance(node, _Function | ast.ClassDef):
            self._declares = isinstance(node, ast.ClassDef)
            node.body = [child for child in node.body if not _is_docstring(child)]
        # A decorator may read annotations, as functools.singledispatch does.
        if isinstance(node, _Function) and not _has_hook(node):
            node.returns = None
            for part in ast.walk(node.args):
                if isinstance(part, ast.arg):
                    part.annotation = None
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc.args = [item for item in node.exc.args if not (isinstance(item, ast.JoinedStr) or _is_text(item))]
        elif isinstance(node, ast.JoinedStr):
            # Some versions of Python put an empty text between two values.
            node.values = [item for item in node.values if not (isinstance(item, ast.Constant) and item.value == "")]
        elif isinstance(node, ast.Call) and _chain(node.func)[-1] == "Field":
            node.keywords = [item for item in node.keywords if item.arg != "description"]
        elif isinstance(node, ast.AnnAssign) and not self._declares:
            if node.value is None:
                return None
            node = ast.Assign([node.target], node.value)
        self.generic_visit(node)
        self._declares = around
        return node


#: Nodes that name variables, and in which field.
_VARIABLES: dict[type[ast.AST], str] = {
    ast.Name: "id",
    **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar), "name"),
    ast.MatchMapping: "rest",
    ast.Nonlocal: "names",
}
#: Names in a function, a comprehension or a class -> what stands for each in the text; and the meaning of these names
#: for code inside, which looks up global names and class names further out.
_Scope = tuple[dict[str, str], set[str]]


class _Writer:
    """Write a piece of code as text, and note the outer names that it uses (see `_Piece`).

    Local variables are numbered in the order of their binding. Imports are left out, because what they bring counts
    where it is used. Parameters, and functions, classes and imports inside a function, keep their names, and so does
    everything in a function that may access variables by name (`locals`, `eval`, ...).
    """

    def __init__(self) -> None:
        self._numbers = count()
        #: From the outermost to the innermost.
        self._scopes: list[_Scope] = []
        #: Node -> its text, if it was written early; and nodes that an attribute is taken of.
        self._written, self._bases = dict[ast.AST, str](), set[ast.AST]()
        self.outside, self.words, self.texts = set[str](), set[str](), set[str]()
        self.chains = set[tuple[str, ...]]()
        self.computed = False

    def text(self, node: ast.AST) -> str:
        """A tree as text."""
        if node in self._written:
            return self._written[node]
        self._note(node)
        depth = len(self._scopes)
        if isinstance(node, _Function | ast.Lambda):
            # Decorators and parameter defaults are evaluated outside.
            self._write(*getattr(node, "decorator_list", ()), node.args, getattr(node, "returns", None))
            self._scopes.append(self._function_scope(node))
        elif isinstance(node, _Comprehension):
            self._write(node.generators[0].iter)
            targets = [child for part in node.generators for child in ast.walk(part.target)]
            self._scopes.append(self._scope(name for child in targets for name in _bound_here(child)))
        elif isinstance(node, ast.ClassDef):
            self._write(*node.decorator_list, *node.bases, *node.keywords)
            bound = {name: name for child in node.body for part in _same_scope(child) for name in _bound_here(part)}
            for child in node.body:
                # Functions in a class do not see its names.
                self._scopes.append(({} if isinstance(child, _Function) else bound, set()))
                self._write(child)
                self._scopes.pop()
        self._write(*getattr(node, "generators", ()))
        text = _dump(node, self._fields(node), self.text)
        del self._scopes[depth:]
        return text

    def _write(self, *nodes: ast.AST | None) -> None:
        self._written.update({node: self.text(node) for node in nodes if node})

    def _fields(self, node: ast.AST) -> Iterator[tuple[str, object]]:
        for name, value in ast.iter_fields(node):
            if name == _VARIABLES.get(type(node)) and value is not None:
                value = self._name(value) if isinstance(value, str) else list(map(self._name, value))
            elif isinstance(value, list):
                value = [child for child in value if not isinstance(child, _Import)]
            yield name, value

    def _name(self, name: str) -> str:
        return next((names[name] for names, _ in reversed(self._scopes) if name in names), name)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute | ast.Name):
            if node not in self._bases:
                self.chains.add(_chain(node))
            if isinstance(node, ast.Attribute):
                self.words.add(node.attr)
                self._bases.add(node.value)
            elif isinstance(node.ctx, ast.Load) and not any(node.id in inside for _, inside in self._scopes):
                self.outside.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.words |= {node.value} if node.value.isidentifier() else set()
            self.texts |= {node.value} if _NAMED.fullmatch(node.value) else set()
        elif isinstance(node, ast.MatchClass):
            self.words.update(node.kwd_attrs)
        elif isinstance(node, ast.Call):
            self.computed |= _is_computed(node)

    def _function_scope(self, node: _Function | ast.Lambda) -> _Scope:
        body = node.body if isinstance(node.body, list) else [node.body]
        here = [child for part in body for child in _same_scope(part)]
        everywhere = {name for child in here if isinstance(child, ast.Global) for name in child.names}
        # For other functions' variables (`nonlocal`) the outer scope gives the name.
        elsewhere = everywhere.union(*(child.names for child in here if isinstance(child, ast.Nonlocal)))
        bound = [(name, child) for child in here for name in _bound_here(child) if name not in elsewhere]
        by_name = any(isinstance(child, ast.Call) and _chain(child.func)[-1] in _BY_NAME for child in ast.walk(node))
        kept = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        kept |= {name for name, child in bound if by_name or isinstance(child, _Import | _Function | ast.ClassDef)}
        return self._scope((name for name, _ in bound), kept, everywhere)

    def _scope(self, bound: Iterable[str], kept: Iterable[str] = (), everywhere: Iterable[str] = ()) -> _Scope:
        names = {name: name for name in (*kept, *everywhere)}
        for name in bound:
            if name not in names:
                names[name] = f"variable {next(self._numbers)}"
        return names, names.keys() - {*everywhere}


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _is_text(node.value)


def _imports(inside: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str | None, str]]:
    """(module, name in it or None, name here) of each import; no name here for what `import a.b` loads beside `a`."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            where = node.module or ""
            if node.level:
                base = inside.split(".")
                where = ".".join([*base[: len(base) - (node.level - 1)], *([where] if where else [])])
            yield where, alias.name, alias.asname or alias.name
        elif alias.asname:
            yield alias.name, None, alias.asname
        else:
            top = alias.name.partition(".")[0]
            yield top, None, top
            yield alias.name, None, ""


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """A node and its descendants, without the inside of other functions, classes and comprehensions."""
    yield node
    if isinstance(node, _Function | ast.Lambda | ast.ClassDef):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(node, _Comprehension):
            # Only an assignment expression binds a name outside the comprehension.
            yield from (inner for inner in ast.walk(child) if isinstance(inner, ast.NamedExpr))
        else:
            yield from _same_scope(child)


def _bound_here(node: ast.AST) -> list[str]:
    """The names that a node itself binds."""
    if isinstance(node, _Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, _Function | ast.ClassDef):
        return [node.name]
    node = node.target if isinstance(node, ast.NamedExpr) else node
    name = getattr(node, _VARIABLES.get(type(node), ""), None)
    return [name] if isinstance(name, str) and not isinstance(getattr(node, "ctx", None), ast.Load) else []


def _dump_tree(node: ast.AST) -> str:
    """A tree as text, with all names unchanged."""
    return _dump(node, ast.iter_fields(node), _dump_tree)


def _dump(node: ast.AST, fields: Iterable[tuple[str, object]], text: Callable[[ast.AST], str]) -> str:
    """A node as text, built from the texts of its children: only fields that exist, so that Python versions agree."""
    parts = [type(node).__name__]
    for name, value in fields:
        if name not in _IGNORED and value is not None and value != []:
            values = value if isinstance(value, list) else [value]
            inner = ",".join(text(each) if isinstance(each, ast.AST) else repr(each) for each in values)
            parts.append(f"{name}=[{inner}]" if values is value else f"{name}={inner}")
    return f"({' '.join(parts)})"


def syntax_tree(source: bytes) -> ast.Module:
    """The tree of a module's source; raises `SyntaxError`."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)
