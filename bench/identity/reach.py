"""Hashes of bench's own code: definitions, and everything of ours that they reach by name.

A hash over whole files changes with a comment, and with a definition that nothing uses. This one covers definitions
one by one: the functions, classes and constants at the top of modules, and of a class its members one by one. It starts
from some roots and follows

- the names that a definition uses, through imports wherever they stand, to the definition that they stand for;
- members of the classes met so, whose name stands anywhere in what is reached, as an attribute or as a text. Whose
  attribute it is cannot be known, so it counts for every class. Members that no name calls always count: `__special__`
  ones, those with a decorator of their own, and all members of a class that inherits from another package's;
- statements that do something when their module is imported, of every module that is imported on the way: calls,
  assignments to a part of something (`TABLE["a"] = b`), functions that a decorator registers, classes that tell
  their base (`__init_subclass__`);
- texts that name a file beside the code: its bytes.

Where a name is computed (`getattr(x, name)`, `vars(x)`, a module passed on as a value), the whole module counts.

What counts of a definition is its syntax tree, without docstrings, annotations of functions, the texts of raised errors
and of parameters' descriptions, and the names of local variables; and for each name that it uses, which definition that
is. Where a definition lies, in which order, and where it is imported, does not count. Of other packages, the names
count and not the code: their versions are in the manifest. Sources are read, never run.

That is so for code that is written as ours is. What the code of a user uses is watched instead (`bench.identity.used`).
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from bench.base.errors import BenchError
from bench.base.paths import cache_folder, replacing, sha256_of
from bench.identity.sources import source_file

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Import = ast.Import | ast.ImportFrom
#: What binds a name inside a function that code outside may see, or that an import brings.
_KeepsName = _Import | _Function | ast.ClassDef
#: Fields of the tree that say nothing of what a definition does.
_IGNORED = {"ctx", "kind", "type_comment", "type_params", "lineno", "col_offset", "end_lineno", "end_col_offset"}
#: Decorators under which a function is called by its name alone, and never asked for its annotations.
_PLAIN = {
    *("property", "setter", "cached_property", "staticmethod", "classmethod", "abstractmethod", "cache", "lru_cache"),
    *("contextmanager", "wraps", "overload", "override", "final", "runtime_checkable", "dataclass", "total_ordering"),
}
#: Classes of other packages that call no member of ours by a name that they have made up.
_QUIET = {"object", "ABC", "Protocol", "Generic", "NamedTuple", "TypedDict", "BaseModel", "Exception", "ValueError"}
#: Texts that may name a file or a module.
_NAMED = re.compile(r"(?=.{1,200}$)\w[\w.-]*(/\w[\w.-]*)*")


@dataclass(frozen=True, order=True)
class Definition:
    """A name at the top of a module; `Class.member` for a member of a class there."""

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


def definitions(module: str) -> list[Definition]:
    """All top-level names of a module.

    Raises:
        LookupError: it has no source file.
    """
    return [Definition(module, name) for name in _module(module).bound]


def reach_modules(*modules: str, without: Iterable[str] = ()) -> Reached:
    """All that modules hold and reach, for code that is not called by one name; `without` as for `reach`.

    Raises:
        LookupError: one has no source file.
    """
    roots = [item for module in modules for item in definitions(module)]
    pieces = [piece for item in roots for piece in _module(item.module).bound[item.name]]
    return reach(roots, [name for piece in pieces for name in piece.members], without)


class Reached:
    """What some roots reach (see `reach`); it is followed when it is asked for."""

    def __init__(
        self,
        roots: Iterable[Definition],
        called: Iterable[str],
        without: Iterable[str],
        values: Iterable[object],
        named: Mapping[str, Definition],
    ) -> None:
        self._roots, self._called, self._without = list(roots), set(called), frozenset(without)
        self._values, self._named = [repr(value) for value in values], dict(named)

    @property
    def definitions(self) -> frozenset[Definition]:
        """Where the code lies."""
        with _ONE_AT_A_TIME:
            _, places, _ = _reach(self._sources(), self._roots, self._called, self._named)
        return places

    @property
    def packages(self) -> frozenset[str]:
        """The packages of others whose code it uses, by the names under which they are imported."""
        return frozenset(self._look_up().packages)

    @property
    def files(self) -> frozenset[Path]:
        """What it was found from: sources, and files beside them that they name."""
        with _ONE_AT_A_TIME:
            sources = self._sources()
            _reach(sources, self._roots, self._called, self._named)
            return frozenset(sources.state.files)

    def hash(self) -> str:
        """sha256 over the code and the values.

        It is kept in the cache with the state of all files that it was found from, and stands while that does.

        Raises:
            LookupError: a root is not among the top-level names of its module, or the module has no source file.
        """
        return self._look_up().hash

    def _look_up(self) -> _ReachedHash:
        # Where a package lies that is not ours: another one may have its name.
        places = {str(source_file(root.module)) for root in self._roots if not root.module.startswith("bench.")}
        inputs = [sorted(self._roots), sorted(self._called), sorted(self._without), self._values, self._named]
        inputs.append(sorted(places))
        key = hashlib.sha256(b"\0".join([_own_source(), __file__.encode(), repr(inputs).encode()])).hexdigest()
        with _ONE_AT_A_TIME:
            answer = _ANSWERS.get(key) or _read_cached(_answers(), key)
            if answer is None or not answer.state.stands():
                answer = self._answer()
                if answer.is_settled():
                    _keep(_answers(), key, answer)
            if answer.is_settled():
                _ANSWERS[key] = answer
            return answer

    def _answer(self) -> _ReachedHash:
        sources = self._sources()
        texts, _, packages = _reach(sources, self._roots, self._called, self._named)
        counted = "\0".join([*sorted(texts), *self._values]).encode("utf-8", "surrogatepass")
        state = sources.state
        found_from = _State({**state.files, **sources.folders})
        return _ReachedHash(hashlib.sha256(counted).hexdigest(), sorted(packages), found_from)

    def _sources(self) -> _Sources:
        return _sources(frozenset({"bench", *(root.module.partition(".")[0] for root in self._roots)}), self._without)


def reach(
    roots: Iterable[Definition],
    called: Iterable[str] = (),
    without: Iterable[str] = (),
    values: Iterable[object] = (),
    named: Mapping[str, Definition] = MappingProxyType({}),
) -> Reached:
    """Follow what definitions use.

    Args:
        roots: where to start; their packages count as well as `bench`.
        called: names of members that whoever uses the roots calls.
        without: what is neither hashed nor followed: modules, packages, and definitions (`module:name`).
        values: what counts besides, by its `repr`, in this order.
        named: what a word stands for, where it stands in what is reached.
    """
    return Reached(roots, called, without, values, named)


def _reach(
    sources: _Sources, roots: list[Definition], called: set[str], named: Mapping[str, Definition]
) -> tuple[set[str], frozenset[Definition], set[str]]:
    """The texts of all code that is reached, where it lies, and the packages of others that it uses."""
    for root in roots:
        if root.name.partition(".")[0] not in _module(root.module).bound:
            raise LookupError(f"{root.module} has no top-level definition {root.name!r}")
    words = set(called)
    texts = set[str]()
    seen, loaded, whole, packages = set[Definition](), set[str](), set[str](), set[str]()
    #: Members that nothing has named so far.
    waiting: dict[str, list[_Target]] = defaultdict(list)
    # A member of a class is asked for by its own name.
    found = [(root,) if "." in root.name else sources.resolved(root) for root in roots]
    targets: list[_Target] = [target for some in found for target in some]
    while targets:
        target = targets.pop()
        if isinstance(target, str):
            if (top := target.partition(".")[0]) not in sys.stdlib_module_names and not sources.counts(top):
                packages.add(top)
        elif isinstance(target, _Whole):
            if target.module not in whole and (source_module := sources.find_module(target.module)) is not None:
                whole.add(target.module)
                targets += source_module.everything(target.module)
        elif target not in seen and not sources.is_out(target):
            seen.add(target)
            said = sources.said(target)
            texts.add(said.text)
            targets += said.targets
            for word in said.words - words:
                words.add(word)
                targets += waiting.pop(word, ())
                if word in named:
                    targets.append(named[word])
            for name, always in said.members.items():
                wanted = always or name in words or target.module in whole
                (targets if wanted else waiting[name]).append(Definition(target.module, f"{target.name}.{name}"))
            for module in {target.module, *said.loads} - loaded:
                loaded.add(module)
                targets += sources.effects(module)
    return texts, frozenset(seen), packages


# Following ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Whole:
    """All that stands in a module of ours."""

    module: str


#: What a name stands for; a text is a dotted name of another package.
_Target = Definition | _Whole | str


@dataclass(frozen=True)
class _DefinitionText:
    """A definition as text, with what its names stand for.

    Attributes:
        loads: modules that it imports.
        members: of a class: name -> whether it counts though nobody names it.
    """

    text: str
    targets: tuple[_Target, ...]
    words: frozenset[str]
    loads: frozenset[str]
    members: dict[str, bool]


def _around(name: str) -> Iterator[str]:
    """The packages that Python imports before a module."""
    while name := name.rpartition(".")[0]:
        yield name


class _Sources:
    """The modules that count, as they are now; what was found once is kept as long as no file changes."""

    def __init__(self, packages: frozenset[str], without: frozenset[str]) -> None:
        self.packages, self.without = packages, without
        self.state = _State({})
        #: Where another file would be read if it came. A process does not look again.
        self.folders: dict[Path, _Stamp] = {}
        self.find_module, self.effects = cache(self._find_module), cache(self._effects)
        self.resolved, self.said, self.is_out = cache(self._resolve), cache(self._describe), cache(self._is_out)

    def counts(self, module: str) -> bool:
        """Whether a module's code is ours."""
        return module.partition(".")[0] in self.packages

    def _is_out(self, item: Definition) -> bool:
        places = {item.module, f"{item.module}:{item.name}", *_around(item.module)}
        return not places.isdisjoint(self.without)

    def _find_module(self, module: str) -> _Module | None:
        """A module whose code counts, if it has a source."""
        if not self.counts(module):
            return None
        path = source_file(module)
        if path is None:
            return None
        self.state.files[path] = _stamp(path)
        self._look_in(path.parent)
        return _module(module)

    def _look_in(self, folder: Path) -> None:
        if folder not in self.folders:
            self.folders[folder] = _stamp(folder)

    def _effects(self, module: str) -> tuple[_Target, ...]:
        """What importing a module does, and the packages around it, and all that they import."""
        effects: list[_Target] = []
        seen, pending = set[str](), [module]
        while pending:
            name = pending.pop()
            if name and name not in seen:
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

    def _resolve(self, item: Definition) -> tuple[_Target, ...]:
        """A name at the top of a module, followed through imports; nothing for a builtin, and for what is not there."""
        return self._follow(item, set())

    def _follow(self, item: Definition, tried: set[Definition]) -> tuple[_Target, ...]:
        # Packages import from each other: `from . import core` in the package that `core` lies in.
        module = self.find_module(item.module)
        if module is None or item in tried:
            return ()
        tried.add(item)
        pieces = module.bound.get(item.name)
        if pieces is not None:
            if len(pieces) == 1 and pieces[0].only_import:
                ((where, name, _),) = pieces[0].imports
                return self._follow_import(where, name, tried)
            return (item,)
        # A submodule is set as an attribute of its package, in the place of the public name.
        is_export = item.name in module.exports and self.find_module(f"{item.module}.{item.name}") is None
        places = [module.exports[item.name]] if is_export else module.stars
        return next(filter(None, (self._follow(Definition(place, item.name), tried) for place in places)), ())

    def imported(self, where: str, name: str | None) -> tuple[_Target, ...]:
        """What `import where`, or `from where import name`, gives."""
        return self._follow_import(where, name, set())

    def _follow_import(self, where: str, name: str | None, tried: set[Definition]) -> tuple[_Target, ...]:
        module = where if name is None else f"{where}.{name}"
        if not self.counts(where):
            return (module,)
        targets = self._follow(Definition(where, name), tried) if name is not None else ()
        return targets or ((_Whole(module),) if name is None or self.find_module(module) is not None else ())

    def along(self, module: str, chain: tuple[str, ...], here: Mapping[str, Iterable[_Target]]) -> tuple[_Target, ...]:
        """What a name with the attributes taken of it stands for; `here` are names of imports inside the piece."""
        first, *attributes = chain
        targets = tuple(here[first]) if first in here else self.resolved(Definition(module, first))
        for attribute in attributes:
            targets = tuple(
                each
                for target in targets
                for each in (self.imported(target.module, attribute) if isinstance(target, _Whole) else (target,))
            )
        return targets

    def _is_open(self, item: Definition) -> bool:
        """Whether a class inherits from one of another package, which may call any member by its name."""
        for piece in self.pieces(item):
            for base in piece.bases:
                above = [each for each in self.along(item.module, base, {}) if isinstance(each, Definition)]
                if any(each != item and self._is_open(each) for each in above) or (
                    not above and base[-1] not in _QUIET
                ):
                    return True
        return False

    def _describe(self, item: Definition) -> _DefinitionText:
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
                    # A module that is imported counts as a whole where it is used as a whole.
                    if not isinstance(target, _Whole) or chain in piece.chains:
                        targets.append(target)
                    if chain in piece.chains:
                        texts.append(f"{'.'.join(chain)} = {self._label(target)}")
            for name, inner in piece.members.items():
                members[name] = any(member.always for member in inner) or self._is_open(item)
            for text in sorted(piece.texts):
                texts += self._content(item, text)
        if "." in item.name:
            texts.append(self._label(Definition(item.module, item.name.partition(".")[0])))
        return _DefinitionText("\n".join(texts), tuple(targets), frozenset(words), frozenset(loads), members)

    def _label(self, target: _Target) -> str:
        """Which definition it is, wherever it lies."""
        if not isinstance(target, Definition):
            return target if isinstance(target, str) else "a module"
        return target.name if self.is_out(target) else " ".join(piece.text for piece in self.pieces(target))

    def _content(self, item: Definition, text: str) -> Iterator[str]:
        """A file beside a module that a text names."""
        path = source_file(item.module)
        assert path is not None
        place = path.parent / text
        self._look_in(place.parent)
        if place.is_file():
            self.state.files[place] = _stamp(place)
            yield f"{place.relative_to(path.parent).as_posix()} {sha256_of(place)}"


