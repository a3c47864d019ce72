"""What a user's code has used: its modules, the files that it has read, and other packages. Ids of results use it.

The text of Python code does not show what it uses, so it is watched, as build systems watch a step (verifying traces:
Mokhov, Mitchell & Peyton Jones 2018, "Build systems à la carte"). While a user's method is imported, built and called,
an audit hook sees each executed module and each opened file, and a wrapper of Python's import sees modules that were
already loaded. Each is recorded for the file whose code requested it: the nearest user file on the stack. A method has
used its own file and everything that follows from it.

A user's file is one that belongs to neither bench, nor Python, nor an installed package; packages installed in place
(`pip install -e`) are the user's. A process cannot see environment variables, the clock, the network, what a child
process reads, and files that a compiled library opens itself.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import importlib
import os
import stat
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from bench.base.errors import UsageError
from bench.base.packages import versions_of
from bench.base.paths import cache_folder, remembered_digest, results_folder, sha256_of
from bench.base.records import Record
from bench.identity.reach import Definition, bench_definitions, imports_of, tree_digest
from bench.identity.sources import BENCH, INSTALLED, PACKAGED, Stamp, is_installed, stamp_of

#: In place of a digest: the file does not exist; the file exists, and the code has checked no more than that.
_ABSENT, _THERE = "absent", "there"
#: Files that compiled libraries read themselves, after Python has checked that they exist.
_BY_OTHERS = (
    *(".safetensors", ".bin", ".gguf", ".onnx", ".pt", ".pth", ".model", ".npy", ".npz", ".faiss", ".index"),
    *(".parquet", ".arrow", ".feather", ".h5", ".hdf5", ".db", ".sqlite", ".duckdb", ".so"),
)
#: The system's folders.
_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr/share", "/usr/lib", "/usr/local/lib")
_READS = frozenset({"open", "os.listdir", "os.scandir", "sqlite3.connect", "ctypes.dlopen"})
#: Events that leave the process, and their names.
_LEAVES = {
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork"), "a child process"),
    **dict.fromkeys(("socket.connect", "socket.getaddrinfo"), "the network"),
}
_EVENTS = _READS | _LEAVES.keys() | {"exec", "os.rename"}
#: Maximum bytes of a module whose digest is cached: parsing a module is slow.
_LARGE = 1 << 12
_NO_PACKAGES = sys.stdlib_module_names | {"bench"}
_WRITES = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
#: Folders of version control: code reads them to find out its version.
_HISTORIES = frozenset({".git", ".hg", ".svn"})
#: Prefixes and parts of all paths of Python's own modules and of installed packages.
_BEGIN = tuple(f"{place}{os.sep}" for place in INSTALLED)
_HOLD = tuple(f"{os.sep}{name}{os.sep}" for name in PACKAGED)
#: Files of `_Uses`.
_States = dict[str, Stamp | str | None]


class Used(Record):
    """What the code of a method has used.

    Attributes:
        files: path, relative to the folder of the method's module or package -> digest: of a module's syntax tree,
            of another file's bytes, of the names in a listed folder; `absent` for a requested file that does not exist.
        packages: installed packages that the user's modules import -> version.
    """

    files: dict[str, str]
    packages: dict[str, str]

    def digest(self) -> str:
        """sha256 over everything."""
        return hashlib.sha256(repr((sorted(self.files.items()), sorted(self.packages.items()))).encode()).hexdigest()

    def includes(self, other: Used) -> bool:
        """Whether it contains everything that another lists, with the same digests and versions."""
        return self.files.items() >= other.files.items() and self.packages.items() >= other.packages.items()


@dataclass
class _Uses:
    """What the code of one file has requested.

    Attributes:
        files: path -> its state at the last request: None if it did not exist, a text if its digest is known
            because this process has written it since, or the code only checked whether it exists.
        packages: other packages, by the names under which they are imported.
        imports: results of imports, so that one inside a function is recorded once.
    """

    files: _States = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)
    imports: set[tuple[str, ...]] = field(default_factory=set)


@dataclass
class _Watch:
    """The record of a watch.

    Attributes:
        written: files that the process wrote.
        outside: what else the user's code accessed: environment variables, and events that leave the process.
        nobody: requests without a user's file on the stack, as in a thread of a library.
    """

    depth: int = 0
    written: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    nobody: _Uses = field(default_factory=_Uses)


_uses: defaultdict[str, _Uses] = defaultdict(_Uses)
#: Files whose modules were executed during a watch, so that all their imports are recorded.
_executed: set[str] = set()
#: Modules' files -> their state when they were executed, or first seen.
_loaded: dict[str, Stamp | None] = {}
#: (path, state) -> digest, of earlier records.
_digests: dict[tuple[str, Stamp], str] = {}
_watch = _Watch()
_LOCK = threading.RLock()
_stat, _variable = os.stat, type(os.environ).__getitem__
_import, _import_by_name = builtins.__import__, importlib._bootstrap._gcd_import  # type: ignore[attr-defined]


# Owners of files ----------------------------------------------------------------------------------------------------


@functools.cache
def _whose(file: str) -> Literal["bench", "user", "other"]:
    """The owner of a file's code, by its name in a code object or a module."""
    # Do not call a watched function here: it would ask for the owner again.
    if not os.path.isabs(file) or stamp_of(file) is None:
        return "other"
    path = Path(file)
    if any(map(path.is_relative_to, BENCH)):
        return "bench"
    return "other" if is_installed((file,)) or path.is_relative_to(cache_folder()) else "user"


