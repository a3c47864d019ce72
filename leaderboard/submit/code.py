"""The source files of a plug-in method in a submission: which files, under which names.

They are members of the archive, `code/mymethod.py` or `code/mypackage/ranker.py`, so their names are names of modules
below the folder `code`. They are read as bytes; only a re-run in the sandbox imports them. `command` packs them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from bench.base.errors import ResultError, UsageError
from bench.base.paths import read_regular
from bench.base.spec import Spec, Value

FOLDER = "code"
MOST_FILES = 200
#: Maximum bytes of one file, and of all files together.
LARGEST_FILE = 1 << 20
LARGEST_CODE = 4 << 20
_LONGEST_NAME = 200
_PART = r"[A-Za-z_][A-Za-z0-9_]*"
_NAME = re.compile(rf"{FOLDER}/(?:{_PART}/)*{_PART}\.py")


def is_code(name: str) -> bool:
    """Whether a member's name is that of a source file: a Python module in folders with plain names."""
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def plugins(spec: Spec) -> list[str]:
    """Names of the form `module:Class` in a spec and in the specs within it, sorted."""
    return sorted({name for name in names(spec) if ":" in name})


def names(spec: Spec) -> Iterator[str]:
    """Names of the method of a spec and of the methods within it."""
    yield spec.name
    for value in values(spec):
        if isinstance(value, Spec):
            yield value.name


def values(spec: Spec) -> Iterator[Value]:
    """Every value in a spec, nested ones included."""
    pending: list[Value] = [value for _, value in spec.arguments]
    while pending:
        value = pending.pop()
        yield value
        if isinstance(value, Spec):
            pending += [inner for _, inner in value.arguments]
        elif isinstance(value, tuple):
            pending += value


def source_files(place: Path, spec: Spec) -> dict[str, bytes]:
    """The source files of the plug-in that a spec names, as members of an archive.

    Args:
        place: a module's file, the folder of the package that the spec names, or a folder that contains its modules.
        spec: of the method.

    Raises:
        UsageError: the spec names no plug-in, or one that is not in this place; there are links, or too many or too
            large files.
        ResultError: a file cannot be read.
    """
    wanted = plugins(spec)
    if not wanted:
        raise UsageError(
            f"{spec} is a registered method, which needs no --code: any installation of this version can run it again."
        )
    files: dict[str, bytes] = {}
    try:
        for name, path in _modules(place, {name.partition(".")[0].partition(":")[0] for name in wanted}):
            if not is_code(name):
                raise UsageError(f"{path} cannot be packed: its name is too long or is not that of a Python module.")
            files[name] = read_regular(path)
            if len(files[name]) > LARGEST_FILE:
                raise UsageError(f"{path} has more than {LARGEST_FILE} bytes, which is too large for a submission.")
            if len(files) > MOST_FILES or sum(map(len, files.values())) > LARGEST_CODE:
                raise UsageError(
                    f"{place} has more than {MOST_FILES} modules or {LARGEST_CODE} bytes of code, which is too much "
                    "for a submission; name the file or the package of the method."
                )
    except OSError as error:
        raise ResultError(f"cannot read {error.filename}: {error.strerror}.") from None
    for name in wanted:
        inside = name.partition(":")[0].replace(".", "/")
        if not {f"{FOLDER}/{inside}.py", f"{FOLDER}/{inside}/__init__.py"} & files.keys():
            raise UsageError(f"{place} does not contain the module of {name}; give --code its file or its folder.")
    return files


def _modules(place: Path, packages: set[str]) -> Iterator[tuple[str, Path]]:
    """Member names and paths of the modules in a place; names that cannot be imported are left out."""
    if place.is_symlink():
        raise UsageError(f"{place} is a link; name the file or the folder itself.")
    if not place.is_dir():
        yield f"{FOLDER}/{place.name}", place
        return
    root = Path(os.path.abspath(place))
    base = root.parent if root.name in packages and (root / "__init__.py").is_file() else root

    def fail(error: OSError) -> None:
        raise error

    for here, folders, files in os.walk(root, onerror=fail):
        folders[:] = sorted(name for name in folders if re.fullmatch(_PART, name) and name != "__pycache__")
        for name in (*folders, *sorted(files)):
            path = Path(here, name)
            if name in folders or re.fullmatch(rf"{_PART}\.py", name):
                if path.is_symlink():
                    raise UsageError(f"{path} is a link; a submission takes files and folders only.")
                if name in files:
                    yield f"{FOLDER}/{path.relative_to(base).as_posix()}", path