#: What was found is shared by threads, such as those that make the pages of a site.
_ONE_AT_A_TIME = threading.Lock()
_ANSWERS: dict[str, _ReachedHash] = {}
_KEPT: dict[tuple[frozenset[str], frozenset[str]], _Sources] = {}


def _sources(packages: frozenset[str], without: frozenset[str]) -> _Sources:
    kept = _KEPT.get((packages, without))
    if kept is None or not kept.state.stands():
        kept = _KEPT[packages, without] = _Sources(packages, without)
    return kept


#: When a file or a folder was changed, when anything of it was, and its size.
_Stamp = tuple[int, int, int]


def _stamp(path: Path) -> _Stamp:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 0, 0, -1
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


@dataclass(frozen=True)
class _State:
    """What was looked at, as it was then.

    Attributes:
        files: files and folders.
    """

    files: dict[Path, _Stamp]

    def stands(self) -> bool:
        """Whether nothing of it has changed."""
        return all(_stamp(path) == stamp for path, stamp in self.files.items())


# What modules of a user's name ---------------------------------------------------------------------------------------


def bench_definitions(path: Path) -> tuple[list[Definition], set[str]]:
    """The definitions of bench that a module of a user's names, and the words in it that may name members of them.

    Raises:
        SyntaxError, ValueError, RecursionError: no Python can read it.
    """
    with _ONE_AT_A_TIME:
        module, sources = _parse_module("", path, _stamp(path)), _sources(frozenset({"bench"}), frozenset())
        pieces = [piece for bound in module.bound.values() for piece in bound]
        pieces += [member for piece in pieces for inner in piece.members.values() for member in inner]
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
            # What is taken of bench itself, its face, is found by its name.
            if isinstance(target, _Whole) and target.module != "bench" and sources.find_module(target.module):
                roots |= {*definitions(target.module)}
        return sorted(roots), {word for piece in pieces for word in piece.words}