def _file_of(module: str) -> str:
    """The file of a loaded module; empty if it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return os.path.abspath(file) if isinstance(file, str) else ""


def user_file(module: str) -> str:
    """The file of a user's loaded module; empty if it has none or is not a user's."""
    file = _file_of(module)
    return file if file and _whose(file) == "user" else ""


def _asking(frame: FrameType | None) -> tuple[_Uses | None, FrameType | None]:
    """Where to record a frame's requests, with the frame of the user's code; None if bench itself makes them."""
    while frame is not None:
        file = frame.f_code.co_filename
        whose = _whose(file)
        if whose == "user":
            return _uses[os.path.abspath(file)], frame
        if whose == "bench":
            return None, None
        frame = frame.f_back
    return _watch.nobody, None


def _pass_over(frame: FrameType | None, *modules: str) -> FrameType | None:
    """The nearest frame on the stack whose code is in none of these modules."""
    while frame is not None and frame.f_globals.get("__name__") in modules:
        frame = frame.f_back
    return frame


# Watching -----------------------------------------------------------------------------------------------------------


@contextmanager
def watch_use() -> Iterator[_Watch]:
    """Record what users' code requests in the block, in any thread."""
    _listen()
    with _LOCK:
        if not _watch.depth:
            _watch.written, _watch.outside, _watch.nobody = set(), set(), _Uses()
            for owner, name, _, ours in _WRAPPED:
                setattr(owner, name, ours)
        _watch.depth += 1
    try:
        yield _watch
    finally:
        with _LOCK:
            _watch.depth -= 1
            for owner, name, theirs, ours in () if _watch.depth else _WRAPPED:
                # Whoever has wrapped one of our wrappers keeps it: it passes calls on.
                if getattr(owner, name) is ours:
                    setattr(owner, name, theirs)


@functools.cache
def _listen() -> None:
    """Install the audit hook once: Python cannot remove it."""
    sys.addaudithook(_hook)