def imports_of(source: bytes, inside: str) -> list[tuple[str, str | None, str]]:
    """(module, name in it or None, name here) of each import in a module of the package `inside`, wherever it stands.

    Raises:
        SyntaxError, ValueError, RecursionError: no Python can read it.
    """
    found = [node for node in ast.walk(syntax_tree(source)) if isinstance(node, _Import)]
    return [part for node in found for part in _imports(inside, node)]


def tree_digest(source: bytes) -> str:
    """sha256 of a module's syntax tree: comments and formatting do not count, and all else does.

    Raises:
        SyntaxError, ValueError, RecursionError: no Python can read it.
    """
    return hashlib.sha256(_dump_tree(syntax_tree(source)).encode("utf-8", "surrogatepass")).hexdigest()


# What is kept from one process to the next ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _ReachedHash:
    """A hash, and packages of others, with all that they were found from."""

    hash: str
    packages: list[str]
    state: _State

    def is_settled(self) -> bool:
        """Whether a file that is changed after this would show it: times have steps."""
        newest = max((max(stamp[:2]) for stamp in self.state.files.values()), default=0)
        return newest < time.time_ns() - 2_000_000_000


_K = TypeVar("_K")


@cache
def _answers() -> TypeAdapter[_ReachedHash]:
    return TypeAdapter(_ReachedHash)


@cache
def _modules() -> TypeAdapter[_Module]:
    return TypeAdapter(_Module)


def _cache_path(key: str) -> Path:
    return cache_folder() / "code" / f"{key}.json"


def _read_cached(kind: TypeAdapter[_K], key: str) -> _K | None:
    try:
        value: _K = kind.validate_json(_cache_path(key).read_bytes())
    except (OSError, ValidationError):
        return None
    return value


def _keep(kind: TypeAdapter[_K], key: str, value: _K) -> None:
    """A place that cannot be written costs time alone."""
    with suppress(OSError, BenchError), replacing(_cache_path(key)) as partial:
        partial.write_bytes(kind.dump_json(value))


# What a module says ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Piece:
    """A statement at the top of a module, or a member of a class there.

    Attributes:
        text: digest of its syntax tree; of a class, without its members.
        chains: names that it takes from outside, each with the attributes taken of it: ("ranks", "locate").
        words: attributes that it takes or sets of anything, and its texts.
        texts: texts in it that may be the name of a file or of a module.
        imports: (module, name in it or None, name here) of imports inside.
        computed: whether it finds something by a name that it computes.
        always: whether a member counts though nobody names it.
        only_import: whether it is nothing but an import.
        members, bases: of a class.
    """

    text: str = ""
    chains: frozenset[tuple[str, ...]] = frozenset()
    words: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    imports: tuple[tuple[str, str | None, str], ...] = ()
    computed: bool = False
    always: bool = False
    only_import: bool = False
    members: dict[str, list[_Piece]] = field(default_factory=dict)
    bases: tuple[tuple[str, ...], ...] = ()