def _hook(event: str, given: tuple[Any, ...]) -> None:
    if event not in _EVENTS or not _watch.depth:
        return
    uses, frame = _asking(sys._getframe(1))
    if event == "exec":
        if given[0].co_name == "<module>" and _whose(file := given[0].co_filename) == "user":
            file = os.path.abspath(file)
            _executed.add(file)
            _uses[file], _loaded[file] = _Uses(), stamp_of(file)
            if uses is not None:
                _note(uses, file)
    elif event in _LEAVES:
        if frame is not None:
            _watch.outside.add(_LEAVES[event])
    elif uses is not None and isinstance(given[0], str | bytes | os.PathLike):
        if event == "os.rename":
            _write(os.fsdecode(given[1]))
        elif event == "open" and given[2] & _WRITES:
            _write(os.fsdecode(given[0]))
        elif event == "open" or sys._getframe(1).f_globals.get("__name__") != "importlib._bootstrap_external":
            path = _note(uses, os.fsdecode(given[0]))
            if event == "sqlite3.connect" or (event == "open" and given[2] & os.O_RDWR):
                _write(path)


def _note(uses: _Uses, path: str, *, only_there: bool = False) -> str:
    """Record that a file is requested, in its current state."""
    path = os.path.abspath(path)
    # Sources stand for compiled files. What a pipe or a device returned cannot be read again.
    with suppress(OSError, ValueError):
        kind = _stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            return path
    aside = path.startswith(_BEGIN) or any(part in path for part in (*_HOLD, f"{os.sep}__pycache__"))
    if not aside and not path.endswith(".pyc") and path not in _watch.written:
        if not only_there:
            uses.files[path] = stamp_of(path)
        elif uses.files.get(path) is None:
            uses.files[path] = _THERE
    return path


def _write(path: str) -> None:
    """Record that the process writes a file: if it was read before, its state until now was used."""
    path = os.path.abspath(path)
    for uses in list(_uses.values()):
        stamp = uses.files.get(path)
        if isinstance(stamp, tuple):
            uses.files[path] = digest_of(path)
        elif path in uses.files and stamp is None:
            del uses.files[path]
    _watch.written.add(path)


def _noted_stat(path: Any, *given: Any, **named: Any) -> os.stat_result:
    """`os.stat`, by which code checks whether a file exists."""
    status = None
    try:
        status = _stat(path, *given, **named)
    finally:
        if (status is None or stat.S_ISREG(status.st_mode)) and isinstance(path, str | bytes | os.PathLike):
            uses, name = _asking(sys._getframe(1))[0], os.fsdecode(path)
            if uses is not None:
                _note(uses, name, only_there=status is not None and not name.endswith(_BY_OTHERS))
    return status


def _noted_variable(self: Any, name: Any) -> Any:
    """`os.environ[name]`."""
    frame = _pass_over(sys._getframe(1), "os", "collections.abc")
    if isinstance(name, str) and frame is not None and _whose(frame.f_code.co_filename) == "user":
        _watch.outside.add(f"the variable {name}")
    return _variable(self, name)


def _noted_import(find: Callable[..., Any], name: str, *given: Any, **named: Any) -> Any:
    """`import name`, `from name import fromlist`, and `importlib.import_module(name)`, around the real import."""
    asks = sys._getframe(1)
    takes = ("globals", "locals", "fromlist", "level") if find is _import else ("package", "level")
    said = dict(zip(takes, given, strict=False)) | named
    fromlist, level = said.get("fromlist") or (), said.get("level", 0)
    try:
        module = find(name, *given, **named)
    except ImportError:
        if level == 0:
            _note_import(asks, [], name)
        raise
    # `import a.b` gives `a`.
    full = name if find is _import and not fromlist and not level else getattr(module, "__name__", name)
    if isinstance(full, str):
        _note_import(asks, [full, *(f"{full}.{each}" for each in fromlist if isinstance(each, str))], name)
    return module


def _note_import(asks: FrameType, modules: list[str], name: str) -> None:
    """Record the result of an import: modules, or none if no module has this name."""
    uses, frame = _asking(asks)
    if uses is None or (name, *modules) in uses.imports:
        return
    uses.imports.add((name, *modules))
    direct = _pass_over(asks, "importlib", "importlib._bootstrap") is frame is not None
    for module in modules:
        _note_module(uses, module, direct=direct)
    late = frame is not None and frame.f_code.co_name != "<module>"
    if direct and frame is not None and (not modules or (late and not user_file(modules[0]))):
        # A module of this name that appears later would be imported instead.
        for place in sys.path:
            folder = os.path.abspath(place)
            if frame.f_code.co_filename.startswith(folder + os.sep) and not is_installed((folder,)):
                inner = os.path.join(folder, *name.split("."))
                _note(uses, inner + ".py")
                _note(uses, os.path.join(inner, "__init__.py"))


def _note_module(uses: _Uses, name: str, *, direct: bool) -> None:
    """Record a loaded module and its parent packages."""
    while name:
        file = _file_of(name)
        if user_file(name):
            # Its code is that of the time when it was executed.
            uses.files.setdefault(file, _loaded.setdefault(file, stamp_of(file)))
        elif direct and sys.modules.get(name) is not None and "." not in name and _whose(file) != "bench":
            uses.packages |= {name} - _NO_PACKAGES
        name = name.rpartition(".")[0]


#: Functions that are wrapped during a watch: owner, name, original, replacement.
_WRAPPED: tuple[tuple[Any, str, Any, Any], ...] = (
    (builtins, "__import__", _import, functools.partial(_noted_import, _import)),
    (importlib._bootstrap, "_gcd_import", _import_by_name, functools.partial(_noted_import, _import_by_name)),
    (os, "stat", _stat, _noted_stat),
    (type(os.environ), "__getitem__", _variable, _noted_variable),
)


# Result of a watch --------------------------------------------------------------------------------------------------


def use_of(modules: Iterable[str], named: Iterable[str] = ()) -> Used:
    """What a user's modules have used so far in this process.

    Args:
        modules: names of loaded modules; paths are relative to the first.
        named: files that the method's parameters name.

    Raises:
        UsageError: a file was edited after this process had read it, so its content is not what ran.
    """
    modules = list(modules)
    base = base_of(modules[0])
    elsewhere, hub = _elsewhere(base), Path(os.path.expanduser(os.environ.get("HF_HOME", "~/.cache/huggingface")))
    own = _Uses()
    for name in modules:
        _note_module(own, name, direct=True)
        file = _file_of(name)
        # A package that is not installed as one is known only by its file.
        if not user_file(name) and not (file and versions_of([name.partition(".")[0]])):
            if not os.path.isfile(file):
                raise UsageError(
                    "the code of the method cannot be read, so it cannot identify a result "
                    f"({name} has no source file); save it in a .py file."
                )
            own.files[file] = _loaded.setdefault(file, stamp_of(file))
    packages, seen = own.packages | _watch.nobody.packages, set[str]()
    found = {path: stamp_of(path) for path in map(os.path.abspath, named)} | own.files
    pending = [*own.files, *_take(_watch.nobody, found)]
    while pending:
        path = pending.pop()
        if path not in seen:
            seen.add(path)
            uses = _uses.get(path, _Uses()) if path in _executed else _stated(path)
            packages |= uses.packages
            pending += _take(uses, found)
    digests = {}
    for path, state in found.items():
        place = Path(path)
        # For models of the Hub, the commit behind a name counts.
        told = place.is_relative_to(hub) and place.parent.name != "refs"
        if not told and not any(map(place.is_relative_to, elsewhere)) and _HISTORIES.isdisjoint(place.parts):
            digests[os.path.relpath(path, base)] = _digest_then(path, state)
    return Used(files=dict(sorted(digests.items())), packages=versions_of(packages))


def _take(uses: _Uses, found: _States) -> list[str]:
    for path, state in list(uses.files.items()):
        if path not in found or found[path] == _THERE or (isinstance(state, str) and state != _THERE):
            found[path] = state
    return list(uses.files)