@dataclass(eq=False)
class _Module:
    """What binds each name at the top of a module.

    Attributes:
        inside: the package that relative imports start from.
        effects: names of `bound` whose statements do something when the module is imported.
        imports: modules that it imports then.
        stars: modules of `from module import *`.
        exports: name -> module, of a package that imports its public names when they are first asked for: what it
            imports for type checkers, where it defines `__getattr__`.
    """

    inside: str
    bound: dict[str, list[_Piece]] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    stars: list[str] = field(default_factory=list)
    exports: dict[str, str] = field(default_factory=dict)

    def everything(self, name: str) -> Iterator[Definition]:
        """All that stands in the module of this name; what it imports counts where it is used."""
        for bound, pieces in self.bound.items():
            if not any(piece.only_import for piece in pieces):
                yield Definition(name, bound)
            for piece in pieces:
                yield from (Definition(name, f"{bound}.{member}") for member in piece.members)


def _module(name: str) -> _Module:
    path = source_file(name)
    if path is None:
        raise LookupError(f"{name} has no source file")
    return _parse_module(name, path, _stamp(path))


@cache
def _parse_module(name: str, path: Path, stamp: _Stamp) -> _Module:
    """A module as its source has it; `stamp` tells one state of the file from the next.

    To take a source apart takes a hundred times as long as to read what was found then. It is kept in the cache by the
    content of the source and of this file.
    """
    source = path.read_bytes()
    inside = name if path.name == "__init__.py" else name.rpartition(".")[0]
    key = hashlib.sha256(b"\0".join([_own_source(), name.encode(), inside.encode(), source])).hexdigest()
    module = _read_cached(_modules(), key)
    if module is None:
        module = _take_apart(source, inside)
        _keep(_modules(), key, module)
    return module