def _digest_then(path: str, state: Stamp | str | None) -> str:
    """The digest of a file at the time of the request."""
    if not isinstance(state, tuple):
        return state or _ABSENT
    digest = digest_of(path)
    if not os.path.isdir(path):
        if stamp_of(path) != state and _digests.get((path, state)) != digest:
            raise UsageError(
                f"{path} was edited after this process had imported or read it, so that the old one would run under "
                "the name of the new; start the process (or the notebook) again."
            )
        _digests[path, state] = digest
    return digest


def count_used(used: Used, module: str) -> None:
    """Add what an earlier process has used to this one."""
    base = base_of(module)
    for path, digest in used.files.items():
        _watch.nobody.files.setdefault(os.path.normpath(os.path.join(base, path)), digest)
    _watch.nobody.packages.update(used.packages)


def times_noted() -> int:
    """A number that grows with each newly recorded file."""
    return sum(len(uses.files) for uses in [*_uses.values(), _watch.nobody])


def used_now(used: Used, module: str) -> Used:
    """The same files and packages in their current state; paths are relative to `module`."""
    base = base_of(module)
    files = {}
    for path, digest in used.files.items():
        now = digest_of(os.path.normpath(os.path.join(base, path)))
        files[path] = _THERE if digest == _THERE and now != _ABSENT else now
    return Used(files=files, packages=versions_of(used.packages))


def definitions_used(used: Used, modules: list[str]) -> tuple[list[Definition], set[str]]:
    """The definitions of bench that users' modules use, and all words in them that may name their members.

    Args:
        used: what they have used.
        modules: those of the method; paths are relative to the first.
    """
    base, roots, words = base_of(modules[0]), list[Definition](), set[str]()
    files = [os.path.normpath(os.path.join(base, path)) for path in used.files]
    for path in {*files, *map(_file_of, modules)}:
        if path.endswith(".py") and os.path.isfile(path):
            with suppress(SyntaxError, ValueError, RecursionError):
                more, said = bench_definitions(Path(path))
                roots += more
                words |= said
    return roots, words


def base_of(module: str) -> str:
    """The folder that contains the package of a module, or the module itself."""
    file = Path(_file_of(module))
    depth = module.count(".") + (file.name == "__init__.py")
    return str(file.parents[depth]) if depth < len(file.parents) else str(file.parent)


def digest_of(path: str) -> str:
    """The state of a file, which changes with it (see `Used.files`)."""
    with suppress(OSError, ValueError):
        status = _stat(path)
        if stat.S_ISDIR(status.st_mode):
            names = sorted(name for name in os.listdir(path) if name != "__pycache__" and not name.endswith(".pyc"))
            return hashlib.sha256(repr(names).encode("utf-8", "surrogatepass")).hexdigest()
        if stat.S_ISREG(status.st_mode):
            module = path.endswith(".py")
            return remembered_digest(Path(path), *((tree_digest, _LARGE) if module else (sha256_of,)))
    return _ABSENT


def _stated(path: str) -> _Uses:
    """What a module imports according to its text, if it was loaded before the watch."""
    uses = _uses.get(path, _Uses())
    uses = _Uses(dict(uses.files), set(uses.packages))
    name = next((name for name in list(sys.modules) if _file_of(name) == path), "") if path.endswith(".py") else ""
    with suppress(SyntaxError, ValueError, RecursionError, OSError):
        for full in imports_of(Path(path), name) if name else ():
            _note_module(uses, full, direct=True)
    return uses


def _elsewhere(base: str) -> list[Path]:
    """Folders whose files are recorded in another way, or cannot change a ranking."""
    places = [*map(Path, _SYSTEM), cache_folder(), results_folder().absolute(), *BENCH]
    # What compilers and libraries leave there belongs to this run.
    temporary = Path(tempfile.gettempdir())
    return places if Path(base).is_relative_to(temporary) else [*places, temporary]