@cache
def _own_source() -> bytes:
    return Path(__file__).read_bytes()


def _take_apart(source: bytes, inside: str) -> _Module:
    module = _Module(inside)
    pending = list(syntax_tree(source).body)
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
                    item = _Piece(imports=((where, inner, alias),), only_import=True)
                    module.bound.setdefault(alias, []).append(item)
        elif not _is_docstring(node):
            _take_statement(module, node)
    if "__getattr__" not in module.bound:
        module.exports = {}
    return module


def _take_statement(module: _Module, node: ast.stmt) -> None:
    piece = _class(module, node) if isinstance(node, ast.ClassDef) else _piece(module, node)
    if isinstance(node, _Function | ast.ClassDef):
        names = [node.name]
        if _hooks(node) or (isinstance(node, ast.ClassDef) and node.keywords):
            module.effects.append(node.name)
    else:
        names = sorted(set().union(*map(_bound_here, _same_scope(node))))
        if _does_something(node) and ast.unparse(getattr(node, "test", ast.Constant(0))) != "__name__ == '__main__'":
            names.append(f"<{len(module.effects)}>")
            module.effects.append(names[-1])
    for name in names:
        module.bound.setdefault(name, []).append(piece)
    for child in ast.walk(node):
        if isinstance(child, ast.Lambda):
            module.bound.setdefault(_lambda(child.lineno), []).append(_piece(module, ast.Expr(child)))


def _does_something(node: ast.stmt) -> bool:
    """Whether a statement does more than give something a name. (What gives a name counts where that is used.)"""
    for child in _same_scope(node):
        if isinstance(child, ast.Expr) and not isinstance(child.value, ast.Constant):
            return True
        if isinstance(child, ast.Subscript | ast.Attribute) and not isinstance(child.ctx, ast.Load):
            return True
        if isinstance(child, ast.Delete | ast.Assert | ast.Raise | ast.With):
            return True
    return False


def _lambda(line: int) -> str:
    return f"<lambda> at {line}"


def _hooks(node: _Function | ast.ClassDef) -> list[ast.expr]:
    """Decorators that may do something with a definition, such as register it."""
    return [
        item
        for item in node.decorator_list
        if _chain(item.func if isinstance(item, ast.Call) else item)[-1] not in _PLAIN
    ]


def _class(module: _Module, node: ast.ClassDef) -> _Piece:
    """A class, its members apart."""
    inner = [child for child in node.body if isinstance(child, _Function)]
    rest = [child for child in node.body if not isinstance(child, _Function)]
    piece = _piece(module, ast.ClassDef(node.name, node.bases, node.keywords, rest, node.decorator_list))
    for child in inner:
        member = _piece(module, child)
        member.always = child.name.startswith(("__", "model_")) or bool(_hooks(child))
        piece.members.setdefault(child.name, []).append(member)
    piece.bases = tuple(_chain(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases)
    return piece


def _piece(module: _Module, node: ast.stmt) -> _Piece:
    # An annotation alone is nothing that runs.
    node = _Plain().visit(node) or ast.Pass()
    imports = tuple(
        part
        for child in ast.walk(node)
        if isinstance(child, _Import)
        for part in _imports(module.inside, child)
        if part[1] != "*"
    )
    outside = _uses(node) | {alias for _, _, alias in imports}
    written = _dump_tree(_Unnamed().visit(deepcopy(node)))
    piece = _Piece(hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:32], imports=imports)
    chains, words, texts, bases = set(), set(), set(), set()
    for child in ast.walk(node):
        if isinstance(child, ast.Attribute):
            words.add(child.attr)
            chain = _chain(child)
            if chain[0] in outside and id(child) not in bases:
                chains.add(chain)
            bases.add(id(child.value))
        elif isinstance(child, ast.Name):
            if id(child) not in bases and child.id in outside:
                chains.add((child.id,))
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            if child.value.isidentifier():
                words.add(child.value)
            if _NAMED.fullmatch(child.value):
                texts.add(child.value)
        elif isinstance(child, ast.MatchClass):
            words.update(child.kwd_attrs)
        elif isinstance(child, ast.Call):
            piece.computed |= _is_computed(child)
    piece.chains, piece.words, piece.texts = frozenset(chains), frozenset(words), frozenset(texts)
    return piece


def _is_computed(call: ast.Call) -> bool:
    """Whether a call finds something by a name that the source does not show."""
    called = _chain(call.func)[-1]
    if called in {"getattr", "hasattr", "setattr", "delattr"}:
        return len(call.args) < 2 or not isinstance(call.args[1], ast.Constant)
    if called in {"import_module", "__import__", "attrgetter", "methodcaller"}:
        return not all(isinstance(argument, ast.Constant) for argument in call.args)
    return called in {"vars", "globals", "locals", "eval", "exec"}


def _chain(node: ast.AST) -> tuple[str, ...]:
    """The name that attributes are taken of, and these; an empty name where it is no name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else "", *reversed(parts))


class _Plain(ast.NodeTransformer):
    """Takes out what says nothing of what code does."""

    def __init__(self) -> None:
        self.in_class = False

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        # A decorator may look at annotations, as functools.singledispatch does.
        if not _hooks(node):
            node.returns = None
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
        return self._inside(node, in_class=False)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node, in_class=True)

    def _inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, *, in_class: bool) -> ast.AST:
        around, self.in_class = self.in_class, in_class
        node.body = [child for child in node.body if not _is_docstring(child)]
        self.generic_visit(node)
        self.in_class = around
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        # In a class it declares a field.
        if self.in_class:
            return self.generic_visit(node)
        return self.visit(ast.Assign([node.target], node.value)) if node.value is not None else None

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc.args = [part for part in node.exc.args if not (isinstance(part, ast.JoinedStr) or _is_text(part))]
        return self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        # Some versions of Python put an empty text between two values.
        node.values = [part for part in node.values if not (isinstance(part, ast.Constant) and part.value == "")]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _chain(node.func)[-1] == "Field":
            node.keywords = [item for item in node.keywords if item.arg != "description"]
        return self.generic_visit(node)


class _Unnamed(ast.NodeTransformer):
    """Gives local variables numbers for names, in the order in which they are bound, and leaves out imports.

    What an import brings counts where it is used. Parameters, and functions, classes and imports inside a function,
    keep their names, and so does all in a function that may ask for variables by name (`locals`, `eval`, ...).
    """

    def __init__(self) -> None:
        self._number = 0
        #: From the outermost scope to the innermost: name -> what stands for it.
        self._scopes: list[dict[str, str]] = []

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        return None

    visit_ImportFrom = visit_Import  # noqa: N815

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._name(node.id)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar) -> ast.AST:
        node.name = node.name and self._name(node.name)
        return self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_ExceptHandler  # noqa: N815

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        node.rest = node.rest and self._name(node.rest)
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self._name(name) for name in node.names]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        # Decorators, and defaults of parameters, are evaluated outside.
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        node.args = self.visit(node.args)
        return self._inside(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args = self.visit(node.args)
        return self._inside(node, [node.body])

    def _inside(self, node: _Function | ast.Lambda, body: list[ast.stmt] | list[ast.expr]) -> ast.AST:
        here = [child for statement in body for child in _same_scope(statement)]
        named = {name for child in here if isinstance(child, ast.Global | ast.Nonlocal) for name in child.names}
        kept = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        kept |= {name for child in here if isinstance(child, ast.Global) for name in child.names}
        # Of other functions' variables (`nonlocal`) the outer scope says the name.
        bound = [name for child in here for name in _bound_here(child) if name not in named]
        by_name = {name for child in here if isinstance(child, _KeepsName) for name in _bound_here(child)}
        if any(isinstance(child, ast.Call) and _asks_for_names(child) for child in ast.walk(node)):
            by_name |= set(bound)
        self._enter(bound, kept | by_name)
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.body = [new for child in node.body if (new := self.visit(child)) is not None]
        self._scopes.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        for field_name in ("decorator_list", "bases", "keywords"):
            setattr(node, field_name, [self.visit(item) for item in getattr(node, field_name)])
        bound = {name for child in node.body for part in _same_scope(child) for name in _bound_here(part)}
        body = []
        for child in node.body:
            # Functions of a class do not see its names.
            scope = {} if isinstance(child, _Function) else {name: name for name in bound}
            self._scopes.append(scope)
            if (new := self.visit(child)) is not None:
                body.append(new)
            self._scopes.pop()
        node.body = body
        return node

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> ast.AST:
        first = node.generators[0]
        first.iter = self.visit(first.iter)
        targets = [part.target for part in node.generators]
        self._enter([name for target in targets for child in ast.walk(target) for name in _bound_here(child)], set())
        for part in node.generators:
            part.target = self.visit(part.target)
            if part is not first:
                part.iter = self.visit(part.iter)
            part.ifs = [self.visit(item) for item in part.ifs]
        if isinstance(node, ast.DictComp):
            node.key, node.value = self.visit(node.key), self.visit(node.value)
        else:
            node.elt = self.visit(node.elt)
        self._scopes.pop()
        return node

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp  # noqa: N815

    def _enter(self, bound: Iterable[str], kept: set[str]) -> None:
        scope = {name: name for name in kept}
        for name in bound:
            if name not in scope:
                scope[name] = f"variable {self._number}"
                self._number += 1
        self._scopes.append(scope)

    def _name(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), name)


def _asks_for_names(call: ast.Call) -> bool:
    return _chain(call.func)[-1] in {"vars", "locals", "eval", "exec", "dir"}


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


def _uses(node: ast.AST) -> set[str]:
    """Names that a piece of code takes from outside itself."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, _Function | ast.Lambda):
        inner = node.body if isinstance(node.body, list) else [node.body]
        local_names = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        for statement in inner:
            for child in _same_scope(statement):
                local_names.update(_bound_here(child))
        for statement in inner:
            for child in _same_scope(statement):
                if isinstance(child, ast.Global):
                    local_names -= set(child.names)
        around = [node.args] if isinstance(node, ast.Lambda) else [node.args, *node.decorator_list, node.returns]
        return (set().union(*map(_uses, inner)) - local_names).union(
            *(_uses(part) for part in around if part is not None)
        )
    if isinstance(node, _Comprehension):
        targets = {name for part in node.generators for inner in ast.walk(part.target) for name in _bound_here(inner)}
        return (set().union(*map(_uses, ast.iter_child_nodes(node))) - targets) | _uses(node.generators[0].iter)
    return set().union(*map(_uses, ast.iter_child_nodes(node)))


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


def _dump_tree(node: ast.AST) -> str:
    """A tree as text: kinds and fields that are there, so that versions of Python agree on it."""
    parts = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in _IGNORED or value is None or value == []:
            continue
        if isinstance(value, list):
            inner = ",".join(_dump_tree(child) if isinstance(child, ast.AST) else repr(child) for child in value)
            parts.append(f"{name}=[{inner}]")
        else:
            parts.append(f"{name}={_dump_tree(value) if isinstance(value, ast.AST) else repr(value)}")
    return f"({' '.join(parts)})"


#: Up to Python 3.12 the interpreter counts the depth of trees that it builds for all threads together, so two that
#: parse at the same time fail with `SystemError: AST constructor recursion depth mismatch`.
_PARSING = threading.Lock()


def syntax_tree(source: bytes) -> ast.Module:
    """The tree of a module's source; raises `SyntaxError`."""
    with _PARSING:
        return ast.parse(source)
